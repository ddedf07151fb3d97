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
}

// ClockOf returns the clock of a run; nil is no run.
func ClockOf(run *v1alpha1.Run) RunClock {
	if run == nil {
		return RunClock{}
	}
	return RunClock{
		Number:             run.Number,
		StepStartedAt:      run.StepStartedAt,
		PausedAt:           run.PausedAt,
		PausedMilliseconds: run.PausedMilliseconds,
	}
}

// pausedMilliseconds is how long the run had been paused in all at a moment.
func (c RunClock) pausedMilliseconds(at time.Time) int64 {
	paused := c.PausedMilliseconds
	if c.PausedAt != nil && at.After(c.PausedAt.Time) {
		paused += at.Sub(c.PausedAt.Time).Milliseconds()
	}
	return paused
}
