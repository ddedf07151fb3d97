package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func TestLaw15JoiningOutsideARunGetsTheStableRevisionAtOnce(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.add("production", 1)
	r := f.deploy("1.0.0")
	f.add("production", 1)
	f.tick(time.Second)
	if diff := cmp.Diff([]string{"production-1", "production-2"}, f.holding(r)); diff != "" {
		t.Error(diff)
	}
	if f.run.Number != 1 {
		t.Error("a join started a run")
	}
}

func TestLaw15JoiningAGroupAlreadyPassedIsAdmittedAtOnceAndHoldsOnlyTheEnd(t *testing.T) {
	f := newFleet(t, groupNamed("canary"), groupNamed("production", step("1", 60), step("100%", 0)))
	f.add("canary", 1)
	f.add("production", 2)
	f.deploy("1.0.0")
	r := f.push("1.1.0", healthyAfter(time.Second))
	f.runUntil("production", func() bool { return f.run.Group == "production" })
	late := f.add("canary", 1)[0]
	late.applyDelay = 150 * time.Second
	f.tick(time.Second)
	if late.delivery == nil || late.delivery.Spec.Revision.Digest != r.Digest {
		t.Fatalf("not admitted: %s", mustJSON(late.delivery))
	}
	f.runUntil("production is left", func() bool { return f.run.Group == "" })
	if f.run.Phase != v1alpha1.RunProgressing {
		t.Fatalf("the late joiner does not hold the end: %s", f.run.Phase)
	}
	f.runUntilPhase(v1alpha1.RunSucceeded)
}

func TestLaw16LostAfterItsWriteHoldsTheStepAndThenFails(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 30)), groupNamed("production"))
	f.strategy.ProgressDeadlineSeconds = secs(120)
	f.add("canary", 1)
	f.add("production", 1)
	f.deploy("1.0.0")
	r := f.push("1.1.0", healthyAfter(time.Second))
	f.runFor(10 * time.Second)
	c := f.cluster("canary-1")
	c.lose()
	f.runFor(100 * time.Second)
	if diff := cmp.Diff([]string{"canary-1"}, f.holding(r)); diff != "" || f.run.SoakStartedAt != nil {
		t.Errorf("a lost canary proves nothing (case D3): %s %s", mustJSON(f.run), diff)
	}
	f.runFor(100 * time.Second)
	if f.run.Phase != v1alpha1.RunFailed || !strings.Contains(f.run.HaltCause.Message, v1alpha1.ReasonLostTooLong) {
		t.Errorf("%s: %s", f.run.Phase, mustJSON(f.run.HaltCause))
	}
}

func TestLaw16TheDeadlineOfAClusterUnreachableAtItsWriteStartsWithItsReturn(t *testing.T) {
	f := newFleet(t, groupNamed("production", step("100%", 600)))
	f.strategy.ProgressDeadlineSeconds = secs(60)
	f.add("production", 3)
	for _, c := range f.clusters {
		c.tolerated = true
	}
	f.deployQuickly("1.0.0")
	c := f.cluster("production-2")
	c.lose()
	f.runFor(2 * time.Minute)
	f.push("1.1.0", func(c *fakeCluster, since time.Duration) v1alpha1.Health {
		if c.name == "production-2" {
			return v1alpha1.HealthProgressing
		}
		return healthyAfter(time.Second)(c, since)
	})
	f.runFor(200 * time.Second)
	if !c.delivery.Spec.UnreachableAtWrite || f.run.Phase != v1alpha1.RunProgressing || f.run.SoakStartedAt == nil {
		t.Fatalf("written, not waited for, outside the budget: %s %s", mustJSON(c.delivery.Spec), mustJSON(f.run))
	}
	c.comeUp()
	f.runFor(50 * time.Second)
	if f.run.Phase != v1alpha1.RunProgressing || f.run.SoakStartedAt != nil {
		t.Fatalf("after its return it is waited for: %s", mustJSON(f.run))
	}
	f.runFor(15 * time.Second)
	if f.run.Phase != v1alpha1.RunFailed {
		t.Errorf("its deadline did not pass: %s", f.run.Phase)
	}
}

func TestLaw17ABlockedClusterIsNotWrittenNotWaitedForAndNamed(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.add("production", 3)
	f.deploy("1.0.0")
	f.cluster("production-2").heldByOther = true
	r := f.push("1.1.0", healthyAfter(time.Second))
	f.runUntilPhase(v1alpha1.RunSucceeded)
	if diff := cmp.Diff([]string{"production-1", "production-3"}, f.holding(r)); diff != "" {
		t.Error(diff)
	}
	f.runFor(time.Second)
	if o := f.last.Outcome; o.Ready || !strings.Contains(o.Cause.Message, "production-2 (HeldByOther)") {
		t.Errorf("outcome: %+v", o)
	}
	f.cluster("production-2").heldByOther = false
	f.dirty = true
	f.runFor(10 * time.Second)
	if got := f.holding(r); len(got) != 3 || !f.last.Outcome.Ready {
		t.Errorf("freed, and not caught up: %v, %+v", got, f.last.Outcome)
	}
}

