package rollout

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// lawful checks every plan of a fleet against the laws. It shares no code with
// the planner: where both need the same fact, it is worked out here again.
type lawful struct {
	f      *fleet
	random *rand.Rand
	plans  int
}

func newLawful(f *fleet, random *rand.Rand) *lawful {
	return &lawful{f: f, random: random}
}

func (l *lawful) fatalf(s Snapshot, p Plan, format string, args ...any) {
	l.f.t.Helper()
	l.f.t.Fatalf("%s\nat %s\nrun before: %s\nrun after: %s\nwrites: %s\nremovals: %s\nevents: %s\nclusters: %s\nhistory:\n%s",
		fmt.Sprintf(format, args...), l.f.now.Sub(l.f.start), mustJSON(s.Run), mustJSON(p.Run), mustJSON(p.Writes), mustJSON(p.Removals), mustJSON(p.Events), mustJSON(s.Clusters), l.f.tail())
}

func (l *lawful) check(s Snapshot, p Plan) {
	l.plans++
	l.checkPure(s, p)
	l.checkWrites(s, p)
	l.checkShares(s, p)
	l.checkConcurrency(s, p)
	l.checkRollbacks(s, p)
	l.checkBudget(s, p)
	l.checkFailures(s, p)
	l.checkCursor(s, p)
	l.checkBounds(s, p)
	l.checkActions(s, p)
	l.checkStart(s, p)
	if l.plans%4 == 0 {
		l.checkFixpoint(s, p)
	}
}

// checkPure: the same snapshot gives the same plan, whatever the order of its
// lists, and is not changed.
func (l *lawful) checkPure(s Snapshot, p Plan) {
	if l.plans%8 != 0 {
		return
	}
	before := mustJSON(s)
	shuffled := s
	shuffled.Clusters = slices.Clone(s.Clusters)
	l.random.Shuffle(len(shuffled.Clusters), reflect.Swapper(shuffled.Clusters))
	shuffled.Actions = slices.Clone(s.Actions)
	l.random.Shuffle(len(shuffled.Actions), reflect.Swapper(shuffled.Actions))
	shuffled.Revisions = slices.Clone(s.Revisions)
	l.random.Shuffle(len(shuffled.Revisions), reflect.Swapper(shuffled.Revisions))
	again := Next(shuffled, l.f.now)
	slices.SortFunc(again.Verdicts, func(a, b VerdictChange) int { return len(a.Revision) - len(b.Revision) })
	first := p
	first.Verdicts = slices.Clone(p.Verdicts)
	slices.SortFunc(first.Verdicts, func(a, b VerdictChange) int { return len(a.Revision) - len(b.Revision) })
	if len(p.Verdicts) < 2 && mustJSON(first) != mustJSON(again) {
		l.fatalf(s, p, "another order of the lists gives another plan:\n%s\n%s", mustJSON(first), mustJSON(again))
	}
	if mustJSON(s) != before {
		l.fatalf(s, p, "Next changed its snapshot")
	}
}

func find(s Snapshot, name string) *Cluster {
	for i := range s.Clusters {
		if s.Clusters[i].Name == name {
			return &s.Clusters[i]
		}
	}
	return nil
}

func isRunWrite(p Plan, w Write) bool {
	return p.Run != nil && w.Spec.Direction == v1alpha1.DirectionForward && w.Spec.Run == p.Run.Number && w.Spec.Revision.Digest == p.Run.Revision.Digest && w.Cause.Reason == v1alpha1.ReasonAdmitted
}

// isAdmitted tells that a cluster's delivery belongs to the run of the plan.
func isAdmitted(p Plan, c *Cluster) bool {
	return p.Run != nil && c.Delivery != nil && c.Delivery.Spec.Removal == "" && c.Delivery.Spec.Run == p.Run.Number &&
		c.Delivery.Spec.Direction == v1alpha1.DirectionForward && c.Delivery.Spec.Revision.Digest == p.Run.Revision.Digest
}

func isLeaving(p Plan, c *Cluster) bool {
	return slices.ContainsFunc(p.Removals, func(r Removal) bool { return r.Cluster == c.Name })
}

