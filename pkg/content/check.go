package content

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// Check finds what no object may be delivered with: labels or annotations that
// are not strings, a Job that expires, and fields of built-in kinds that hold
// another type than the API knows.
func Check(at *field.Path, object *unstructured.Unstructured) field.ErrorList {
	metadata, _ := object.Object["metadata"].(map[string]any)
	var problems field.ErrorList
	for _, name := range []string{"labels", "annotations"} {
		problems = append(problems, CheckStrings(at.Child("metadata", name), metadata[name])...)
	}
	if len(problems) > 0 {
		return problems
	}
	if object.GroupVersionKind().GroupKind() == jobKind {
		if ttl, ok, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "ttlSecondsAfterFinished"); ok && ttl != nil {
			return field.ErrorList{field.Invalid(at.Child("spec", "ttlSecondsAfterFinished"), ttl,
				fmt.Sprintf("%s would run again: the work agent recreates a Job that its TTL has removed; remove the field, a new revision replaces the Job anyway", v1alpha1.Describe(object)))}
		}
	}
	return checkShape(at, object)
}

// CheckStrings finds values of a map, such as labels, that are not strings. Nil
// is an empty map.
func CheckStrings(at *field.Path, value any) field.ErrorList {
	if value == nil {
		return nil
	}
	entries, ok := value.(map[string]any)
	if !ok {
		return field.ErrorList{field.Invalid(at, value, "write a map of strings")}
	}
	var problems field.ErrorList
	for key, entry := range entries {
		if _, ok := entry.(string); !ok {
			problems = append(problems, field.Invalid(at.Key(key), entry, "write a string; put the value into quotes"))
		}
	}
	return problems
}

// checkShape finds fields of built-in kinds that hold another type than the API
// knows, such as a string where a number belongs. Unknown fields pass: the
// managed cluster may be newer than this program.
func checkShape(at *field.Path, object *unstructured.Unstructured) field.ErrorList {
	typed, err := clientscheme.Scheme.New(object.GroupVersionKind())
	if err != nil {
		return nil
	}
	raw, err := json.Marshal(object.Object)
	if err == nil {
		err = json.Unmarshal(raw, typed)
	}
	if err != nil {
		return field.ErrorList{field.Invalid(at, v1alpha1.Describe(object), fmt.Sprintf("a field has the wrong type: %v", err))}
	}
	return nil
}
