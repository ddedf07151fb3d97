package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func TestCaseB3WithUnmatchedBlockNoRunStartsAndTheTrueNumberIsNamed(t *testing.T) {
	f := newFleet(t, groupNamed("canary"))
	f.strategy.Unmatched = v1alpha1.UnmatchedBlock
	f.add("canary", 1)
	f.add("other", 11)
	r := f.push("1.0.0", healthyAfter(time.Second))
	f.runFor(time.Minute)
	o := f.last.Outcome
	if f.run != nil || o.Ready || o.Cause.Reason != v1alpha1.ReasonUnmatched || !strings.Contains(o.Cause.Message, "11 clusters: other-1, other-10, other-11 and 8 more") {
		t.Fatalf("run %v, %+v", f.run, o)
	}
	for _, c := range f.clusters[1:] {
		c.labels["group"] = "canary"
	}
	f.dirty = true
	f.runFor(30 * time.Second)
	if got := f.holding(r); len(got) != 12 || f.run.Phase != v1alpha1.RunSucceeded {
		t.Errorf("after the labels were fixed: %v", got)
	}
}

func TestLaw17WithUnmatchedBlockAJoinerWithoutAGroupIsMerelyBlocked(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 30)))
	f.strategy.Unmatched = v1alpha1.UnmatchedBlock
	f.add("canary", 2)
	r := f.push("1.0.0", healthyAfter(time.Second))
	f.runUntil("soaking", func() bool { return f.waitsFor(v1alpha1.ReasonSoaking) })
	f.add("other", 1)
	f.runUntilPhase(v1alpha1.RunSucceeded)
	f.runFor(time.Minute)
	j := f.judgement("other-1")
	if f.cluster("other-1").delivery != nil || j.State != v1alpha1.StateBlocked || j.Cause == nil || j.Cause.Reason != v1alpha1.ReasonUnmatched || f.last.Outcome.Ready {
		t.Fatalf("other-1: %+v, %+v", j, f.last.Outcome)
	}
	f.cluster("other-1").labels["group"] = "canary"
	f.dirty = true
	f.runFor(30 * time.Second)
	if diff := cmp.Diff([]string{"canary-1", "canary-2", "other-1"}, f.holding(r)); diff != "" || !f.last.Outcome.Ready {
		t.Errorf("after the label was fixed: %s", diff)
	}
}

func TestLaw17UnmatchedBlockStartsNothingOnIncompleteDecisions(t *testing.T) {
	f := newFleet(t, groupNamed("canary"))
	f.strategy.Unmatched = v1alpha1.UnmatchedBlock
	f.incomplete = true
	f.add("other", 1)
	f.push("1.0.0", healthyAfter(time.Second))
	f.runFor(time.Minute)
	if f.run != nil {
		t.Errorf("a run started: %s", mustJSON(f.run))
	}
}

func TestLaw12AClusterWhoseGroupIsGoneStillGoesBack(t *testing.T) {
	f := newFleet(t, groupNamed("all"))
	f.strategy.Unmatched = v1alpha1.UnmatchedBlock
	f.add("all", 2)
	r1 := f.deploy("1.0.0")
	f.push("1.1.0", failsOn("all-1"))
	f.tick(0)
	f.cluster("all-2").labels["group"] = "nowhere"
	f.runUntilPhase(v1alpha1.RunFailed)
	f.runFor(time.Minute)
	if got := f.holding(r1); len(got) != 2 || f.rollbacks[0].Result != v1alpha1.RollbackComplete {
		t.Errorf("on 1.0.0: %v, %s", got, mustJSON(f.rollbacks))
	}
}

func TestLaw17ADeliveryBlockedByItsContentTakesOtherContent(t *testing.T) {
	for _, reason := range []string{v1alpha1.ReasonHeldByOther, v1alpha1.ReasonTooLarge} {
		f := newFleet(t, groupNamed("all"))
		f.add("all", 2)
		f.deploy("1.0.0")
		c := f.cluster("all-2")
		c.refuses = map[string]string{"1.1.0": reason, "1.2.0": reason}
		r2 := f.push("1.1.0", healthyAfter(time.Second))
		f.runUntilPhase(v1alpha1.RunSucceeded)
		f.runFor(time.Minute)
		if j := f.judgement("all-2"); j.State != v1alpha1.StateBlocked || f.last.Outcome.Ready || len(f.holding(r2)) != 2 {
			t.Fatalf("%s: %+v", reason, j)
		}
		r3 := f.push("1.2.0", healthyAfter(time.Second))
		f.runUntilPhase(v1alpha1.RunSucceeded)
		f.runFor(time.Minute)
		if j := f.judgement("all-2"); j.State != v1alpha1.StateBlocked || len(f.holding(r3)) != 2 {
			t.Fatalf("%s again: %+v", reason, j)
		}
		f.deploy("1.3.0")
		f.runFor(time.Minute)
		if !f.last.Outcome.Ready || f.forwardWrites["all-2 1.3.0"] != 1 {
			t.Errorf("%s: 1.3.0 was not written to it: %+v %v", reason, f.last.Outcome, f.forwardWrites)
		}
	}
}

func TestLaw17ADeliveryBlockedByAForeignObjectTakesNothing(t *testing.T) {
	f := newFleet(t, groupNamed("all"))
	f.add("all", 2)
	f.deploy("1.0.0")
	f.cluster("all-2").refuses = map[string]string{"1.1.0": v1alpha1.ReasonForeignObject}
	f.push("1.1.0", healthyAfter(time.Second))
	f.runUntilPhase(v1alpha1.RunSucceeded)
	r := f.push("1.2.0", healthyAfter(time.Second))
	f.runUntilPhase(v1alpha1.RunSucceeded)
	if got := fmt.Sprint(f.holding(r)); got != "[all-1]" {
		t.Errorf("1.2.0 is on %s", got)
	}
}

func TestATemplateThatCannotStartIsNamedWhileAnOldRunGoesOn(t *testing.T) {
	f := newFleet(t, groupNamed("all", step("1", 600), step("100%", 0)))
	f.strategy.Unmatched = v1alpha1.UnmatchedBlock
	f.add("all", 2)
	f.deploy("1.0.0")
	f.push("1.1.0", healthyAfter(time.Second))
	f.runUntil("soaking", func() bool { return f.waitsFor(v1alpha1.ReasonSoaking) })
	f.add("other", 1)
	f.push("1.2.0", healthyAfter(time.Second))
	f.runFor(10 * time.Second)
	for name, want := range map[string]string{"the template": "1.2.0", "its hindrance": "other-1", "the going run": "run 2 of 1.1.0"} {
		if cause := f.last.Outcome.Cause; cause.Reason != v1alpha1.ReasonUnmatched || !strings.Contains(cause.Message, want) {
			t.Errorf("%s is not named: %+v", name, cause)
		}
	}
	f.invalidSpec = &v1alpha1.Cause{Reason: v1alpha1.ReasonInvalidSpec, Message: strings.Repeat("spec.template is wrong. ", 60)}
	f.dirty = true
	f.runFor(10 * time.Second)
	if cause := f.last.Outcome.Cause; cause.Reason != v1alpha1.ReasonInvalidSpec || !strings.Contains(cause.Message, "run 2 of 1.1.0") || len(cause.Message) > v1alpha1.MaxMessageLength {
		t.Errorf("the going run is hidden: %+v", cause)
	}
}
