package workbuilder

import (
	"cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// objectKey identifies an object the way the work agent does: the API version
// does not count, because every version shows the same object.
type objectKey struct {
	group, kind, namespace, name string
}

func keyOf(object *unstructured.Unstructured) objectKey {
	kind := groupKindOf(object)
	return objectKey{kind.Group, kind.Kind, object.GetNamespace(), object.GetName()}
}

func keyOfReference(object v1alpha1.ObjectReference) objectKey {
	return objectKey{object.Group, object.Kind, object.Namespace, object.Name}
}

func groupKindOf(object *unstructured.Unstructured) schema.GroupKind {
	return object.GroupVersionKind().GroupKind()
}

func compareObjects(a, b *unstructured.Unstructured) int {
	return compareReferences(v1alpha1.ReferenceOf(a), v1alpha1.ReferenceOf(b))
}

// compareReferences orders objects so that what others need comes first; within
// a rank by kind, namespace and name, so that the order of the template does not
// matter.
func compareReferences(a, b v1alpha1.ObjectReference) int {
	return cmp.Or(
		cmp.Compare(rankOf(a.Group, a.Kind), rankOf(b.Group, b.Kind)),
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Group, b.Group),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
	)
}
