package delivery

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/pkg/workbuilder"
)

// sized are ConfigMaps of so many KiB each. Their content tells the size.
func sized(kib int, names ...string) []runtime.RawExtension {
	var manifests []runtime.RawExtension
	for _, name := range names {
		manifests = append(manifests, manifest("v1", "ConfigMap", name, fmt.Sprintf("%d %s", kib, strings.Repeat("x", kib<<10))))
	}
	return manifests
}

// layout tells what each work lists, by the first word of its content.
func (h *hub) layout() string {
	h.t.Helper()
	var works []string
	for _, work := range h.works() {
		line := work.Name[len(work.Name)-2:] + ":"
		objects, err := workbuilder.Objects([]*workv1.ManifestWork{work})
		if err != nil {
			h.t.Fatal(err)
		}
		for _, object := range objects {
			data, _ := object.Object["data"].(map[string]any)
			text, _ := data["content"].(string)
			first, _, _ := strings.Cut(text, " ")
			line += " " + object.GetName() + "=" + first
		}
		works = append(works, line)
	}
	return strings.Join(works, ", ")
}

// part applies one work alone.
func (h *hub) applyPart(number int32) {
	h.t.Helper()
	for _, work := range h.works() {
		if work.Name != v1alpha1.WorkName("shop", "api", number) {
			continue
		}
		work.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "x", ObservedGeneration: work.Generation}}
		if err := h.client.Status().Update(background, work); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *hub) reconcileOrFail() {
	h.t.Helper()
	if err := h.reconcile(); err != nil {
		h.t.Fatal(err)
	}
}

// Case M1, law 21.
func TestLaw21SplitContentIsProvenOnlyWhenAllPartsAreAndGoesBackWhole(t *testing.T) {
	h := newHub(t)
	small := h.freeze(1, "1.0.0", sized(1, "a", "b")...)
	h.intend(small, v1alpha1.DirectionForward)
	h.settle()

	h.intend(h.freeze(2, "2.0.0", sized(100, "a", "b", "c", "d", "e", "f")...), v1alpha1.DirectionForward)
	h.reconcileOrFail()
	if got := h.layout(); got != "00: a=100 b=100 c=100 d=100, 01: e=100 f=100" {
		t.Fatalf("works are %s", got)
	}
	healthy := func() {
		spec := h.delivery().Spec
		h.agent.Condition = condition(v1alpha1.AgentReport{Digest: spec.Revision.Digest, Delivery: spec.Delivery, Health: v1alpha1.HealthHealthy})
		h.reconcileOrFail()
	}
	h.applyPart(0)
	healthy()
	status := h.delivery().Status
	if status.State != v1alpha1.StateApplying || !strings.Contains(status.Message, v1alpha1.WorkName("shop", "api", 1)) {
		t.Errorf("with one part applied: %s/%s: %s", status.State, status.Reason, status.Message)
	}
	h.applyPart(1)
	healthy()
	if status := h.delivery().Status; status.State != v1alpha1.StateHealthy {
		t.Errorf("with all parts applied: %s/%s: %s", status.State, status.Reason, status.Message)
	}
	if got := len(h.delivery().Status.Rendered.Works); got != 2 {
		t.Errorf("%d works are recorded", got)
	}

	h.intend(small, v1alpha1.DirectionRollback)
	h.settle()
	if got := h.layout(); got != "00: a=1 b=1" {
		t.Errorf("after the rollback the works are %s", got)
	}
	h.intend(h.delivery().Spec.Revision, v1alpha1.DirectionRollback)
	h.settle()
	removal := h.delivery()
	removal.Spec.Removal = v1alpha1.DeletePolicyDelete
	if err := h.client.Update(background, removal); err != nil {
		t.Fatal(err)
	}
	h.settle()
	if works := h.works(); len(works) > 0 || h.delivery().Status.State != v1alpha1.StateRemoved {
		t.Errorf("%d works are left", len(works))
	}
}

func TestAWorkWithoutPartIsDeletedOnlyOnceTheOthersAreApplied(t *testing.T) {
	h := newHub(t)
	first := slices.Concat(sized(240, "a", "b"), sized(300, "c"), sized(100, "x"))
	h.intend(h.freeze(1, "1.0.0", first...), v1alpha1.DirectionForward)
	h.settle()
	if got := h.layout(); got != "00: a=240 b=240, 01: c=300 x=100" {
		t.Fatalf("the works are %s", got)
	}
	// a and x go, and b grows until it has no room beside the placeholder of a.
	second := append(sized(300, "c"), manifest("v1", "ConfigMap", "b", "499 "+strings.Repeat("x", 511470)))
	h.intend(h.freeze(2, "2.0.0", second...), v1alpha1.DirectionForward)
	h.reconcileOrFail()
	if got := h.layout(); got != "00: a=240 b=, 01: c=300 x=100, 02: b=499" {
		t.Fatalf("in the phase Add the works are %s", got)
	}
	h.applyWorks()
	h.reconcileOrFail()
	h.reconcileOrFail()
	if got := h.layout(); got != "00: a=240 b=, 01: c=300, 02: b=499" {
		t.Errorf("before the phase Drop is applied the works are %s", got)
	}
	h.applyPart(1)
	h.reconcileOrFail()
	if got := h.layout(); got != "01: c=300, 02: b=499" {
		t.Errorf("once it is applied the works are %s", got)
	}
}

