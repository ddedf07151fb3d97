package observe

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// actionAt is an action about newRollout, that many seconds past noon, with
// conditions written as type, status, type, status.
func actionAt(name string, second int, conditions ...string) *v1alpha1.RolloutAction {
	action := &v1alpha1.RolloutAction{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "platform", Name: name, UID: types.UID("uid-" + name),
			CreationTimestamp: metav1.NewTime(noon.Add(time.Duration(second) * time.Second)),
		},
		Spec: v1alpha1.RolloutActionSpec{Rollout: newRollout("1.0.0", "one").Name, Verb: v1alpha1.VerbPause},
	}
	for pair := range slices.Chunk(conditions, 2) {
		action.Status.Conditions = append(action.Status.Conditions, metav1.Condition{Type: pair[0], Status: metav1.ConditionStatus(pair[1])})
	}
	return action
}

func TestUnfinishedActionsAreDecidedOnInTheOrderOfTheirCreation(t *testing.T) {
	elsewhere, otherNamespace := actionAt("elsewhere", 1), actionAt("abroad", 1)
	elsewhere.Spec.Rollout = "orders"
	otherNamespace.Namespace = "another"
	h := newHub(t, append(placementOf(),
		actionAt("c", 7), actionAt("b", 9), actionAt("a", 9), elsewhere, otherNamespace,
		actionAt("void", 3, "Accepted", "False"),
		actionAt("done", 3, "Accepted", "True", "Complete", "True"),
		actionAt("overtaken", 3, "Accepted", "True", "Complete", "False"),
		actionAt("going", 5, "Accepted", "True"),
		actionAt("older-than-the-rollout", -1),
	)...)
	fro := newRollout("1.0.0", "one")
	fro.CreationTimestamp = metav1.NewTime(noon)
	fro.Status.HandledActions = []types.UID{"uid-c"}
	fro.Status.RemovalConfirmation = &v1alpha1.Order{Action: "confirm"}

	observation := h.observe(fro)
	var got []string
	for _, action := range observation.Snapshot.Actions {
		got = append(got, fmt.Sprintf("%s %v %s", action.Name, action.Accepted, action.CreatedAt.Format(time.TimeOnly)))
		if open := observation.Actions.Open[action.Name]; open == nil || open.UID != action.UID || action.Spec != open.Spec {
			t.Errorf("action %s is not open: %v", action.Name, open)
		}
	}
	want := []string{"going true 12:00:05", "c false 12:00:07", "a false 12:00:09", "b false 12:00:09"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if orphans := observation.Actions.Orphans; len(orphans) != 1 || orphans[0].Name != "older-than-the-rollout" {
		t.Errorf("orphans %v", orphans)
	}
	if snapshot := observation.Snapshot; len(snapshot.HandledActions) != 1 || snapshot.RemovalConfirmation == nil {
		t.Errorf("handled %v, confirmation %v", snapshot.HandledActions, snapshot.RemovalConfirmation)
	}
}

func TestAnActionThatTheCacheAloneCallsUndecidedIsNotDecidedOnAgain(t *testing.T) {
	h := newHub(t, append(placementOf(), actionAt("answered", 1), actionAt("deleted", 2), actionAt("made-anew", 3), actionAt("open", 4))...)
	made := actionAt("made-anew", 3)
	made.UID = "another"
	live := newHub(t, actionAt("answered", 1, "Accepted", "True"), made, actionAt("open", 4))
	h.observer.Live = live.client

	actions := h.observe(newRollout("1.0.0", "one")).Snapshot.Actions
	if len(actions) != 1 || actions[0].Name != "open" {
		t.Errorf("actions %+v, want the open one alone", actions)
	}
}

func TestOneDecisionTakesInTheOldestActionsAndEveryAcceptedOne(t *testing.T) {
	objects := placementOf()
	for i := range maxUndecidedActions + 5 {
		objects = append(objects, actionAt(fmt.Sprintf("a%03d", i), i))
	}
	objects = append(objects, actionAt("going", 500, "Accepted", "True"))
	actions := newHub(t, objects...).observe(newRollout("1.0.0", "one")).Snapshot.Actions
	if n := len(actions); n != maxUndecidedActions+1 || actions[0].Name != "a000" || actions[n-1].Name != "going" {
		t.Errorf("%d actions, from %s to %s", n, actions[0].Name, actions[n-1].Name)
	}
}

func TestTheAuditTrailExpiresFromItsOldEnd(t *testing.T) {
	objects := append(placementOf(), actionAt("open", 0))
	for i := range v1alpha1.MaxFinishedActions + 2 {
		objects = append(objects, actionAt(fmt.Sprintf("a%03d", i), i, "Accepted", "False"))
	}
	var got []string
	for _, action := range newHub(t, objects...).observe(newRollout("1.0.0", "one")).Actions.Expired {
		got = append(got, action.Name)
	}
	if diff := cmp.Diff([]string{"a001", "a000"}, got); diff != "" {
		t.Errorf("expired (-want +got):\n%s", diff)
	}
}

func TestOrphansAreTheUnfinishedActionsOfAName(t *testing.T) {
	h := newHub(t, actionAt("open", 1), actionAt("going", 2, "Accepted", "True"), actionAt("void", 3, "Accepted", "False"))
	orphans, err := h.observer.ReadOrphans(context.Background(), client.ObjectKeyFromObject(newRollout("1.0.0", "one")))
	if err != nil || len(orphans) != 2 || orphans[0].Name != "open" || orphans[1].Name != "going" {
		t.Errorf("orphans %v, error %v", orphans, err)
	}
}