func isFresh(c *Cluster) bool {
	return c.Delivery != nil && c.Delivery.Status.Delivery == c.Delivery.Spec.Delivery
}

func isProven(c *Cluster) bool {
	return isFresh(c) && c.Delivery.Status.HealthySince != nil && c.Unreachable == nil
}

// checkWrites: who may get what, and once.
func (l *lawful) checkWrites(s Snapshot, p Plan) {
	touched := map[string]string{}
	touch := func(name, how string) {
		if other := touched[name]; other != "" {
			l.fatalf(s, p, "cluster %s is both in %s and %s", name, other, how)
		}
		touched[name] = how
	}
	for _, w := range p.Writes {
		touch(w.Cluster, "writes")
		c := find(s, w.Cluster)
		if c == nil || !c.Exists || c.Deleting {
			l.fatalf(s, p, "write to %s, which is not there or being deleted (law 4)", w.Cluster)
		}
		if c.Blocked != nil {
			l.fatalf(s, p, "write to %s, which is blocked (law 17)", w.Cluster)
		}
		number := int64(1)
		if c.Delivery != nil {
			number = c.Delivery.Spec.Delivery + 1
		}
		if w.Spec.Delivery != number {
			l.fatalf(s, p, "delivery number of %s is %d, want %d (law 5)", w.Cluster, w.Spec.Delivery, number)
		}
		if w.Cause.Reason == "" || w.Cause.Message == "" {
			l.fatalf(s, p, "write to %s is not explained", w.Cluster)
		}
		if w.Spec.UnreachableAtWrite != (c.Unreachable != nil) {
			l.fatalf(s, p, "write to %s: unreachableAtWrite is %v", w.Cluster, w.Spec.UnreachableAtWrite)
		}
		if w.Spec.Direction == v1alpha1.DirectionForward {
			l.checkForward(s, p, w, c)
		}
	}
	for _, r := range p.Removals {
		touch(r.Cluster, "removals")
		c := find(s, r.Cluster)
		if !s.Deleting && (!s.Membership.Complete || !s.Membership.RemovalConfirmed || c.Selected || !c.Available || c.Tainted ||
			c.Delivery.Spec.AbsentSince == nil || l.f.now.Sub(c.Delivery.Spec.AbsentSince.Time) < time.Minute) {
			l.fatalf(s, p, "removal from %s without a stable, confirmed absence (law 4)", r.Cluster)
		}
		if !s.Deleting && l.f.selectsNothing && l.f.generation == 1 && p.RemovalConfirmation == nil {
			l.fatalf(s, p, "removal from %s though the placement went to none by itself (law 4)", r.Cluster)
		}
	}
	for _, a := range p.Absences {
		touch(a.Cluster, "absences")
	}
	for _, x := range p.Forget {
		touch(x, "forget")
		c := find(s, x)
		if detached := s.Deleting && c.Deleting && c.Unreachable != nil; c.Exists && !detached && c.Delivery.Status.State != v1alpha1.StateRemoved {
			l.fatalf(s, p, "%s is forgotten before it is removed", x)
		}
	}
}

func (l *lawful) checkForward(s Snapshot, p Plan, w Write, c *Cluster) {
	switch {
	case isPaused(s, p):
		l.fatalf(s, p, "forward write to %s while paused (law 18)", w.Cluster)
	case !s.Membership.Complete:
		l.fatalf(s, p, "forward write to %s with incomplete decisions (law 4)", w.Cluster)
	case s.Deleting:
		l.fatalf(s, p, "forward write to %s while deleting (law 26)", w.Cluster)
	case !c.Selected:
		l.fatalf(s, p, "forward write to %s, which is not selected", w.Cluster)
	}
	l.checkGates(s, p, w, c)
	if !isRunWrite(p, w) {
		for _, r := range s.Revisions {
			if r.Digest == w.Spec.Revision.Digest && r.Verdict == v1alpha1.VerdictFailed {
				l.fatalf(s, p, "forward write of %s, which is known to be bad, to %s (law 13)", r.Version, w.Cluster)
			}
		}
		if to := fallback(p); to == nil || w.Spec.Revision.Digest != to.Digest {
			l.fatalf(s, p, "forward write of %s to %s, neither the run's nor stable (law 12)", w.Spec.Revision.Version, w.Cluster)
		}
		return
	}
	if isAdmitted(p, c) {
		l.fatalf(s, p, "second forward write of run %d to %s (law 24)", p.Run.Number, w.Cluster)
	}
	if p.Run.Phase == v1alpha1.RunHalted || p.Run.Phase == v1alpha1.RunFailed || p.Run.Phase == v1alpha1.RunSuperseded {
		l.fatalf(s, p, "forward write of run %d, which is %s, to %s", p.Run.Number, p.Run.Phase, w.Cluster)
	}
}

