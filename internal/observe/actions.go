package observe

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/rollout"
)

// ActionRolloutField is the field index of RolloutActions by the rollout that
// they are about. Whoever sets up the cache registers it with
// IndexActionRollout.
const ActionRolloutField = "spec.rollout"

// maxUndecidedActions is how many undecided actions one decision takes in, the
// oldest first. It is also how many UIDs status.handledActions holds.
const maxUndecidedActions = 100

// IndexActionRollout extracts the value of ActionRolloutField.
func IndexActionRollout(object client.Object) []string {
	return []string{object.(*v1alpha1.RolloutAction).Spec.Rollout}
}

// Actions are the RolloutActions that name a rollout, by what is to be done
// about them.
type Actions struct {
	// Open actions by name, to be decided on: undecided ones, and accepted ones
	// that are not complete.
	Open map[string]*v1alpha1.RolloutAction

	// Orphans are unfinished and about no FleetRollout that exists: there is
	// none of the name, or it was created after them.
	Orphans []*v1alpha1.RolloutAction

	// Expired are finished and beyond the audit trail's limit,
	// v1alpha1.MaxFinishedActions.
	Expired []*v1alpha1.RolloutAction
}

// ReadOrphans returns the unfinished actions of a name that no FleetRollout has.
func (o *Observer) ReadOrphans(ctx context.Context, key types.NamespacedName) ([]*v1alpha1.RolloutAction, error) {
	all, err := o.listActions(ctx, key)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, IsFinished), nil
}

// readActions fills in the actions of a rollout.
func (o *Observer) readActions(ctx context.Context, fro *v1alpha1.FleetRollout, observation *Observation) error {
	all, err := o.listActions(ctx, client.ObjectKeyFromObject(fro))
	if err != nil {
		return err
	}
	actions := Actions{Open: map[string]*v1alpha1.RolloutAction{}}
	finished, undecided := 0, 0
	for _, action := range slices.Backward(all) {
		if IsFinished(action) {
			finished++
			if finished > v1alpha1.MaxFinishedActions {
				actions.Expired = append(actions.Expired, action)
			}
		}
	}
	for _, action := range all {
		switch {
		case IsFinished(action):
			continue
		case action.CreationTimestamp.Before(&fro.CreationTimestamp):
			actions.Orphans = append(actions.Orphans, action)
			continue
		}
		accepted := isAccepted(action)
		if !accepted {
			if undecided++; undecided > maxUndecidedActions {
				continue
			}
			if action, err = o.confirmUndecided(ctx, action); err != nil {
				return err
			}
			if action == nil {
				continue
			}
		}
		actions.Open[action.Name] = action
		observation.Snapshot.Actions = append(observation.Snapshot.Actions, rollout.Action{
			Name:      action.Name,
			UID:       action.UID,
			CreatedAt: action.CreationTimestamp.Time,
			Spec:      action.Spec,
			Accepted:  accepted,
		})
	}
	observation.Actions = actions
	return nil
}

// listActions returns the actions that name a rollout, in the order in which
// they take effect: by creation, and by name within a second.
func (o *Observer) listActions(ctx context.Context, key types.NamespacedName) ([]*v1alpha1.RolloutAction, error) {
	var list v1alpha1.RolloutActionList
	if err := o.Client.List(ctx, &list, client.InNamespace(key.Namespace),
		client.MatchingFields{ActionRolloutField: key.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list actions of rollout %s: %w", key, err)
	}
	actions := make([]*v1alpha1.RolloutAction, 0, len(list.Items))
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			actions = append(actions, o.Actions.Newer(&list.Items[i]))
		}
	}
	slices.SortFunc(actions, func(a, b *v1alpha1.RolloutAction) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return actions, nil
}

// confirmUndecided reads an action past the cache, and returns nil if it was
// decided on or deleted meanwhile. A manager that has just taken over may have a
// cache that is older than what the one before wrote, and an order must not take
// effect twice.
func (o *Observer) confirmUndecided(ctx context.Context, cached *v1alpha1.RolloutAction) (*v1alpha1.RolloutAction, error) {
	var live v1alpha1.RolloutAction
	err := o.Live.Get(ctx, client.ObjectKeyFromObject(cached), &live)
	if ignoreNotFound(err) != nil {
		return nil, fmt.Errorf("read action %s/%s: %w", cached.Namespace, cached.Name, err)
	}
	if err != nil || live.UID != cached.UID || isDecided(&live) {
		return nil, nil
	}
	return &live, nil
}

// IsFinished tells that nothing more becomes of an action: it is void, or it is
// known whether what it ordered was done.
func IsFinished(action *v1alpha1.RolloutAction) bool {
	if meta.IsStatusConditionFalse(action.Status.Conditions, v1alpha1.ConditionAccepted) {
		return true
	}
	complete := meta.FindStatusCondition(action.Status.Conditions, v1alpha1.ConditionComplete)
	return complete != nil && complete.Status != metav1.ConditionUnknown
}

func isAccepted(action *v1alpha1.RolloutAction) bool {
	return meta.IsStatusConditionTrue(action.Status.Conditions, v1alpha1.ConditionAccepted)
}

func isDecided(action *v1alpha1.RolloutAction) bool {
	return meta.FindStatusCondition(action.Status.Conditions, v1alpha1.ConditionAccepted) != nil
}
