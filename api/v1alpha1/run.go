package v1alpha1

import "time"

// Unwatched returns how much of a time in which no manager was watching is still
// to be added to the run's paused time: what lies within the run, has not been
// added before, and is not paused anyhow. It is 0 once the run has ended.
func (r *Run) Unwatched(from, until time.Time) time.Duration {
	if r == nil || r.EndedAt != nil || from.IsZero() {
		return 0
	}
	if r.StartedAt.After(from) {
		from = r.StartedAt.Time
	}
	if r.UnwatchedUntil != nil && r.UnwatchedUntil.After(from) {
		from = r.UnwatchedUntil.Time
	}
	if r.PausedAt != nil && r.PausedAt.Time.Before(until) {
		until = r.PausedAt.Time
	}
	return max(0, until.Sub(from))
}
