package workbuilder

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

const (
	deploymentYAML = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: shop, labels: {app: api}}
spec:
  replicas: 3
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec: {containers: [{name: api, image: "registry/api:1"}]}
`
	scalerYAML = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: api, namespace: shop}
spec: {minReplicas: 2, maxReplicas: 9, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: api}}
`
	namespaceYAML = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
`
	configMapYAML = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
data: {greeting: hello}
`
	claimYAML = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`
	volumeYAML = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /data}}
`
	jobYAML = `
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, namespace: shop}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: migrate, image: "registry/migrate:1"}]}}}
`
	crdYAML = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: data.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Datum, plural: data}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`
	customYAML = `
apiVersion: example.com/v1
kind: Datum
metadata: {name: one, namespace: shop}
`
)

func payload(version string, manifests ...string) v1alpha1.RevisionPayload {
	component := v1alpha1.Component{Name: "main"}
	for _, manifest := range manifests {
		raw, err := yaml.YAMLToJSON([]byte(manifest))
		if err != nil {
			panic(err)
		}
		component.Manifests = append(component.Manifests, runtime.RawExtension{Raw: raw})
	}
	return v1alpha1.RevisionPayload{
		Version:  version,
		Template: v1alpha1.Template{Components: []v1alpha1.Component{component}},
	}
}

func digestOf(t testing.TB, payload v1alpha1.RevisionPayload) string {
	t.Helper()
	digest, err := v1alpha1.ContentHash(payload)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// request is a forward delivery of a payload to cluster c1.
func request(t testing.TB, number int64, payload v1alpha1.RevisionPayload) Request {
	t.Helper()
	digest := digestOf(t, payload)
	return Request{
		Cluster: "c1",
		Spec: v1alpha1.RolloutDeliverySpec{
			Rollout:   v1alpha1.RolloutReference{Namespace: "platform", Name: "payments", UID: "uid-1"},
			Revision:  v1alpha1.RevisionReference{Name: "payments-x", Number: number, Version: payload.Version, Digest: digest},
			Delivery:  number,
			Run:       number,
			Attempt:   1,
			Direction: v1alpha1.DirectionForward,
		},
		Payload: payload,
	}
}

func render(t testing.TB, request Request) Rendering {
	t.Helper()
	rendering, err := Render(request)
	if err != nil {
		t.Fatalf("Render: %v", err)
	}
	return rendering
}

func works(t testing.TB, rendering Rendering, phase v1alpha1.WritePhase, present ...*workv1.ManifestWork) WorkSet {
	t.Helper()
	set, err := Works(rendering, phase, present)
	if err != nil {
		t.Fatalf("Works: %v", err)
	}
	return set
}

// written renders and writes one delivery, as if it were applied by now.
func written(t testing.TB, request Request, present ...*workv1.ManifestWork) *workv1.ManifestWork {
	t.Helper()
	request.Present = present
	set := works(t, render(t, request), v1alpha1.PhaseDrop, present...)
	if len(set.Works) != 1 {
		t.Fatalf("got %d works, want 1", len(set.Works))
	}
	return set.Works[0]
}

// names lists objects as "Kind/name", in order.
func names(objects []*unstructured.Unstructured) string {
	var out []string
	for _, object := range objects {
		out = append(out, object.GetKind()+"/"+object.GetName())
	}
	return strings.Join(out, " ")
}

func carriedBy(t testing.TB, work *workv1.ManifestWork) string {
	t.Helper()
	objects, err := Objects([]*workv1.ManifestWork{work})
	if err != nil {
		t.Fatal(err)
	}
	return names(objects)
}

func find(t testing.TB, objects []*unstructured.Unstructured, kind string) *unstructured.Unstructured {
	t.Helper()
	for _, object := range objects {
		if object.GetKind() == kind {
			return object
		}
	}
	t.Fatalf("no %s among %s", kind, names(objects))
	return nil
}
