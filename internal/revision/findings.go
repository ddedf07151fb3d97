package revision

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// Finding is something that a change from one revision to another must not do.
type Finding struct {
	// Object that the change is about.
	Object v1alpha1.ObjectReference
	// Field of it, as a path.
	Field string
	// Message names object, field and values, and says what to do instead.
	Message string

	describe string
}

type objectKey struct {
	kind            schema.GroupKind
	namespace, name string
}

// pair is one object in two revisions.
type pair struct {
	previous, next *unstructured.Unstructured
}

func (p pair) finding(field, message string) Finding {
	return Finding{
		Object: v1alpha1.ReferenceOf(p.next),
		Field:  field,

		describe: v1alpha1.Describe(p.next),
		Message:  v1alpha1.Describe(p.next) + ", " + field + ": " + message,
	}
}

// pairs returns the objects that both revisions have, in the order of next.
func pairs(previous, next v1alpha1.RevisionPayload) []pair {
	return pairsOf(objectsOf(previous), objectsOf(next))
}

func pairsOf(previous, next []*unstructured.Unstructured) []pair {
	before := map[objectKey]*unstructured.Unstructured{}
	for _, object := range previous {
		before[keyOf(object)] = object
	}
	var both []pair
	for _, object := range next {
		if old := before[keyOf(object)]; old != nil {
			both = append(both, pair{previous: old, next: object})
		}
	}
	return both
}

func keyOf(object *unstructured.Unstructured) objectKey {
	return objectKey{object.GroupVersionKind().GroupKind(), object.GetNamespace(), object.GetName()}
}

// objectsOf reads the objects of a payload. Manifests of a frozen payload always
// decode; anything else is left out, since there is nothing to compare.
func objectsOf(payload v1alpha1.RevisionPayload) []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for _, part := range payload.Template.Components {
		for _, manifest := range part.Manifests {
			var plain map[string]any
			if err := decode(manifest.Raw, &plain); err == nil && plain != nil {
				objects = append(objects, &unstructured.Unstructured{Object: plain})
			}
		}
	}
	return objects
}
