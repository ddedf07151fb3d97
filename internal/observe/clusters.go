package observe

import (
	"context"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/liveness"
	"open-cluster-management.io/fleet-rollout/internal/rollout"
)

// clusterReads is what the clusters of a rollout are made of.
type clusterReads struct {
	selected []string
	own      map[string]*v1alpha1.RolloutDelivery
	foreign  map[string]*v1alpha1.RolloutDelivery
}

// readClusters returns every cluster that is selected now or has a delivery, by
// name.
func (o *Observer) readClusters(ctx context.Context, reads clusterReads) ([]rollout.Cluster, error) {
	selected := make(map[string]bool, len(reads.selected))
	names := slices.Clone(reads.selected)
	for _, name := range reads.selected {
		selected[name] = true
	}
	for name := range reads.own {
		if !selected[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)

	clusters := make([]rollout.Cluster, 0, len(names))
	for _, name := range names {
		managed, err := o.readManagedCluster(ctx, name)
		if err != nil {
			return nil, err
		}
		cluster := clusterFrom(name, managed, reads.own[name])
		cluster.Selected = selected[name]
		state, err := o.agentState(ctx, name)
		if err != nil {
			return nil, err
		}
		setReachability(&cluster, state)
		cluster.Blocked = whyForeign(reads.foreign[name])
		clusters = append(clusters, cluster)
	}
	return clusters, nil
}

// readManagedCluster returns nil if the ManagedCluster does not exist.
func (o *Observer) readManagedCluster(ctx context.Context, name string) (*clusterv1.ManagedCluster, error) {
	var managed clusterv1.ManagedCluster
	err := o.Client.Get(ctx, types.NamespacedName{Name: name}, &managed, client.UnsafeDisableDeepCopy)
	if ignoreNotFound(err) != nil {
		return nil, fmt.Errorf("read managed cluster %q: %w", name, err)
	}
	if err != nil {
		return nil, nil
	}
	return &managed, nil
}

// agentState returns what is known of the agent. Right after the start the
// Lease may be in the cache and not yet in the tracker; a cluster must not look
// lost for that moment.
func (o *Observer) agentState(ctx context.Context, cluster string) (liveness.State, error) {
	state := o.Liveness.State(cluster)
	if state.Seen {
		return state, nil
	}
	var lease coordinationv1.Lease
	key := types.NamespacedName{Namespace: cluster, Name: v1alpha1.AgentLeaseName}
	err := o.Client.Get(ctx, key, &lease, client.UnsafeDisableDeepCopy)
	if ignoreNotFound(err) != nil {
		return state, fmt.Errorf("read agent lease of cluster %q: %w", cluster, err)
	}
	if err != nil || lease.Spec.RenewTime == nil {
		return state, nil
	}
	o.Liveness.ObserveLease(cluster, &lease)
	return o.Liveness.State(cluster), nil
}

func clusterFrom(name string, managed *clusterv1.ManagedCluster, delivery *v1alpha1.RolloutDelivery) rollout.Cluster {
	cluster := rollout.Cluster{Name: name}
	if managed != nil {
		cluster.Exists = true
		cluster.Deleting = managed.DeletionTimestamp != nil
		cluster.Labels = managed.Labels
		cluster.Available = meta.IsStatusConditionTrue(managed.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
		cluster.Tainted = slices.ContainsFunc(managed.Spec.Taints, func(taint clusterv1.Taint) bool {
			return taint.Key == clusterv1.ManagedClusterTaintUnreachable || taint.Key == clusterv1.ManagedClusterTaintUnavailable
		})
	}
	if delivery != nil {
		cluster.Delivery = &rollout.Delivery{Spec: delivery.Spec, Status: delivery.Status}
		cluster.UnhealthyNow = delivery.Status.State == v1alpha1.StateDegraded ||
			delivery.Status.State == v1alpha1.StateFailed ||
			delivery.Status.UnhealthySince != nil
	}
	return cluster
}

// setReachability fills in what the agent's liveness and the ManagedCluster say
// about reaching the cluster (law 16). An agent that never was there lacks
// evidence only; once this rollout had proof from it, its absence is a loss.
func setReachability(cluster *rollout.Cluster, state liveness.State) {
	cluster.LastSeenAt = state.LastSeenAt
	cluster.LeaseInterval = state.Interval
	proven := cluster.Delivery != nil && cluster.Delivery.Status.Proven != nil
	cluster.AgentLive = state.Live || (!state.Seen && !proven)

	switch {
	case !cluster.Exists:
		cluster.Unreachable = &v1alpha1.Cause{
			Reason:  v1alpha1.ReasonClusterUnavailable,
			Message: fmt.Sprintf("the ManagedCluster %q does not exist", cluster.Name),
		}
	case !cluster.Available:
		cluster.Unreachable = &v1alpha1.Cause{
			Reason:  v1alpha1.ReasonClusterUnavailable,
			Message: fmt.Sprintf("the ManagedCluster %q is not Available; see its conditions", cluster.Name),
		}
	case !cluster.AgentLive:
		cluster.Unreachable = &v1alpha1.Cause{
			Reason: v1alpha1.ReasonAgentSilent,
			Message: fmt.Sprintf("the agent of cluster %q does not renew its Lease %s/%s%s; see the pod of addon %s there",
				cluster.Name, cluster.Name, v1alpha1.AgentLeaseName, every(state), v1alpha1.AddonName),
		}
	}
}

func every(state liveness.State) string {
	if !state.Seen || state.Interval <= 0 {
		return ""
	}
	return fmt.Sprintf(" every %d seconds", int(state.Interval.Seconds()))
}

// whyForeign returns why nothing may be written to a cluster where an object
// that is not ours has the name of our delivery (law 20); nil if there is none.
func whyForeign(other *v1alpha1.RolloutDelivery) *v1alpha1.Cause {
	if other == nil {
		return nil
	}
	return &v1alpha1.Cause{
		Reason: v1alpha1.ReasonForeignObject,
		Message: fmt.Sprintf("RolloutDelivery %s/%s is not of this FleetRollout: its labels or its spec.rollout name another one (UID %q); find out whose it is, and delete it",
			other.Namespace, other.Name, other.Spec.Rollout.UID),
	}
}
