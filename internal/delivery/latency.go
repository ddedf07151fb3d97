package delivery

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// syncOrigin is since when the works of a delivery could be applied: their
// write, which comes after a preflight, or the return of a cluster that could not
// be reached then. It is nil before.
func syncOrigin(spec v1alpha1.RolloutDeliverySpec, status v1alpha1.RolloutDeliveryStatus) *metav1.MicroTime {
	origin := status.WrittenAt
	if spec.UnreachableAtWrite {
		origin = status.ReturnedAt
	}
	if origin == nil || awaitsAnswer(status) {
		return nil
	}
	answered := status.Preflight
	if answered != nil && answered.Delivery == status.Delivery && answered.AnsweredAt != nil && answered.AnsweredAt.After(origin.Time) {
		return answered.AnsweredAt
	}
	return origin
}

// SyncLatency is how long the work agent took to apply a delivery, and ProofLatency
// how long it took until it was proven; both from the write, on the hub's clock.
// Either is negative as long as it is not known.
func SyncLatency(spec v1alpha1.RolloutDeliverySpec, status v1alpha1.RolloutDeliveryStatus) time.Duration {
	return latency(spec, status, status.AppliedAt)
}

// ProofLatency is described at SyncLatency.
func ProofLatency(spec v1alpha1.RolloutDeliverySpec, status v1alpha1.RolloutDeliveryStatus) time.Duration {
	return latency(spec, status, status.ProvenAt)
}

func latency(spec v1alpha1.RolloutDeliverySpec, status v1alpha1.RolloutDeliveryStatus, until *metav1.MicroTime) time.Duration {
	origin := syncOrigin(spec, status)
	if origin == nil || until == nil || status.Delivery != spec.Delivery {
		return -1
	}
	return max(0, until.Sub(origin.Time))
}

// untilLate is how long the work agent may still take, without the time in which
// the cluster was lost; zero if there is no bound or nothing is written.
func (o Observation) untilLate() time.Duration {
	origin := syncOrigin(o.Spec, o.Status)
	if origin == nil || o.Status.Rendered == nil {
		return 0
	}
	bound := o.Status.Rendered.Health.Signals.MaxSyncLatencySeconds
	if bound == nil {
		return 0
	}
	lost := time.Duration(o.Status.Clock.LostSinceWriteMilliseconds) * time.Millisecond
	left := origin.Add(time.Duration(*bound)*time.Second + lost).Sub(o.Now)
	if left == 0 {
		return -1
	}
	return left
}

// isLate tells that the bound has passed and the content is not applied. It is
// over once it is: how long it took is then history.
func (o Observation) isLate(applied application) bool {
	isApplied := o.Status.AppliedAt != nil || applied.complete && o.Status.Phase == v1alpha1.PhaseDrop
	return !isApplied && o.untilLate() < 0
}

func (o Observation) late(applied application) v1alpha1.Cause {
	waiting := applied.waiting
	if applied.complete {
		waiting = "the objects of the earlier content are not dropped yet"
	}
	return v1alpha1.Cause{Reason: v1alpha1.ReasonSyncLate, Message: fmt.Sprintf(
		"the content is not applied within %d s of its write (health.signals.maxSyncLatencySeconds): %s",
		*o.Status.Rendered.Health.Signals.MaxSyncLatencySeconds, waiting)}
}

// earlier is the earlier of two delays, of which zero and less mean never.
func earlier(a, b time.Duration) time.Duration {
	if a <= 0 || (b > 0 && b < a) {
		return max(0, b)
	}
	return a
}
