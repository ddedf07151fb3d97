package rollout

import (
	"fmt"
	"time"

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
	if !d.isStable(current.Digest) {
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
	case d.isStable(current.Digest):
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
	failedLast := d.run != nil && d.run.Phase == v1alpha1.RunFailed && d.run.Revision.Digest == current.Digest
	if failedLast || current.Verdict == v1alpha1.VerdictFailed {
		return &v1alpha1.Cause{
			Reason:  v1alpha1.ReasonKnownBad,
			Message: fmt.Sprintf("revision %d (%s) failed before and is not tried again by itself; change the template to start a new run", current.Number, current.Version),
		}
	}
	return nil
}

// startRun starts a run of the template's revision where none is going, unless
// the revision is stable already or something is in the way.
func (d *decision) startRun() {
	current := d.in.Current
	if current == nil || d.in.InvalidSpec != nil || d.going() || d.hindrance != nil || d.isStable(current.Digest) {
		return
	}
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

// endRun closes the run and leaves no trace of a step, soak or pause in it.
func (d *decision) endRun(phase v1alpha1.RunPhase) {
	r := d.run
	d.resumeClock()
	r.Phase = phase
	r.EndedAt = d.stampPointer()
	r.Group, r.Step, r.StepTarget, r.StepStartedAt, r.SoakStartedAt = "", 0, nil, nil, nil
}

// keepPauseClock notes since when the run is paused, and how long it was.
func (d *decision) keepPauseClock() {
	if !d.going() {
		return
	}
	switch {
	case d.in.Paused && d.run.PausedAt == nil:
		d.run.PausedAt = d.stampPointer()
		d.note(EventRunPaused, fmt.Sprintf("run %d of %s is paused: no joins and no forward writes; automatic rollback stays armed", d.run.Number, d.run.Revision.Version))
	case !d.in.Paused && d.run.PausedAt != nil:
		d.resumeClock()
		d.note(EventRunResumed, fmt.Sprintf("run %d of %s goes on", d.run.Number, d.run.Revision.Version))
	}
}

func (d *decision) resumeClock() {
	if d.run.PausedAt == nil {
		return
	}
	d.run.PausedMilliseconds = int64(d.paused(d.now) / time.Millisecond)
	d.run.PausedAt = nil
}

// succeed ends the run: its revision is stable from now on.
func (d *decision) succeed() {
	d.endRun(v1alpha1.RunSucceeded)
	d.run.HaltCause = nil
	stable := d.run.Revision
	d.stable = &stable
	d.note(EventRunSucceeded, fmt.Sprintf("run %d of %s succeeded; it is the stable revision now", d.run.Number, d.run.Revision.Version))
}
