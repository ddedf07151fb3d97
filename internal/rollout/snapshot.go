package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// Snapshot is everything that a decision may depend on, read before it is
// made. It is a value: Next never changes what it points to.
type Snapshot struct {
	// Namespace and Name of the FleetRollout, for messages.
	Namespace, Name string

	// Generation of the FleetRollout's spec.
	Generation int64

	// Paused is spec.paused.
	Paused bool

	// Deleting tells that the FleetRollout is being deleted.
	Deleting bool

	// OnDelete says what happens to the objects of clusters that leave.
	OnDelete v1alpha1.DeletePolicy

	// Strategy and Rollback of the spec. Groups and steps of a going run are
	// taken from Run.FrozenGroups instead; budgets are read from here.
	Strategy v1alpha1.Strategy
	Rollback v1alpha1.RollbackPolicy

	// Run is the persisted going or last run; nil before the first.
	Run *v1alpha1.Run

	// Rollbacks are the persisted rollback records.
	Rollbacks []v1alpha1.RollbackRecord

	// Stable is the persisted stable revision; nil before the first success.
	Stable *v1alpha1.RevisionReference

	// Current is the frozen revision of the present template; nil when the
	// template could not be frozen, which InvalidSpec then explains.
	Current *Revision

	// InvalidSpec says why the template could not be frozen. The running
	// revision goes on as it was; no run starts.
	InvalidSpec *v1alpha1.Cause

	// Revisions are the retained revisions of the rollout, in any order,
	// Current among them.
	Revisions []Revision

	// Actions are the RolloutActions of the rollout whose status does not say
	// yet what became of them: not decided, or accepted and not complete. In
	// order of their creation.
	Actions []Action

	// RemovalConfirmation and HandledActions as persisted in status.
	RemovalConfirmation *v1alpha1.Order
	HandledActions      []types.UID

	// UnwatchedFrom and UnwatchedUntil are the time before this process in which
	// no manager was watching: nobody saw what the clusters did, so nobody fails
	// for it. Zero if none is known.
	UnwatchedFrom, UnwatchedUntil time.Time

	// Membership is what the placement decisions say.
	Membership Membership

	// Clusters are all clusters that are selected now or have a delivery of
	// this rollout, in any order; no name twice.
	Clusters []Cluster
}

// Revision is a retained revision and what became of it.
type Revision struct {
	v1alpha1.RevisionReference

	// Verdict, Candidate where the record has none.
	Verdict v1alpha1.Verdict

	// Attempts is how many runs of it have started.
	Attempts int32

	// Problem is set when its payload is missing or does not match its digest.
	// It then can be neither a run's revision nor a rollback target.
	Problem *v1alpha1.Cause
}

// Action is a RolloutAction that is not finished.
type Action struct {
	// Name and UID of the RolloutAction.
	Name string
	UID  types.UID

	// CreatedAt, and Spec as it was admitted.
	CreatedAt time.Time
	Spec      v1alpha1.RolloutActionSpec

	// Accepted tells that its status says Accepted already.
	Accepted bool
}

// Membership is what the placement decisions say.
type Membership struct {
	// Complete tells that the decisions of every placement were read
	// completely. Otherwise absence means nothing: no joins, no removals and no
	// forward writes.
	Complete bool

	// Cause says why the membership is not complete, with a reason of
	// PlacementResolved.
	Cause v1alpha1.Cause

	// Placements as they are resolved now; empty unless Complete.
	Placements []v1alpha1.ResolvedPlacement

	// LastPlacements as they were last persisted in status.
	LastPlacements []v1alpha1.ResolvedPlacement

	// RemovalConfirmed tells that an uncached read of the decisions gave the
	// same members. Next asks for one with Plan.ConfirmRemovals, and removes
	// only with it.
	RemovalConfirmed bool
}

// Cluster is one managed cluster as the hub sees it now.
type Cluster struct {
	// Name of the ManagedCluster.
	Name string

	// Labels of the ManagedCluster.
	Labels map[string]string

	// Selected tells that the placement decisions name it now.
	Selected bool

	// Exists tells that the ManagedCluster exists; Deleting, that it is being
	// deleted: such a cluster gets no writes.
	Exists, Deleting bool

	// Available tells that its condition Available is True; Tainted, that it
	// has the unreachable or unavailable taint.
	Available, Tainted bool

	// AgentLive tells that the agent's Lease is renewed. It is true as well
	// for a cluster whose agent has never been seen: such a cluster is not
	// unreachable, it merely lacks evidence.
	AgentLive bool

	// Unreachable says in words why the cluster counts as unreachable, with
	// the reason ClusterUnavailable or AgentSilent; nil while it is reachable.
	Unreachable *v1alpha1.Cause

	// LastSeenAt is when the hub last saw the agent's Lease or report change,
	// by this manager's own clock; zero if it has not since it started.
	LastSeenAt time.Time

	// LeaseInterval is how often the agent renews its Lease now.
	LeaseInterval time.Duration

	// Blocked says why nothing may be written to it, whatever is planned; nil
	// otherwise.
	Blocked *v1alpha1.Cause

	// UnhealthyNow tells that what the cluster runs now is reported unhealthy,
	// so that a fix reaches it first.
	UnhealthyNow bool

	// Delivery of this rollout to the cluster; nil if there is none yet.
	Delivery *Delivery
}

// Delivery is the persisted record of this rollout on one cluster.
type Delivery struct {
	Spec   v1alpha1.RolloutDeliverySpec
	Status v1alpha1.RolloutDeliveryStatus
}
