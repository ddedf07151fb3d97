package agent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

const ourType = "rollout.open-cluster-management.io/platform.payments"

func reported(t *testing.T, change func(*v1alpha1.AgentReport)) metav1.Condition {
	t.Helper()
	report := v1alpha1.AgentReport{
		Digest: "sha256:r1", Delivery: 1, Health: v1alpha1.HealthProgressing, Objects: 1, Text: "1 of 3 replicas available",
		Unhealthy: []v1alpha1.ObjectHealth{{Health: v1alpha1.HealthProgressing, Message: "1 of 3 replicas available"}},
	}
	if change != nil {
		change(&report)
	}
	c, err := conditionOf(ourType, report)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConditionsCarryTheHealth(t *testing.T) {
	want := map[v1alpha1.Health]metav1.ConditionStatus{
		v1alpha1.HealthHealthy:     metav1.ConditionTrue,
		v1alpha1.HealthDegraded:    metav1.ConditionFalse,
		v1alpha1.HealthFailed:      metav1.ConditionFalse,
		v1alpha1.HealthProgressing: metav1.ConditionUnknown,
		v1alpha1.HealthSuspended:   metav1.ConditionUnknown,
	}
	for health, status := range want {
		c := reported(t, func(r *v1alpha1.AgentReport) { r.Health = health })
		if c.Status != status || c.Reason != string(health) {
			t.Errorf("%s became %s %s, want %s", health, c.Status, c.Reason, status)
		}
	}
}

func TestWhatAChangeOfAReportIsWorth(t *testing.T) {
	cases := []struct {
		name   string
		change func(*v1alpha1.AgentReport)
		want   urgency
	}{
		{"nothing", nil, unchanged},
		{"other words", func(r *v1alpha1.AgentReport) {
			r.Text, r.Unhealthy[0].Message = "2 of 3 replicas available", "2 of 3 replicas available"
		}, wording},
		{"another health", func(r *v1alpha1.AgentReport) { r.Health = v1alpha1.HealthHealthy }, substance},
		{"another delivery", func(r *v1alpha1.AgentReport) { r.Delivery++ }, substance},
		{"another digest", func(r *v1alpha1.AgentReport) { r.Digest = "sha256:r2" }, substance},
		{"a job that completed", func(r *v1alpha1.AgentReport) { r.CompletedJobs = []string{"payments/migrate"} }, substance},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			before := reported(t, nil)
			if got := urgencyOf(&before, reported(t, c.change)); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
	t.Run("a message that nobody understands is replaced", func(t *testing.T) {
		before := reported(t, nil)
		before.Message = "{"
		if got := urgencyOf(&before, reported(t, nil)); got != substance {
			t.Errorf("got %d, want %d", got, substance)
		}
	})
	t.Run("a report that is not there yet is written", func(t *testing.T) {
		if got := urgencyOf(nil, reported(t, nil)); got != substance {
			t.Errorf("got %d, want %d", got, substance)
		}
	})
}

func TestForeignConditionsStayAndOursOfDeliveriesThatAreGoneGo(t *testing.T) {
	then := metav1.Time{Time: time.Unix(1, 0)}
	foreign := metav1.Condition{Type: "Available", Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: then}
	gone := metav1.Condition{Type: v1alpha1.GroupName + "/platform.gone", Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: then}
	kept := metav1.Condition{Type: v1alpha1.GroupName + "/platform.kept", Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: then}
	fresh := reported(t, nil)

	got, change := mergeConditions(
		[]metav1.Condition{gone, foreign, kept},
		map[string]metav1.Condition{ourType: fresh},
		sets.New(ourType, kept.Type))

	if change != substance {
		t.Errorf("the change is %d, want %d", change, substance)
	}
	var types []string
	for _, c := range got {
		types = append(types, c.Type)
	}
	if diff := cmp.Diff([]string{"Available", kept.Type, ourType}, types); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(foreign, got[0]); diff != "" {
		t.Errorf("the foreign condition (-want +got):\n%s", diff)
	}
}

func TestNothingIsWrittenWhenNothingChanged(t *testing.T) {
	have, _ := mergeConditions(nil, map[string]metav1.Condition{ourType: reported(t, nil)}, sets.New(ourType))
	if _, change := mergeConditions(have, map[string]metav1.Condition{ourType: reported(t, nil)}, sets.New(ourType)); change != unchanged {
		t.Errorf("the change is %d, want none", change)
	}
}

func TestAnEndpointsHealthIsSubstanceAndItsWordsAreNot(t *testing.T) {
	report := func(health v1alpha1.Health, message string, latency *int32) metav1.Condition {
		c, err := conditionOf(ourType, v1alpha1.AgentReport{Digest: "sha256:r2", Delivery: 7, Health: v1alpha1.HealthDegraded,
			Endpoints: []v1alpha1.EndpointHealth{{Endpoint: "payments/api:80", Health: health, Message: message, LatencyMilliseconds: latency}}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	before := report(v1alpha1.HealthDegraded, "status 503", nil)
	if got := urgencyOf(&before, report(v1alpha1.HealthDegraded, "connection refused", ptr.To[int32](3))); got != wording {
		t.Errorf("other words: %v, want %v", got, wording)
	}
	if got := urgencyOf(&before, report(v1alpha1.HealthHealthy, "", nil)); got != substance {
		t.Errorf("another health: %v, want %v", got, substance)
	}
}
