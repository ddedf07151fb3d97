package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func approved(s v1alpha1.Step) v1alpha1.Step {
	s.Approval = v1alpha1.ApprovalRequired
	return s
}

// gatedFleet is one canary and three production clusters on 1.0.0; production
// needs an approval for its first step.
func gatedFleet(t *testing.T) *fleet {
	f := newFleet(t, groupNamed("canary"), groupNamed("production", approved(step("1", 0)), step("100%", 0)))
	f.add("canary", 1)
	f.add("production", 3)
	f.strategy.Groups[1].Steps[0].Approval = v1alpha1.ApprovalNotRequired
	f.deploy("1.0.0")
	f.strategy.Groups[1].Steps[0].Approval = v1alpha1.ApprovalRequired
	return f
}

// runToGate pushes a revision and waits until it asks for an approval.
func (f *fleet) runToGate(version string) *fakeRevision {
	f.t.Helper()
	r := f.push(version, healthyAfter(time.Second))
	f.runUntil("an approval is asked for", func() bool {
		return f.waitsFor(v1alpha1.ReasonWaitingForApproval) && f.run.Revision.Digest == r.Digest
	})
	return r
}

func (f *fleet) waiting(reason string) v1alpha1.Waiting {
	f.t.Helper()
	for _, w := range f.run.WaitingFor {
		if w.Reason == reason {
			return w
		}
	}
	f.t.Fatalf("nothing waits for %s: %s", reason, mustJSON(f.run.WaitingFor))
	return v1alpha1.Waiting{}
}

func wantOutcome(t *testing.T, a *fakeAction, accepted bool, reason string) {
	t.Helper()
	if a.Accepted != accepted || a.outcome.Reason != reason || a.outcome.Message == "" {
		t.Errorf("%s: accepted %v, %s: %s; want %v, %s", a.Spec.Verb, a.Accepted, a.outcome.Reason, a.outcome.Message, accepted, reason)
	}
}

func wantDone(t *testing.T, a *fakeAction, isDone bool, reason string) {
	t.Helper()
	if a.complete == nil || a.complete.Done != isDone || a.complete.Cause.Reason != reason {
		t.Errorf("%s: complete %s, want %v, %s", a.Spec.Verb, mustJSON(a.complete), isDone, reason)
	}
}

func TestLaw18AStepThatNeedsAnApprovalIsNotWrittenBefore(t *testing.T) {
	f := gatedFleet(t)
	r := f.runToGate("1.1.0")
	f.runFor(time.Hour)
	if diff := cmp.Diff([]string{"canary-1"}, f.holding(r)); diff != "" {
		t.Fatalf("written without an approval: %s", diff)
	}
	w := f.waiting(v1alpha1.ReasonWaitingForApproval)
	for _, word := range []string{"verb Approve", "rollout payments", r.Digest, "attempt 1", `group "production"`, "step 1"} {
		if !strings.Contains(w.Message, word) {
			t.Errorf("%q does not say %q", w.Message, word)
		}
	}
	if s := f.last.Outcome.Stalled; s == nil || s.Reason != v1alpha1.ReasonWaitingForApproval {
		t.Errorf("stalled: %+v", s)
	}
	a := f.obeyNow(v1alpha1.VerbApprove, stepOf("production", 1))
	wantOutcome(t, a, true, v1alpha1.ReasonAccepted)
	wantDone(t, a, true, v1alpha1.ReasonDone)
	if got := f.run.Approvals; len(got) != 1 || got[0].Actor != "alice" || got[0].Action != a.Name {
		t.Errorf("approvals: %s", mustJSON(got))
	}
	again := f.obeyNow(v1alpha1.VerbApprove, stepOf("production", 1))
	wantOutcome(t, again, true, v1alpha1.ReasonNoEffect)
	f.runUntilPhase(v1alpha1.RunSucceeded)
}

func TestLaw18AnApprovalMayComeBeforeItsStep(t *testing.T) {
	f := gatedFleet(t)
	f.push("1.1.0", healthyAfter(30*time.Second))
	f.tick(0)
	wantOutcome(t, f.obeyNow(v1alpha1.VerbApprove, stepOf("production", 1)), true, v1alpha1.ReasonAccepted)
	f.check = func(_ Snapshot, p Plan) {
		for _, w := range p.Run.WaitingFor {
			if w.Reason == v1alpha1.ReasonWaitingForApproval {
				t.Error("it asks again")
			}
		}
	}
	f.runUntilPhase(v1alpha1.RunSucceeded)
}

