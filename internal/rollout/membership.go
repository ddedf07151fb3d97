package rollout

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// stableAbsence is how long a cluster must be missing from complete decisions,
// while Available and untainted, before it is removed (law 4).
const stableAbsence = 60 * time.Second

// confirmAgain is when removals that an uncached read did not confirm are
// looked at again, should nothing else happen.
const confirmAgain = 10 * time.Second

// decisionsFollow is how long after a change of a Placement decisions that select
// none are taken for what that change meant: OCM decides a moment later.
const decisionsFollow = 60 * time.Second

// findAbsences notes since when clusters are absent, and what holds their
// removal back.
func (d *decision) findAbsences() {
	d.resolvePlacements()
	for i := range d.members {
		if m := &d.members[i]; m.hasWork() && !m.Deleting {
			m.absentSince = d.absentSince(m)
		}
	}
}

// leaveClusters removes the rollout from clusters that left its placements. A
// cluster that cannot be reached stays: OCM takes unreachable clusters out of
// the decisions, and that says nothing about what people want.
func (d *decision) leaveClusters() {
	d.keepConfirmation()
	var due []*member
	for i := range d.members {
		m := &d.members[i]
		if m.absentSince == nil {
			continue
		}
		if end := m.absentSince.Add(stableAbsence); d.now.Before(end) {
			d.wake(end)
		} else {
			due = append(due, m)
		}
	}
	if len(due) == 0 || d.held != nil {
		return
	}
	if !d.in.Membership.RemovalConfirmed {
		d.plan.ConfirmRemovals = true
		d.wake(d.now.Add(confirmAgain))
		return
	}
	for _, m := range due {
		d.remove(m, v1alpha1.Cause{
			Reason:  v1alpha1.ReasonLeaving,
			Message: fmt.Sprintf("no placement has selected it for %s", stableAbsence),
		})
	}
}

// absentSince is since when the absence of a cluster counts; nil while it does
// not. Incomplete decisions say nothing, so the count starts again after them.
func (d *decision) absentSince(m *member) *metav1.MicroTime {
	if !d.in.Membership.Complete || m.Selected || !m.Available || m.Tainted {
		return nil
	}
	if m.spec.AbsentSince != nil {
		return m.spec.AbsentSince
	}
	return d.stampPointer()
}

// resolvePlacements decides which resolved placements to persist, and holds
// removals while a placement went from some clusters to none although nobody
// changed it. What was persisted of such a placement stays, so that a restart
// does not forget that there was something.
func (d *decision) resolvePlacements() {
	m := &d.in.Membership
	d.plan.Placements = m.LastPlacements
	if !m.Complete {
		return
	}
	var before, after int32
	changed := false
	for _, last := range m.LastPlacements {
		before += last.SelectedClusters
	}
	resolved := make([]v1alpha1.ResolvedPlacement, 0, len(m.Placements))
	for _, p := range m.Placements {
		after += p.SelectedClusters
		last := placement(m.LastPlacements, p.Name)
		switch {
		case last != nil && last.Generation != p.Generation:
			p.ChangedAt = d.stampPointer()
		case last != nil:
			p.ChangedAt = last.ChangedAt
		}
		meant := p.ChangedAt != nil && d.now.Sub(p.ChangedAt.Time) <= decisionsFollow
		changed = changed || meant
		if last != nil && !meant && last.SelectedClusters > 0 && p.SelectedClusters == 0 {
			d.hold(p.Name, last.SelectedClusters)
			p = *last
		}
		resolved = append(resolved, p)
	}
	if before > 0 && after == 0 && !changed {
		// Placements that the rollout names no longer: replacing them by one
		// that selects nothing is not a reason to clear the fleet either.
		for _, last := range m.LastPlacements {
			if placement(m.Placements, last.Name) == nil && last.SelectedClusters > 0 {
				d.hold(last.Name, last.SelectedClusters)
				resolved = append(resolved, last)
			}
		}
	}
	d.plan.Placements = resolved
}

func (d *decision) hold(name string, before int32) {
	if d.held != nil {
		return
	}
	d.held = &v1alpha1.Cause{
		Reason:  v1alpha1.ReasonNoClusters,
		Message: clip(fmt.Sprintf("placement %q selected %s and now selects none, and nothing tells that somebody meant it; the clusters are kept. If they shall go, create a RolloutAction with verb ConfirmRemoval, or change the placement once more (any change of its spec will do)", name, clusters(int(before)))),
	}
}

func placement(list []v1alpha1.ResolvedPlacement, name string) *v1alpha1.ResolvedPlacement {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// remove orders the works of a cluster to be removed.
func (d *decision) remove(m *member, cause v1alpha1.Cause) {
	policy := d.in.OnDelete
	if policy == "" {
		policy = v1alpha1.DeletePolicyDelete
	}
	d.plan.Removals = append(d.plan.Removals, Removal{Cluster: m.Name, Policy: policy, Cause: cause})
	m.leaves, m.belongs, m.fresh = true, false, false
}

// recordAbsences tells which counts of absence begin or end, where no write
// carries them already.
func (d *decision) recordAbsences() {
	for i := range d.members {
		m := &d.members[i]
		if m.hasWork() && !m.Deleting && !m.planned && !sameTime(m.absentSince, m.spec.AbsentSince) {
			d.plan.Absences = append(d.plan.Absences, Absence{Cluster: m.Name, Since: timeOf(m.absentSince)})
		}
	}
}

func sameTime(a, b *metav1.MicroTime) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Time.Equal(b.Time)
}
