package controller

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// counted are the deliveries of shop/api that were applied or proven.
func counted(t *testing.T, until string) uint64 {
	t.Helper()
	metric := &dto.Metric{}
	if err := deliverySeconds.WithLabelValues("shop", "api", until).(prometheus.Histogram).Write(metric); err != nil {
		t.Fatal(err)
	}
	return metric.GetHistogram().GetSampleCount()
}

func TestEachDeliveryIsCountedOnceWhenAppliedAndOnceWhenProven(t *testing.T) {
	s := newSite(t)
	forgetMetrics("shop", "api")
	s.preflight()
	s.applyWorks()
	status, _ := s.reconcile()
	if counted(t, "applied") != 1 || counted(t, "proven") != 0 {
		t.Errorf("once applied: %d applied, %d proven", counted(t, "applied"), counted(t, "proven"))
	}
	for _, health := range []v1alpha1.Health{v1alpha1.HealthHealthy, v1alpha1.HealthDegraded, v1alpha1.HealthHealthy} {
		s.report(status, health)
		s.reconcile()
	}
	if counted(t, "applied") != 1 || counted(t, "proven") != 1 {
		t.Errorf("once proven: %d applied, %d proven", counted(t, "applied"), counted(t, "proven"))
	}
	s.restart()
	s.reconcile()
	if counted(t, "proven") != 1 {
		t.Error("a restart counts again")
	}
	forgetMetrics("shop", "api")
	if counted(t, "proven") != 0 {
		t.Error("a rollout that is gone is still counted")
	}
}
