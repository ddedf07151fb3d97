package agent

import (
	"bytes"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

const (
	// maxDrift and maxDriftPaths are the bounds of the API.
	maxDrift      = 10
	maxDriftPaths = 5
	maxDriftPath  = 256
	maxManager    = 256
	// nobody is reported for a field of ours that is gone: the one who removes a
	// field does not own it afterwards.
	nobody = "unknown"
)

// drift is what one other field manager has taken from an object.
type drift struct {
	manager string
	paths   []string
}

// ownerships remember which fields of each object were applied by us, and see
// when others take some of them. The content is not known to the agent, but
// managedFields tell it: an apply that forces owns every field of the content,
// and whoever changes the value of one afterwards takes it out of that set. A
// field that others merely add was never in it.
//
// Only the encoded set is kept, and it is parsed only when it has changed.
type ownerships struct {
	// recall is what the agent reported of an object before it was restarted. It
	// may be nil.
	recall func(types.NamespacedName) []drift

	mu      sync.Mutex
	objects map[types.NamespacedName]ownership
}

type ownership struct {
	uid   types.UID
	stamp string
	// applied are all fields that were ours since the content arrived, encoded
	// as in managedFields.
	applied []byte
	// arrivedAt is when the content arrived, on the clock of the cluster's API.
	arrivedAt metav1.Time
	drifts    []drift
}

func newOwnerships() *ownerships {
	return &ownerships{objects: map[types.NamespacedName]ownership{}}
}

// observe takes over the managedFields of a live object.
func (o *ownerships) observe(object metav1.Object) {
	entries := object.GetManagedFields()
	if len(entries) == 0 {
		// Taken over and stripped before.
		return
	}
	key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	ours := entryOfOurs(entries)

	o.mu.Lock()
	defer o.mu.Unlock()
	before, known := o.objects[key]
	now := before
	if !known || before.uid != object.GetUID() || isNewContent(before, object, ours) {
		now = ownership{uid: object.GetUID(), stamp: stamp(object), arrivedAt: arrival(object, ours)}
		if ours != nil {
			now.applied = bytes.Clone(ours.FieldsV1.Raw)
		}
		if !known && o.recall != nil {
			now.applied = withRecalled(now.applied, entries, o.recall(key))
		}
	}
	now.compare(entries, ours)
	o.objects[key] = now
}

// of returns what is known of an object; nothing if it is another one.
func (o *ownerships) of(object metav1.Object) ownership {
	o.mu.Lock()
	defer o.mu.Unlock()
	found := o.objects[types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}]
	if found.uid != object.GetUID() || found.stamp != stamp(object) {
		return ownership{}
	}
	return found
}

// forget drops an object that is gone, unless it is there anew.
func (o *ownerships) forget(object metav1.Object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	if o.objects[key].uid == object.GetUID() {
		delete(o.objects, key)
	}
}

// isNewContent tells whether we have applied other content. A stamp that
// somebody else has changed is not ours any more.
func isNewContent(before ownership, object metav1.Object, ours *metav1.ManagedFieldsEntry) bool {
	return before.stamp != stamp(object) && ours != nil &&
		bytes.Contains(ours.FieldsV1.Raw, []byte(`"f:`+v1alpha1.AnnotationContentHash+`"`))
}

// arrival is when the present content arrived. The time of our entry does not
// change when others take fields from it.
func arrival(object metav1.Object, ours *metav1.ManagedFieldsEntry) metav1.Time {
	if ours == nil || ours.Time == nil {
		return object.GetCreationTimestamp()
	}
	return *ours.Time
}

func entryOfOurs(entries []metav1.ManagedFieldsEntry) *metav1.ManagedFieldsEntry {
	for i, e := range entries {
		if e.Manager == v1alpha1.FieldManager && e.Operation == metav1.ManagedFieldsOperationApply &&
			e.Subresource == "" && e.FieldsV1 != nil {
			return &entries[i]
		}
	}
	return nil
}

