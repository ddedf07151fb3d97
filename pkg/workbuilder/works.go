package workbuilder

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// WorkSet is the works of one write phase, and what becomes of the objects that
// the present works carry and the new content does not.
type WorkSet struct {
	// Works to be written, in this order. Those of the content come in order of
	// their parts; before them, in the phase Add, come works that lose what they
	// carry to another part and have no part in the new content. It is empty only
	// when the phase carries no object at all, as in a rollback to a template of
	// nothing but completed Jobs. OCM refuses empty works: the present works that
	// the phase Drop does not write are to be deleted once the others are applied.
	Works []*workv1.ManifestWork

	// Dropped are objects of the present works that the work agent deletes once
	// the phase Drop leaves them out.
	Dropped []v1alpha1.ObjectReference

	// Kept are objects of the present works that stay on the cluster when the
	// phase Drop leaves them out: deleting them would destroy data (law 22), or
	// they were there before us.
	Kept []v1alpha1.ObjectReference

	// Moved are objects that a present work carries and that belong to another
	// part now (law 21).
	Moved []v1alpha1.ObjectReference
}

// LeavesOut tells whether a present work carries objects that it is not to carry
// any more. If not, the phase Add can be skipped.
func (s WorkSet) LeavesOut() bool {
	return len(s.Dropped)+len(s.Kept)+len(s.Moved) > 0
}

// Works lays a rendering into the ManifestWorks of one write phase. Present are
// the rollout's works on the cluster as they are now; they may be those of an
// earlier delivery, or of an earlier phase of this one. The same rendering and
// the works of its own phase as present give the same bytes again.
//
// No work exceeds MaxWorkBytes, in neither phase: where the phase Add has no room
// for the objects that a work is to lose, it carries placeholders for them.
func Works(rendering Rendering, phase v1alpha1.WritePhase, present []*workv1.ManifestWork) (WorkSet, error) {
	if phase != v1alpha1.PhaseAdd && phase != v1alpha1.PhaseDrop {
		return WorkSet{}, fmt.Errorf("build the works of cluster %q: there is no write phase %q", rendering.cluster, phase)
	}
	parts, err := partsOf(present, rendering.rollout)
	if err != nil {
		return WorkSet{}, fmt.Errorf("build the works of cluster %q: %w", rendering.cluster, err)
	}
	builder := builder{rendering: rendering, phase: phase, present: parts, home: map[objectKey]int32{}}
	for i, object := range rendering.Objects {
		builder.home[keyOf(object)] = rendering.parts[i]
	}
	builder.names = builder.plurals()
	set := builder.leavings()
	for _, number := range builder.numbers() {
		work, err := builder.work(number)
		if err != nil {
			return WorkSet{}, fmt.Errorf("build the works of cluster %q: %w", rendering.cluster, err)
		}
		set.Works = append(set.Works, work)
	}
	return set, nil
}

// builder builds the works of one phase.
type builder struct {
	rendering Rendering
	phase     v1alpha1.WritePhase
	present   []presentPart
	home      map[objectKey]int32
	names     plurals
}

// isHeld tells whether an object stays on the cluster whatever happens to its
// work.
func (b builder) isHeld(object *unstructured.Unstructured) bool {
	return isProtected(groupKindOf(object)) || b.rendering.unadopted[keyOf(object)]
}

// leavings are the objects that present works are not to carry any more.
func (b builder) leavings() WorkSet {
	var set WorkSet
	seen := map[objectKey]bool{}
	for _, part := range b.present {
		for _, carried := range part.objects {
			key := keyOf(carried.object)
			home, isNew := b.home[key]
			reference := v1alpha1.ReferenceOf(carried.object)
			switch {
			case seen[key] || isNew && home == part.number:
				continue
			case isNew:
				set.Moved = append(set.Moved, reference)
			case b.isHeld(carried.object):
				set.Kept = append(set.Kept, reference)
			default:
				set.Dropped = append(set.Dropped, reference)
			}
			seen[key] = true
		}
	}
	for _, list := range [][]v1alpha1.ObjectReference{set.Dropped, set.Kept, set.Moved} {
		slices.SortStableFunc(list, compareReferences)
	}
	return set
}

