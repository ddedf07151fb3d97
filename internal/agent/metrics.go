package agent

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// Metrics of the agent. Their series are bounded by what the cluster has: one
// for each of its rollouts, and one for each endpoint that a rollout names (at
// most 16). They go with the rollout.
type Metrics struct {
	health   *prometheus.GaugeVec
	drifted  *prometheus.GaugeVec
	latency  *prometheus.GaugeVec
	probes   *prometheus.CounterVec
	podStart *prometheus.GaugeVec
	reports  *prometheus.CounterVec
	renewals *prometheus.CounterVec
}

const (
	labelNamespace = "rollout_namespace"
	labelName      = "rollout_name"
	labelEndpoint  = "endpoint"
	labelResult    = "result"
	labelHealth    = "health"

	resultOK    = "success"
	resultError = "error"
)

// NewMetrics makes the metrics and registers them. It returns an error if one
// of their names is taken.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	ofRollout := []string{labelNamespace, labelName}
	m := &Metrics{
		health: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fleet_rollout_agent_health",
			Help: "1 for the health that was evaluated last of each rollout on this cluster.",
		}, append(ofRollout, labelHealth)),
		drifted: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fleet_rollout_agent_drifted_objects",
			Help: "Delivered objects of which another field manager has taken fields; counted up to 10.",
		}, ofRollout),
		latency: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fleet_rollout_agent_endpoint_latency_seconds",
			Help: "How long the last answer of an endpoint took.",
		}, append(ofRollout, labelEndpoint)),
		probes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fleet_rollout_agent_endpoint_probes_total",
			Help: "Probes of an endpoint, by result.",
		}, append(ofRollout, labelEndpoint, labelResult)),
		podStart: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fleet_rollout_agent_pod_start_success_ratio",
			Help: "Share of the pods created since the content arrived that started, of those that started or failed to.",
		}, ofRollout),
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fleet_rollout_agent_reports_total",
			Help: "Writes of reports to the hub, by result.",
		}, []string{labelResult}),
		renewals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fleet_rollout_agent_lease_renewals_total",
			Help: "Renewals of the Lease on the hub, by result.",
		}, []string{labelResult}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.health, m.drifted, m.latency, m.probes, m.podStart, m.reports, m.renewals} {
		errs = append(errs, registry.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

func seriesOf(r v1alpha1.RolloutReference) prometheus.Labels {
	return prometheus.Labels{labelNamespace: r.Namespace, labelName: r.Name}
}

// evaluated takes over a report.
func (m *Metrics) evaluated(r v1alpha1.RolloutReference, report v1alpha1.AgentReport) {
	if m == nil {
		return
	}
	m.health.DeletePartialMatch(seriesOf(r))
	m.health.WithLabelValues(r.Namespace, r.Name, string(report.Health)).Set(1)
	m.drifted.WithLabelValues(r.Namespace, r.Name).Set(float64(len(report.Drift)))
}

func (m *Metrics) probed(r v1alpha1.RolloutReference, endpoint string, found outcome) {
	if m == nil {
		return
	}
	if found.failure != "" {
		m.probes.WithLabelValues(r.Namespace, r.Name, endpoint, resultError).Inc()
		return
	}
	m.probes.WithLabelValues(r.Namespace, r.Name, endpoint, resultOK).Inc()
	m.latency.WithLabelValues(r.Namespace, r.Name, endpoint).Set(found.latency.Seconds())
}

// started takes over how many of the new pods started; nothing is known while
// there are none.
func (m *Metrics) started(r v1alpha1.RolloutReference, counts podCounts) {
	if m == nil {
		return
	}
	if counts.total() == 0 {
		m.podStart.DeletePartialMatch(seriesOf(r))
		return
	}
	m.podStart.WithLabelValues(r.Namespace, r.Name).Set(float64(counts.started) / float64(counts.total()))
}

func (m *Metrics) reported(err error) {
	if m != nil {
		m.reports.WithLabelValues(resultOf(err)).Inc()
	}
}

func (m *Metrics) renewed(err error) {
	if m != nil {
		m.renewals.WithLabelValues(resultOf(err)).Inc()
	}
}

func resultOf(err error) string {
	if err != nil {
		return resultError
	}
	return resultOK
}

// forgetEndpoints drops the endpoints of a rollout.
func (m *Metrics) forgetEndpoints(r v1alpha1.RolloutReference) {
	if m == nil {
		return
	}
	m.latency.DeletePartialMatch(seriesOf(r))
	m.probes.DeletePartialMatch(seriesOf(r))
}

// forget drops all that is about a rollout.
func (m *Metrics) forget(r v1alpha1.RolloutReference) {
	if m == nil {
		return
	}
	m.forgetEndpoints(r)
	m.health.DeletePartialMatch(seriesOf(r))
	m.drifted.DeletePartialMatch(seriesOf(r))
	m.podStart.DeletePartialMatch(seriesOf(r))
}
