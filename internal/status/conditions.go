package status

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// conditions computes every condition from scratch, sorted by type. A condition
// that stays at its status keeps the time of its last transition.
func conditions(in Input) []metav1.Condition {
	var next []metav1.Condition
	for _, condition := range []*metav1.Condition{
		ready(in),
		progressing(in),
		stalled(in),
		placementResolved(in),
		rolledBack(in),
	} {
		if condition == nil {
			continue
		}
		condition.ObservedGeneration = in.Snapshot.Generation
		condition.Message = Bounded(condition.Message)
		condition.LastTransitionTime = metav1.NewTime(in.Now)
		if before := meta.FindStatusCondition(in.Previous.Conditions, condition.Type); before != nil && before.Status == condition.Status {
			condition.LastTransitionTime = before.LastTransitionTime
		}
		next = append(next, *condition)
	}
	slices.SortFunc(next, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	return next
}

// ready is the summary.
func ready(in Input) *metav1.Condition {
	return condition(v1alpha1.ConditionReady, boolStatus(in.Plan.Outcome.Ready), in.Plan.Outcome.Cause)
}

// progressing says whether a run or a rollback goes on; its words are those of
// Ready, which name what it waits for.
func progressing(in Input) *metav1.Condition {
	return condition(v1alpha1.ConditionProgressing, boolStatus(in.Plan.Outcome.Progressing), in.Plan.Outcome.Cause)
}

// stalled is present only while somebody must act.
func stalled(in Input) *metav1.Condition {
	if in.Plan.Outcome.Stalled == nil {
		return nil
	}
	return condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, *in.Plan.Outcome.Stalled)
}

// placementResolved says whether the membership is known.
func placementResolved(in Input) *metav1.Condition {
	membership := in.Snapshot.Membership
	if !membership.Complete {
		return condition(v1alpha1.ConditionPlacementResolved, metav1.ConditionFalse, membership.Cause)
	}
	selected := 0
	for i := range in.Snapshot.Clusters {
		if in.Snapshot.Clusters[i].Selected {
			selected++
		}
	}
	names := make([]string, 0, len(membership.Placements))
	for _, placement := range membership.Placements {
		names = append(names, placement.Name)
	}
	cause := v1alpha1.Cause{
		Reason:  v1alpha1.ReasonResolved,
		Message: fmt.Sprintf("%s selected by Placement %s", count(selected, "cluster"), strings.Join(names, ", ")),
	}
	if selected == 0 {
		cause.Reason = v1alpha1.ReasonNoClusters
		cause.Message = fmt.Sprintf("no cluster is selected by Placement %s; label clusters, or widen its predicates", strings.Join(names, ", "))
	}
	return condition(v1alpha1.ConditionPlacementResolved, metav1.ConditionTrue, cause)
}

// rolledBack says how the newest rollback that matters stands.
func rolledBack(in Input) *metav1.Condition {
	record := in.Plan.Outcome.RolledBack
	if record == nil {
		return nil
	}
	target := fmt.Sprintf("version %s (revision %d)", record.To.Version, record.To.Number)
	switch record.Result {
	case v1alpha1.RollbackComplete:
		return condition(v1alpha1.ConditionRolledBack, metav1.ConditionTrue, v1alpha1.Cause{
			Reason:  v1alpha1.ReasonRolledBack,
			Message: fmt.Sprintf("%s went back to %s: %s", count(int(record.Restored), "cluster"), target, record.Cause.Message),
		})
	case v1alpha1.RollbackIncomplete:
		return condition(v1alpha1.ConditionRolledBack, metav1.ConditionFalse, v1alpha1.Cause{
			Reason: v1alpha1.ReasonRollbackIncomplete,
			Message: fmt.Sprintf("%d of %s went back to %s, the others have not proven it in time or cannot be reached: %s",
				record.Restored, count(int(record.Clusters), "cluster"), target, record.Cause.Message),
		})
	case v1alpha1.RollbackSuperseded:
		return condition(v1alpha1.ConditionRolledBack, metav1.ConditionFalse, v1alpha1.Cause{
			Reason: v1alpha1.ReasonSuperseded,
			Message: fmt.Sprintf("%d of %s went back to %s before a newer run admitted the others",
				record.Restored, count(int(record.Clusters), "cluster"), target),
		})
	default:
		return condition(v1alpha1.ConditionRolledBack, metav1.ConditionUnknown, v1alpha1.Cause{
			Reason: v1alpha1.ReasonRollingBack,
			Message: fmt.Sprintf("%d of %s went back to %s so far: %s",
				record.Restored, count(int(record.Clusters), "cluster"), target, record.Cause.Message),
		})
	}
}

func condition(kind string, status metav1.ConditionStatus, cause v1alpha1.Cause) *metav1.Condition {
	return &metav1.Condition{Type: kind, Status: status, Reason: cause.Reason, Message: cause.Message}
}

func boolStatus(is bool) metav1.ConditionStatus {
	if is {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