// numbers are the parts to be written, in order.
func (b builder) numbers() []int32 {
	ours := slices.Compact(slices.Sorted(slices.Values(b.rendering.parts)))
	if b.phase != v1alpha1.PhaseAdd {
		return ours
	}
	var losing []int32
	for _, part := range b.present {
		loses := slices.ContainsFunc(part.objects, func(carried presentObject) bool {
			_, isNew := b.home[keyOf(carried.object)]
			return isNew
		})
		if loses && !part.isLeaving() && !slices.Contains(ours, part.number) {
			losing = append(losing, part.number)
		}
	}
	return append(slices.Compact(losing), ours...)
}

// cargo is what one work carries.
type cargo struct {
	object   *unstructured.Unstructured
	manifest workv1.Manifest
}

// work builds the work of one part.
func (b builder) work(number int32) (*workv1.ManifestWork, error) {
	load, err := b.load(number)
	if err != nil {
		return nil, err
	}
	var spec workv1.ManifestWorkSpec
	var objects []*unstructured.Unstructured
	for _, item := range load {
		spec.Workload.Manifests = append(spec.Workload.Manifests, item.manifest)
		objects = append(objects, item.object)
	}
	spec.ManifestConfigs = manifestConfigs(objects, b.names, b.rendering)
	spec.DeleteOption = deleteOption(b.orphanRules(number, objects))
	spec.Executor = executor(b.rendering.delivery.Executor)
	return newWork(b.rendering, b.phase, number, spec)
}

// load is what the work of a part carries, in order: the objects that belong
// there, and in the phase Add what it is to lose.
func (b builder) load(number int32) ([]cargo, error) {
	var load []cargo
	room := b.rendering.limit
	for i, object := range b.rendering.Objects {
		if b.rendering.parts[i] == number {
			load = append(load, cargo{object, b.rendering.manifests[i]})
			room -= b.rendering.manifests[i].Size()
		}
	}
	if b.phase != v1alpha1.PhaseAdd {
		return load, nil
	}
	var losing []cargo
	seen := map[objectKey]bool{}
	for _, part := range b.present {
		if part.number != number {
			continue
		}
		for _, carried := range part.objects {
			key := keyOf(carried.object)
			home, isNew := b.home[key]
			if seen[key] || isNew && home == number {
				continue
			}
			seen[key] = true
			listed := placeholder(carried.object)
			manifest, err := encode(listed)
			if err != nil {
				return nil, err
			}
			room -= manifest.Size()
			if isNew {
				load = append(load, cargo{listed, manifest})
				continue
			}
			losing = append(losing, cargo(carried))
		}
	}
	// Old objects are carried as they are as far as there is room, data first.
	slices.SortStableFunc(losing, func(a, c cargo) int { return compareObjects(a.object, c.object) })
	for _, isHeld := range []bool{true, false} {
		for _, old := range losing {
			if b.isHeld(old.object) != isHeld {
				continue
			}
			listed := placeholder(old.object)
			manifest, err := encode(listed)
			if err != nil {
				return nil, err
			}
			if more := old.manifest.Size() - manifest.Size(); more <= room {
				room -= more
			} else {
				old = cargo{listed, manifest}
			}
			load = append(load, old)
		}
	}
	slices.SortStableFunc(load, func(a, c cargo) int { return compareObjects(a.object, c.object) })
	return load, nil
}

// orphanRules of a part are those of what it carries; in the phase Drop also of what
// it carried in the phase Add.
func (b builder) orphanRules(number int32, objects []*unstructured.Unstructured) []workv1.OrphaningRule {
	rules := orphanRules{builder: b}
	for _, object := range objects {
		rules.add(object)
	}
	for _, part := range b.present {
		if part.number == number {
			rules.carryOn(part.work)
		}
	}
	return rules.sorted()
}

