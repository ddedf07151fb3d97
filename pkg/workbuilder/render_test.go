package workbuilder

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func TestObjectsComeInTheOrderInWhichTheyNeedEachOther(t *testing.T) {
	rendering := render(t, request(t, 1, payload("1.0.0",
		customYAML, scalerYAML, deploymentYAML, jobYAML, crdYAML, claimYAML, configMapYAML, volumeYAML, namespaceYAML,
		"{apiVersion: v1, kind: ServiceAccount, metadata: {name: api, namespace: shop}}",
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: api, namespace: shop}}",
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: api, namespace: shop}}",
		"{apiVersion: v1, kind: Service, metadata: {name: api, namespace: shop}}",
		"{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: guard}}",
		"{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.metrics}}",
	)))
	var kinds []string
	for _, object := range rendering.Objects {
		kinds = append(kinds, object.GetKind())
	}
	want := "Namespace CustomResourceDefinition ServiceAccount Role RoleBinding ConfigMap PersistentVolume " +
		"PersistentVolumeClaim Service Deployment Job Datum HorizontalPodAutoscaler APIService ValidatingWebhookConfiguration"
	if diff := cmp.Diff(want, strings.Join(kinds, " ")); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestStampIsTheHashOfTheContentAsDelivered(t *testing.T) {
	rendering := render(t, request(t, 1, payload("1.0.0", deploymentYAML, configMapYAML)))
	for i, object := range rendering.Objects {
		stamped := object.GetAnnotations()[v1alpha1.AnnotationContentHash]
		if stamped == "" || stamped != rendering.Rendered.Objects[i].Hash {
			t.Errorf("%s: stamp %q, recorded %q", v1alpha1.Describe(object), stamped, rendering.Rendered.Objects[i].Hash)
		}
		bare := object.DeepCopy()
		unstructured.RemoveNestedField(bare.Object, "metadata", "annotations")
		want, err := v1alpha1.ContentHash(bare.Object)
		if err != nil {
			t.Fatal(err)
		}
		if stamped != want {
			t.Errorf("%s: stamp %s, want the hash of its content %s", v1alpha1.Describe(object), stamped, want)
		}
	}
}

func TestUnchangedObjectKeepsItsStampFromRevisionToRevision(t *testing.T) {
	before := render(t, request(t, 1, payload("1.0.0", configMapYAML, deploymentYAML)))
	after := render(t, request(t, 2, payload("1.1.0", configMapYAML, strings.ReplaceAll(deploymentYAML, "api:1", "api:2"))))
	if before.Rendered.Objects[0] != after.Rendered.Objects[0] {
		t.Errorf("the ConfigMap did not change, its record did: %v, %v", before.Rendered.Objects[0], after.Rendered.Objects[0])
	}
	if before.Rendered.Objects[1].Hash == after.Rendered.Objects[1].Hash {
		t.Errorf("the Deployment changed, its hash did not")
	}
}

func TestLabelsNameTheRolloutAndPodTemplatesStayUntouched(t *testing.T) {
	deployment := render(t, request(t, 1, payload("1.0.0", deploymentYAML))).Objects[0]
	want := map[string]string{
		"app":                          "api",
		v1alpha1.LabelRolloutNamespace: "platform",
		v1alpha1.LabelRolloutName:      "payments",
	}
	if diff := cmp.Diff(want, deployment.GetLabels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	template, _, _ := unstructured.NestedMap(deployment.Object, "spec", "template", "metadata")
	if diff := cmp.Diff(map[string]any{"labels": map[string]any{"app": "api"}}, template); diff != "" {
		t.Errorf("the pod template's metadata (-want +got):\n%s", diff)
	}
}

func TestStampInATemplateIsNotBelieved(t *testing.T) {
	pasted := strings.Replace(configMapYAML, "namespace: shop", `namespace: shop, annotations: {rollout.open-cluster-management.io/content-hash: "sha256:stale"}`, 1)
	clean := render(t, request(t, 1, payload("1.0.0", configMapYAML)))
	got := render(t, request(t, 1, payload("1.0.0", pasted)))
	if got.Rendered.Objects[0].Hash != clean.Rendered.Objects[0].Hash {
		t.Errorf("hash %s, want %s", got.Rendered.Objects[0].Hash, clean.Rendered.Objects[0].Hash)
	}
}

func TestScaledWorkloadGoesWithoutReplicas(t *testing.T) {
	cases := map[string]struct {
		manifests []string
		want      bool
	}{
		"a fixed number is delivered":                          {[]string{deploymentYAML}, true},
		"an autoscaler owns the number":                        {[]string{deploymentYAML, scalerYAML}, false},
		"an autoscaler that comes first in the template too":   {[]string{scalerYAML, deploymentYAML}, false},
		"an autoscaler of another namespace does not":          {[]string{deploymentYAML, strings.Replace(scalerYAML, "namespace: shop", "namespace: other", 1)}, true},
		"an autoscaler of another name does not":               {[]string{deploymentYAML, strings.Replace(scalerYAML, "kind: Deployment, name: api", "kind: Deployment, name: web", 1)}, true},
		"an autoscaler of another kind of the same name: no":   {[]string{deploymentYAML, strings.Replace(scalerYAML, "kind: Deployment, name", "kind: StatefulSet, name", 1)}, true},
		"an autoscaler that names an older API version counts": {[]string{deploymentYAML, strings.Replace(scalerYAML, "apiVersion: apps/v1", "apiVersion: apps/v1beta2", 1)}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			deployment := find(t, render(t, request(t, 1, payload("1.0.0", c.manifests...))).Objects, "Deployment")
			_, got, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas")
			if got != c.want {
				t.Errorf("spec.replicas is there: %t, want %t", got, c.want)
			}
		})
	}
}