func TestLaw18RejectShutsAStepUntilALaterApprove(t *testing.T) {
	f := gatedFleet(t)
	r := f.runToGate("1.1.0")
	wantOutcome(t, f.obeyNow(v1alpha1.VerbReject, stepOf("production", 1)), true, v1alpha1.ReasonAccepted)
	f.runFor(time.Hour)
	if got := f.holding(r); len(got) != 1 || !f.waitsFor(v1alpha1.ReasonRejected) {
		t.Errorf("after the rejection: %v, %s", got, mustJSON(f.run.WaitingFor))
	}
	wantOutcome(t, f.obeyNow(v1alpha1.VerbApprove, stepOf("production", 1)), true, v1alpha1.ReasonAccepted)
	f.runUntilPhase(v1alpha1.RunSucceeded)
}

func TestLaw18AStepThatAdmitsNobodyAsksNobody(t *testing.T) {
	f := newFleet(t, groupNamed("canary"), groupNamed("production", step("1", 0), approved(step("1", 0)), approved(step("100%", 0))))
	f.add("canary", 1)
	f.add("production", 1)
	f.push("1.0.0", healthyAfter(time.Second))
	f.runUntilPhase(v1alpha1.RunSucceeded)
}

func TestLaw18AnOrderAboutAnotherRevisionAttemptOrStepIsVoid(t *testing.T) {
	f := gatedFleet(t)
	f.runToGate("1.1.0")
	old := f.run.Revision.Digest
	f.runToGate("1.2.0")
	wantOutcome(t, f.obeyNow(v1alpha1.VerbApprove, stepOf("production", 1), func(s *v1alpha1.RolloutActionSpec) { s.Revision = old }), false, v1alpha1.ReasonVoid)
	wantOutcome(t, f.obeyNow(v1alpha1.VerbApprove, stepOf("production", 1), func(s *v1alpha1.RolloutActionSpec) { s.Attempt = 2 }), false, v1alpha1.ReasonVoid)
	wantOutcome(t, f.obeyNow(v1alpha1.VerbApprove, stepOf("production", 9)), false, v1alpha1.ReasonVoid)
	wantOutcome(t, f.obeyNow(v1alpha1.VerbApprove, stepOf("production", 2)), true, v1alpha1.ReasonNoEffect)
	wantOutcome(t, f.obeyNow(v1alpha1.VerbPromote, stepOf("canary", 1)), false, v1alpha1.ReasonVoid)
	f.runFor(time.Minute)
	if !f.waitsFor(v1alpha1.ReasonWaitingForApproval) {
		t.Errorf("a void order opened the gate: %s", mustJSON(f.run))
	}
}

func TestLaw14ApprovalsOfASupersededRunDoNotCarryOver(t *testing.T) {
	f := gatedFleet(t)
	f.push("1.1.0", healthyAfter(time.Minute))
	f.tick(0)
	f.obeyNow(v1alpha1.VerbApprove, stepOf("production", 1))
	r := f.runToGate("1.2.0")
	f.runFor(time.Minute)
	if got := f.holding(r); len(got) != 1 {
		t.Errorf("1.2.0 was let in by an approval of 1.1.0: %v", got)
	}
}

func TestCaseJ1AnAbortWhileWaitingForApprovalBeatsALaterApprove(t *testing.T) {
	f := gatedFleet(t)
	r := f.runToGate("1.1.0")
	abort := f.order(v1alpha1.VerbAbort)
	late := f.order(v1alpha1.VerbApprove, stepOf("production", 1))
	f.tick(0)
	wantOutcome(t, abort, true, v1alpha1.ReasonAccepted)
	wantOutcome(t, late, false, v1alpha1.ReasonVoid)
	if f.run.Phase != v1alpha1.RunFailed || f.run.HaltCause.Reason != v1alpha1.ReasonAborted || f.last.Outcome.Cause.Reason != v1alpha1.ReasonRollingBack {
		t.Fatalf("run %s, %+v", f.run.Phase, f.last.Outcome)
	}
	record := f.rollbacks[0]
	if record.Trigger != v1alpha1.TriggerAborted || record.Actor != "alice" || record.Action != abort.Name || record.To.Version != "1.0.0" {
		t.Errorf("record: %s", mustJSON(record))
	}
	if abort.complete != nil {
		t.Errorf("complete before it is: %s", mustJSON(abort.complete))
	}
	f.runFor(time.Minute)
	wantDone(t, abort, true, v1alpha1.ReasonDone)
	if got := f.holding(r); len(got) != 0 || r.Verdict != v1alpha1.VerdictFailed {
		t.Errorf("1.1.0 is %s, on %v", r.Verdict, got)
	}
	for _, name := range []string{"production-1", "production-2", "production-3"} {
		if f.forwardWrites[name+" 1.1.0"] != 0 {
			t.Errorf("%s got 1.1.0", name)
		}
	}
}

