package v1alpha1

import "time"

// catchUp is how long a manager that comes back needs at most to see what it
// missed: its caches fill, and agents report again. After a shorter absence it is
// as long as that was, so that one that is restarted over and over extends no
// deadline for ever.
const catchUp = time.Minute

// Unwatched returns how much of a time in which no manager was watching is still
// to be added to the run's paused time: what lies within the run, has not been
// added before, and is not paused anyhow; and as much again for catching up, at most
// a minute. It is 0 once the run has ended.
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
	away := max(0, until.Sub(from))
	return away + min(away, catchUp)
}
