package delivery

import (
	"testing"
	"time"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/liveness"
)

// story judges one cluster over time, each moment from the status of the last.
type story struct {
	*testing.T
	Observation
}

func tell(t *testing.T, o Observation) *story { return &story{t, o} }

// at moves to a second after noon, changes what is observed, and judges.
func (s *story) at(second int, change func(*Observation)) v1alpha1.RolloutDeliveryStatus {
	s.Now = noon.Add(time.Duration(second) * time.Second)
	if change != nil {
		change(&s.Observation)
	}
	s.Status = Judge(s.Observation).Status
	return s.Status
}

func reports(health v1alpha1.Health) func(*Observation) {
	return func(o *Observation) { o.Agent.Condition = condition(report(health)) }
}

func (s *story) expect(what string, got, want any) {
	s.Helper()
	if got != want {
		s.Errorf("second %d: %s is %v, want %v", int(s.Now.Sub(noon).Seconds()), what, got, want)
	}
}

func second(n int) string { return stamp(noon.Add(time.Duration(n) * time.Second)).UTC().String() }

func TestADegradedIntervalBreaksTheProofAndIsVisible(t *testing.T) { // case I5
	s := tell(t, written())
	s.at(10, reports(v1alpha1.HealthHealthy))
	s.expect("healthySince", s.Status.HealthySince.UTC().String(), second(10))

	status := s.at(60, reports(v1alpha1.HealthDegraded))
	s.expect("state", status.State, v1alpha1.StateDegraded)
	s.expect("healthySince is gone", status.HealthySince == nil, true)
	s.expect("unhealthySince", status.UnhealthySince.UTC().String(), second(60))

	status = s.at(70, reports(v1alpha1.HealthHealthy))
	s.expect("healthySince", status.HealthySince.UTC().String(), second(70))
	s.expect("provenAt", status.ProvenAt.UTC().String(), second(10))
	s.expect("unhealthySince is closed", status.UnhealthySince == nil, true)
	s.expect("unhealthy milliseconds", status.Clock.UnhealthyMilliseconds, int64(10_000))

	s.at(80, reports(v1alpha1.HealthProgressing))
	status = s.at(85, reports(v1alpha1.HealthHealthy))
	s.expect("unhealthy milliseconds add up", status.Clock.UnhealthyMilliseconds, int64(15_000))
}

func TestLaw7TheTimeWithoutAManagerIsNoUnhealthyTime(t *testing.T) {
	s := tell(t, written())
	s.at(10, reports(v1alpha1.HealthHealthy))
	s.at(60, reports(v1alpha1.HealthDegraded))
	s.Observation.Run.UnwatchedFrom, s.Observation.Run.UnwatchedUntil = noon.Add(65*time.Second), noon.Add(1000*time.Second)
	status := s.at(1003, reports(v1alpha1.HealthHealthy))
	s.expect("unhealthy milliseconds", status.Clock.UnhealthyMilliseconds, int64(5_000+3_000))
}

func TestLaw7TheClockOfARunKnowsTheTimeWithoutAManagerBeforeItIsRecorded(t *testing.T) {
	run := &v1alpha1.Run{Number: 2, StartedAt: *stamp(noon), PausedMilliseconds: 1000}
	from, until := noon.Add(time.Minute), noon.Add(11*time.Minute)
	before := ClockOf(run, from, until).pausedMilliseconds(until)
	if want := (time.Second + 11*time.Minute).Milliseconds(); before != want {
		t.Errorf("paused for %d ms, want %d: the absence, and a minute to catch up", before, want)
	}
	run.PausedMilliseconds, run.UnwatchedUntil = before, stamp(until)
	if recorded := ClockOf(run, from, until).pausedMilliseconds(until); recorded != before {
		t.Errorf("once it is recorded it is %d ms, and was %d", recorded, before)
	}
}

func TestBeforeTheFirstProofNothingCountsAsUnhealthyTime(t *testing.T) {
	s := tell(t, written())
	status := s.at(10, reports(v1alpha1.HealthDegraded))
	s.expect("unhealthySince is unset", status.UnhealthySince == nil, true)
}

func TestASuspendedObjectIsNoUnhealthyTime(t *testing.T) {
	s := tell(t, written())
	s.at(10, reports(v1alpha1.HealthHealthy))
	s.at(20, reports(v1alpha1.HealthDegraded))
	status := s.at(25, reports(v1alpha1.HealthSuspended))
	s.expect("unhealthySince is closed", status.UnhealthySince == nil, true)
	s.expect("unhealthy milliseconds", status.Clock.UnhealthyMilliseconds, int64(5_000))
	s.expect("healthySince is gone", status.HealthySince == nil, true)
}

