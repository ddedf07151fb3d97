package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

const (
	// wordingEvery bounds how often a report is written of which only the words
	// changed, as "1 of 3 replicas" does with each replica.
	wordingEvery = 5 * time.Second
	// retryFirst grows to retryLast while the hub does not take a report.
	retryFirst = 500 * time.Millisecond
	retryLast  = 30 * time.Second
	// vouchFor is how long the Lease is renewed although a changed report is
	// not written, or a delivery not evaluated. Beyond it the hub would go by a
	// report that is no longer true.
	vouchFor = 30 * time.Second
	// requestTimeout bounds one request to the hub.
	requestTimeout = 15 * time.Second
	// conflictRetries bounds how often a write is repeated at once because
	// somebody else wrote the addon.
	conflictRetries = 5
)

// addonClient reads and writes this cluster's ManagedClusterAddOn.
type addonClient interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*addonv1alpha1.ManagedClusterAddOn, error)
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions,
		subresources ...string) (*addonv1alpha1.ManagedClusterAddOn, error)
}

// judgement reports on a delivery, or returns false while it cannot know.
type judgement func(*v1alpha1.RolloutDelivery) (v1alpha1.AgentReport, bool)

// reporter keeps the conditions of the ManagedClusterAddOn true. What may have
// changed is marked; one goroutine evaluates what is marked and writes all
// changes with one request.
type reporter struct {
	addons     addonClient
	deliveries *deliveries
	judge      judgement
	clock      clock.WithTicker
	resync     time.Duration
	metrics    *Metrics

	wake bell

	mu sync.Mutex
	// marked deliveries are evaluated by the next pass.
	marked sets.Set[string]
	// behindSince is since when the written reports may be untrue; zero while
	// they are known to be true.
	behindSince time.Time

	// caughtUp is closed when the reports have been true for the first time.
	caughtUp chan struct{}
	catchUp  sync.Once

	// The rest belongs to the goroutine of run.
	addon      *addonv1alpha1.ManagedClusterAddOn
	ours       map[string]metav1.Condition
	unsettled  sets.Set[string]
	wordsAt    time.Time
	retryAfter time.Duration
}

func newReporter(addons addonClient, d *deliveries, judge judgement, clock clock.WithTicker) *reporter {
	return &reporter{
		addons: addons, deliveries: d, judge: judge, clock: clock, resync: 5 * time.Minute,
		wake: newBell(), marked: sets.New[string](), behindSince: clock.Now(), caughtUp: make(chan struct{}),
		ours: map[string]metav1.Condition{}, unsettled: sets.New[string](),
	}
}

// mark asks for the deliveries to be evaluated. It does not block.
func (r *reporter) mark(names ...string) {
	r.mu.Lock()
	r.marked.Insert(names...)
	if r.behindSince.IsZero() {
		r.behindSince = r.clock.Now()
	}
	r.mu.Unlock()
	r.wake.ring()
}

// objectChanged implements observer.
func (r *reporter) objectChanged(key objectKey) {
	if names := r.deliveries.ofObject(key); len(names) > 0 {
		r.mark(names...)
	}
}

// kindChanged implements observer.
func (r *reporter) kindChanged(kind schema.GroupVersionKind) {
	r.mark(r.deliveries.ofKind(judgedBy(kind))...)
}

// run reports until the context ends. The deliveries must be complete before.
func (r *reporter) run(ctx context.Context) {
	resync := r.clock.NewTicker(r.resync)
	defer resync.Stop()
	r.mark(r.deliveries.names()...)
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-again:
		case <-resync.C():
			r.addon = nil
			r.mark(r.deliveries.names()...)
			continue
		}
		again = nil
		if wait := r.pass(ctx); wait > 0 {
			again = r.clock.After(wait)
		}
	}
}

