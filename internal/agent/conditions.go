package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// conditionOf is the report as a condition.
func conditionOf(conditionType string, report v1alpha1.AgentReport) (metav1.Condition, error) {
	message, err := report.Encode()
	if err != nil {
		return metav1.Condition{}, err
	}
	status := metav1.ConditionUnknown
	switch report.Health {
	case v1alpha1.HealthHealthy:
		status = metav1.ConditionTrue
	case v1alpha1.HealthDegraded, v1alpha1.HealthFailed:
		status = metav1.ConditionFalse
	}
	return metav1.Condition{Type: conditionType, Status: status, Reason: string(report.Health), Message: message}, nil
}

// isOurs tells whether a condition of the ManagedClusterAddOn is one of ours.
func isOurs(conditionType string) bool {
	return strings.HasPrefix(conditionType, v1alpha1.GroupName+"/")
}

// urgency says how soon changed conditions must be written.
type urgency int

const (
	// unchanged: there is nothing to write.
	unchanged urgency = iota
	// wording: only words for people changed. It may wait for company.
	wording
	// substance: something that the hub decides by changed.
	substance
)

// mergeConditions puts our conditions into those that the addon has: foreign
// ones stay as they are and where they are; ours that belong to no present
// delivery go.
func mergeConditions(
	have []metav1.Condition, ours map[string]metav1.Condition, present sets.Set[string],
) ([]metav1.Condition, urgency) {
	change := unchanged
	merged := make([]metav1.Condition, 0, len(have)+len(ours))
	for _, c := range have {
		if isOurs(c.Type) && !present.Has(c.Type) {
			change = substance
			continue
		}
		merged = append(merged, c)
	}
	for _, conditionType := range sets.List(sets.KeySet(ours)) {
		wanted := ours[conditionType]
		found := meta.FindStatusCondition(merged, conditionType)
		change = max(change, urgencyOf(found, wanted))
		meta.SetStatusCondition(&merged, wanted)
	}
	return merged, change
}

// urgencyOf compares a condition with the one that shall replace it.
func urgencyOf(have *metav1.Condition, wanted metav1.Condition) urgency {
	if have == nil || have.Status != wanted.Status || have.Reason != wanted.Reason {
		return substance
	}
	if have.Message == wanted.Message {
		return unchanged
	}
	before, err := v1alpha1.DecodeAgentReport(have.Message)
	if err != nil {
		return substance
	}
	after, err := v1alpha1.DecodeAgentReport(wanted.Message)
	if err != nil {
		return substance
	}
	if equality.Semantic.DeepEqual(withoutWords(before), withoutWords(after)) {
		return wording
	}
	return substance
}

// withoutWords is a report without what only people read.
func withoutWords(r v1alpha1.AgentReport) v1alpha1.AgentReport {
	r.Text, r.Unhealthy, r.Truncated = "", nil, false
	r.Endpoints = slices.Clone(r.Endpoints)
	for i := range r.Endpoints {
		r.Endpoints[i].Message, r.Endpoints[i].LatencyMilliseconds = "", nil
	}
	return r
}

// statusPatch replaces the conditions, on the condition that nobody else wrote
// the addon since it was read: a merge patch replaces the whole list, and
// OCM's own conditions are in it.
func statusPatch(addon *addonv1alpha1.ManagedClusterAddOn, conditions []metav1.Condition) ([]byte, error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": addon.UID, "resourceVersion": addon.ResourceVersion},
		"status":   map[string]any{"conditions": conditions},
	})
	if err != nil {
		return nil, fmt.Errorf("encode conditions of ManagedClusterAddOn %s/%s: %w", addon.Namespace, addon.Name, err)
	}
	return patch, nil
}