// L4: a new image alone changes nothing that the autoscaler owns.
func TestNewImageOfAScaledWorkloadNeverMentionsReplicas(t *testing.T) {
	for number, image := range []string{"api:1", "api:2", "api:3"} {
		objects := render(t, request(t, int64(number+1), payload("1.0.0", scalerYAML, strings.ReplaceAll(deploymentYAML, "api:1", image)))).Objects
		if _, ok, _ := unstructured.NestedFieldNoCopy(find(t, objects, "Deployment").Object, "spec", "replicas"); ok {
			t.Errorf("image %s: spec.replicas is delivered", image)
		}
	}
}

func TestTwoObjectsOfOneNameAreRefused(t *testing.T) {
	_, err := Render(request(t, 1, payload("1.0.0", configMapYAML, configMapYAML)))
	if err == nil || !strings.Contains(err.Error(), "ConfigMap shop/settings") {
		t.Errorf("error %v, want one that names the ConfigMap", err)
	}
}

func TestManifestThatIsNoObjectIsRefused(t *testing.T) {
	for _, manifest := range []string{"[]", "{kind: ConfigMap}", "{apiVersion: v1, kind: ConfigMap, metadata: {}}", "{apiVersion: v1, kind: List, items: []}"} {
		if _, err := Render(request(t, 1, payload("1.0.0", manifest))); err == nil {
			t.Errorf("%s: no error", manifest)
		}
	}
}

func twoVersions(v1, v2 string) string {
	return strings.Replace(crdYAML,
		"  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}",
		"  - {name: v1, "+v1+", schema: {openAPIV3Schema: {type: object}}}\n  - {name: v2, "+v2+", schema: {openAPIV3Schema: {type: object}}}", 1)
}

// Law 22: going back does not take a version away that objects may be stored in.
func TestCustomResourceDefinitionNeverLosesAVersion(t *testing.T) {
	cases := map[string]struct {
		present, next string
		keeps         bool
	}{
		"a version that the next content does not list":                             {twoVersions("served: true, storage: false", "served: true, storage: true"), crdYAML, true},
		"a version that is no longer served":                                        {twoVersions("served: true, storage: false", "served: true, storage: true"), twoVersions("served: true, storage: true", "served: false, storage: false"), true},
		"one that is neither served nor the storage version may still hold objects": {twoVersions("served: true, storage: true", "served: false, storage: false"), crdYAML, true},
		"a version is added":       {crdYAML, twoVersions("served: true, storage: false", "served: true, storage: true"), false},
		"only the schema changes":  {crdYAML, strings.Replace(crdYAML, "type: object", "type: object, description: new", 1), false},
		"storage moves, all serve": {twoVersions("served: true, storage: false", "served: true, storage: true"), twoVersions("served: true, storage: true", "served: true, storage: false"), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			present := render(t, request(t, 2, payload("2.0.0", c.present)))
			back := request(t, 3, payload("1.0.0", c.next))
			back.Spec.Direction = v1alpha1.DirectionRollback
			fresh := render(t, back).Rendered.Objects[0]
			back.Present = works(t, present, v1alpha1.PhaseDrop).Works
			got := render(t, back)
			want := fresh
			if c.keeps {
				want = present.Rendered.Objects[0]
			}
			if diff := cmp.Diff(want, got.Rendered.Objects[0]); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
			if stamped := got.Objects[0].GetAnnotations()[v1alpha1.AnnotationContentHash]; stamped != want.Hash {
				t.Errorf("stamp %s, want %s", stamped, want.Hash)
			}
		})
	}
}
