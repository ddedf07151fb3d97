package revision

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func europe(patch string) v1alpha1.Override {
	return v1alpha1.Override{
		Name:            "europe",
		ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"region": "eu"}},
		Patches:         []v1alpha1.Patch{{Target: v1alpha1.ObjectTarget{Kind: "ConfigMap"}, Patch: patch}},
	}
}

func TestDigestCoversOverridesAsTheySayNotAsTheyAreWritten(t *testing.T) {
	digest := func(overrides ...v1alpha1.Override) string {
		spec := specOf(t, deploymentYAML, configMapYAML)
		spec.Overrides = overrides
		return freeze(t, spec).Digest
	}
	// Digests name revisions that exist: without overrides they stay what they were.
	const plain = "sha256:5a24f487a96fa0405e2ba7c8cb419859287756ffab102df1fea7ccd5049a98ab"
	if got := digest(); got != plain {
		t.Errorf("content without overrides has the digest %s, and had %s", got, plain)
	}
	one := digest(europe("data: {greeting: hi, name: x} # why"))
	if one == plain {
		t.Error("an override is no part of the digest")
	}
	if digest(europe(`{"data": {"name": "x", "greeting": "hi"}}`)) != one {
		t.Error("the layout of a patch is part of the digest")
	}
	if digest(europe("data: {greeting: hi, name: y}")) == one {
		t.Error("what a patch says is no part of the digest")
	}
	other := europe("data: {greeting: hey}")
	other.Name = "other"
	if digest(europe("data: {greeting: hi}"), other) == digest(other, europe("data: {greeting: hi}")) {
		t.Error("the order of overrides is no part of the digest, and the later one wins")
	}
}

func TestOverridesAreComparedWithATemplateThatIsWhole(t *testing.T) {
	spec := specOf(t, deploymentYAML)
	spec.Overrides = []v1alpha1.Override{europe("data: {greeting: hi}")}
	if got := fields(t, spec); len(got) != 1 || got[0] != "spec.overrides[0].patches[0].target" {
		t.Errorf("got problems of %v", got)
	}
}

func TestARetainedRevisionKeepsItsOverrides(t *testing.T) {
	spec := specOf(t, configMapYAML)
	spec.Overrides = []v1alpha1.Override{europe("data: {greeting: hi}")}
	frozen := freeze(t, spec)
	raw, err := EncodePayload(frozen.Payload)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := DecodePayload(raw, frozen.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if len(payload.Overrides) != 1 || payload.Overrides[0].Patches[0].Patch != `{"data":{"greeting":"hi"}}` {
		t.Errorf("got %+v", payload.Overrides)
	}
}
