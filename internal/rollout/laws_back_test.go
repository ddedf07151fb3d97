package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// The laws about going back, about clusters that come and go, and about people.

func TestLaw10SettingTheTemplateToStableSupersedesTheRunAndGoesBackWithoutGates(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 600)), groupNamed("production"))
	f.policy.Mode = v1alpha1.RollbackManual
	f.add("canary", 2)
	f.add("production", 1)
	r1 := f.deployQuickly("1.0.0")
	r2 := f.push("1.1.0", healthyAfter(time.Second))
	f.runFor(10 * time.Second)
	f.setPaused(true)
	f.runFor(10 * time.Second)
	f.setTemplate(r1)
	f.runFor(10 * time.Second)
	if f.run.Phase != v1alpha1.RunSuperseded || f.run.Number != 2 || r2.Verdict != v1alpha1.VerdictSuperseded {
		t.Errorf("run %d is %s, verdict %s", f.run.Number, f.run.Phase, r2.Verdict)
	}
	if got := f.holding(r2); len(got) != 0 {
		t.Errorf("still on 1.1.0 though no gate, mode or pause holds a revert: %v", got)
	}
	if len(f.rollbacks) != 1 || f.rollbacks[0].Trigger != v1alpha1.TriggerReverted || f.rollbacks[0].Result != v1alpha1.RollbackComplete || f.rollbacks[0].Clusters != 2 {
		t.Errorf("records: %s", mustJSON(f.rollbacks))
	}
}

func TestLaw10SucceededIsNeverTakenAway(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.add("production", 2)
	r1 := f.deploy("1.0.0")
	r2 := f.deploy("1.1.0")
	f.cluster("production-1").override = v1alpha1.HealthFailed
	f.setTemplate(r1)
	f.runUntilPhase(v1alpha1.RunFailed)
	f.runFor(5 * time.Second)
	if r1.Verdict != v1alpha1.VerdictSucceeded || f.stable.Digest != r2.Digest {
		t.Errorf("1.0.0 is %s, stable is %s", r1.Verdict, f.stable.Version)
	}
	if diff := cmp.Diff([]string{"production-1", "production-2"}, f.holding(r2)); diff != "" {
		t.Error(diff)
	}
	f.runFor(10 * time.Minute)
	if f.run.Number != 3 {
		t.Errorf("the failed run was tried again: run %d", f.run.Number)
	}
}

func TestLaw11ARollbackIsBoundedByItsMaxConcurrent(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.policy.MaxConcurrent = share("2")
	f.add("production", 6)
	f.deploy("1.0.0")
	r := f.push("1.1.0", failsOn("production-6"))
	f.runUntilPhase(v1alpha1.RunFailed)
	for f.rollbacks[0].FinishedAt == nil {
		changing := 0
		for _, c := range f.clusters {
			if s := c.delivery.Spec; s.Rollback == 1 && c.delivery.Status.ProvenAt == nil {
				changing++
			}
		}
		if changing > 2 {
			t.Fatalf("%d clusters go back at once", changing)
		}
		f.tick(time.Second)
	}
	if got := f.rollbacks[0]; got.Result != v1alpha1.RollbackComplete || got.Restored != 6 || got.From[0] != r.RevisionReference {
		t.Errorf("record: %s", mustJSON(got))
	}
}

func TestLaw11AClusterPastItsVerificationTimeoutIsNamedAndTheNextGoes(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.policy.MaxConcurrent = share("1")
	f.policy.Verification.TimeoutSeconds = secs(30)
	f.add("production", 3)
	r1 := f.deploy("1.0.0")
	f.push("1.1.0", failsOn("production-2"))
	f.runUntilPhase(v1alpha1.RunFailed)
	f.cluster("production-2").override = v1alpha1.HealthDegraded
	f.runFor(2 * time.Minute)
	if got := f.holding(r1); len(got) != 3 {
		t.Errorf("only %v are back", got)
	}
	if got := f.rollbacks[0]; got.Result != v1alpha1.RollbackIncomplete || got.FinishedAt != nil || got.Restored != 2 {
		t.Errorf("record: %s", mustJSON(got))
	}
	if j := f.judgement("production-2"); j.Cause == nil || j.Cause.Reason != v1alpha1.ReasonRollbackIncomplete {
		t.Errorf("judgement: %+v", j)
	}
	f.cluster("production-2").override = ""
	f.runFor(5 * time.Second)
	if got := f.rollbacks[0]; got.Result != v1alpha1.RollbackComplete || got.Restored != 3 {
		t.Errorf("record: %s", mustJSON(got))
	}
	if o := f.last.Outcome; o.Ready || o.Cause.Reason != v1alpha1.ReasonRolledBack {
		t.Errorf("a finished rollback is not ready: %+v", o)
	}
}

