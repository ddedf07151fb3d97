package rollout

import (
	"fmt"
	"time"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// intent is what a cluster shall have from now on.
type intent struct {
	revision  v1alpha1.RevisionReference
	direction v1alpha1.Direction
	group     string
	step      int32
	rollback  int64
	fastLease time.Duration
}

// write plans the one write of intent to a cluster. Its number goes on from
// the delivery's, so that evidence of anything earlier proves nothing.
func (d *decision) write(m *member, i intent, cause v1alpha1.Cause) {
	spec := v1alpha1.RolloutDeliverySpec{
		Revision:           i.revision,
		Delivery:           1,
		Group:              i.group,
		Step:               i.step,
		Direction:          i.direction,
		UnreachableAtWrite: m.unreachable,
		Rollback:           i.rollback,
		FastLeaseSeconds:   bounded32(int64(i.fastLease / time.Second)),
	}
	if d.run != nil {
		spec.Run, spec.Attempt = d.run.Number, d.run.Attempt
	}
	if m.spec != nil {
		spec.Rollout = m.spec.Rollout
		spec.Delivery = m.spec.Delivery + 1
		spec.AbsentSince = m.absentSince
	}
	d.plan.Writes = append(d.plan.Writes, Write{Cluster: m.Name, Spec: spec, Cause: cause})
	m.planned = true
	m.blocked = m.Blocked // What blocked the earlier intent may not block this one.
}

// deliverStable brings the stable revision to clusters that the run and the
// rollback records leave to it: the last lines of law 12, and law 15 outside a
// run.
func (d *decision) deliverStable() {
	target := d.rollbackTarget()
	if target == nil {
		return
	}
	for i := range d.members {
		m := &d.members[i]
		if !m.belongs || m.planned || m.blockedFor(target.Digest) != nil || (m.admitted && d.going()) {
			continue
		}
		switch {
		case !m.hasWork():
			d.join(m, *target)
		case m.record >= 0 || m.spec.Revision.Digest == target.Digest:
		case d.isUnhealthyOnSuperseded(m):
			d.write(m, d.stableIntent(m, *target, v1alpha1.DirectionRollback), v1alpha1.Cause{
				Reason:  v1alpha1.ReasonSupersededUnhealthy,
				Message: fmt.Sprintf("unhealthy for too long on %s, which was superseded; back to the stable revision %s until its turn comes", m.spec.Revision.Version, target.Version),
			})
		case d.mayCatchUp(m):
			d.write(m, d.stableIntent(m, *target, v1alpha1.DirectionForward), v1alpha1.Cause{
				Reason:  v1alpha1.ReasonCaughtUp,
				Message: fmt.Sprintf("missed the run of the stable revision %s", target.Version),
			})
		}
	}
}

// join gives the stable revision to a selected cluster that has nothing of the
// rollout.
func (d *decision) join(m *member, target v1alpha1.RevisionReference) {
	if !d.mayGoForward() || d.isShut(m) {
		return
	}
	d.write(m, d.stableIntent(m, target, v1alpha1.DirectionForward), v1alpha1.Cause{
		Reason:  v1alpha1.ReasonJoined,
		Message: fmt.Sprintf("joined, and gets the stable revision %s", target.Version),
	})
}

func (d *decision) stableIntent(m *member, target v1alpha1.RevisionReference, direction v1alpha1.Direction) intent {
	return intent{
		revision:  target,
		direction: direction,
		group:     d.groups[m.group].Name,
		fastLease: d.in.Strategy.ProgressDeadline(),
	}
}

// mayCatchUp tells that a cluster on another revision than the stable one
// missed a run: it was blocked, or not selected. In mode Manual a failed run is
// left to a person, who may set the template back.
func (d *decision) mayCatchUp(m *member) bool {
	if d.going() || !m.Selected || !d.mayGoForward() || !d.wantsCatchUp() || d.isShut(m) {
		return false
	}
	return true
}

// wantsCatchUp tells that clusters which missed a run shall have the stable
// revision, although nobody starts a run for them.
func (d *decision) wantsCatchUp() bool {
	succeeded := d.run == nil || d.run.Phase == v1alpha1.RunSucceeded
	wantsStable := d.in.Current != nil && d.isSettled(d.in.Current.Digest)
	return succeeded || wantsStable || d.in.Rollback.ModeOrDefault() == v1alpha1.RollbackAutomatic
}

// isUnhealthyOnSuperseded tells that a cluster which the going run has not
// admitted is unhealthy past its threshold on a revision that is neither the
// run's nor stable. Its clocks count from the start of the run, because how
// long an earlier run was paused is no longer known.
func (d *decision) isUnhealthyOnSuperseded(m *member) bool {
	if !d.going() || d.in.Rollback.ModeOrDefault() != v1alpha1.RollbackAutomatic || !m.fresh || m.excused || m.suspended() {
		return false
	}
	s := m.status
	if s.FailedAt != nil {
		return true
	}
	start := d.run.StartedAt.Time
	switch {
	case s.UnhealthySince != nil:
		at := later(s.UnhealthySince.Time, start).Add(d.in.Rollback.Unhealthy())
		d.wake(at)
		return !d.now.Before(at)
	case s.ProvenAt == nil && s.WrittenAt != nil && s.LostSince == nil && !m.unreachable:
		at := later(s.WrittenAt.Time, start).Add(d.in.Strategy.ProgressDeadline() + d.paused(d.now))
		if d.run.PausedAt == nil {
			d.wake(at)
		}
		return !d.now.Before(at)
	}
	return false
}
