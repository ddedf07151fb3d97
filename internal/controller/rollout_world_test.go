package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/liveness"
	"open-cluster-management.io/fleet-rollout/internal/observe"
)

var rolloutKey = types.NamespacedName{Namespace: "platform", Name: "payments"}

// world is a hub in memory with a fleet, and the log of every write to it.
type world struct {
	t     *testing.T
	clock *clocktesting.FakePassiveClock
	// hub is the API server; cache is what reads see, the hub unless it lags.
	hub   client.WithWatch
	cache client.Reader
	// refuse may refuse a write, named as in the log.
	refuse func(write string, object client.Object) error

	mu     sync.Mutex
	writes []string

	reconciler *RolloutReconciler
	events     *record.FakeRecorder
}

func newWorld(t *testing.T, clusters ...string) *world {
	t.Helper()
	w := &world{
		t:     t,
		clock: clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)),
		hub:   newHub(t, fleetOf(clusters...)...),
	}
	w.cache = w.hub
	w.create(newRollout("1.0.0", "one"))
	w.restart()
	return w
}

func newHub(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, v1alpha1.AddToScheme, clusterv1.Install, clusterv1beta1.Install,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&v1alpha1.FleetRollout{}, &v1alpha1.RolloutRevision{}, &v1alpha1.RolloutDelivery{}, &v1alpha1.RolloutAction{}).
		WithIndex(&v1alpha1.RolloutDelivery{}, observe.DeliveryNameField, observe.IndexDeliveryName).
		WithIndex(&v1alpha1.RolloutAction{}, observe.ActionRolloutField, observe.IndexActionRollout).
		WithIndex(&v1alpha1.FleetRollout{}, placementField, placementsOf).
		WithIndex(&v1alpha1.FleetRollout{}, sourceField, sourcesOf).
		WithIndex(&clusterv1beta1.PlacementDecision{}, decidedClusterField, clustersOf).
		WithObjects(objects...).
		Build()
}

// fleetOf returns Available clusters and a Placement that selects them.
func fleetOf(clusters ...string) []client.Object {
	placement := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "fleet", UID: "fleet-uid", Generation: 1}}
	placement.Status = clusterv1beta1.PlacementStatus{
		NumberOfSelectedClusters: int32(len(clusters)),
		DecisionGroups:           []clusterv1beta1.DecisionGroupStatus{{Decisions: []string{"fleet-decision-1"}}},
		Conditions: []metav1.Condition{
			{Type: clusterv1beta1.PlacementConditionSatisfied, Status: metav1.ConditionTrue, Reason: "AllDecisionsScheduled"},
		},
	}
	page := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
		Namespace: "platform", Name: "fleet-decision-1", Labels: map[string]string{clusterv1beta1.PlacementLabel: "fleet"},
	}}
	objects := []client.Object{placement, page}
	for _, name := range clusters {
		page.Status.Decisions = append(page.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: name})
		objects = append(objects, &clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{
				{Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue, Reason: "ManagedClusterAvailable"},
			}},
		})
	}
	return objects
}

// newRollout is a rollout of one ConfigMap to all clusters at once.
func newRollout(version, content string) *v1alpha1.FleetRollout {
	return &v1alpha1.FleetRollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: rolloutKey.Namespace, Name: rolloutKey.Name, UID: "rollout-uid", Generation: 1},
		Spec: v1alpha1.FleetRolloutSpec{
			Version:    version,
			Placements: []v1alpha1.PlacementReference{{Name: "fleet"}},
			Template:   templateOf(content),
			Strategy:   v1alpha1.Strategy{Groups: []v1alpha1.Group{{Name: "all"}}},
		},
	}
}