func TestCaseJ3AnAbortWithNothingRunningChangesNothing(t *testing.T) {
	f := gatedFleet(t)
	f.runFor(time.Minute)
	before, ready := mustJSON(f.snapshot().Clusters), f.last.Outcome.Ready
	a := f.order(v1alpha1.VerbAbort)
	p := Next(f.snapshot(), f.now)
	if n := len(p.Writes) + len(p.Verdicts) + len(p.Rollbacks) + len(p.Removals); n != 0 || p.Run.Phase != v1alpha1.RunSucceeded {
		t.Errorf("it plans %s", mustJSON(p))
	}
	f.tick(0)
	wantOutcome(t, a, true, v1alpha1.ReasonNoEffect)
	wantDone(t, a, true, v1alpha1.ReasonNoEffect)
	if !strings.Contains(a.outcome.Message, "nothing to abort") {
		t.Errorf("it says %q", a.outcome.Message)
	}
	if mustJSON(f.snapshot().Clusters) != before || !ready || !f.last.Outcome.Ready {
		t.Errorf("something changed")
	}
}

func TestLaw18AbortEndsAHaltedRunInModeManual(t *testing.T) {
	f := newFleet(t, groupNamed("all"))
	f.policy.Mode = v1alpha1.RollbackManual
	f.add("all", 2)
	r1 := f.deploy("1.0.0")
	f.push("1.1.0", failsOn("all-1"))
	f.runUntilPhase(v1alpha1.RunHalted)
	w := f.waiting(v1alpha1.ReasonHalted)
	if !strings.Contains(w.Message, "Rollback, Abort or Retry") {
		t.Errorf("the way out is not named: %s", w.Message)
	}
	wantOutcome(t, f.obeyNow(v1alpha1.VerbPromote), false, v1alpha1.ReasonVoid)
	a := f.obeyNow(v1alpha1.VerbAbort)
	f.runFor(time.Minute)
	wantDone(t, a, true, v1alpha1.ReasonDone)
	if got := f.holding(r1); len(got) != 2 || f.run.Phase != v1alpha1.RunFailed {
		t.Errorf("run %s, on 1.0.0: %v", f.run.Phase, got)
	}
}

func TestLaw10AnAbortWithNothingToGoBackToLeavesTheWorkloadsAlone(t *testing.T) {
	f := newFleet(t, groupNamed("all", step("1", 600), step("100%", 0)))
	f.policy.Mode = v1alpha1.RollbackManual
	f.add("all", 2)
	r := f.push("1.0.0", healthyAfter(time.Second))
	f.runFor(time.Minute)
	a := f.obeyNow(v1alpha1.VerbAbort)
	wantOutcome(t, a, true, v1alpha1.ReasonAccepted)
	wantDone(t, a, true, v1alpha1.ReasonDone)
	f.runFor(time.Minute)
	if o := f.last.Outcome; o.Cause.Reason != v1alpha1.ReasonNoRollbackTarget || len(f.rollbacks) != 0 || len(f.holding(r)) != 1 {
		t.Errorf("outcome %+v", o)
	}
}

func TestLaw18APauseOfAPersonStopsForwardWritesUntilResume(t *testing.T) {
	f := newFleet(t, groupNamed("all", step("1", 0), step("100%", 0)))
	f.add("all", 3)
	f.deploy("1.0.0")
	r := f.push("1.1.0", healthyAfter(time.Second))
	f.tick(0)
	wantOutcome(t, f.obeyNow(v1alpha1.VerbPause), true, v1alpha1.ReasonAccepted)
	wantOutcome(t, f.obeyNow(v1alpha1.VerbPause), true, v1alpha1.ReasonNoEffect)
	f.add("all", 1)
	f.runFor(10 * time.Minute)
	if got := f.holding(r); len(got) != 1 || f.cluster("all-4").delivery != nil {
		t.Errorf("written while paused: %v", got)
	}
	if w := f.waiting(v1alpha1.ReasonPaused); !strings.Contains(w.Message, "alice") || !strings.Contains(w.Message, "verb Resume") || w.Since == nil {
		t.Errorf("it waits for %s", mustJSON(w))
	}
	wantOutcome(t, f.obeyNow(v1alpha1.VerbResume), true, v1alpha1.ReasonAccepted)
	wantOutcome(t, f.obeyNow(v1alpha1.VerbResume), true, v1alpha1.ReasonNoEffect)
	f.runUntilPhase(v1alpha1.RunSucceeded)
}

func TestLaw18ResumeNeverOverridesSpecPaused(t *testing.T) {
	f := newFleet(t, groupNamed("all", step("1", 0), step("100%", 0)))
	f.add("all", 3)
	r := f.push("1.0.0", healthyAfter(time.Second))
	f.tick(0)
	f.setPaused(true)
	f.obeyNow(v1alpha1.VerbPause)
	wantOutcome(t, f.obeyNow(v1alpha1.VerbResume), true, v1alpha1.ReasonAccepted)
	a := f.obeyNow(v1alpha1.VerbResume)
	wantOutcome(t, a, true, v1alpha1.ReasonNoEffect)
	f.runFor(time.Minute)
	if got := f.holding(r); len(got) != 1 || !strings.Contains(a.outcome.Message, "spec.paused") {
		t.Errorf("%v have it, and it says %q", got, a.outcome.Message)
	}
}

