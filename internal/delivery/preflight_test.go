package delivery

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func ref(version, kind, name string) v1alpha1.ObjectReference {
	object := v1alpha1.ObjectReference{Version: version, Kind: kind, Namespace: "shop", Name: name}
	if group, v, ok := strings.Cut(version, "/"); ok {
		object.Group, object.Version = group, v
	}
	return object
}

func (h *hub) mustReconcile() {
	h.t.Helper()
	if err := h.reconcile(); err != nil {
		h.t.Fatal(err)
	}
}

func TestNothingIsWrittenBeforeALiveAgentAnswersThisDelivery(t *testing.T) {
	h := newHub(t)
	h.mute = true
	h.intend(h.freeze(1, "1.0.0", settings("1")), v1alpha1.DirectionForward)
	spec := h.delivery().Spec
	report := v1alpha1.AgentReport{Digest: spec.Revision.Digest, Delivery: 1, Health: v1alpha1.HealthProgressing, Preflight: &v1alpha1.Preflight{Delivery: 1}}
	h.mustReconcile()
	for name, change := range map[string]func(*v1alpha1.AgentReport){
		"another digest":                  func(r *v1alpha1.AgentReport) { r.Digest = "sha256:other" },
		"another delivery":                func(r *v1alpha1.AgentReport) { r.Delivery = 7 },
		"a preflight of another delivery": func(r *v1alpha1.AgentReport) { r.Preflight = &v1alpha1.Preflight{Delivery: 7} },
		"no preflight":                    func(r *v1alpha1.AgentReport) { r.Preflight = nil },
		"a silent agent":                  func(*v1alpha1.AgentReport) { h.agent.Liveness.Live = false },
		"no addon":                        func(*v1alpha1.AgentReport) { h.agent.Enabled = false },
		"an unavailable cluster":          func(*v1alpha1.AgentReport) { h.cluster.Available = false },
	} {
		said, agent, cluster := report, h.agent, h.cluster
		change(&said)
		h.agent.Condition = condition(said)
		h.mustReconcile()
		if len(h.works()) > 0 {
			t.Fatalf("%s lets the work be written", name)
		}
		h.agent, h.cluster = agent, cluster
	}
	h.agent.Condition = condition(report)
	h.mustReconcile()
	if got := h.content(); got != "ConfigMap/settings=1" {
		t.Errorf("the work carries %q", got)
	}
}

func TestAPreflightIsAStateWithADeadlineAndNoWriteRepeated(t *testing.T) {
	h := newHub(t)
	h.mute = true
	h.intend(h.freeze(1, "1.0.0", settings("1")), v1alpha1.DirectionForward)
	h.writes = 0
	for range 3 {
		h.mustReconcile()
	}
	status := h.delivery().Status
	if h.writes != 1 || status.State != v1alpha1.StateProgressing || status.Reason != v1alpha1.ReasonPreflight || status.WrittenAt == nil {
		t.Errorf("%d writes, %s/%s, written at %v", h.writes, status.State, status.Reason, status.WrittenAt)
	}
}

func TestWithoutAnAgentTheEnableCommandIsSaidAndTheDeadlineRuns(t *testing.T) {
	h := newHub(t)
	h.agent = Agent{}
	h.mute = true
	h.intend(h.freeze(1, "1.0.0", settings("1")), v1alpha1.DirectionForward)
	h.writes = 0
	h.mustReconcile()
	status := h.delivery().Status
	if status.State != v1alpha1.StateProgressing || status.Reason != v1alpha1.ReasonAgentMissing || status.WrittenAt == nil ||
		!strings.Contains(status.Message, "clusteradm addon enable --names fleet-rollout --clusters c1") {
		t.Errorf("status %+v", status)
	}
	if h.writes != 1 {
		t.Errorf("%d writes", h.writes)
	}
}

func TestAnUnreachableClusterGetsPreflightAndWorkWhenItReturns(t *testing.T) { // case A1
	h := newHub(t)
	h.cluster.Available = false
	h.intend(h.freeze(1, "1.0.0", settings("1")), v1alpha1.DirectionForward)
	h.settle()
	if status := h.delivery().Status; status.State != v1alpha1.StateUnreachable || status.Phase != v1alpha1.PhasePreflight {
		t.Fatalf("%s in phase %s", status.State, status.Phase)
	}
	h.cluster.Available = true
	h.settle()
	if got := h.content(); got != "ConfigMap/settings=1" {
		t.Errorf("the work carries %q", got)
	}
}

