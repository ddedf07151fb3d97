package rollout

import (
	"fmt"

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

// keepConfirmation drops a confirmation that is used up: a cluster is selected
// again, or nothing that left is still there.
func (d *decision) keepConfirmation() {
	if d.removal == nil || !d.in.Membership.Complete {
		return
	}
	selected, left := d.countAbsent()
	if selected > 0 || left == 0 {
		d.removal = nil
	}
}

// countAbsent counts the selected clusters, and those that left and still have
// something of the rollout.
func (d *decision) countAbsent() (selected, left int) {
	for i := range d.members {
		switch m := &d.members[i]; {
		case m.Selected:
			selected++
		case m.spec != nil:
			left++
		}
	}
	return selected, left
}

func (d *decision) removalCompletion(a *Action) *Completion {
	if d.removal != nil && d.removal.Action == a.Name {
		return nil
	}
	if selected, left := d.countAbsent(); left > 0 && selected > 0 {
		return overtaken(fmt.Sprintf("%s are selected again", clusters(selected)))
	}
	return done("nothing of the rollout is left on a cluster that is not selected")
}
