package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func TestFactsArePersistedBeforeTheWritesThatFollowFromThem(t *testing.T) {
	w := newWorld(t, "c1", "c2")
	w.refuse = func(write string, _ client.Object) error {
		if strings.HasPrefix(write, "create RolloutDelivery") && w.rollout().Status.Run == nil {
			t.Errorf("%s before the run is persisted", write)
		}
		return nil
	}
	w.reconcile()

	writes := w.takeWrites()
	facts := slices.Index(writes, "update status FleetRollout platform")
	payload, record := slices.Index(writes, "create Secret platform"), slices.Index(writes, "create RolloutRevision platform")
	if payload < 0 || record < payload || facts < record {
		t.Errorf("want payload, revision and facts in this order; got %q", writes)
	}
	if got := len(w.deliveries()); got != 2 {
		t.Errorf("%d deliveries, want 2", got)
	}
	if !controllerutil.ContainsFinalizer(w.rollout(), v1alpha1.Finalizer) {
		t.Error("the rollout has no finalizer")
	}
}

func TestWithoutPersistedFactsNothingIsDelivered(t *testing.T) {
	for name, refusal := range map[string]error{
		"the API server is away":        errors.New("connection refused"),
		"somebody changed it meanwhile": apierrors.NewConflict(schema.GroupResource{Resource: "fleetrollouts"}, "payments", errors.New("newer")),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "c1")
			w.refuse = func(write string, _ client.Object) error {
				if write == "update status FleetRollout platform" {
					return refusal
				}
				return nil
			}
			result, err := w.tryReconcile()
			if apierrors.IsConflict(refusal) {
				if err != nil || result.RequeueAfter == 0 {
					t.Errorf("result %v, error %v; want a quiet repeat", result, err)
				}
			} else if !errors.Is(err, refusal) {
				t.Errorf("error %v", err)
			}
			if got := w.deliveries(); len(got) != 0 {
				t.Errorf("delivered to %d clusters", len(got))
			}
			if len(w.events.Events) != 0 {
				t.Errorf("announced what is not persisted: %s", <-w.events.Events)
			}
		})
	}
}

func TestWithNothingToDoNothingIsWritten(t *testing.T) {
	w := newWorld(t, "c1", "c2")
	w.settle()
	w.prove("c1", "c2")
	w.settle()
	if run := w.rollout().Status.Run; run == nil || run.Phase != v1alpha1.RunSucceeded {
		t.Fatalf("run %+v, want Succeeded", run)
	}

	for range 3 {
		w.clock.SetTime(w.clock.Now().Add(time.Hour))
		w.reconcile()
	}
	if got := w.takeWrites(); len(got) != 0 {
		t.Errorf("a rollout at rest writes %q", got)
	}
	w.restart()
	w.reconcile()
	if got := w.takeWrites(); len(got) != 0 {
		t.Errorf("a restarted manager writes %q", got)
	}
}

func TestAManagerThatDiesBetweenFactsAndWritesRepeatsTheWritesAlone(t *testing.T) {
	w := newWorld(t, "c1", "c2")
	w.refuse = func(write string, _ client.Object) error {
		if strings.HasPrefix(write, "create RolloutDelivery") {
			return errors.New("killed")
		}
		return nil
	}
	if result, err := w.tryReconcile(); err != nil || result.RequeueAfter == 0 || result.RequeueAfter > refusalDelay {
		t.Fatalf("refused writes are tried again after %s (%v)", result.RequeueAfter, err)
	}
	before := w.rollout().Status.Run

	w.refuse = nil
	w.restart()
	w.clock.SetTime(w.clock.Now().Add(7 * time.Second))
	w.settle()
	after := w.rollout().Status.Run
	if after.Number != before.Number || !after.StartedAt.Equal(&before.StartedAt) || !after.StepStartedAt.Equal(before.StepStartedAt) {
		t.Errorf("the run was decided again: %+v, then %+v", before, after)
	}
	for cluster, delivery := range w.deliveries() {
		if delivery.Spec.Delivery != 1 {
			t.Errorf("cluster %s is at delivery %d, want 1", cluster, delivery.Spec.Delivery)
		}
	}
	if got := w.revisions(); len(got) != 1 || got[0].Spec.Number != 1 {
		t.Errorf("revisions %v", got)
	}
}

