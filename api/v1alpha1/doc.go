// Package v1alpha1 is the API of Fleet Rollout, group
// rollout.open-cluster-management.io.
//
// All kinds live on the hub. A FleetRollout is what a user writes. The manager
// freezes its content into RolloutRevisions, and keeps one RolloutDelivery per
// rollout and managed cluster, in the namespace of that cluster: the record of
// what the cluster shall have and has.
//
// # Where a rule lives
//
// A rule about one field, a unique name or a transition is a marker here and
// ends up in the CRD. Two sorts of rules do not fit there and are in
// manifests/admission: what is inside a manifest, because a CRD has no schema
// for it; and whatever reads a number-or-percentage, because the API server
// takes such a field for a string without bound (before Kubernetes 1.34 even
// with maxLength) and refuses the rule as too expensive.
//
// A message says what is wrong and how to mend it. It leaves the field out
// where the API server puts the path in front by itself.
//
// +kubebuilder:object:generate=true
// +groupName=rollout.open-cluster-management.io
package v1alpha1
