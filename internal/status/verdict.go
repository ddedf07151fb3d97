package status

import (
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/rollout"
)

// Verdict returns the status of a revision after a change of its verdict. The
// time of the decision moves only with the verdict itself.
func Verdict(previous v1alpha1.RolloutRevisionStatus, change rollout.VerdictChange, now time.Time) v1alpha1.RolloutRevisionStatus {
	next := *previous.DeepCopy()
	next.Reason = change.Cause.Reason
	next.Message = Bounded(change.Cause.Message)
	next.Attempts = change.Attempts
	if next.Verdict != change.Verdict {
		next.Verdict = change.Verdict
		at := metav1.NewMicroTime(now)
		next.DecidedAt = &at
	}
	return next
}

// EqualVerdict tells whether two revision statuses say the same.
func EqualVerdict(a, b v1alpha1.RolloutRevisionStatus) bool {
	return apiequality.Semantic.DeepEqual(a, b)
}
