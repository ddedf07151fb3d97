package rollout

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// reasonSuspended is the reason of a delivery whose content is stopped on
// purpose: neither success nor failure, and without a deadline.
const reasonSuspended = string(v1alpha1.HealthSuspended)

// member is a cluster and its standing with respect to the run.
type member struct {
	*Cluster

	// spec and status of its delivery; nil without one.
	spec   *v1alpha1.RolloutDeliverySpec
	status *v1alpha1.RolloutDeliveryStatus

	// belongs tells that the cluster belongs to the rollout.
	belongs bool
	// group is an index of decision.groups.
	group int
	// fresh tells that status is about spec, and not about an earlier intent.
	fresh bool
	// unreachable as of now (law 16).
	unreachable bool
	// blocked says why it is not written, or why its write has no effect.
	blocked *v1alpha1.Cause
	// noGroup says that no group selects it and strategy.unmatched is Block.
	noGroup *v1alpha1.Cause
	// shut says why it waits for its maintenance window or the end of a freeze,
	// and shutUntil for how long at most.
	shut      *v1alpha1.Cause
	shutUntil time.Time
	// admitted to the run: its delivery says so, or a write of this plan will.
	admitted bool
	// proven on what it shall have, now.
	proven bool
	// excused from being waited for: unreachable since before its write.
	excused bool
	// failure is why it counts as failed in the run.
	failure *v1alpha1.Cause

	// record that covers it: an index of decision.rollbacks, or -1.
	record int
	// late is why its rollback is not complete.
	late *v1alpha1.Cause

	// absentSince is since when its absence counts; nil while it does not.
	absentSince *metav1.MicroTime
	// leaves tells that this plan removes it.
	leaves bool
	// planned tells that this plan writes to it.
	planned bool
}

// muster sorts the clusters by name and finds out which belong to the rollout,
// whatever run is going.
func (d *decision) muster() {
	byName := make([]*Cluster, len(d.in.Clusters)) // Sorting pointers is cheap.
	for i := range d.in.Clusters {
		byName[i] = &d.in.Clusters[i]
	}
	slices.SortFunc(byName, func(a, b *Cluster) int { return strings.Compare(a.Name, b.Name) })
	d.members = make([]member, 0, len(byName))
	for _, c := range byName {
		if !c.Exists {
			// Whatever its delivery says, there is no cluster to do it on.
			if c.Delivery != nil {
				d.plan.Forget = append(d.plan.Forget, c.Name)
			}
			continue
		}
		if d.isRemoved(c) {
			d.plan.Forget = append(d.plan.Forget, c.Name)
			continue
		}
		d.members = append(d.members, newMember(c))
	}
	slices.Sort(d.plan.Forget)
}

// survey takes the standing of the clusters in the run.
func (d *decision) survey() {
	d.readGroups()
	for i := range d.members {
		m := &d.members[i]
		d.takeStanding(m)
		if !m.belongs {
			continue
		}
		d.base++
		g := &d.groups[m.group]
		g.members = append(g.members, m)
	}
	for i := range d.groups {
		d.countGroup(&d.groups[i])
	}
}

// isRemoved tells that nothing of the rollout is left on a cluster and nothing
// is to come: its delivery can go. A cluster that is selected again keeps its
// delivery, so that its numbers go on and an old report proves nothing. A
// cluster that is detached while it cannot be reached does not hold the
// deletion of the rollout either: OCM keeps it until its works are gone, which
// may take until somebody removes their finalizers (law 26).
func (d *decision) isRemoved(c *Cluster) bool {
	if d.in.Deleting && c.Deleting && c.Unreachable != nil && c.Delivery != nil {
		return true
	}
	if c.Delivery == nil || c.Delivery.Spec.Removal == "" || c.Delivery.Status.State != v1alpha1.StateRemoved {
		return false
	}
	return d.in.Deleting || c.Deleting || (d.in.Membership.Complete && !c.Selected)
}

func newMember(c *Cluster) member {
	m := member{Cluster: c, record: -1, blocked: c.Blocked}
	m.unreachable = c.Unreachable != nil || !c.Available || !c.AgentLive
	if c.Delivery != nil {
		m.spec, m.status = &c.Delivery.Spec, &c.Delivery.Status
	}
	comes := m.Selected && (m.spec == nil || m.returns())
	m.belongs = !m.Deleting && (m.hasWork() || comes)
	m.fresh = m.hasWork() && m.status.Delivery == m.spec.Delivery
	return m
}

