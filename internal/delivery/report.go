package delivery

import (
	"fmt"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// maxObjectMessage is how many bytes a message about one object may have.
const maxObjectMessage = 512

// report reads the agent's report on the delivery that the spec is about. A nil
// report comes with what is the matter: anything older, missing, contradicting
// itself or unparsable is "not yet", never "healthy" (law 5).
func (o Observation) report() (*v1alpha1.AgentReport, string) {
	condition := o.Agent.Condition
	if condition == nil {
		return nil, "the agent has not reported yet"
	}
	report, err := v1alpha1.DecodeAgentReport(condition.Message)
	if err != nil {
		return nil, fmt.Sprintf("the agent's report cannot be read: %v", err)
	}
	if report.Digest != o.Spec.Revision.Digest || report.Delivery != o.Spec.Delivery {
		return nil, fmt.Sprintf("the agent's last report is about delivery %d, not yet about %d", report.Delivery, o.Spec.Delivery)
	}
	switch report.Health {
	case v1alpha1.HealthHealthy:
		if condition.Status != metav1.ConditionTrue {
			return nil, fmt.Sprintf("the agent's report says Healthy in a condition that is %s", condition.Status)
		}
	case v1alpha1.HealthProgressing, v1alpha1.HealthDegraded, v1alpha1.HealthFailed, v1alpha1.HealthSuspended:
	default:
		return nil, fmt.Sprintf("the agent's report says %q, which this manager does not know", report.Health)
	}
	return &report, ""
}

// words of a report for people: its line of text, or else its first object.
func words(report *v1alpha1.AgentReport) string {
	if report.Text != "" {
		return report.Text
	}
	if len(report.Unhealthy) > 0 {
		first := report.Unhealthy[0]
		return fmt.Sprintf("%s: %s", describe(first.ObjectReference), first.Message)
	}
	return fmt.Sprintf("the agent reports %s", report.Health)
}

// named bounds a list of unhealthy objects to what status holds.
func named(objects []v1alpha1.ObjectHealth) []v1alpha1.ObjectHealth {
	if len(objects) == 0 {
		return nil
	}
	objects = objects[:min(len(objects), v1alpha1.MaxUnhealthyObjects)]
	bounded := make([]v1alpha1.ObjectHealth, len(objects))
	for i, object := range objects {
		object.Message = cut(object.Message, maxObjectMessage)
		bounded[i] = object
	}
	return bounded
}

// cut shortens text to at most limit bytes, between two characters.
func cut(text string, limit int) string {
	const more = "…"
	if len(text) <= limit {
		return text
	}
	end := limit - len(more)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}