func TestSuspendedTimeIsAddedUpWithoutPauses(t *testing.T) { // law 7
	s := tell(t, written())
	s.at(10, reports(v1alpha1.HealthProgressing))
	status := s.at(20, reports(v1alpha1.HealthSuspended))
	s.expect("suspended since", status.Clock.SuspendedSince.UTC().String(), second(20))
	s.at(30, func(o *Observation) { o.Run.PausedAt = stamp(o.Now) })
	status = s.at(50, func(o *Observation) {
		o.Run.PausedAt, o.Run.PausedMilliseconds = nil, 20_000
		o.Agent.Condition = condition(report(v1alpha1.HealthProgressing))
	})
	s.expect("the interval is closed", status.Clock.SuspendedSince == nil, true)
	s.expect("suspended milliseconds", status.Clock.SuspendedMilliseconds, int64(10_000))
	s.at(60, reports(v1alpha1.HealthSuspended))
	status = s.at(65, reports(v1alpha1.HealthHealthy))
	s.expect("suspended milliseconds", status.Clock.SuspendedMilliseconds, int64(15_000))
}

func TestSumsStartAnewWithEachStep(t *testing.T) {
	s := tell(t, written())
	s.at(10, reports(v1alpha1.HealthHealthy))
	s.at(20, reports(v1alpha1.HealthDegraded))
	s.at(30, reports(v1alpha1.HealthHealthy))
	s.expect("unhealthy milliseconds", s.Status.Clock.UnhealthyMilliseconds, int64(10_000))

	before := s.Status
	after := s.at(40, func(o *Observation) { o.Run.StepStartedAt = stamp(noon.Add(35 * time.Second)) })
	s.expect("a new step alone changes nothing", Verdict{Status: after}.Changed(before), false)

	s.at(50, reports(v1alpha1.HealthDegraded))
	s.expect("sum of the new step", s.Status.Clock.UnhealthyMilliseconds, int64(0))
	s.at(53, func(o *Observation) { o.Run.StepStartedAt = stamp(noon.Add(52 * time.Second)) })
	status := s.at(60, reports(v1alpha1.HealthHealthy))
	s.expect("only what lies within the step counts", status.Clock.UnhealthyMilliseconds, int64(8_000))
	s.expect("step", status.Clock.StepStartedAt.UTC().String(), second(52))
}

func TestALostClusterLosesItsProofUntilItIsSeenAgain(t *testing.T) { // case D3
	s := tell(t, written())
	s.at(10, reports(v1alpha1.HealthHealthy))
	s.at(20, reports(v1alpha1.HealthDegraded))
	status := s.at(200, func(o *Observation) { o.Agent.Liveness.Live = false })
	s.expect("state", status.State, v1alpha1.StateUnreachable)
	s.expect("lostSince", status.LostSince.UTC().String(), second(200))
	s.expect("unhealthySince is closed", status.UnhealthySince == nil, true)
	s.expect("unhealthy milliseconds", status.Clock.UnhealthyMilliseconds, int64(180_000))

	// The manager restarts: the Lease has the benefit of the doubt, and the loss
	// stays open all the same.
	status = s.at(210, func(o *Observation) {
		o.Agent.Condition = condition(report(v1alpha1.HealthHealthy))
		o.Agent.Liveness = liveness.State{Seen: true, Live: true, Interval: time.Minute, ExpiresAt: o.Now.Add(time.Hour)}
	})
	s.expect("state", status.State, v1alpha1.StateUnreachable)
	s.expect("lostSince", status.LostSince.UTC().String(), second(200))

	status = s.at(230, func(o *Observation) { o.Agent.Liveness.Confirmed = true })
	s.expect("state", status.State, v1alpha1.StateHealthy)
	s.expect("healthySince", status.HealthySince.UTC().String(), second(230))
	s.expect("lostSince is closed", status.LostSince == nil, true)
	s.expect("lost milliseconds", status.Clock.LostMilliseconds, int64(30_000))
	s.expect("lost milliseconds since the write", status.Clock.LostSinceWriteMilliseconds, int64(30_000))
}

func TestLostTimeLeavesPausedTimeOut(t *testing.T) {
	s := tell(t, written())
	s.at(10, func(o *Observation) { o.Cluster.Available = false })
	s.at(20, func(o *Observation) { o.Run.PausedAt = stamp(noon.Add(20 * time.Second)) })
	status := s.at(100, func(o *Observation) {
		o.Run.PausedAt, o.Run.PausedMilliseconds = nil, 60_000
		o.Cluster.Available = true
	})
	s.expect("lost milliseconds", status.Clock.LostMilliseconds, int64(30_000))
}

func TestAClusterUnreachableAtItsWriteIsNeverCountedLostBeforeItReturns(t *testing.T) {
	o := written()
	o.Spec.UnreachableAtWrite = true
	o.Agent.Liveness = liveness.State{Seen: true, Interval: time.Minute}
	s := tell(t, o)
	status := s.at(10, nil)
	s.expect("state", status.State, v1alpha1.StateUnreachable)
	s.expect("lostSince is unset", status.LostSince == nil, true)

	// A restarted manager takes the old Lease for live. That is no return.
	status = s.at(20, func(o *Observation) {
		o.Agent.Liveness = liveness.State{Seen: true, Live: true, Interval: time.Minute, ExpiresAt: o.Now.Add(time.Hour)}
	})
	s.expect("state", status.State, v1alpha1.StateUnreachable)
	s.expect("returnedAt is unset", status.ReturnedAt == nil, true)

	status = s.at(30, func(o *Observation) {
		o.Agent.Liveness.Confirmed = true
		o.Run.PausedMilliseconds = 5_000
	})
	s.expect("returnedAt", status.ReturnedAt.UTC().String(), second(30))
	s.expect("paused at the return", status.Clock.PausedAtReturnMilliseconds, int64(5_000))
	s.expect("state", status.State, v1alpha1.StateProgressing)

	status = s.at(40, func(o *Observation) { o.Cluster.Available = false })
	s.expect("lostSince", status.LostSince.UTC().String(), second(40))
	status = s.at(50, func(o *Observation) { o.Cluster.Available = true })
	s.expect("returnedAt is the first return", status.ReturnedAt.UTC().String(), second(30))
}

