package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/rollout"
	"open-cluster-management.io/fleet-rollout/internal/status"
)

// announce tells people and the log what has happened. It is called once the
// facts behind the events are persisted.
func (r *RolloutReconciler) announce(ctx context.Context, fro *v1alpha1.FleetRollout, events []rollout.Event) {
	for _, event := range events {
		severity := corev1.EventTypeNormal
		if event.Warning {
			severity = corev1.EventTypeWarning
		}
		message := status.Bounded(event.Message)
		r.Recorder.Event(fro, severity, event.Reason, message)
		log.FromContext(ctx).Info("Decided", "reason", event.Reason, "message", message)
	}
}
