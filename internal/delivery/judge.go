package delivery

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/liveness"
)

// Observation is all that a judgement may depend on.
type Observation struct {
	// Cluster is the managed cluster.
	Cluster Cluster
	// Spec of the RolloutDelivery.
	Spec v1alpha1.RolloutDeliverySpec
	// Status as it is recorded. It has taken up the spec's delivery; of an
	// earlier one Judge says nothing.
	Status v1alpha1.RolloutDeliveryStatus
	// Works of the rollout on this cluster as they are now.
	Works []*workv1.ManifestWork
	// Obstacle is what kept Apply from writing them; nil if nothing did.
	Obstacle *Obstacle
	// Agent of the addon on the cluster.
	Agent Agent
	// CompletedJobs of the template, as the agent reports them.
	CompletedJobs []v1alpha1.CompletedJob
	// Run of the rollout.
	Run RunClock
	// Now on the hub's clock.
	Now time.Time
}

// Cluster is a managed cluster as the hub sees it.
type Cluster struct {
	Name string
	// Exists tells that the ManagedCluster exists, Deleting that it is being
	// deleted, Available that its condition of that name is True.
	Exists, Deleting, Available bool
	// Labels and Claims of the ManagedCluster, for overrides.
	Labels, Claims map[string]string
}

// Agent is the agent on a managed cluster as the hub sees it.
type Agent struct {
	// Enabled tells that the ManagedClusterAddOn exists.
	Enabled bool
	// Condition is the agent's condition for this rollout; nil if there is none.
	Condition *metav1.Condition
	// Liveness of the agent.
	Liveness liveness.State
}

// Obstacle is why the works could not be written as the spec wants them.
type Obstacle struct {
	// State is Blocked where somebody must act and nothing is waited for,
	// Degraded where the deadline goes on, Pending where it is a matter of time.
	State v1alpha1.DeliveryState
	Cause v1alpha1.Cause
}

// Verdict is what an observation means.
type Verdict struct {
	// Status to be recorded.
	Status v1alpha1.RolloutDeliveryStatus
	// RecheckAfter is when time alone changes the verdict; zero if never.
	RecheckAfter time.Duration
}

// finding is what a delivery is in at this moment.
type finding struct {
	state   v1alpha1.DeliveryState
	cause   v1alpha1.Cause
	objects []v1alpha1.ObjectHealth
}

// Judge computes the status of a delivery from what is observed. It is total:
// whatever is missing or contradicts itself means "not yet".
func Judge(o Observation) Verdict {
	status := *o.Status.DeepCopy()
	applied := applicationOf(o.Status, o.Works)
	report, unreported := o.report()
	lost := o.lost()

	if applied.complete && status.Phase == v1alpha1.PhaseDrop && o.Obstacle == nil {
		if status.AppliedAt == nil {
			status.AppliedAt = stamp(o.Now)
		}
		status.Applied = o.intent()
		status.Dropping = nil
	}
	if report != nil && report.Health == v1alpha1.HealthFailed && status.FailedAt == nil {
		status.FailedAt = stamp(o.Now)
		status.Failure = &v1alpha1.Cause{Reason: string(v1alpha1.HealthFailed), Message: cut(words(report), v1alpha1.MaxMessageLength)}
	}
	status.CompletedJobs = mergeJobs(status.CompletedJobs, o.CompletedJobs)
	if report != nil && report.Preflight == nil {
		take(&status, *report)
	}

	var found finding
	switch {
	case o.Obstacle != nil && o.Obstacle.State == v1alpha1.StateBlocked:
		found = finding{state: v1alpha1.StateBlocked, cause: o.Obstacle.Cause}
	case lost != nil:
		found = finding{state: v1alpha1.StateUnreachable, cause: *lost}
	case o.Obstacle != nil:
		found = finding{state: o.Obstacle.State, cause: o.Obstacle.Cause}
	default:
		found = o.health(applied, report, unreported)
	}
	o.keepTimes(&status, found, lost)

	if status.State != found.state || status.StateSince == nil {
		since := metav1.NewTime(o.Now.Truncate(time.Second))
		status.StateSince = &since
	}
	status.State = found.state
	status.Reason = found.cause.Reason
	status.Message = cut(found.cause.Message, v1alpha1.MaxMessageLength)
	status.UnhealthyObjects = named(found.objects)
	status.WorstObject = worst(status.UnhealthyObjects)

	verdict := Verdict{Status: status}
	if o.Agent.Liveness.Live && lost == nil {
		// The wake-up comes with the first moment at which the Lease has expired.
		verdict.RecheckAfter = max(time.Millisecond, o.Agent.Liveness.ExpiresAt.Sub(o.Now))
	}
	if lost == nil && status.AppliedAt == nil {
		verdict.RecheckAfter = earlier(verdict.RecheckAfter, o.untilLate())
	}
	return verdict
}

