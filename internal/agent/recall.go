package agent

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// recollection is what this agent had reported to the hub before it was
// restarted: the only place where it writes anything down. A report of an
// earlier delivery counts for nothing.
type recollection struct {
	mu      sync.RWMutex
	reports map[string]v1alpha1.AgentReport
}

// read takes the reports from the hub, and tries again until the context ends.
func (r *recollection) read(ctx context.Context, addons addonClient, clock clock.WithTicker) {
	for retry := retryFirst; ; retry = min(2*retry, retryLast) {
		err := r.tryRead(ctx, addons)
		if err == nil || ctx.Err() != nil {
			return
		}
		klog.InfoS("Waiting for the hub", "err", err, "retryAfter", retry)
		select {
		case <-ctx.Done():
			return
		case <-clock.After(retry):
		}
	}
}

func (r *recollection) tryRead(ctx context.Context, addons addonClient) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	addon, err := addons.Get(ctx, v1alpha1.AddonName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get ManagedClusterAddOn %s: %w", v1alpha1.AddonName, err)
	}
	reports := map[string]v1alpha1.AgentReport{}
	for _, c := range addon.Status.Conditions {
		if !isOurs(c.Type) {
			continue
		}
		if report, err := v1alpha1.DecodeAgentReport(c.Message); err == nil {
			reports[c.Type] = report
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports = reports
	return nil
}

// of returns what was reported of a delivery, if it was the present one.
func (r *recollection) of(d *v1alpha1.RolloutDelivery) (v1alpha1.AgentReport, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	report, found := r.reports[conditionTypeOf(d)]
	if !found || report.Delivery != d.Spec.Delivery || report.Digest != d.Spec.Revision.Digest {
		return v1alpha1.AgentReport{}, false
	}
	return report, true
}

// driftOf returns the drift that was reported of an object.
func (r *recollection) driftOf(d *deliveries) func(objectKey) []drift {
	return func(key objectKey) []drift {
		var found []drift
		for _, name := range d.ofObject(key) {
			delivery, present := d.get(name)
			if !present {
				continue
			}
			report, known := r.of(delivery)
			if !known {
				continue
			}
			for _, reported := range report.Drift {
				if reported.ObjectReference == key {
					found = append(found, drift{manager: reported.Manager, paths: reported.Paths})
				}
			}
		}
		return found
	}
}
