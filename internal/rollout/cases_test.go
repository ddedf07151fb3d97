package rollout

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// Field problems that others had, as whole stories. Each is named for what
// must not happen again.

func TestCaseA1ADownClusterDoesNotKeepTheOthersFromBeingUpdated(t *testing.T) {
	f := newFleet(t, groupNamed("edge"))
	f.strategy.Groups[0].MaxConcurrent = share("2")
	f.strategy.FailureBudget = failureBudget("1")
	f.add("edge", 5)
	for _, c := range f.clusters {
		c.tolerated = true
	}
	f.deploy("1.0.0")
	down := f.cluster("edge-3")
	down.lose()
	f.runFor(2 * time.Minute)
	r := f.push("1.1.0", healthyAfter(5*time.Second))
	begun := f.now
	f.runUntilPhase(v1alpha1.RunSucceeded)
	if took := f.now.Sub(begun); took > 20*time.Second {
		t.Errorf("it took %s, two rounds of four clusters take less", took)
	}
	f.runFor(time.Second)
	if j := f.judgement("edge-3"); j.State != v1alpha1.StateUnreachable || j.Updated || j.Cause == nil {
		t.Errorf("the down cluster counts as %+v", j)
	}
	if o := f.last.Outcome; o.Ready {
		t.Errorf("full success is claimed: %+v", o)
	}
	down.comeUp()
	f.runFor(15 * time.Second)
	if got := f.holding(r); len(got) != 5 || !f.last.Outcome.Ready {
		t.Errorf("it did not converge by itself: %v, %+v", got, f.last.Outcome)
	}
}

func TestCaseA3AClusterThatJoinsDuringTheSoakGetsTheRevisionInItsStepOnce(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 60)), groupNamed("production"))
	f.add("canary", 1)
	f.add("production", 2)
	r1 := f.deploy("1.0.0")
	r2 := f.push("1.1.0", healthyAfter(time.Second))
	f.runUntil("soaking", func() bool { return f.waitsFor(v1alpha1.ReasonSoaking) })
	f.add("production", 1)
	f.runFor(10 * time.Second)
	if diff := cmp.Diff([]string{"production-1", "production-2", "production-3"}, f.holding(r1)); diff != "" {
		t.Errorf("before the production step the joiner holds the stable revision: %s", diff)
	}
	f.runUntilPhase(v1alpha1.RunSucceeded)
	if got := f.holding(r2); len(got) != 4 {
		t.Errorf("in the end %v have it", got)
	}
	for name, n := range f.forwardWrites {
		if n != 1 {
			t.Errorf("%s was written %d times", name, n)
		}
	}
}

func TestCaseB1SharesOverAllSizesAdmitWhatTheDocumentedRoundingSays(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 7, 10, 20} {
		last := 0
		for _, percent := range []int{0, 1, 10, 25, 33, 50, 67, 99, 100} {
			f := newFleet(t, groupNamed("all", step(fmt.Sprintf("%d%%", percent), 600), step("100%", 0)))
			f.add("all", n)
			r := f.push("1.0.0", healthyAfter(time.Second))
			f.runFor(30 * time.Second)
			k := len(f.holding(r))
			if want := (percent*n + 99) / 100; k != want {
				t.Errorf("%d %% of %d admitted %d, want %d", percent, n, k, want)
			}
			if k < last {
				t.Errorf("%d %% of %d admitted %d, fewer than the smaller share's %d", percent, n, k, last)
			}
			if percent == 0 && !f.waitsFor(v1alpha1.ReasonShareReached) {
				t.Errorf("a share of 0 does not say that it waits: %s", mustJSON(f.run.WaitingFor))
			}
			last = k
		}
	}
}

