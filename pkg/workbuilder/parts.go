package workbuilder

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

const (
	// MaxWorkBytes is how many bytes of manifests OCM's admission webhook accepts
	// in one ManifestWork (500 KiB). Hubs may run without that webhook, so it is
	// checked here.
	MaxWorkBytes = 500 << 10

	// MaxParts is over how many ManifestWorks content may be split: as many as the
	// status of a delivery can name.
	MaxParts = 50
)

// nowhere is the part of an object that has none yet.
const nowhere int32 = -1

// TooLargeError tells that content cannot be laid into ManifestWorks that OCM
// accepts.
type TooLargeError struct {
	// Version is the revision's version.
	Version string
	// Object that exceeds the limit by itself; empty if it is all objects
	// together that do.
	Object string
	// Size and Limit in bytes of manifests: of the object, or of all of them.
	Size, Limit int
}

func (e *TooLargeError) Error() string {
	if e.Object != "" {
		return fmt.Sprintf("%s of version %s is %d bytes as delivered, over the ManifestWork limit of %d: make it smaller, because one object cannot be split",
			e.Object, e.Version, e.Size, e.Limit)
	}
	return fmt.Sprintf("the objects of version %s are %d bytes, more than %d ManifestWorks of %d bytes hold: move part of them to another FleetRollout",
		e.Version, e.Size, MaxParts, e.Limit)
}

// presentPart is a present work and what it carries.
type presentPart struct {
	number  int32
	work    *workv1.ManifestWork
	objects []presentObject
}

type presentObject struct {
	object   *unstructured.Unstructured
	manifest workv1.Manifest
}

// isLeaving tells that the work is being deleted, so that nothing may be added.
func (p presentPart) isLeaving() bool { return p.work.DeletionTimestamp != nil }

// partsOf reads the present works of a rollout, in order of their parts. A work
// whose name is of no part is left out; it goes with the phase Drop.
func partsOf(present []*workv1.ManifestWork, rollout v1alpha1.RolloutReference) ([]presentPart, error) {
	var parts []presentPart
	for _, work := range present {
		number := partNumber(work.Name, rollout)
		if number == nowhere {
			continue
		}
		part := presentPart{number: number, work: work}
		for i, manifest := range work.Spec.Workload.Manifests {
			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON(manifest.Raw); err != nil {
				return nil, fmt.Errorf("read manifest %d of ManifestWork %s/%s: %w", i, work.Namespace, work.Name, err)
			}
			part.objects = append(part.objects, presentObject{object: object, manifest: manifest})
		}
		parts = append(parts, part)
	}
	slices.SortStableFunc(parts, func(a, b presentPart) int { return int(a.number - b.number) })
	return parts, nil
}

// partNumber is the part that a work of the rollout is by its name.
func partNumber(name string, rollout v1alpha1.RolloutReference) int32 {
	if len(name) < 2 {
		return nowhere
	}
	tens, ones := name[len(name)-2]-'0', name[len(name)-1]-'0'
	if tens > 9 || ones > 9 {
		return nowhere
	}
	number := int32(tens)*10 + int32(ones)
	if v1alpha1.WorkName(rollout.Namespace, rollout.Name, number) != name {
		return nowhere
	}
	return number
}

// assignment chooses the part of each object (law 21).
type assignment struct {
	objects  []*unstructured.Unstructured
	sizes    []int
	present  []presentPart
	limit    int
	recorded map[objectKey]int32
	// isRecorded tells that what is recorded is this very rendering. Its parts are
	// then final: the works of its first phase carry objects in two parts, and no
	// longer tell where each belongs.
	isRecorded bool

	// room[p] is how many bytes are left in part p.
	room map[int32]int
}

// assign returns the part of each object. An object stays where the present works
// carry it as long as that part keeps within the limit in both phases; what must
// move, and what is new, goes in order to the first part with room.
func (a *assignment) assign(version string) ([]int32, error) {
	parts := a.homes()
	a.settleIn(parts)
	total := 0
	for _, size := range a.sizes {
		total += size
	}
	for i, part := range parts {
		if part != nowhere {
			continue
		}
		if a.sizes[i] > a.limit {
			return nil, &TooLargeError{Version: version, Object: v1alpha1.Describe(a.objects[i]), Size: a.sizes[i], Limit: a.limit}
		}
		if parts[i] = a.firstWithRoom(a.sizes[i]); parts[i] == nowhere {
			return nil, &TooLargeError{Version: version, Size: total, Limit: a.limit}
		}
		a.room[parts[i]] -= a.sizes[i]
	}
	return parts, nil
}