// checkRollbacks: only a revision that Succeeded is put back, and it is stable
// when that is decided (laws 10 and 11).
func (l *lawful) checkRollbacks(s Snapshot, p Plan) {
	verdicts := map[string]v1alpha1.Verdict{}
	for _, r := range s.Revisions {
		verdicts[r.Digest] = r.Verdict
	}
	inFlight := map[int64]int{}
	for _, w := range p.Writes {
		if w.Spec.Direction != v1alpha1.DirectionRollback {
			continue
		}
		if verdicts[w.Spec.Revision.Digest] != v1alpha1.VerdictSucceeded {
			l.fatalf(s, p, "%s goes back to %s, whose verdict is %s (law 10)", w.Cluster, w.Spec.Revision.Version, verdicts[w.Spec.Revision.Digest])
		}
		c := find(s, w.Cluster)
		if isAdmitted(p, c) && (p.Run.Phase == v1alpha1.RunProgressing || p.Run.Phase == v1alpha1.RunHalted) {
			l.fatalf(s, p, "%s goes back though it is admitted to the going run (law 12)", w.Cluster)
		}
		if c.Unreachable == nil {
			inFlight[w.Spec.Rollback]++
		}
	}
	open := 0
	for _, r := range p.Rollbacks {
		if r.FinishedAt == nil {
			open++
		}
		if len(s.Rollbacks) < len(p.Rollbacks) && r.ID == p.Rollbacks[len(p.Rollbacks)-1].ID && r.To != *fallback(p) {
			l.fatalf(s, p, "rollback %d goes to %s, stable is %s", r.ID, r.To.Version, p.Stable.Version)
		}
		if s.Rollback.MaxConcurrent != nil && s.Rollback.MaxConcurrent.IntVal > 0 && r.ID != 0 && inFlight[r.ID] > int(s.Rollback.MaxConcurrent.IntVal) {
			l.fatalf(s, p, "rollback %d writes %d clusters at once", r.ID, inFlight[r.ID])
		}
	}
	if len(p.Rollbacks) > v1alpha1.MaxRollbackRecords {
		l.fatalf(s, p, "%d rollback records", len(p.Rollbacks))
	}
	if p.Stable != nil && s.Stable != nil && *p.Stable != *s.Stable && (p.Run == nil || p.Run.Phase != v1alpha1.RunSucceeded || p.Run.Phase == s.Run.Phase) && !settled(s, p) {
		l.fatalf(s, p, "stable changed without a run that succeeded (law 10)")
	}
}

// checkBounds: nothing that is persisted or told grows with the fleet (law 25).
func (l *lawful) checkBounds(s Snapshot, p Plan) {
	for _, e := range p.Events {
		if len(e.Message) > 1024 || e.Reason == "" {
			l.fatalf(s, p, "event %q is too long or has no reason", e.Reason)
		}
	}
	if p.Run != nil && len(p.Run.WaitingFor) > v1alpha1.MaxWaiting {
		l.fatalf(s, p, "%d things are waited for", len(p.Run.WaitingFor))
	}
	if p.Run != nil && p.Run.Phase != v1alpha1.RunProgressing && p.Run.Phase != v1alpha1.RunHalted && (p.Run.Group != "" || p.Run.Step != 0 || p.Run.StepTarget != nil || p.Run.SoakStartedAt != nil || p.Run.PausedAt != nil) {
		l.fatalf(s, p, "an ended run still shows a step, a soak or a pause (case K6)")
	}
	if p.Outcome.Cause.Reason == "" || p.Outcome.Cause.Message == "" {
		l.fatalf(s, p, "the outcome is not explained")
	}
	if p.RecheckAfter < 0 {
		l.fatalf(s, p, "RecheckAfter is %s", p.RecheckAfter)
	}
	for _, j := range p.Judgements {
		if j.Cause != nil && (j.Cause.Reason == "" || len(j.Cause.Message) > 1024) {
			l.fatalf(s, p, "the judgement of %s has no reason, or too long a message", j.Cluster)
		}
		if j.Member && !j.Healthy && j.Cause == nil && j.State != v1alpha1.StatePending && j.State != v1alpha1.StateApplying && j.State != v1alpha1.StateProgressing {
			l.fatalf(s, p, "%s is %s and nobody says why", j.Cluster, j.State)
		}
	}
	if p.Run != nil && p.Run.Phase == v1alpha1.RunProgressing && len(p.Run.WaitingFor) == 0 && !s.Deleting {
		l.fatalf(s, p, "the run goes on and waits for nothing")
	}
}

