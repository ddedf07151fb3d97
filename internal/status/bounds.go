package status

import (
	"unicode/utf8"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

const ellipsis = "…"

// Bounded cuts a message to v1alpha1.MaxMessageLength bytes, at a rune's
// boundary. That is also the most that the Event API takes.
func Bounded(message string) string {
	if len(message) <= v1alpha1.MaxMessageLength {
		return message
	}
	cut := v1alpha1.MaxMessageLength - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(message[cut]) {
		cut--
	}
	return message[:cut] + ellipsis
}

// equal compares by meaning: an empty list equals an absent one, and times are
// compared as moments.
func equal(a, b v1alpha1.FleetRolloutStatus) bool {
	return apiequality.Semantic.DeepEqual(a, b)
}
