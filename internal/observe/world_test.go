package observe

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/liveness"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// hub is an API server in memory and an Observer of it.
type hub struct {
	t        *testing.T
	client   client.WithWatch
	clock    *clocktesting.FakePassiveClock
	observer *Observer
	// creations by kind, in order.
	creations []string
	// refuseCreation of a kind, if set.
	refuseCreation func(kind string) error
}

func newHub(t *testing.T, objects ...client.Object) *hub {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, v1alpha1.AddToScheme, clusterv1.Install, clusterv1beta1.Install,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	h := &hub{t: t, clock: clocktesting.NewFakePassiveClock(noon)}
	h.client = interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&v1alpha1.RolloutAction{}).
		WithIndex(&v1alpha1.RolloutDelivery{}, DeliveryNameField, IndexDeliveryName).
		WithIndex(&v1alpha1.RolloutAction{}, ActionRolloutField, IndexActionRollout).
		WithObjects(objects...).Build(),
		interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			kind := fmt.Sprintf("%T", object)
			kind = kind[strings.LastIndex(kind, ".")+1:]
			if h.refuseCreation != nil {
				if err := h.refuseCreation(kind); err != nil {
					return err
				}
			}
			h.creations = append(h.creations, kind)
			return c.Create(ctx, object, opts...)
		}})
	h.forgetAll()
	return h
}

// forgetAll gives the hub an Observer that has seen nothing.
func (h *hub) forgetAll() {
	h.observer = NewObserver(h.client, h.client, liveness.NewTracker(h.clock), h.clock)
}

func (h *hub) observe(fro *v1alpha1.FleetRollout) Observation {
	h.t.Helper()
	observation, err := h.observer.Observe(context.Background(), fro)
	if err != nil {
		h.t.Fatalf("Observe: %v", err)
	}
	return observation
}

func (h *hub) create(objects ...client.Object) {
	h.t.Helper()
	for _, object := range objects {
		if err := h.client.Create(context.Background(), object); err != nil {
			h.t.Fatal(err)
		}
	}
	h.creations = nil
}

func (h *hub) delete(object client.Object) {
	h.t.Helper()
	if err := h.client.Delete(context.Background(), object); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hub) secret(name string) *corev1.Secret {
	h.t.Helper()
	var secret corev1.Secret
	if err := h.client.Get(context.Background(), client.ObjectKey{Namespace: "platform", Name: name}, &secret); err != nil {
		h.t.Fatal(err)
	}
	return &secret
}

// newRollout delivers one ConfigMap. Another minor version is another
// generation, as it is on a real API server.
func newRollout(version, content string) *v1alpha1.FleetRollout {
	fro := &v1alpha1.FleetRollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "payments", UID: "rollout-uid", Generation: int64(version[2])},
		Spec: v1alpha1.FleetRolloutSpec{
			Placements: []v1alpha1.PlacementReference{{Name: "fleet"}},
			Strategy:   v1alpha1.Strategy{Groups: []v1alpha1.Group{{Name: "all"}}},
		},
	}
	setTemplate(fro, version, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"settings"},"data":{"key":%q}}`, content))
	return fro
}

func setTemplate(fro *v1alpha1.FleetRollout, version, manifest string) {
	fro.Generation++
	fro.Spec.Version = version
	fro.Spec.Template = v1alpha1.Template{Components: []v1alpha1.Component{{
		Name: "api", Manifests: []runtime.RawExtension{{Raw: []byte(manifest)}},
	}}}
}

// deployment has a selector, which the API calls immutable.
func deployment(app string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"api"},"spec":{
		"selector":{"matchLabels":{"app":%q}},
		"template":{"metadata":{"labels":{"app":%q}},"spec":{"containers":[{"name":"api","image":"api"}]}}}}`, app, app)
}

func cluster(name string) *clusterv1.ManagedCluster {
	return &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}},
		Status: clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{
			{Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue},
		}},
	}
}

func lease(name string) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(noon.Add(-time.Hour))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: v1alpha1.AgentLeaseName},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &renewed},
	}
}

func placementOf(clusters ...string) []client.Object {
	placement := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "fleet", Generation: 1}}
	placement.Status.NumberOfSelectedClusters = int32(len(clusters))
	placement.Status.DecisionGroups = []clusterv1beta1.DecisionGroupStatus{{Decisions: []string{"fleet-decision-1"}}}
	placement.Status.Conditions = []metav1.Condition{{Type: clusterv1beta1.PlacementConditionSatisfied, Status: metav1.ConditionTrue, Reason: "AllDecisionsScheduled"}}
	page := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
		Namespace: "platform", Name: "fleet-decision-1", Labels: map[string]string{clusterv1beta1.PlacementLabel: "fleet"},
	}}
	for _, name := range clusters {
		page.Status.Decisions = append(page.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: name})
	}
	return []client.Object{placement, page}
}

func deliveryTo(fro *v1alpha1.FleetRollout, cluster string) *v1alpha1.RolloutDelivery {
	return &v1alpha1.RolloutDelivery{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster, Name: v1alpha1.DeliveryName(fro.Namespace, fro.Name),
			Labels: map[string]string{
				v1alpha1.LabelRolloutNamespace: fro.Namespace, v1alpha1.LabelRolloutName: fro.Name, v1alpha1.LabelRolloutUID: string(fro.UID),
			},
		},
		Spec: v1alpha1.RolloutDeliverySpec{
			Rollout:  v1alpha1.RolloutReference{Namespace: fro.Namespace, Name: fro.Name, UID: fro.UID},
			Delivery: 1,
		},
	}
}