func TestCaseI3TimePausedByAnOrderIsNotChargedToTheDeadline(t *testing.T) {
	f := newFleet(t, groupNamed("all", step("1", 0), step("100%", 0)))
	f.strategy.ProgressDeadlineSeconds = secs(60)
	f.add("all", 2)
	f.deploy("1.0.0")
	f.push("1.1.0", healthyAfter(230*time.Second))
	f.tick(0)
	f.runFor(10 * time.Second)
	f.obeyNow(v1alpha1.VerbPause)
	f.check = func(_ Snapshot, p Plan) {
		if p.Run.Phase != v1alpha1.RunProgressing || p.Run.Step != 1 {
			t.Errorf("while paused the run went to %s, step %d", p.Run.Phase, p.Run.Step)
		}
	}
	f.runFor(180 * time.Second)
	f.obeyNow(v1alpha1.VerbResume)
	f.runFor(20 * time.Second)
}

func TestCaseK6AfterARevertNoOrderOfTheRunLooksPending(t *testing.T) {
	f := gatedFleet(t)
	f.runToGate("1.1.0")
	f.obeyNow(v1alpha1.VerbReject, stepOf("production", 1))
	f.obeyNow(v1alpha1.VerbPause)
	promote := f.obeyNow(v1alpha1.VerbPromote)
	f.setTemplate(f.revision(f.stable.Digest))
	f.runFor(time.Minute)
	if r := f.run; r.Phase != v1alpha1.RunSuperseded || len(r.Approvals) != 0 || r.PauseOrder != nil || r.Promotion != nil || r.PausedAt != nil || len(r.WaitingFor) != 0 {
		t.Errorf("left over: %s", mustJSON(r))
	}
	wantDone(t, promote, false, v1alpha1.ReasonOvertaken)
	wantOutcome(t, f.obeyNow(v1alpha1.VerbApprove, stepOf("production", 1)), false, v1alpha1.ReasonVoid)
}

func TestLaw18PromoteEndsASoak(t *testing.T) {
	f := newFleet(t, groupNamed("all", step("1", 3600), step("100%", 0)))
	f.add("all", 3)
	f.push("1.0.0", healthyAfter(time.Second))
	f.runUntil("soaking", func() bool { return f.waitsFor(v1alpha1.ReasonSoaking) })
	a := f.obeyNow(v1alpha1.VerbPromote, stepOf("all", 1))
	wantOutcome(t, a, true, v1alpha1.ReasonAccepted)
	wantDone(t, a, true, v1alpha1.ReasonDone)
	if f.run.Step != 2 || f.run.Promotion != nil {
		t.Errorf("run: %s", mustJSON(f.run))
	}
	f.runUntilPhase(v1alpha1.RunSucceeded)
}

func TestLaw1AShareOfNoneWaitsForPromote(t *testing.T) {
	f := newFleet(t, groupNamed("all", step("0", 0), step("100%", 0)))
	f.add("all", 2)
	r := f.push("1.0.0", healthyAfter(time.Second))
	f.runFor(time.Minute)
	if w := f.waiting(v1alpha1.ReasonShareReached); len(f.holding(r)) != 0 || !strings.Contains(w.Message, "verb Promote") {
		t.Errorf("it waits: %s", mustJSON(w))
	}
	f.obeyNow(v1alpha1.VerbPromote)
	f.runUntilPhase(v1alpha1.RunSucceeded)
}

func TestLaw6PromoteLetsAStepGoWithoutEvidence(t *testing.T) {
	f := newFleet(t, groupNamed("canary"), groupNamed("production"))
	f.add("canary", 1)
	f.add("production", 1)
	for _, c := range f.clusters {
		c.tolerated = true
	}
	f.deploy("1.0.0")
	f.cluster("canary-1").lose()
	f.runFor(2 * time.Minute)
	f.push("1.1.0", healthyAfter(time.Second))
	f.runFor(time.Minute)
	w := f.waiting(v1alpha1.ReasonNoEvidence)
	for _, word := range []string{"canary-1", "reachable", "verb Promote", `group "canary"`} {
		if !strings.Contains(w.Message, word) {
			t.Errorf("%q does not say %q", w.Message, word)
		}
	}
	f.obeyNow(v1alpha1.VerbPromote)
	f.runUntilPhase(v1alpha1.RunSucceeded)
}

