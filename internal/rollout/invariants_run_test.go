package rollout

import (
	"slices"
	"time"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// groupIndex is the position of a group in the run; the last for unmatched.
func groupIndex(p Plan, name string) int {
	for i, g := range p.Run.FrozenGroups {
		if g.Name == name {
			return i
		}
	}
	return len(p.Run.FrozenGroups)
}

func position(r *v1alpha1.Run) int {
	switch {
	case r.StepStartedAt == nil:
		return -1
	case r.Group == "":
		return len(r.FrozenGroups) + 1
	}
	return groupIndex(Plan{Run: r}, r.Group)
}

// checkShares: a step admits no more than its target, and later groups nothing.
func (l *lawful) checkShares(s Snapshot, p Plan) {
	if p.Run == nil || p.Run.Phase != v1alpha1.RunProgressing {
		return
	}
	admitted := map[string]int{}
	for i := range s.Clusters {
		if c := &s.Clusters[i]; isAdmitted(p, c) && c.Exists && !c.Deleting && !isLeaving(p, c) {
			admitted[c.Delivery.Spec.Group]++
		}
	}
	at := position(p.Run)
	for _, w := range p.Writes {
		if !isRunWrite(p, w) {
			continue
		}
		switch i := groupIndex(p, w.Spec.Group); {
		case i > at:
			l.fatalf(s, p, "%s of group %q gets run %d before earlier groups are left (law 2)", w.Cluster, w.Spec.Group, p.Run.Number)
		case i == at:
			if admitted[w.Spec.Group]++; admitted[w.Spec.Group] > int(*p.Run.StepTarget) {
				l.fatalf(s, p, "step %d of group %q admits more than %d (law 1)", p.Run.Step, w.Spec.Group, *p.Run.StepTarget)
			}
		}
	}
}

// checkConcurrency: a cluster that was healthy and reachable is written only
// while there is a place (law 2).
func (l *lawful) checkConcurrency(s Snapshot, p Plan) {
	if p.Run == nil || len(p.Writes) == 0 {
		return
	}
	size, occupied, needing := map[string]int{}, map[string]int{}, map[string]int{}
	for i := range s.Clusters {
		c := &s.Clusters[i]
		if !c.Exists || c.Deleting {
			continue
		}
		if c.Delivery != nil && c.Delivery.Spec.Removal != "" && !(c.Selected && c.Delivery.Status.State == v1alpha1.StateRemoved) {
			continue // One that is selected again once everything was removed comes anew.
		}
		g := l.groupOf(p, c)
		size[g]++
		if isAdmitted(p, c) && !isLeaving(p, c) && l.takesPlace(s, p, c) {
			occupied[g]++
		}
	}
	for _, w := range p.Writes {
		if c := find(s, w.Cluster); isRunWrite(p, w) && c.Unreachable == nil && !c.UnhealthyNow {
			needing[w.Spec.Group]++
		}
	}
	for _, g := range p.Run.FrozenGroups {
		bound := size[g.Name]
		if g.MaxConcurrent != nil && g.MaxConcurrent.IntVal > 0 {
			bound = int(g.MaxConcurrent.IntVal)
		}
		if needing[g.Name] > 0 && occupied[g.Name]+needing[g.Name] > max(bound, 1) {
			l.fatalf(s, p, "%d clusters of group %q change, %d more are written, maxConcurrent is %d (law 2)", occupied[g.Name], g.Name, needing[g.Name], bound)
		}
	}
}

func (l *lawful) groupOf(p Plan, c *Cluster) string {
	if isAdmitted(p, c) {
		return c.Delivery.Spec.Group
	}
	for _, g := range p.Run.FrozenGroups {
		if c.Labels["group"] == g.ClusterSelector.MatchLabels["group"] {
			return g.Name
		}
	}
	return v1alpha1.UnmatchedGroup
}

func (l *lawful) takesPlace(s Snapshot, p Plan, c *Cluster) bool {
	if c.Delivery.Spec.UnreachableAtWrite || c.Delivery.Spec.Failure != nil || isFresh(c) && (c.Delivery.Status.FailedAt != nil || c.Delivery.Status.State == v1alpha1.StateBlocked) || c.Blocked != nil {
		return false
	}
	for _, x := range p.Failures {
		if x.Cluster == c.Name {
			return false
		}
	}
	if !isFresh(c) || c.Delivery.Status.ProvenAt == nil {
		return true
	}
	for _, g := range p.Run.FrozenGroups {
		if g.Name == c.Delivery.Spec.Group && g.MinSuccessSeconds > 0 {
			return c.Delivery.Status.HealthySince == nil || l.f.now.Sub(c.Delivery.Status.HealthySince.Time) < time.Duration(g.MinSuccessSeconds)*time.Second
		}
	}
	return false
}

// checkBudget: terminal failures over budget end or halt a run (law 8), and
// what failed or succeeded stays so.
func (l *lawful) checkBudget(s Snapshot, p Plan) {
	if p.Run != nil && p.Run.Phase == v1alpha1.RunProgressing && !s.Deleting {
		failed, base := 0, 0
		for i := range s.Clusters {
			c := &s.Clusters[i]
			if !c.Exists || c.Deleting || (c.Delivery != nil && c.Delivery.Spec.Removal != "") || isLeaving(p, c) {
				continue
			}
			base++
			if isAdmitted(p, c) && (c.Delivery.Spec.Failure != nil || (isFresh(c) && c.Delivery.Status.FailedAt != nil)) {
				failed++
			}
		}
		if b := s.Strategy.FailureBudget; (b == nil && failed > 0) || (b != nil && b.Clusters.Type == 0 && failed > int(b.Clusters.IntVal)) {
			l.fatalf(s, p, "%d of %d clusters failed and the run goes on (law 8)", failed, base)
		}
	}
	if s.Run != nil && s.Run.Phase == v1alpha1.RunHalted && p.Run.Number == s.Run.Number && p.Run.Phase != v1alpha1.RunHalted && p.Run.Phase != v1alpha1.RunSuperseded && !accepted(s, p, v1alpha1.VerbAbort, v1alpha1.VerbRollback) {
		l.fatalf(s, p, "halted is latched (law 8)")
	}
	for _, v := range p.Verdicts {
		for _, r := range s.Revisions {
			if r.Name == v.Revision && r.Verdict == v1alpha1.VerdictSucceeded && v.Verdict != v1alpha1.VerdictSucceeded && !settled(s, p) {
				l.fatalf(s, p, "Succeeded is taken away from %s (law 10)", r.Version)
			}
		}
	}
	if isPaused(s, p) && s.Run != nil && p.Run.Number == s.Run.Number && p.Run.Phase == v1alpha1.RunSucceeded && s.Run.Phase != v1alpha1.RunSucceeded {
		l.fatalf(s, p, "a paused run succeeded")
	}
}

// checkCursor: a run only goes forward, and leaves a step only when its share
// is proven and soaked (laws 3 and 6).
func (l *lawful) checkCursor(s Snapshot, p Plan) {
	if p.Run == nil || p.Run.Phase != v1alpha1.RunProgressing {
		return
	}
	if s.Run == nil || s.Run.Number != p.Run.Number {
		return
	}
	at, before := [2]int{position(p.Run), int(p.Run.Step)}, [2]int{position(s.Run), int(s.Run.Step)}
	beginsAgain := !slices.ContainsFunc(s.Clusters, func(c Cluster) bool { return isAdmitted(p, &c) && c.Exists && !c.Deleting && !isLeaving(p, &c) })
	if slices.Compare(at[:], before[:]) < 0 && !beginsAgain {
		l.fatalf(s, p, "the run goes back from group %d step %d to group %d step %d (law 3)", before[0], before[1], at[0], at[1])
	}
	if position(s.Run) < 0 || position(s.Run) > len(s.Run.FrozenGroups) || at == before {
		return
	}
	if isPaused(s, p) || !s.Membership.Complete {
		l.fatalf(s, p, "a step is left while paused or with incomplete decisions")
	}
	l.checkLeft(s, p)
}

// checkLeft checks the step that the snapshot was in and the plan has left.
func (l *lawful) checkLeft(s Snapshot, p Plan) {
	soak := time.Duration(0)
	for _, g := range s.Run.FrozenGroups {
		if g.Name == s.Run.Group {
			soak = time.Duration(g.StepsOrDefault()[s.Run.Step-1].SoakSeconds) * time.Second
		}
	}
	promoted := s.Run.Promotion != nil || accepted(s, p, v1alpha1.VerbPromote)
	if promoted {
		soak = 0
	}
	members, evidence := 0, 0
	for i := range s.Clusters {
		c := &s.Clusters[i]
		if !isAdmitted(p, c) || c.Delivery.Spec.Group != s.Run.Group || !c.Exists || c.Deleting || isLeaving(p, c) {
			continue
		}
		members++
		failed := c.Delivery.Spec.Failure != nil || slices.ContainsFunc(p.Failures, func(x Failure) bool { return x.Cluster == c.Name })
		if failed || isProven(c) {
			evidence++
		}
		st := &c.Delivery.Status
		excused := c.Delivery.Spec.UnreachableAtWrite && (!isFresh(c) || st.ReturnedAt == nil)
		if failed || excused || c.Blocked != nil || (isFresh(c) && st.State == v1alpha1.StateBlocked) {
			continue
		}
		if !isProven(c) || l.f.now.Sub(st.HealthySince.Time) < soak {
			l.fatalf(s, p, "group %q step %d was left though %s is not proven for its soak of %s (law 6)", s.Run.Group, s.Run.Step, c.Name, soak)
		}
		if end := s.Run.SoakStartedAt; !promoted && end != nil && c.LastSeenAt.Before(end.Add(soak-c.LeaseInterval)) {
			l.fatalf(s, p, "group %q step %d was left though %s was not seen alive near its end (law 6)", s.Run.Group, s.Run.Step, c.Name)
		}
	}
	if members > 0 && evidence == 0 && !promoted {
		l.fatalf(s, p, "group %q step %d was left without any evidence (law 6)", s.Run.Group, s.Run.Step)
	}
}

// checkFailures: nobody fails for a time in which no manager watched (law 7).
func (l *lawful) checkFailures(s Snapshot, p Plan) {
	for _, failure := range p.Failures {
		status := &find(s, failure.Cluster).Delivery.Status
		since, limit := timeOf(status.WrittenAt), s.Strategy.ProgressDeadline()
		switch failure.Cause.Reason {
		case v1alpha1.ReasonDeadlineExceeded, v1alpha1.ReasonLostTooLong:
		case v1alpha1.ReasonUnhealthyTooLong:
			since, limit = timeOf(status.ProvenAt), s.Rollback.Unhealthy()
			if status.UnhealthySince != nil {
				continue // It was unhealthy before and after: there is no reason for a doubt.
			}
		default:
			continue
		}
		if watched := l.f.watched(since, l.f.now); watched < limit-time.Millisecond {
			l.fatalf(s, p, "%s fails (%s) after %s of %s, the time without a manager left out (law 7)", failure.Cluster, failure.Cause.Reason, watched, limit)
		}
	}
}