func TestALaggingCacheRepeatsNoDecision(t *testing.T) {
	w := newWorld(t, "c1", "c2")
	w.freeze()
	w.reconcile()
	w.takeWrites()
	before := w.rollout().Status

	for range 3 {
		w.clock.SetTime(w.clock.Now().Add(time.Second))
		w.reconcile()
	}
	for _, write := range w.takeWrites() {
		// What waits for the clusters that were just written is news.
		if write != "update status FleetRollout platform" {
			t.Errorf("%s again while the cache lags", write)
		}
	}
	if diff := cmp.Diff(before.Run.StartedAt, w.rollout().Status.Run.StartedAt); diff != "" {
		t.Errorf("the run started again:\n%s", diff)
	}
	w.thaw()
	w.settle()
	if run := w.rollout().Status.Run; run.Number != 1 {
		t.Errorf("run %d", run.Number)
	}
}

// A leader that was frozen past its Lease and thaws sees the world as it was.
func TestAThawedLeaderWritesNothingFromWhatItSawBefore(t *testing.T) {
	w := newWorld(t, "c1", "c2")
	w.settle()
	w.fail("c1")
	w.freeze()
	// The one that took over has decided meanwhile.
	other := w.rollout()
	other.Status.Problems = []v1alpha1.Problem{{Cluster: "c1", Reason: v1alpha1.ReasonDeadlineExceeded, Message: "decided by the other"}}
	if err := w.hub.Status().Update(context.Background(), other); err != nil {
		t.Fatal(err)
	}
	w.takeWrites()
	w.reconcile()
	for _, write := range w.takeWrites() {
		t.Errorf("%s, though another manager has decided since", write)
	}
}

func TestADeliveryDeletedByHandIsMadeAgain(t *testing.T) {
	w := newWorld(t, "c1", "c2")
	w.settle()
	gone := w.deliveries()["c1"]
	if err := w.hub.Delete(context.Background(), gone); err != nil {
		t.Fatal(err)
	}
	// The watch tells it; see deliveryHandler.
	w.reconciler.observer.Deliveries.Forget(client.ObjectKeyFromObject(gone))
	w.settle()
	if w.deliveries()["c1"] == nil {
		t.Error("the delivery of c1 was not made again")
	}
}

func TestAForeignDeliveryIsLeftAloneAndNamed(t *testing.T) {
	w := newWorld(t, "c1", "c2")
	foreign := &v1alpha1.RolloutDelivery{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "c1", Name: v1alpha1.DeliveryName(rolloutKey.Namespace, rolloutKey.Name),
			Labels: map[string]string{
				v1alpha1.LabelRolloutNamespace: "platform", v1alpha1.LabelRolloutName: "payments", v1alpha1.LabelRolloutUID: "earlier-uid",
			},
		},
		Spec: v1alpha1.RolloutDeliverySpec{Rollout: v1alpha1.RolloutReference{Namespace: "platform", Name: "payments", UID: "earlier-uid"}, Delivery: 7},
	}
	w.create(foreign)
	w.settle()

	if diff := cmp.Diff(foreign, w.deliveries()["c1"]); diff != "" {
		t.Errorf("the foreign delivery changed:\n%s", diff)
	}
	if w.deliveries()["c2"] == nil {
		t.Error("c2 got nothing")
	}
	assertProblem(t, w.rollout(), "c1", v1alpha1.ReasonForeignObject)
}