// Changed tells whether a verdict differs from what is recorded.
func (v Verdict) Changed(recorded v1alpha1.RolloutDeliveryStatus) bool {
	return !equality.Semantic.DeepEqual(v.Status, recorded)
}

// lost says why the cluster counts as unreachable; nil while it does not.
func (o Observation) lost() *v1alpha1.Cause {
	name, alive := o.Cluster.Name, o.Agent.Liveness
	if !o.Cluster.Exists {
		return &v1alpha1.Cause{Reason: v1alpha1.ReasonClusterUnavailable,
			Message: fmt.Sprintf("ManagedCluster %s does not exist", name)}
	}
	if !o.Cluster.Available {
		return &v1alpha1.Cause{Reason: v1alpha1.ReasonClusterUnavailable,
			Message: fmt.Sprintf("ManagedCluster %s is not Available; bring the cluster or its klusterlet back", name)}
	}
	if !o.Agent.Enabled || !alive.Seen {
		if o.Status.Proven == nil {
			// An agent that never was is lacking evidence, not a lost cluster.
			return nil
		}
		return &v1alpha1.Cause{Reason: v1alpha1.ReasonAgentSilent,
			Message: fmt.Sprintf("the agent that reported on cluster %s is gone; %s", name, o.howToGetAgent())}
	}
	silent := fmt.Sprintf("the agent on cluster %s does not renew its Lease %s", name, v1alpha1.AgentLeaseName)
	if !alive.Live {
		return &v1alpha1.Cause{Reason: v1alpha1.ReasonAgentSilent, Message: silent}
	}
	waited := o.Spec.UnreachableAtWrite && o.Status.ReturnedAt == nil
	if (waited || o.Status.LostSince != nil || o.Status.State == v1alpha1.StateUnreachable) && !alive.Confirmed {
		// A restarted manager gives a Lease the benefit of the doubt. That is
		// no sign of life, and does not bring back a cluster that was lost.
		return &v1alpha1.Cause{Reason: v1alpha1.ReasonAgentSilent, Message: silent}
	}
	return nil
}

// health of a cluster that is reachable and written.
func (o Observation) health(applied application, report *v1alpha1.AgentReport, unreported string) finding {
	if awaitsAnswer(o.Status) {
		return finding{state: v1alpha1.StateProgressing, cause: o.preflight()}
	}
	if report != nil && report.Health == v1alpha1.HealthFailed {
		return reported(v1alpha1.StateFailed, report)
	}
	if applied.refusal != "" {
		return finding{state: v1alpha1.StateDegraded, objects: applied.refused, cause: v1alpha1.Cause{
			Reason: v1alpha1.ReasonApplyFailed, Message: applied.refusal}}
	}
	if o.isLate(applied) {
		return finding{state: v1alpha1.StateDegraded, cause: o.late(applied)}
	}
	if !applied.complete {
		return finding{state: v1alpha1.StateApplying, cause: o.applying(applied.waiting)}
	}
	if o.Status.Phase != v1alpha1.PhaseDrop {
		return finding{state: v1alpha1.StateApplying, cause: v1alpha1.Cause{
			Reason: v1alpha1.ReasonDropping, Message: "the new objects are applied, those of the earlier content go next"}}
	}
	if report == nil || !o.Agent.isAlive() {
		// Where no renewed Lease has been seen, a report may be one that an agent
		// left behind: evidence needs a live agent.
		return finding{state: v1alpha1.StateProgressing, cause: o.awaiting(unreported)}
	}
	switch report.Health {
	case v1alpha1.HealthHealthy:
		return finding{state: v1alpha1.StateHealthy, cause: v1alpha1.Cause{
			Reason:  string(v1alpha1.HealthHealthy),
			Message: fmt.Sprintf("version %s is applied and healthy%s", o.Spec.Revision.Version, remarks(report))}}
	case v1alpha1.HealthDegraded:
		return reported(v1alpha1.StateDegraded, report)
	default:
		return reported(v1alpha1.StateProgressing, report)
	}
}