// pass evaluates what is marked and writes what changed. It returns after what
// time it must be repeated though nothing is marked; zero for never.
func (r *reporter) pass(ctx context.Context) time.Duration {
	r.evaluateMarked()
	wait, err := r.publish(ctx)
	if err != nil {
		r.retryAfter = min(max(2*r.retryAfter, retryFirst), retryLast)
		klog.ErrorS(err, "Cannot report to the hub", "retryAfter", r.retryAfter)
		r.fallBehind()
		return r.retryAfter
	}
	r.retryAfter = 0
	if r.unsettled.Len() > 0 {
		r.fallBehind()
	} else {
		r.keepUp()
	}
	return wait
}

func (r *reporter) evaluateMarked() {
	r.mu.Lock()
	names := sets.List(r.marked)
	r.marked.Clear()
	r.mu.Unlock()
	for _, name := range names {
		r.unsettled.Delete(name)
		delivery, found := r.deliveries.get(name)
		if !found || !canEvaluate(delivery) {
			continue
		}
		report, known := r.judge(delivery)
		if !known {
			r.unsettled.Insert(name)
			continue
		}
		c, err := conditionOf(conditionTypeOf(delivery), report)
		if err != nil {
			klog.ErrorS(err, "Cannot report", "delivery", name)
			continue
		}
		r.ours[c.Type] = c
	}
}

// publish writes the conditions that changed. It returns after what time to
// come again for words that are not worth a write yet.
func (r *reporter) publish(ctx context.Context) (time.Duration, error) {
	present := r.deliveries.conditionTypes()
	for conditionType := range r.ours {
		if !present.Has(conditionType) {
			delete(r.ours, conditionType)
		}
	}
	var err error
	for range conflictRetries {
		var wait time.Duration
		wait, err = r.tryPublish(ctx, present)
		if err == nil {
			return wait, nil
		}
		// Whatever went wrong, what is known of the addon may be old.
		r.addon = nil
		if !apierrors.IsConflict(err) {
			break
		}
	}
	return 0, err
}

func (r *reporter) tryPublish(ctx context.Context, present sets.Set[string]) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if r.addon == nil {
		addon, err := r.addons.Get(ctx, v1alpha1.AddonName, metav1.GetOptions{})
		if err != nil {
			return 0, fmt.Errorf("get ManagedClusterAddOn %s: %w", v1alpha1.AddonName, err)
		}
		r.addon = addon
	}
	conditions, change := mergeConditions(r.addon.Status.Conditions, r.ours, present)
	switch {
	case change == unchanged:
		return 0, nil
	case change == wording && r.clock.Since(r.wordsAt) < wordingEvery:
		return wordingEvery - r.clock.Since(r.wordsAt), nil
	}
	patch, err := statusPatch(r.addon, conditions)
	if err != nil {
		return 0, err
	}
	written, err := r.addons.Patch(ctx, v1alpha1.AddonName, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	r.metrics.reported(err)
	if err != nil {
		return 0, fmt.Errorf("patch status of ManagedClusterAddOn %s: %w", v1alpha1.AddonName, err)
	}
	klog.V(2).InfoS("Reported", "conditions", len(r.ours))
	r.addon, r.wordsAt = written, r.clock.Now()
	return 0, nil
}

// fallBehind notes that the written reports may be untrue from now on.
func (r *reporter) fallBehind() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.behindSince.IsZero() {
		r.behindSince = r.clock.Now()
	}
}

// keepUp notes that the written reports are true. What was marked meanwhile is
// behind from now on.
func (r *reporter) keepUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.behindSince = time.Time{}
	if r.marked.Len() > 0 {
		r.behindSince = r.clock.Now()
	}
	r.catchUp.Do(func() { close(r.caughtUp) })
}

// vouches returns an error while the hub must not believe the written reports,
// because a change could not be reported for too long.
func (r *reporter) vouches() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.behindSince.IsZero() || r.clock.Since(r.behindSince) < vouchFor {
		return nil
	}
	return fmt.Errorf("the reports on the hub may have been out of date for %s", r.clock.Since(r.behindSince).Round(time.Second))
}
