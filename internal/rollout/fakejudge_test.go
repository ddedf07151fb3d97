package rollout

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// judge is the delivery controller for one delivery, as the contract of
// RolloutDeliveryStatus has it.
type judge struct {
	c      *fakeCluster
	spec   *v1alpha1.RolloutDeliverySpec
	status *v1alpha1.RolloutDeliveryStatus
	run    *v1alpha1.Run
	now    time.Time
}

func (j *judge) judge() {
	if j.spec.Removal != "" {
		j.removeWorks()
		return
	}
	if j.status.Delivery < j.spec.Delivery {
		*j.status = v1alpha1.RolloutDeliveryStatus{
			Delivery: j.spec.Delivery, State: v1alpha1.StatePending,
			Applied: j.status.Applied, Proven: j.status.Proven,
		}
	}
	if j.c.heldByOther || j.c.contested == j.spec.Revision.Digest {
		j.state(v1alpha1.StateBlocked, v1alpha1.ReasonHeldByOther, "Deployment api is held by rollout platform/other")
		return
	}
	if reason := j.c.refuses[j.spec.Revision.Version]; reason != "" {
		j.state(v1alpha1.StateBlocked, reason, "the delivery controller says so")
		return
	}
	if j.c.written.Delivery != j.spec.Delivery {
		j.c.written = v1alpha1.Proof{Digest: j.spec.Revision.Digest, Delivery: j.spec.Delivery}
		j.c.writtenAt = j.now
	}
	if j.status.WrittenAt == nil {
		j.status.WrittenAt = j.stamp()
		if j.run != nil {
			j.status.Clock.Run = j.run.Number
			j.status.Clock.PausedAtWriteMilliseconds = j.pausedMilliseconds()
		}
	}
	if !j.judgeReachability() {
		return
	}
	j.judgeEvidence()
}

func (j *judge) removeWorks() {
	if j.status.State == v1alpha1.StateRemoved && j.c.removalStarted.IsZero() && j.c.written.Digest == "" {
		return
	}
	if j.c.removalStarted.IsZero() {
		j.c.removalStarted = j.now
	}
	j.state(v1alpha1.StateRemoving, v1alpha1.ReasonRemoving, "removing")
	if j.c.connected && j.now.Sub(j.c.removalStarted) >= 2*time.Second {
		j.c.removalStarted = time.Time{}
		j.c.written, j.c.applied, j.c.report = v1alpha1.Proof{}, v1alpha1.Proof{}, v1alpha1.AgentReport{}
		j.state(v1alpha1.StateRemoved, v1alpha1.ReasonRemoving, "removed")
	}
}

// judgeReachability opens and closes the loss, and tells whether the cluster
// can be reached.
func (j *judge) judgeReachability() bool {
	s := j.status
	neverProven := s.Proven == nil && !j.c.seen
	cause := j.c.unreachable()
	if neverProven {
		cause = nil
		if !j.c.available() {
			cause = j.c.unreachable()
		}
	}
	// An open loss ends only with a sign of life that this manager saw itself.
	if cause == nil && s.LostSince != nil && j.c.lastSeen().Before(s.LostSince.Time) {
		cause = &v1alpha1.Cause{Reason: v1alpha1.ReasonAgentSilent, Message: "not seen since the manager started"}
	}
	if cause != nil {
		if !j.spec.UnreachableAtWrite || s.ReturnedAt != nil {
			if s.LostSince == nil {
				s.LostSince = j.stamp()
				s.Clock.PausedAtLossMilliseconds = j.pausedMilliseconds()
			}
		}
		j.closeUnhealthy()
		s.HealthySince = nil
		j.state(v1alpha1.StateUnreachable, cause.Reason, cause.Message)
		return false
	}
	if j.spec.UnreachableAtWrite && s.ReturnedAt == nil {
		s.ReturnedAt = j.stamp()
		s.Clock.PausedAtReturnMilliseconds = j.pausedMilliseconds()
	}
	if s.LostSince != nil {
		j.closeLoss()
	}
	return true
}

