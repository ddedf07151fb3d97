package delivery

import (
	"fmt"
	"strings"
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

// The bounds of what status holds of a report.
const (
	maxDrift        = 10
	maxDriftPaths   = 5
	maxSuspended    = 10
	maxEndpoints    = 16
	maxPathBytes    = 256
	maxEndpointName = 140
)

// take enters what a report says beside the health of objects into status.
func take(status *v1alpha1.RolloutDeliveryStatus, report v1alpha1.AgentReport) {
	status.SuspendedObjects = report.Suspended[:min(len(report.Suspended), maxSuspended)]
	status.Drift, status.Endpoints = nil, nil
	for _, drift := range report.Drift[:min(len(report.Drift), maxDrift)] {
		drift.Manager = cut(drift.Manager, maxPathBytes)
		paths := drift.Paths[:min(len(drift.Paths), maxDriftPaths)]
		drift.Paths = nil
		for _, path := range paths {
			drift.Paths = append(drift.Paths, cut(path, maxPathBytes))
		}
		status.Drift = append(status.Drift, drift)
	}
	for _, endpoint := range report.Endpoints[:min(len(report.Endpoints), maxEndpoints)] {
		endpoint.Endpoint = cut(endpoint.Endpoint, maxEndpointName)
		endpoint.Message = cut(endpoint.Message, maxObjectMessage)
		status.Endpoints = append(status.Endpoints, endpoint)
	}
}

// remarks are what people should know of a healthy cluster.
func remarks(report *v1alpha1.AgentReport) string {
	text := ""
	if len(report.Drift) > 0 {
		text += "; drift: " + DescribeDrift(report.Drift)
	}
	if len(report.Suspended) > 0 {
		text += fmt.Sprintf("; suspended on purpose: %s%s", describe(report.Suspended[0]), andMore(len(report.Suspended)-1))
	}
	return text
}

// DescribeDrift says who has taken which fields of the first object that drifts,
// and how many more do. It is empty if none does.
func DescribeDrift(drift []v1alpha1.ObjectDrift) string {
	if len(drift) == 0 {
		return ""
	}
	first := drift[0]
	fields := "fields"
	if len(first.Paths) > 0 {
		fields = strings.Join(first.Paths, ", ")
	}
	return fmt.Sprintf("%s has taken %s of %s%s", first.Manager, fields, describe(first.ObjectReference), andMore(len(drift)-1))
}

func andMore(n int) string {
	if n < 1 {
		return ""
	}
	return fmt.Sprintf(", and %d more", n)
}

// worst names the first of the unhealthy objects.
func worst(objects []v1alpha1.ObjectHealth) string {
	const most = 400
	if len(objects) == 0 {
		return ""
	}
	return cut(fmt.Sprintf("%s (%s)", describe(objects[0].ObjectReference), objects[0].Health), most)
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
