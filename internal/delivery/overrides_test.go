package delivery

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// withOverride freezes an override of ConfigMap settings for clusters with a label
// region, whatever its value.
func withOverride(value string) func(*v1alpha1.FleetRolloutSpec) {
	return func(spec *v1alpha1.FleetRolloutSpec) {
		spec.Overrides = []v1alpha1.Override{{
			Name: "regional",
			ClusterSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "region", Operator: metav1.LabelSelectorOpExists}}},
			Patches: []v1alpha1.Patch{{
				Target: v1alpha1.ObjectTarget{Kind: "ConfigMap", Name: "settings"},
				Patch:  `{"data": {"content": "` + value + `"}}`,
			}},
		}}
	}
}

func TestLaw19LaterLabelsWriteNothingAndShowAsDriftOfIntent(t *testing.T) {
	h := newHub(t)
	h.cluster.Labels = map[string]string{"region": "eu"}
	h.adjust = withOverride("in ${cluster.labels['region']}")
	h.intend(h.freeze(1, "1.0.0", settings("1")), v1alpha1.DirectionForward)
	h.settle()
	rendered := h.delivery().Status.Rendered
	if !strings.Contains(h.content(), "settings=in eu") || len(rendered.Overrides) != 1 || len(rendered.Variables) != 1 {
		t.Fatalf("delivered %s, recorded %+v", h.content(), rendered)
	}

	h.workWrites = 0
	h.cluster.Labels = map[string]string{"region": "us"}
	h.restart()
	h.settle()
	if drift := h.delivery().Status.IntentDrift; h.workWrites != 0 || !strings.Contains(drift, `was "eu" and is "us"`) {
		t.Errorf("%d writes, drift of intent %q", h.workWrites, drift)
	}
	h.cluster.Labels = nil
	h.settle()
	if drift := h.delivery().Status.IntentDrift; h.workWrites != 0 || !strings.Contains(drift, `override "regional" matches no longer`) {
		t.Errorf("%d writes, drift of intent %q", h.workWrites, drift)
	}
	h.cluster.Labels = map[string]string{"region": "eu"}
	h.settle()
	if drift := h.delivery().Status.IntentDrift; drift != "" {
		t.Errorf("nothing would change, and the drift of intent is %q", drift)
	}

	// The next intent brings it.
	h.cluster.Labels = map[string]string{"region": "us"}
	h.intend(h.freeze(2, "2.0.0", settings("2")), v1alpha1.DirectionForward)
	h.settle()
	if !strings.Contains(h.content(), "settings=in us") || h.delivery().Status.IntentDrift != "" {
		t.Errorf("delivered %s, drift of intent %q", h.content(), h.delivery().Status.IntentDrift)
	}
}

func TestCaseN1AClusterWithoutAValueIsBlockedUntilItHasOne(t *testing.T) {
	h := newHub(t)
	h.cluster.Labels = map[string]string{"region": "eu"}
	h.adjust = withOverride("${cluster.claims['id']}")
	h.intend(h.freeze(1, "1.0.0", settings("1")), v1alpha1.DirectionForward)
	h.settle()
	status := h.delivery().Status
	if status.State != v1alpha1.StateBlocked || status.Reason != v1alpha1.ReasonOverrideFailed || h.workWrites != 0 || status.WrittenAt != nil {
		t.Fatalf("%s %s after %d writes", status.State, status.Reason, h.workWrites)
	}
	for _, named := range []string{"regional", "c1", "ConfigMap", "settings", "/data/content", "cluster.claims['id']"} {
		if !strings.Contains(status.Message, named) {
			t.Errorf("the message does not name %s: %s", named, status.Message)
		}
	}
	h.cluster.Claims = map[string]string{"id": "42"}
	h.settle()
	if !strings.Contains(h.content(), "settings=42") {
		t.Errorf("it has a value now, and carries %s (%s)", h.content(), h.delivery().Status.Message)
	}
}

func TestCaseN3ARollbackBringsTheOverridesOfItsRevisionByteForByte(t *testing.T) {
	h := newHub(t)
	h.cluster.Labels = map[string]string{"region": "eu"}
	h.adjust = withOverride("o=1")
	first := h.freeze(1, "1.0.0", settings("1"))
	h.intend(first, v1alpha1.DirectionForward)
	h.settle()
	before := h.works()[0].Spec

	h.adjust = withOverride("o=2")
	h.intend(h.freeze(2, "2.0.0", settings("1")), v1alpha1.DirectionForward)
	h.settle()
	if !strings.Contains(h.content(), "settings=o=2") {
		t.Fatalf("2.0.0 is delivered as %s", h.content())
	}
	h.restart()
	h.intend(first, v1alpha1.DirectionRollback)
	h.settle()
	after := h.works()[0].Spec
	for i, manifest := range before.Workload.Manifests {
		if string(manifest.Raw) != string(after.Workload.Manifests[i].Raw) {
			t.Errorf("before %s\nafter  %s", manifest.Raw, after.Workload.Manifests[i].Raw)
		}
	}
}
