package rollout

import (
	"fmt"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// decideStep stores what a person decided about one step of the run. It may
// come before the step is reached, and twice is harmless (law 18).
func (d *decision) decideStep(a *Action, decision v1alpha1.ApprovalDecision) ruling {
	if !d.going() {
		return refused(v1alpha1.ReasonVoid, "%s has ended (%s); no step of it waits for anybody", d.runInWords(), d.run.Phase)
	}
	group, step := a.Spec.Group, a.Spec.Step
	at, found := frozenStep(d.run, group, step)
	switch {
	case found == nil:
		return refused(v1alpha1.ReasonVoid, "%s has no step %d of group %q; its groups and steps are in status.run.frozenGroups", d.runInWords(), step, group)
	case found.Approval != v1alpha1.ApprovalRequired:
		return noEffect("step %d of group %q asks for no approval; to stop the run use Pause or Abort", step, group)
	case d.isBehind(at, step):
		return noEffect("step %d of group %q was left already", step, group)
	}
	next := v1alpha1.Approval{Group: group, Step: step, Decision: decision, Order: d.order(a)}
	if last := d.approval(group, step); last != nil {
		if last.Decision == decision {
			return noEffect("step %d of group %q was %s already, by %s", step, group, decisionInWords(decision), last.Actor)
		}
		*last = next
	} else {
		d.run.Approvals = append(d.run.Approvals, next)
	}
	return took("step %d of group %q is %s", step, group, decisionInWords(decision))
}

func decisionInWords(decision v1alpha1.ApprovalDecision) string {
	if decision == v1alpha1.StepApproved {
		return "approved"
	}
	return "rejected"
}

// frozenStep finds a step of the run and the position of its group; nil if
// there is no such step.
func frozenStep(run *v1alpha1.Run, group string, step int32) (int, *v1alpha1.Step) {
	for i := range run.FrozenGroups {
		if g := &run.FrozenGroups[i]; g.Name == group {
			if steps := g.StepsOrDefault(); step >= 1 && int(step) <= len(steps) {
				return i, &steps[step-1]
			}
		}
	}
	return 0, nil
}

// isBehind tells that the run has left a step of the group at that position.
func (d *decision) isBehind(position int, step int32) bool {
	switch {
	case d.run.StepStartedAt == nil:
		return false
	case d.walked():
		return true
	}
	at, _ := frozenStep(d.run, d.run.Group, d.run.Step)
	if d.run.Group == v1alpha1.UnmatchedGroup {
		at = len(d.run.FrozenGroups)
	}
	return position < at || (position == at && step < d.run.Step)
}

func (d *decision) approval(group string, step int32) *v1alpha1.Approval {
	for i := range d.run.Approvals {
		if a := &d.run.Approvals[i]; a.Group == group && a.Step == step {
			return a
		}
	}
	return nil
}

// isGateShut tells that the step being walked would admit a cluster and nobody
// has let it, and says who must act. A step that admits nobody asks nobody.
func (d *decision) isGateShut(g *group, quota int) bool {
	if quota <= 0 || len(g.queue) == 0 || g.steps[d.stepIndex(g)].Approval != v1alpha1.ApprovalRequired {
		return false
	}
	decided := d.approval(g.Name, d.run.Step)
	if decided != nil && decided.Decision == v1alpha1.StepApproved {
		return false
	}
	hint := d.hint(v1alpha1.VerbApprove, fmt.Sprintf(", group %q, step %d", g.Name, d.run.Step))
	w := v1alpha1.Waiting{Reason: v1alpha1.ReasonWaitingForApproval, Since: d.run.StepStartedAt,
		Message: fmt.Sprintf("step %d of group %q would admit %s and needs an approval: %s", d.run.Step, g.Name, clusters(min(quota, len(g.queue))), hint)}
	if decided != nil {
		at := decided.At
		w.Reason, w.Since = v1alpha1.ReasonRejected, &at
		w.Message = fmt.Sprintf("%s rejected step %d of group %q%s; it stays shut until somebody approves it, aborts the run or changes the template: %s", decided.Actor, d.run.Step, g.Name, because(decided.Reason), hint)
	}
	d.waitFor(w)
	return true
}

// hint says which RolloutAction would let the run go on.
func (d *decision) hint(verb v1alpha1.Verb, more string) string {
	return fmt.Sprintf("create a RolloutAction with verb %s for rollout %s, revision %s, attempt %d%s", verb, d.in.Name, d.run.Revision.Digest, d.run.Attempt, more)
}
