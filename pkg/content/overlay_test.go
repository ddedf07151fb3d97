package content

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

const template = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: shop, labels: {app: api}}
spec:
  replicas: 2
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec:
      initContainers:
      - {name: init, image: "registry.example.com/shop/api:1.0.0"}
      containers:
      - name: api
        image: registry.example.com/shop/api:1.0.0
        env:
        - {name: MODE, value: plain}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: api, namespace: shop}
data: {a: "1"}
---
apiVersion: example.com/v1
kind: Database
metadata: {name: db, namespace: shop}
spec: {size: 1, zones: [a]}
---
apiVersion: v1
kind: Secret
metadata: {name: creds, namespace: shop}
data: {password: c2VjcmV0}
---
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, namespace: shop}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: migrate, image: "registry.example.com/shop/migrate:1.0.0"}]
`

var berlin = Cluster{
	Name:   "c2",
	Labels: map[string]string{"region": "eu", "tier": "a: \"b\"\nspec: {replicas: 9}"},
	Claims: map[string]string{"platform": "AWS"},
}

func objectsOf(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for _, document := range strings.Split(text, "\n---\n") {
		raw, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(raw); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	return objects
}

// overridesOf reads overrides and canonicalises them for the template.
func overridesOf(t *testing.T, text string) ([]v1alpha1.Override, field.ErrorList) {
	t.Helper()
	var overrides []v1alpha1.Override
	if err := yaml.UnmarshalStrict([]byte(text), &overrides); err != nil {
		t.Fatal(err)
	}
	return CanonicalOverrides(field.NewPath("spec", "overrides"), overrides, objectsOf(t, template))
}

func overlaid(t *testing.T, overrides string, cluster Cluster, recorded *Resolution) ([]*unstructured.Unstructured, Resolution, error) {
	t.Helper()
	read, problems := overridesOf(t, overrides)
	if len(problems) > 0 {
		t.Fatal(problems.ToAggregate())
	}
	return Overlay(objectsOf(t, template), read, cluster, recorded)
}

func find(t *testing.T, objects []*unstructured.Unstructured, kind string) map[string]any {
	t.Helper()
	for _, object := range objects {
		if object.GetKind() == kind {
			return object.Object
		}
	}
	t.Fatalf("there is no %s", kind)
	return nil
}

func at(t *testing.T, object map[string]any, path ...string) any {
	t.Helper()
	value, _, err := unstructured.NestedFieldNoCopy(object, path...)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestLaw19OverridesApplyInOrderToTheClustersTheySelect(t *testing.T) {
	const overrides = `
- name: all
  clusterSelector: {}
  patches:
  - target: {kind: Deployment}
    patch: |
      # Merged by the name of the container, as Kustomize does.
      spec:
        replicas: 3
        template: {spec: {containers: [{name: api, env: [{name: CLUSTER, value: "${cluster.name} on ${cluster.claims['platform']}, $${not}"}]}]}}
- name: eu
  clusterSelector: {matchLabels: {region: eu}}
  claimSelector: {matchExpressions: [{key: platform, operator: In, values: [AWS]}]}
  exclude: [{kind: ConfigMap}]
  patches:
  - target: {kind: Deployment, name: api}
    patch: '[{"op": "replace", "path": "/spec/replicas", "value": 5}]'
  - target: {kind: Database}
    patch: '{"spec": {"zones": ["b", "c"], "owner": "${cluster.labels[''tier'']}"}}'
  images:
  - {name: registry.example.com/shop/api, newName: mirror.example.com/api, newTag: "1.0.0-${cluster.labels['region']}"}
- name: elsewhere
  clusterSelector: {matchLabels: {region: us}}
  patches: [{target: {kind: Deployment}, patch: '{"spec": {"replicas": 99}}'}]
