// Package agent holds the objects that the addon puts on a managed cluster.
// They are complete, readable YAML: pkg/addon only sets what differs from
// cluster to cluster (namespace, image, name of the cluster).
package agent

import "embed"

// Files are the objects, one or more per file, in the order of their names.
//
//go:embed *.yaml
var Files embed.FS