// homes are the parts in which the objects are now, as far as they are anywhere.
func (a *assignment) homes() []int32 {
	carriedBy := map[objectKey][]int32{}
	for _, isLeaving := range []bool{false, true} {
		for _, part := range a.present {
			if part.isLeaving() != isLeaving {
				continue
			}
			for _, carried := range part.objects {
				key := keyOf(carried.object)
				carriedBy[key] = append(carriedBy[key], part.number)
			}
		}
	}
	parts := make([]int32, len(a.objects))
	for i, object := range a.objects {
		key := keyOf(object)
		recorded, ok := a.recorded[key]
		switch carriers := carriedBy[key]; {
		case ok && (a.isRecorded || slices.Contains(carriers, recorded)):
			parts[i] = recorded
		case len(carriers) > 0:
			parts[i] = carriers[0]
		default:
			parts[i] = nowhere
		}
	}
	return parts
}

// settleIn lets objects keep their homes, in order, as far as these have room,
// and computes what room is left. The phase Add needs room for more than the
// objects themselves: for what a part carries and is to lose, at least as
// placeholders.
func (a *assignment) settleIn(parts []int32) {
	homes := map[objectKey]int32{}
	for i, object := range a.objects {
		homes[keyOf(object)] = parts[i]
	}
	a.room = map[int32]int{}
	reserved := map[int32]int{}
	for number := range int32(MaxParts) {
		a.room[number] = a.limit
	}
	for _, part := range a.present {
		if part.isLeaving() {
			a.room[part.number] = 0
			continue
		}
		if a.isRecorded {
			continue
		}
		for _, carried := range part.objects {
			home, isNew := homes[keyOf(carried.object)]
			if isNew && home == part.number {
				continue
			}
			small := placeholderSize(carried.object)
			a.room[part.number] -= small
			if !isNew {
				// Old objects are carried as they are where there is room, so new
				// ones are put elsewhere rather than in their place.
				reserved[part.number] += carried.manifest.Size() - small
			}
		}
	}
	small := make([]int, len(a.objects))
	if !a.isRecorded {
		for i, object := range a.objects {
			if parts[i] != nowhere {
				small[i] = placeholderSize(object)
				a.room[parts[i]] -= small[i]
			}
		}
	}
	for i, part := range parts {
		switch {
		case part == nowhere || a.isLeaving(part):
			// What a work carries that is being deleted comes back when it is gone.
		case a.room[part]+small[i] < a.sizes[i]:
			parts[i] = nowhere
		default:
			a.room[part] -= a.sizes[i] - small[i]
		}
	}
	for number, bytes := range reserved {
		a.room[number] -= bytes
	}
}

func (a *assignment) isLeaving(number int32) bool {
	return slices.ContainsFunc(a.present, func(part presentPart) bool { return part.number == number && part.isLeaving() })
}

func (a *assignment) firstWithRoom(size int) int32 {
	for number := range int32(MaxParts) {
		if a.room[number] >= size {
			return number
		}
	}
	return nowhere
}

// placeholder stands for an object that a work must still list and no longer
// apply: the work agent keeps what is listed, and with strategy ReadOnly leaves it
// as it is. An object that moves to another part is applied there alone, so that
// two works never fight about it, and the part that it leaves need not have room
// for its new content.
func placeholder(object *unstructured.Unstructured) *unstructured.Unstructured {
	listed := &unstructured.Unstructured{Object: map[string]any{}}
	listed.SetAPIVersion(object.GetAPIVersion())
	listed.SetKind(object.GetKind())
	listed.SetNamespace(object.GetNamespace())
	listed.SetName(object.GetName())
	listed.SetAnnotations(map[string]string{v1alpha1.AnnotationPlaceholder: "true"})
	return listed
}

// isPlaceholder tells whether a present object is none of the content.
func isPlaceholder(object *unstructured.Unstructured) bool {
	return object.GetAnnotations()[v1alpha1.AnnotationPlaceholder] != ""
}

func placeholderSize(object *unstructured.Unstructured) int {
	manifest, err := encode(placeholder(object))
	if err != nil {
		return 0
	}
	return manifest.Size()
}

// encode writes an object as a manifest. Its Size is what OCM's webhook counts.
func encode(object *unstructured.Unstructured) (workv1.Manifest, error) {
	raw, err := v1alpha1.CanonicalJSON(object.Object)
	if err != nil {
		return workv1.Manifest{}, fmt.Errorf("encode %s: %w", v1alpha1.Describe(object), err)
	}
	return workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}}, nil
}
