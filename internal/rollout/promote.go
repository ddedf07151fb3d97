package rollout

import (
	"fmt"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// promote lets the present step be left without its soak, without evidence, or
// without a share (law 18). It never stands in for an approval, for the proof
// of a cluster that can be reached, or for the budget.
func (d *decision) promote(a *Action) ruling {
	switch {
	case !d.going():
		return refused(v1alpha1.ReasonVoid, "%s has ended (%s); there is no step to promote", d.runInWords(), d.run.Phase)
	case d.run.Phase == v1alpha1.RunHalted:
		return refused(v1alpha1.ReasonVoid, "%s is halted, and Promote does not stand in for the failure budget; use Retry, Rollback or Abort", d.runInWords())
	case d.run.StepStartedAt == nil:
		return noEffect("%s has not begun its first step", d.runInWords())
	case d.walked():
		return noEffect("%s has left its last step and only waits for the proof of its clusters", d.runInWords())
	case a.Spec.Group != "" && (a.Spec.Group != d.run.Group || a.Spec.Step != d.run.Step):
		return refused(v1alpha1.ReasonVoid, "the run is in step %d of group %q now, and the order is about step %d of group %q", d.run.Step, d.run.Group, a.Spec.Step, a.Spec.Group)
	case d.run.Promotion != nil:
		return noEffect("%s promoted step %d of group %q already", d.run.Promotion.Actor, d.run.Step, d.run.Group)
	}
	order := d.order(a)
	d.run.Promotion = &order
	return took("step %d of group %q is left as soon as its share is written and every reachable cluster of it is proven", d.run.Step, d.run.Group)
}

func (d *decision) isPromoted() bool { return d.run.Promotion != nil }

// hintPromote says how a person can end what the present step waits for.
func (d *decision) hintPromote() string {
	return d.hint(v1alpha1.VerbPromote, fmt.Sprintf(", group %q, step %d", d.run.Group, d.run.Step))
}