// checkFixpoint: once a plan is carried out, the next one changes nothing (law
// 24). The facts are the persisted ones; the clusters have not moved yet.
func (l *lawful) checkFixpoint(s Snapshot, p Plan) {
	if p.ConfirmRemovals {
		return
	}
	after := s
	after.Run, after.Rollbacks, after.Stable = p.Run, p.Rollbacks, p.Stable
	after.Membership.LastPlacements = p.Placements
	after.Actions, after.HandledActions, after.RemovalConfirmation = toldActions(s, p), p.HandledActions, p.RemovalConfirmation
	after.Revisions = slices.Clone(s.Revisions)
	for i := range after.Revisions {
		for _, v := range p.Verdicts {
			if after.Revisions[i].Name == v.Revision {
				after.Revisions[i].Verdict, after.Revisions[i].Attempts = v.Verdict, v.Attempts
			}
		}
		if s.Current != nil && s.Current.Name == after.Revisions[i].Name {
			after.Current = &after.Revisions[i]
		}
	}
	after.Clusters = carriedOut(s, p)
	again := Next(after, l.f.now)
	if n := len(again.Writes) + len(again.Removals) + len(again.Absences) + len(again.Failures) + len(again.Forget) + len(again.Verdicts) + len(again.Events) + len(again.Actions); n > 0 {
		l.fatalf(s, p, "the plan carried out is followed by another one:\n%s", mustJSON(again))
	}
	x, y := p.Run.DeepCopy(), again.Run.DeepCopy()
	if x != nil {
		x.WaitingFor, y.WaitingFor, x.Groups, y.Groups = nil, nil, nil, nil
	}
	if mustJSON(x) != mustJSON(y) || mustJSON(p.Rollbacks) != mustJSON(again.Rollbacks) || mustJSON(p.RemovalConfirmation) != mustJSON(again.RemovalConfirmation) || mustJSON(p.Placements) != mustJSON(again.Placements) {
		l.fatalf(s, p, "the facts do not stay as they were persisted:\n%s\n%s", mustJSON(again.Run), mustJSON(again.Rollbacks))
	}
}

func carriedOut(s Snapshot, p Plan) []Cluster {
	var list []Cluster
	for _, c := range s.Clusters {
		if slices.Contains(p.Forget, c.Name) {
			if c.Delivery = nil; !c.Selected {
				continue
			}
		}
		d := Delivery{}
		if c.Delivery != nil {
			d = *c.Delivery
		}
		changed := false
		for _, w := range p.Writes {
			if w.Cluster == c.Name {
				d.Spec, changed = w.Spec, true
			}
		}
		for _, r := range p.Removals {
			if r.Cluster == c.Name {
				d.Spec.Removal, changed = r.Policy, true
			}
		}
		for _, a := range p.Absences {
			if a.Cluster == c.Name {
				d.Spec.AbsentSince, changed = microTime(a.Since), true
			}
		}
		for _, x := range p.Failures {
			if x.Cluster == c.Name {
				d.Spec.Failure, changed = &x.Cause, true
			}
		}
		if changed {
			c.Delivery = &d
		}
		list = append(list, c)
	}
	return list
}