func templateOf(content string) v1alpha1.Template {
	manifest := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"settings"},"data":{"key":%q}}`, content)
	return v1alpha1.Template{Components: []v1alpha1.Component{{
		Name: "api", Manifests: []runtime.RawExtension{{Raw: []byte(manifest)}},
	}}}
}

// restart gives the hub a new manager that remembers nothing.
func (w *world) restart() {
	c := interceptor.NewClient(w.hub, interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			return w.cache.Get(ctx, key, object, opts...)
		},
		List: func(ctx context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return w.cache.List(ctx, list, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			return w.write("create", object, func() error { return c.Create(ctx, object, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.UpdateOption) error {
			return w.write("update", object, func() error { return c.Update(ctx, object, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return w.write("patch", object, func() error { return c.Patch(ctx, object, patch, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			return w.write("delete", object, func() error { return c.Delete(ctx, object, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, object client.Object, opts ...client.SubResourceUpdateOption) error {
			return w.write("update "+name, object, func() error { return c.SubResource(name).Update(ctx, object, opts...) })
		},
	})
	w.events = record.NewFakeRecorder(1000)
	w.reconciler = &RolloutReconciler{
		Client:   c,
		Reader:   w.hub,
		Liveness: liveness.NewTracker(w.clock),
		Clock:    w.clock,
		Recorder: w.events,
	}
	w.reconciler.complete()
}

// write logs a write as "verb Kind namespace", and carries it out unless it is
// refused.
func (w *world) write(verb string, object client.Object, carryOut func() error) error {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1alpha1.")
	kind = strings.TrimPrefix(kind, "*v1.")
	write := fmt.Sprintf("%s %s %s", verb, kind, object.GetNamespace())
	w.mu.Lock()
	w.writes = append(w.writes, write)
	w.mu.Unlock()
	if w.refuse != nil {
		if err := w.refuse(write, object); err != nil {
			return err
		}
	}
	return carryOut()
}

// takeWrites returns the writes since it was last called.
func (w *world) takeWrites() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.writes
	w.writes = nil
	return taken
}

// reconcile reconciles once, and fails the test on an error.
func (w *world) reconcile() ctrl.Result {
	w.t.Helper()
	result, err := w.tryReconcile()
	if err != nil {
		w.t.Fatalf("Reconcile: %v", err)
	}
	return result
}

func (w *world) tryReconcile() (ctrl.Result, error) {
	w.beat()
	return w.reconciler.Reconcile(context.Background(), ctrl.Request{NamespacedName: rolloutKey})
}

// settle reconciles until nothing is written any more, a second apart.
func (w *world) settle() {
	w.t.Helper()
	for range 20 {
		w.takeWrites()
		w.reconcile()
		if len(w.takeWrites()) == 0 {
			return
		}
		w.clock.SetTime(w.clock.Now().Add(time.Second))
	}
	w.t.Fatal("the rollout does not settle")
}

// beat lets every agent renew its Lease.
func (w *world) beat() {
	w.t.Helper()
	var clusters clusterv1.ManagedClusterList
	if err := w.hub.List(context.Background(), &clusters); err != nil {
		w.t.Fatal(err)
	}
	now := metav1.NewMicroTime(w.clock.Now())
	for i := range clusters.Items {
		w.reconciler.Liveness.ObserveLease(clusters.Items[i].Name, &coordinationv1.Lease{
			Spec: coordinationv1.LeaseSpec{RenewTime: &now},
		})
	}
}

func (w *world) create(object client.Object) {
	w.t.Helper()
	if err := w.hub.Create(context.Background(), object); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) rollout() *v1alpha1.FleetRollout {
	w.t.Helper()
	var fro v1alpha1.FleetRollout
	if err := w.hub.Get(context.Background(), rolloutKey, &fro); err != nil {
		w.t.Fatal(err)
	}
	return &fro
}

// edit changes the spec as a person does.
func (w *world) edit(change func(spec *v1alpha1.FleetRolloutSpec)) {
	w.t.Helper()
	fro := w.rollout()
	change(&fro.Spec)
	fro.Generation++
	if err := w.hub.Update(context.Background(), fro); err != nil {
		w.t.Fatal(err)
	}
}

// deliveries by cluster, as the hub has them.
func (w *world) deliveries() map[string]*v1alpha1.RolloutDelivery {
	w.t.Helper()
	var list v1alpha1.RolloutDeliveryList
	if err := w.hub.List(context.Background(), &list); err != nil {
		w.t.Fatal(err)
	}
	result := map[string]*v1alpha1.RolloutDelivery{}
	for i := range list.Items {
		result[list.Items[i].Namespace] = &list.Items[i]
	}
	return result
}

// report plays the delivery controller: it changes the status of one delivery.
func (w *world) report(cluster string, change func(delivery *v1alpha1.RolloutDelivery)) {
	w.t.Helper()
	delivery := w.deliveries()[cluster]
	if delivery == nil {
		w.t.Fatalf("cluster %s has no delivery", cluster)
	}
	change(delivery)
	if err := w.hub.Status().Update(context.Background(), delivery); err != nil {
		w.t.Fatal(err)
	}
}

// prove lets a cluster prove what it shall have.
func (w *world) prove(clusters ...string) {
	w.t.Helper()
	now := metav1.NewMicroTime(w.clock.Now())
	for _, cluster := range clusters {
		w.report(cluster, func(d *v1alpha1.RolloutDelivery) {
			proof := &v1alpha1.Proof{Digest: d.Spec.Revision.Digest, Delivery: d.Spec.Delivery}
			d.Status = v1alpha1.RolloutDeliveryStatus{
				State: v1alpha1.StateHealthy, Reason: "Healthy", Delivery: d.Spec.Delivery,
				Applied: proof, Proven: proof,
				WrittenAt: &now, AppliedAt: &now, ProvenAt: &now, HealthySince: &now,
			}
		})
	}
}

// fail lets a cluster report that what it has will not recover by itself.
func (w *world) fail(cluster string) {
	w.t.Helper()
	now := metav1.NewMicroTime(w.clock.Now())
	w.report(cluster, func(d *v1alpha1.RolloutDelivery) {
		d.Status.State, d.Status.Reason, d.Status.Message = v1alpha1.StateFailed, "Failed", "the pod does not start"
		d.Status.Delivery = d.Spec.Delivery
		d.Status.WrittenAt, d.Status.FailedAt, d.Status.HealthySince = &now, &now, nil
		d.Status.Failure = &v1alpha1.Cause{Reason: "Failed", Message: "the pod does not start"}
	})
}

func (w *world) revisions() []v1alpha1.RolloutRevision {
	w.t.Helper()
	var list v1alpha1.RolloutRevisionList
	if err := w.hub.List(context.Background(), &list); err != nil {
		w.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.RolloutRevision) int { return int(a.Spec.Number - b.Spec.Number) })
	return list.Items
}

func (w *world) secrets() []corev1.Secret {
	w.t.Helper()
	var list corev1.SecretList
	if err := w.hub.List(context.Background(), &list); err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

// freeze makes the cache stop where it is; thaw lets it follow the hub again.
func (w *world) freeze() {
	w.t.Helper()
	ctx := context.Background()
	var objects []client.Object
	for _, list := range []client.ObjectList{
		&v1alpha1.FleetRolloutList{}, &v1alpha1.RolloutRevisionList{}, &v1alpha1.RolloutDeliveryList{}, &v1alpha1.RolloutActionList{}, &corev1.SecretList{},
		&clusterv1.ManagedClusterList{}, &clusterv1beta1.PlacementList{}, &clusterv1beta1.PlacementDecisionList{},
	} {
		if err := w.hub.List(ctx, list); err != nil {
			w.t.Fatal(err)
		}
		objects = append(objects, itemsOf(w.t, list)...)
	}
	w.cache = newHub(w.t, objects...)
}

func (w *world) thaw() { w.cache = w.hub }

func itemsOf(t *testing.T, list client.ObjectList) []client.Object {
	t.Helper()
	items, err := meta.ExtractList(list)
	if err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	for _, item := range items {
		objects = append(objects, item.(client.Object))
	}
	return objects
}