func TestACrashWhileContentMovesBetweenPartsChangesNoOutcome(t *testing.T) {
	run := func(t *testing.T, crashAt int, after bool) (*hub, int) {
		h := newHub(t)
		h.intend(h.freeze(1, "1.0.0", sized(240, "a", "b")...), v1alpha1.DirectionForward)
		h.settle()
		h.intend(h.freeze(2, "2.0.0", sized(255, "a", "b")...), v1alpha1.DirectionForward)
		h.writes, h.specWrites = 0, 0
		h.crashAt, h.crashAfter = crashAt, after
		h.settle()
		return h, h.writes
	}
	_, writes := run(t, 0, false)
	for crashAt := 1; crashAt <= writes; crashAt++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("at write %d, carried out: %t", crashAt, after), func(t *testing.T) {
				h, _ := run(t, crashAt, after)
				if got := h.layout(); got != "00: a=255, 01: b=255" {
					t.Errorf("works are %s", got)
				}
				// Law 24: part 0 in both phases, part 1 in the first; the second changes
				// its annotations alone.
				if h.specWrites != 3 {
					t.Errorf("%d spec writes, want 3", h.specWrites)
				}
				if status := h.delivery().Status; status.Reason != v1alpha1.ReasonAwaitingReport || status.Delivery != 2 {
					t.Errorf("status is %s/%s of delivery %d", status.State, status.Reason, status.Delivery)
				}
			})
		}
	}
}

func TestAForeignWorkInThePlaceOfAPartBlocks(t *testing.T) {
	for _, tc := range []struct {
		direction v1alpha1.Direction
		works     int
	}{
		// The agent is asked first, and meanwhile the foreign work is found.
		{v1alpha1.DirectionForward, 0},
		// Part 0 is written by then: its objects are ours to hold.
		{v1alpha1.DirectionRollback, 1},
	} {
		t.Run(string(tc.direction), func(t *testing.T) {
			foreign := &workv1.ManifestWork{}
			foreign.Namespace, foreign.Name = "c1", v1alpha1.WorkName("shop", "api", 1)
			h := newHub(t, foreign)
			h.intend(h.freeze(1, "1.0.0", sized(100, "a", "b", "c", "d", "e")...), tc.direction)
			for range 3 {
				h.reconcileOrFail()
			}
			status := h.delivery().Status
			if status.State != v1alpha1.StateBlocked || status.Reason != v1alpha1.ReasonForeignObject || !strings.Contains(status.Message, foreign.Name) {
				t.Errorf("status is %s/%s: %s", status.State, status.Reason, status.Message)
			}
			if works := len(h.works()); works != tc.works || (status.Rendered != nil) != (works > 0) {
				t.Errorf("%d works, recorded: %t", works, status.Rendered != nil)
			}
		})
	}
}

func TestAnObjectThatOverridesMakeTooLargeBlocksTheCluster(t *testing.T) {
	h := newHub(t)
	reference := h.freeze(1, "1.0.0", sized(1, "a")...)
	h.intend(reference, v1alpha1.DirectionForward)
	// The payload of a cluster may be larger than what was frozen.
	payload := v1alpha1.RevisionPayload{Version: "1.0.0", Template: v1alpha1.Template{Components: []v1alpha1.Component{{Name: "main", Manifests: sized(600, "a")}}}}
	h.applier.payloads.remember(reference.Digest, payload)
	h.reconcileOrFail()
	status := h.delivery().Status
	if status.State != v1alpha1.StateBlocked || status.Reason != v1alpha1.ReasonTooLarge || !strings.Contains(status.Message, "ConfigMap shop/a") || len(h.works()) > 0 {
		t.Errorf("status is %s/%s: %s; %d works", status.State, status.Reason, status.Message, len(h.works()))
	}
}

// An object that moves fails once, in the part that applies it.
func TestWhatAPartListsForTheLastTimeIsNotWaitedFor(t *testing.T) {
	name := func(part int32) string { return v1alpha1.WorkName("shop", "api", part) }
	configMap := func(name string) v1alpha1.ObjectReference {
		return v1alpha1.ObjectReference{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: name}
	}
	status := v1alpha1.RolloutDeliveryStatus{Delivery: 2, Phase: v1alpha1.PhaseAdd, Rendered: &v1alpha1.Rendered{
		Delivery: 2, Works: []string{name(0), name(1)},
		Objects: []v1alpha1.RenderedObject{{ObjectReference: configMap("a")}, {ObjectReference: configMap("moved"), Part: 1}},
	}}
	work := func(part int32, refused string, names ...string) *workv1.ManifestWork {
		work := &workv1.ManifestWork{}
		work.Name, work.Generation = name(part), 1
		work.Annotations = map[string]string{v1alpha1.AnnotationDelivery: "2", v1alpha1.AnnotationPhase: "Add"}
		applied := metav1.ConditionTrue
		for _, object := range names {
			one := metav1.ConditionTrue
			if object == refused {
				one, applied = metav1.ConditionFalse, metav1.ConditionFalse
			}
			work.Status.ResourceStatus.Manifests = append(work.Status.ResourceStatus.Manifests, workv1.ManifestCondition{
				ResourceMeta: workv1.ManifestResourceMeta{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: object},
				Conditions:   []metav1.Condition{{Type: workv1.ManifestApplied, Status: one, Message: "no", ObservedGeneration: 1}},
			})
		}
		work.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, Status: applied, ObservedGeneration: 1}}
		return work
	}
	if got := applicationOf(status, []*workv1.ManifestWork{work(0, "moved", "a", "moved"), work(1, "", "moved")}); !got.complete {
		t.Errorf("the placeholder is waited for: %+v", got)
	}
	if got := applicationOf(status, []*workv1.ManifestWork{work(0, "", "a", "moved"), work(1, "moved", "moved")}); got.complete || len(got.refused) != 1 {
		t.Errorf("the object itself is not waited for: %+v", got)
	}
}
