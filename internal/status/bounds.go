package status

import (
	"unicode/utf8"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

const ellipsis = "…"

// bounded cuts a message to MaxMessageLength bytes, at a rune's boundary.
func bounded(message string) string {
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
