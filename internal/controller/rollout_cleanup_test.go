package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func TestDeletionRemovesEverythingBeforeTheFinalizer(t *testing.T) {
	w := newWorld(t, "c1", "c2")
	w.settle()
	w.prove("c1", "c2")
	w.settle()
	if err := w.hub.Delete(context.Background(), w.rollout()); err != nil {
		t.Fatal(err)
	}
	w.settle()
	for cluster, delivery := range w.deliveries() {
		if delivery.Spec.Removal != v1alpha1.DeletePolicyDelete {
			t.Errorf("cluster %s: removal %q", cluster, delivery.Spec.Removal)
		}
	}

	removed := func(d *v1alpha1.RolloutDelivery) {
		d.Status.State, d.Status.Delivery = v1alpha1.StateRemoved, d.Spec.Delivery
	}
	w.report("c1", removed)
	w.settle()
	if got := w.deliveries(); len(got) != 1 || got["c2"] == nil {
		t.Fatalf("deliveries %v, want that of c2", got)
	}
	if !controllerutil.ContainsFinalizer(w.rollout(), v1alpha1.Finalizer) {
		t.Fatal("the finalizer went before the last delivery")
	}
	ready := meta.FindStatusCondition(w.rollout().Status.Conditions, v1alpha1.ConditionReady)
	if ready.Reason != v1alpha1.ReasonDeleting || !strings.Contains(ready.Message, "c2") {
		t.Errorf("Ready is %+v; want the cluster that is waited for", ready)
	}

	w.report("c2", removed)
	w.settle()
	var fro v1alpha1.FleetRollout
	if err := w.hub.Get(context.Background(), rolloutKey, &fro); !apierrors.IsNotFound(err) {
		t.Errorf("the rollout is still there: %v", err)
	}
	if got := w.deliveries(); len(got) != 0 {
		t.Errorf("%d deliveries are left", len(got))
	}
}

func TestTheFinalizerStaysForADeliveryThatTheCacheDoesNotShow(t *testing.T) {
	w := newWorld(t, "c1")
	w.settle()
	w.freeze()
	hidden := w.deliveries()["c1"].DeepCopy()
	hidden.Namespace, hidden.ResourceVersion = "c9", ""
	w.create(hidden)
	if err := w.hub.Delete(context.Background(), w.deliveries()["c1"]); err != nil {
		t.Fatal(err)
	}
	if err := w.hub.Delete(context.Background(), w.rollout()); err != nil {
		t.Fatal(err)
	}
	frozen := w.cache.(client.Client)
	if err := frozen.Delete(context.Background(), w.deliveryIn(frozen, "c1")); err != nil {
		t.Fatal(err)
	}
	w.restart()
	// The cache knows of the deletion, and not of the delivery in c9.
	froze := &v1alpha1.FleetRollout{}
	if err := frozen.Get(context.Background(), rolloutKey, froze); err != nil {
		t.Fatal(err)
	}
	if err := frozen.Delete(context.Background(), froze); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	if !controllerutil.ContainsFinalizer(w.rollout(), v1alpha1.Finalizer) {
		t.Error("the finalizer is gone although a delivery is left")
	}
}

func (w *world) deliveryIn(c client.Client, cluster string) *v1alpha1.RolloutDelivery {
	w.t.Helper()
	var delivery v1alpha1.RolloutDelivery
	key := client.ObjectKey{Namespace: cluster, Name: v1alpha1.DeliveryName(rolloutKey.Namespace, rolloutKey.Name)}
	if err := c.Get(context.Background(), key, &delivery); err != nil {
		w.t.Fatal(err)
	}
	return &delivery
}

func TestHistoryIsTrimmedWithItsPayloads(t *testing.T) {
	w := newWorld(t, "c1")
	w.edit(func(spec *v1alpha1.FleetRolloutSpec) {
		limit := int32(1)
		spec.History.Limit = &limit
	})
	for i := range 5 {
		w.edit(func(spec *v1alpha1.FleetRolloutSpec) {
			spec.Version, spec.Template = fmt.Sprintf("1.%d.0", i), templateOf(fmt.Sprint(i))
		})
		w.settle()
		w.prove("c1")
		w.settle()
	}
	var numbers []int64
	for _, record := range w.revisions() {
		numbers = append(numbers, record.Spec.Number)
	}
	if diff := cmp.Diff([]int64{4, 5}, numbers); diff != "" {
		t.Errorf("retained revisions (-want +got):\n%s", diff)
	}
	if got := len(w.secrets()); got != 2 {
		t.Errorf("%d payloads, want 2", got)
	}
}

func TestTrimmingDeletesNoSecretOfSomebodyElse(t *testing.T) {
	w := newWorld(t, "c1")
	w.edit(func(spec *v1alpha1.FleetRolloutSpec) {
		limit := int32(0)
		spec.History.Limit = &limit
	})
	w.settle()
	w.prove("c1")
	w.settle()
	first := w.secrets()[0]
	if err := w.hub.Delete(context.Background(), &first); err != nil {
		t.Fatal(err)
	}
	theirs := first.DeepCopy()
	theirs.ResourceVersion, theirs.UID, theirs.OwnerReferences, theirs.Labels = "", "theirs", nil, nil
	w.create(theirs)
	w.edit(func(spec *v1alpha1.FleetRolloutSpec) { spec.Version, spec.Template = "1.1.0", templateOf("two") })
	w.settle()
	w.prove("c1")
	w.settle()
	if got := len(w.revisions()); got != 1 {
		t.Fatalf("%d revisions are retained", got)
	}
	if err := w.hub.Get(context.Background(), client.ObjectKeyFromObject(theirs), theirs); err != nil {
		t.Errorf("the Secret that somebody else made: %v", err)
	}
}
