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

// MaxWorkBytes is how many bytes of manifests OCM's admission webhook accepts in
// one ManifestWork (500 KiB). Hubs may run without that webhook, so it is checked
// here.
const MaxWorkBytes = 500 << 10

// WorkSet is the works of one write phase, and what becomes of the objects that
// the present works carry and the new content does not.
type WorkSet struct {
	// Works to be written, in order of their parts. It is empty only when the
	// phase carries no object at all, as in a rollback to a template of nothing
	// but completed Jobs. OCM refuses empty works: the present works are then to
	// be deleted instead.
	Works []*workv1.ManifestWork

	// Dropped are objects of the present works that the work agent deletes once
	// the phase Drop leaves them out.
	Dropped []v1alpha1.ObjectReference

	// Kept are objects of the present works that stay on the cluster when the
	// phase Drop leaves them out, because deleting them would destroy data
	// (law 22).
	Kept []v1alpha1.ObjectReference
}

// LeavesOut tells whether the present works carry objects that the new content
// does not have. If not, the phase Add can be skipped.
func (s WorkSet) LeavesOut() bool {
	return len(s.Dropped)+len(s.Kept) > 0
}

// TooLargeError tells that the manifests of a work exceed what OCM accepts.
type TooLargeError struct {
	// Version is the revision's version; Phase that of the write.
	Version string
	Phase   v1alpha1.WritePhase
	// Size and Limit in bytes of manifests.
	Size, Limit int
	// LeftOut is how many objects of earlier content the size includes; 0 if
	// the new content alone is too large.
	LeftOut int
}

func (e *TooLargeError) Error() string {
	if e.LeftOut > 0 {
		return fmt.Sprintf("version %s and the %d objects it drops are %d bytes together, over the ManifestWork limit of %d: bring out a revision that only adds, then one that drops",
			e.Version, e.LeftOut, e.Size, e.Limit)
	}
	return fmt.Sprintf("the objects of version %s are %d bytes, over the ManifestWork limit of %d: move part of them to another FleetRollout",
		e.Version, e.Size, e.Limit)
}

// Works lays a rendering into the ManifestWorks of one write phase. Present are
// the rollout's works on the cluster as they are now; they may be those of an
// earlier delivery, or of an earlier phase of this one. The same rendering and
// the works of its own phase as present give the same bytes again.
//
// It returns a *TooLargeError if the manifests exceed MaxWorkBytes. One that
// counts objects of earlier content comes with the phase Add alone; a rollback
// may then go on with the phase Drop, because all it loses is that the failed
// revision's objects vanish before the restored ones are applied. Protected
// objects are safe in both phases: their orphan rules are as old as they are.
func Works(rendering Rendering, phase v1alpha1.WritePhase, present []*workv1.ManifestWork) (WorkSet, error) {
	if phase != v1alpha1.PhaseAdd && phase != v1alpha1.PhaseDrop {
		return WorkSet{}, fmt.Errorf("build the works of cluster %q: there is no write phase %q", rendering.cluster, phase)
	}
	old, err := leftOut(rendering, present)
	if err != nil {
		return WorkSet{}, fmt.Errorf("build the works of cluster %q: %w", rendering.cluster, err)
	}
	var set WorkSet
	for _, object := range old {
		if isProtected(groupKindOf(object)) {
			set.Kept = append(set.Kept, v1alpha1.ReferenceOf(object))
		} else {
			set.Dropped = append(set.Dropped, v1alpha1.ReferenceOf(object))
		}
	}

	manifests, size, err := encode(rendering.Objects)
	if err != nil {
		return WorkSet{}, err
	}
	if size > MaxWorkBytes {
		return WorkSet{}, &TooLargeError{Version: rendering.version, Phase: phase, Size: size, Limit: MaxWorkBytes}
	}
	everything := slices.Concat(rendering.Objects, old)
	carried := rendering.Objects
	if phase == v1alpha1.PhaseAdd && len(old) > 0 {
		carried = everything
		slices.SortStableFunc(carried, compareObjects)
		if manifests, size, err = encode(carried); err != nil {
			return WorkSet{}, err
		}
		if size > MaxWorkBytes {
			return WorkSet{}, &TooLargeError{Version: rendering.version, Phase: phase, Size: size, Limit: MaxWorkBytes, LeftOut: len(old)}
		}
	}
	if len(carried) == 0 {
		return set, nil
	}

	names := pluralsOf(everything)
	work, err := newWork(rendering, phase, workv1.ManifestWorkSpec{
		Workload:        workv1.ManifestsTemplate{Manifests: manifests},
		ManifestConfigs: manifestConfigs(carried, names, rendering.delivery),
		DeleteOption:    deleteOption(orphanRules(rendering, everything, present)),
	})
	if err != nil {
		return WorkSet{}, err
	}
	set.Works = []*workv1.ManifestWork{work}
	return set, nil
}

// newWork wraps a spec into the work of part 0.
func newWork(rendering Rendering, phase v1alpha1.WritePhase, spec workv1.ManifestWorkSpec) (*workv1.ManifestWork, error) {
	hash, err := canonicalSpecHash(spec)
	if err != nil {
		return nil, err
	}
	rollout := rendering.rollout
	return &workv1.ManifestWork{
		TypeMeta: metav1.TypeMeta{APIVersion: workv1.GroupVersion.String(), Kind: "ManifestWork"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: rendering.cluster,
			Name:      v1alpha1.WorkName(rollout.Namespace, rollout.Name, 0),
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

// Objects reads the objects that works carry, for Request.Present. It returns an
// error if a manifest is not a Kubernetes object, which the hub does not accept.
func Objects(works []*workv1.ManifestWork) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, work := range works {
		for i, manifest := range work.Spec.Workload.Manifests {
			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON(manifest.Raw); err != nil {
				return nil, fmt.Errorf("read manifest %d of ManifestWork %s/%s: %w", i, work.Namespace, work.Name, err)
			}
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// leftOut returns the objects of the present works that the rendering does not
// have, each once.
func leftOut(rendering Rendering, present []*workv1.ManifestWork) ([]*unstructured.Unstructured, error) {
	objects, err := Objects(present)
	if err != nil {
		return nil, err
	}
	seen := map[objectKey]bool{}
	for _, object := range rendering.Objects {
		seen[keyOf(object)] = true
	}
	var old []*unstructured.Unstructured
	for _, object := range objects {
		if key := keyOf(object); !seen[key] {
			seen[key] = true
			old = append(old, object)
		}
	}
	slices.SortStableFunc(old, compareObjects)
	return old, nil
}

// encode writes objects as manifests and adds up their size as OCM's webhook
// counts it.
func encode(objects []*unstructured.Unstructured) ([]workv1.Manifest, int, error) {
	manifests := make([]workv1.Manifest, 0, len(objects))
	size := 0
	for _, object := range objects {
		raw, err := v1alpha1.CanonicalJSON(object.Object)
		if err != nil {
			return nil, 0, fmt.Errorf("encode %s: %w", v1alpha1.Describe(object), err)
		}
		manifest := workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}}
		size += manifest.Size()
		manifests = append(manifests, manifest)
	}
	return manifests, size, nil
}
