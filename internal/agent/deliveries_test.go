package agent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

var (
	configRef = v1alpha1.ObjectReference{Version: "v1", Kind: "ConfigMap", Namespace: "payments", Name: "api"}
	jobRef    = v1alpha1.ObjectReference{Group: "batch", Version: "v1", Kind: "Job", Namespace: "payments", Name: "migrate"}
)

func TestObjectsAndKindsFindTheirDeliveries(t *testing.T) {
	d := newDeliveries(testclock.NewFakeClock(time.Unix(0, 0)))
	first, second := deliveryOf(configRef, jobRef), deliveryOf(configRef)
	second.Name = "platform-other"
	d.put(first)
	d.put(second)

	if diff := cmp.Diff([]string{second.Name, first.Name}, d.ofObject(configRef)); diff != "" {
		t.Errorf("of the ConfigMap (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{first.Name}, d.ofKind(kindOf(jobRef))); diff != "" {
		t.Errorf("of Jobs (-want +got):\n%s", diff)
	}
	d.remove(first.Name)
	if got := d.ofObject(jobRef); len(got) != 0 {
		t.Errorf("the Job still belongs to %v", got)
	}
	want := map[schema.GroupVersionKind]extent{kindOf(configRef): metadataOnly}
	if diff := cmp.Diff(want, d.wantedKinds()); diff != "" {
		t.Errorf("wanted kinds (-want +got):\n%s", diff)
	}
}

func TestAKindThatACheckTargetsIsReadAsAWhole(t *testing.T) {
	service := v1alpha1.ObjectReference{Version: "v1", Kind: "Service", Namespace: "payments", Name: "api"}
	definition := v1alpha1.ObjectReference{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "things.example.com"}
	d := newDeliveries(testclock.NewFakeClock(time.Unix(0, 0)))
	checked := deliveryOf(configRef, service, definition)
	checked.Status.Rendered.Health.Checks = []v1alpha1.HealthCheck{{Target: v1alpha1.ObjectTarget{Name: configRef.Name, Kind: "ConfigMap"}, Healthy: "true"}}
	d.put(checked)
	want := map[schema.GroupVersionKind]extent{
		kindOf(configRef): everything, kindOf(definition): withoutVersions, serviceKind: everything, sliceKind: everything,
	}
	if diff := cmp.Diff(want, d.wantedKinds()); diff != "" {
		t.Errorf("wanted kinds (-want +got):\n%s", diff)
	}
}

func TestAnUnrelatedChangeOfADeliveryConcernsNobody(t *testing.T) {
	d := newDeliveries(testclock.NewFakeClock(time.Unix(0, 0)))
	if !d.put(deliveryOf(configRef)) {
		t.Errorf("a new delivery was not noticed")
	}
	same := deliveryOf(configRef)
	same.Status.Message = "the hub says something"
	if d.put(same) {
		t.Errorf("a change of the hub's own status was taken for news")
	}
	other := deliveryOf(configRef)
	other.Status.Rendered.Objects[0].Hash = "sha256:other"
	if !d.put(other) {
		t.Errorf("a changed rendering was not noticed")
	}
	anew := deliveryOf(configRef)
	anew.Status.Rendered.Objects[0].Hash = "sha256:other"
	anew.UID = "u2"
	if !d.put(anew) {
		t.Errorf("a delivery that was deleted and created again was not noticed")
	}
}

func TestADeliveryIsFreshFromWhenItsNumberWasSeenFirst(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(0, 0))
	d := newDeliveries(clock)
	delivery := deliveryOf(configRef)
	delivery.Spec.FastLeaseSeconds = 60
	d.put(delivery)
	clock.Step(40 * time.Second)

	touched := delivery.DeepCopy()
	touched.Spec.Step = 2
	d.put(touched)
	if !d.isFast() {
		t.Errorf("after 40 of 60 seconds it is not fresh")
	}
	clock.Step(20 * time.Second)
	if d.isFast() {
		t.Errorf("an edit without a new number made it fresh again")
	}
	next := touched.DeepCopy()
	next.Spec.Delivery++
	d.put(next)
	if !d.isFast() {
		t.Errorf("a new number is not fresh")
	}
}

func TestTheEndOfAPreflightConcernsTheAgent(t *testing.T) {
	d := newDeliveries(testclock.NewFakeClock(time.Unix(0, 0)))
	delivery := deliveryOf(apiDeployment)
	delivery.Status.Phase = v1alpha1.PhasePreflight
	d.put(delivery)
	next := delivery.DeepCopy()
	next.Status.Phase = v1alpha1.PhaseAdd
	if !d.put(next) {
		t.Error("the delivery left its preflight, and the agent does not look")
	}
	last := next.DeepCopy()
	last.Status.Phase = v1alpha1.PhaseDrop
	if d.put(last) {
		t.Error("which of the two writes it is does not concern the agent")
	}
}

func TestANewIntentEndsNoWatchBeforeItIsRendered(t *testing.T) {
	d := newDeliveries(testclock.NewFakeClock(time.Unix(0, 0)))
	delivery := deliveryOf(configRef, jobRef)
	d.put(delivery)
	before := d.wantedKinds()

	next := delivery.DeepCopy()
	next.Spec.Delivery++
	next.Spec.Revision.Digest = "sha256:r3"
	d.put(next)
	if diff := cmp.Diff(before, d.wantedKinds()); diff != "" {
		t.Errorf("what is known of the objects is lost with their watches (-before +after):\n%s", diff)
	}
	going := next.DeepCopy()
	going.Spec.Removal = v1alpha1.DeletePolicyDelete
	d.put(going)
	if left := d.wantedKinds(); len(left) != 0 {
		t.Errorf("it is being removed, and %v is still watched", left)
	}
}
