package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/observe"
	"open-cluster-management.io/fleet-rollout/internal/rollout"
	"open-cluster-management.io/fleet-rollout/internal/status"
)

// rolloutsOfAction wakes the rollout that an action is about, whether it exists
// or not.
func rolloutsOfAction(_ context.Context, object client.Object) []reconcile.Request {
	action, ok := object.(*v1alpha1.RolloutAction)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: action.Namespace, Name: action.Spec.Rollout}}}
}

// answerActions writes what became of actions on their status, now that their
// effect is persisted: a crash in between leaves them in status.handledActions,
// and only the answer is repeated. An action that cannot be answered holds up no
// other.
func (r *RolloutReconciler) answerActions(ctx context.Context, d decided) error {
	var errs []error
	for _, outcome := range d.plan.Actions {
		action := d.observation.Actions.Open[outcome.Name]
		if action == nil || action.UID != outcome.UID {
			continue
		}
		if err := r.answer(ctx, action, outcome, d.now); err != nil {
			errs = append(errs, err)
		}
	}
	if err := r.answerAllAsOrphans(ctx, d.observation.Actions.Orphans); err != nil {
		errs = append(errs, err)
	}
	return joinUnlessConflict(errs)
}

// answer writes the status of one action; nothing if it says so already.
func (r *RolloutReconciler) answer(ctx context.Context, action *v1alpha1.RolloutAction, outcome rollout.ActionOutcome, now time.Time) error {
	updated := action.DeepCopy()
	updated.Status = status.Action(action, outcome, now)
	if status.EqualAction(action.Status, updated.Status) {
		return nil
	}
	err := r.Client.Status().Update(ctx, updated)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("write status of action %s/%s: %w", action.Namespace, action.Name, err)
	}
	r.observer.Actions.Remember(updated)
	log.FromContext(ctx).Info("Answered action", "action", action.Name, "verb", action.Spec.Verb, "actor", action.Spec.Actor,
		"accepted", outcome.Accepted, "reason", outcome.Cause.Reason, "message", outcome.Cause.Message)
	return nil
}

// orphaned is what becomes of an action whose FleetRollout does not exist, or
// exists only since after the action: whoever wrote it cannot have seen it.
func orphaned(action *v1alpha1.RolloutAction) rollout.ActionOutcome {
	cause := v1alpha1.Cause{
		Reason: v1alpha1.ReasonRolloutNotFound,
		Message: fmt.Sprintf("there was no FleetRollout %s/%s when this action was to be carried out; create the action once the rollout exists, with the revision and attempt of its status.run",
			action.Namespace, action.Spec.Rollout),
	}
	outcome := rollout.ActionOutcome{Name: action.Name, UID: action.UID, Cause: cause}
	if meta.IsStatusConditionTrue(action.Status.Conditions, v1alpha1.ConditionAccepted) {
		outcome.Accepted, outcome.Cause = true, v1alpha1.Cause{}
		outcome.Complete = &rollout.Completion{Cause: v1alpha1.Cause{
			Reason:  v1alpha1.ReasonOvertaken,
			Message: fmt.Sprintf("the FleetRollout %s/%s was deleted before this was done", action.Namespace, action.Spec.Rollout),
		}}
	}
	return outcome
}

// answerOrphans answers the actions of a rollout that the cache does not know.
// The API server has the last word: a rollout that was created together with its
// action may be on its way into the cache.
func (r *RolloutReconciler) answerOrphans(ctx context.Context, key types.NamespacedName) (ctrl.Result, error) {
	orphans, err := r.observer.ReadOrphans(ctx, key)
	if err != nil || len(orphans) == 0 {
		return ctrl.Result{}, err
	}
	err = r.Reader.Get(ctx, key, &v1alpha1.FleetRollout{})
	if err == nil {
		return ctrl.Result{RequeueAfter: conflictDelay}, nil
	}
	if !apierrors.IsNotFound(err) {
		return ctrl.Result{}, fmt.Errorf("read rollout %s: %w", key, err)
	}
	return quietly(r.answerAllAsOrphans(ctx, orphans))
}

func (r *RolloutReconciler) answerAllAsOrphans(ctx context.Context, actions []*v1alpha1.RolloutAction) error {
	now := r.Clock.Now()
	var errs []error
	for _, action := range actions {
		if err := r.answer(ctx, action, orphaned(action), now); err != nil {
			errs = append(errs, err)
		}
	}
	return joinUnlessConflict(errs)
}

// trimActions deletes finished actions beyond the limit of the audit trail.
func (r *RolloutReconciler) trimActions(ctx context.Context, observation observe.Observation) error {
	var errs []error
	for _, action := range observation.Actions.Expired {
		err := r.Client.Delete(ctx, action.DeepCopy(), client.Preconditions{UID: &action.UID})
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("delete action %s/%s: %w", action.Namespace, action.Name, err))
			continue
		}
		r.observer.Actions.Forget(client.ObjectKeyFromObject(action))
		log.FromContext(ctx).Info("Trimmed action", "action", action.Name, "verb", action.Spec.Verb, "actor", action.Spec.Actor)
	}
	return errors.Join(errs...)
}
