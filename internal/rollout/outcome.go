package rollout

import (
	"fmt"
	"slices"
	"strings"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// conclude accounts for the decision: what is waited for, how everything
// stands, and when to look again.
func (d *decision) conclude() Plan {
	p := &d.plan
	if current := d.in.Current; current != nil && d.in.InvalidSpec == nil && !d.going() && !d.isSettled(current.Digest) {
		d.hindrance = d.startHindrance(current) // The run may have failed just now.
	}
	d.decideVerdicts()
	d.recordAbsences()
	d.recordFailures()
	d.recordRemovals()
	d.countGroups()
	p.Judgements = d.judgements()
	d.haltedWaits()
	d.completeActions()
	sortWaiting(d.waiting)
	p.Outcome = d.outcome(p.Judgements)
	if d.run != nil {
		d.run.WaitingFor = d.waiting
	}
	p.Run, p.Rollbacks, p.Stable = d.run, d.rollbacks, d.stable
	p.RemovalConfirmation, p.HandledActions = d.removal, d.handled
	if !d.wakeAt.IsZero() {
		p.RecheckAfter = d.wakeAt.Sub(d.now)
	}
	return d.plan
}

// haltedWaits says what a halted run waits for.
func (d *decision) haltedWaits() {
	if d.run == nil || d.run.Phase != v1alpha1.RunHalted {
		return
	}
	d.waitFor(v1alpha1.Waiting{Reason: v1alpha1.ReasonHalted,
		Message: "the failure budget is spent and rollback.mode is Manual; " + d.waysOutOfHalt()})
}

// outcome is the state of the rollout as a whole. Its checks are in order of
// what a person must know first.
func (d *decision) outcome(judgements []Judgement) Outcome {
	o := Outcome{RolledBack: d.rolledBack()}
	open := d.openRollbackRecord()
	o.Progressing = !d.in.Deleting && (d.progressing() || (open != nil && open.Result == v1alpha1.RollbackInProgress))
	o.Stalled = d.stalled()
	o.Cause = d.withLostStable(d.inTheWay(open))
	if o.Cause.Reason != "" {
		return o
	}
	if cause := d.notReady(judgements); cause != nil {
		o.Cause = *cause
		return o
	}
	o.Ready = true
	o.Cause = d.readyCause()
	return o
}

// inTheWay is the first thing that keeps the rollout as a whole from being
// ready; its reason is empty if nothing does.
func (d *decision) inTheWay(open *v1alpha1.RollbackRecord) v1alpha1.Cause {
	switch {
	case d.in.Deleting:
		return d.deletionBlockers()
	case d.in.InvalidSpec != nil:
		return d.besideRun(*d.in.InvalidSpec, open)
	case d.run != nil && d.run.Phase == v1alpha1.RunHalted:
		return v1alpha1.Cause{Reason: v1alpha1.ReasonHalted, Message: clip("halted: " + causeMessage(d.run.HaltCause))}
	case open != nil && !d.progressing():
		return d.openRollbackCause(open)
	case !d.in.Membership.Complete:
		return d.incompleteCause()
	case d.held != nil:
		return *d.held
	case d.progressing() && d.hindrance != nil:
		return d.besideRun(v1alpha1.Cause{Reason: d.hindrance.Reason,
			Message: fmt.Sprintf("%s of the template cannot start: %s", d.in.Current.Version, d.hindrance.Message)}, open)
	case d.progressing():
		return d.progressCause(open)
	case d.hindrance != nil && d.hindrance.Reason != v1alpha1.ReasonKnownBad:
		return *d.hindrance
	case d.hindrance != nil:
		return d.knownBadCause()
	case d.in.Current == nil:
		return v1alpha1.Cause{Reason: v1alpha1.ReasonProgressing, Message: "the template is being frozen into a revision"}
	case d.base == 0:
		return v1alpha1.Cause{Reason: v1alpha1.ReasonNoClusters, Message: "the placements select no cluster"}
	case d.isSettled(d.in.Current.Digest) && d.problemOf(d.in.Current.Digest) != nil:
		return *d.problemOf(d.in.Current.Digest)
	}
	return v1alpha1.Cause{}
}

// incompleteCause says why the placement decisions are not complete.
func (d *decision) incompleteCause() v1alpha1.Cause {
	if cause := d.in.Membership.Cause; cause.Reason != "" {
		return cause
	}
	return v1alpha1.Cause{Reason: v1alpha1.ReasonDecisionsIncomplete, Message: "the placement decisions could not be read completely"}
}

func (d *decision) openRollbackCause(r *v1alpha1.RollbackRecord) v1alpha1.Cause {
	if r.Result == v1alpha1.RollbackIncomplete {
		return v1alpha1.Cause{Reason: v1alpha1.ReasonRollbackIncomplete,
			Message: clip(fmt.Sprintf("rollback %d to %s is incomplete, %d of %s restored; the rest are named in status.problems. Why it began: %s", r.ID, r.To.Version, r.Restored, clusters(int(r.Clusters)), r.Cause.Message))}
	}
	return v1alpha1.Cause{Reason: v1alpha1.ReasonRollingBack,
		Message: clip(fmt.Sprintf("rolling back to %s, %d of %s restored: %s", r.To.Version, r.Restored, clusters(int(r.Clusters)), r.Cause.Message))}
}

// lostStable says why the stable revision could not be put back; nil if it can.
func (d *decision) lostStable() *v1alpha1.Cause {
	if d.stable == nil || d.in.Deleting {
		return nil
	}
	return d.problemOf(d.stable.Digest)
}

// withLostStable adds to what is in the way that there is nothing to roll back
// to. If nothing else is in the way, that is: joining clusters and the next
// rollback need it.
func (d *decision) withLostStable(cause v1alpha1.Cause) v1alpha1.Cause {
	lost := d.lostStable()
	switch {
	case lost == nil || strings.Contains(cause.Message, lost.Message):
		return cause
	case cause.Reason == "":
		return *lost
	}
	return v1alpha1.Cause{Reason: cause.Reason, Message: both(cause.Message, "besides, the stable revision cannot be put back: "+lost.Message)}
}

// both are two messages in one, of which neither hides the other.
func both(first, second string) string {
	const room = 400 // of a message's bytes, for the second
	if len(first) > v1alpha1.MaxMessageLength-room {
		first = strings.ToValidUTF8(first[:v1alpha1.MaxMessageLength-room], "") + "…"
	}
	return clip(first + "; " + second)
}

// besideRun is a cause that keeps the template from taking the place of the going
// run, with what that does meanwhile.
func (d *decision) besideRun(cause v1alpha1.Cause, open *v1alpha1.RollbackRecord) v1alpha1.Cause {
	if d.progressing() {
		cause.Message = both(cause.Message, "meanwhile "+d.progressCause(open).Message)
	}
	return cause
}

// progressCause says where a going run is, and first of all what it waits for.
func (d *decision) progressCause(open *v1alpha1.RollbackRecord) v1alpha1.Cause {
	reason, what := v1alpha1.ReasonProgressing, ""
	if len(d.waiting) > 0 {
		reason, what = d.waiting[0].Reason, ": "+d.waiting[0].Message
		if d.waiting[0].Cluster != "" {
			what = fmt.Sprintf(": cluster %q: %s", d.waiting[0].Cluster, d.waiting[0].Message)
		}
	}
	where := "before its first step"
	switch {
	case d.run.Group != "":
		where = fmt.Sprintf("group %q, step %d", d.run.Group, d.run.Step)
	case d.walked():
		where = "all groups written"
	}
	if open != nil {
		what += fmt.Sprintf(" (rollback %d of %s goes on beside it)", open.ID, clusters(int(open.Clusters)))
	}
	return v1alpha1.Cause{Reason: reason, Message: clip(fmt.Sprintf("run %d of %s, %s%s", d.run.Number, d.run.Revision.Version, where, what))}
}

// knownBadCause explains why the template's revision is not tried: as the end
// of a rollback, as a failure with nothing to go back to, or as it is.
func (d *decision) knownBadCause() v1alpha1.Cause {
	isLast := d.run != nil && d.run.Phase == v1alpha1.RunFailed && d.run.Revision.Digest == d.in.Current.Digest
	if !isLast {
		return d.leftCauseInWords()
	}
	because := causeMessage(d.run.HaltCause)
	ordered := d.run.HaltCause != nil && (d.run.HaltCause.Reason == v1alpha1.ReasonAborted || d.run.HaltCause.Reason == v1alpha1.ReasonRollbackRequested)
	if d.rollbackTarget() == nil && (ordered || d.in.Rollback.ModeOrDefault() == v1alpha1.RollbackAutomatic) {
		target := d.noTarget()
		return v1alpha1.Cause{Reason: target.Reason, Message: clip(target.Message + "; because: " + because)}
	}
	for i := len(d.rollbacks) - 1; i >= 0; i-- {
		if r := &d.rollbacks[i]; r.Run == d.run.Number && r.Result == v1alpha1.RollbackComplete {
			return v1alpha1.Cause{Reason: v1alpha1.ReasonRolledBack,
				Message: clip(fmt.Sprintf("%s failed and %s went back to %s: %s. %s", d.run.Revision.Version, clusters(int(r.Clusters)), r.To.Version, because, d.waysToTryAgain(d.in.Current)))}
		}
	}
	if d.run.HaltCause != nil {
		return v1alpha1.Cause{Reason: d.run.HaltCause.Reason, Message: clip(because + "; " + d.hindrance.Message)}
	}
	return *d.hindrance
}

// leftCauseInWords explains why the template's revision is not tried although
// the last run was of another one, or succeeded: it failed earlier, or a person
// has rolled the fleet back from it.
func (d *decision) leftCauseInWords() v1alpha1.Cause {
	for i := len(d.rollbacks) - 1; i >= 0; i-- {
		r := &d.rollbacks[i]
		leaves := slices.ContainsFunc(r.From, func(from v1alpha1.RevisionReference) bool { return from.Digest == d.in.Current.Digest })
		if r.Trigger == v1alpha1.TriggerRequested && r.Result == v1alpha1.RollbackComplete && leaves {
			return v1alpha1.Cause{Reason: v1alpha1.ReasonRolledBack, Message: clip(r.Cause.Message + "; " + d.hindrance.Message)}
		}
	}
	return *d.hindrance
}

// notReady says which clusters are not as they shall be; nil if all are.
func (d *decision) notReady(judgements []Judgement) *v1alpha1.Cause {
	var names nameList
	for i := range judgements {
		j := &judgements[i]
		if !j.Member || (j.Healthy && d.members[i].holds(d.in.Current.Digest) && j.Cause == nil) {
			continue
		}
		name := j.Cluster + " (" + string(j.State) + ")"
		if j.Cause != nil {
			name = j.Cluster + " (" + j.Cause.Reason + ")"
		}
		names.add(name)
	}
	if names.count == 0 {
		return nil
	}
	return &v1alpha1.Cause{
		Reason:  v1alpha1.ReasonClustersNotReady,
		Message: clip(fmt.Sprintf("%d of %s are not healthy on %s: %s", names.count, clusters(d.base), d.in.Current.Version, names.String())),
	}
}

func (d *decision) readyCause() v1alpha1.Cause {
	if d.run != nil && d.run.Phase != v1alpha1.RunSucceeded {
		return v1alpha1.Cause{Reason: v1alpha1.ReasonReverted,
			Message: fmt.Sprintf("the template was set back to the stable revision %s, and %s healthy on it", d.in.Current.Version, allClusters(d.base))}
	}
	return v1alpha1.Cause{Reason: v1alpha1.ReasonSucceeded,
		Message: fmt.Sprintf("%s healthy on %s", allClusters(d.base), d.in.Current.Version)}
}

// waitsForAPerson are the reasons of waiting that only a person ends.
var waitsForAPerson = []string{v1alpha1.ReasonShareReached, v1alpha1.ReasonWaitingForApproval, v1alpha1.ReasonRejected}

// stalled says what nobody but a person ends; nil if there is no such thing.
func (d *decision) stalled() *v1alpha1.Cause {
	var cause v1alpha1.Cause
	switch {
	case d.in.Deleting:
		return nil
	case d.run != nil && d.run.Phase == v1alpha1.RunHalted:
		cause = v1alpha1.Cause{Reason: v1alpha1.ReasonHalted, Message: clip("halted: " + causeMessage(d.run.HaltCause))}
	case d.progressing():
		if len(d.waiting) == 0 || !slices.Contains(waitsForAPerson, d.waiting[0].Reason) {
			return nil
		}
		cause = v1alpha1.Cause{Reason: d.waiting[0].Reason, Message: d.waiting[0].Message}
	case d.openRollbackRecord() != nil:
		return nil
	case d.in.InvalidSpec != nil:
		cause = *d.in.InvalidSpec
	case d.hindrance != nil && d.hindrance.Reason == v1alpha1.ReasonKnownBad:
		cause = d.knownBadCause()
		if cause.Reason != v1alpha1.ReasonNoRollbackTarget && cause.Reason != v1alpha1.ReasonNoClusterProven {
			cause = *d.hindrance
		}
	case d.hindrance != nil:
		cause = *d.hindrance
	default:
		return d.lostStable()
	}
	return &cause
}

// rolledBack is the newest rollback record, unless a later run succeeded.
func (d *decision) rolledBack() *v1alpha1.RollbackRecord {
	if len(d.rollbacks) == 0 {
		return nil
	}
	r := d.rollbacks[len(d.rollbacks)-1]
	if r.FinishedAt != nil && d.run != nil && d.run.Phase == v1alpha1.RunSucceeded && d.run.Number > r.Run {
		return nil
	}
	return &r
}

func causeMessage(c *v1alpha1.Cause) string {
	if c == nil {
		return ""
	}
	return c.Message
}
