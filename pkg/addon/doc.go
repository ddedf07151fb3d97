// Package addon makes Fleet Rollout an addon of Open Cluster Management: what
// is installed on a managed cluster, how the agent there gets its identity on
// the hub, and what this identity may do.
//
//	ManagedClusterAddOn "fleet-rollout" in the cluster's namespace
//	  ├─ Manifests        ─► ManifestWork ─► the agent's Deployment
//	  ├─ permissions      ─► Role, RoleBinding and Lease in the cluster's namespace
//	  └─ certificate      ─► request of the registration agent, approved by approveRequest
//
// The work is done by addon-framework. This package narrows it in two places:
// the framework's ready-made RBAC binds to groups that are wider than one
// cluster, and its approver compares the requester by prefix, so that cluster
// c10 may ask for the certificate of c1.
package addon
