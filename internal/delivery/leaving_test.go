package delivery

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/pkg/workbuilder"
)

func TestAnObjectThatCannotBeAppliedDoesNotHoldTheWayBack(t *testing.T) {
	h := newHub(t)
	first := h.freeze(1, "1.0.0", settings("1"))
	h.intend(first, v1alpha1.DirectionForward)
	h.settle()
	// The work agent refuses the Deployment of the second revision, and goes on
	// to refuse it for as long as a work lists it.
	agent := func(alsoRefuses string) {
		for _, work := range h.works() {
			objects, err := workbuilder.Objects([]*workv1.ManifestWork{work})
			if err != nil {
				t.Fatal(err)
			}
			work.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "x", ObservedGeneration: work.Generation}}
			work.Status.ResourceStatus.Manifests = nil
			for _, object := range objects {
				kind := object.GroupVersionKind()
				one := metav1.Condition{Type: workv1.ManifestApplied, Status: metav1.ConditionTrue, ObservedGeneration: work.Generation}
				if kind.Kind == "Deployment" || kind.Kind == alsoRefuses {
					one.Status, one.Message = metav1.ConditionFalse, "refused"
					work.Status.Conditions[0].Status, work.Status.Conditions[0].Message = metav1.ConditionFalse, "Failed to apply manifest work"
				}
				work.Status.ResourceStatus.Manifests = append(work.Status.ResourceStatus.Manifests, workv1.ManifestCondition{
					ResourceMeta: workv1.ManifestResourceMeta{Group: kind.Group, Version: kind.Version, Kind: kind.Kind, Namespace: object.GetNamespace(), Name: object.GetName()},
					Conditions:   []metav1.Condition{one},
				})
			}
			if err := h.client.Status().Update(background, work); err != nil {
				t.Fatal(err)
			}
		}
	}
	turn := func(alsoRefuses string) {
		for range 4 {
			if err := h.reconcile(); err != nil {
				t.Fatal(err)
			}
			agent(alsoRefuses)
		}
		if err := h.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	h.intend(h.freeze(2, "1.1.0", settings("2"), manifest("apps/v1", "Deployment", "api", "")), v1alpha1.DirectionForward)
	turn("")
	if status := h.delivery().Status; status.Reason != v1alpha1.ReasonApplyFailed {
		t.Fatalf("status is %s/%s", status.State, status.Reason)
	}
	h.intend(first, v1alpha1.DirectionRollback)
	turn("ConfigMap")
	if got := h.content(); got != "ConfigMap/settings=1 Deployment/api" {
		t.Errorf("while what is put back cannot be applied, the work carries %s", got)
	}
	turn("")
	if got := h.content(); got != "ConfigMap/settings=1" {
		t.Errorf("the work carries %s", got)
	}
	if status := h.delivery().Status; status.Phase != v1alpha1.PhaseDrop || status.AppliedAt == nil {
		t.Errorf("status is %s/%s in phase %s: %s", status.State, status.Reason, status.Phase, status.Message)
	}
}
