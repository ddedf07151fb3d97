package rollout

import (
	"strings"
	"testing"
	"time"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func TestLaw10ALostStableRevisionIsNamedWithTheFix(t *testing.T) {
	f := newFleet(t, groupNamed("all", step("100%", 60)))
	f.add("all", 2)
	stable := f.deploy("1.0.0")
	lost := &v1alpha1.Cause{Reason: v1alpha1.ReasonRevisionMissing, Message: "RolloutRevision platform/payments-1 was deleted; restore it"}
	stable.Problem, f.dirty = lost, true
	f.tick(time.Second)
	o := f.last.Outcome
	if o.Ready || o.Cause != *lost || o.Stalled == nil || *o.Stalled != *lost {
		t.Errorf("with nothing going on: %s", mustJSON(o))
	}

	f.push("1.1.0", healthyAfter(2*time.Second))
	f.runUntil("soaking", func() bool { return f.waitsFor(v1alpha1.ReasonSoaking) })
	o = f.last.Outcome
	if o.Cause.Reason != v1alpha1.ReasonSoaking || !strings.Contains(o.Cause.Message, lost.Message) {
		t.Errorf("during a run: %s", mustJSON(o))
	}
	f.runUntilPhase(v1alpha1.RunSucceeded)
	f.runFor(5 * time.Second)
	if !f.last.Outcome.Ready {
		t.Errorf("with another stable revision: %s", mustJSON(f.last.Outcome))
	}
}

func TestLaw10AStableRevisionWhoseRecordWasMadeAgainHasSucceeded(t *testing.T) {
	f := newFleet(t, groupNamed("all"))
	f.add("all", 2)
	stable := f.deploy("1.0.0")
	f.push("1.1.0", alwaysHealth(v1alpha1.HealthFailed))
	f.runUntilPhase(v1alpha1.RunFailed)
	stable.Verdict, stable.Attempts, f.dirty = v1alpha1.VerdictCandidate, 0, true
	f.runFor(time.Minute)
	if stable.Verdict != v1alpha1.VerdictSucceeded {
		t.Errorf("verdict %s", stable.Verdict)
	}
}