`
	objects, resolved, err := overlaid(t, overrides, berlin, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) != 4 {
		t.Errorf("%d objects are left, want 4", len(objects))
	}
	deployment := find(t, objects, "Deployment")
	pod := at(t, deployment, "spec", "template", "spec").(map[string]any)
	container := pod["containers"].([]any)[0].(map[string]any)
	want := map[string]any{
		"name": "api", "image": "mirror.example.com/api:1.0.0-eu",
		"env": []any{map[string]any{"name": "MODE", "value": "plain"}, map[string]any{"name": "CLUSTER", "value": "c2 on AWS, ${not}"}},
	}
	if diff := cmp.Diff(want, container); diff != "" {
		t.Errorf("container (-want +got):\n%s", diff)
	}
	if got := pod["initContainers"].([]any)[0].(map[string]any)["image"]; got != "mirror.example.com/api:1.0.0-eu" {
		t.Errorf("the init container has %v", got)
	}
	if got := at(t, deployment, "spec", "replicas"); got != int64(5) {
		t.Errorf("replicas: %v, want that of the later override", got)
	}
	// A value is one string whatever stands in it, and lists of custom resources
	// are replaced.
	if diff := cmp.Diff(map[string]any{"size": int64(1), "zones": []any{"b", "c"}, "owner": berlin.Labels["tier"]}, at(t, find(t, objects, "Database"), "spec")); diff != "" {
		t.Errorf("database (-want +got):\n%s", diff)
	}
	wantResolved := Resolution{Overrides: []string{"all", "eu"}, Variables: []v1alpha1.ResolvedVariable{
		{Name: "cluster.claims['platform']", Value: "AWS"},
		{Name: "cluster.labels['region']", Value: "eu"},
		{Name: "cluster.labels['tier']", Value: berlin.Labels["tier"]},
		{Name: "cluster.name", Value: "c2"},
	}}
	if diff := cmp.Diff(wantResolved, resolved); diff != "" {
		t.Errorf("resolution (-want +got):\n%s", diff)
	}

	// What is recorded gives the same bytes, whatever the cluster is called by now.
	again, resolvedAgain, err := overlaid(t, overrides, Cluster{Name: "c2", Labels: map[string]string{"region": "us"}}, &resolved)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(objects, again); diff != "" {
		t.Errorf("rendered again (-first +second):\n%s", diff)
	}
	if diff := cmp.Diff(resolved, resolvedAgain); diff != "" {
		t.Errorf("resolved again (-first +second):\n%s", diff)
	}
}

func TestCaseN1WhatDoesNotFitACluster(t *testing.T) {
	for name, c := range map[string]struct {
		override string
		subject  string
		path     string
		says     string
	}{
		"a path that is missing on one of two objects": {
			`patches: [{target: {name: api}, patch: '[{"op": "replace", "path": "/data/a", "value": "2"}]'}]`,
			"Deployment shop/api", "/data/a", "does not exist"},
		"a key that is not there to be replaced": {
			`patches: [{target: {kind: ConfigMap}, patch: '[{"op": "replace", "path": "/data/b", "value": "2"}]'}]`,
			"ConfigMap shop/api", "/data/b", "does not exist"},
		"a key that is not there to be removed": {
			`patches: [{target: {kind: ConfigMap}, patch: '[{"op": "remove", "path": "/data/b"}]'}]`,
			"ConfigMap shop/api", "/data/b", "does not exist"},
		"a key that is not there to be copied": {
			`patches: [{target: {kind: ConfigMap}, patch: '[{"op": "copy", "from": "/data/b", "path": "/data/c"}]'}]`,
			"ConfigMap shop/api", "/data/c", "does not exist"},
		"a key that is not there to be moved": {
			`patches: [{target: {kind: ConfigMap}, patch: '[{"op": "move", "from": "/data/b", "path": "/data/c"}]'}]`,
			"ConfigMap shop/api", "/data/c", "does not exist"},
		"a key that is not there to be tested": {
			`patches: [{target: {kind: ConfigMap}, patch: '[{"op": "test", "path": "/data/b", "value": "1"}]'}]`,
			"ConfigMap shop/api", "/data/b", "another value"},
		"a place beyond the end of a list": {
			`patches: [{target: {kind: Deployment}, patch: '[{"op": "add", "path": "/spec/template/spec/containers/7", "value": {}}]'}]`,
			"Deployment shop/api", "/spec/template/spec/containers/7", "does not exist"},
		"a place in a list that is not there": {
			`patches: [{target: {kind: Deployment}, patch: '[{"op": "replace", "path": "/spec/template/spec/containers/7/image", "value": "x"}]'}]`,
			"Deployment shop/api", "/spec/template/spec/containers/7/image", "does not exist"},
		"a place under a field that is not there": {
			`patches: [{target: {kind: ConfigMap}, patch: '[{"op": "add", "path": "/metadata/annotations/a", "value": "x"}]'}]`,
			"ConfigMap shop/api", "/metadata/annotations/a", "does not exist"},
		"another value than is tested for": {
			`patches: [{target: {kind: ConfigMap}, patch: '[{"op": "test", "path": "/data/a", "value": "2"}]'}]`,
			"ConfigMap shop/api", "/data/a", "another value"},
		"a label that the cluster does not have": {
			`patches: [{target: {kind: ConfigMap}, patch: '{"data": {"zone": "${cluster.labels[''zone'']}"}}'}]`,
			"ConfigMap shop/api", "/data/zone", "kubectl label managedcluster c2 zone=VALUE"},
		"a claim that the cluster does not have": {
			`patches: [{target: {kind: ConfigMap}, patch: '{"data": {"id": "${cluster.claims[''id'']}"}}'}]`,
			"ConfigMap shop/api", "/data/id", "ClusterClaim id"},
		"an object that an earlier override excludes": {
			`exclude: [{kind: ConfigMap}]
  patches: [{target: {kind: ConfigMap}, patch: '{"data": {"a": "2"}}'}]`,
			"patch of kind ConfigMap", "", "matches no object of this cluster's content"},
		"another form": {
			`patches: [{target: {kind: Deployment}, patch: '{"spec": {"template": "none"}}'}]`,
			"Deployment shop/api", "/spec/template", "a plain value where the object has an object"},
		"a field of another kind": {
			`patches: [{target: {kind: Deployment}, patch: '{"data": {"a": "2"}}'}]`,
			"Deployment shop/api", "/data", "no such field"},
		"text where a number belongs": {
			`patches: [{target: {kind: Deployment}, patch: '{"spec": {"replicas": "${cluster.labels[''region'']}"}}'}]`,
			"Deployment shop/api", "", "wrong type"},
		"an image that nothing uses": {
			`exclude: [{kind: Deployment}]
  images: [{name: registry.example.com/shop/api, newTag: "2"}]`,
			"image registry.example.com/shop/api", "", "no container"},
	} {
		_, _, err := overlaid(t, "- name: eu\n  clusterSelector: {}\n  "+c.override, berlin, nil)
		var unfit *OverrideError
		if !errors.As(err, &unfit) {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		if unfit.Cluster != "c2" || unfit.Override != "eu" || unfit.Subject != c.subject || unfit.Path != c.path || !strings.Contains(unfit.Problem, c.says) {
			t.Errorf("%s: got %q, %q: %s", name, unfit.Subject, unfit.Path, unfit.Problem)
		}
		// Where the override does not match, it is nobody's business.
		read, _ := overridesOf(t, "- name: eu\n  clusterSelector: {matchLabels: {region: us}}\n  "+c.override)
		if _, _, err := Overlay(objectsOf(t, template), read, berlin, nil); err != nil {
			t.Errorf("%s: other clusters are affected: %v", name, err)
		}
	}
}

func TestLaw19OverridesAreRefusedByField(t *testing.T) {
	for name, c := range map[string]struct{ override, field, says string }{
		"twice the same name": {"patches: [{target: {kind: ConfigMap}, patch: '{\"data\": {}}'}]\n- name: eu\n  clusterSelector: {}\n  exclude: [{kind: ConfigMap}]", "spec.overrides[1].name", "Duplicate"},
		"no object":           {`exclude: [{kind: Cronjob}]`, "spec.overrides[0].exclude[0]", "matches no object of the template"},
		"no YAML":             {`patches: [{target: {kind: ConfigMap}, patch: "{"}]`, "spec.overrides[0].patches[0].patch", "neither YAML nor JSON"},
		"an unknown op":       {`patches: [{target: {kind: ConfigMap}, patch: '[{"op": "set", "path": "/data/a", "value": 1}]'}]`, "spec.overrides[0].patches[0].patch", "write add, remove"},
		"an unknown variable": {`patches: [{target: {kind: ConfigMap}, patch: '{"data": {"a": "${cluster.region}"}}'}]`, "spec.overrides[0].patches[0].patch", "is no variable"},
		"data of a Secret":    {`patches: [{target: {kind: Secret}, patch: '{"stringData": {"password": "p"}}'}]`, "spec.overrides[0].patches[0].patch", "must not change the data of a Secret"},
		"a bad tag":           {`images: [{name: a, newTag: "a b"}]`, "spec.overrides[0].images[0]", "no tag"},
		"a bad operator":      {"exclude: [{kind: ConfigMap}]\n  claimSelector: {matchExpressions: [{key: a, operator: Gt}]}", "spec.overrides[0].claimSelector.matchExpressions[0].operator", "write In, NotIn"},
	} {
		_, problems := overridesOf(t, "- name: eu\n  clusterSelector: {}\n  "+c.override)
		if len(problems) != 1 || problems[0].Field != c.field || !strings.Contains(problems[0].Error(), c.says) {
			t.Errorf("%s: got %v", name, problems)
		}
	}
}

func TestLaw19CommentsAndTheOrderOfKeysMakeNoRevision(t *testing.T) {
	one, _ := overridesOf(t, "- name: eu\n  clusterSelector: {}\n  patches: [{target: {kind: ConfigMap}, patch: \"# why\\ndata: {a: '2', b: '3'}\"}]")
	other, _ := overridesOf(t, `[{"name": "eu", "clusterSelector": {}, "patches": [{"target": {"kind": "ConfigMap"}, "patch": "{\"data\": {\"b\": \"3\", \"a\": \"2\"}}"}]}]`)
	if diff := cmp.Diff(one, other); diff != "" {
		t.Error(diff)
	}
}

// FuzzOverlay: whatever the values of a cluster are, they stay strings, and the
// same input gives the same bytes.
func FuzzOverlay(f *testing.F) {
	f.Add("eu", "AWS")
	f.Add("a: b\n", "${cluster.name}")
	f.Add("\"]}", "$${")
	f.Fuzz(func(t *testing.T, region, platform string) {
		cluster := Cluster{Name: "c1", Labels: map[string]string{"region": region}, Claims: map[string]string{"platform": platform}}
		read, problems := overridesOf(t, `
