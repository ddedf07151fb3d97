package rollout

import (
	"fmt"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// supersedeRun ends the going run at once if the template holds another
// revision (laws 10 and 14). A spec that cannot be frozen, or a revision whose
// payload is gone, leaves the going run as it is.
func (d *decision) supersedeRun() {
	current := d.in.Current
	if current == nil || d.in.InvalidSpec != nil {
		return
	}
	if d.going() && d.run.Revision.Digest == current.Digest {
		return
	}
	if !d.isSettled(current.Digest) {
		if d.hindrance = d.startHindrance(current); d.hindrance != nil && d.hindrance.Reason != v1alpha1.ReasonKnownBad {
			return
		}
	}
	if !d.going() {
		return
	}

	old := d.run.DeepCopy()
	d.superseded = old
	switch {
	case d.isSettled(current.Digest):
		d.reverted = &v1alpha1.Cause{
			Reason:  v1alpha1.ReasonReverted,
			Message: fmt.Sprintf("the template was set back to the stable revision %s while run %d of %s was going on", current.Version, old.Number, old.Revision.Version),
		}
	case d.hindrance != nil:
		d.reverted = &v1alpha1.Cause{
			Reason:  v1alpha1.ReasonReverted,
			Message: fmt.Sprintf("the template was set to %s, which is known to be bad, while run %d of %s was going on", current.Version, old.Number, old.Revision.Version),
		}
	}
	if d.reverted != nil {
		d.run.HaltCause = d.reverted
	} else {
		d.run.HaltCause = &v1alpha1.Cause{
			Reason:  v1alpha1.ReasonSuperseded,
			Message: fmt.Sprintf("the template holds %s now", current.Version),
		}
	}
	d.endRun(v1alpha1.RunSuperseded)
	d.note(EventRunSuperseded, fmt.Sprintf("run %d of %s ended: %s", old.Number, old.Revision.Version, d.run.HaltCause.Message))
}

// startHindrance says why no run of the template's revision may start.
func (d *decision) startHindrance(current *Revision) *v1alpha1.Cause {
	if current.Problem != nil {
		return current.Problem
	}
	if cause := badSelector(d.in.Strategy.Groups); cause != nil {
		return cause
	}
	if cause := d.unreadableWindow(); cause != nil {
		return cause
	}
	if cause := d.unmatchedClusters(); cause != nil {
		return cause
	}
	if d.isKnownBad(current) {
		return &v1alpha1.Cause{
			Reason:  v1alpha1.ReasonKnownBad,
			Message: fmt.Sprintf("revision %d (%s) failed before and is not tried again by itself. %s", current.Number, current.Version, d.waysToTryAgain(current)),
		}
	}
	return nil
}

// waysToTryAgain says what starts a run where a revision is known to be bad.
func (d *decision) waysToTryAgain(r *Revision) string {
	return fmt.Sprintf("Change the template to start a new run, or create a RolloutAction with verb Retry for rollout %s, revision %s, attempt %d", d.in.Name, r.Digest, d.attempts(r))
}

// isKnownBad tells that a revision failed, or was left by a rollback that a
// person ordered, even if its verdict does not say so yet.
func (d *decision) isKnownBad(r *Revision) bool {
	if r.Verdict == v1alpha1.VerdictFailed || (d.left != nil && d.left.Digest == r.Digest) {
		return true
	}
	if d.run == nil || d.run.Revision.Digest != r.Digest {
		return false
	}
	return d.run.Phase == v1alpha1.RunFailed || d.wasLeft()
}

// wasLeft tells that the last run succeeded and its revision is stable no
// longer: only a rollback that a person ordered does that.
func (d *decision) wasLeft() bool {
	return d.run.Phase == v1alpha1.RunSucceeded && d.stable != nil && !d.isStable(d.run.Revision.Digest)
}

// attempts is how many runs of a revision have started.
func (d *decision) attempts(r *Revision) int32 {
	if d.run != nil && d.run.Revision.Digest == r.Digest {
		return d.run.Attempt
	}
	return r.Attempts
}

// startRun starts a run of the template's revision where none is going, unless
// the revision is stable already or something is in the way.
func (d *decision) startRun() {
	current := d.in.Current
	if current == nil || d.in.InvalidSpec != nil || d.going() || d.hindrance != nil || d.isSettled(current.Digest) {
		return
	}
	d.begin(current)
}

// begin starts the next run, whatever run was going.
func (d *decision) begin(current *Revision) {
	next := v1alpha1.Run{
		Number:       1,
		Revision:     current.RevisionReference,
		Attempt:      current.Attempts + 1,
		Phase:        v1alpha1.RunProgressing,
		StartedAt:    d.stamp(),
		FrozenGroups: make([]v1alpha1.Group, len(d.in.Strategy.Groups)),
	}
	for i := range d.in.Strategy.Groups {
		d.in.Strategy.Groups[i].DeepCopyInto(&next.FrozenGroups[i])
	}
	if d.run != nil {
		next.Number = d.run.Number + 1
		if d.run.Revision.Digest == current.Digest {
			next.Attempt = max(next.Attempt, d.run.Attempt+1)
		}
	}
	d.run = &next
	d.note(EventRunStarted, fmt.Sprintf("run %d of revision %d (%s) started, attempt %d", next.Number, next.Revision.Number, next.Revision.Version, next.Attempt))
}

// endRun closes the run and leaves no trace of a step, soak, pause or approval
// in it.
func (d *decision) endRun(phase v1alpha1.RunPhase) {
	r := d.run
	d.resumeClock()
	r.Phase = phase
	r.EndedAt = d.stampPointer()
	r.Group, r.Step, r.StepTarget, r.StepStartedAt, r.SoakStartedAt = "", 0, nil, nil, nil
	r.Approvals, r.PauseOrder, r.Promotion = nil, nil, nil
}

// succeed ends the run: its revision is stable from now on.
func (d *decision) succeed() {
	d.endRun(v1alpha1.RunSucceeded)
	d.run.HaltCause = nil
	stable := d.run.Revision
	d.stable = &stable
	d.note(EventRunSucceeded, fmt.Sprintf("run %d of %s succeeded; it is the stable revision now", d.run.Number, d.run.Revision.Version))
}
