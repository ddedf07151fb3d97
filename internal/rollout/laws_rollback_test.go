package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

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

func TestLaw14AnOpenRollbackLeavesAloneWhatTheNewRunHasAdmitted(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 60)), groupNamed("production"))
	f.policy.Verification.TimeoutSeconds = secs(20)
	f.add("canary", 1)
	f.add("production", 2)
	f.deployQuickly("1.0.0")
	f.cluster("production-1").tolerated = true
	f.push("1.1.0", failsOn("production-2"))
	f.runUntil("production is written", func() bool { return f.run.Group == "production" })
	f.cluster("production-1").lose()
	f.runUntilPhase(v1alpha1.RunFailed)
	f.runFor(2 * time.Minute)
	if f.rollbacks[0].Result != v1alpha1.RollbackIncomplete {
		t.Fatalf("record: %s", mustJSON(f.rollbacks))
	}
	fix := f.push("1.1.1", healthyAfter(time.Second))
	f.runFor(30 * time.Second)
	if diff := cmp.Diff([]string{"canary-1"}, f.holding(fix)); diff != "" || f.cluster("canary-1").delivery.Spec.Delivery != 4 {
		t.Errorf("the canary of the new run was touched by the old rollback: %s", diff)
	}
	f.runUntilPhase(v1alpha1.RunSucceeded)
	if f.rollbacks[0].Result != v1alpha1.RollbackSuperseded {
		t.Errorf("the new run took over what was left, and the record is %s", f.rollbacks[0].Result)
	}
}

func TestLaw12ThePlannerWakesItselfForAnUnhealthyClusterOnASupersededRevision(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("0", 0), step("100%", 0)), groupNamed("production"))
	f.policy.UnhealthySeconds = secs(45)
	production := f.add("production", 1)[0]
	f.deploy("1.0.0")
	f.add("canary", 1)
	f.push("1.2.0", healthyAfter(0)) // Waits for ever at the canary's share of 0.
	f.tick(0)
	s := f.snapshot()
	for i := range s.Clusters {
		if c := &s.Clusters[i]; c.Name == production.name {
			c.Delivery.Spec.Revision = v1alpha1.RevisionReference{Name: "payments-9", Number: 9, Version: "1.1.0", Digest: "sha256:superseded"}
			c.Delivery.Status.HealthySince, c.Delivery.Status.UnhealthySince = nil, microTime(f.now)
		}
	}
	before := Next(s, f.now.Add(5*time.Second))
	if len(before.Writes) != 0 || before.RecheckAfter != 40*time.Second {
		t.Errorf("within its time: writes %v, RecheckAfter %s, want 40s", before.Writes, before.RecheckAfter)
	}
	after := Next(s, f.now.Add(45*time.Second))
	if len(after.Writes) != 1 || after.Writes[0].Cause.Reason != v1alpha1.ReasonSupersededUnhealthy || after.Writes[0].Spec.Revision.Version != "1.0.0" {
		t.Errorf("past its time: %s", mustJSON(after.Writes))
	}
}

func TestLaw14AfterANewerSuccessWhatIsLeftOfARollbackCatchesUpWithTheNewStable(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.policy.Verification.TimeoutSeconds = secs(20)
	f.add("production", 3)
	f.deploy("1.0.0")
	lost := f.cluster("production-1")
	f.push("1.1.0", failsOn("production-2"))
	f.tick(0)
	lost.lose()
	f.runUntilPhase(v1alpha1.RunFailed)
	f.runFor(2 * time.Minute)
	r3 := f.deploy("1.2.0")
	if got := f.rollbacks[0]; got.Result != v1alpha1.RollbackSuperseded || got.FinishedAt == nil || got.Restored != 2 {
		t.Errorf("record: %s", mustJSON(got))
	}
	lost.comeUp()
	f.runFor(20 * time.Second)
	if got := f.holding(r3); len(got) != 3 || !f.last.Outcome.Ready {
		t.Errorf("on the new stable revision: %v, %+v", got, f.last.Outcome)
	}
}

func TestLaw11TwoOpenRollbacksShareThePlacesOfMaxConcurrent(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.policy.MaxConcurrent = share("1")
	f.add("production", 5)
	f.deploy("1.0.0")
	f.push("1.1.0", failsOn("production-1"))
	f.runUntilPhase(v1alpha1.RunFailed)
	f.strategy.Groups = []v1alpha1.Group{groupNamed("production", step("1", 0), step("100%", 0))}
	f.push("1.2.0", alwaysHealth(v1alpha1.HealthFailed))
	for f.tick(0); len(f.rollbacks) < 2 || f.rollbacks[0].FinishedAt == nil || f.rollbacks[1].FinishedAt == nil; f.tick(time.Second) {
		changing := 0
		for _, c := range f.clusters {
			if s := c.delivery.Spec; s.Direction == v1alpha1.DirectionRollback && (c.delivery.Status.Delivery != s.Delivery || c.delivery.Status.ProvenAt == nil) {
				changing++
			}
		}
		if changing > 1 {
			t.Fatalf("%d clusters go back at once", changing)
		}
		if f.now.Sub(f.start) > time.Hour {
			t.Fatalf("the rollbacks do not end: %s", mustJSON(f.rollbacks))
		}
	}
}

func TestLaw11ARevertOfARunThatWroteNobodyNeedsNoRecord(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.add("production", 2)
	r1 := f.deploy("1.0.0")
	f.paused = true
	f.push("1.1.0", healthyAfter(time.Second))
	f.runFor(5 * time.Second)
	f.setTemplate(r1)
	f.runFor(5 * time.Second)
	if f.run.Phase != v1alpha1.RunSuperseded || len(f.rollbacks) != 0 {
		t.Errorf("the run is %s, records: %s", f.run.Phase, mustJSON(f.rollbacks))
	}
}

func TestLaw13AnAttemptIsCountedOnEvenIfTheRevisionsRecordWasLost(t *testing.T) {
	f := newFleet(t, groupNamed("production", step("100%", 60)))
	f.add("production", 1)
	r1 := f.deployQuickly("1.0.0")
	r2 := f.push("1.1.0", healthyAfter(time.Second))
	f.runFor(5 * time.Second)
	f.setTemplate(r1)
	f.runFor(10 * time.Second)
	r2.Attempts, r2.Verdict = 0, v1alpha1.VerdictCandidate
	f.setTemplate(r2)
	f.runFor(time.Second)
	if f.run.Attempt != 2 || r2.Attempts != 2 {
		t.Errorf("attempt %d of the run, %d on the revision, want 2: Jobs are named by it", f.run.Attempt, r2.Attempts)
	}
}
