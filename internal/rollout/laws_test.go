package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func TestLaw1SharesRoundUpAndAreAtLeastOneAboveZero(t *testing.T) {
	for _, c := range []struct {
		share string
		size  int
		want  int
	}{
		{"10%", 5, 1}, {"50%", 5, 3}, {"99%", 20, 20}, {"1%", 1, 1}, {"0%", 5, 0}, {"100%", 7, 7},
		{"33%", 3, 1}, {"34%", 3, 2}, {"67%", 3, 3}, {"25%", 10, 3}, {"1%", 1000, 10}, {"10%", 0, 0},
		{"3", 5, 3}, {"9", 5, 5}, {"0", 5, 0},
	} {
		if got := stepTarget(step(c.share, 0), c.size); got != c.want {
			t.Errorf("a share of %s of %d clusters is %d, want %d", c.share, c.size, got, c.want)
		}
	}
}

func TestLaw1MaxConcurrentRoundsDownAndIsAtLeastOne(t *testing.T) {
	for _, c := range []struct {
		bound string
		size  int
		want  int
	}{{"50%", 5, 2}, {"10%", 5, 1}, {"100%", 5, 5}, {"99%", 20, 19}, {"3", 2, 3}, {"1%", 0, 1}} {
		if got := concurrency(intstr.Parse(c.bound), c.size); got != c.want {
			t.Errorf("maxConcurrent %s of %d clusters is %d, want %d", c.bound, c.size, got, c.want)
		}
	}
}

func TestLaw1BudgetsRoundDown(t *testing.T) {
	for _, c := range []struct {
		budget *v1alpha1.FailureBudget
		size   int
		want   int
	}{{failureBudget("10%"), 5, 0}, {failureBudget("10%"), 19, 1}, {failureBudget("2"), 5, 2}, {nil, 100, 0}} {
		if got := budget(c.budget, c.size); got != c.want {
			t.Errorf("a budget of %v of %d clusters is %d, want %d", c.budget, c.size, got, c.want)
		}
	}
}

func TestLaw1ValuesThatAdmissionWouldRefuseAreTheMostCareful(t *testing.T) {
	for _, bad := range []string{"abc", "5x", "", "-3%", "%"} {
		v := intstr.FromString(bad)
		if got := stepTarget(v1alpha1.Step{Clusters: v}, 10); got != 0 {
			t.Errorf("share %q admits %d", bad, got)
		}
		if got := concurrency(v, 10); got != 1 {
			t.Errorf("maxConcurrent %q is %d", bad, got)
		}
		if got := budget(&v1alpha1.FailureBudget{Clusters: v}, 10); got != 0 {
			t.Errorf("budget %q is %d", bad, got)
		}
	}
}

func TestLaw1AShareOfZeroAdmitsNoneAndWaits(t *testing.T) {
	f := newFleet(t, groupNamed("production", step("0", 0), step("100%", 0)))
	f.add("production", 3)
	r := f.push("1.0.0", healthyAfter(0))
	f.runFor(10 * time.Minute)
	if got := f.holding(r); len(got) != 0 {
		t.Errorf("a step of 0 admitted %v", got)
	}
	if !f.waitsFor(v1alpha1.ReasonShareReached) || f.last.Outcome.Stalled == nil || f.last.Outcome.Stalled.Reason != v1alpha1.ReasonShareReached {
		t.Errorf("want ShareReached in waitingFor and Stalled, got %s and %+v", mustJSON(f.run.WaitingFor), f.last.Outcome)
	}
}

func TestLaw1TheTargetOfAStepIsFixedWhenItStarts(t *testing.T) {
	f := newFleet(t, groupNamed("production", step("50%", 60), step("100%", 0)))
	f.add("production", 4)
	r := f.push("1.0.0", healthyAfter(time.Second))
	f.runFor(20 * time.Second)
	f.add("production", 4)
	f.runFor(20 * time.Second)
	if got := f.holding(r); len(got) != 2 {
		t.Errorf("the step of 50 %% of 4 clusters holds %v after 4 more joined", got)
	}
	f.runUntilPhase(v1alpha1.RunSucceeded)
	if got := f.holding(r); len(got) != 8 {
		t.Errorf("the run ended with %v", got)
	}
}