// reported is a finding in the agent's own words.
func reported(state v1alpha1.DeliveryState, report *v1alpha1.AgentReport) finding {
	return finding{state: state, objects: report.Unhealthy, cause: v1alpha1.Cause{Reason: string(report.Health), Message: words(report)}}
}

func (o Observation) applying(waiting string) v1alpha1.Cause {
	if o.Status.Phase == v1alpha1.PhaseDrop && len(o.Status.Dropping) > 0 {
		return v1alpha1.Cause{Reason: v1alpha1.ReasonDropping, Message: fmt.Sprintf("%d objects of the earlier content are dropped: %s", len(o.Status.Dropping), waiting)}
	}
	return v1alpha1.Cause{Reason: v1alpha1.ReasonApplying, Message: waiting}
}

func (o Observation) awaiting(unreported string) v1alpha1.Cause {
	if !o.Agent.Enabled || !o.Agent.Liveness.Seen {
		return v1alpha1.Cause{Reason: v1alpha1.ReasonAgentMissing,
			Message: fmt.Sprintf("no agent of the addon has been seen on cluster %s; %s", o.Cluster.Name, o.howToGetAgent())}
	}
	return v1alpha1.Cause{Reason: v1alpha1.ReasonAwaitingReport, Message: unreported}
}

// howToGetAgent says what to type for an agent that is not there.
func (o Observation) howToGetAgent() string {
	if o.Agent.Enabled {
		return fmt.Sprintf("the addon is enabled, so see why its agent does not run: kubectl -n %s describe managedclusteraddon %s", o.Cluster.Name, v1alpha1.AddonName)
	}
	return fmt.Sprintf("enable it with: clusteradm addon enable --names %s --clusters %s", v1alpha1.AddonName, o.Cluster.Name)
}

// keepTimes sets the times of a status by what was found.
func (o Observation) keepTimes(status *v1alpha1.RolloutDeliveryStatus, found finding, lost *v1alpha1.Cause) {
	times := intervals{status: status, run: o.Run, now: o.Now}
	waited := o.Spec.UnreachableAtWrite && status.ReturnedAt == nil
	switch {
	case lost == nil:
		if waited && status.WrittenAt != nil {
			status.ReturnedAt = stamp(o.Now)
			times.enterStep()
			status.Clock.PausedAtReturnMilliseconds = o.Run.pausedMilliseconds(o.Now)
		}
		times.find()
	case !waited:
		times.lose()
	}

	suspended := found.state == v1alpha1.StateProgressing && found.cause.Reason == string(v1alpha1.HealthSuspended)
	if suspended {
		times.suspend()
	} else {
		times.resume()
	}
	if found.state == v1alpha1.StateHealthy {
		times.recover()
		status.Proven = o.intent()
		if status.ProvenAt == nil {
			status.ProvenAt = stamp(o.Now)
		}
		if status.HealthySince == nil {
			status.HealthySince = stamp(o.Now)
		}
		return
	}
	status.HealthySince = nil
	// Before the first proof the deadline of the write rules; an object that is
	// suspended on purpose is not unhealthy, and a blocked cluster not waited for.
	blocked := found.state == v1alpha1.StateBlocked
	if status.ProvenAt != nil && lost == nil && !suspended && !blocked {
		times.sicken()
	} else {
		times.recover()
	}
}

// intent is what the spec wants, in the form in which it is proven.
func (o Observation) intent() *v1alpha1.Proof {
	return &v1alpha1.Proof{Digest: o.Spec.Revision.Digest, Delivery: o.Spec.Delivery}
}
