package delivery

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/pkg/workbuilder"
)

// The bounds of lists in the status of a delivery.
const (
	maxCompletedJobs = 500
	maxKept          = 500
)

// takeUp returns the status with which a new intent begins. All times are about
// one delivery and start anew; what the cluster has and has proven stays, and
// so does the last rendering until the new one is recorded.
func takeUp(delivery *v1alpha1.RolloutDelivery) v1alpha1.RolloutDeliveryStatus {
	old := delivery.Status.DeepCopy()
	next := v1alpha1.RolloutDeliveryStatus{
		State:         v1alpha1.StatePending,
		Reason:        v1alpha1.ReasonWritePending,
		Message:       fmt.Sprintf("delivery %d of version %s is to be written", delivery.Spec.Delivery, delivery.Spec.Revision.Version),
		StateSince:    old.StateSince,
		Delivery:      delivery.Spec.Delivery,
		Rendered:      old.Rendered,
		Phase:         old.Phase,
		Dropping:      old.Dropping,
		Applied:       old.Applied,
		Proven:        old.Proven,
		CompletedJobs: old.CompletedJobs,
		Kept:          old.Kept,
		Preflight:     old.Preflight,
		Unadopted:     old.Unadopted,
		// Whether it still drifts is for the first report on the new intent to say.
		Drift: old.Drift,
	}
	if old.State == v1alpha1.StateUnreachable {
		// Taking up an intent is no sign of life: only Judge ends this state.
		next.State, next.Reason, next.Message = old.State, old.Reason, old.Message
	}
	return next
}

// isTakenUp tells whether status is about the spec's delivery.
func isTakenUp(delivery *v1alpha1.RolloutDelivery) bool {
	return delivery.Status.Delivery == delivery.Spec.Delivery
}

// isRendered tells whether status records what the spec's delivery renders to.
func isRendered(delivery *v1alpha1.RolloutDelivery) bool {
	rendered := delivery.Status.Rendered
	return isTakenUp(delivery) && rendered != nil &&
		rendered.Delivery == delivery.Spec.Delivery && rendered.Digest == delivery.Spec.Revision.Digest
}

// startDeadline records the first attempt to write.
func startDeadline(status *v1alpha1.RolloutDeliveryStatus, run RunClock, now time.Time) {
	if status.WrittenAt != nil {
		return
	}
	status.WrittenAt = stamp(now)
	status.Clock = v1alpha1.DeliveryClock{
		Run:                       run.Number,
		PausedAtWriteMilliseconds: run.pausedMilliseconds(now),
		StepStartedAt:             run.StepStartedAt.DeepCopy(),
	}
}

// record enters a rendering into status, and what becomes of the objects that it
// leaves out. The works may be written only once this is persisted.
func record(status *v1alpha1.RolloutDeliveryStatus, rendering workbuilder.Rendering, set workbuilder.WorkSet, phase v1alpha1.WritePhase, now time.Time) {
	rendered := rendering.Rendered
	status.Rendered = &rendered
	status.Phase = phase
	status.Dropping = slices.Concat(set.Dropped, set.Kept)
	status.Kept = keep(status.Kept, set.Kept, rendered.Objects)
	if status.State == v1alpha1.StateUnreachable {
		return
	}
	enter(status, v1alpha1.StateApplying, now)
	announce(status)
}

// enter sets the state, and since when it is so if it was another.
func enter(status *v1alpha1.RolloutDeliveryStatus, state v1alpha1.DeliveryState, now time.Time) {
	if status.State != state {
		since := metav1.NewTime(now.Truncate(time.Second))
		status.StateSince = &since
	}
	status.State = state
}

// announce says what is waited for once the recorded works are written, in the
// words of Judge, so that it has nothing to correct while the work agent works.
func announce(status *v1alpha1.RolloutDeliveryStatus) {
	waiting := "nothing is left to be delivered"
	if works := status.Rendered.Works; len(works) > 0 {
		waiting = notApplied(works[0])
	}
	applying := Observation{Status: *status}.applying(waiting)
	status.Reason, status.Message = applying.Reason, applying.Message
}

// keep adds newly kept objects to those kept before, without what is delivered
// again.
func keep(before, more []v1alpha1.ObjectReference, delivered []v1alpha1.RenderedObject) []v1alpha1.ObjectReference {
	skip := map[claim]bool{}
	for _, object := range delivered {
		skip[claimOf(object.ObjectReference)] = true
	}
	var kept []v1alpha1.ObjectReference
	for _, object := range slices.Concat(before, more) {
		if key := claimOf(object); !skip[key] {
			skip[key] = true
			kept = append(kept, object)
		}
	}
	return kept[max(0, len(kept)-maxKept):]
}

// mergeJobs adds newly completed Jobs to those known before.
func mergeJobs(before, more []v1alpha1.CompletedJob) []v1alpha1.CompletedJob {
	for _, job := range more {
		if !slices.Contains(before, job) {
			before = append(before, job)
		}
	}
	return before[max(0, len(before)-maxCompletedJobs):]
}

// completedBefore are the completed Jobs that this delivery must not bring
// again. One that completed while it is being delivered is still part of it:
// leaving it out of the second phase would change the content under way.
func completedBefore(status v1alpha1.RolloutDeliveryStatus, spec v1alpha1.RolloutDeliverySpec) []v1alpha1.CompletedJob {
	if status.Rendered == nil || status.Rendered.Delivery != spec.Delivery {
		return status.CompletedJobs
	}
	delivered := map[claim]bool{}
	for _, object := range status.Rendered.Objects {
		delivered[claimOf(object.ObjectReference)] = true
	}
	return slices.DeleteFunc(slices.Clone(status.CompletedJobs), func(job v1alpha1.CompletedJob) bool {
		return delivered[claim{
			group: "batch", kind: "Job", namespace: job.Namespace,
			name: workbuilder.JobName(job.Name, spec.Revision.Digest, spec.Attempt),
		}]
	})
}