func TestLaw2OrderIsOnRevisionThenReachableThenUnhealthyThenByName(t *testing.T) {
	digest := "sha256:new"
	on := &v1alpha1.RolloutDeliverySpec{Revision: v1alpha1.RevisionReference{Digest: digest}}
	members := []*member{
		{Cluster: &Cluster{Name: "b-healthy"}},
		{Cluster: &Cluster{Name: "a-lost"}, unreachable: true},
		{Cluster: &Cluster{Name: "a-healthy"}},
		{Cluster: &Cluster{Name: "z-unhealthy", UnhealthyNow: true}},
		{Cluster: &Cluster{Name: "z-on-revision"}, spec: on},
		{Cluster: &Cluster{Name: "a-lost-unhealthy", UnhealthyNow: true}, unreachable: true},
	}
	sortByTurn(members, digest)
	var got []string
	for _, m := range members {
		got = append(got, m.Name)
	}
	want := []string{"z-on-revision", "z-unhealthy", "a-healthy", "b-healthy", "a-lost-unhealthy", "a-lost"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLaw2NoMoreThanMaxConcurrentChangeAtOnce(t *testing.T) {
	g := groupNamed("production")
	g.MaxConcurrent = share("2")
	g.MinSuccessSeconds = 15
	f := newFleet(t, g)
	f.add("production", 5)
	r := f.push("1.0.0", healthyAfter(4*time.Second))
	f.runFor(3 * time.Second)
	if got := f.holding(r); len(got) != 2 {
		t.Fatalf("at first %v are written, want 2", got)
	}
	f.runFor(16 * time.Second)
	if got := f.holding(r); len(got) != 2 {
		t.Fatalf("before minSuccessSeconds are over %v are written, want 2", got)
	}
	f.runFor(5 * time.Second)
	if got := f.holding(r); len(got) != 4 {
		t.Fatalf("after minSuccessSeconds %v are written, want 4", got)
	}
	f.runUntilPhase(v1alpha1.RunSucceeded)
}

func TestLaw2AClusterThatIsUnhealthyBeforeItsWriteNeedsNoPlace(t *testing.T) {
	g := groupNamed("production")
	g.MaxConcurrent = share("1")
	f := newFleet(t, g)
	f.policy.Mode = v1alpha1.RollbackManual
	f.strategy.FailureBudget = failureBudget("1")
	f.add("production", 5)
	f.deploy("1.0.0")
	f.push("1.1.0", failsOn("production-4", "production-5"))
	f.runUntilPhase(v1alpha1.RunHalted)
	fix := f.push("1.2.0", healthyAfter(time.Second))
	f.runFor(time.Second)
	if diff := cmp.Diff([]string{"production-4", "production-5"}, f.holding(fix)); diff != "" {
		t.Errorf("the fix reaches the broken clusters first, and both at once (case G7): %s", diff)
	}
	f.runUntilPhase(v1alpha1.RunSucceeded)
}

func TestLaw3LabelChangesNeverMoveAWrittenCluster(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 60)), groupNamed("production"))
	canary := f.add("canary", 1)[0]
	f.add("production", 2)
	f.deploy("1.0.0")
	r := f.push("1.1.0", healthyAfter(time.Second))
	f.runFor(35 * time.Second)
	canary.labels["group"] = "production"
	f.dirty = true
	f.runFor(20 * time.Second)
	if diff := cmp.Diff([]string{"canary-1"}, f.holding(r)); diff != "" {
		t.Errorf("production starts only after the soak (case B5): %s", diff)
	}
	f.runUntilPhase(v1alpha1.RunSucceeded)
	if n := f.forwardWrites["canary-1 1.1.0"]; n != 1 {
		t.Errorf("the moved cluster was written %d times", n)
	}
	if canary.delivery.Spec.Group != "canary" {
		t.Errorf("its group is %q", canary.delivery.Spec.Group)
	}
}

func TestLaw3AnEmptyGroupIsSkippedWithItsGates(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("0", 0), step("100%", 3600)), groupNamed("production"))
	f.add("production", 1)
	f.push("1.0.0", healthyAfter(time.Second))
	f.runFor(20 * time.Second)
	if f.run.Phase != v1alpha1.RunSucceeded {
		t.Errorf("the run is %s, waiting for %s", f.run.Phase, mustJSON(f.run.WaitingFor))
	}
}

