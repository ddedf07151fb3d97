package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

const answerWrite = "update status RolloutAction platform"

// order creates an action about the present run.
func (w *world) order(name string, verb v1alpha1.Verb) {
	w.t.Helper()
	run := w.rollout().Status.Run
	w.create(&v1alpha1.RolloutAction{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: rolloutKey.Namespace, Name: name, UID: types.UID("uid-" + name),
			CreationTimestamp: metav1.NewTime(w.clock.Now()),
		},
		Spec: v1alpha1.RolloutActionSpec{
			Rollout: rolloutKey.Name, Verb: verb, Revision: run.Revision.Digest, Attempt: run.Attempt, Actor: "pat",
		},
	})
}

// answer is what the status of an action says, as "Type=Status/Reason".
func (w *world) answer(name string) string {
	w.t.Helper()
	var action v1alpha1.RolloutAction
	if err := w.hub.Get(context.Background(), client.ObjectKey{Namespace: rolloutKey.Namespace, Name: name}, &action); err != nil {
		w.t.Fatal(err)
	}
	var lines []string
	for _, c := range action.Status.Conditions {
		lines = append(lines, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
	}
	return strings.Join(lines, " ")
}

// onTwo brings a fleet to a going run of its second revision.
func onTwo(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, "c1", "c2")
	w.settle()
	w.prove("c1", "c2")
	w.settle()
	w.edit(func(spec *v1alpha1.FleetRolloutSpec) { spec.Version, spec.Template = "2.0.0", templateOf("two") })
	w.settle()
	return w
}

func TestAnOrderIsAnsweredOnceItsEffectIsPersisted(t *testing.T) {
	w := onTwo(t)
	w.order("stop", v1alpha1.VerbAbort)
	w.refuse = func(write string, _ client.Object) error {
		if status := w.rollout().Status; write == answerWrite && w.answer("stop") == "" &&
			(status.Run.Phase != v1alpha1.RunFailed || !slices.Contains(status.HandledActions, "uid-stop")) {
			t.Errorf("answered before the effect is persisted: %s, handled %v", status.Run.Phase, status.HandledActions)
		}
		return nil
	}
	w.reconcile()
	if got := w.answer("stop"); got != "Accepted=True/Accepted" {
		t.Errorf("answer %q", got)
	}
	w.settle()
	if handled := w.rollout().Status.HandledActions; len(handled) != 0 {
		t.Errorf("handled %v although it is answered", handled)
	}
	w.prove("c1", "c2")
	w.settle()
	if got := w.answer("stop"); got != "Accepted=True/Accepted Complete=True/Done" {
		t.Errorf("answer %q", got)
	}
}

func TestAManagerThatDiesBeforeItsAnswerAnswersAndDoesNotObeyAgain(t *testing.T) {
	w := onTwo(t)
	w.order("stop", v1alpha1.VerbAbort)
	w.refuse = func(write string, _ client.Object) error {
		if write == answerWrite {
			return errors.New("killed")
		}
		return nil
	}
	if result, err := w.tryReconcile(); err != nil || result.RequeueAfter == 0 {
		t.Fatalf("a refused answer is tried again after %s (%v)", result.RequeueAfter, err)
	}
	before := w.rollout().Status
	if w.answer("stop") != "" || len(before.Rollbacks) != 1 {
		t.Fatalf("answer %q, rollbacks %v", w.answer("stop"), before.Rollbacks)
	}

	w.refuse = nil
	w.restart()
	w.settle()
	if got := w.answer("stop"); got != "Accepted=True/Accepted" {
		t.Errorf("answer %q; a second Abort would have no effect", got)
	}
	if diff := cmp.Diff(before.Rollbacks, w.rollout().Status.Rollbacks); diff != "" {
		t.Errorf("rollbacks (-before +after):\n%s", diff)
	}
}

func TestAnAnswerThatCannotBeWrittenHoldsUpNoCluster(t *testing.T) {
	w := onTwo(t)
	w.order("stop", v1alpha1.VerbAbort)
	w.refuse = func(write string, _ client.Object) error {
		if write == answerWrite {
			return errors.New("forbidden")
		}
		return nil
	}
	if result, err := w.tryReconcile(); err != nil || result.RequeueAfter == 0 {
		t.Errorf("a refused answer is tried again after %s (%v)", result.RequeueAfter, err)
	}
	for cluster, delivery := range w.deliveries() {
		if delivery.Spec.Revision.Version != "1.0.0" {
			t.Errorf("cluster %s has %s", cluster, delivery.Spec.Revision.Version)
		}
	}
}

func TestAnOrderAboutNoRolloutIsAnsweredOnceTheHubItselfSaysSo(t *testing.T) {
	w := newWorld(t, "c1")
	w.settle()
	w.order("early", v1alpha1.VerbPause)
	present := w.rollout()
	w.freeze()
	if err := w.cache.(client.Client).Delete(context.Background(), present.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	lagging := w.rolloutGoneFrom(w.cache)
	if result := w.reconcile(); result.RequeueAfter == 0 || !lagging || w.answer("early") != "" {
		t.Errorf("result %v, answer %q; want a repeat, because only the cache does not know the rollout", result, w.answer("early"))
	}

	w.thaw()
	gone := w.rollout()
	gone.Finalizers = nil
	if err := w.hub.Update(context.Background(), gone); err != nil {
		t.Fatal(err)
	}
	if err := w.hub.Delete(context.Background(), gone); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.reconcile()
	if got := w.answer("early"); got != "Accepted=False/RolloutNotFound" {
		t.Errorf("answer %q", got)
	}
	w.takeWrites()
	w.reconcile()
	if writes := w.takeWrites(); len(writes) != 0 {
		t.Errorf("answers again: %q", writes)
	}
}

// rolloutGoneFrom removes the finalizer of a rollout being deleted, so that a
// reader does not show it any more, and tells whether it worked.
func (w *world) rolloutGoneFrom(reader client.Reader) bool {
	w.t.Helper()
	var fro v1alpha1.FleetRollout
	if err := reader.Get(context.Background(), rolloutKey, &fro); err != nil {
		return true
	}
	fro.Finalizers = nil
	return reader.(client.Client).Update(context.Background(), &fro) == nil
}

func TestFinishedOrdersBeyondTheTrailAreDeleted(t *testing.T) {
	w := newWorld(t, "c1")
	w.settle()
	w.prove("c1")
	w.settle()
	for i := range v1alpha1.MaxFinishedActions + 2 {
		w.order(fmt.Sprintf("stop-%03d", i), v1alpha1.VerbAbort)
	}
	for range 5 {
		w.reconcile()
	}
	var left v1alpha1.RolloutActionList
	if err := w.hub.List(context.Background(), &left); err != nil {
		t.Fatal(err)
	}
	if len(left.Items) != v1alpha1.MaxFinishedActions || left.Items[0].Name != "stop-002" {
		t.Errorf("%d actions are left, the first is %s", len(left.Items), left.Items[0].Name)
	}
	w.settle()
}

func TestAnActionWakesItsRollout(t *testing.T) {
	action := &v1alpha1.RolloutAction{ObjectMeta: metav1.ObjectMeta{Namespace: "platform"}, Spec: v1alpha1.RolloutActionSpec{Rollout: "orders"}}
	if got := woken(rolloutsOfAction(context.Background(), action)); got != "platform/orders" {
		t.Errorf("woken %q", got)
	}
}
