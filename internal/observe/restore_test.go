package observe

import (
	"strings"
	"testing"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// succeeded is a hub with a rollout whose first revision is stable and whose
// second one is in the template.
func succeeded(t *testing.T) (*hub, *v1alpha1.FleetRollout, v1alpha1.RevisionReference) {
	h := newHub(t, placementOf()...)
	fro := newRollout("1.0.0", "one")
	stable := h.observe(fro).Snapshot.Current.RevisionReference
	fro.Status.StableRevision = &stable
	setTemplate(fro, "1.1.0", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"settings"},"data":{"key":"two"}}`)
	h.observe(fro)
	h.creations = nil
	return h, fro, stable
}

func (h *hub) recordOf(t *testing.T, observation Observation, digest string) *v1alpha1.RolloutRevision {
	for _, record := range observation.Revisions {
		if record.Spec.Digest == digest {
			return record
		}
	}
	t.Fatalf("no record of %s", digest)
	return nil
}

func TestADeletedRecordOfTheStableRevisionIsMadeAgain(t *testing.T) {
	h, fro, stable := succeeded(t)
	before := h.recordOf(t, h.observe(fro), stable.Digest).DeepCopy()
	h.delete(before.DeepCopy())
	h.forgetAll()
	after := h.recordOf(t, h.observe(fro), stable.Digest)
	if after.Name != before.Name || after.Spec.Number != 1 || after.Spec.Version != "1.0.0" || len(after.Spec.Inventory) != 1 {
		t.Errorf("made again as %+v", after.Spec)
	}
	if len(h.creations) != 1 {
		t.Errorf("created %v, want the record alone", h.creations)
	}
	h.observe(fro)
	if len(h.creations) != 1 {
		t.Errorf("created again: %v", h.creations)
	}
}

func TestAStableRevisionThatIsLostIsAProblemWithTheFix(t *testing.T) {
	h, fro, stable := succeeded(t)
	h.delete(h.recordOf(t, h.observe(fro), stable.Digest).DeepCopy())
	h.delete(h.secret(stable.Name))
	h.forgetAll()
	for _, r := range h.observe(fro).Snapshot.Revisions {
		if r.Digest != stable.Digest {
			continue
		}
		if r.Problem == nil || r.Problem.Reason != v1alpha1.ReasonRevisionMissing || !strings.Contains(r.Problem.Message, "restore both") {
			t.Errorf("problem: %+v", r.Problem)
		}
		return
	}
	t.Error("nobody notices that the stable revision is lost")
}

func TestTheContentOfAnotherRolloutRestoresNothing(t *testing.T) {
	h, fro, stable := succeeded(t)
	h.delete(h.recordOf(t, h.observe(fro), stable.Digest).DeepCopy())
	foreign := h.secret(stable.Name).DeepCopy()
	h.delete(foreign.DeepCopy())
	foreign.ResourceVersion, foreign.OwnerReferences[0].UID = "", "another"
	h.create(foreign)
	h.forgetAll()
	h.observe(fro)
	if len(h.creations) != 0 {
		t.Errorf("created %v", h.creations)
	}
}
