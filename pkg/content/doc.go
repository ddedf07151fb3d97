// Package content knows what one object of a rollout's content may be, and what
// overrides make of it for a managed cluster. It has no client and no clock, and
// the same input gives the same output, whatever the order of maps.
//
// Merging is left to the libraries that Kustomize is made of. Objects reach them
// as trees of nodes and never as text, so that what stands in a label of a
// cluster cannot become YAML.
package content
