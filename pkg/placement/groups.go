// Package placement turns the decisions of OCM Placements into the members of
// a rollout and their groups.
package placement
