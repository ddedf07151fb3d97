package delivery

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func TestAWorkThatTheCacheDoesNotShowMakesNoHolder(t *testing.T) { // law 20
	h := newHub(t)
	h.intend(h.freeze(1, "1.0.0", settings("1")), v1alpha1.DirectionForward)
	// Without our labels, the cache of works has never heard of it.
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: v1alpha1.WorkName("shop", "api", 0)}}
	if err := h.client.Create(background, work); err != nil {
		t.Fatal(err)
	}
	cached := interceptor.NewClient(h.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, ok := obj.(*workv1.ManifestWork); ok {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "manifestworks"}, key.Name)
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	h.applier = NewApplier(cached, h.client, h.clock)
	h.settle()
	status := h.delivery().Status
	if status.State != v1alpha1.StateBlocked || status.Reason != v1alpha1.ReasonForeignObject {
		t.Fatalf("status is %s/%s", status.State, status.Reason)
	}
	if held := heldInOrder(h.delivery()); len(held) > 0 || status.WrittenAt != nil {
		t.Errorf("written at %v, it holds %v", status.WrittenAt, held)
	}
	before := h.writes
	for range 3 {
		if err := h.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if h.writes != before {
		t.Errorf("%d writes while nothing changes", h.writes-before)
	}
	if err := h.client.Delete(background, work); err != nil {
		t.Fatal(err)
	}
	h.settle()
	if got := h.content(); got != "ConfigMap/settings=1" || h.delivery().Status.WrittenAt == nil {
		t.Errorf("once it is gone, the work carries %q", got)
	}
}