func TestLaw11ARollbackReachesAnUnreachableClusterWhenItReturns(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.policy.MaxConcurrent = share("1")
	f.policy.Verification.TimeoutSeconds = secs(30)
	f.add("production", 3)
	r1 := f.deploy("1.0.0")
	f.push("1.1.0", failsOn("production-2"))
	f.tick(0)
	f.tick(time.Second)
	f.cluster("production-1").lose()
	f.runUntilPhase(v1alpha1.RunFailed)
	f.runFor(3 * time.Minute)
	if got := f.rollbacks[0]; got.Result != v1alpha1.RollbackIncomplete || got.Restored != 2 {
		t.Fatalf("record: %s", mustJSON(got))
	}
	if got := f.holding(r1); len(got) != 3 {
		t.Errorf("the intent of the lost one is written as well: %v", got)
	}
	f.cluster("production-1").comeUp()
	f.runFor(10 * time.Second)
	if got := f.rollbacks[0]; got.Result != v1alpha1.RollbackComplete {
		t.Errorf("record: %s", mustJSON(got))
	}
}

func TestLaw12AnUnhealthyClusterOnASupersededRevisionGoesBackBeforeItsTurn(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 600)), groupNamed("production"))
	f.policy.UnhealthySeconds = secs(20)
	f.strategy.FailureBudget = failureBudget("2")
	f.add("canary", 1)
	f.add("production", 2)
	r1 := f.deployQuickly("1.0.0")
	r2 := f.push("1.1.0", func(c *fakeCluster, since time.Duration) v1alpha1.Health {
		if c.name == "production-1" {
			return v1alpha1.HealthFailed
		}
		return healthyAfter(time.Second)(c, since)
	})
	f.strategy.Groups[0].Steps[0].SoakSeconds = 5
	f.runUntil("production has 1.1.0", func() bool { return len(f.holding(r2)) == 3 })
	f.strategy.Groups[0].Steps[0].SoakSeconds = 600
	f.push("1.2.0", healthyAfter(time.Second))
	f.runFor(30 * time.Second)
	if diff := cmp.Diff([]string{"production-1"}, f.holding(r1)); diff != "" {
		t.Errorf("the broken one is back on 1.0.0: %s", diff)
	}
	if diff := cmp.Diff([]string{"production-2"}, f.holding(r2)); diff != "" {
		t.Errorf("the healthy one keeps what it has: %s", diff)
	}
}

func TestLaw13AFailedRevisionIsNotTriedAgain(t *testing.T) {
	f := newFleet(t, groupNamed("canary"), groupNamed("production"))
	f.add("canary", 1)
	f.add("production", 1)
	f.deploy("1.0.0")
	bad := f.push("1.1.0", alwaysHealth(v1alpha1.HealthFailed))
	f.runUntilPhase(v1alpha1.RunFailed)
	f.strategy.ProgressDeadlineSeconds = secs(300)
	f.restart()
	f.runFor(time.Hour)
	if n := f.forwardWrites["canary-1 1.1.0"]; n != 1 || bad.Attempts != 1 || f.run.Number != 2 {
		t.Fatalf("%d writes, %d attempts, run %d", n, bad.Attempts, f.run.Number)
	}
	if o := f.last.Outcome; o.Stalled == nil || o.Stalled.Reason != v1alpha1.ReasonKnownBad {
		t.Errorf("outcome: %+v", o)
	}
	f.deploy("1.1.1")
	f.setTemplate(bad)
	f.runFor(time.Hour)
	if o := f.last.Outcome; f.forwardWrites["canary-1 1.1.0"] != 1 || o.Ready || o.Cause.Reason != v1alpha1.ReasonKnownBad {
		t.Errorf("the template was set back to the failed revision: %+v", o)
	}
}

