package rollout

import (
	"fmt"
	"slices"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// The actors of rollbacks that nobody ordered in person: spec.rollback, and
// whoever set the template back, who is not known here.
const (
	actorPolicy   = "policy"
	actorTemplate = "template"
)

// departure is a decision to go back.
type departure struct {
	to      v1alpha1.RevisionReference
	trigger v1alpha1.RollbackTrigger
	cause   v1alpha1.Cause
	// action that ordered it; nil where no person did.
	action *Action
}

// openRollback carries out a decision to go back: it opens a record for every
// cluster that the given-up run, or an earlier one, left on another revision
// than the target (law 11). Without such a cluster there is nothing to record,
// unless the target shall become the stable revision.
func (d *decision) openRollback(why departure) {
	to := why.to
	record := v1alpha1.RollbackRecord{
		ID:        1,
		To:        to,
		Run:       d.run.Number,
		Trigger:   why.trigger,
		Actor:     actorPolicy,
		Cause:     why.cause,
		Scope:     v1alpha1.RollbackScopeAll,
		StartedAt: d.stamp(),
		Result:    v1alpha1.RollbackInProgress,
	}
	switch {
	case why.action != nil:
		record.Actor, record.Action = why.action.Spec.Actor, why.action.Name
	case why.trigger == v1alpha1.TriggerReverted:
		record.Actor = actorTemplate
	}
	for i := range d.rollbacks {
		record.ID = max(record.ID, d.rollbacks[i].ID+1)
	}
	for i := range d.members {
		if d.members[i].coveredBy(&record) {
			record.Clusters++
		}
	}
	if record.Clusters == 0 && (why.trigger != v1alpha1.TriggerRequested || d.isStable(to.Digest)) {
		return
	}
	record.From = d.givenUp(to, record.Run)
	d.rollbacks = append(d.rollbacks, record)
	d.trimRollbacks()
	d.warn(EventRollbackStarted, fmt.Sprintf("rollback %d takes %s back to %s (%s)", record.ID, clusters(int(record.Clusters)), to.Version, why.cause.Reason))
}

// openRevert opens the rollback of a run that ended because the template no
// longer wants it and wants nothing new either.
func (d *decision) openRevert() {
	if d.reverted == nil {
		return
	}
	if target := d.rollbackTarget(); target != nil {
		d.openRollback(departure{to: *target, trigger: v1alpha1.TriggerReverted, cause: *d.reverted})
	}
}

// givenUp lists the revisions that a rollback leaves: what the clusters hold of
// the run and of earlier ones, newest first, at most 10.
func (d *decision) givenUp(to v1alpha1.RevisionReference, run int64) []v1alpha1.RevisionReference {
	from := []v1alpha1.RevisionReference{}
	seen := map[string]bool{to.Digest: true}
	add := func(r v1alpha1.RevisionReference) {
		if !seen[r.Digest] {
			seen[r.Digest] = true
			from = append(from, r)
		}
	}
	if d.run.Number == run {
		add(d.run.Revision)
	}
	for i := range d.members {
		if m := &d.members[i]; m.hasWork() && m.spec.Run <= run {
			add(m.spec.Revision)
		}
	}
	slices.SortStableFunc(from, func(a, b v1alpha1.RevisionReference) int { return int(b.Number - a.Number) })
	return from[:min(len(from), 10)]
}

// trimRollbacks keeps the newest records. An open one is trimmed only if all
// are open; its clusters already have the target as their intent, or are
// covered by the newest record.
func (d *decision) trimRollbacks() {
	for len(d.rollbacks) > v1alpha1.MaxRollbackRecords {
		oldest := slices.IndexFunc(d.rollbacks, func(r v1alpha1.RollbackRecord) bool { return r.FinishedAt != nil })
		d.rollbacks = slices.Delete(d.rollbacks, max(oldest, 0), max(oldest, 0)+1)
	}
}

// coveredBy tells that a record decides what the cluster shall have: it was
// written by the given-up run or an earlier one and is not on the target, or
// the record wrote it and its proof is still missing.
func (m *member) coveredBy(r *v1alpha1.RollbackRecord) bool {
	return m.belongs && m.hasWork() && !m.planned && (m.writtenBy(r) || m.leftBehind(r))
}

func (m *member) writtenBy(r *v1alpha1.RollbackRecord) bool {
	return m.spec.Direction == v1alpha1.DirectionRollback && m.spec.Rollback == r.ID
}

func (m *member) leftBehind(r *v1alpha1.RollbackRecord) bool {
	return m.spec.Run <= r.Run && m.spec.Revision.Digest != r.To.Digest
}

// rollBack carries the open records on: newest first, so that a cluster that
// two of them cover goes where the newest one says. Once a newer run has
// succeeded, or a person has ordered another target, what is left of them
// follows that instead.
func (d *decision) rollBack() {
	d.goingBack = d.countGoingBack()
	for i := len(d.rollbacks) - 1; i >= 0; i-- {
		switch r := &d.rollbacks[i]; {
		case r.FinishedAt != nil:
		case d.isOvertaken(r):
			d.supersedeRollback(r)
		default:
			d.carryOn(i)
		}
	}
}

// isOvertaken tells that the target of a record is no longer what the fleet
// falls back to.
func (d *decision) isOvertaken(r *v1alpha1.RollbackRecord) bool {
	succeeded := d.run != nil && d.run.Number > r.Run && d.run.Phase == v1alpha1.RunSucceeded
	goal := d.goal()
	return succeeded || goal == nil || goal.Digest != r.To.Digest
}

func (d *decision) supersedeRollback(r *v1alpha1.RollbackRecord) {
	r.FinishedAt = d.stampPointer()
	r.Result = v1alpha1.RollbackSuperseded
	d.note(EventRollbackSuperseded, fmt.Sprintf("rollback %d ended with %d of %s restored: a newer run or rollback took over what was left", r.ID, r.Restored, clusters(int(r.Clusters))))
}

// countGoingBack counts the clusters that any open record has written back and
// that are within their time: they share the places of rollback.maxConcurrent.
func (d *decision) countGoingBack() int {
	n := 0
	for i := range d.members {
		m := &d.members[i]
		for r := range d.rollbacks {
			if d.rollbacks[r].FinishedAt == nil && m.coveredBy(&d.rollbacks[r]) && m.writtenBy(&d.rollbacks[r]) && !m.wasProven() && d.lateness(m) == nil {
				n++
			}
		}
	}
	return n
}

// carryOn writes the next clusters of a record and says how it stands. No
// gate, soak or pause holds it; a cluster past its verification timeout is
// named and the next goes.
func (d *decision) carryOn(index int) {
	r := &d.rollbacks[index]
	var next []*member
	restored, changing, stuck := int32(0), 0, 0
	for i := range d.members {
		m := &d.members[i]
		if m.record >= 0 || !m.coveredBy(r) {
			continue
		}
		if !m.writtenBy(r) {
			m.record = index
			next = append(next, m)
			continue
		}
		if m.wasProven() {
			restored++
			continue
		}
		m.record = index
		if m.late = d.lateness(m); m.late != nil {
			stuck++
		} else {
			changing++
		}
	}
	changing, stuck = d.writeBack(r, next, changing, stuck)
	r.Restored = max(r.Restored, restored)
	d.report(r, changing, stuck)
}

// writeBack writes the record's target to the next clusters, as far as
// rollback.maxConcurrent of the covered ones allows. It returns how many
// change or wait for a place, and how many cannot go on by themselves.
func (d *decision) writeBack(r *v1alpha1.RollbackRecord, next []*member, changing, stuck int) (int, int) {
	sortByTurn(next, r.To.Digest)
	places := concurrency(d.in.Rollback.MaxConcurrentOrDefault(), int(r.Clusters)) - d.goingBack
	problem := d.problemOf(r.To.Digest)
	for _, m := range next {
		if m.late = d.cannotGoBack(m, problem); m.late != nil {
			stuck++
			continue
		}
		if places <= 0 && !m.unreachable {
			changing++
			continue
		}
		d.write(m, intent{
			revision:  r.To,
			direction: v1alpha1.DirectionRollback,
			group:     d.groups[m.group].Name,
			rollback:  r.ID,
			fastLease: d.in.Rollback.Verification.Timeout(),
		}, v1alpha1.Cause{
			Reason:  v1alpha1.ReasonRollingBack,
			Message: fmt.Sprintf("rollback %d to %s", r.ID, r.To.Version),
		})
		if m.unreachable {
			m.late = unreachableCause(m)
			stuck++
			continue
		}
		places--
		d.goingBack++
		changing++
	}
	return changing, stuck
}

func (d *decision) cannotGoBack(m *member, problem *v1alpha1.Cause) *v1alpha1.Cause {
	if problem != nil {
		return problem
	}
	return m.Blocked
}

// report states the result. Incomplete stays until everything is proven, so
// that a cluster that comes and goes does not make it flap.
func (d *decision) report(r *v1alpha1.RollbackRecord, changing, stuck int) {
	switch {
	case changing+stuck == 0 && d.isUndecided(r):
	case changing+stuck == 0:
		if r.Trigger != v1alpha1.TriggerRequested && r.Restored < r.Clusters && d.run != nil && d.run.Number > r.Run {
			d.supersedeRollback(r)
			return
		}
		r.FinishedAt = d.stampPointer()
		r.Result = v1alpha1.RollbackComplete
		d.note(EventRollbackComplete, fmt.Sprintf("rollback %d is complete: %s proved %s", r.ID, clusters(int(r.Restored)), r.To.Version))
		d.settle(r)
	case changing == 0 && r.Result != v1alpha1.RollbackIncomplete:
		r.Result = v1alpha1.RollbackIncomplete
		d.warn(EventRollbackIncomplete, fmt.Sprintf("rollback %d is incomplete: %s did not prove %s in time or cannot be reached; they are named in status.problems", r.ID, clusters(stuck), r.To.Version))
	}
}

// isUndecided tells that a rollback which a person ordered has nothing left to
// do and is not complete: a newer run has taken clusters from it and still goes
// on, or a newer rollback brings them back to the same target. Until that ends,
// the fleet still falls back to what the person named.
func (d *decision) isUndecided(r *v1alpha1.RollbackRecord) bool {
	if r.Trigger != v1alpha1.TriggerRequested {
		return false
	}
	if d.going() && d.run.Number > r.Run && r.Restored < r.Clusters {
		return true
	}
	return slices.ContainsFunc(d.rollbacks, func(newer v1alpha1.RollbackRecord) bool {
		return newer.ID > r.ID && newer.FinishedAt == nil && newer.To.Digest == r.To.Digest
	})
}

// lateness says why a cluster that was written back is not waited for; nil
// while it is within its time. A cluster that is lost after the write keeps its
// place until that time is over.
func (d *decision) lateness(m *member) *v1alpha1.Cause {
	switch {
	case m.blocked != nil:
		return m.blocked
	case m.excused && m.unreachable:
		return unreachableCause(m)
	case !m.fresh:
		return nil
	case m.status.FailedAt != nil:
		return terminalFailure(m)
	}
	origin := timeOf(m.status.WrittenAt)
	if m.spec.UnreachableAtWrite {
		origin = timeOf(m.status.ReturnedAt)
	}
	if origin.IsZero() {
		return nil
	}
	timeout := d.in.Rollback.Verification.Timeout()
	if end := origin.Add(timeout); d.now.Before(end) {
		d.wake(end)
		return nil
	}
	if m.unreachable {
		return unreachableCause(m)
	}
	return &v1alpha1.Cause{
		Reason:  v1alpha1.ReasonRollbackIncomplete,
		Message: clip(fmt.Sprintf("did not prove the restored revision %s within rollback.verification.timeoutSeconds (%s); last state %s", m.spec.Revision.Version, timeout, stateInWords(m.status))),
	}
}

func unreachableCause(m *member) *v1alpha1.Cause {
	if m.Unreachable != nil {
		return m.Unreachable
	}
	reason, what := v1alpha1.ReasonAgentSilent, "its agent does not renew its Lease"
	if !m.Available {
		reason, what = v1alpha1.ReasonClusterUnavailable, "its ManagedCluster is not Available"
	}
	return &v1alpha1.Cause{
		Reason:  reason,
		Message: fmt.Sprintf("cluster %q cannot be reached: %s; it converges by itself when it returns. Look with: kubectl describe managedcluster %s", m.Name, what, m.Name),
	}
}

// openRollbackRecord is the newest record that is not finished; nil if none is.
func (d *decision) openRollbackRecord() *v1alpha1.RollbackRecord {
	for i := len(d.rollbacks) - 1; i >= 0; i-- {
		if d.rollbacks[i].FinishedAt == nil {
			return &d.rollbacks[i]
		}
	}
	return nil
}
