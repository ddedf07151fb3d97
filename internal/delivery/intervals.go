package delivery

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// intervals opens and closes the times in which a cluster is lost or unhealthy,
// and adds them up within a step, so that flapping is not progress (law 7).
type intervals struct {
	status *v1alpha1.RolloutDeliveryStatus
	run    RunClock
	now    time.Time
}

// lose opens the lost interval, unless it is open.
func (i intervals) lose() {
	if i.status.LostSince != nil {
		return
	}
	i.enterStep()
	i.status.LostSince = stamp(i.now)
	i.status.Clock.PausedAtLossMilliseconds = i.run.pausedMilliseconds(i.now)
}

// find closes the lost interval. Paused time is left out of it.
func (i intervals) find() {
	if i.status.LostSince == nil {
		return
	}
	i.enterStep()
	clock := &i.status.Clock
	lost := i.status.LostSince.Time
	paused := max(0, i.run.pausedMilliseconds(i.now)-clock.PausedAtLossMilliseconds)
	clock.LostMilliseconds += max(0, i.sinceWithin(lost, clock.StepStartedAt)-paused)
	if i.status.WrittenAt != nil {
		clock.LostSinceWriteMilliseconds += max(0, i.sinceWithin(lost, i.status.WrittenAt)-paused)
	}
	clock.PausedAtLossMilliseconds = 0
	i.status.LostSince = nil
}

// sicken opens the unhealthy interval, unless it is open.
func (i intervals) sicken() {
	if i.status.UnhealthySince != nil {
		return
	}
	i.enterStep()
	i.status.UnhealthySince = stamp(i.now)
}

// recover closes the unhealthy interval. Paused time is part of it: workloads
// suffer whether or not the run is paused. A time in which nobody watched is not:
// the cluster may have recovered in its first second.
func (i intervals) recover() {
	if i.status.UnhealthySince == nil {
		return
	}
	i.enterStep()
	clock := &i.status.Clock
	unhealthy := i.status.UnhealthySince.Time
	if step := clock.StepStartedAt; step != nil && step.After(unhealthy) {
		unhealthy = step.Time
	}
	unwatched := i.run.unwatchedSince(unhealthy, i.now)
	clock.UnhealthyMilliseconds += max(0, (i.now.Sub(unhealthy) - unwatched).Milliseconds())
	i.status.UnhealthySince = nil
}

// suspend opens the suspended interval, unless it is open.
func (i intervals) suspend() {
	if i.status.Clock.SuspendedSince != nil {
		return
	}
	i.enterStep()
	i.status.Clock.SuspendedSince = stamp(i.now)
	i.status.Clock.PausedAtSuspensionMilliseconds = i.run.pausedMilliseconds(i.now)
}

// resume closes the suspended interval. Paused time is left out of it, because
// deadlines leave that out anyhow.
func (i intervals) resume() {
	clock := &i.status.Clock
	if clock.SuspendedSince == nil {
		return
	}
	i.enterStep()
	paused := max(0, i.run.pausedMilliseconds(i.now)-clock.PausedAtSuspensionMilliseconds)
	clock.SuspendedMilliseconds += max(0, i.sinceWithin(clock.SuspendedSince.Time, i.status.WrittenAt)-paused)
	clock.SuspendedSince, clock.PausedAtSuspensionMilliseconds = nil, 0
}

// enterStep lets the sums start anew where they belong to an earlier step, and
// the readings of paused time where they belong to an earlier run.
func (i intervals) enterStep() {
	clock := &i.status.Clock
	if clock.Run != i.run.Number {
		*clock = v1alpha1.DeliveryClock{
			Run:                        i.run.Number,
			LostSinceWriteMilliseconds: clock.LostSinceWriteMilliseconds,
			SuspendedSince:             clock.SuspendedSince,
			SuspendedMilliseconds:      clock.SuspendedMilliseconds,
		}
	}
	started := i.run.StepStartedAt
	if started == nil || (clock.StepStartedAt != nil && !started.After(clock.StepStartedAt.Time)) {
		return
	}
	clock.StepStartedAt = started.DeepCopy()
	clock.UnhealthyMilliseconds, clock.LostMilliseconds = 0, 0
}

// sinceWithin is how many milliseconds have passed since a moment, of those
// after bound; a nil bound does not bind.
func (i intervals) sinceWithin(since time.Time, bound *metav1.MicroTime) int64 {
	if bound != nil && bound.After(since) {
		since = bound.Time
	}
	return max(0, i.now.Sub(since).Milliseconds())
}

// stamp is a time as status holds it: the API keeps microseconds.
func stamp(at time.Time) *metav1.MicroTime {
	t := metav1.NewMicroTime(at.Truncate(time.Microsecond))
	return &t
}
