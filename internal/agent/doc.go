// Package agent is the part of Fleet Rollout that runs on a managed cluster. It
// answers one question for each rollout on its cluster: is what was delivered
// there, at exactly the delivered content, and healthy?
//
//	hub: RolloutDeliveries of this cluster ─► deliveries ┐
//	                                                     ├─► evaluate ─► reporter ─► condition on the
//	managed cluster: objects with our label ─► watches ──┘                           ManagedClusterAddOn
//	                                                              lease ─► Lease on the hub
//
// evaluate is pure. Everything else is input or output: watches push, a slow
// resync pulls, and the reporter writes only what changed. Nothing is written
// on the managed cluster, and no Secret is read there.
//
// The Lease says that the reports can be believed. So it is renewed only while
// the managed cluster's API answers, every present delivery has been evaluated,
// and no changed report waits to be written.
package agent
