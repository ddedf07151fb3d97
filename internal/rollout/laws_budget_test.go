package rollout

import (
	"strings"
	"testing"
	"time"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func TestLaw8FailuresInPassedGroupsCount(t *testing.T) {
	f := newFleet(t, groupNamed("canary"), groupNamed("production", step("1", 300), step("100%", 0)))
	f.policy.UnhealthySeconds = secs(20)
	f.add("canary", 1)
	f.add("production", 3)
	f.deploy("1.0.0")
	r := f.push("1.1.0", healthyAfter(time.Second))
	f.runUntil("production soaks", func() bool { return f.run.Group == "production" && f.waitsFor(v1alpha1.ReasonSoaking) })
	f.cluster("canary-1").override = v1alpha1.HealthDegraded
	f.runFor(15 * time.Second)
	if f.run.Phase != v1alpha1.RunProgressing {
		t.Fatal("it failed before unhealthySeconds")
	}
	f.runFor(10 * time.Second)
	if f.run.Phase != v1alpha1.RunFailed || len(f.holding(r)) != 0 {
		t.Errorf("the run is %s, still on it: %v", f.run.Phase, f.holding(r))
	}
}

func TestLaw8WithinBudgetTheRunGoesOnWithoutTheFailed(t *testing.T) {
	f := newFleet(t, groupNamed("production", step("50%", 10), step("100%", 0)))
	f.strategy.FailureBudget = failureBudget("1")
	f.add("production", 4)
	f.deploy("1.0.0")
	f.push("1.1.0", failsOn("production-1"))
	f.runUntilPhase(v1alpha1.RunSucceeded)
	if o := f.last.Outcome; o.Ready || o.Cause.Reason != v1alpha1.ReasonClustersNotReady || !strings.Contains(o.Cause.Message, "production-1") {
		t.Errorf("the failed cluster is not named: %+v", o)
	}
}

func TestLaw8AGroupBudgetStandsBesideThatOfTheRollout(t *testing.T) {
	g := groupNamed("canary")
	g.FailureBudget = failureBudget("0")
	f := newFleet(t, g, groupNamed("production"))
	f.strategy.FailureBudget = failureBudget("5")
	f.add("canary", 2)
	f.add("production", 8)
	f.deploy("1.0.0")
	f.push("1.1.0", failsOn("canary-1"))
	f.runUntilPhase(v1alpha1.RunFailed)
	if !strings.Contains(f.run.HaltCause.Message, `group "canary"`) {
		t.Errorf("cause: %+v", f.run.HaltCause)
	}
}

func TestLaw8HaltedIsLatchedInModeManual(t *testing.T) {
	f := newFleet(t, groupNamed("canary"), groupNamed("production"))
	f.policy.Mode = v1alpha1.RollbackManual
	f.policy.UnhealthySeconds = secs(10)
	f.add("canary", 1)
	f.add("production", 1)
	f.deploy("1.0.0")
	bad := f.push("1.1.0", alwaysHealth(v1alpha1.HealthFailed))
	f.runUntilPhase(v1alpha1.RunHalted)
	f.cluster("canary-1").override = v1alpha1.HealthHealthy
	f.runFor(time.Hour)
	if f.run.Phase != v1alpha1.RunHalted || len(f.holding(bad)) != 1 || len(f.rollbacks) != 0 {
		t.Fatalf("%s, %v, %s", f.run.Phase, f.holding(bad), mustJSON(f.rollbacks))
	}
	if o := f.last.Outcome; o.Stalled == nil || o.Stalled.Reason != v1alpha1.ReasonHalted || o.Progressing {
		t.Errorf("outcome: %+v", o)
	}
	f.push("1.2.0", healthyAfter(time.Second))
	f.runUntilPhase(v1alpha1.RunSucceeded)
}

func TestLaw9TheRunEndsWhenEveryAdmittedClusterAnywhereIsProvenAtThatMoment(t *testing.T) {
	f := newFleet(t, groupNamed("canary"), groupNamed("production"))
	f.policy.UnhealthySeconds = secs(300)
	f.add("canary", 1)
	f.add("production", 1)
	f.deploy("1.0.0")
	f.push("1.1.0", healthyAfter(2*time.Second))
	f.runUntil("production", func() bool { return f.run.Group == "production" })
	f.cluster("canary-1").override = v1alpha1.HealthDegraded
	f.runFor(time.Minute)
	if f.run.Phase != v1alpha1.RunProgressing || f.run.Group != "" || f.run.WaitingFor[0].Cluster != "canary-1" {
		t.Fatalf("all groups are left, and the canary is not proven: %s", mustJSON(f.run))
	}
	f.cluster("canary-1").override = ""
	f.runUntilPhase(v1alpha1.RunSucceeded)
}

func TestLaw9ARunThatProvedNoClusterFails(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.strategy.FailureBudget = failureBudget("5")
	f.add("production", 2)
	f.deploy("1.0.0")
	r := f.push("1.1.0", alwaysHealth(v1alpha1.HealthFailed))
	f.runUntilPhase(v1alpha1.RunFailed)
	f.runFor(10 * time.Second)
	if f.run.HaltCause.Reason != v1alpha1.ReasonNoClusterProven || len(f.holding(r)) != 0 || f.revision(r.Digest).Verdict != v1alpha1.VerdictFailed {
		t.Errorf("%s, still on it %v, verdict %s", mustJSON(f.run.HaltCause), f.holding(r), r.Verdict)
	}
}

func TestLaw9AfterSuccessNothingIsAutomatic(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.policy.UnhealthySeconds = secs(5)
	f.add("production", 2)
	f.deploy("1.0.0")
	r := f.deploy("1.1.0")
	f.cluster("production-1").override = v1alpha1.HealthFailed
	f.runFor(10 * time.Minute)
	if f.run.Phase != v1alpha1.RunSucceeded || len(f.holding(r)) != 2 || len(f.rollbacks) != 0 {
		t.Errorf("%s, %v", f.run.Phase, f.holding(r))
	}
	if o := f.last.Outcome; o.Ready || o.Cause.Reason != v1alpha1.ReasonClustersNotReady {
		t.Errorf("degradation is not reported: %+v", o)
	}
	f.cluster("production-1").override = ""
	f.runFor(5 * time.Second)
	if !f.last.Outcome.Ready {
		t.Errorf("it recovered: %+v", f.last.Outcome)
	}
}

func TestLaw25MessagesStayBoundedWhateverTheFleet(t *testing.T) {
	f := newFleet(t, groupNamed(strings.Repeat("g", 63)))
	f.add(strings.Repeat("g", 63), 400)
	f.push("1.0.0", alwaysHealth(v1alpha1.HealthFailed))
	laws := newLawful(f, nil)
	f.check = func(s Snapshot, p Plan) { laws.checkBounds(s, p) }
	f.runUntilPhase(v1alpha1.RunFailed)
	if n := len(mustJSON(f.run)); n > 20<<10 {
		t.Errorf("the run takes %d bytes", n)
	}
	if n := len(f.last.Events); n > 30 {
		t.Errorf("%d events", n)
	}
	if got := clip(strings.Repeat("ä", 1000)); len(got) > 1024 || !strings.HasSuffix(got, "ä...") {
		t.Errorf("clipped to %d bytes: %q", len(got), got[len(got)-8:])
	}
}

func TestLaw9ARunThatFailsAtItsEndWritesNobodyForwardAnyMore(t *testing.T) {
	f := newFleet(t, groupNamed("production", step("1", 0), step("100%", 0)))
	f.strategy.FailureBudget = failureBudget("5")
	f.add("production", 2)
	f.deploy("1.0.0")
	lost := f.cluster("production-2")
	lost.tolerated = true
	lost.lose()
	f.runFor(2 * time.Minute)
	f.push("1.1.0", alwaysHealth(v1alpha1.HealthFailed))
	f.runUntilPhase(v1alpha1.RunFailed)
	if f.forwardWrites["production-2 1.1.0"] != 0 || f.rollbacks[0].Clusters != 1 {
		t.Errorf("the plan that failed the run wrote an unreachable cluster forward: %s", mustJSON(lost.delivery.Spec))
	}
}

func TestLaw9InModeManualARunThatProvedNothingIsLeftToAPerson(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.policy.Mode = v1alpha1.RollbackManual
	f.strategy.FailureBudget = failureBudget("5")
	f.add("production", 2)
	r1 := f.deploy("1.0.0")
	bad := f.push("1.1.0", alwaysHealth(v1alpha1.HealthFailed))
	f.runUntilPhase(v1alpha1.RunFailed)
	f.runFor(10 * time.Minute)
	if got := f.holding(bad); len(got) != 2 || len(f.rollbacks) != 0 {
		t.Fatalf("still on 1.1.0: %v", got)
	}
	f.setTemplate(r1)
	f.runFor(10 * time.Second)
	if got := f.holding(r1); len(got) != 2 || !f.last.Outcome.Ready {
		t.Errorf("the template was set back, and on 1.0.0 are %v: %+v", got, f.last.Outcome)
	}
}
