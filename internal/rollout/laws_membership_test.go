package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

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

func TestLaw4OnlyAbsenceOfAnAvailableUntaintedClusterCounts(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.add("production", 2)
	f.deploy("1.0.0")
	f.cluster("production-1").wanted = false
	for name, change := range map[string]func(*Cluster){
		"tainted":       func(c *Cluster) { c.Tainted = true },
		"not available": func(c *Cluster) { c.Available = false },
		"selected":      func(c *Cluster) { c.Selected = true },
	} {
		s := f.snapshot()
		s.Membership.RemovalConfirmed = true
		for i := range s.Clusters {
			if c := &s.Clusters[i]; c.Name == "production-1" {
				c.Delivery.Spec.AbsentSince = microTime(f.now.Add(-time.Hour))
				change(c)
			}
		}
		want := []Absence{{Cluster: "production-1"}}
		if p := Next(s, f.now); len(p.Removals) != 0 || !cmp.Equal(want, p.Absences) {
			t.Errorf("%s: removals %v, absences %v", name, p.Removals, p.Absences)
		}
	}
}

func TestLaw4ReplacingThePlacementByOneThatSelectsNothingKeepsTheClusters(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.add("production", 2)
	f.deploy("1.0.0")
	s := f.snapshot()
	s.Membership.RemovalConfirmed = true
	s.Membership.Placements = []v1alpha1.ResolvedPlacement{{Name: "other", Generation: 4}}
	for i := range s.Clusters {
		s.Clusters[i].Selected = false
		s.Clusters[i].Delivery.Spec.AbsentSince = microTime(f.now.Add(-time.Hour))
	}
	p := Next(s, f.now)
	if len(p.Removals) != 0 || p.Outcome.Cause.Reason != v1alpha1.ReasonNoClusters {
		t.Fatalf("removals %v, outcome %+v", p.Removals, p.Outcome)
	}
	s.Membership.LastPlacements = p.Placements
	if p = Next(s, f.now); len(p.Removals) != 0 {
		t.Fatalf("one plan later it is forgotten that something was selected: %s", mustJSON(p.Removals))
	}
	s.Membership.Placements[0].Generation++
	if p = Next(s, f.now); len(p.Removals) != 2 {
		t.Errorf("the placement was changed, and the removals are %s", mustJSON(p.Removals))
	}
	s.Membership.Placements[0].Generation, s.Membership.Placements[0].SelectedClusters = 4, 1
	if p = Next(s, f.now); len(p.Removals) != 2 {
		t.Errorf("the other placement selects a cluster (case A6), and the removals are %s", mustJSON(p.Removals))
	}
}

func TestLaw4APlacementThatAPersonNarrowedToNothingLetsTheClustersGo(t *testing.T) {
	for _, behind := range []time.Duration{0, time.Second, 30 * time.Second} {
		f := newFleet(t, groupNamed("production"))
		f.add("production", 3)
		r := f.deploy("1.0.0")
		f.runFor(time.Hour)
		f.generation++ // A person edits the Placement, and OCM decides later.
		f.dirty = true
		f.runFor(behind)
		f.selectsNothing, f.dirty = true, true
		f.runFor(3 * time.Minute)
		if got := f.holding(r); len(got) != 0 {
			t.Errorf("the decisions came %s after the change, and these are held: %v (%s)", behind, got, f.last.Outcome.Cause.Message)
		}
	}
}

func TestLaw4AChangeOfAPlacementExplainsNoLossLongAfterIt(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.add("production", 3)
	r := f.deploy("1.0.0")
	f.generation++
	f.dirty = true
	f.runFor(10 * time.Minute)
	f.selectsNothing, f.dirty = true, true
	f.runFor(time.Hour)
	if got := f.holding(r); len(got) != 3 {
		t.Errorf("only %v are left, because the Placement had been changed ten minutes before", got)
	}
}