func TestAClusterWithoutNamespaceHoldsUpNoOther(t *testing.T) {
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "rolloutdeliveries"}, "x", errors.New("it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, refusal := range map[string]error{
		"not there yet": apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "c1"),
		"terminating":   terminating,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "c1", "c2", "c3")
			w.refuse = func(write string, _ client.Object) error {
				if write == "create RolloutDelivery c1" {
					return refusal
				}
				return nil
			}
			if result := w.reconcile(); result.RequeueAfter == 0 {
				t.Error("the write is not tried again")
			}
			if got := w.deliveries(); got["c2"] == nil || got["c3"] == nil {
				t.Errorf("delivered to %d clusters, want c2 and c3", len(got))
			}

			w.clock.SetTime(w.clock.Now().Add(time.Second))
			w.reconcile()
			assertProblem(t, w.rollout(), "c1", v1alpha1.ReasonWriteRefused)
			w.refuse = nil
			w.settle()
			if w.deliveries()["c1"] == nil {
				t.Error("c1 got nothing after its namespace came")
			}
			for _, problem := range w.rollout().Status.Problems {
				if problem.Reason == v1alpha1.ReasonWriteRefused {
					t.Errorf("still named: %+v", problem)
				}
			}
		})
	}
}

func TestARefusedEditLeavesTheRunningRevisionAsItWas(t *testing.T) {
	w := newWorld(t, "c1")
	w.settle()
	w.prove("c1")
	w.settle()
	before := w.rollout().Status

	w.edit(func(spec *v1alpha1.FleetRolloutSpec) {
		spec.Version = "1.1.0"
		spec.Template.Components[0].Manifests[0].Raw = []byte(`{"apiVersion":"v1","kind":"ConfigMap"}`)
	})
	w.settle()
	after := w.rollout().Status
	if len(w.revisions()) != 1 {
		t.Errorf("%d revisions, want the one that was", len(w.revisions()))
	}
	if diff := cmp.Diff(before.StableRevision, after.StableRevision); diff != "" {
		t.Errorf("stable revision:\n%s", diff)
	}
	if diff := cmp.Diff(before.Run.Revision, after.Run.Revision); diff != "" {
		t.Errorf("running revision:\n%s", diff)
	}
	ready := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady)
	if ready.Status != metav1.ConditionFalse || ready.Reason != v1alpha1.ReasonInvalidSpec || !strings.Contains(ready.Message, "spec.template.components[0].manifests[0].metadata") {
		t.Errorf("Ready is %+v; want the refused field", ready)
	}
	if ready.ObservedGeneration != 2 {
		t.Errorf("Ready is about generation %d, want 2", ready.ObservedGeneration)
	}
}

func TestAFailedRunGoesBackAndIsRecordedBeforeTheFirstWayBack(t *testing.T) {
	w := newWorld(t, "c1", "c2")
	w.settle()
	w.prove("c1", "c2")
	w.settle()
	w.edit(func(spec *v1alpha1.FleetRolloutSpec) { spec.Version, spec.Template = "1.1.0", templateOf("two") })
	w.settle()
	w.prove("c1")
	w.settle()
	w.fail("c2")
	w.takeWrites()
	w.refuse = func(write string, object client.Object) error {
		delivery, ok := object.(*v1alpha1.RolloutDelivery)
		if ok && delivery.Spec.Direction == v1alpha1.DirectionRollback && len(w.rollout().Status.Rollbacks) == 0 {
			t.Errorf("%s before the rollback is recorded", write)
		}
		return nil
	}
	w.settle()

	for cluster, delivery := range w.deliveries() {
		if delivery.Spec.Revision.Version != "1.0.0" || delivery.Spec.Direction != v1alpha1.DirectionRollback {
			t.Errorf("cluster %s shall have %s %s", cluster, delivery.Spec.Direction, delivery.Spec.Revision.Version)
		}
	}
	if got := w.revisions()[1].Status.Verdict; got != v1alpha1.VerdictFailed {
		t.Errorf("verdict of 1.1.0 is %q", got)
	}
	w.prove("c1", "c2")
	w.settle()
	status := w.rollout().Status
	if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionRolledBack) || meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("conditions %+v; want RolledBack and not Ready", status.Conditions)
	}
	if status.Run.Number != 2 {
		t.Errorf("run %d: the failed revision was tried again", status.Run.Number)
	}
}