func TestCaseC1ANewRevisionInheritsNothingOfTheOneInFlight(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 60)), groupNamed("production"))
	f.strategy.FailureBudget = failureBudget("2")
	f.add("canary", 4)
	f.add("production", 1)
	f.deploy("1.0.0")
	r2 := f.push("1.1.0", failsOn("canary-1", "canary-2"))
	f.runUntil("soaking with two failures", func() bool { return f.waitsFor(v1alpha1.ReasonSoaking) })
	f.runFor(30 * time.Second)
	r3 := f.push("1.2.0", failsOn("canary-3"))
	f.runFor(20 * time.Second)
	if f.run.Phase != v1alpha1.RunProgressing || r2.Verdict != v1alpha1.VerdictSuperseded {
		t.Fatalf("run %s, 1.1.0 is %s", f.run.Phase, r2.Verdict)
	}
	begun := f.run.SoakStartedAt
	if begun == nil || begun.Before(f.run.StepStartedAt) {
		t.Fatalf("the soak did not start anew: %s", mustJSON(f.run))
	}
	f.runUntil("production", func() bool { return f.run.Group != "canary" })
	if served := f.now.Sub(begun.Time); served < 60*time.Second {
		t.Errorf("only %s of the soak were served", served)
	}
	f.cluster("production-1").override = v1alpha1.HealthFailed
	f.cluster("canary-4").override = v1alpha1.HealthFailed
	f.runUntilPhase(v1alpha1.RunFailed)
	if to := f.rollbacks[len(f.rollbacks)-1].To; to.Version != "1.0.0" {
		t.Errorf("the rollback of %s goes to %s", r3.Version, to.Version)
	}
}

func TestCaseG1TheTargetOfARollbackIsNeverARevisionThatFailed(t *testing.T) {
	f := newFleet(t, groupNamed("canary"), groupNamed("production"))
	f.add("canary", 1)
	f.add("production", 1)
	r1 := f.deploy("1.0.0")
	r2 := f.push("1.1.0", alwaysHealth(v1alpha1.HealthFailed))
	f.runUntilPhase(v1alpha1.RunFailed)
	f.runFor(10 * time.Second)
	f.push("1.2.0", alwaysHealth(v1alpha1.HealthFailed))
	f.runUntilPhase(v1alpha1.RunFailed)
	f.runFor(10 * time.Second)
	if got := f.rollbacks[1].To; got.Digest != r1.Digest {
		t.Errorf("the second rollback goes to %s", got.Version)
	}
	if r2.Verdict != v1alpha1.VerdictFailed || len(f.holding(r1)) != 2 {
		t.Errorf("1.1.0 is %s, on 1.0.0: %v", r2.Verdict, f.holding(r1))
	}
}

func TestCaseG3WithNothingToGoBackToTheReasonIsInTheMainCondition(t *testing.T) {
	f := newFleet(t, groupNamed("canary"), groupNamed("production"))
	f.add("canary", 1)
	f.add("production", 1)
	r1 := f.push("1.0.0", alwaysHealth(v1alpha1.HealthFailed))
	f.runUntilPhase(v1alpha1.RunFailed)
	f.runFor(10 * time.Minute)
	o := f.last.Outcome
	if o.Ready || o.Cause.Reason != v1alpha1.ReasonNoRollbackTarget || o.Stalled == nil || o.Stalled.Reason != v1alpha1.ReasonNoRollbackTarget {
		t.Errorf("outcome: %+v", o)
	}
	if diff := cmp.Diff([]string{"canary-1"}, f.holding(r1)); diff != "" || f.cluster("canary-1").delivery.Spec.Delivery != 1 || f.run.Number != 1 {
		t.Errorf("the workload is not left alone: %s", diff)
	}
	r2 := f.push("1.0.1", healthyAfter(time.Second))
	f.runUntilPhase(v1alpha1.RunSucceeded)
	if f.stable.Digest != r2.Digest {
		t.Errorf("stable is %s", f.stable.Version)
	}
}

func TestCaseI1TheSoakIsCountedFromTheNewProofAndNotFromAnOldTimestamp(t *testing.T) {
	g := groupNamed("all", step("1", 60), step("2", 60), step("3", 60), step("100%", 0))
	g.MaxConcurrent = share("1")
	f := newFleet(t, g)
	f.add("all", 3)
	f.deploy("1.0.0")
	f.runFor(24 * time.Hour)
	f.push("1.1.0", healthyAfter(time.Second))
	for i := 1; i < 3; i++ {
		c := f.cluster(fmt.Sprintf("all-%d", i))
		f.runUntil(c.name+" is proven", func() bool {
			return c.delivery.Spec.Delivery == 2 && c.delivery.Status.Delivery == 2 && c.delivery.Status.ProvenAt != nil
		})
		next := f.cluster(fmt.Sprintf("all-%d", i+1))
		f.runUntil(next.name+" is written", func() bool { return next.delivery.Spec.Delivery == 2 })
		if after := f.now.Sub(c.delivery.Status.ProvenAt.Time); after < 60*time.Second {
			t.Errorf("%s was written %s after %s was proven", next.name, after, c.name)
		}
	}
}

