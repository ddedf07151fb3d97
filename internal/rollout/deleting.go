package rollout

import (
	"fmt"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// removeEverything stops the rollout and removes, or orphans, its works from
// every cluster (law 26). A cluster that cannot be reached is named as the
// blocker; once its ManagedCluster is gone it is forgotten. One that is being
// detached gets no write: detaching removes the works by itself.
func (d *decision) removeEverything() {
	d.plan.Placements, d.removal = d.in.Membership.LastPlacements, nil
	for i := range d.members {
		m := &d.members[i]
		if m.spec == nil || m.Deleting {
			continue
		}
		if m.spec.Removal == "" {
			d.remove(m, v1alpha1.Cause{Reason: v1alpha1.ReasonDeleting, Message: "the rollout is being deleted"})
		}
	}
}

// deletionBlockers names what the deletion waits for: the unreachable first,
// because only a person or their return ends that.
func (d *decision) deletionBlockers() v1alpha1.Cause {
	var unreachable, removing nameList
	why := ""
	for i := range d.members {
		m := &d.members[i]
		switch {
		case m.spec == nil:
		case m.unreachable:
			unreachable.add(m.Name)
		default:
			removing.add(m.Name)
			if why == "" && m.status.State == v1alpha1.StateRemoving && m.status.Message != "" {
				why = fmt.Sprintf("; cluster %q: %s", m.Name, m.status.Message)
			}
		}
	}
	message := "nothing is left on any cluster"
	switch {
	case unreachable.count > 0 && removing.count > 0:
		message = fmt.Sprintf("removing from %s (%s); blocked by %s that cannot be reached: %s. It goes on when they return; a cluster that is gone for good is released with: kubectl delete managedcluster <name>",
			clusters(removing.count), removing.String(), clusters(unreachable.count), unreachable.String())
	case unreachable.count > 0:
		message = fmt.Sprintf("blocked by %s that cannot be reached: %s. It goes on when they return; a cluster that is gone for good is released with: kubectl delete managedcluster <name>",
			clusters(unreachable.count), unreachable.String())
	case removing.count > 0:
		message = fmt.Sprintf("removing from %s: %s", clusters(removing.count), removing.String())
	}
	return v1alpha1.Cause{Reason: v1alpha1.ReasonDeleting, Message: clip(message + why)}
}