func TestLaw17ANewRevisionReachesAClusterThatAnEarlierOneLeftBlocked(t *testing.T) {
	f := newFleet(t, groupNamed("canary"), groupNamed("production"))
	f.add("canary", 1)
	f.add("production", 1)
	f.deploy("1.0.0")
	bad := f.push("1.1.0", healthyAfter(time.Second))
	f.cluster("canary-1").contested = bad.Digest
	f.runUntil("the run waits", func() bool { return f.waitsFor(v1alpha1.ReasonNoEvidence) })
	if s := f.cluster("canary-1").delivery.Status; s.State != v1alpha1.StateBlocked {
		t.Fatalf("canary-1 is %s/%s", s.State, s.Reason)
	}
	fix := f.push("1.2.0", healthyAfter(5*time.Second))
	f.check = func(_ Snapshot, p Plan) {
		if p.Run.Group == "production" && f.cluster("canary-1").delivery.Status.HealthySince == nil {
			t.Error("the step is left before the cluster that was blocked has proven the fix")
		}
	}
	f.runUntilPhase(v1alpha1.RunSucceeded)
	if got := f.holding(fix); len(got) != 2 {
		t.Errorf("%v hold the fix", got)
	}
}

func TestLaw17AClusterLeftBlockedBySupersededContentCatchesUpWithTheStableOne(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.add("production", 2)
	stable := f.deploy("1.0.0")
	bad := f.push("1.1.0", failsOn("production-2"))
	f.cluster("production-1").contested = bad.Digest
	f.runUntilPhase(v1alpha1.RunFailed)
	f.runFor(time.Minute)
	if got := f.holding(stable); len(got) != 2 {
		t.Errorf("%v went back", got)
	}
}

func TestLaw18PauseStopsForwardWritesAndLeavesAutomaticRollbackArmed(t *testing.T) {
	f := newFleet(t, groupNamed("canary"), groupNamed("production"))
	f.policy.UnhealthySeconds = secs(10)
	f.add("canary", 1)
	f.add("production", 1)
	f.deploy("1.0.0")
	r := f.push("1.1.0", healthyAfter(20*time.Second))
	f.tick(0)
	f.setPaused(true)
	f.add("production", 1)
	f.runFor(time.Minute)
	if diff := cmp.Diff([]string{"canary-1"}, f.holding(r)); diff != "" || f.cluster("production-2").delivery != nil {
		t.Fatalf("written while paused: %s", diff)
	}
	if o := f.last.Outcome; o.Cause.Reason != v1alpha1.ReasonPaused || f.run.PausedAt == nil {
		t.Errorf("outcome %+v, run %s", o, mustJSON(f.run))
	}
	f.cluster("canary-1").override = v1alpha1.HealthDegraded
	f.runFor(15 * time.Second)
	if f.run.Phase != v1alpha1.RunFailed || len(f.holding(r)) != 0 {
		t.Errorf("rollback is not armed while paused: %s", f.run.Phase)
	}
}

func TestLaw24ASpecThatCannotBeFrozenLeavesTheRunningRevisionAsItWas(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 10)), groupNamed("production"))
	f.add("canary", 1)
	f.add("production", 1)
	f.deploy("1.0.0")
	r := f.push("1.1.0", healthyAfter(time.Second))
	f.runFor(5 * time.Second)
	f.current, f.dirty = "", true
	f.invalidSpec = &v1alpha1.Cause{Reason: v1alpha1.ReasonInvalidSpec, Message: "spec.template.components[0].manifests[0]: kind is missing"}
	f.runFor(time.Minute)
	if f.run.Phase != v1alpha1.RunSucceeded || len(f.holding(r)) != 2 {
		t.Errorf("the run is %s, on it %v", f.run.Phase, f.holding(r))
	}
	if o := f.last.Outcome; o.Ready || o.Cause.Reason != v1alpha1.ReasonInvalidSpec || o.Stalled == nil {
		t.Errorf("outcome: %+v", o)
	}
}

func TestLaw24ARestartOverAFinishedRolloutWritesNothing(t *testing.T) {
	f := newFleet(t, groupNamed("canary"), groupNamed("production"))
	f.add("canary", 3)
	f.add("production", 20)
	f.deploy("1.0.0")
	f.runFor(time.Minute)
	f.restart()
	f.check = func(s Snapshot, p Plan) {
		if n := len(p.Writes) + len(p.Absences) + len(p.Verdicts) + len(p.Events) + len(p.Failures); n > 0 {
			t.Fatalf("the restarted manager does something: %s", mustJSON(p))
		}
		if before, after := mustJSON(s.Run), mustJSON(p.Run); before != after {
			t.Fatalf("the restarted manager changes the run:\n%s\n%s", before, after)
		}
	}
	f.runFor(10 * time.Minute)
}