func TestAFailureIsRecordedBeforeTheFactsThatFollowFromIt(t *testing.T) {
	w := newWorld(t, "c1", "c2", "c3")
	w.edit(func(spec *v1alpha1.FleetRolloutSpec) {
		spec.Strategy.FailureBudget = &v1alpha1.FailureBudget{Clusters: intstr.FromInt32(1)}
	})
	w.settle()
	w.prove("c1", "c3")
	w.settle()
	w.fail("c2")
	w.takeWrites()
	w.reconcile()

	if failure := w.deliveries()["c2"].Spec.Failure; failure == nil {
		t.Fatal("the failure of c2 is not recorded")
	}
	writes := w.takeWrites()
	failure, facts := slices.Index(writes, "update RolloutDelivery c2"), slices.Index(writes, "update status FleetRollout platform")
	if failure < 0 || facts < failure {
		t.Errorf("want the failure before the facts; got %q", writes)
	}
	if run := w.rollout().Status.Run; run.Phase != v1alpha1.RunSucceeded {
		t.Errorf("run is %s; one failure is within its budget", run.Phase)
	}
}

func TestAFailureThatIsNotRecordedForANewerVersionHoldsTheFacts(t *testing.T) {
	w := newWorld(t, "c1")
	w.settle()
	w.fail("c1")
	before := w.rollout().Status.Run
	w.refuse = func(write string, _ client.Object) error {
		if write == "update RolloutDelivery c1" {
			return apierrors.NewConflict(schema.GroupResource{Resource: "rolloutdeliveries"}, "d", errors.New("newer"))
		}
		return nil
	}
	if result := w.reconcile(); result.RequeueAfter == 0 {
		t.Error("not repeated")
	}
	if diff := cmp.Diff(before, w.rollout().Status.Run); diff != "" {
		t.Errorf("facts that follow from it were persisted:\n%s", diff)
	}
}

func TestCountersAloneWaitForEachOther(t *testing.T) {
	w := newWorld(t, "c1", "c2", "c3")
	w.settle()
	w.prove("c1")
	w.reconcile()
	w.takeWrites()
	w.clock.SetTime(w.clock.Now().Add(10 * time.Millisecond))
	w.prove("c2")
	result := w.reconcile()
	if got := w.takeWrites(); len(got) != 0 {
		t.Errorf("counters were written 10 ms after the last: %q", got)
	}
	if result.RequeueAfter == 0 || result.RequeueAfter > countsPause {
		t.Errorf("repeated after %s, want within %s", result.RequeueAfter, countsPause)
	}
	w.clock.SetTime(w.clock.Now().Add(result.RequeueAfter))
	w.reconcile()
	if got := w.rollout().Status.Clusters.Healthy; got != 2 {
		t.Errorf("%d clusters healthy, want 2", got)
	}

	w.clock.SetTime(w.clock.Now().Add(10 * time.Millisecond))
	w.prove("c3")
	w.reconcile()
	if run := w.rollout().Status.Run; run.Phase != v1alpha1.RunSucceeded {
		t.Errorf("run is %s: a fact waited with the counters", run.Phase)
	}
}

func assertProblem(t *testing.T, fro *v1alpha1.FleetRollout, cluster, reason string) {
	t.Helper()
	for _, problem := range fro.Status.Problems {
		if problem.Cluster == cluster && problem.Reason == reason {
			return
		}
	}
	t.Errorf("no problem %s of cluster %s among %+v", reason, cluster, fro.Status.Problems)
}