func (j *judge) judgeEvidence() {
	s := j.status
	if j.c.applied != j.c.written {
		s.HealthySince = nil
		j.state(v1alpha1.StateApplying, v1alpha1.ReasonApplying, "the work agent has not applied it")
		return
	}
	proof := v1alpha1.Proof{Digest: j.spec.Revision.Digest, Delivery: j.spec.Delivery}
	s.Applied = &proof
	if s.AppliedAt == nil {
		s.AppliedAt = j.stamp()
	}
	if !j.c.seen {
		j.state(v1alpha1.StateProgressing, v1alpha1.ReasonAgentMissing, "the addon is not enabled; run: clusteradm addon enable --names fleet-rollout --clusters "+j.c.name)
		return
	}
	j.closeSuspension()
	if j.c.report.Digest != proof.Digest || j.c.report.Delivery != proof.Delivery {
		j.state(v1alpha1.StateProgressing, v1alpha1.ReasonAwaitingReport, "the agent has not reported on it")
		return
	}
	switch j.c.report.Health {
	case v1alpha1.HealthHealthy:
		j.closeUnhealthy()
		s.Proven = &proof
		if s.ProvenAt == nil {
			s.ProvenAt = j.stamp()
		}
		if s.HealthySince == nil {
			s.HealthySince = j.stamp()
		}
		j.state(v1alpha1.StateHealthy, string(v1alpha1.HealthHealthy), "")
	case v1alpha1.HealthFailed:
		j.openUnhealthy()
		if s.FailedAt == nil {
			s.FailedAt = j.stamp()
			s.Failure = &v1alpha1.Cause{Reason: string(v1alpha1.HealthFailed), Message: "Deployment api: ProgressDeadlineExceeded"}
		}
		j.state(v1alpha1.StateFailed, string(v1alpha1.HealthFailed), "Deployment api: ProgressDeadlineExceeded")
	case v1alpha1.HealthDegraded:
		j.openUnhealthy()
		j.state(v1alpha1.StateDegraded, string(v1alpha1.HealthDegraded), "Deployment api: 0 of 2 ready")
	case v1alpha1.HealthSuspended:
		j.status.Clock.SuspendedSince = j.stamp()
		j.closeUnhealthy()
		s.HealthySince = nil
		j.state(v1alpha1.StateProgressing, reasonSuspended, "Job migrate is suspended")
	default:
		j.openUnhealthy()
		j.state(v1alpha1.StateProgressing, v1alpha1.ReasonProgressing, "Deployment api: 1 of 2 ready")
	}
}

// closeSuspension adds up what has passed; it is opened again at once while the
// content stays suspended. These stories do not pause meanwhile.
func (j *judge) closeSuspension() {
	clock := &j.status.Clock
	if clock.SuspendedSince != nil {
		clock.SuspendedMilliseconds += j.now.Sub(clock.SuspendedSince.Time).Milliseconds()
		clock.SuspendedSince = nil
	}
}

func (j *judge) openUnhealthy() {
	j.status.HealthySince = nil
	if j.status.ProvenAt != nil && j.status.UnhealthySince == nil {
		j.status.UnhealthySince = j.stamp()
	}
}

func (j *judge) closeUnhealthy() {
	s := j.status
	if s.UnhealthySince == nil {
		return
	}
	j.ofThisStep()
	since := j.withinStep(s.UnhealthySince.Time)
	s.Clock.UnhealthyMilliseconds += max(0, j.now.Sub(since)-j.unwatched(since)).Milliseconds()
	s.UnhealthySince = nil
}

func (j *judge) closeLoss() {
	s := j.status
	paused := milliseconds(j.pausedMilliseconds() - s.Clock.PausedAtLossMilliseconds)
	j.ofThisStep()
	s.Clock.LostMilliseconds += max(0, j.now.Sub(j.withinStep(s.LostSince.Time))-paused).Milliseconds()
	s.Clock.LostSinceWriteMilliseconds += max(0, j.now.Sub(s.LostSince.Time)-paused).Milliseconds()
	s.LostSince = nil
}

// ofThisStep resets the sums if they belong to an earlier step.
func (j *judge) ofThisStep() {
	if j.run == nil || j.run.StepStartedAt == nil {
		return
	}
	c := &j.status.Clock
	if c.Run == j.run.Number && c.StepStartedAt != nil && c.StepStartedAt.Time.Equal(j.run.StepStartedAt.Time) {
		return
	}
	c.Run, c.StepStartedAt = j.run.Number, j.run.StepStartedAt.DeepCopy()
	c.UnhealthyMilliseconds, c.LostMilliseconds = 0, 0
}

func (j *judge) withinStep(t time.Time) time.Time {
	if j.run != nil && j.run.StepStartedAt != nil && j.run.StepStartedAt.After(t) {
		return j.run.StepStartedAt.Time
	}
	return t
}

func (j *judge) pausedMilliseconds() int64 {
	if j.run == nil {
		return 0
	}
	sum := j.run.PausedMilliseconds + j.run.Unwatched(j.c.f.unwatchedFrom, j.c.f.managerStart).Milliseconds()
	if j.run.PausedAt != nil {
		sum += j.now.Sub(j.run.PausedAt.Time).Milliseconds()
	}
	return sum
}

// unwatched is how much of the time since a moment no manager was watching.
func (j *judge) unwatched(since time.Time) time.Duration {
	if j.c.f.unwatchedFrom.IsZero() {
		return 0
	}
	if since.Before(j.c.f.unwatchedFrom) {
		since = j.c.f.unwatchedFrom
	}
	return max(0, j.c.f.managerStart.Sub(since))
}

func (j *judge) state(state v1alpha1.DeliveryState, reason, message string) {
	j.status.State, j.status.Reason, j.status.Message = state, reason, message
}

func (j *judge) stamp() *metav1.MicroTime { return microTime(j.now.Truncate(time.Microsecond)) }
