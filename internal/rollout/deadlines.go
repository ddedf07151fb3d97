package rollout

import (
	"fmt"
	"time"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// countFailures judges every admitted cluster by law 7 and records who counts
// as failed from now on. A failure recorded on the delivery never heals.
func (d *decision) countFailures() {
	for i := range d.groups {
		g := &d.groups[i]
		for _, m := range g.members {
			if !m.admitted {
				continue
			}
			m.failure = m.spec.Failure
			switch {
			case m.failure == nil && d.going():
				m.failure = d.failureOf(m)
			case !d.going() && m.proven:
				m.failure = nil // What happened in a run that ended is over.
			}
			if m.failure != nil {
				g.failed++
				d.failed++
			}
			if m.failure != nil || m.proven {
				g.evidence++
			}
		}
	}
	d.tellFailures()
}

// failureOf says why an admitted cluster counts as failed now; nil if it does
// not. It wakes the planner when time alone would change that.
func (d *decision) failureOf(m *member) *v1alpha1.Cause {
	s := m.status
	switch {
	case !m.fresh:
		return nil // Every time in the status is about an earlier intent.
	case s.FailedAt != nil:
		return terminalFailure(m)
	case m.excused, m.blocked != nil, m.suspended():
		return nil
	}
	if s.ProvenAt == nil {
		if cause := d.writeDeadline(m); cause != nil {
			return cause
		}
	} else if cause := d.lateProof(m); cause != nil {
		return cause
	} else if cause := d.unhealthyDeadline(m); cause != nil {
		return cause
	}
	return d.lossDeadline(m)
}

func terminalFailure(m *member) *v1alpha1.Cause {
	if m.status.Failure != nil {
		return m.status.Failure
	}
	return &v1alpha1.Cause{
		Reason:  string(v1alpha1.HealthFailed),
		Message: clip(fmt.Sprintf("the agent reports that %s failed on cluster %q and will not recover by itself: %s", m.spec.Revision.Version, m.Name, m.status.Message)),
	}
}

// deadlineOrigin is where the progress deadline starts: the write, or the
// first return of a cluster that was unreachable then; with how long the run
// had been paused at that moment.
func (d *decision) deadlineOrigin(m *member) (time.Time, time.Duration) {
	at, pausedThen := m.status.WrittenAt, m.status.Clock.PausedAtWriteMilliseconds
	if m.spec.UnreachableAtWrite {
		at, pausedThen = m.status.ReturnedAt, m.status.Clock.PausedAtReturnMilliseconds
	}
	if m.status.Clock.Run != d.run.Number {
		pausedThen = 0
	}
	return timeOf(at), milliseconds(pausedThen)
}

// uncounted is the time since the write that its deadline leaves out, beside
// pauses: while the cluster was lost, which has a deadline of its own, and while
// its content was suspended, which has none.
func uncounted(m *member) time.Duration {
	return milliseconds(m.status.Clock.LostSinceWriteMilliseconds + m.status.Clock.SuspendedMilliseconds)
}

// writeDeadline: not proven in time since the write. While the cluster is lost
// this clock stands still, because a loss has a deadline of its own.
func (d *decision) writeDeadline(m *member) *v1alpha1.Cause {
	origin, pausedThen := d.deadlineOrigin(m)
	if origin.IsZero() {
		return nil
	}
	limit := d.in.Strategy.ProgressDeadline()
	until, pausedNow := d.now, d.paused(d.now)
	if m.status.LostSince != nil {
		until, pausedNow = m.status.LostSince.Time, milliseconds(m.status.Clock.PausedAtLossMilliseconds)
	}
	spent := until.Sub(origin) - (pausedNow - pausedThen) - uncounted(m)
	if spent >= limit {
		return &v1alpha1.Cause{
			Reason:  v1alpha1.ReasonDeadlineExceeded,
			Message: clip(fmt.Sprintf("not proven healthy on %s within progressDeadlineSeconds (%s) of its write; last state %s", m.spec.Revision.Version, limit, stateInWords(m.status))),
		}
	}
	if m.status.LostSince == nil && d.run.PausedAt == nil {
		d.wake(d.now.Add(limit - spent))
	}
	return nil
}

// lateProof: first proven after the write's deadline, which nobody saw pass.
// How long the run was paused at that moment is not recorded, so all paused
// time is in its favour.
func (d *decision) lateProof(m *member) *v1alpha1.Cause {
	origin, pausedThen := d.deadlineOrigin(m)
	if origin.IsZero() {
		return nil
	}
	limit := d.in.Strategy.ProgressDeadline()
	spent := m.status.ProvenAt.Sub(origin) - (d.paused(d.now) - pausedThen) - uncounted(m)
	if spent <= limit {
		return nil
	}
	return &v1alpha1.Cause{
		Reason:  v1alpha1.ReasonDeadlineExceeded,
		Message: clip(fmt.Sprintf("proven healthy on %s only after progressDeadlineSeconds (%s) had passed; a deadline is never extended", m.spec.Revision.Version, limit)),
	}
}

// unhealthyDeadline: proven before, and unhealthy too long within the step.
// Paused time counts: nothing about a pause makes a cluster healthy.
func (d *decision) unhealthyDeadline(m *member) *v1alpha1.Cause {
	limit := d.in.Rollback.Unhealthy()
	spent := d.sum(m, m.status.Clock.UnhealthyMilliseconds)
	open := m.status.UnhealthySince
	if open != nil {
		spent += d.now.Sub(d.withinStep(open.Time))
	}
	if (open != nil || spent > 0) && spent >= limit {
		return &v1alpha1.Cause{
			Reason:  v1alpha1.ReasonUnhealthyTooLong,
			Message: clip(fmt.Sprintf("was proven on %s and has been unhealthy for longer than rollback.unhealthySeconds (%s) of this step; last state %s", m.spec.Revision.Version, limit, stateInWords(m.status))),
		}
	}
	if open != nil {
		d.wake(d.now.Add(limit - spent))
	}
	return nil
}

// lossDeadline: lost too long within the step, after the cluster took the
// run's revision (law 16).
func (d *decision) lossDeadline(m *member) *v1alpha1.Cause {
	limit := d.in.Strategy.ProgressDeadline()
	spent := d.sum(m, m.status.Clock.LostMilliseconds)
	open := m.status.LostSince
	if open != nil {
		pausedThen := time.Duration(0)
		if m.status.Clock.Run == d.run.Number {
			pausedThen = milliseconds(m.status.Clock.PausedAtLossMilliseconds)
		}
		spent += max(0, d.now.Sub(d.withinStep(open.Time))-(d.paused(d.now)-pausedThen))
	}
	if spent >= limit {
		return &v1alpha1.Cause{
			Reason:  v1alpha1.ReasonLostTooLong,
			Message: clip(fmt.Sprintf("lost for longer than progressDeadlineSeconds (%s) while %s was being rolled out: %s", limit, m.spec.Revision.Version, stateInWords(m.status))),
		}
	}
	if open != nil && d.run.PausedAt == nil {
		d.wake(d.now.Add(limit - spent))
	}
	return nil
}

// sum is a sum of the delivery's clock, if it belongs to the step being walked.
func (d *decision) sum(m *member, n int64) time.Duration {
	c := &m.status.Clock
	if c.Run != d.run.Number || c.StepStartedAt == nil || d.run.StepStartedAt == nil || !c.StepStartedAt.Time.Equal(d.run.StepStartedAt.Time) {
		return 0
	}
	return milliseconds(n)
}

// withinStep cuts an open interval to what lies in the step being walked.
func (d *decision) withinStep(since time.Time) time.Time {
	return later(since, timeOf(d.run.StepStartedAt))
}

func stateInWords(s *v1alpha1.RolloutDeliveryStatus) string {
	if s.Message == "" {
		return string(s.State)
	}
	return fmt.Sprintf("%s: %s", s.State, s.Message)
}
