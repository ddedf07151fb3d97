package revision

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

const (
	deploymentYAML = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec: {containers: [{name: api, image: "registry/api:1"}]}
`
	configMapYAML = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop}, data: {greeting: hello}}"
)

func manifests(t testing.TB, documents ...string) []runtime.RawExtension {
	t.Helper()
	var out []runtime.RawExtension
	for _, document := range documents {
		raw, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		out = append(out, runtime.RawExtension{Raw: raw})
	}
	return out
}

// specOf is a valid spec with the given manifests in one component.
func specOf(t testing.TB, documents ...string) v1alpha1.FleetRolloutSpec {
	t.Helper()
	return v1alpha1.FleetRolloutSpec{
		Version:    "1.0.0",
		Placements: []v1alpha1.PlacementReference{{Name: "fleet"}},
		Template:   v1alpha1.Template{Components: []v1alpha1.Component{{Name: "main", Manifests: manifests(t, documents...)}}},
		Strategy: v1alpha1.Strategy{Groups: []v1alpha1.Group{{
			Name:            "all",
			ClusterSelector: metav1.LabelSelector{},
			Steps:           []v1alpha1.Step{{Clusters: intstr.FromString("100%")}},
		}}},
	}
}

func freeze(t testing.TB, spec v1alpha1.FleetRolloutSpec) Frozen {
	t.Helper()
	frozen, err := Freeze(spec)
	if err != nil {
		t.Fatalf("Freeze: %v", err)
	}
	return frozen
}

func payloadOf(t testing.TB, documents ...string) v1alpha1.RevisionPayload {
	t.Helper()
	return freeze(t, specOf(t, documents...)).Payload
}

// fields lists the fields that Freeze complains about, in order.
func fields(t testing.TB, spec v1alpha1.FleetRolloutSpec) []string {
	t.Helper()
	_, err := Freeze(spec)
	var invalid *InvalidError
	if err != nil && !errors.As(err, &invalid) {
		t.Fatalf("error %v is not an InvalidError", err)
	}
	if invalid == nil {
		return nil
	}
	var out []string
	for _, problem := range invalid.Problems {
		out = append(out, strings.TrimPrefix(problem.Field, "spec.template.components[0]."))
	}
	return out
}
