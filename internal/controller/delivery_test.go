package controller

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/liveness"
	"open-cluster-management.io/fleet-rollout/internal/revision"
)

var deliveryScheme = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, workv1.Install, clusterv1.Install, addonv1alpha1.Install, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return scheme
})

// site is one managed cluster c1 on a hub in memory, with the reconciler of its
// deliveries.
type site struct {
	t       *testing.T
	client  client.Client
	clock   *clocktesting.FakePassiveClock
	r       *DeliveryReconciler
	rollout *v1alpha1.FleetRollout
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, clock: clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}
	s.rollout = &v1alpha1.FleetRollout{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api", UID: "u1"}}
	s.rollout.Spec.Version = "1.0.0"
	s.rollout.Spec.Placements = []v1alpha1.PlacementReference{{Name: "fleet"}}
	s.rollout.Spec.Strategy.Groups = []v1alpha1.Group{{Name: "all"}}
	s.rollout.Spec.Template.Components = []v1alpha1.Component{{Name: "main", Manifests: []runtime.RawExtension{
		{Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"settings"},"data":{"a":"1"}}`)}}}}
	started := metav1.NewMicroTime(s.clock.Now())
	s.rollout.Status.Run = &v1alpha1.Run{Number: 4, StepStartedAt: &started, PausedMilliseconds: 9_000}

	frozen, err := revision.Freeze(s.rollout.Spec)
	if err != nil {
		t.Fatal(err)
	}
	record, secret, err := revision.New(s.rollout, 1, frozen)
	if err != nil {
		t.Fatal(err)
	}
	delivery := deliveryOf("api")
	delivery.Spec.Revision = revision.Reference(record)
	cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}
	setAvailable(cluster, metav1.ConditionTrue)
	s.client = fake.NewClientBuilder().WithScheme(deliveryScheme()).
		WithStatusSubresource(&v1alpha1.RolloutDelivery{}, &v1alpha1.FleetRollout{}, &workv1.ManifestWork{}, &addonv1alpha1.ManagedClusterAddOn{}).
		WithObjects(secret, delivery, cluster, s.rollout,
			&addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: v1alpha1.AddonName}},
			renewedLease(1)).
		Build()
	s.restart()
	return s
}

func (s *site) restart() {
	s.r = &DeliveryReconciler{Client: s.client, Reader: s.client, Clock: s.clock, Liveness: liveness.NewTracker(s.clock)}
	s.r.prepare()
}

// deliveryOf is the first delivery of a rollout of namespace shop to c1.
func deliveryOf(rollout string) *v1alpha1.RolloutDelivery {
	return &v1alpha1.RolloutDelivery{
		ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: v1alpha1.DeliveryName("shop", rollout)},
		Spec: v1alpha1.RolloutDeliverySpec{
			Rollout:  v1alpha1.RolloutReference{Namespace: "shop", Name: rollout, UID: "u1"},
			Delivery: 1, Run: 4, Attempt: 1, Direction: v1alpha1.DirectionForward,
		},
	}
}

func setAvailable(cluster *clusterv1.ManagedCluster, status metav1.ConditionStatus) {
	meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{
		Type: clusterv1.ManagedClusterConditionAvailable, Status: status, Reason: "Test"})
}

// renewedLease is the agent's Lease after its n-th renewal.
func renewedLease(n int) *coordinationv1.Lease {
	at := metav1.NewMicroTime(time.Unix(int64(1000+n), 0))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: v1alpha1.AgentLeaseName, ResourceVersion: strconv.Itoa(1000 + n)},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &at, LeaseDurationSeconds: ptr.To[int32](60)},
	}
}

func (s *site) reconcile() (v1alpha1.RolloutDeliveryStatus, ctrl.Result) {
	s.t.Helper()
	key := client.ObjectKeyFromObject(deliveryOf("api"))
	result, err := s.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: key})
	if err != nil {
		s.t.Fatal(err)
	}
	record := &v1alpha1.RolloutDelivery{}
	if err := s.client.Get(context.Background(), key, record); err != nil {
		s.t.Fatal(err)
	}
	return record.Status, result
}

// applyWorks plays the work agent.
func (s *site) applyWorks() {
	s.t.Helper()
	list := &workv1.ManifestWorkList{}
	if err := s.client.List(context.Background(), list, client.InNamespace("c1")); err != nil {
		s.t.Fatal(err)
	}
	for i := range list.Items {
		meta.SetStatusCondition(&list.Items[i].Status.Conditions, metav1.Condition{Type: workv1.WorkApplied,
			Status: metav1.ConditionTrue, Reason: "Test", ObservedGeneration: list.Items[i].Generation})
		if err := s.client.Status().Update(context.Background(), &list.Items[i]); err != nil {
			s.t.Fatal(err)
		}
	}
}

// report plays the addon agent.
func (s *site) report(status v1alpha1.RolloutDeliveryStatus, health v1alpha1.Health) {
	s.t.Helper()
	s.say(reportCondition("api", status.Rendered.Digest, status.Delivery, health))
}

// preflight lets the agent find nothing in the way of the first work, and
// returns the status once it is written.
func (s *site) preflight() v1alpha1.RolloutDeliveryStatus {
	s.t.Helper()
	status, _ := s.reconcile()
	if status.Phase != v1alpha1.PhasePreflight {
		s.t.Fatalf("no preflight but %s/%s", status.State, status.Reason)
	}
	message, err := v1alpha1.AgentReport{Digest: status.Rendered.Digest, Delivery: status.Delivery, Health: v1alpha1.HealthProgressing,
		Preflight: &v1alpha1.Preflight{Delivery: status.Delivery}}.Encode()
	if err != nil {
		s.t.Fatal(err)
	}
	s.say(metav1.Condition{Type: v1alpha1.ConditionType("shop", "api"), Status: metav1.ConditionUnknown, Reason: "Progressing", Message: message})
	status, _ = s.reconcile()
	return status
}

// say sets the one condition of the addon agent.
func (s *site) say(condition metav1.Condition) {
	s.t.Helper()
	addon := &addonv1alpha1.ManagedClusterAddOn{}
	if err := s.client.Get(context.Background(), client.ObjectKey{Namespace: "c1", Name: v1alpha1.AddonName}, addon); err != nil {
		s.t.Fatal(err)
	}
	addon.Status.Conditions = []metav1.Condition{condition}
	if err := s.client.Status().Update(context.Background(), addon); err != nil {
		s.t.Fatal(err)
	}
}

func reportCondition(rollout, digest string, number int64, health v1alpha1.Health) metav1.Condition {
	message, err := v1alpha1.AgentReport{Digest: digest, Delivery: number, Health: health, Objects: 1}.Encode()
	if err != nil {
		panic(err)
	}
	status := metav1.ConditionFalse
	if health == v1alpha1.HealthHealthy {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: v1alpha1.ConditionType("shop", rollout), Status: status, Reason: string(health), Message: message}
}

func TestADeliveryIsWrittenAppliedReportedAndProven(t *testing.T) {
	s := newSite(t)
	status := s.preflight()
	if status.State != v1alpha1.StateApplying || status.Clock.Run != 4 || status.Clock.PausedAtWriteMilliseconds != 9_000 {
		t.Errorf("after the write: %s, clock %+v", status.State, status.Clock)
	}
	s.applyWorks()
	s.say(metav1.Condition{Type: "Other", Status: metav1.ConditionTrue, Reason: "Other"})
	status, _ = s.reconcile()
	if status.Reason != v1alpha1.ReasonAwaitingReport {
		t.Errorf("once applied: %s/%s", status.State, status.Reason)
	}
	s.report(status, v1alpha1.HealthHealthy)
	status, result := s.reconcile()
	if status.State != v1alpha1.StateHealthy || status.HealthySince == nil {
		t.Errorf("once reported: %s/%s", status.State, status.Reason)
	}
	if result.RequeueAfter != time.Minute {
		t.Errorf("it looks again after %s, want when the Lease expires", result.RequeueAfter)
	}
}

func TestAfterAStartAProvenClusterIsNotLostBeforeItsLeaseExpires(t *testing.T) {
	s := newSite(t)
	s.preflight()
	s.applyWorks()
	status, _ := s.reconcile()
	s.report(status, v1alpha1.HealthHealthy)
	s.reconcile()

	s.restart() // and no watch has handed the Lease to the tracker yet
	if status, _ = s.reconcile(); status.State != v1alpha1.StateHealthy {
		t.Errorf("right after the start: %s (%s)", status.State, status.Message)
	}
	s.clock.SetTime(s.clock.Now().Add(time.Minute))
	if status, _ = s.reconcile(); status.State != v1alpha1.StateUnreachable || status.LostSince == nil {
		t.Errorf("three intervals later: %s (%s)", status.State, status.Message)
	}
}

func TestACacheThatHasNotSeenTheRunSaysNothingOfItsPauses(t *testing.T) {
	s := newSite(t)
	s.rollout.Status.Run.Number = 3
	if err := s.client.Status().Update(context.Background(), s.rollout); err != nil {
		t.Fatal(err)
	}
	status, _ := s.reconcile()
	if status.Clock.Run != 4 || status.Clock.PausedAtWriteMilliseconds != 0 || status.Clock.StepStartedAt != nil {
		t.Errorf("clock is %+v", status.Clock)
	}
}

func TestALostWriteIsRepeatedQuietly(t *testing.T) {
	s := newSite(t)
	s.preflight()
	record := &v1alpha1.RolloutDelivery{}
	key := client.ObjectKeyFromObject(deliveryOf("api"))
	if err := s.client.Get(context.Background(), key, record); err != nil {
		t.Fatal(err)
	}
	// The cache lags: the reconciler reads the record as it was before.
	s.r.Client = &lagging{Client: s.client, record: record.DeepCopy()}
	record.Status.Message = "written by another manager"
	if err := s.client.Status().Update(context.Background(), record); err != nil {
		t.Fatal(err)
	}
	s.applyWorks()
	result, err := s.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: key})
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("result %+v, error %v; want another try without an error", result, err)
	}
}

// lagging is a client whose cache shows an old record.
type lagging struct {
	client.Client
	record *v1alpha1.RolloutDelivery
}

func (l *lagging) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	if record, ok := object.(*v1alpha1.RolloutDelivery); ok {
		l.record.DeepCopyInto(record)
		return nil
	}
	return l.Client.Get(ctx, key, object, opts...)
}

// woken returns the deliveries that an event wakes, by the name of their rollout.
func (s *site) woken(handle func(context.Context, deliveryQueue)) string {
	s.t.Helper()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	defer queue.ShutDown()
	handle(context.Background(), queue)
	var names []string
	for queue.Len() > 0 {
		request, _ := queue.Get()
		for _, rollout := range []string{"api", "web"} {
			if request.Name == v1alpha1.DeliveryName("shop", rollout) && request.Namespace == "c1" {
				names = append(names, rollout)
			}
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestEventsWakeTheDeliveriesTheyMatterTo(t *testing.T) {
	s := newSite(t)
	web := deliveryOf("web")
	web.Status.State = v1alpha1.StateBlocked
	elsewhere := deliveryOf("web")
	elsewhere.Namespace = "c2"
	for _, object := range []client.Object{web, elsewhere} {
		if err := s.client.Create(context.Background(), object); err != nil {
			t.Fatal(err)
		}
	}
	lease := func(before, after *coordinationv1.Lease) func(context.Context, deliveryQueue) {
		return func(ctx context.Context, q deliveryQueue) {
			s.r.leaseHandler().Update(ctx, event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
		}
	}
	addon := func(before, after []metav1.Condition) func(context.Context, deliveryQueue) {
		of := func(conditions []metav1.Condition) *addonv1alpha1.ManagedClusterAddOn {
			return &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: v1alpha1.AddonName},
				Status: addonv1alpha1.ManagedClusterAddOnStatus{Conditions: conditions}}
		}
		return func(ctx context.Context, q deliveryQueue) {
			s.r.addonHandler().Update(ctx, event.UpdateEvent{ObjectOld: of(before), ObjectNew: of(after)}, q)
		}
	}
	cluster := func(before, after metav1.ConditionStatus) func(context.Context, deliveryQueue) {
		of := func(status metav1.ConditionStatus) *clusterv1.ManagedCluster {
			cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}
			setAvailable(cluster, status)
			return cluster
		}
		return func(ctx context.Context, q deliveryQueue) {
			s.r.clusterHandler().Update(ctx, event.UpdateEvent{ObjectOld: of(before), ObjectNew: of(after)}, q)
		}
	}
	unrenewed := renewedLease(0)
	unrenewed.Spec.RenewTime = nil
	foreign := renewedLease(1)
	foreign.Name = "managed-cluster-lease"
	healthy, degraded := reportCondition("api", "d", 1, v1alpha1.HealthHealthy), reportCondition("api", "d", 1, v1alpha1.HealthDegraded)
	other := reportCondition("web", "d", 1, v1alpha1.HealthHealthy)
	ocm := metav1.Condition{Type: "Available", Status: metav1.ConditionTrue}

	for _, step := range []struct {
		name  string
		event func(context.Context, deliveryQueue)
		want  string
	}{
		{"a Lease that the watch begins with wakes nobody", func(ctx context.Context, q deliveryQueue) {
			s.r.leaseHandler().Create(ctx, event.CreateEvent{Object: unrenewed, IsInInitialList: true}, q)
		}, ""},
		{"the first renewal wakes all of the cluster", lease(unrenewed, renewedLease(1)), "api web"},
		{"a renewal in time wakes nobody", lease(renewedLease(1), renewedLease(2)), ""},
		{"another Lease wakes nobody", lease(foreign, foreign), ""},
		{"conditions of OCM wake nobody", addon(nil, []metav1.Condition{ocm}), ""},
		{"a new report wakes its delivery", addon(nil, []metav1.Condition{healthy, other}), "api web"},
		{"a changed report wakes its delivery alone", addon([]metav1.Condition{healthy, other}, []metav1.Condition{degraded, other}), "api"},
		{"an unchanged report wakes nobody", addon([]metav1.Condition{degraded}, []metav1.Condition{ocm, degraded}), ""},
		{"a report that vanishes wakes its delivery", addon([]metav1.Condition{degraded, other}, []metav1.Condition{degraded}), "web"},
		{"a cluster that stops to be Available wakes all of it", cluster(metav1.ConditionTrue, metav1.ConditionUnknown), "api web"},
		{"a cluster that stays unavailable wakes nobody", cluster(metav1.ConditionUnknown, metav1.ConditionFalse), ""},
		{"a renewal after the Lease expired wakes all", func(ctx context.Context, q deliveryQueue) {
			s.clock.SetTime(s.clock.Now().Add(time.Hour))
			lease(renewedLease(2), renewedLease(3))(ctx, q)
		}, "api web"},
		{"a Lease that is deleted wakes all", func(ctx context.Context, q deliveryQueue) {
			s.r.leaseHandler().Delete(ctx, event.DeleteEvent{Object: renewedLease(3)}, q)
		}, "api web"},
		{"a Lease that is made anew wakes all", func(ctx context.Context, q deliveryQueue) {
			s.r.leaseHandler().Create(ctx, event.CreateEvent{Object: renewedLease(4)}, q)
		}, "api web"},
		{"an object that is given up wakes who is blocked", func(ctx context.Context, q deliveryQueue) {
			before, after := deliveryOf("api"), deliveryOf("api")
			before.Status.Dropping = []v1alpha1.ObjectReference{{Kind: "Service", Name: "s"}}
			s.r.releaseOnUpdate(ctx, event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
		}, "web"},
		{"a delivery that is deleted wakes who is blocked", func(ctx context.Context, q deliveryQueue) {
			s.r.releaseOnDelete(ctx, event.DeleteEvent{Object: deliveryOf("api")}, q)
		}, "web"},
	} {
		if got := s.woken(step.event); got != step.want {
			t.Errorf("%s: woke %q, want %q", step.name, got, step.want)
		}
	}
	if state := s.r.Liveness.State("c1"); !state.Seen {
		t.Error("the tracker was not fed by the watch")
	}
}

func TestOwnStatusWritesWakeNobody(t *testing.T) {
	changed := func(change func(before, after *v1alpha1.RolloutDelivery)) bool {
		before, after := deliveryOf("api"), deliveryOf("api")
		change(before, after)
		return intentChanges().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
	}
	if changed(func(_, after *v1alpha1.RolloutDelivery) { after.Status.State = v1alpha1.StateHealthy }) {
		t.Error("a status write wakes its writer")
	}
	if !changed(func(_, after *v1alpha1.RolloutDelivery) { after.Generation = 2 }) {
		t.Error("changed intent wakes nobody")
	}
	if !changed(func(before, _ *v1alpha1.RolloutDelivery) { before.Status.Rendered = &v1alpha1.Rendered{} }) {
		t.Error("a status that is set back wakes nobody")
	}
}

func TestOfAWorkOnlyItsApplicationMatters(t *testing.T) {
	work := func(conditions ...metav1.Condition) *workv1.ManifestWork {
		return &workv1.ManifestWork{
			ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Generation: 1, Labels: map[string]string{
				v1alpha1.LabelRolloutNamespace: "shop", v1alpha1.LabelRolloutName: "api", v1alpha1.LabelRolloutUID: "u1"}},
			Status: workv1.ManifestWorkStatus{Conditions: conditions},
		}
	}
	applied := metav1.Condition{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, ObservedGeneration: 1}
	available := metav1.Condition{Type: workv1.WorkAvailable, Status: metav1.ConditionTrue}
	refusing := work(applied)
	refusing.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{Conditions: []metav1.Condition{{Type: workv1.ManifestApplied, Status: metav1.ConditionFalse}}}}
	edited := work(applied)
	edited.Generation = 2

	for _, tc := range []struct {
		name          string
		before, after *workv1.ManifestWork
		want          bool
	}{
		{"applied at last", work(), work(applied), true},
		{"available as well", work(applied), work(applied, available), false},
		{"an object that is refused", work(applied), refusing, true},
		{"a changed spec", work(applied), edited, true},
	} {
		if got := workChanges().Update(event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}); got != tc.want {
			t.Errorf("%s: got %t, want %t", tc.name, got, tc.want)
		}
	}
	if got := deliveryOfWork(context.Background(), work()); len(got) != 1 || got[0].Name != v1alpha1.DeliveryName("shop", "api") || got[0].Namespace != "c1" {
		t.Errorf("the work leads to %v", got)
	}
	if got := deliveryOfWork(context.Background(), &workv1.ManifestWork{}); got != nil {
		t.Errorf("a foreign work leads to %v", got)
	}
}
