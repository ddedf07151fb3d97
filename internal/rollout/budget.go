package rollout

import (
	"fmt"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// spendBudget compares the failures anywhere in the run with the budgets (law
// 8). Over budget, mode Automatic fails the run and goes back; Manual halts it
// for good.
func (d *decision) spendBudget() {
	if !d.progressing() {
		return
	}
	over := d.overBudget()
	if over == nil {
		return
	}
	if d.in.Rollback.ModeOrDefault() == v1alpha1.RollbackManual {
		d.halt(*over)
		return
	}
	d.fail(*over)
}

// overBudget says which budget is spent; nil if none is.
func (d *decision) overBudget() *v1alpha1.Cause {
	if allowed := budget(d.in.Strategy.FailureBudget, d.base); d.failed > allowed {
		return d.budgetSpent(fmt.Sprintf("spec.strategy.failureBudget allows %d of %d", allowed, d.base), d.failed, nil)
	}
	for i := range d.groups {
		g := &d.groups[i]
		b := d.liveBudget(g)
		if b == nil {
			continue
		}
		if allowed := budget(b, len(g.members)); g.failed > allowed {
			return d.budgetSpent(fmt.Sprintf("the failureBudget of group %q allows %d of %d", g.Name, allowed, len(g.members)), g.failed, g)
		}
	}
	return nil
}

// budgetSpent names the failures of one group, or of all where it is nil.
func (d *decision) budgetSpent(allowance string, failed int, only *group) *v1alpha1.Cause {
	var names nameList
	for i := range d.members {
		m := &d.members[i]
		if m.belongs && m.failure != nil && (only == nil || &d.groups[m.group] == only) {
			names.add(fmt.Sprintf("%s (%s: %s)", m.Name, m.failure.Reason, short(m.failure.Message)))
		}
	}
	return &v1alpha1.Cause{
		Reason:  v1alpha1.ReasonBudgetSpent,
		Message: clip(fmt.Sprintf("%s failed on %s, and %s: %s", clusters(failed), d.run.Revision.Version, allowance, names.String())),
	}
}

func (d *decision) halt(cause v1alpha1.Cause) {
	d.run.Phase = v1alpha1.RunHalted
	d.run.HaltCause = &cause
	d.run.SoakStartedAt = nil
	d.warn(EventBudgetSpent, cause.Message)
	d.warn(EventRunHalted, fmt.Sprintf("run %d of %s is halted, because rollback.mode is Manual; %s", d.run.Number, d.run.Revision.Version, d.waysOutOfHalt()))
}

// fail ends the run, and opens a rollback if there is something to go back to.
// Without a stable revision the workloads are left alone.
func (d *decision) fail(cause v1alpha1.Cause) {
	d.run.HaltCause = &cause
	d.endRun(v1alpha1.RunFailed)
	if cause.Reason == v1alpha1.ReasonBudgetSpent {
		d.warn(EventBudgetSpent, cause.Message)
		d.warn(EventRunFailed, fmt.Sprintf("run %d of %s failed: its failure budget is spent", d.run.Number, d.run.Revision.Version))
	} else {
		d.warn(EventRunFailed, fmt.Sprintf("run %d of %s failed: %s", d.run.Number, d.run.Revision.Version, cause.Message))
	}
	if d.in.Rollback.ModeOrDefault() != v1alpha1.RollbackAutomatic {
		return
	}
	if target := d.rollbackTarget(); target != nil {
		d.openRollback(departure{to: *target, trigger: v1alpha1.TriggerBudgetSpent, cause: cause})
		return
	}
	d.warn(EventNoRollbackTarget, d.noTarget().Message)
}

// waysOutOfHalt says what a person can do about a halted run.
func (d *decision) waysOutOfHalt() string {
	return "put a new revision into the template, set it back to the stable one, or " +
		d.hint("Rollback, Abort or Retry", "")
}

// rollbackTarget is the revision that clusters go back to, if it can be
// delivered.
func (d *decision) rollbackTarget() *v1alpha1.RevisionReference {
	goal := d.goal()
	if goal == nil || d.problemOf(goal.Digest) != nil {
		return nil
	}
	return goal
}

// noTarget says why there is nothing to go back to.
func (d *decision) noTarget() v1alpha1.Cause {
	if goal := d.goal(); goal != nil {
		if problem := d.problemOf(goal.Digest); problem != nil {
			return *problem
		}
	}
	return v1alpha1.Cause{
		Reason:  v1alpha1.ReasonNoRollbackTarget,
		Message: fmt.Sprintf("no revision has ever succeeded, so there is nothing to go back to; workloads are left as they are. Correct the template: the new revision starts a new run. Failed: %s", d.run.Revision.Version),
	}
}
