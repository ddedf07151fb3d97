package controller

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/observe"
	"open-cluster-management.io/fleet-rollout/internal/revision"
)

func woken(requests []reconcile.Request) string {
	var names []string
	for _, request := range requests {
		names = append(names, request.String())
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func sourceNamed(namespace, name string) *metav1.PartialObjectMetadata {
	source := observe.SourceMetadata(revision.SourceSecret)
	source.Namespace, source.Name = namespace, name
	return source
}

func TestAChangeWakesTheRolloutsThatDependOnIt(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, "c1", "c2")
	w.settle()
	other := newRollout("1.0.0", "one")
	other.Name, other.UID, other.ResourceVersion = "orders", "orders-uid", ""
	other.Spec.Placements = []v1alpha1.PlacementReference{{Name: "edge"}}
	other.Spec.Template.Components[0].ManifestsFrom = []v1alpha1.ManifestSource{{Secret: &v1alpha1.SourceReference{Name: "creds"}}}
	w.create(other)
	kept := newDelivery(other, "c2")
	kept.Spec = v1alpha1.RolloutDeliverySpec{Rollout: referenceTo(other), Delivery: 1}
	w.create(kept)

	r := w.reconciler
	page := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Labels: map[string]string{clusterv1beta1.PlacementLabel: "edge"}}}
	mislabelled := newDelivery(other, "c1")
	mislabelled.Spec.Rollout = referenceTo(newRollout("1.0.0", "one"))
	cases := []struct {
		name string
		got  []reconcile.Request
		want string
	}{
		{"a Placement", r.rolloutsOfPlacement(ctx, &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "fleet"}}), "platform/payments"},
		{"a Placement of another namespace", r.rolloutsOfPlacement(ctx, &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "fleet"}}), ""},
		{"a page of decisions", r.rolloutsOfDecision(ctx, page), "platform/orders"},
		{"a page without label", r.rolloutsOfDecision(ctx, &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: "platform"}}), ""},
		{"a selected cluster", r.rolloutsOfCluster(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}), "platform/payments"},
		{"a cluster that is selected by one and delivered to by another", r.rolloutsOfCluster(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c2"}}), "platform/orders platform/payments"},
		{"a cluster of nobody", r.rolloutsOfCluster(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c9"}}), ""},
		{"a Secret that is a source", r.rolloutsOfSource(revision.SourceSecret)(ctx, sourceNamed("platform", "creds")), "platform/orders"},
		{"a ConfigMap of that name", r.rolloutsOfSource(revision.SourceConfigMap)(ctx, sourceNamed("platform", "creds")), ""},
		{"a Secret of another namespace", r.rolloutsOfSource(revision.SourceSecret)(ctx, sourceNamed("elsewhere", "creds")), ""},
		{"a delivery", rolloutsOfDelivery(ctx, kept), "platform/orders"},
		{"a delivery whose labels and spec differ", rolloutsOfDelivery(ctx, mislabelled), "platform/orders platform/payments"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, woken(tc.got)); diff != "" {
				t.Errorf("woken (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyWhatMattersOfAClusterWakes(t *testing.T) {
	cluster := func() *clusterv1.ManagedCluster {
		return &clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "c1", Labels: map[string]string{"tier": "gray"}},
			Status: clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{
				{Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue},
			}},
		}
	}
	cases := []struct {
		name   string
		change func(c *clusterv1.ManagedCluster)
		want   bool
	}{
		{"the words of a condition", func(c *clusterv1.ManagedCluster) { c.Status.Conditions[0].Message = "still here" }, false},
		{"its capacity", func(c *clusterv1.ManagedCluster) { c.Status.Version.Kubernetes = "v1.34.0" }, false},
		{"its availability", func(c *clusterv1.ManagedCluster) { c.Status.Conditions[0].Status = metav1.ConditionUnknown }, true},
		{"a label", func(c *clusterv1.ManagedCluster) { c.Labels["tier"] = "production" }, true},
		{"a taint", func(c *clusterv1.ManagedCluster) { c.Spec.Taints = []clusterv1.Taint{{Key: "x"}} }, true},
		{"its deletion", func(c *clusterv1.ManagedCluster) { now := metav1.Now(); c.DeletionTimestamp = &now }, true},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			after := cluster()
			tc.change(after)
			if got := clusterChanged().Update(event.UpdateEvent{ObjectOld: cluster(), ObjectNew: after}); got != tc.want {
				t.Errorf("wakes %v, want %v", got, tc.want)
			}
		})
	}
}

func TestTheEchoOfAnOwnWriteWakesNobody(t *testing.T) {
	w := newWorld(t, "c1")
	w.reconcile()
	filter := w.reconciler.foreignWrites(w.reconciler.observer.Deliveries.Wrote)
	own := w.deliveries()["c1"]
	if filter.Create(event.CreateEvent{Object: own}) {
		t.Error("the delivery that was just written wakes")
	}
	w.report("c1", func(d *v1alpha1.RolloutDelivery) { d.Status.State = v1alpha1.StateApplying })
	if !filter.Update(event.UpdateEvent{ObjectOld: own, ObjectNew: w.deliveries()["c1"]}) {
		t.Error("what somebody else wrote does not wake")
	}
	leaving := own.DeepCopy()
	now := metav1.Now()
	leaving.DeletionTimestamp = &now
	if !filter.Update(event.UpdateEvent{ObjectOld: own, ObjectNew: leaving}) {
		t.Error("a deletion does not wake")
	}
}