func TestLaw3GroupsAreFrozenAndBudgetsAreReadLive(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 60)), groupNamed("production"))
	f.add("canary", 2)
	f.add("production", 1)
	f.deploy("1.0.0")
	f.push("1.1.0", failsOn("canary-1"))
	f.strategy = v1alpha1.Strategy{Groups: []v1alpha1.Group{groupNamed("production")}, FailureBudget: failureBudget("1")}
	f.tick(0) // The run starts with the strategy of this moment.
	f.strategy = v1alpha1.Strategy{Groups: []v1alpha1.Group{groupNamed("canary"), groupNamed("production")}, FailureBudget: failureBudget("0")}
	f.runFor(2 * time.Second)
	if got := f.run.FrozenGroups; len(got) != 1 || got[0].Name != "production" {
		t.Fatalf("frozen groups: %s", mustJSON(got))
	}
	f.runUntilPhase(v1alpha1.RunFailed)
}

func TestLaw4IncompleteDecisionsStopForwardWritesAndRemovalsButNotEvidence(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 5)), groupNamed("production"))
	f.add("canary", 1)
	f.add("production", 1)
	f.deploy("1.0.0")
	r := f.push("1.1.0", healthyAfter(time.Second))
	f.runFor(2 * time.Second)
	f.incomplete, f.dirty = true, true
	f.add("production", 1)
	f.runFor(10 * time.Minute)
	if diff := cmp.Diff([]string{"canary-1"}, f.holding(r)); diff != "" {
		t.Error(diff)
	}
	if f.cluster("production-2").delivery != nil {
		t.Error("a cluster joined while the decisions were incomplete")
	}
	if f.last.Outcome.Cause.Reason != v1alpha1.ReasonDecisionsIncomplete {
		t.Errorf("ready says %+v", f.last.Outcome.Cause)
	}
	f.cluster("canary-1").override = v1alpha1.HealthFailed
	f.runUntilPhase(v1alpha1.RunFailed)
	f.runFor(time.Second)
	if got := f.holding(r); len(got) != 0 {
		t.Errorf("rollback does not wait for complete decisions; still on 1.1.0: %v", got)
	}
}

func TestLaw4ARemovalNeedsAStableConfirmedAbsence(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.add("production", 2)
	f.deploy("1.0.0")
	c := f.cluster("production-1")
	c.wanted, f.dirty = false, true
	f.runFor(59 * time.Second)
	if c.delivery.Spec.AbsentSince == nil || c.delivery.Spec.Removal != "" {
		t.Fatalf("after 59 s: %s", mustJSON(c.delivery.Spec))
	}
	s := f.snapshot()
	if p := Next(s, f.now.Add(time.Minute)); !p.ConfirmRemovals || len(p.Removals) != 0 {
		t.Errorf("want an uncached read to be asked for, got %v and %v", p.ConfirmRemovals, p.Removals)
	}
	c.wanted, f.dirty = true, true
	f.runFor(2 * time.Second)
	if c.delivery.Spec.AbsentSince != nil {
		t.Error("a cluster that is selected again keeps its absence")
	}
	c.wanted, f.dirty = false, true
	f.runFor(70 * time.Second)
	if c.delivery != nil {
		t.Errorf("after 70 s it is still there: %s", mustJSON(c.delivery))
	}
}

func TestLaw4AClusterThatLeftWhileUnreachableStaysAMember(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.add("production", 2)
	f.deploy("1.0.0")
	c := f.cluster("production-1")
	c.lose()
	f.runFor(time.Hour)
	if c.delivery == nil || c.delivery.Spec.Removal != "" {
		t.Fatal("an unreachable cluster that OCM took out of the decisions was removed")
	}
	if j := f.judgement("production-1"); !j.Member || j.State != v1alpha1.StateUnreachable || j.Cause == nil {
		t.Errorf("judgement: %+v", j)
	}
	c.wanted = false
	c.comeUp()
	f.runFor(50 * time.Second)
	if c.delivery == nil || c.delivery.Spec.Removal != "" {
		t.Fatal("it was removed before it was Available for 60 s")
	}
	f.runFor(20 * time.Second)
	if c.delivery != nil {
		t.Errorf("it is still there: %s", mustJSON(c.delivery.Spec))
	}
}