func TestExistingObjectsOutsideAdoptAreRecordedAndCarriedOver(t *testing.T) {
	h := newHub(t)
	h.adjust = func(spec *v1alpha1.FleetRolloutSpec) {
		spec.Delivery.Adopt = []v1alpha1.ObjectTarget{{Kind: "Service"}}
	}
	h.existing = []v1alpha1.ObjectReference{ref("v1", "ConfigMap", "settings"), ref("v1", "Service", "s"), ref("v1", "ConfigMap", "not-of-ours")}
	first := h.freeze(1, "1.0.0", settings("1"), service())
	h.intend(first, v1alpha1.DirectionForward)
	h.crashAt = h.writes + 3 // the record of the answer is there, the work is not
	for err := error(nil); !errors.Is(err, errCrash); {
		err = h.reconcile()
	}
	want := []v1alpha1.ObjectReference{ref("v1", "ConfigMap", "settings")}
	status := h.delivery().Status
	if diff := cmp.Diff(want, status.Unadopted); diff != "" {
		t.Errorf("unadopted before the work is written (-want +got):\n%s", diff)
	}
	if got := status.Preflight; got == nil || got.Delivery != 1 || got.AnsweredAt == nil || len(got.Existing) != 2 {
		t.Errorf("preflight %+v", got)
	}
	h.restart()
	h.settle()

	h.existing = nil
	second := h.freeze(2, "1.1.0", settings("2"), service(), manifest("v1", "ConfigMap", "more", "2"))
	payload := secretOf(second)
	if err := h.client.Get(background, client.ObjectKeyFromObject(payload), payload); err != nil {
		t.Fatal(err)
	}
	if err := h.client.Delete(background, payload); err != nil {
		t.Fatal(err)
	}
	h.intend(second, v1alpha1.DirectionForward)
	h.settle() // nothing can be rendered, and that is recorded
	payload.ResourceVersion = ""
	if err := h.client.Create(background, payload); err != nil {
		t.Fatal(err)
	}
	h.settle()
	h.intend(first, v1alpha1.DirectionRollback)
	h.settle()
	if diff := cmp.Diff(want, h.delivery().Status.Unadopted); diff != "" {
		t.Errorf("unadopted after another delivery and the way back (-want +got):\n%s", diff)
	}

	h.adjust = func(spec *v1alpha1.FleetRolloutSpec) {
		spec.Delivery.Adopt = []v1alpha1.ObjectTarget{{Kind: "ConfigMap", Name: "settings"}}
	}
	h.intend(h.freeze(3, "1.2.0", settings("1"), service()), v1alpha1.DirectionForward)
	h.settle()
	if got := h.delivery().Status.Unadopted; len(got) > 0 {
		t.Errorf("adopted by a later revision, and still unadopted: %v", got)
	}
}

func TestWhereNotAllExistingObjectsHadRoomNoneIsTakenOver(t *testing.T) {
	h := newHub(t)
	h.mute = true
	h.intend(h.freeze(1, "1.0.0", settings("1"), service()), v1alpha1.DirectionForward)
	h.mustReconcile()
	spec := h.delivery().Spec
	h.agent.Condition = condition(v1alpha1.AgentReport{Digest: spec.Revision.Digest, Delivery: 1, Health: v1alpha1.HealthProgressing,
		Truncated: true, Preflight: &v1alpha1.Preflight{Delivery: 1, Existing: []v1alpha1.ObjectReference{ref("v1", "Service", "s")}}})
	h.mustReconcile()
	if got := h.delivery().Status.Unadopted; len(got) != 2 {
		t.Errorf("unadopted are %v, want both objects", got)
	}
}

