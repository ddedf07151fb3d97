package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/rollout"
)

func TestWhatBecomesOfAnActionIsToldByItsConditions(t *testing.T) {
	action := &v1alpha1.RolloutAction{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	tell := func(outcome rollout.ActionOutcome, at time.Time) []string {
		next := Action(action, outcome, at)
		if again := Action(&v1alpha1.RolloutAction{ObjectMeta: action.ObjectMeta, Status: next}, outcome, at.Add(time.Hour)); !EqualAction(next, again) {
			t.Errorf("the same outcome changes the status:\n%s", cmp.Diff(next, again))
		}
		action.Status = next
		var lines []string
		for _, c := range next.Conditions {
			if c.ObservedGeneration != 1 {
				t.Errorf("%s is about generation %d", c.Type, c.ObservedGeneration)
			}
			lines = append(lines, fmt.Sprintf("%s=%s/%s %s %s", c.Type, c.Status, c.Reason, c.Message, c.LastTransitionTime.Format(time.TimeOnly)))
		}
		return lines
	}
	accepted := rollout.ActionOutcome{Accepted: true, Cause: v1alpha1.Cause{Reason: v1alpha1.ReasonAccepted, Message: "aborted"}}
	if diff := cmp.Diff([]string{"Accepted=True/Accepted aborted 12:00:00"}, tell(accepted, noon)); diff != "" {
		t.Errorf("accepted (-want +got):\n%s", diff)
	}

	// The planner tells only what changes.
	complete := rollout.ActionOutcome{Accepted: true, Complete: &rollout.Completion{
		Done: true, Cause: v1alpha1.Cause{Reason: v1alpha1.ReasonDone, Message: "all went back"},
	}}
	want := []string{"Accepted=True/Accepted aborted 12:00:00", "Complete=True/Done all went back 12:01:00"}
	if diff := cmp.Diff(want, tell(complete, noon.Add(time.Minute))); diff != "" {
		t.Errorf("complete (-want +got):\n%s", diff)
	}

	action = &v1alpha1.RolloutAction{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	void := rollout.ActionOutcome{Cause: v1alpha1.Cause{Reason: v1alpha1.ReasonVoid, Message: strings.Repeat("x", 5000)}}
	tell(void, noon)
	if got := action.Status.Conditions; len(got) != 1 || got[0].Status != metav1.ConditionFalse || len(got[0].Message) > v1alpha1.MaxMessageLength {
		t.Errorf("conditions %+v", got)
	}
}