func TestLaw18PromoteIsNoProofAndNoApproval(t *testing.T) {
	f := gatedFleet(t)
	f.push("1.1.0", healthyAfter(40*time.Second))
	f.tick(0)
	a := f.obeyNow(v1alpha1.VerbPromote)
	f.runFor(20 * time.Second)
	if f.run.Group != "canary" || a.complete != nil {
		t.Fatalf("left without proof: %s", mustJSON(f.run))
	}
	f.runUntil("an approval is asked for", func() bool { return f.waitsFor(v1alpha1.ReasonWaitingForApproval) })
	wantDone(t, a, true, v1alpha1.ReasonDone)
	f.obeyNow(v1alpha1.VerbPromote)
	f.runFor(time.Minute)
	if !f.waitsFor(v1alpha1.ReasonWaitingForApproval) {
		t.Errorf("Promote stood in for the approval: %s", mustJSON(f.run))
	}
}

func TestLaw10ARollbackOfAPersonMakesItsTargetStableWhenItIsComplete(t *testing.T) {
	f := newFleet(t, groupNamed("all"))
	f.add("all", 3)
	r1, r2 := f.deploy("1.0.0"), f.deploy("1.1.0")
	f.cluster("all-2").applyDelay = 20 * time.Second
	a := f.obeyNow(v1alpha1.VerbRollback)
	wantOutcome(t, a, true, v1alpha1.ReasonAccepted)
	f.runFor(10 * time.Second)
	if f.stable.Digest != r2.Digest || a.complete != nil {
		t.Errorf("stable too early: %s", f.stable.Version)
	}
	f.add("all", 1)
	f.runFor(time.Minute)
	wantDone(t, a, true, v1alpha1.ReasonDone)
	if f.stable.Digest != r1.Digest || r2.Verdict != v1alpha1.VerdictFailed || len(f.holding(r1)) != 4 {
		t.Fatalf("stable %s, 1.1.0 is %s, on 1.0.0: %v", f.stable.Version, r2.Verdict, f.holding(r1))
	}
	if d := f.cluster("all-4").delivery.Spec; d.Delivery != 1 {
		t.Errorf("the joiner took a detour over 1.1.0: %s", mustJSON(d))
	}
	f.runFor(time.Hour)
	if o := f.last.Outcome; f.run.Number != 2 || o.Ready || o.Cause.Reason != v1alpha1.ReasonRolledBack || !strings.Contains(o.Cause.Message, "alice") {
		t.Errorf("run %d, %+v", f.run.Number, o)
	}
	f.setTemplate(r1)
	f.runFor(time.Second)
	if !f.last.Outcome.Ready || f.run.Number != 2 {
		t.Errorf("with 1.0.0 in the template: %+v", f.last.Outcome)
	}
}

func TestLaw10ARollbackOfAPersonTakesOnlyARevisionThatSucceeded(t *testing.T) {
	f := newFleet(t, groupNamed("all"))
	f.add("all", 2)
	f.deploy("1.0.0")
	f.push("1.1.0", alwaysHealth(v1alpha1.HealthFailed))
	f.runUntilPhase(v1alpha1.RunFailed)
	f.runFor(time.Minute)
	a := f.obeyNow(v1alpha1.VerbRollback, toRevision(2))
	wantOutcome(t, a, false, v1alpha1.ReasonTargetNotAllowed)
	if !strings.Contains(a.outcome.Message, "1 (1.0.0)") {
		t.Errorf("it does not say what may be chosen: %s", a.outcome.Message)
	}
	wantOutcome(t, f.obeyNow(v1alpha1.VerbRollback, toRevision(7)), false, v1alpha1.ReasonTargetNotAllowed)
	wantOutcome(t, f.obeyNow(v1alpha1.VerbRollback, toRevision(1)), true, v1alpha1.ReasonNoEffect)
	wantOutcome(t, f.obeyNow(v1alpha1.VerbRollback), true, v1alpha1.ReasonNoEffect)
	f.revisions[0].Problem = &v1alpha1.Cause{Reason: v1alpha1.ReasonRevisionMissing, Message: "Secret payments-1 is gone"}
	wantOutcome(t, f.obeyNow(v1alpha1.VerbRollback, toRevision(1)), false, v1alpha1.ReasonTargetNotAllowed)
	if len(f.rollbacks) != 1 {
		t.Errorf("%d records", len(f.rollbacks))
	}
}

func TestLaw18ARollbackEndsTheGoingRunWhateverTheMode(t *testing.T) {
	for _, mode := range []v1alpha1.RollbackMode{v1alpha1.RollbackAutomatic, v1alpha1.RollbackManual} {
		f := newFleet(t, groupNamed("all", step("1", 600), step("100%", 0)))
		f.policy.Mode = mode
		f.add("all", 3)
		r1 := f.deploy("1.0.0")
		f.strategy.Groups[0].Steps[0].SoakSeconds = 600
		f.push("1.1.0", healthyAfter(time.Second))
		f.runUntil("soaking", func() bool { return f.waitsFor(v1alpha1.ReasonSoaking) })
		a := f.obeyNow(v1alpha1.VerbRollback)
		if f.run.Phase != v1alpha1.RunFailed || f.run.HaltCause.Reason != v1alpha1.ReasonRollbackRequested || f.rollbacks[0].Trigger != v1alpha1.TriggerRequested {
			t.Errorf("%s: run %s", mode, f.run.Phase)
		}
		f.runFor(time.Minute)
		wantDone(t, a, true, v1alpha1.ReasonDone)
		if got := f.holding(r1); len(got) != 3 || f.stable.Digest != r1.Digest {
			t.Errorf("%s: on 1.0.0: %v", mode, got)
		}
	}
}