func TestAnAPIThatIsNotServedBlocksUntilItIs(t *testing.T) { // law 17
	crontab := v1alpha1.RequiredAPI{Group: "stable.example.com", Version: "v1", Kind: "CronTab"}
	h := newHub(t)
	h.adjust = func(spec *v1alpha1.FleetRolloutSpec) { spec.Requires.APIs = []v1alpha1.RequiredAPI{crontab} }
	h.intend(h.freeze(1, "1.0.0", settings("1")), v1alpha1.DirectionForward)
	h.unserved = []v1alpha1.RequiredAPI{crontab}
	h.mute = true
	h.mustReconcile()
	h.answer(v1alpha1.Preflight{Unserved: h.unserved})
	h.mustReconcile()
	status := h.delivery().Status
	if status.State != v1alpha1.StateBlocked || status.Reason != v1alpha1.ReasonAPINotServed || len(h.works()) > 0 {
		t.Fatalf("%s/%s, %d works", status.State, status.Reason, len(h.works()))
	}
	for _, word := range []string{"c1", "CronTab (stable.example.com/v1)", "spec.requires"} {
		if !strings.Contains(status.Message, word) {
			t.Errorf("%q does not say %q", status.Message, word)
		}
	}
	if status.WrittenAt != nil {
		t.Error("the deadline of a blocked cluster runs")
	}
	before := h.writes
	h.mustReconcile()
	if h.writes != before {
		t.Error("a blocked cluster is written to although nothing changes")
	}
	blocked := h.agent.Condition
	h.agent.Condition = nil
	h.clock.SetTime(noon.Add(5 * time.Minute))
	h.mustReconcile()
	if at := h.delivery().Status.WrittenAt; at == nil || !at.Time.Equal(noon.Add(5*time.Minute)) {
		t.Errorf("an agent that says nothing any more has no deadline but %v", at)
	}
	h.agent.Condition = blocked
	h.mustReconcile()
	h.clock.SetTime(noon.Add(10 * time.Minute))
	h.answer(v1alpha1.Preflight{})
	h.mustReconcile()
	status = h.delivery().Status
	if got := h.content(); got != "ConfigMap/settings=1" || !status.WrittenAt.Time.Equal(noon.Add(10*time.Minute)) {
		t.Errorf("the work carries %q, written at %v", got, status.WrittenAt)
	}

	// A later revision of the same objects asks again only for what is new.
	h.settle()
	h.intend(h.freeze(2, "1.1.0", settings("2")), v1alpha1.DirectionForward)
	h.mustReconcile()
	if phase := h.delivery().Status.Phase; phase == v1alpha1.PhasePreflight {
		t.Error("the same requirement is looked up again")
	}
	h.settle()
	h.adjust = func(spec *v1alpha1.FleetRolloutSpec) {
		spec.Requires.APIs = []v1alpha1.RequiredAPI{{Group: "other.example.com", Version: "v1", Kind: "Other"}}
	}
	h.intend(h.freeze(3, "1.2.0", settings("3")), v1alpha1.DirectionForward)
	h.mustReconcile()
	if phase := h.delivery().Status.Phase; phase != v1alpha1.PhasePreflight {
		t.Errorf("a new requirement is not looked up: phase %s", phase)
	}
	if got := h.content(); got != "ConfigMap/settings=2" {
		t.Errorf("meanwhile the work carries %q", got)
	}
}

func TestAnAPIThatTheContentBringsBlocksNobody(t *testing.T) {
	h := newHub(t)
	h.intend(h.freeze(1, "1.0.0", manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", "carts.shop.example.com", ""), settings("1")), v1alpha1.DirectionForward)
	h.unserved = []v1alpha1.RequiredAPI{{Group: "shop.example.com", Version: "v1", Kind: "Cart"}}
	h.settle()
	if len(h.works()) != 1 {
		t.Fatalf("status %+v", h.delivery().Status)
	}
	h.unserved = []v1alpha1.RequiredAPI{{Group: "shop.example.com", Version: "v2", Kind: "Cart"}}
	h.intend(h.freeze(2, "1.1.0", settings("1"), manifest("v1", "ConfigMap", "more", "")), v1alpha1.DirectionForward)
	h.mustReconcile()
	if reason := h.delivery().Status.Reason; reason != v1alpha1.ReasonAPINotServed {
		t.Errorf("a version that the content does not bring: reason %s", reason)
	}
}

func TestOnlyNewObjectsAreAskedAbout(t *testing.T) {
	h := newHub(t)
	job := manifest("batch/v1", "Job", "migrate", "image:1")
	first := h.freeze(1, "1.0.0", settings("1"), service(), job)
	h.intend(first, v1alpha1.DirectionForward)
	h.settle()
	h.mute = true
	for _, step := range []struct {
		name      string
		to        v1alpha1.RevisionReference
		direction v1alpha1.Direction
	}{
		{"the same objects with new content and a Job of a new name", h.freeze(2, "1.1.0", settings("2"), service(), manifest("batch/v1", "Job", "migrate", "image:2")), v1alpha1.DirectionForward},
		{"a delivery once more", first, v1alpha1.DirectionForward},
		{"a revision that drops", h.freeze(3, "1.2.0", settings("3")), v1alpha1.DirectionForward},
		{"a rollback that adds", first, v1alpha1.DirectionRollback},
	} {
		h.intend(step.to, step.direction)
		h.settle()
		if phase := h.delivery().Status.Phase; phase != v1alpha1.PhaseDrop {
			t.Errorf("%s: phase %s", step.name, phase)
		}
	}
}

func TestAManagerKilledInAPreflightGoesOnWhereItStopped(t *testing.T) {
	for crashAt := 1; crashAt <= 6; crashAt++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d, carried out %t", crashAt, after), func(t *testing.T) {
				h := newHub(t)
				h.existing = []v1alpha1.ObjectReference{ref("v1", "ConfigMap", "settings")}
				h.intend(h.freeze(1, "1.0.0", settings("1"), service()), v1alpha1.DirectionForward)
				h.writes, h.crashAt, h.crashAfter = 0, crashAt, after
				h.settle()
				if got := h.content(); got != "ConfigMap/settings=1 Service/s" || h.specWrites != 1 {
					t.Errorf("the work carries %q after %d writes of its spec", got, h.specWrites)
				}
				if got := h.delivery().Status.Unadopted; len(got) != 1 {
					t.Errorf("unadopted are %v", got)
				}
			})
		}
	}
}

