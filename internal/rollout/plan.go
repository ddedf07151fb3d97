package rollout

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// Plan is what shall be done now, and why. The caller persists the facts
// before it carries out the writes, so that a crash in between repeats a write
// and never a decision: Failures and Verdicts first, because what they follow
// from is gone once a step is left or a run has ended, then Run, Rollbacks,
// Stable and Placements in one update. Causes in a plan may be those of the
// snapshot; the caller changes neither.
type Plan struct {
	// Run to persist: the going run, or the last one. Its WaitingFor and Groups
	// are filled in.
	Run *v1alpha1.Run

	// Rollbacks to persist.
	Rollbacks []v1alpha1.RollbackRecord

	// Stable revision to persist.
	Stable *v1alpha1.RevisionReference

	// RemovalConfirmation and HandledActions to persist in status, with the
	// facts: an action that is handled there has taken effect, whatever its own
	// status says after a crash.
	RemovalConfirmation *v1alpha1.Order
	HandledActions      []types.UID

	// Actions is what became of actions, to be written on their status after
	// the facts; only what changes.
	Actions []ActionOutcome

	// Placements to persist in status.
	Placements []v1alpha1.ResolvedPlacement

	// Verdicts to write on RolloutRevisions; only those that change.
	Verdicts []VerdictChange

	// Writes of intent, in order: at most one per cluster.
	Writes []Write

	// Removals order works to be removed from clusters that left, with
	// spec.removal.
	Removals []Removal

	// Absences to record or clear on deliveries (spec.absentSince).
	Absences []Absence

	// Failures to record on deliveries (spec.failure): clusters that count as
	// failed from now on. None of them is also in Writes.
	Failures []Failure

	// Forget names deliveries that are Removed, or whose ManagedCluster is
	// gone: their RolloutDelivery is deleted.
	Forget []string

	// ConfirmRemovals asks the caller to read the decisions uncached and to
	// plan again with Membership.RemovalConfirmed.
	ConfirmRemovals bool

	// Outcome is the state of the rollout as a whole, for its conditions.
	Outcome Outcome

	// Judgements of the clusters, by name in ascending order, for counters and
	// problems.
	Judgements []Judgement

	// Events that happened with this plan, to be emitted once its facts are
	// persisted.
	Events []Event

	// RecheckAfter is when time alone changes the plan next; zero if never.
	RecheckAfter time.Duration
}

// VerdictChange is a verdict to write on a RolloutRevision.
type VerdictChange struct {
	// Revision is the name of the RolloutRevision.
	Revision string
	Verdict  v1alpha1.Verdict
	Cause    v1alpha1.Cause
	// Attempts is how many runs of it have started.
	Attempts int32
}

// ActionOutcome is what became of a RolloutAction.
type ActionOutcome struct {
	// Name and UID of the RolloutAction.
	Name string
	UID  types.UID
	// Accepted: True or False; the condition of that type gets Cause.
	Accepted bool
	Cause    v1alpha1.Cause
	// Complete is the condition of that type; nil while it is not known.
	Complete *Completion
}

// Completion says whether what was ordered is done.
type Completion struct {
	Done  bool
	Cause v1alpha1.Cause
}

// Write is an intent to write to the delivery of one cluster.
type Write struct {
	Cluster string
	// Spec is the whole new spec, without the reference to the rollout, which
	// the caller fills in. Its Delivery is one more than the present one's.
	Spec v1alpha1.RolloutDeliverySpec
	// Cause says why the cluster gets it now.
	Cause v1alpha1.Cause
}

// Removal orders the works of a rollout to be removed from a cluster.
type Removal struct {
	Cluster string
	Policy  v1alpha1.DeletePolicy
	Cause   v1alpha1.Cause
}

// Absence is a value for spec.absentSince of a delivery; zero clears it.
type Absence struct {
	Cluster string
	Since   time.Time
}

// Failure is a cause for spec.failure of a delivery.
type Failure struct {
	Cluster string
	Cause   v1alpha1.Cause
}

// Outcome is the state of the rollout as a whole.
type Outcome struct {
	// Ready with the reason and message of the condition.
	Ready bool
	Cause v1alpha1.Cause

	// Progressing tells that a run or rollback goes on.
	Progressing bool

	// Stalled tells that nothing goes on without somebody acting; nil otherwise.
	Stalled *v1alpha1.Cause

	// RolledBack is the state of the newest rollback record that matters; nil
	// if there is none.
	RolledBack *v1alpha1.RollbackRecord
}

// Judgement is what a cluster counts as.
type Judgement struct {
	Cluster string
	// Group that the cluster counts in.
	Group string
	// Member tells that the cluster belongs to the rollout (law 4 keeps some
	// clusters members that are no longer selected).
	Member bool
	// Updated tells that the run's revision has been applied on it.
	Updated bool
	// Healthy tells that it is proven on what it shall have now.
	Healthy bool
	// State for the counters; a cluster over its deadline is Failed, whatever
	// its delivery says.
	State v1alpha1.DeliveryState
	// Cause names what is wrong and what to do; nil if nothing is.
	Cause *v1alpha1.Cause
}

// Event is something that has happened, as it is told to people.
type Event struct {
	// Warning marks what somebody should look at.
	Warning bool
	// Reason is a constant in UpperCamelCase.
	Reason  string
	Message string
}
