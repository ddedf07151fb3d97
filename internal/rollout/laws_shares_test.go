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
	f.check = func(_ Snapshot, p Plan) {
		for _, e := range p.Events {
			if strings.Contains(e.Message, "canary") {
				t.Errorf("a step of the empty group was started: %s", e.Message)
			}
		}
	}
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

func TestLaw3ARunThatBeganWithoutClustersWalksItsGroupsWhenTheyCome(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 600)), groupNamed("production"))
	r := f.push("1.0.0", healthyAfter(time.Second))
	f.runFor(10 * time.Second)
	if !f.waitsFor(v1alpha1.ReasonNoClusters) {
		t.Fatalf("without a cluster it waits for %s", mustJSON(f.run.WaitingFor))
	}
	canary := f.add("canary", 1)[0]
	f.add("production", 2)
	f.runFor(30 * time.Second)
	if diff := cmp.Diff([]string{"canary-1"}, f.holding(r)); diff != "" {
		t.Error(diff)
	}
	for _, c := range f.clusters {
		c.wanted, f.dirty = false, true
	}
	f.generation++
	f.runFor(2 * time.Minute)
	if got := f.holding(r); len(got) != 0 || !f.waitsFor(v1alpha1.ReasonNoClusters) {
		t.Fatalf("everybody left: %v, waits for %s", got, mustJSON(f.run.WaitingFor))
	}
	for _, c := range f.clusters {
		c.wanted, f.dirty = true, true
	}
	f.runFor(30 * time.Second)
	if diff := cmp.Diff([]string{canary.name}, f.holding(r)); diff != "" {
		t.Errorf("nobody had proven anything, so it begins again with the canary: %s", diff)
	}
}
