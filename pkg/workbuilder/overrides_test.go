package workbuilder

import (
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// overridden is a payload of everything with overrides of everything.
func overridden() v1alpha1.RevisionPayload {
	all := payload("1.0.0", namespaceYAML, configMapYAML, scalerYAML, deploymentYAML, jobYAML)
	all.Overrides = []v1alpha1.Override{
		{
			Name:            "edge",
			ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "edge"}},
			Exclude:         []v1alpha1.ObjectTarget{{Kind: "HorizontalPodAutoscaler"}},
			Patches: []v1alpha1.Patch{
				{Target: v1alpha1.ObjectTarget{Kind: "Deployment"}, Patch: `{"spec":{"replicas":1,"template":{"spec":{"containers":[{"env":[{"name":"CLUSTER","value":"${cluster.name}"}],"name":"api"}]}}}}`},
				{Target: v1alpha1.ObjectTarget{Kind: "ConfigMap"}, Patch: `[{"op":"add","path":"/data/region","value":"${cluster.labels['region']}"}]`},
				{Target: v1alpha1.ObjectTarget{Kind: "ConfigMap"}, Patch: `{"data":{"platform":"${cluster.claims['platform']}"}}`},
			},
		},
		{
			Name:            "mirror",
			ClusterSelector: metav1.LabelSelector{},
			Images:          []v1alpha1.ImageOverride{{Name: "registry/migrate", NewName: "mirror/migrate"}, {Name: "registry/api", NewTag: "2"}},
		},
	}
	return all
}

func onEdge(request Request) Request {
	request.Labels = map[string]string{"tier": "edge", "region": "eu", "unrelated": "x"}
	request.Claims = map[string]string{"platform": "AWS", "id": "1"}
	return request
}

