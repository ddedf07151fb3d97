package rollout

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// group is a group of the run, or of the strategy outside a run, and what its
// clusters are in.
type group struct {
	v1alpha1.Group
	steps    []v1alpha1.Step
	selector labels.Selector

	// members of the group, by name.
	members []*member
	// queue are the members that may be admitted, in order of their turn.
	queue []*member

	// selectable is how many members are admitted or could be, now or once they
	// are unblocked: a group without any is skipped with its gates.
	selectable int
	admitted   int
	occupied   int
	failed     int
	evidence   int

	counts v1alpha1.GroupCounts
}

// readGroups sets up the groups of the run, or of the strategy, and the
// implicit last one for clusters that no group selects.
func (d *decision) readGroups() {
	from := d.in.Strategy.Groups
	if d.run != nil && (d.going() || len(d.run.FrozenGroups) > 0) {
		from = d.run.FrozenGroups
	}
	d.groups = make([]group, 0, len(from)+1)
	for i := range from {
		d.groups = append(d.groups, newGroup(from[i]))
	}
	d.groups = append(d.groups, newGroup(v1alpha1.Group{Name: v1alpha1.UnmatchedGroup}))
}

func newGroup(spec v1alpha1.Group) group {
	g := group{Group: spec, steps: spec.StepsOrDefault(), selector: labels.Nothing()}
	g.counts.Name = spec.Name
	if spec.Name == v1alpha1.UnmatchedGroup {
		return g
	}
	if selector, err := metav1.LabelSelectorAsSelector(&spec.ClusterSelector); err == nil {
		g.selector = selector
	}
	return g
}

// badSelector names the first group whose selector cannot be read. No run
// starts with one: its clusters would be moved into the last group.
func badSelector(groups []v1alpha1.Group) *v1alpha1.Cause {
	for i := range groups {
		if _, err := metav1.LabelSelectorAsSelector(&groups[i].ClusterSelector); err != nil {
			return &v1alpha1.Cause{
				Reason:  v1alpha1.ReasonInvalidSpec,
				Message: clip(fmt.Sprintf("spec.strategy.groups[%d].clusterSelector of group %q cannot be read: %v; no run starts until it is corrected", i, groups[i].Name, err)),
			}
		}
	}
	return nil
}

// unmatched says that no group selects a cluster and that the strategy then
// leaves it out; nil if a group does, or the last one takes it.
func (d *decision) unmatched(m *member) *v1alpha1.Cause {
	if d.in.Strategy.UnmatchedOrDefault() != v1alpha1.UnmatchedBlock || m.group != len(d.groups)-1 {
		return nil
	}
	return &v1alpha1.Cause{Reason: v1alpha1.ReasonUnmatched,
		Message: fmt.Sprintf("no group selects cluster %q, and strategy.unmatched is Block: it gets nothing until its labels match a group of the run", m.Name)}
}

// unmatchedClusters says that no run may start because no group of the strategy
// selects some clusters and strategy.unmatched is Block. Incomplete decisions do
// not tell whether there are any.
func (d *decision) unmatchedClusters() *v1alpha1.Cause {
	if d.in.Strategy.UnmatchedOrDefault() != v1alpha1.UnmatchedBlock {
		return nil
	}
	if !d.in.Membership.Complete {
		cause := d.incompleteCause()
		return &cause
	}
	groups := make([]group, len(d.in.Strategy.Groups))
	for i := range groups {
		groups[i] = newGroup(d.in.Strategy.Groups[i])
	}
	var names nameList
	for i := range d.members {
		m := &d.members[i]
		if !m.belongs || !m.Selected || slices.ContainsFunc(groups, func(g group) bool { return g.selector.Matches(labels.Set(m.Labels)) }) {
			continue
		}
		names.add(m.Name)
	}
	if names.count == 0 {
		return nil
	}
	return &v1alpha1.Cause{Reason: v1alpha1.ReasonUnmatched,
		Message: clip(fmt.Sprintf("no run starts, because strategy.unmatched is Block and no group selects %s: %s. Label them so that a group does, add a group, or set strategy.unmatched to Last", clusters(names.count), names.String()))}
}

// groupByLabels is the index of the first group that selects the labels.
func (d *decision) groupByLabels(set map[string]string) int {
	for i := range d.groups {
		if d.groups[i].selector.Matches(labels.Set(set)) {
			return i
		}
	}
	return len(d.groups) - 1
}

// groupByName is the index of a group; the last one if there is none such.
func (d *decision) groupByName(name string) int {
	for i := range d.groups {
		if d.groups[i].Name == name {
			return i
		}
	}
	return len(d.groups) - 1
}

// liveBudget is the group's budget as the spec has it now; budgets are read
// live even while the group itself is frozen (law 3).
func (d *decision) liveBudget(g *group) *v1alpha1.FailureBudget {
	for i := range d.in.Strategy.Groups {
		if d.in.Strategy.Groups[i].Name == g.Name {
			return d.in.Strategy.Groups[i].FailureBudget
		}
	}
	return g.FailureBudget
}
