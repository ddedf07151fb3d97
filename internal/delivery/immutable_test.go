package delivery

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func TestLaw23AnOverrideThatChangesAnImmutableFieldBlocksItsClustersAlone(t *testing.T) {
	frozen := runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"frozen","namespace":"shop"},"immutable":true,"data":{"a":"hunter2"}}`)}
	h := newHub(t)
	h.cluster.Labels = map[string]string{"region": "eu"}
	first := h.freeze(1, "1.0.0", frozen, settings("1"))
	h.intend(first, v1alpha1.DirectionForward)
	h.settle()

	h.adjust = func(spec *v1alpha1.FleetRolloutSpec) {
		spec.Overrides = []v1alpha1.Override{{
			Name:            "europe",
			ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"region": "eu"}},
			Patches:         []v1alpha1.Patch{{Target: v1alpha1.ObjectTarget{Kind: "ConfigMap", Name: "frozen"}, Patch: `{"data": {"a": "2"}}`}},
		}}
	}
	second := h.freeze(2, "2.0.0", frozen, settings("2"))
	h.workWrites = 0
	h.intend(second, v1alpha1.DirectionForward)
	h.settle()
	status := h.delivery().Status
	if status.State != v1alpha1.StateBlocked || status.Reason != v1alpha1.ReasonOverrideFailed || h.workWrites != 0 {
		t.Fatalf("%s %s after %d writes: %s", status.State, status.Reason, h.workWrites, status.Message)
	}
	for _, named := range []string{"ConfigMap shop/frozen", "data", "c1", "europe"} {
		if !strings.Contains(status.Message, named) {
			t.Errorf("the message does not name %s: %s", named, status.Message)
		}
	}
	if strings.Contains(status.Message, "hunter2") {
		t.Errorf("the message shows a value: %s", status.Message)
	}

	// A cluster that the override does not match gets the revision.
	h.cluster.Labels = nil
	h.settle()
	if status := h.delivery().Status; status.State == v1alpha1.StateBlocked || !strings.Contains(h.content(), "settings=2") {
		t.Errorf("%s %s, delivered %s", status.State, status.Message, h.content())
	}

	// Going back is tried whatever it meets.
	h.cluster.Labels = map[string]string{"region": "eu"}
	h.intend(second, v1alpha1.DirectionRollback)
	h.settle()
	if status := h.delivery().Status; status.State == v1alpha1.StateBlocked {
		t.Errorf("a rollback is blocked: %s", status.Message)
	}
}

func TestAPayloadThatCannotBeReadDoesNotKeepAClusterFromBeingJudged(t *testing.T) {
	h := newHub(t)
	h.cluster.Labels = map[string]string{"region": "eu"}
	h.intend(h.freeze(1, "1.0.0", settings("1")), v1alpha1.DirectionForward)
	h.settle()
	h.restart()
	h.applier.payloads = NewPayloads(unreadable{})
	if err := h.reconcile(); err != nil {
		t.Error(err)
	}
}

func TestRevisionsWithoutOverridesAreReadOnceForDriftOfIntent(t *testing.T) {
	h := newHub(t)
	h.intend(h.freeze(1, "1.0.0", settings("1")), v1alpha1.DirectionForward)
	h.settle()
	h.restart()
	for _, value := range []string{"a", "b", "c"} {
		h.applier.payloads = NewPayloads(h.client)
		h.cluster.Labels = map[string]string{"changed": value}
		if err := h.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if h.applier.payloads.recent.Len() != 0 {
		t.Error("the payload was read again though the revision is known to have no overrides")
	}
}

// unreadable is a hub that answers no read.
type unreadable struct{ client.Reader }

func (unreadable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("the hub does not answer")
}