func TestCaseI3TimeSpentPausedIsNotChargedToTheDeadline(t *testing.T) {
	f := newFleet(t, groupNamed("all", step("1", 0), step("100%", 0)))
	f.strategy.ProgressDeadlineSeconds = secs(60)
	f.add("all", 2)
	f.deploy("1.0.0")
	f.push("1.1.0", healthyAfter(230*time.Second))
	f.tick(0)
	f.runFor(10 * time.Second)
	f.setPaused(true)
	f.tick(0)
	step, phase := f.run.Step, f.run.Phase
	f.check = func(_ Snapshot, p Plan) {
		if p.Run.Phase != phase || p.Run.Step != step {
			t.Errorf("while paused the run went to %s, step %d", p.Run.Phase, p.Run.Step)
		}
	}
	f.runFor(180 * time.Second)
	f.check = nil
	f.setPaused(false)
	f.runFor(20 * time.Second)
	if f.run.Phase != v1alpha1.RunProgressing || f.run.Step != step {
		t.Errorf("after the pause: %s, step %d", f.run.Phase, f.run.Step)
	}
}

func TestCaseI5SoakIsTimeReallySpentHealthy(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 60)), groupNamed("production"))
	f.add("canary", 1)
	f.add("production", 1)
	f.deploy("1.0.0")
	f.push("1.1.0", func(_ *fakeCluster, since time.Duration) v1alpha1.Health {
		if since >= 50*time.Second && since < 60*time.Second {
			return v1alpha1.HealthDegraded
		}
		return v1alpha1.HealthHealthy
	})
	f.runUntil("soaking", func() bool { return f.waitsFor(v1alpha1.ReasonSoaking) })
	healthy := f.now
	f.runFor(55 * time.Second)
	if j := f.judgement("canary-1"); j.State != v1alpha1.StateDegraded || j.Cause == nil {
		t.Errorf("the degraded interval is not visible: %+v", j)
	}
	f.runUntil("production", func() bool { return f.run.Group != "canary" })
	if after := f.now.Sub(healthy); after < 119*time.Second || after > 125*time.Second {
		t.Errorf("the soak ended after %s, want 120 s", after)
	}
}

func TestCaseI7ANewRunIsNotTimedOutByTheDeadlineOfTheOneBefore(t *testing.T) {
	f := newFleet(t, groupNamed("all"))
	f.strategy.ProgressDeadlineSeconds = secs(30)
	f.add("all", 1)
	f.deploy("1.0.0")
	f.runFor(time.Hour)
	f.push("1.1.0", healthyAfter(17*time.Second))
	s := f.snapshot()
	p := f.plan(s)
	// A resync sees the new intent with the status of the old delivery.
	s.Run, s.Clusters[0].Delivery.Spec = p.Run, p.Writes[0].Spec
	if again := Next(s, f.now.Add(time.Second)); again.Run.Phase != v1alpha1.RunProgressing || len(again.Events) != 0 || len(again.Failures) != 0 {
		t.Errorf("timed out at birth: %s", mustJSON(again.Run))
	}
	f.check = func(_ Snapshot, p Plan) {
		for _, e := range p.Events {
			if e.Warning {
				t.Errorf("event %s: %s", e.Reason, e.Message)
			}
		}
	}
	f.runUntilPhase(v1alpha1.RunSucceeded)
}

func TestCaseK6AfterARevertNoFieldOfTheRunLooksPending(t *testing.T) {
	f := newFleet(t, groupNamed("all", step("1", 0), step("50%", 600), step("100%", 0)))
	f.add("all", 4)
	r1 := f.push("1.0.0", healthyAfter(time.Second))
	f.strategy.Groups[0].Steps[1].SoakSeconds = 0
	f.runUntilPhase(v1alpha1.RunSucceeded)
	f.strategy.Groups[0].Steps[1].SoakSeconds = 600
	f.push("1.1.0", healthyAfter(time.Second))
	f.runUntil("step 2", func() bool { return f.run.Step == 2 })
	f.setPaused(true)
	f.runFor(time.Minute)
	f.setTemplate(r1)
	f.runFor(time.Minute)
	r := f.run
	if r.Phase != v1alpha1.RunSuperseded || r.Group != "" || r.Step != 0 || r.StepTarget != nil || r.StepStartedAt != nil || r.SoakStartedAt != nil || r.PausedAt != nil || len(r.WaitingFor) != 0 {
		t.Errorf("left over: %s", mustJSON(r))
	}
	if got := f.holding(f.revision(r1.Digest)); len(got) != 4 {
		t.Errorf("on 1.0.0: %v", got)
	}
}