// hasWork tells that the cluster has, or shall have, content of the rollout.
func (m *member) hasWork() bool {
	return m.spec != nil && m.spec.Removal == "" && !m.leaves
}

// returns tells that a cluster is selected again after everything of the
// rollout was removed from it.
func (m *member) returns() bool {
	return m.Selected && m.spec != nil && m.spec.Removal != "" && m.status.State == v1alpha1.StateRemoved
}

// takeStanding fills in what the cluster is in the run. A cluster that comes,
// or comes back, has no standing yet.
func (d *decision) takeStanding(m *member) {
	m.noGroup = nil
	if !m.hasWork() {
		m.group = d.groupByLabels(m.Labels)
		m.noGroup = d.unmatched(m)
		return
	}
	m.admitted = d.run != nil && m.spec.Run == d.run.Number &&
		m.spec.Direction == v1alpha1.DirectionForward && m.spec.Revision.Digest == d.run.Revision.Digest
	if m.admitted {
		m.group = d.groupByName(m.spec.Group)
	} else {
		m.group = d.groupByLabels(m.Labels)
		m.noGroup = d.unmatched(m)
	}
	m.proven = m.fresh && !m.unreachable && m.status.HealthySince != nil && m.provenNow()
	m.excused = m.spec.UnreachableAtWrite && !(m.fresh && m.status.ReturnedAt != nil)
	if m.blocked == nil && m.fresh && m.status.State == v1alpha1.StateBlocked {
		m.blocked = &v1alpha1.Cause{Reason: m.status.Reason, Message: m.status.Message}
	}
}

// blockedFor says why a revision may not be written forward to the cluster. A
// delivery that its content blocks says nothing about other content (law 17).
func (m *member) blockedFor(digest string) *v1alpha1.Cause {
	switch {
	case m.Blocked != nil:
		return m.Blocked
	case m.noGroup != nil:
		return m.noGroup
	case m.blocked != nil && m.hasWork() && m.spec.Revision.Digest != digest && isAboutContent(m.blocked.Reason):
		return nil
	}
	return m.blocked
}

// isAboutContent tells that a delivery is blocked by what it brings.
func isAboutContent(reason string) bool {
	return reason == v1alpha1.ReasonHeldByOther || reason == v1alpha1.ReasonTooLarge
}

// provenNow tells that the proof is about exactly this intent.
func (m *member) provenNow() bool {
	p := m.status.Proven
	return p != nil && p.Delivery == m.spec.Delivery && p.Digest == m.spec.Revision.Digest
}

// wasProven tells that this intent has been proven at least once.
func (m *member) wasProven() bool {
	return m.spec != nil && m.fresh && m.status.ProvenAt != nil
}

// suspended tells that its content is stopped on purpose.
func (m *member) suspended() bool {
	return m.fresh && m.status.State == v1alpha1.StateProgressing && m.status.Reason == reasonSuspended
}

// waitedFor tells that a step, or the end of the run, waits for the proof of
// an admitted cluster: law 6 excuses the failed, the blocked and those
// unreachable since before their write.
func (m *member) waitedFor() bool {
	return m.admitted && m.failure == nil && m.blocked == nil && !m.excused
}

// admissible tells that a cluster could be admitted to a run of the given
// revision now.
func (m *member) admissible(digest string) bool {
	return m.belongs && m.Selected && !m.admitted && !m.planned && m.blockedFor(digest) == nil
}

// occupies tells that an admitted cluster takes a place of its group's
// maxConcurrent (law 2), and when time alone frees it.
func (d *decision) occupies(m *member, g *group) (bool, time.Time) {
	if m.failure != nil || m.blocked != nil || m.spec.UnreachableAtWrite {
		return false, time.Time{}
	}
	if !m.proven {
		return true, time.Time{}
	}
	free := m.status.HealthySince.Add(time.Duration(g.MinSuccessSeconds) * time.Second)
	return d.now.Before(free), free
}

// countGroup takes the standing of a group before its clusters' failures are
// known.
func (d *decision) countGroup(g *group) {
	for _, m := range g.members {
		if m.admitted {
			g.admitted++
		}
		if m.admitted || (m.Selected && m.noGroup == nil) {
			g.selectable++
		}
	}
}