func TestAPreflightOfACacheThatIsBehindIsNotConcludedAgain(t *testing.T) {
	h := newHub(t)
	h.mute = true
	h.intend(h.freeze(1, "1.0.0", settings("1")), v1alpha1.DirectionForward)
	h.mustReconcile()
	behind := h.delivery()
	h.answer(v1alpha1.Preflight{})
	h.mustReconcile()
	before := h.writes
	task := h.task()
	task.Delivery = behind
	if _, err := h.applier.Apply(background, task); !errors.Is(err, errStale) {
		t.Errorf("error %v, want that the cache is behind", err)
	}
	if h.writes != before {
		t.Error("it writes all the same")
	}
}

func TestWhatStillRunsIsNotJudgedByTheAnswerToAPreflight(t *testing.T) {
	h := newHub(t)
	h.intend(h.freeze(1, "1.0.0", settings("1")), v1alpha1.DirectionForward)
	h.settle()
	drifted := v1alpha1.AgentReport{Digest: h.delivery().Spec.Revision.Digest, Delivery: 1, Health: v1alpha1.HealthHealthy,
		Drift: []v1alpha1.ObjectDrift{{ObjectReference: ref("v1", "ConfigMap", "settings"), Manager: "kubectl-edit"}}}
	h.agent.Condition = condition(drifted)
	h.settle()
	h.mute = true
	h.intend(h.freeze(2, "1.1.0", settings("1"), service()), v1alpha1.DirectionForward)
	h.mustReconcile()
	h.answer(v1alpha1.Preflight{})
	h.mustReconcile()
	if got := h.delivery().Status; got.Phase != v1alpha1.PhaseDrop || len(got.Drift) != 1 {
		t.Errorf("phase %s, drift %v", got.Phase, got.Drift)
	}
}

func TestARecordMadeAgainLearnsFromTheWorksWhatIsNotOursToDelete(t *testing.T) {
	h := newHub(t)
	crd := manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", "carts.shop.example.com", "")
	first := h.freeze(1, "1.0.0", settings("1"), service(), crd)
	h.intend(first, v1alpha1.DirectionForward)
	h.settle()
	work := h.works()[0]
	work.Spec.DeleteOption.SelectivelyOrphan.OrphaningRules = append(work.Spec.DeleteOption.SelectivelyOrphan.OrphaningRules,
		workv1.OrphaningRule{Resource: "configmaps", Namespace: "shop", Name: "settings"},
		workv1.OrphaningRule{Resource: "configmaps", Namespace: "shop", Name: "s"})
	if err := h.client.Update(background, work); err != nil {
		t.Fatal(err)
	}
	if err := h.client.Delete(background, h.delivery()); err != nil {
		t.Fatal(err)
	}
	h.intend(first, v1alpha1.DirectionForward)
	h.settle()
	want := []v1alpha1.ObjectReference{ref("v1", "ConfigMap", "settings")}
	if diff := cmp.Diff(want, h.delivery().Status.Unadopted); diff != "" {
		t.Errorf("unadopted (-want +got):\n%s", diff)
	}
}
