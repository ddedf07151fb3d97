package workbuilder

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func bytesOf(t testing.TB, set WorkSet) string {
	t.Helper()
	raw, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// The order of components, of manifests and of the present works means nothing.
func TestOrderOfTheInputDoesNotChangeOneByte(t *testing.T) {
	content := payload("2.0.0", namespaceYAML, configMapYAML, crdYAML, customYAML, scalerYAML, deploymentYAML, jobYAML, claimYAML)
	digest := digestOf(t, content)
	present := []*workv1.ManifestWork{
		written(t, request(t, 1, payload("1.0.0", volumeYAML, bigConfigMap("old", 10), bigConfigMap("older", 10)))),
		written(t, request(t, 1, payload("1.0.0", bigConfigMap("oldest", 10)))),
	}
	var want string
	for seed := range int64(200) {
		random := rand.New(rand.NewSource(seed))
		shuffled := content
		manifests := slices.Clone(content.Template.Components[0].Manifests)
		random.Shuffle(len(manifests), func(i, j int) { manifests[i], manifests[j] = manifests[j], manifests[i] })
		cut := random.Intn(len(manifests))
		shuffled.Template.Components = []v1alpha1.Component{
			{Name: "b", Manifests: manifests[:cut]}, {Name: "a", Manifests: manifests[cut:]},
		}
		works := []*workv1.ManifestWork{present[0], present[1]}
		random.Shuffle(len(works), func(i, j int) { works[i], works[j] = works[j], works[i] })

		delivery := request(t, 2, shuffled)
		delivery.Spec.Revision.Digest = digest
		delivery.Present = works
		rendering := render(t, delivery)
		var got string
		for _, phase := range []v1alpha1.WritePhase{v1alpha1.PhaseAdd, v1alpha1.PhaseDrop} {
			set, err := Works(rendering, phase, works)
			if err != nil {
				t.Fatal(err)
			}
			got += bytesOf(t, set)
		}
		if want == "" {
			want = got
		}
		if got != want {
			t.Fatalf("seed %d gives other bytes:\n%s\n%s", seed, got, want)
		}
	}
}

// FuzzRender feeds manifests that nobody wrote on purpose. Whatever they are,
// rendering must not panic, must not depend on being asked twice, and must stamp
// every object.
func FuzzRender(f *testing.F) {
	for _, seed := range []string{deploymentYAML, scalerYAML, crdYAML, jobYAML, claimYAML} {
		f.Add(payload("1.0.0", seed).Template.Components[0].Manifests[0].Raw, int32(1), true)
	}
	f.Add([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","labels":null,"annotations":7}}`), int32(2), false)
	f.Add([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"x"},"spec":{"versions":[1,{"name":2}]}}`), int32(2), false)
	f.Fuzz(func(t *testing.T, raw []byte, attempt int32, back bool) {
		content := payload("1.0.0", configMapYAML)
		content.Template.Components[0].Manifests = append(content.Template.Components[0].Manifests, runtime.RawExtension{Raw: raw})
		delivery := Request{Cluster: "c1", Payload: content, Spec: v1alpha1.RolloutDeliverySpec{
			Rollout:  v1alpha1.RolloutReference{Namespace: "platform", Name: "payments"},
			Revision: v1alpha1.RevisionReference{Digest: fmt.Sprintf("sha256:%064d", attempt)},
			Attempt:  attempt, Delivery: 1, Direction: v1alpha1.DirectionForward,
		}}
		if back {
			delivery.Spec.Direction = v1alpha1.DirectionRollback
		}
		first, err := Render(delivery)
		if err != nil {
			return
		}
		for i, object := range first.Objects {
			if object.GetAnnotations()[v1alpha1.AnnotationContentHash] != first.Rendered.Objects[i].Hash {
				t.Errorf("%s is not stamped as recorded", v1alpha1.Describe(object))
			}
		}
		set, err := Works(first, v1alpha1.PhaseDrop, nil)
		if err != nil {
			return
		}
		delivery.Present = set.Works
		second, err := Render(delivery)
		if err != nil {
			t.Fatalf("the second rendering fails: %v", err)
		}
		again, err := Works(second, v1alpha1.PhaseDrop, set.Works)
		if err != nil {
			t.Fatalf("the second write fails: %v", err)
		}
		if bytesOf(t, set) != bytesOf(t, again) {
			t.Errorf("asked twice, two answers:\n%s\n%s", bytesOf(t, set), bytesOf(t, again))
		}
	})
}

// BenchmarkRender is one cluster's share of a rollout: ten objects rendered and
// laid into a work on top of the one that is there. Run it with
// -benchtime=10000x -benchmem for ten thousand clusters.
func BenchmarkRender(b *testing.B) {
	first := []*workv1.ManifestWork{written(b, request(b, 1, benchmarkPayload("1.0.0")))}
	delivery := request(b, 2, benchmarkPayload("2.0.0"))
	b.ReportAllocs()
	for b.Loop() {
		delivery.Present = first
		rendering, err := Render(delivery)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Works(rendering, v1alpha1.PhaseDrop, first); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkPayload(version string) v1alpha1.RevisionPayload {
	manifests := []string{namespaceYAML, configMapYAML, crdYAML, customYAML, scalerYAML, deploymentYAML, jobYAML, claimYAML}
	return payload(version, append(manifests, bigConfigMap("one", 1000), bigConfigMap("two", 1000))...)
}
