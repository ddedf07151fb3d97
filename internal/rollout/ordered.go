package rollout

import (
	"fmt"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// abort fails the run and takes every cluster of it back, in any mode and also
// from Halted. With nothing running it changes nothing.
func (d *decision) abort(a *Action) ruling {
	if !d.going() {
		return noEffect("nothing to abort: %s has ended (%s)", d.runInWords(), d.run.Phase)
	}
	cause := v1alpha1.Cause{
		Reason:  v1alpha1.ReasonAborted,
		Message: clip(fmt.Sprintf("%s aborted %s%s", a.Spec.Actor, d.runInWords(), because(a.Spec.Reason))),
	}
	run := d.runInWords()
	d.giveUp(cause)
	target := d.rollbackTarget()
	if target == nil {
		missing := d.noTarget()
		d.warn(EventNoRollbackTarget, missing.Message)
		return took("%s is aborted; %s", run, missing.Message)
	}
	d.openRollback(departure{to: *target, trigger: v1alpha1.TriggerAborted, cause: cause, action: a})
	return took("%s is aborted, and its clusters go back to %s", run, target.Version)
}

// orderRollback puts an earlier revision back on the whole fleet: the stable
// one, or the one that the order names. A going run fails.
func (d *decision) orderRollback(a *Action) ruling {
	target, r := d.orderedTarget(a)
	if target == nil {
		return r
	}
	departing := d.runInWords()
	if !d.going() && d.stable != nil {
		departing = d.stable.Version
	}
	cause := v1alpha1.Cause{
		Reason:  v1alpha1.ReasonRollbackRequested,
		Message: clip(fmt.Sprintf("%s ordered %s to be rolled back to %s%s", a.Spec.Actor, departing, target.Version, because(a.Spec.Reason))),
	}
	if d.going() {
		d.giveUp(cause)
	}
	d.openRollback(departure{to: *target, trigger: v1alpha1.TriggerRequested, cause: cause, action: a})
	return took("the fleet goes back to revision %d (%s)", target.Number, target.Version)
}

// orderedTarget finds the revision that a Rollback puts back, or rules why
// there is none.
func (d *decision) orderedTarget(a *Action) (*v1alpha1.RevisionReference, ruling) {
	if a.Spec.ToRevision != nil {
		return d.namedTarget(*a.Spec.ToRevision)
	}
	goal := d.goal()
	switch {
	case goal == nil:
		return nil, refused(v1alpha1.ReasonTargetNotAllowed, "no revision has ever succeeded, so there is nothing to go back to; to stop the run use Abort or Pause")
	case d.problemOf(goal.Digest) != nil:
		return nil, refused(v1alpha1.ReasonTargetNotAllowed, "revision %d (%s) cannot be delivered: %s", goal.Number, goal.Version, d.problemOf(goal.Digest).Message)
	case d.going(), d.isSomebodyLeft(*goal):
		return d.unlessOrdered(*goal)
	case d.run.Phase != v1alpha1.RunSucceeded || !d.isStable(d.run.Revision.Digest):
		return nil, noEffect("the fleet is on %s already, or on its way; to go further back name spec.toRevision: %s", goal.Version, d.targetsInWords())
	}
	var before *Revision
	for i := range d.in.Revisions {
		r := &d.in.Revisions[i]
		if r.Number < d.stable.Number && d.isTarget(r) && (before == nil || r.Number > before.Number) {
			before = r
		}
	}
	if before == nil {
		return nil, refused(v1alpha1.ReasonTargetNotAllowed, "no revision before %s has succeeded and is retained; name spec.toRevision: %s", d.stable.Version, d.targetsInWords())
	}
	return d.unlessOrdered(before.RevisionReference)
}

func (d *decision) namedTarget(number int64) (*v1alpha1.RevisionReference, ruling) {
	for i := range d.in.Revisions {
		r := &d.in.Revisions[i]
		switch {
		case r.Number != number:
			continue
		case r.Problem != nil:
			return nil, refused(v1alpha1.ReasonTargetNotAllowed, "spec.toRevision %d (%s) cannot be delivered: %s", number, r.Version, r.Problem.Message)
		case !d.isTarget(r):
			return nil, refused(v1alpha1.ReasonTargetNotAllowed, "spec.toRevision %d (%s) is %s and never succeeded; choose one of %s", number, r.Version, verdictInWords(r.Verdict), d.targetsInWords())
		case d.going() && d.run.Revision.Digest == r.Digest:
			return nil, refused(v1alpha1.ReasonTargetNotAllowed, "spec.toRevision %d (%s) is what the run brings out; to stop the run use Abort", number, r.Version)
		case !d.going() && d.isStable(r.Digest) && d.goal().Digest == r.Digest && !d.isSomebodyLeft(r.RevisionReference):
			return nil, noEffect("revision %d (%s) is stable, and every cluster has it or is on its way to it", number, r.Version)
		}
		return d.unlessOrdered(r.RevisionReference)
	}
	return nil, refused(v1alpha1.ReasonTargetNotAllowed, "spec.toRevision %d is not retained; choose one of %s", number, d.targetsInWords())
}

// unlessOrdered refuses to open a second record for what an open one does.
func (d *decision) unlessOrdered(to v1alpha1.RevisionReference) (*v1alpha1.RevisionReference, ruling) {
	if open := d.openRollbackRecord(); !d.going() && open != nil && open.To.Digest == to.Digest && open.Run == d.run.Number {
		return nil, noEffect("rollback %d to %s goes on already", open.ID, to.Version)
	}
	return &to, ruling{}
}

// isTarget tells that a revision may be gone back to.
func (d *decision) isTarget(r *Revision) bool {
	return r.Problem == nil && (r.Verdict == v1alpha1.VerdictSucceeded || d.isStable(r.Digest))
}

func verdictInWords(v v1alpha1.Verdict) v1alpha1.Verdict {
	if v == "" {
		return v1alpha1.VerdictCandidate
	}
	return v
}

// targetsInWords names revisions that may be gone back to.
func (d *decision) targetsInWords() string {
	var names nameList
	for i := range d.in.Revisions {
		if r := &d.in.Revisions[i]; d.isTarget(r) {
			names.add(fmt.Sprintf("%d (%s)", r.Number, r.Version))
		}
	}
	if names.count == 0 {
		return "none, because no retained revision has succeeded"
	}
	return names.String()
}

// isSomebodyLeft tells that a rollback to the given revision would cover a
// cluster.
func (d *decision) isSomebodyLeft(to v1alpha1.RevisionReference) bool {
	record := v1alpha1.RollbackRecord{To: to, Run: d.run.Number, ID: -1}
	for i := range d.members {
		if d.members[i].coveredBy(&record) {
			return true
		}
	}
	return false
}

// giveUp ends the going run as Failed, whatever the mode.
func (d *decision) giveUp(cause v1alpha1.Cause) {
	d.run.HaltCause = &cause
	d.endRun(v1alpha1.RunFailed)
	d.warn(EventRunFailed, fmt.Sprintf("%s failed: %s", d.runInWords(), cause.Message))
}

// goal is the revision that the fleet is meant to fall back to: the target of
// an open rollback that a person ordered, or else the stable one. It becomes
// stable when that rollback is complete (law 10).
func (d *decision) goal() *v1alpha1.RevisionReference {
	for i := len(d.rollbacks) - 1; i >= 0; i-- {
		if r := &d.rollbacks[i]; r.FinishedAt == nil && r.Trigger == v1alpha1.TriggerRequested {
			return &r.To
		}
	}
	return d.stable
}

// isSettled tells that a digest in the template starts no run: it is stable, or
// about to be.
func (d *decision) isSettled(digest string) bool {
	goal := d.goal()
	return d.isStable(digest) || (goal != nil && goal.Digest == digest)
}

// settle makes the target of a finished rollback that a person ordered the
// stable revision; the one that was left counts as failed (law 10).
func (d *decision) settle(r *v1alpha1.RollbackRecord) {
	if r.Trigger != v1alpha1.TriggerRequested || d.isStable(r.To.Digest) {
		return
	}
	if d.stable != nil {
		left := *d.stable
		d.left, d.leftCause = &left, r.Cause
	}
	to := r.To
	d.stable = &to
	d.note(EventStableSet, fmt.Sprintf("%s is the stable revision from now on: %s", to.Version, r.Cause.Message))
}

// retry starts a new attempt of the template's revision, which failed or was
// halted, from the first group (law 13).
func (d *decision) retry() ruling {
	current := d.in.Current
	switch {
	case current == nil || d.in.InvalidSpec != nil:
		return refused(v1alpha1.ReasonNotRetryable, "the template cannot be frozen into a revision; correct it first: %s", causeMessage(d.in.InvalidSpec))
	case d.progressing():
		return refused(v1alpha1.ReasonNotRetryable, "%s is going on; there is nothing to retry", d.runInWords())
	case d.isSettled(current.Digest):
		return refused(v1alpha1.ReasonNotRetryable, "the template's revision %d (%s) has succeeded and is what the fleet falls back to", current.Number, current.Version)
	}
	halted := d.run != nil && d.run.Phase == v1alpha1.RunHalted && d.run.Revision.Digest == current.Digest
	hindrance := d.startHindrance(current)
	switch {
	case hindrance != nil && hindrance.Reason != v1alpha1.ReasonKnownBad:
		return refused(v1alpha1.ReasonNotRetryable, "no run of revision %d (%s) can start: %s", current.Number, current.Version, hindrance.Message)
	case hindrance == nil && !halted:
		return refused(v1alpha1.ReasonNotRetryable, "revision %d (%s) neither failed nor is its run halted", current.Number, current.Version)
	}
	if r := d.refusedByRollback(); r != nil {
		return *r
	}
	d.begin(current)
	d.hindrance = nil
	return took("%s started, attempt %d, from the first group; clusters that hold the revision already get it again", d.runInWords(), d.run.Attempt)
}

// refusedByRollback names what an open rollback still has to restore on
// clusters that can be reached; nil if there is no such thing.
func (d *decision) refusedByRollback() *ruling {
	for i := range d.rollbacks {
		r := &d.rollbacks[i]
		if r.FinishedAt != nil {
			continue
		}
		var names nameList
		for k := range d.members {
			m := &d.members[k]
			if m.coveredBy(r) && !m.unreachable && !(m.writtenBy(r) && m.wasProven()) {
				names.add(m.Name)
			}
		}
		if names.count > 0 {
			refusal := refused(v1alpha1.ReasonRollbackOpen, "rollback %d to %s is not finished on %s: %s; retry when it is, or correct the template", r.ID, r.To.Version, clusters(names.count), names.String())
			return &refusal
		}
	}
	return nil
}
