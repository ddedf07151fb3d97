package rollout

import "time"

// Next decides what to do with a rollout at this moment. It always returns a
// plan; whatever is in the way is named in the plan's Outcome, WaitingFor and
// Judgements. The snapshot is not changed.
func Next(snapshot Snapshot, now time.Time) Plan {
	d := newDecision(&snapshot, now)
	d.muster()
	if snapshot.Deleting {
		d.obeyActions()
		d.removeEverything()
		d.survey()
		return d.conclude()
	}
	d.findAbsences()
	d.creditUnwatched()
	d.supersedeRun()
	d.startRun()
	d.obeyActions()
	d.keepPauseClock()
	d.leaveClusters()
	d.survey()
	d.countFailures()
	d.spendBudget()
	d.walk()
	d.openRevert()
	d.rollBack()
	d.deliverStable()
	return d.conclude()
}
