package content

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// FuzzPatch: whatever somebody writes into a patch, the objects stay the ones
// that they were, and what Secrets hold stays theirs.
func FuzzPatch(f *testing.F) {
	f.Add(`{"data": {"a": "2"}}`)
	f.Add(`[{"op": "copy", "from": "/metadata", "path": "/data"}, {"op": "move", "from": "/data/a", "path": "/data/-"}]`)
	f.Add(`[{"op": "add", "path": "/spec/template/spec/containers/-1", "value": {"name": "${cluster.labels['tier']}"}}]`)
	f.Add(`[{"op": "replace", "path": "/metadata", "value": null}, {"op": "test", "path": "/metadata/a/b", "value": 1}]`)
	f.Add("metadata:\n  finalizers: [orphan]\n  ownerReferences: []\nstatus: {a: b}\n")
	f.Add(`{"spec": {"template": {"spec": {"containers": [{"name": "api", "$patch": "replace"}, {"$patch": "delete"}]}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		overrides := []v1alpha1.Override{{Name: "any", Patches: []v1alpha1.Patch{{Target: v1alpha1.ObjectTarget{Namespace: "shop"}, Patch: text}}}}
		// What is refused with the revision must do no harm either.
		if read, problems := CanonicalOverrides(field.NewPath("spec"), overrides, objectsOf(t, template)); len(problems) == 0 {
			overrides = read
		} else if canonical, err := canonicalPatch(text); err == nil {
			overrides[0].Patches[0].Patch = canonical
		}
		objects, resolved, err := Overlay(objectsOf(t, template), overrides, berlin, nil)
		if err != nil {
			return
		}
		for i, before := range objectsOf(t, template) {
			if diff := cmp.Diff(v1alpha1.ReferenceOf(before), v1alpha1.ReferenceOf(objects[i])); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before.Object["data"], objects[i].Object["data"]); diff != "" && before.GetKind() == "Secret" {
				t.Error(diff)
			}
			if objects[i].Object["status"] != nil || objects[i].GetOwnerReferences() != nil {
				t.Errorf("%v carries what a server writes", objects[i].Object)
			}
		}
		again, _, err := Overlay(objectsOf(t, template), overrides, Cluster{Name: berlin.Name}, &resolved)
		if err != nil || mustJSON(t, objects) != mustJSON(t, again) {
			t.Errorf("another rendering differs: %v", err)
		}
	})
}
