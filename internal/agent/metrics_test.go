package agent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// seriesIn counts the series of each metric.
func seriesIn(t *testing.T, registry prometheus.Gatherer) map[string]int {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]int{}
	for _, family := range families {
		series[family.GetName()] = len(family.GetMetric())
	}
	return series
}

func TestSeriesGoWithTheirRollout(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	one, other := v1alpha1.RolloutReference{Namespace: "platform", Name: "payments"}, v1alpha1.RolloutReference{Namespace: "platform", Name: "shop"}
	for _, rollout := range []v1alpha1.RolloutReference{one, other} {
		for _, health := range []v1alpha1.Health{v1alpha1.HealthProgressing, v1alpha1.HealthHealthy} {
			m.evaluated(rollout, v1alpha1.AgentReport{Health: health})
		}
		m.probed(rollout, "payments/api:80", outcome{latency: time.Second})
		m.probed(rollout, "payments/api:80", outcome{failure: "status 503"})
		m.started(rollout, podCounts{started: 3, failed: 1})
	}
	want := map[string]int{
		"fleet_rollout_agent_health": 2, "fleet_rollout_agent_drifted_objects": 2, "fleet_rollout_agent_endpoint_latency_seconds": 2,
		"fleet_rollout_agent_endpoint_probes_total": 4, "fleet_rollout_agent_pod_start_success_ratio": 2,
	}
	if diff := cmp.Diff(want, seriesIn(t, registry)); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	m.forget(one)
	for name := range want {
		want[name] /= 2
	}
	if diff := cmp.Diff(want, seriesIn(t, registry)); diff != "" {
		t.Errorf("series without one rollout (-want +got):\n%s", diff)
	}
	m.started(other, podCounts{})
	if n := seriesIn(t, registry)["fleet_rollout_agent_pod_start_success_ratio"]; n != 0 {
		t.Errorf("%d ratios of no pods", n)
	}
	if _, err := NewMetrics(registry); err == nil {
		t.Error("the same metrics were registered twice")
	}
}

func TestAnAgentWithoutMetricsKeepsNone(*testing.T) {
	var m *Metrics
	m.evaluated(v1alpha1.RolloutReference{}, v1alpha1.AgentReport{})
	m.probed(v1alpha1.RolloutReference{}, "", outcome{})
	m.started(v1alpha1.RolloutReference{}, podCounts{})
	m.reported(nil)
	m.renewed(nil)
	m.forget(v1alpha1.RolloutReference{})
}