func TestLaw4GoingFromSomeToNoneNeedsAChangedPlacement(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.add("production", 3)
	r := f.deploy("1.0.0")
	f.selectsNothing, f.dirty = true, true
	f.runFor(time.Hour)
	f.restart()
	f.runFor(time.Minute)
	if got := f.holding(r); len(got) != 3 {
		t.Fatalf("left: %v", got)
	}
	if o := f.last.Outcome; o.Ready || o.Cause.Reason != v1alpha1.ReasonNoClusters || !strings.Contains(o.Cause.Message, `"fleet"`) {
		t.Errorf("outcome: %+v", o)
	}
	f.generation++
	f.dirty = true
	f.runFor(2 * time.Minute)
	if got := f.holding(r); len(got) != 0 {
		t.Errorf("the placement was changed, and these are left: %v", got)
	}
}

func TestLaw4ADeletedManagedClusterGetsNoWritesAndIsForgotten(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.add("production", 2)
	r := f.deploy("1.0.0")
	c := f.cluster("production-1")
	c.deleting, f.dirty = true, true
	next := f.push("1.1.0", healthyAfter(time.Second))
	f.runUntilPhase(v1alpha1.RunSucceeded)
	if diff := cmp.Diff([]string{"production-1"}, f.holding(r)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"production-2"}, f.holding(next)); diff != "" {
		t.Error(diff)
	}
	if j := f.judgement("production-1"); j.Cause == nil || j.Cause.Reason != v1alpha1.ReasonClusterDeleting {
		t.Errorf("judgement: %+v", j)
	}
	c.exists, f.dirty = false, true
	f.runFor(time.Second)
	if c.delivery != nil {
		t.Error("its delivery is not forgotten")
	}
}

func TestLaw5OnlyProofOfThisVeryDeliveryCounts(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 0)), groupNamed("production"))
	f.add("canary", 1)
	f.add("production", 1)
	f.deploy("1.0.0")
	f.push("1.1.0", alwaysHealth(v1alpha1.HealthProgressing))
	f.runFor(2 * time.Second)
	c := f.cluster("canary-1")
	healthy := microTime(f.now.Add(-time.Hour))
	good := v1alpha1.Proof{Digest: c.delivery.Spec.Revision.Digest, Delivery: c.delivery.Spec.Delivery}
	for name, change := range map[string]func(*v1alpha1.RolloutDeliveryStatus){
		"status is about an earlier delivery": func(s *v1alpha1.RolloutDeliveryStatus) { s.Delivery-- },
		"the proof has an earlier number":     func(s *v1alpha1.RolloutDeliveryStatus) { s.Proven.Delivery-- },
		"the proof has another digest":        func(s *v1alpha1.RolloutDeliveryStatus) { s.Proven.Digest = "sha256:other" },
		"there is no proof":                   func(s *v1alpha1.RolloutDeliveryStatus) { s.Proven = nil },
		"it is not healthy now":               func(s *v1alpha1.RolloutDeliveryStatus) { s.HealthySince = nil },
	} {
		s := f.snapshot()
		for i := range s.Clusters {
			if s.Clusters[i].Name == "canary-1" {
				st, proof := &s.Clusters[i].Delivery.Status, good
				st.State, st.HealthySince, st.ProvenAt, st.Proven = v1alpha1.StateHealthy, healthy, healthy, &proof
				change(st)
			}
		}
		if p := Next(s, f.now); p.Run.Group != "canary" || len(p.Writes) != 0 {
			t.Errorf("%s, and the canary step is left: %s", name, mustJSON(p.Writes))
		}
	}
}

func TestLaw6TheSoakStartsWhenTheWholeShareIsProvenAndALossOfProofResetsIt(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 60)), groupNamed("production"))
	f.add("canary", 2)
	f.add("production", 1)
	f.deploy("1.0.0")
	f.push("1.1.0", healthyAfter(time.Second))
	f.runUntil("soaking", func() bool { return f.waitsFor(v1alpha1.ReasonSoaking) })
	begun := f.run.SoakStartedAt.Time
	f.restart()
	f.runFor(40 * time.Second)
	if !f.run.SoakStartedAt.Time.Equal(begun) {
		t.Error("a restart reset the soak")
	}
	f.cluster("canary-2").override = v1alpha1.HealthDegraded
	f.runFor(5 * time.Second)
	if f.run.SoakStartedAt != nil || !f.waitsFor(v1alpha1.ReasonWaitingForEvidence) {
		t.Errorf("a loss of proof does not reset the soak: %s", mustJSON(f.run))
	}
	f.cluster("canary-2").override = ""
	again := f.now.Add(time.Second)
	f.runUntil("production", func() bool { return f.run.Group == "production" || f.run.Group == "" })
	if f.now.Sub(again) < 60*time.Second {
		t.Errorf("the soak after the loss took only %s", f.now.Sub(again))
	}
}