// plurals learns resource names from every definition that is or was delivered.
func (b builder) plurals() plurals {
	objects := slices.Clone(b.rendering.Objects)
	for _, part := range b.present {
		for _, carried := range part.objects {
			objects = append(objects, carried.object)
		}
	}
	slices.Reverse(objects) // What is delivered now has the last word.
	return pluralsOf(objects)
}

// newWork wraps a spec into the work of a part.
func newWork(rendering Rendering, phase v1alpha1.WritePhase, number int32, spec workv1.ManifestWorkSpec) (*workv1.ManifestWork, error) {
	hash, err := canonicalSpecHash(spec)
	if err != nil {
		return nil, err
	}
	rollout := rendering.rollout
	return &workv1.ManifestWork{
		TypeMeta: metav1.TypeMeta{APIVersion: workv1.GroupVersion.String(), Kind: "ManifestWork"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: rendering.cluster,
			Name:      v1alpha1.WorkName(rollout.Namespace, rollout.Name, number),
			Labels: map[string]string{
				v1alpha1.LabelRolloutNamespace: rollout.Namespace,
				v1alpha1.LabelRolloutName:      rollout.Name,
				v1alpha1.LabelRolloutUID:       string(rollout.UID),
			},
			Annotations: map[string]string{
				v1alpha1.AnnotationDelivery: strconv.FormatInt(rendering.Rendered.Delivery, 10),
				v1alpha1.AnnotationPhase:    string(phase),
				v1alpha1.AnnotationWorkHash: hash,
			},
		},
		Spec: spec,
	}, nil
}

// SpecHash is the hash of a work's spec. It does not change when the hub stores
// the spec, so that a work edited by hand is told by comparing it with
// AnnotationWorkHash. It returns an error if a manifest is not JSON.
func SpecHash(spec workv1.ManifestWorkSpec) (string, error) {
	canonical := spec
	canonical.Workload.Manifests = make([]workv1.Manifest, 0, len(spec.Workload.Manifests))
	for i, manifest := range spec.Workload.Manifests {
		raw, err := v1alpha1.CanonicalJSON(manifest)
		if err != nil {
			return "", fmt.Errorf("hash manifest %d of a ManifestWork: %w", i, err)
		}
		canonical.Workload.Manifests = append(canonical.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	return canonicalSpecHash(canonical)
}

// canonicalSpecHash is SpecHash for manifests that are canonical JSON already,
// which spares decoding them once more for every work that is written.
func canonicalSpecHash(spec workv1.ManifestWorkSpec) (string, error) {
	var hashed bytes.Buffer
	for _, manifest := range spec.Workload.Manifests {
		hashed.Write(manifest.Raw)
		hashed.WriteByte('\n')
	}
	spec.Workload.Manifests = nil
	options, err := v1alpha1.CanonicalJSON(spec)
	if err != nil {
		return "", fmt.Errorf("hash the spec of a ManifestWork: %w", err)
	}
	hashed.Write(options)
	return v1alpha1.HashOf(hashed.Bytes()), nil
}

// Objects reads the objects that works carry, each once. It returns an error if a
// manifest is not a Kubernetes object, which the hub does not accept.
func Objects(works []*workv1.ManifestWork) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	seen := map[objectKey]bool{}
	for _, work := range works {
		for i, manifest := range work.Spec.Workload.Manifests {
			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON(manifest.Raw); err != nil {
				return nil, fmt.Errorf("read manifest %d of ManifestWork %s/%s: %w", i, work.Namespace, work.Name, err)
			}
			if key := keyOf(object); !seen[key] {
				seen[key] = true
				objects = append(objects, object)
			}
		}
	}
	return objects, nil
}