// foreign are the sets of all others who own fields beside the status.
func foreign(entries []metav1.ManagedFieldsEntry) map[string]*fieldpath.Set {
	others := map[string]*fieldpath.Set{}
	for _, e := range entries {
		if e.Manager == v1alpha1.FieldManager || e.Subresource == "status" || e.FieldsV1 == nil {
			continue
		}
		set, ok := decodeFields(e.FieldsV1.Raw)
		if !ok {
			continue
		}
		if have := others[e.Manager]; have != nil {
			set = have.Union(set)
		}
		others[e.Manager] = set
	}
	return others
}

// compare finds what was ours and is no longer.
func (o *ownership) compare(entries []metav1.ManagedFieldsEntry, ours *metav1.ManagedFieldsEntry) {
	var raw []byte
	if ours != nil {
		raw = ours.FieldsV1.Raw
	}
	o.drifts = nil
	if len(o.applied) == 0 {
		o.applied = bytes.Clone(raw)
		return
	}
	if bytes.Equal(o.applied, raw) {
		return
	}
	applied, ok := decodeFields(o.applied)
	if !ok {
		return
	}
	present := fieldpath.NewSet()
	if raw != nil {
		if present, ok = decodeFields(raw); !ok {
			return
		}
	}
	if more := present.Difference(applied); !more.Empty() {
		o.applied = encodeFields(applied.Union(present), o.applied)
	}
	o.drifts = driftsOf(applied.Difference(present).Leaves(), foreign(entries))
}

// driftsOf sorts lost fields by the manager who owns them now.
func driftsOf(lost *fieldpath.Set, others map[string]*fieldpath.Set) []drift {
	if lost.Empty() {
		return nil
	}
	managers := sets.List(sets.KeySet(others))
	byManager := map[string][]string{}
	for path := range lost.All() {
		owner := nobody
		for _, manager := range managers {
			if others[manager].Has(path) {
				owner = manager
				break
			}
		}
		byManager[owner] = append(byManager[owner], path.String())
	}
	var drifts []drift
	for _, manager := range sets.List(sets.KeySet(byManager)) {
		paths := byManager[manager]
		slices.Sort(paths)
		drifts = append(drifts, drift{manager: manager, paths: paths})
	}
	return drifts
}

// withRecalled adds to what is ours what was reported as taken before the
// agent was restarted and is still in the same hands. A field that was removed
// has no owner to be recognised by, and is forgotten.
func withRecalled(applied []byte, entries []metav1.ManagedFieldsEntry, recalled []drift) []byte {
	if len(recalled) == 0 || len(applied) == 0 {
		return applied
	}
	set, ok := decodeFields(applied)
	if !ok {
		return applied
	}
	others := foreign(entries)
	for _, d := range recalled {
		theirs := others[d.manager]
		if theirs == nil {
			continue
		}
		for path := range theirs.Leaves().All() {
			if slices.Contains(d.paths, path.String()) {
				set.Insert(path.Copy())
			}
		}
	}
	return encodeFields(set, applied)
}

func decodeFields(raw []byte) (*fieldpath.Set, bool) {
	set := &fieldpath.Set{}
	if err := set.FromJSON(bytes.NewReader(raw)); err != nil {
		klog.V(2).InfoS("Cannot read managedFields", "err", err)
		return nil, false
	}
	return set, true
}

// encodeFields returns the fallback if the set cannot be encoded.
func encodeFields(set *fieldpath.Set, fallback []byte) []byte {
	raw, err := set.ToJSON()
	if err != nil {
		return fallback
	}
	return raw
}

// reportDrift is the drift of an object as it is reported, within bounds.
func reportDrift(ref v1alpha1.ObjectReference, drifts []drift) []v1alpha1.ObjectDrift {
	var report []v1alpha1.ObjectDrift
	for _, d := range drifts {
		paths := make([]string, 0, maxDriftPaths)
		for _, path := range d.paths[:min(len(d.paths), maxDriftPaths)] {
			paths = append(paths, cut(path, maxDriftPath))
		}
		report = append(report, v1alpha1.ObjectDrift{ObjectReference: ref, Manager: cut(d.manager, maxManager), Paths: paths})
	}
	return report
}
