package controller

import (
	"context"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/rollout"
)

// maxEventMessage is the most that the Event API takes, in bytes.
const maxEventMessage = 1024

// announce tells people and the log what has happened. It is called once the
// facts behind the events are persisted.
func (r *RolloutReconciler) announce(ctx context.Context, fro *v1alpha1.FleetRollout, events []rollout.Event) {
	for _, event := range events {
		severity := corev1.EventTypeNormal
		if event.Warning {
			severity = corev1.EventTypeWarning
		}
		message := cut(event.Message, maxEventMessage)
		r.Recorder.Event(fro, severity, event.Reason, message)
		log.FromContext(ctx).Info("Decided", "reason", event.Reason, "message", message)
	}
}

// cut shortens a message to a number of bytes, at a rune's boundary.
func cut(message string, most int) string {
	if len(message) <= most {
		return message
	}
	const ellipsis = "…"
	end := most - len(ellipsis)
	for end > 0 && !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end] + ellipsis
}
