package status

import (
	"slices"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/rollout"
)

// Action returns the status of an action after what became of it, as the hub's
// clock shows now. What the outcome leaves out stays as it is.
func Action(previous *v1alpha1.RolloutAction, outcome rollout.ActionOutcome, now time.Time) v1alpha1.RolloutActionStatus {
	next := *previous.Status.DeepCopy()
	set := func(kind string, is bool, cause v1alpha1.Cause) {
		before := meta.FindStatusCondition(next.Conditions, kind)
		if before != nil && before.Status == boolStatus(is) && cause.Reason == "" {
			return
		}
		changed := condition(kind, boolStatus(is), cause)
		changed.Message = Bounded(cause.Message)
		changed.ObservedGeneration = previous.Generation
		changed.LastTransitionTime = metav1.NewTime(now)
		meta.SetStatusCondition(&next.Conditions, *changed)
	}
	set(v1alpha1.ConditionAccepted, outcome.Accepted, outcome.Cause)
	if outcome.Complete != nil {
		set(v1alpha1.ConditionComplete, outcome.Complete.Done, outcome.Complete.Cause)
	}
	slices.SortFunc(next.Conditions, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	return next
}

// EqualAction tells whether two statuses of an action say the same.
func EqualAction(a, b v1alpha1.RolloutActionStatus) bool {
	return apiequality.Semantic.DeepEqual(a, b)
}