func TestAClusterWithoutAgentReturnsWithItsAvailability(t *testing.T) {
	o := written()
	o.Agent = Agent{}
	o.Cluster.Available = false
	s := tell(t, o)
	status := s.at(10, nil)
	s.expect("lostSince", status.LostSince.UTC().String(), second(10))
	status = s.at(20, func(o *Observation) { o.Cluster.Available = true })
	s.expect("lostSince is closed", status.LostSince == nil, true)
	s.expect("reason", status.Reason, v1alpha1.ReasonAgentMissing)
}

func TestATerminalFailureIsLatchedForItsDelivery(t *testing.T) {
	s := tell(t, written())
	status := s.at(10, reports(v1alpha1.HealthFailed))
	s.expect("failedAt", status.FailedAt.UTC().String(), second(10))
	s.expect("failure", status.Failure.Reason, "Failed")

	status = s.at(20, reports(v1alpha1.HealthHealthy))
	s.expect("state", status.State, v1alpha1.StateHealthy)
	s.expect("failedAt", status.FailedAt.UTC().String(), second(10))

	status = s.at(30, reports(v1alpha1.HealthFailed))
	s.expect("failedAt is the first failure", status.FailedAt.UTC().String(), second(10))
}

func TestANewDeliveryStartsWithAllTimesAnew(t *testing.T) { // case I7
	s := tell(t, written())
	s.at(10, reports(v1alpha1.HealthHealthy))
	s.at(20, reports(v1alpha1.HealthFailed))
	s.at(30, func(o *Observation) { o.Cluster.Available = false })

	delivery := &v1alpha1.RolloutDelivery{Spec: s.Spec, Status: s.Status}
	delivery.Status.CompletedJobs = []v1alpha1.CompletedJob{{Name: "migrate"}}
	delivery.Status.Kept = []v1alpha1.ObjectReference{{Kind: "PersistentVolumeClaim", Name: "data"}}
	delivery.Status.State = v1alpha1.StateFailed
	delivery.Spec.Delivery = 4
	next := takeUp(delivery)
	startDeadline(&next, RunClock{Number: 8, PausedMilliseconds: 7_000}, noon.Add(time.Hour))

	if next.WrittenAt.UTC().String() != second(3600) || next.Clock.PausedAtWriteMilliseconds != 7_000 || next.Clock.Run != 8 {
		t.Errorf("the deadline starts at %v, %+v", next.WrittenAt, next.Clock)
	}
	if next.Delivery != 4 || next.State != v1alpha1.StatePending {
		t.Errorf("taken up as delivery %d, %s", next.Delivery, next.State)
	}
	if next.AppliedAt != nil || next.ProvenAt != nil || next.HealthySince != nil || next.UnhealthySince != nil ||
		next.LostSince != nil || next.ReturnedAt != nil || next.FailedAt != nil || next.Failure != nil {
		t.Errorf("times of the earlier delivery are left: %+v", next)
	}
	if next.Proven == nil || next.Applied == nil || len(next.CompletedJobs) != 1 || len(next.Kept) != 1 {
		t.Errorf("what the cluster has is forgotten: %+v", next)
	}
}

func TestTakingUpAnIntentIsNoSignOfLife(t *testing.T) {
	o := written()
	o.Status.State = v1alpha1.StateUnreachable
	o.Status.Delivery = 2
	next := takeUp(&v1alpha1.RolloutDelivery{Spec: o.Spec, Status: o.Status})
	o.Status = next
	o.Status.Rendered = &v1alpha1.Rendered{Delivery: 3, Digest: digest2, Works: []string{"w"}}
	o.Agent.Liveness.Confirmed = false
	if got := Judge(o).Status; got.State != v1alpha1.StateUnreachable || got.LostSince == nil {
		t.Errorf("got %s, lost since %v", got.State, got.LostSince)
	}
}

func TestReadingsOfPausedTimeBelongToOneRun(t *testing.T) {
	s := tell(t, written())
	s.Status.Clock = v1alpha1.DeliveryClock{Run: 6, PausedAtWriteMilliseconds: 90_000, UnhealthyMilliseconds: 3_000}
	status := s.at(10, func(o *Observation) { o.Cluster.Available = false })
	s.expect("run", status.Clock.Run, int64(7))
	s.expect("paused at write", status.Clock.PausedAtWriteMilliseconds, int64(0))
	s.expect("unhealthy milliseconds", status.Clock.UnhealthyMilliseconds, int64(0))
}