func TestLaw6AFlapBetweenTwoLooksRestartsTheSoak(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 60)), groupNamed("production"))
	f.add("canary", 1)
	f.add("production", 1)
	f.deploy("1.0.0")
	f.push("1.1.0", healthyAfter(time.Second))
	f.runUntil("soaking", func() bool { return f.waitsFor(v1alpha1.ReasonSoaking) })
	f.now = f.now.Add(50 * time.Second)
	f.cluster("canary-1").delivery.Status.HealthySince = microTime(f.now)
	p := Next(f.snapshot(), f.now.Add(20*time.Second))
	if p.Run.Group != "canary" || !p.Run.SoakStartedAt.Time.Equal(f.now) {
		t.Errorf("the soak did not start again at the regained proof: %s", mustJSON(p.Run))
	}
	if want := 40 * time.Second; p.RecheckAfter != want {
		t.Errorf("RecheckAfter is %s, want the end of the soak in %s", p.RecheckAfter, want)
	}
}

func TestLaw6ASoakEndsOnlyWithASignOfLifeNearItsEnd(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 60)), groupNamed("production"))
	f.add("canary", 1)
	f.add("production", 1)
	f.deploy("1.0.0")
	f.push("1.1.0", healthyAfter(time.Second))
	f.runUntil("soaking", func() bool { return f.waitsFor(v1alpha1.ReasonSoaking) })
	end := f.run.SoakStartedAt.Add(60 * time.Second)
	for _, c := range []struct {
		name string
		seen time.Time
		left bool
	}{
		{"not seen since the manager started", time.Time{}, false},
		{"seen before the last interval", end.Add(-leaseInterval - time.Second), false},
		{"seen at the beginning of the last interval", end.Add(-leaseInterval), true},
		{"seen after the end", end.Add(time.Second), true},
	} {
		s := f.snapshot()
		for i := range s.Clusters {
			s.Clusters[i].LastSeenAt = c.seen
		}
		p := Next(s, end)
		if left := p.Run.Group != "canary"; left != c.left {
			t.Errorf("%s: the step is left: %v", c.name, left)
		}
		if !c.left && (p.Run.WaitingFor[0].Reason != v1alpha1.ReasonWaitingForRenewal || p.RecheckAfter <= 0 || p.RecheckAfter > 10*time.Second) {
			t.Errorf("%s: waits for %s, looks again after %s", c.name, mustJSON(p.Run.WaitingFor), p.RecheckAfter)
		}
	}
}

func TestLaw6AStepWithoutAnyEvidenceIsNotLeft(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 0)), groupNamed("production"))
	c := f.add("canary", 1)[0]
	c.tolerated = true
	f.add("production", 1)
	f.deploy("1.0.0")
	c.lose()
	f.runFor(2 * time.Minute)
	r := f.push("1.1.0", healthyAfter(time.Second))
	f.runFor(30 * time.Minute)
	if diff := cmp.Diff([]string{"canary-1"}, f.holding(r)); diff != "" || !f.waitsFor(v1alpha1.ReasonNoEvidence) {
		t.Errorf("waits for %s; %s", mustJSON(f.run.WaitingFor), diff)
	}
	c.comeUp()
	f.runUntilPhase(v1alpha1.RunSucceeded)
}

