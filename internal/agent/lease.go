package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// leaseRetry is how soon a renewal that failed is tried again, if the interval
// is longer.
const leaseRetry = 5 * time.Second

// leasePatcher writes Leases in this cluster's namespace on the hub.
type leasePatcher interface {
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions,
		subresources ...string) (*coordinationv1.Lease, error)
}

// lease renews the agent's Lease on the hub, which is how the hub knows that
// the reports are alive. It creates nothing: the hub has done so.
type lease struct {
	leases  leasePatcher
	clock   clock.WithTicker
	metrics *Metrics
	holder  string
	fast    time.Duration
	slow    time.Duration
	// isFast tells whether a delivery is fresh.
	isFast func() bool
	// vouches returns an error while the reports must not be believed.
	vouches []func(context.Context) error
	// sooner is signalled when isFast may have become true.
	sooner bell
}

// run renews until the context ends. When a delivery arrives it renews at
// once, so that the hub knows the shorter interval from the start.
func (l *lease) run(ctx context.Context) {
	interval := time.Duration(0)
	for {
		wait := l.interval()
		err := l.renew(ctx, wait)
		l.metrics.renewed(err)
		if err != nil {
			klog.ErrorS(err, "Lease not renewed", "retryAfter", min(wait, leaseRetry))
			interval, wait = 0, min(wait, leaseRetry)
		} else {
			interval = wait
		}
		if !l.rest(ctx, wait, interval) {
			return
		}
	}
}

// rest waits, and no longer once the interval has become shorter than the one
// last written. It returns false when the context has ended.
func (l *lease) rest(ctx context.Context, wait, written time.Duration) bool {
	timer := l.clock.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C():
			return true
		case <-l.sooner:
			if l.interval() < written {
				return true
			}
		}
	}
}

func (l *lease) interval() time.Duration {
	if l.isFast() {
		return l.fast
	}
	return l.slow
}

func (l *lease) renew(ctx context.Context, interval time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for _, vouches := range l.vouches {
		if err := vouches(ctx); err != nil {
			return err
		}
	}
	patch, err := json.Marshal(map[string]any{"spec": coordinationv1.LeaseSpec{
		HolderIdentity:       &l.holder,
		LeaseDurationSeconds: leaseSeconds(interval),
		RenewTime:            &metav1.MicroTime{Time: l.clock.Now()},
	}})
	if err != nil {
		return fmt.Errorf("encode Lease %s: %w", v1alpha1.AgentLeaseName, err)
	}
	if _, err := l.leases.Patch(ctx, v1alpha1.AgentLeaseName, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("renew Lease %s on the hub: %w", v1alpha1.AgentLeaseName, err)
	}
	return nil
}

// leaseSeconds is three intervals, in whole seconds and at least one: so many
// may be missed before the hub counts the agent as not live (law 5).
func leaseSeconds(interval time.Duration) *int32 {
	seconds := int32((3*interval + time.Second - 1) / time.Second)
	return &seconds
}
