package rollout

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// isPaused tells that the spec, or the last order of a person about the going
// run, stops joins and forward writes.
func (d *decision) isPaused() bool {
	return d.in.Paused || d.pauseOrder() != nil
}

func (d *decision) pauseOrder() *v1alpha1.Order {
	if !d.going() {
		return nil
	}
	return d.run.PauseOrder
}

func (d *decision) pause(a *Action) ruling {
	switch {
	case !d.going():
		return noEffect("%s has ended (%s) and nothing is running; to keep joining clusters from being written, set spec.paused", d.runInWords(), d.run.Phase)
	case d.run.PauseOrder != nil:
		return noEffect("%s paused the run already, with action %s", d.run.PauseOrder.Actor, d.run.PauseOrder.Action)
	}
	order := d.order(a)
	d.run.PauseOrder = &order
	return took("no joins, no forward writes, and no step is left until somebody resumes the run; automatic rollback stays armed")
}

func (d *decision) resume() ruling {
	ended := d.pauseOrder()
	if d.going() {
		d.run.PauseOrder = nil
	}
	switch {
	case d.in.Paused && ended != nil:
		return took("the Pause of %s is ended, and the rollout stays paused because spec.paused is set; unset it", ended.Actor)
	case d.in.Paused:
		return noEffect("spec.paused is set, which Resume does not override; unset it")
	case ended == nil:
		return noEffect("the run is not paused")
	}
	return took("the Pause of %s is ended", ended.Actor)
}

// keepPauseClock notes since when the run is paused, and how long it was.
func (d *decision) keepPauseClock() {
	if !d.going() {
		return
	}
	switch {
	case d.isPaused() && d.run.PausedAt == nil:
		d.run.PausedAt = d.stampPointer()
		d.note(EventRunPaused, fmt.Sprintf("%s is paused: no joins and no forward writes; automatic rollback stays armed", d.runInWords()))
	case !d.isPaused() && d.run.PausedAt != nil:
		d.resumeClock()
		d.note(EventRunResumed, fmt.Sprintf("%s goes on", d.runInWords()))
	}
}

// creditUnwatched adds the time in which no manager was watching to the time in
// which the run was paused, once: deadlines leave both out.
func (d *decision) creditUnwatched() {
	if !d.going() {
		return
	}
	until := d.in.UnwatchedUntil.Truncate(time.Microsecond)
	if !until.After(later(d.run.StartedAt.Time, timeOf(d.run.UnwatchedUntil))) {
		return
	}
	// It is noted also where it lies in a pause, or it would be added once that ends.
	d.run.PausedMilliseconds += d.run.Unwatched(d.in.UnwatchedFrom, until).Milliseconds()
	d.run.UnwatchedUntil = &metav1.MicroTime{Time: until}
}

func (d *decision) resumeClock() {
	if d.run.PausedAt == nil {
		return
	}
	d.run.PausedMilliseconds = int64(d.paused(d.now) / time.Millisecond)
	d.run.PausedAt = nil
}

// paused is how long the run has been paused until the given moment.
func (d *decision) paused(at time.Time) time.Duration {
	if d.run == nil {
		return 0
	}
	sum := milliseconds(d.run.PausedMilliseconds)
	if d.run.PausedAt != nil && at.After(d.run.PausedAt.Time) {
		sum += at.Sub(d.run.PausedAt.Time)
	}
	return sum
}

// waitForResume says who ends the pause, and how.
func (d *decision) waitForResume() {
	w := v1alpha1.Waiting{Reason: v1alpha1.ReasonPaused, Since: d.run.PausedAt}
	order := d.pauseOrder()
	switch {
	case order != nil && d.in.Paused:
		w.Message = fmt.Sprintf("paused by spec.paused and by %s%s: no joins, no forward writes, and no step is left until spec.paused is unset and somebody resumes the run: %s", order.Actor, because(order.Reason), d.hint(v1alpha1.VerbResume, ""))
	case order != nil:
		w.Message = fmt.Sprintf("paused by %s%s: no joins, no forward writes, and no step is left until somebody resumes the run: %s", order.Actor, because(order.Reason), d.hint(v1alpha1.VerbResume, ""))
	default:
		w.Message = "spec.paused is set: no joins, no forward writes, and no step is left until it is unset"
	}
	d.waitFor(w)
}