func TestLaw10ARollbackPastTheStableRevisionDuringARunTakesEveryCluster(t *testing.T) {
	f := newFleet(t, groupNamed("all", step("1", 0), step("100%", 0)))
	f.add("all", 3)
	r1, r2 := f.deploy("1.0.0"), f.deploy("1.1.0")
	f.strategy.Groups[0].Steps[0].SoakSeconds = 600
	r3 := f.push("1.2.0", healthyAfter(time.Second))
	f.runUntil("soaking", func() bool { return f.waitsFor(v1alpha1.ReasonSoaking) })
	f.obeyNow(v1alpha1.VerbRollback, toRevision(1))
	f.runFor(time.Minute)
	if len(f.holding(r1)) != 3 || f.stable.Digest != r1.Digest || r2.Verdict != v1alpha1.VerdictFailed || r3.Verdict != v1alpha1.VerdictFailed {
		t.Errorf("on 1.0.0: %v, stable %s, 1.1.0 %s, 1.2.0 %s", f.holding(r1), f.stable.Version, r2.Verdict, r3.Verdict)
	}
}

func TestCaseG5RetryStartsOneNewAttemptFromTheFirstGroup(t *testing.T) {
	f := newFleet(t, groupNamed("canary"), groupNamed("production"))
	f.add("canary", 1)
	f.add("production", 1)
	r1 := f.deploy("1.0.0")
	r2 := f.push("1.1.0", failsOn("production-1"))
	f.runUntilPhase(v1alpha1.RunFailed)
	f.runFor(time.Minute)
	f.setTemplate(r2)
	f.runFor(time.Hour)
	if o := f.last.Outcome; f.run.Number != 2 || !strings.Contains(o.Cause.Message, "verb Retry") {
		t.Fatalf("run %d, %+v", f.run.Number, o)
	}
	a := f.obeyNow(v1alpha1.VerbRetry)
	wantOutcome(t, a, true, v1alpha1.ReasonAccepted)
	wantDone(t, a, true, v1alpha1.ReasonDone)
	if f.run.Number != 3 || f.run.Attempt != 2 || f.run.Group != "canary" {
		t.Fatalf("run: %s", mustJSON(f.run))
	}
	f.runUntilPhase(v1alpha1.RunFailed)
	f.runFor(time.Hour)
	if f.run.Number != 3 || len(f.holding(r1)) != 2 || f.forwardWrites["canary-1 1.1.0"] != 2 {
		t.Errorf("run %d, on 1.0.0: %v, forward writes %v", f.run.Number, f.holding(r1), f.forwardWrites)
	}
	stale := f.obeyNow(v1alpha1.VerbRetry, func(s *v1alpha1.RolloutActionSpec) { s.Attempt = 1 })
	wantOutcome(t, stale, false, v1alpha1.ReasonVoid)
}

func TestLaw13RetryOfAHaltedRunDeliversAgainToClustersThatHoldTheRevision(t *testing.T) {
	f := newFleet(t, groupNamed("all"))
	f.policy.Mode = v1alpha1.RollbackManual
	f.add("all", 2)
	f.deploy("1.0.0")
	broken := true
	r := f.push("1.1.0", func(c *fakeCluster, since time.Duration) v1alpha1.Health {
		if broken && c.name == "all-1" {
			return v1alpha1.HealthFailed
		}
		return healthyAfter(time.Second)(c, since)
	})
	wantOutcome(t, f.obeyNow(v1alpha1.VerbRetry), false, v1alpha1.ReasonVoid)
	f.tick(0)
	wantOutcome(t, f.obeyNow(v1alpha1.VerbRetry), false, v1alpha1.ReasonNotRetryable)
	f.runUntilPhase(v1alpha1.RunHalted)
	broken = false
	f.obeyNow(v1alpha1.VerbRetry)
	f.runUntilPhase(v1alpha1.RunSucceeded)
	for _, c := range f.clusters {
		if d := c.delivery.Spec; d.Delivery != 3 || d.Attempt != 2 || d.Revision.Digest != r.Digest {
			t.Errorf("%s was not delivered again: %s", c.name, mustJSON(d))
		}
	}
	if r.Verdict != v1alpha1.VerdictSucceeded {
		t.Errorf("1.1.0 is %s", r.Verdict)
	}
	wantOutcome(t, f.obeyNow(v1alpha1.VerbRetry), false, v1alpha1.ReasonNotRetryable)
}

