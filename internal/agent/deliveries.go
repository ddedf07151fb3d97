package agent

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// deliveries are the RolloutDeliveries of this cluster as the hub shows them,
// with what must be found quickly: whom an object or a kind concerns, and until
// when the Lease is to be renewed often.
type deliveries struct {
	clock clock.PassiveClock

	mu      sync.RWMutex
	entries map[string]entry
	objects map[objectKey]sets.Set[string]
	kinds   map[schema.GroupVersionKind]sets.Set[string]
}

// entry is one delivery, and when its present number was seen first: on this
// process's monotonic clock, because the hub's clock is another machine's.
type entry struct {
	delivery *v1alpha1.RolloutDelivery
	seenAt   time.Time
}

func newDeliveries(clock clock.PassiveClock) *deliveries {
	return &deliveries{
		clock: clock, entries: map[string]entry{},
		objects: map[objectKey]sets.Set[string]{}, kinds: map[schema.GroupVersionKind]sets.Set[string]{},
	}
}

// put takes a delivery over. It returns false if nothing that concerns the
// agent has changed: each of its reports comes back as a change of status.
func (d *deliveries) put(delivery *v1alpha1.RolloutDelivery) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, known := d.entries[delivery.Name]
	now := entry{delivery: delivery, seenAt: d.clock.Now()}
	if known && before.delivery.UID == delivery.UID && before.delivery.Spec.Delivery == delivery.Spec.Delivery {
		now.seenAt = before.seenAt
	}
	d.entries[delivery.Name] = now
	if known && before.delivery.UID == delivery.UID && isPreflight(before.delivery) == isPreflight(delivery) &&
		equality.Semantic.DeepEqual(before.delivery.Spec, delivery.Spec) &&
		equality.Semantic.DeepEqual(before.delivery.Status.Rendered, delivery.Status.Rendered) {
		return false
	}
	d.index()
	return true
}

// remove drops a delivery that is gone from the hub.
func (d *deliveries) remove(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.entries, name)
	d.index()
}

// index is rebuilt as a whole: deliveries of one cluster are few, and their
// content changes rarely.
func (d *deliveries) index() {
	clear(d.objects)
	clear(d.kinds)
	for name, e := range d.entries {
		if !isWatched(e.delivery) {
			continue
		}
		for _, object := range e.delivery.Status.Rendered.Objects {
			add(d.objects, object.ObjectReference, name)
			add(d.kinds, kindOf(object.ObjectReference), name)
		}
	}
}

func add[K comparable](index map[K]sets.Set[string], key K, name string) {
	if index[key] == nil {
		index[key] = sets.New[string]()
	}
	index[key].Insert(name)
}

func (d *deliveries) get(name string) (*v1alpha1.RolloutDelivery, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	e, found := d.entries[name]
	return e.delivery, found
}

func (d *deliveries) names() []string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return sets.List(sets.KeySet(d.entries))
}

func (d *deliveries) ofObject(key objectKey) []string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return sets.List(d.objects[key])
}

func (d *deliveries) ofKind(kind schema.GroupVersionKind) []string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return sets.List(d.kinds[kind])
}

// wantedKinds are the kinds that the present deliveries contain, and what their
// judgement needs beside, each with how much of an object must be read.
func (d *deliveries) wantedKinds() map[schema.GroupVersionKind]extent {
	d.mu.RLock()
	defer d.mu.RUnlock()
	wanted := map[schema.GroupVersionKind]extent{}
	for kind := range withSlices(sets.KeySet(d.kinds)) {
		wanted[kind] = extentOf(kind)
	}
	for _, e := range d.entries {
		if !isWatched(e.delivery) {
			continue
		}
		for _, object := range e.delivery.Status.Rendered.Objects {
			kind := kindOf(object.ObjectReference)
			if isCut(kind) && isChecked(e.delivery, object.ObjectReference) {
				wanted[kind] = everything
			}
		}
	}
	return wanted
}

// isWatched tells whether the objects of a delivery are followed: those that were
// rendered last, also while a newer intent is not rendered yet. Most of them stay,
// and what is known of their past would be lost with their watch: since when they
// have their content, which Jobs completed, what was said about earlier content.
func isWatched(d *v1alpha1.RolloutDelivery) bool {
	return d.Status.Rendered != nil && d.Spec.Removal == ""
}

// isChecked tells whether a check of the delivery's policy targets an object.
func isChecked(d *v1alpha1.RolloutDelivery, ref objectKey) bool {
	for _, check := range d.Status.Rendered.Health.Checks {
		if check.Target.Matches(ref) {
			return true
		}
	}
	return false
}

// conditionTypes are the types of the conditions of the present deliveries.
func (d *deliveries) conditionTypes() sets.Set[string] {
	d.mu.RLock()
	defer d.mu.RUnlock()
	types := sets.New[string]()
	for _, e := range d.entries {
		types.Insert(conditionTypeOf(e.delivery))
	}
	return types
}

// isFast tells whether some delivery is so fresh that its Lease is to be
// renewed often.
func (d *deliveries) isFast() bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, e := range d.entries {
		if d.clock.Since(e.seenAt) < time.Duration(e.delivery.Spec.FastLeaseSeconds)*time.Second {
			return true
		}
	}
	return false
}

func conditionTypeOf(d *v1alpha1.RolloutDelivery) string {
	return v1alpha1.ConditionType(d.Spec.Rollout.Namespace, d.Spec.Rollout.Name)
}