func TestLaw19AClusterWithoutTheAutoscalerGetsReplicas(t *testing.T) {
	replicas := func(request Request) any {
		value, _, err := unstructured.NestedFieldNoCopy(find(t, render(t, request).Objects, "Deployment").Object, "spec", "replicas")
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	if got := replicas(request(t, 1, overridden())); got != nil {
		t.Errorf("with the autoscaler the Deployment ships replicas: %v", got)
	}
	if got := replicas(onEdge(request(t, 1, overridden()))); got != int64(1) {
		t.Errorf("without the autoscaler the Deployment ships replicas: %v, want those of the override", got)
	}
}

func TestLaw19WhatIsRecordedOfADeliveryWinsOverTheClusterOfToday(t *testing.T) {
	first := render(t, onEdge(request(t, 1, overridden())))
	if diff := cmp.Diff([]string{"edge", "mirror"}, first.Rendered.Overrides); diff != "" {
		t.Error(diff)
	}
	wanted := []v1alpha1.ResolvedVariable{
		{Name: "cluster.claims['platform']", Value: "AWS"}, {Name: "cluster.labels['region']", Value: "eu"}, {Name: "cluster.name", Value: "c1"},
	}
	if diff := cmp.Diff(wanted, first.Rendered.Variables); diff != "" {
		t.Error(diff)
	}

	again := request(t, 1, overridden())
	again.Labels = map[string]string{"tier": "core"}
	again.Recorded = &first.Rendered
	if diff := cmp.Diff(bytesOf(t, works(t, first, v1alpha1.PhaseDrop)), bytesOf(t, works(t, render(t, again), v1alpha1.PhaseDrop))); diff != "" {
		t.Errorf("the same delivery gives other bytes:\n%s", diff)
	}

	// Of another delivery nothing is recorded yet.
	next := request(t, 2, overridden())
	next.Recorded = &first.Rendered
	if diff := cmp.Diff([]string{"mirror"}, render(t, next).Rendered.Overrides); diff != "" {
		t.Error(diff)
	}
}

func TestLaw23AJobIsNamedAndRememberedAsTheOverridesLeaveIt(t *testing.T) {
	rendering := render(t, request(t, 1, overridden()))
	job := find(t, rendering.Objects, "Job")
	if !strings.HasPrefix(job.GetName(), "migrate-") {
		t.Errorf("the Job is named %s", job.GetName())
	}
	if raw := bytesOf(t, works(t, rendering, v1alpha1.PhaseDrop)); !strings.Contains(raw, "mirror/migrate:1") {
		t.Errorf("the Job does not run the overridden image: %s", raw)
	}
	plain := overridden()
	plain.Overrides = nil
	if other := render(t, request(t, 1, plain)); other.Jobs[0].Job.Hash == rendering.Jobs[0].Job.Hash {
		t.Error("a Job with another image counts as the same, and a rollback would leave it out")
	}
}

func TestOverridesGiveTheSameBytesInWhateverOrderMapsAndManifestsCome(t *testing.T) {
	wanted := bytesOf(t, works(t, render(t, onEdge(request(t, 1, overridden()))), v1alpha1.PhaseDrop))
	for seed := range int64(100) {
		random := rand.New(rand.NewSource(seed))
		shuffled := overridden()
		manifests := shuffled.Template.Components[0].Manifests
		random.Shuffle(len(manifests), func(i, j int) { manifests[i], manifests[j] = manifests[j], manifests[i] })
		delivery := onEdge(request(t, 1, shuffled))
		delivery.Spec.Revision.Digest = digestOf(t, overridden())
		// A map that is filled anew is walked in another order.
		delivery.Labels, delivery.Claims = refill(delivery.Labels, random), refill(delivery.Claims, random)
		if got := bytesOf(t, works(t, render(t, delivery), v1alpha1.PhaseDrop)); got != wanted {
			t.Fatalf("seed %d gives other bytes:\n%s\n%s", seed, got, wanted)
		}
	}
}

func refill(values map[string]string, random *rand.Rand) map[string]string {
	keys := slices.Sorted(maps.Keys(values))
	random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	filled := map[string]string{}
	for _, key := range keys {
		filled[key] = values[key]
	}
	return filled
}

// FuzzRenderForACluster feeds values of clusters: whatever they are, they stay
// strings where they were asked for, and the same cluster gives the same bytes.
func FuzzRenderForACluster(f *testing.F) {
	f.Add("eu", "AWS", true)
	f.Add("a: b\n- c", "\"]}", true)
	f.Add("${cluster.name}", "$${", false)
	f.Fuzz(func(t *testing.T, region, platform string, edge bool) {
		if !utf8.ValidString(region + platform) {
			t.Skip("the API server stores no such text")
		}
		delivery := request(t, 1, overridden())
		delivery.Labels = map[string]string{"region": region}
		delivery.Claims = map[string]string{"platform": platform}
		if edge {
			delivery.Labels["tier"] = "edge"
		}
		first := render(t, delivery)
		if edge {
			data, _, err := unstructured.NestedMap(find(t, first.Objects, "ConfigMap").Object, "data")
			if err != nil || data["region"] != region || data["platform"] != platform || len(data) != 3 {
				t.Errorf("data is %q (%v)", data, err)
			}
		}
		delivery.Labels, delivery.Claims, delivery.Recorded = nil, nil, &first.Rendered
		if bytesOf(t, works(t, first, v1alpha1.PhaseDrop)) != bytesOf(t, works(t, render(t, delivery), v1alpha1.PhaseDrop)) {
			t.Error("the same delivery gives other bytes")
		}
	})
}

// BenchmarkRenderWithOverrides is BenchmarkRender for a cluster that two
// overrides with four patches and three images match.
func BenchmarkRenderWithOverrides(b *testing.B) {
	content := benchmarkPayload("2.0.0")
	content.Overrides = overridden().Overrides
	content.Overrides[0].Patches[1].Target.Name = "settings"
	content.Overrides[0].Patches[2].Target.Name = "settings"
	delivery := onEdge(request(b, 1, content))
	if _, err := Render(delivery); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		rendering, err := Render(delivery)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Works(rendering, v1alpha1.PhaseDrop, nil); err != nil {
			b.Fatal(err)
		}
	}
}