func TestLaw18ACrashAroundARetryOfAnEarlierRevisionStartsOneRun(t *testing.T) {
	for step := range 12 {
		f := newFleet(t, groupNamed("production"))
		f.add("production", 2)
		f.deploy("1.0.0")
		bad := f.push("1.1.0", alwaysHealth(v1alpha1.HealthFailed))
		f.runUntilPhase(v1alpha1.RunFailed)
		f.runFor(time.Minute)
		f.deploy("1.2.0")
		f.setTemplate(bad)
		bad.behaviour = healthyAfter(2 * time.Second)
		f.runFor(time.Minute)
		before := f.run.Number

		a := f.order(v1alpha1.VerbRetry)
		f.crashAfter = step
		f.runFor(time.Minute)
		wantOutcome(t, a, true, v1alpha1.ReasonAccepted)
		if f.run.Number != before+1 || f.run.Attempt != 2 || bad.Attempts != 2 || f.run.Phase != v1alpha1.RunSucceeded {
			t.Errorf("crash at step %d: run %d after %d, attempt %d (%d on record), %s", step, f.run.Number, before, f.run.Attempt, bad.Attempts, f.run.Phase)
		}
	}
}

func TestLaw13RetryIsRefusedWhileARollbackIsOpenOnAReachableCluster(t *testing.T) {
	f := newFleet(t, groupNamed("all"))
	f.add("all", 3)
	for _, c := range f.clusters {
		c.tolerated = true
	}
	f.deploy("1.0.0")
	f.cluster("all-3").lose()
	f.runFor(2 * time.Minute)
	f.push("1.1.0", failsOn("all-1"))
	f.runUntilPhase(v1alpha1.RunFailed)
	refusal := f.obeyNow(v1alpha1.VerbRetry)
	wantOutcome(t, refusal, false, v1alpha1.ReasonRollbackOpen)
	f.runFor(time.Minute)
	if f.rollbacks[0].FinishedAt != nil {
		t.Fatalf("the record should wait for all-3: %s", mustJSON(f.rollbacks))
	}
	wantOutcome(t, f.obeyNow(v1alpha1.VerbRetry), true, v1alpha1.ReasonAccepted)
}

func TestLaw4ConfirmRemovalLetsTheLastClustersGo(t *testing.T) {
	f := newFleet(t, groupNamed("all"))
	f.add("all", 2)
	f.deploy("1.0.0")
	wantOutcome(t, f.obeyNow(v1alpha1.VerbConfirmRemoval), true, v1alpha1.ReasonNoEffect)
	f.selectsNothing, f.dirty = true, true
	f.runFor(10 * time.Second)
	if f.last.Outcome.Cause.Reason != v1alpha1.ReasonNoClusters || !strings.Contains(f.last.Outcome.Cause.Message, "ConfirmRemoval") {
		t.Fatalf("outcome %+v", f.last.Outcome)
	}
	a := f.obeyNow(v1alpha1.VerbConfirmRemoval)
	wantOutcome(t, a, true, v1alpha1.ReasonAccepted)
	f.runFor(30 * time.Second)
	if f.removal == nil || f.cluster("all-1").delivery == nil || f.cluster("all-1").delivery.Spec.Removal != "" || a.complete != nil {
		t.Fatalf("removed before the absence was stable")
	}
	f.runFor(time.Minute)
	wantDone(t, a, true, v1alpha1.ReasonDone)
	for _, c := range f.clusters {
		if c.delivery != nil {
			t.Errorf("%s is still there", c.name)
		}
	}
	if f.removal != nil {
		t.Errorf("the confirmation is kept: %+v", f.removal)
	}
}

func TestLaw4AConfirmationOfRemovalIsVoidOnceAClusterIsSelectedAgain(t *testing.T) {
	f := newFleet(t, groupNamed("all"))
	f.add("all", 2)
	f.deploy("1.0.0")
	f.selectsNothing, f.dirty = true, true
	f.runFor(10 * time.Second)
	f.obeyNow(v1alpha1.VerbConfirmRemoval)
	f.selectsNothing, f.dirty = false, true
	f.runFor(10 * time.Second)
	f.selectsNothing, f.dirty = true, true
	f.runFor(10 * time.Minute)
	if f.removal != nil || len(f.holding(f.revisions[0])) != 2 {
		t.Errorf("an old word removed clusters: %+v", f.removal)
	}
}