- name: values
  clusterSelector: {}
  patches:
  - target: {kind: ConfigMap}
    patch: '{"data": {"region": "${cluster.labels[''region'']}", "platform": "${cluster.claims[''platform'']}"}}'
`)
		if len(problems) > 0 {
			t.Fatal(problems.ToAggregate())
		}
		objects, resolved, err := Overlay(objectsOf(t, template), read, cluster, nil)
		if err != nil {
			t.Skip(err)
		}
		data := find(t, objects, "ConfigMap")["data"].(map[string]any)
		if data["region"] != region || data["platform"] != platform || len(data) != 3 {
			t.Errorf("got %q", data)
		}
		again, _, err := Overlay(objectsOf(t, template), read, Cluster{Name: "c1"}, &resolved)
		if err != nil {
			t.Fatal(err)
		}
		first, second := mustJSON(t, objects), mustJSON(t, again)
		if first != second {
			t.Errorf("first %s\nsecond %s", first, second)
		}
	})
}

func mustJSON(t *testing.T, objects []*unstructured.Unstructured) string {
	t.Helper()
	text := ""
	for _, object := range objects {
		raw, err := json.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintln(string(raw))
	}
	return text
}

// A revision that another release of the manager froze is checked as well.
func TestNoOverlayMakesAnotherObjectOfOne(t *testing.T) {
	for patch, path := range map[string]string{
		`{"metadata": {"name": "other"}}`:                                     "/metadata/name",
		`{"metadata": {"namespace": "other"}}`:                                "/metadata/namespace",
		`[{"op": "replace", "path": "/kind", "value": "ReplicaSet"}]`:         "/kind",
		`[{"op": "replace", "path": "/apiVersion", "value": "apps/v1beta1"}]`: "/apiVersion",
	} {
		override := v1alpha1.Override{Name: "eu", Patches: []v1alpha1.Patch{{Target: v1alpha1.ObjectTarget{Kind: "Deployment"}, Patch: patch}}}
		_, _, err := Overlay(objectsOf(t, template), []v1alpha1.Override{override}, berlin, &Resolution{Overrides: []string{"eu"}})
		var unfit *OverrideError
		if !errors.As(err, &unfit) || unfit.Path != path {
			t.Errorf("%s: got %v", patch, err)
		}
	}
}
