package rollout

import (
	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// confirmRemoval lets the clusters go that a placement no longer selects,
// although nobody changed the placement (law 4). It is about the placements
// that select none at this moment; one that does so later needs a word of its
// own. Their absence must still be stable and read again, uncached.
func (d *decision) confirmRemoval(a *Action) ruling {
	switch {
	case !d.in.Membership.Complete:
		return refused(v1alpha1.ReasonVoid, "the placement decisions are incomplete now, so nobody can say what would be removed; order it again once they are complete: %s", d.incompleteCause().Message)
	case d.held == nil:
		return noEffect("no removal waits for a confirmation: no placement went from some clusters to none by itself")
	}
	order := d.order(a)
	d.removal, d.held = &order, nil
	d.plan.Placements = d.in.Membership.Placements
	return took("the clusters that are selected no longer are removed, once their absence has lasted %s and was read again", stableAbsence)
}

// keepConfirmation drops a confirmation that is used up: nothing that left is
// still there, or a placement went to none once more.
func (d *decision) keepConfirmation() {
	if d.removal != nil && d.in.Membership.Complete && (d.held != nil || d.countAbsent() == 0) {
		d.removal = nil
	}
}

// countAbsent counts the clusters that are selected no longer and still have
// something of the rollout.
func (d *decision) countAbsent() int {
	left := 0
	for i := range d.members {
		if m := &d.members[i]; !m.Selected && m.spec != nil {
			left++
		}
	}
	return left
}

// removalCompletion: an order is done once nothing is left on a cluster that is
// selected no longer, whatever other placements select.
func (d *decision) removalCompletion(a *Action) *Completion {
	switch {
	case d.removal != nil && d.removal.Action == a.Name:
		return nil
	case d.held != nil:
		return overtaken("clusters were selected again since, and now a placement selects none once more; that needs an order of its own")
	}
	return done("nothing of the rollout is left on a cluster that was selected no longer")
}
