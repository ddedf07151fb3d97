// Package v1alpha1 is the API of Fleet Rollout, group
// rollout.open-cluster-management.io.
//
// All kinds live on the hub. A FleetRollout is what a user writes. The manager
// freezes its content into RolloutRevisions, and keeps one RolloutDelivery per
// rollout and managed cluster, in the namespace of that cluster: the record of
// what the cluster shall have and has.
//
// +kubebuilder:object:generate=true
// +groupName=rollout.open-cluster-management.io
package v1alpha1