func TestLaw13ASupersededRevisionMayRunAgainAndIsDeliveredAnew(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 60)), groupNamed("production"))
	f.add("canary", 2)
	f.add("production", 1)
	f.deploy("1.0.0")
	r2 := f.push("1.1.0", healthyAfter(time.Second))
	f.runFor(10 * time.Second)
	f.strategy.Groups[0].MaxConcurrent = share("1")
	f.push("1.2.0", healthyAfter(time.Second))
	f.runFor(time.Second)
	f.setTemplate(r2)
	f.runFor(time.Second)
	if f.run.Attempt != 2 || f.run.Number != 4 {
		t.Fatalf("run %d attempt %d", f.run.Number, f.run.Attempt)
	}
	if s := f.cluster("canary-2").delivery.Spec; s.Run != 4 || s.Delivery != 3 {
		t.Errorf("the cluster that still holds it comes first, with a new number: %s", mustJSON(s))
	}
	f.runUntilPhase(v1alpha1.RunSucceeded)
	if r2.Verdict != v1alpha1.VerdictSucceeded || r2.Attempts != 2 {
		t.Errorf("verdict %s, %d attempts", r2.Verdict, r2.Attempts)
	}
}

func TestLaw14AnOpenRollbackGoesOnForClustersTheNewRunHasNotAdmitted(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 300)), groupNamed("production"))
	f.policy.MaxConcurrent = share("1")
	f.add("canary", 1)
	f.add("production", 3)
	r1 := f.deployQuickly("1.0.0")
	f.strategy.Groups[0].Steps[0].SoakSeconds = 1
	bad := f.push("1.1.0", failsOn("production-3"))
	f.runUntilPhase(v1alpha1.RunFailed)
	f.strategy.Groups[0].Steps[0].SoakSeconds = 300
	fix := f.push("1.1.1", healthyAfter(time.Second))
	f.runFor(time.Minute)
	if diff := cmp.Diff([]string{"canary-1"}, f.holding(fix)); diff != "" {
		t.Errorf("admitted to the new run: %s", diff)
	}
	if got := f.holding(r1); len(got) != 3 || len(f.holding(bad)) != 0 {
		t.Errorf("gone back %v, left on the bad one %v", got, f.holding(bad))
	}
	if got := f.rollbacks[0].Result; got != v1alpha1.RollbackSuperseded && got != v1alpha1.RollbackComplete {
		t.Errorf("the record is %s", got)
	}
}

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
	lost.exists, f.dirty = false, true
	f.runFor(time.Second)
	if lost.delivery != nil {
		t.Error("the ManagedCluster is gone and its delivery is not")
	}
}

func TestARevisionWhosePayloadIsGoneIsNeitherRunNorPutBack(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.add("production", 1)
	r1 := f.deploy("1.0.0")
	missing := &v1alpha1.Cause{Reason: v1alpha1.ReasonRevisionMissing, Message: `Secret "payments-1" is gone`}
	r1.Problem = missing
	bad := f.push("1.1.0", alwaysHealth(v1alpha1.HealthFailed))
	f.runUntilPhase(v1alpha1.RunFailed)
	f.runFor(time.Minute)
	if o := f.last.Outcome; len(f.holding(bad)) != 1 || len(f.rollbacks) != 0 || o.Cause.Reason != v1alpha1.ReasonRevisionMissing {
		t.Errorf("%v, %+v", f.holding(bad), o)
	}
	r3 := f.push("1.2.0", healthyAfter(0))
	r3.Problem = missing
	f.runFor(time.Minute)
	if o := f.last.Outcome; len(f.holding(r3)) != 0 || o.Cause.Reason != v1alpha1.ReasonRevisionMissing {
		t.Errorf("%v, %+v", f.holding(r3), o)
	}
}

// deployQuickly deploys without the soaks of the strategy.
func (f *fleet) deployQuickly(version string) *fakeRevision {
	f.t.Helper()
	soaks := f.strategy.Groups[0].Steps[0].SoakSeconds
	f.strategy.Groups[0].Steps[0].SoakSeconds = 0
	defer func() { f.strategy.Groups[0].Steps[0].SoakSeconds = soaks }()
	return f.deploy(version)
}
