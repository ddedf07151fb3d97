package delivery

import (
	"strings"
	"testing"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// remove orders the removal as the rollout controller does.
func (h *hub) remove(policy v1alpha1.DeletePolicy) {
	h.t.Helper()
	record := h.delivery()
	record.Spec.Removal = policy
	if err := h.client.Update(background, record); err != nil {
		h.t.Fatal(err)
	}
}

func delivered(t *testing.T) *hub {
	h := newHub(t)
	h.intend(h.freeze(1, "1.0.0", settings("1"), service()), v1alpha1.DirectionForward)
	h.settle()
	h.specWrites, h.workWrites = 0, 0
	return h
}

func TestRemovalDeletesTheWorks(t *testing.T) {
	h := delivered(t)
	h.remove(v1alpha1.DeletePolicyDelete)
	h.settle()
	if len(h.works()) != 0 || h.specWrites != 0 {
		t.Errorf("%d works left, %d spec writes", len(h.works()), h.specWrites)
	}
	if status := h.delivery().Status; status.State != v1alpha1.StateRemoved {
		t.Errorf("state is %s: %s", status.State, status.Message)
	}
}

func TestRemovalThatOrphansWaitsForTheWorkAgent(t *testing.T) {
	h := delivered(t)
	h.remove(v1alpha1.DeletePolicyOrphan)
	for range 3 {
		if err := h.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	works := h.works()
	if len(works) != 1 || h.specWrites != 1 {
		t.Fatalf("%d works left after %d spec writes; want the work, rewritten once", len(works), h.specWrites)
	}
	if option := works[0].Spec.DeleteOption; option == nil || option.PropagationPolicy != workv1.DeletePropagationPolicyTypeOrphan {
		t.Errorf("delete option is %+v", option)
	}
	if status := h.delivery().Status; status.State != v1alpha1.StateRemoving || status.HealthySince != nil {
		t.Errorf("state is %s", status.State)
	}
	h.settle()
	if len(h.works()) != 0 || h.delivery().Status.State != v1alpha1.StateRemoved {
		t.Errorf("%d works left, state %s", len(h.works()), h.delivery().Status.State)
	}
}

func TestRemovalFromAnUnreachableClusterNamesIt(t *testing.T) {
	h := delivered(t)
	h.remove(v1alpha1.DeletePolicyOrphan)
	h.cluster.Available = false
	for range 3 {
		if err := h.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if status := h.delivery().Status; !strings.Contains(status.Message, "cluster c1 is not Available") {
		t.Errorf("message is %q", status.Message)
	}
	if len(h.works()) != 1 {
		t.Error("the work is deleted before its objects are released")
	}
}

func TestRemovalLeavesADetachingClusterToOCM(t *testing.T) {
	h := delivered(t)
	h.remove(v1alpha1.DeletePolicyDelete)
	h.cluster.Deleting = true
	if err := h.reconcile(); err != nil {
		t.Fatal(err)
	}
	if h.workWrites != 0 || h.delivery().Status.State != v1alpha1.StateRemoving {
		t.Errorf("%d works written, state %s", h.workWrites, h.delivery().Status.State)
	}
}

func TestRemovalOfNothingIsDone(t *testing.T) {
	h := newHub(t)
	h.intend(v1alpha1.RevisionReference{Name: "none", Digest: digest2, Version: "1.0.0", Number: 1}, v1alpha1.DirectionForward)
	h.remove(v1alpha1.DeletePolicyDelete)
	h.settle()
	if state := h.delivery().Status.State; state != v1alpha1.StateRemoved {
		t.Errorf("state is %s", state)
	}
}