func TestLaw7DeadlinesCountFromTheWriteAndLeaveOutPausedTime(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.strategy.ProgressDeadlineSeconds = secs(60)
	f.add("production", 1)
	f.push("1.0.0", alwaysHealth(v1alpha1.HealthProgressing))
	f.tick(0)
	f.runFor(20 * time.Second)
	f.setPaused(true)
	f.runFor(180 * time.Second)
	if f.last.RecheckAfter != 0 {
		t.Errorf("while paused no deadline comes nearer, yet RecheckAfter is %s", f.last.RecheckAfter)
	}
	f.setPaused(false)
	f.runFor(38 * time.Second)
	if f.run.Phase != v1alpha1.RunProgressing {
		t.Fatalf("paused time was counted: %s", f.run.Phase)
	}
	f.runFor(4 * time.Second)
	if f.run.Phase != v1alpha1.RunFailed {
		t.Fatalf("the deadline did not end the run: %s", f.run.Phase)
	}
	if got := f.cluster("production-1").delivery.Spec.Failure; got == nil || got.Reason != v1alpha1.ReasonDeadlineExceeded {
		t.Errorf("recorded failure: %s", mustJSON(got))
	}
}

func TestLaw7UnhealthySecondsAddUpWithinAStep(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 600)))
	f.policy.UnhealthySeconds = secs(30)
	f.add("canary", 1)
	f.push("1.0.0", func(_ *fakeCluster, since time.Duration) v1alpha1.Health {
		if since/(10*time.Second)%2 == 1 {
			return v1alpha1.HealthDegraded
		}
		return v1alpha1.HealthHealthy
	})
	f.runUntilPhase(v1alpha1.RunFailed)
	if since := f.now.Sub(f.start); since < 55*time.Second || since > 65*time.Second {
		t.Errorf("10 s of every 20 s unhealthy, 30 s allowed: failed after %s, want about a minute", since)
	}
	if !strings.Contains(f.run.HaltCause.Message, v1alpha1.ReasonUnhealthyTooLong) {
		t.Errorf("cause: %+v", f.run.HaltCause)
	}
}

func TestLaw7ALateProofHealsNothing(t *testing.T) {
	f := newFleet(t, groupNamed("production", step("50%", 0), step("100%", 30)))
	f.strategy.ProgressDeadlineSeconds = secs(30)
	f.strategy.FailureBudget = failureBudget("1")
	f.add("production", 2)
	f.push("1.0.0", func(c *fakeCluster, since time.Duration) v1alpha1.Health {
		if c.name == "production-1" {
			return healthyAfter(45*time.Second)(c, since)
		}
		return healthyAfter(time.Second)(c, since)
	})
	f.runUntilPhase(v1alpha1.RunSucceeded)
	if f.now.Sub(f.start) < 45*time.Second {
		t.Fatalf("it succeeded after %s", f.now.Sub(f.start))
	}
	if got := f.cluster("production-1").delivery.Spec.Failure; got == nil || got.Reason != v1alpha1.ReasonDeadlineExceeded {
		t.Errorf("recorded failure: %s", mustJSON(got))
	}
}

func TestLaw7AProofAfterADeadlineThatNobodySawPassIsAFailure(t *testing.T) {
	f := newFleet(t, groupNamed("production", step("100%", 60)))
	f.strategy.ProgressDeadlineSeconds = secs(30)
	f.add("production", 1)
	f.push("1.0.0", healthyAfter(0))
	f.runUntil("soaking", func() bool { return f.waitsFor(v1alpha1.ReasonSoaking) })
	f.now = f.now.Add(40 * time.Second)
	s := f.snapshot()
	st := &s.Clusters[0].Delivery.Status
	st.ProvenAt, st.HealthySince = microTime(st.WrittenAt.Add(31*time.Second)), microTime(st.WrittenAt.Add(31*time.Second))
	if p := Next(s, f.now); p.Run.Phase != v1alpha1.RunFailed {
		t.Errorf("the run is %s", p.Run.Phase)
	}
}

func TestLaw7ASuspendedObjectHoldsItsStepWithoutDeadline(t *testing.T) {
	f := newFleet(t, groupNamed("canary"), groupNamed("production"))
	f.add("canary", 1)
	f.add("production", 1)
	r := f.push("1.0.0", func(c *fakeCluster, _ time.Duration) v1alpha1.Health { return v1alpha1.HealthSuspended })
	f.runFor(2 * time.Hour)
	if f.run.Phase != v1alpha1.RunProgressing || len(f.holding(r)) != 1 || f.run.WaitingFor[0].Reason != "Suspended" || f.run.WaitingFor[0].Cluster != "canary-1" {
		t.Errorf("%s, %v, waits for %s", f.run.Phase, f.holding(r), mustJSON(f.run.WaitingFor))
	}
}

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
