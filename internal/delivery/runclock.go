package delivery

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// RunClock is what the arithmetic of deadlines needs of the rollout's run. Its
// zero value is the clock of a rollout that has no run.
type RunClock struct {
	// Number of the run.
	Number int64
	// StepStartedAt is when the present step started; nil between runs.
	StepStartedAt *metav1.MicroTime
	// PausedAt is since when the run is paused; nil while it is not.
	PausedAt *metav1.MicroTime
	// PausedMilliseconds is how long it was paused before PausedAt.
	PausedMilliseconds int64
	// UnwatchedFrom and UnwatchedUntil are the time before this process in which
	// no manager was watching; zero if none is known.
	UnwatchedFrom, UnwatchedUntil time.Time
}

// ClockOf returns the clock of a run; nil is no run. The time in which no manager
// was watching counts as paused also before the planner has recorded it, because
// both controllers start at the same moment.
func ClockOf(run *v1alpha1.Run, unwatchedFrom, unwatchedUntil time.Time) RunClock {
	if run == nil {
		return RunClock{}
	}
	return RunClock{
		Number:             run.Number,
		StepStartedAt:      run.StepStartedAt,
		PausedAt:           run.PausedAt,
		PausedMilliseconds: run.PausedMilliseconds + run.Unwatched(unwatchedFrom, unwatchedUntil).Milliseconds(),
		UnwatchedFrom:      unwatchedFrom,
		UnwatchedUntil:     unwatchedUntil,
	}
}

// unwatchedSince is how much of the time from a moment until now nobody watched.
func (c RunClock) unwatchedSince(since, now time.Time) time.Duration {
	if c.UnwatchedFrom.IsZero() {
		return 0
	}
	from, until := c.UnwatchedFrom, c.UnwatchedUntil
	if since.After(from) {
		from = since
	}
	if now.Before(until) {
		until = now
	}
	return max(0, until.Sub(from))
}

// pausedMilliseconds is how long the run had been paused in all at a moment.
func (c RunClock) pausedMilliseconds(at time.Time) int64 {
	paused := c.PausedMilliseconds
	if c.PausedAt != nil && at.After(c.PausedAt.Time) {
		paused += at.Sub(c.PausedAt.Time).Milliseconds()
	}
	return paused
}