func TestLaw18ACrashBetweenTheFactsAndTheStatusOfAnActionAppliesItOnce(t *testing.T) {
	for crash := range 6 {
		f := newFleet(t, groupNamed("all", step("1", 0), step("2", 600), step("100%", 0)))
		f.add("all", 3)
		f.push("1.0.0", healthyAfter(time.Second))
		f.runUntil("step 2", func() bool { return f.waitsFor(v1alpha1.ReasonSoaking) })
		f.check = newLawful(f, nil).checkActions
		f.crashAfter = crash
		a := f.order(v1alpha1.VerbPause)
		b := f.order(v1alpha1.VerbResume)
		f.tick(0)
		f.runFor(time.Second)
		if f.run.PauseOrder != nil || !a.Accepted || !b.Accepted || len(f.handled) != 0 {
			t.Errorf("crash after %d: %s, handled %v", crash, mustJSON(f.run), f.handled)
		}
		wantDone(t, a, true, v1alpha1.ReasonDone)
	}
}

func TestLaw18OrdersAreObeyedInOrderOfTheirCreation(t *testing.T) {
	f := gatedFleet(t)
	f.runToGate("1.1.0")
	f.order(v1alpha1.VerbApprove, stepOf("production", 1))
	f.tick(time.Second)
	s := f.snapshot()
	f.order(v1alpha1.VerbReject, stepOf("production", 1))
	f.order(v1alpha1.VerbPause)
	f.order(v1alpha1.VerbResume)
	s.Actions = f.openActions()
	s.Actions[0], s.Actions[2] = s.Actions[2], s.Actions[0]
	p := Next(s, f.now)
	if p.Run.PauseOrder != nil || len(p.Actions) != 3 {
		t.Errorf("Resume came before Pause: %s", mustJSON(p.Actions))
	}
}

func TestLaw25AFloodOfOrdersIsTakenUpInBoundedPortions(t *testing.T) {
	f := gatedFleet(t)
	f.runToGate("1.1.0")
	for range 250 {
		f.order(v1alpha1.VerbPause)
	}
	f.runFor(10 * time.Second)
	for _, a := range f.actions {
		if !a.decided || a.complete == nil {
			t.Fatalf("%s was forgotten", a.Name)
		}
	}
	if len(f.handled) != 0 {
		t.Errorf("handled: %d", len(f.handled))
	}
}

func TestLaw26OrdersToARolloutThatIsBeingDeletedAreVoid(t *testing.T) {
	f := gatedFleet(t)
	f.deleting = true
	for _, verb := range []v1alpha1.Verb{v1alpha1.VerbAbort, v1alpha1.VerbRollback, v1alpha1.VerbPause} {
		wantOutcome(t, f.obeyNow(verb), false, v1alpha1.ReasonVoid)
	}
}

func TestLaw8TheCauseOfASpentBudgetNamesEachClusterWithItsReasonInWords(t *testing.T) {
	f := newFleet(t, groupNamed("all"))
	f.add("all", 5)
	f.deploy("1.0.0")
	f.push("1.1.0", alwaysHealth(v1alpha1.HealthFailed))
	f.runUntilPhase(v1alpha1.RunFailed)
	want := "all-1 (Failed: Deployment api: ProgressDeadlineExceeded)"
	if got := f.run.HaltCause.Message; !strings.Contains(got, want) || !strings.Contains(got, "and 2 more") {
		t.Errorf("%q does not contain %q", got, want)
	}
	long := v1alpha1.Cause{Reason: "Failed", Message: strings.Repeat("ä", 600)}
	for _, c := range f.clusters[:3] {
		c.delivery.Status.Failure = &long
	}
	if got := short(long.Message); len(got) > 210 || !strings.HasSuffix(got, "ä...") {
		t.Errorf("cut to %d bytes: %s", len(got), fmt.Sprintf("%.20s", got))
	}
}

func TestLaw10ARollbackOfAPersonSurvivesANewerRunThatFails(t *testing.T) {
	f := newFleet(t, groupNamed("all"))
	f.add("all", 3)
	r1 := f.deploy("1.0.0")
	f.deploy("1.1.0")
	f.cluster("all-3").applyDelay = 30 * time.Second
	a := f.obeyNow(v1alpha1.VerbRollback)
	f.runFor(10 * time.Second)
	f.push("1.2.0", failsOn("all-1"))
	f.tick(0)
	if a.complete != nil || f.stable.Digest == r1.Digest || f.goalVersion() != "1.0.0" {
		t.Errorf("a newer run decides the rollback: %s, stable %s", mustJSON(f.rollbacks), f.stable.Version)
	}
	f.runUntilPhase(v1alpha1.RunFailed)
	f.runFor(2 * time.Minute)
	wantDone(t, a, true, v1alpha1.ReasonDone)
	if f.stable.Digest != r1.Digest || len(f.holding(r1)) != 3 {
		t.Errorf("stable %s, on 1.0.0: %v, %s", f.stable.Version, f.holding(r1), mustJSON(f.rollbacks))
	}
}

func (f *fleet) goalVersion() string { return fallback(f.last).Version }