func TestLaw26DeletingStopsRemovesAndForgets(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 60)), groupNamed("production"))
	f.add("canary", 1)
	f.add("production", 2)
	f.deploy("1.0.0")
	f.push("1.1.0", healthyAfter(time.Second))
	f.runFor(10 * time.Second)
	lost := f.cluster("production-2")
	lost.lose()
	f.runFor(2 * time.Minute)
	writes := len(f.forwardWrites)
	f.deleting, f.dirty = true, true
	f.runFor(5 * time.Minute)
	if len(f.forwardWrites) != writes {
		t.Error("a rollout being deleted goes on writing")
	}
	if f.cluster("canary-1").delivery != nil || f.cluster("production-1").delivery != nil || lost.delivery == nil {
		t.Fatal("the reachable clusters are forgotten at once, the unreachable one is not")
	}
	if o := f.last.Outcome; o.Cause.Reason != v1alpha1.ReasonDeleting || !strings.Contains(o.Cause.Message, "production-2") || !strings.Contains(o.Cause.Message, "kubectl delete managedcluster") {
		t.Errorf("the blocker is not named (case O1): %+v", o)
	}
	lost.deleting, f.dirty = true, true
	f.runFor(time.Second)
	if lost.delivery != nil {
		t.Error("the cluster is detached while it is unreachable, and still holds the deletion (case O1)")
	}
}

func TestLaw15AClusterThatIsSelectedAgainAfterItsRemovalCountsItsDeliveriesOn(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.add("production", 2)
	r := f.deploy("1.0.0")
	c := f.cluster("production-1")
	c.wanted, f.dirty = false, true
	f.runUntil("it is being removed", func() bool { return c.delivery.Spec.Removal != "" })
	c.wanted, f.dirty = true, true
	f.runFor(10 * time.Second)
	if c.delivery == nil || c.delivery.Spec.Delivery != 2 || c.delivery.Spec.Removal != "" || c.delivery.Spec.Revision.Digest != r.Digest {
		t.Errorf("an old report could prove the new delivery: %s", mustJSON(c.delivery))
	}
	if !f.last.Outcome.Ready {
		t.Errorf("outcome: %+v", f.last.Outcome)
	}
}

func TestLaw15ALateJoinerThatWaitsForAPlaceHoldsTheEndOfTheRun(t *testing.T) {
	canary := groupNamed("canary")
	canary.MaxConcurrent, canary.MinSuccessSeconds = share("1"), 60
	f := newFleet(t, canary, groupNamed("production", step("100%", 10)))
	f.add("canary", 1)
	f.add("production", 1)
	f.deploy("1.0.0")
	r := f.push("1.1.0", healthyAfter(time.Second))
	f.runUntil("production", func() bool { return f.run.Group == "production" })
	f.add("canary", 2)
	f.runUntilPhase(v1alpha1.RunSucceeded)
	if got := f.holding(r); len(got) != 4 {
		t.Errorf("the run ended with only %v on its revision", got)
	}
	for _, name := range []string{"canary-2", "canary-3"} {
		if s := f.cluster(name).delivery.Spec; s.Run != 2 || s.Step != 1 {
			t.Errorf("%s joined after the run instead of being part of it: %s", name, mustJSON(s))
		}
	}
}

func TestLaw18NoSoakBeginsDuringAPauseBeforeTheWholeShareIsWritten(t *testing.T) {
	g := groupNamed("production", step("100%", 60))
	g.MaxConcurrent = share("1")
	f := newFleet(t, g)
	f.add("production", 2)
	f.push("1.0.0", healthyAfter(10*time.Second))
	f.tick(0)
	f.setPaused(true)
	f.runFor(2 * time.Minute)
	if f.run.SoakStartedAt != nil {
		t.Error("one of two clusters is written and proven, and the step soaks")
	}
	f.setPaused(false)
	f.runUntil("both are proven", func() bool { return f.waitsFor(v1alpha1.ReasonSoaking) })
	f.setPaused(true)
	f.runFor(2 * time.Minute)
	if f.run.SoakStartedAt == nil || f.run.Phase != v1alpha1.RunProgressing {
		t.Errorf("evidence counts on during a pause, and no step is left: %s", mustJSON(f.run))
	}
	f.setPaused(false)
	f.tick(0)
	if f.run.Phase != v1alpha1.RunSucceeded {
		t.Errorf("the soak was served during the pause: %s", mustJSON(f.run))
	}
}

func TestLaw26AClusterThatIsBeingDetachedGetsNoRemovalWritten(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.add("production", 2)
	f.deploy("1.0.0")
	c := f.cluster("production-1")
	c.deleting, f.deleting, f.dirty = true, true, true
	f.runFor(time.Minute)
	if c.delivery == nil || c.delivery.Spec.Removal != "" {
		t.Errorf("a ManagedCluster that is being deleted got a write: %s", mustJSON(c.delivery))
	}
	c.exists, f.dirty = false, true
	f.runFor(time.Second)
	if c.delivery != nil || f.cluster("production-2").delivery != nil {
		t.Error("something is left of the rollout")
	}
}
