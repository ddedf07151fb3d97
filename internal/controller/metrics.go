package controller

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/delivery"
)

// deliverySeconds is how long clusters take from the write of their works, on
// the hub's clock: until they are applied, and until they are proven. It is per
// rollout, not per cluster: that is on the RolloutDelivery.
var deliverySeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "fleet_rollout_delivery_seconds",
	Help:    "Seconds from the write of a cluster's works until its content is applied, or proven healthy.",
	Buckets: []float64{0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600},
}, []string{"rollout_namespace", "rollout", "until"})

// registerMetrics may be called more than once in a process.
func registerMetrics() error {
	err := metrics.Registry.Register(deliverySeconds)
	if errors.As(err, &prometheus.AlreadyRegisteredError{}) {
		return nil
	}
	return err
}

// observeLatency counts what a delivery's status shows for the first time. A
// status that could not be recorded is not counted.
func observeLatency(record *v1alpha1.RolloutDelivery, before v1alpha1.RolloutDeliveryStatus) {
	after := record.Status
	isNew := before.Delivery != after.Delivery
	if after.AppliedAt != nil && (isNew || before.AppliedAt == nil) {
		observeSeconds(record, "applied", delivery.SyncLatency(record.Spec, after))
	}
	if after.ProvenAt != nil && (isNew || before.ProvenAt == nil) {
		observeSeconds(record, "proven", delivery.ProofLatency(record.Spec, after))
	}
}

func observeSeconds(record *v1alpha1.RolloutDelivery, until string, latency time.Duration) {
	if latency < 0 {
		return
	}
	rollout := record.Spec.Rollout
	deliverySeconds.WithLabelValues(rollout.Namespace, rollout.Name, until).Observe(latency.Seconds())
}

// forgetMetrics drops the series of a rollout that is gone.
func forgetMetrics(namespace, name string) {
	deliverySeconds.DeletePartialMatch(prometheus.Labels{"rollout_namespace": namespace, "rollout": name})
}
