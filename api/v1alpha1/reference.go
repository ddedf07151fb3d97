package v1alpha1

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// ReferenceOf names an object.
func ReferenceOf(object *unstructured.Unstructured) ObjectReference {
	kind := object.GroupVersionKind()
	return ObjectReference{
		Group:     kind.Group,
		Version:   kind.Version,
		Kind:      kind.Kind,
		Namespace: object.GetNamespace(),
		Name:      object.GetName(),
	}
}

// Describe names an object for people, such as "Deployment shop/api".
func Describe(object *unstructured.Unstructured) string {
	if object.GetNamespace() == "" {
		return object.GetKind() + " " + object.GetName()
	}
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}
