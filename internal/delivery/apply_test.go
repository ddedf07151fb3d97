package delivery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

var background = context.Background()

func settings(content string) runtime.RawExtension {
	return manifest("v1", "ConfigMap", "settings", content)
}

func service() runtime.RawExtension { return manifest("v1", "Service", "s", "") }

func TestAFirstDeliveryIsTwoRecordsAndOneWork(t *testing.T) {
	h := newHub(t)
	h.intend(h.freeze(1, "1.0.0", settings("1"), service()), v1alpha1.DirectionForward)
	h.writes, h.reads = 0, 0
	if err := h.reconcile(); err != nil {
		t.Fatal(err)
	}
	if h.writes != 3 || h.workWrites != 1 {
		t.Errorf("%d writes, %d of them works; want the question, the answer and the work, no more", h.writes, h.workWrites)
	}
	status := h.delivery().Status
	if status.Phase != v1alpha1.PhaseDrop || status.State != v1alpha1.StateApplying || status.WrittenAt == nil || len(status.Rendered.Objects) != 2 {
		t.Errorf("recorded as %+v", status)
	}
	h.settle()
	if got := h.content(); got != "ConfigMap/settings=1 Service/s" {
		t.Errorf("the work carries %s", got)
	}
}

func TestARestartWithNothingToChangeWritesNothing(t *testing.T) {
	h := newHub(t)
	h.intend(h.freeze(1, "1.0.0", settings("1")), v1alpha1.DirectionForward)
	h.settle()
	h.writes, h.workWrites = 0, 0
	h.clock.SetTime(noon.Add(24 * time.Hour))
	h.restart()
	h.settle()
	if h.writes != 0 {
		t.Errorf("%d writes after a restart", h.writes)
	}
	// Not even the payload is needed any more.
	if err := h.client.Delete(background, secretOf(h.delivery().Spec.Revision)); err != nil {
		t.Fatal(err)
	}
	h.restart()
	h.settle()
	if state := h.delivery().Status.State; state != v1alpha1.StateProgressing {
		t.Errorf("state is %s", state)
	}
}

func TestDroppedContentGoesInTwoPhases(t *testing.T) {
	h := newHub(t)
	h.intend(h.freeze(1, "1.0.0", settings("1"), service()), v1alpha1.DirectionForward)
	h.settle()
	h.specWrites = 0
	h.intend(h.freeze(2, "1.1.0", settings("2"), manifest("v1", "ConfigMap", "more", "2")), v1alpha1.DirectionForward)

	for range 3 { // without the work agent, the first phase does not end
		if err := h.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.content(); got != "ConfigMap/more=2 ConfigMap/settings=2 Service/s" {
		t.Errorf("the first phase carries %s", got)
	}
	status := h.delivery().Status
	if status.Phase != v1alpha1.PhaseAdd || len(status.Dropping) != 1 || status.Dropping[0].Name != "s" || status.AppliedAt != nil {
		t.Errorf("recorded as %+v", status)
	}
	h.settle()
	if got := h.content(); got != "ConfigMap/more=2 ConfigMap/settings=2" {
		t.Errorf("the second phase carries %s", got)
	}
	status = h.delivery().Status
	if status.Phase != v1alpha1.PhaseDrop || len(status.Dropping) != 0 || status.AppliedAt == nil {
		t.Errorf("recorded as %+v", status)
	}
	if h.specWrites != 2 {
		t.Errorf("%d spec writes, want one for each phase", h.specWrites)
	}
}

func TestARefusedObjectKeepsTheFirstPhaseOpen(t *testing.T) {
	h := newHub(t)
	h.intend(h.freeze(1, "1.0.0", settings("1"), service()), v1alpha1.DirectionForward)
	h.settle()
	h.intend(h.freeze(2, "1.1.0", settings("2")), v1alpha1.DirectionForward)
	if err := h.reconcile(); err != nil {
		t.Fatal(err)
	}
	work := h.works()[0]
	work.Status.Conditions = []metav1.Condition{{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "x", ObservedGeneration: work.Generation}}
	refuse(work, work.Generation)
	if err := h.client.Status().Update(background, work); err != nil {
		t.Fatal(err)
	}
	h.settle()
	if got := h.content(); !strings.Contains(got, "Service/s") {
		t.Errorf("objects are dropped although new ones are refused: %s", got)
	}
	if status := h.delivery().Status; status.Reason != v1alpha1.ReasonApplyFailed {
		t.Errorf("reason is %s", status.Reason)
	}
}

func TestARollbackDropsInTwoPhasesAndKeepsData(t *testing.T) {
	h := newHub(t)
	first := h.freeze(1, "1.0.0", settings("1"))
	h.intend(first, v1alpha1.DirectionForward)
	h.settle()
	h.intend(h.freeze(2, "1.1.0", settings("2"), service(),
		manifest("v1", "PersistentVolumeClaim", "data", ""),
		manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", "carts.shop.example.com", "")), v1alpha1.DirectionForward)
	h.settle()
	h.specWrites = 0

	h.intend(first, v1alpha1.DirectionRollback)
	h.settle()
	if got := h.content(); got != "ConfigMap/settings=1" {
		t.Errorf("after the rollback the work carries %s", got)
	}
	if h.specWrites != 2 {
		t.Errorf("%d spec writes, want one for each phase", h.specWrites)
	}
	status := h.delivery().Status
	if len(status.Kept) != 2 {
		t.Errorf("kept are %v, want the CRD and the claim", status.Kept)
	}
	var ruled []string
	if option := h.works()[0].Spec.DeleteOption; option != nil && option.SelectivelyOrphan != nil {
		for _, rule := range option.SelectivelyOrphan.OrphaningRules {
			ruled = append(ruled, rule.Resource)
		}
	}
	if got := strings.Join(ruled, " "); !strings.Contains(got, "customresourcedefinitions") || !strings.Contains(got, "persistentvolumeclaims") {
		t.Errorf("orphan rules cover %q", got)
	}

	h.intend(v1alpha1.RevisionReference{Name: first.Name, Digest: first.Digest, Number: 1, Version: "1.0.0"}, v1alpha1.DirectionForward)
	h.specWrites = 0
	h.settle()
	if h.specWrites > 1 {
		t.Errorf("%d spec writes for content that is there already", h.specWrites)
	}
	if kept := h.delivery().Status.Kept; len(kept) != 2 {
		t.Errorf("kept objects are forgotten: %v", kept)
	}
}

func TestTheSameContentForANewDeliveryChangesNoSpec(t *testing.T) {
	h := newHub(t)
	first := h.freeze(1, "1.0.0", settings("1"))
	h.intend(first, v1alpha1.DirectionForward)
	h.settle()
	h.specWrites = 0
	h.intend(first, v1alpha1.DirectionForward)
	h.settle()
	if h.specWrites != 0 {
		t.Errorf("%d spec writes for the same content", h.specWrites)
	}
	if got := h.works()[0].Annotations[v1alpha1.AnnotationDelivery]; got != "2" {
		t.Errorf("the work says it is of delivery %s", got)
	}
	if status := h.delivery().Status; status.Applied == nil || status.Applied.Delivery != 2 {
		t.Errorf("applied is %+v", status.Applied)
	}
}

func TestACrashAtAnyWriteChangesNoOutcome(t *testing.T) {
	run := func(t *testing.T, crashAt int, after bool) (*hub, int) {
		h := newHub(t)
		h.intend(h.freeze(1, "1.0.0", settings("1"), service()), v1alpha1.DirectionForward)
		h.settle()
		h.intend(h.freeze(2, "1.1.0", settings("2"), manifest("v1", "ConfigMap", "more", "2")), v1alpha1.DirectionForward)
		h.writes, h.specWrites = 0, 0
		h.crashAt, h.crashAfter = crashAt, after
		h.settle()
		return h, h.writes
	}
	_, writes := run(t, 0, false)
	if writes < 5 {
		t.Fatalf("the story has only %d writes", writes)
	}
	for crashAt := 1; crashAt <= writes; crashAt++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("at write %d, carried out: %t", crashAt, after), func(t *testing.T) {
				h, _ := run(t, crashAt, after)
				if got := h.content(); got != "ConfigMap/more=2 ConfigMap/settings=2" {
					t.Errorf("the work carries %s", got)
				}
				if h.specWrites != 2 {
					t.Errorf("%d spec writes, want 2", h.specWrites)
				}
				if status := h.delivery().Status; status.Reason != v1alpha1.ReasonAwaitingReport || status.Delivery != 2 {
					t.Errorf("status is %+v", status)
				}
			})
		}
	}
}

func TestAStaleRecordWritesNoOldContentBack(t *testing.T) {
	h := newHub(t)
	h.intend(h.freeze(1, "1.0.0", settings("1"), service()), v1alpha1.DirectionForward)
	h.settle()
	old := h.task()
	h.intend(h.freeze(2, "1.1.0", settings("2")), v1alpha1.DirectionForward)
	if err := h.reconcile(); err != nil {
		t.Fatal(err)
	}
	adding := h.task()
	h.settle()

	for name, task := range map[string]*Task{"of the delivery before": old, "of the phase before": adding} {
		task.Works = h.works()
		h.workWrites = 0
		_, err := h.applier.Apply(background, task)
		if !IsStale(err) || h.workWrites != 0 {
			t.Errorf("a record %s: error %v, %d works written", name, err, h.workWrites)
		}
	}
}

func TestACacheWithoutTheWorksWritesThemNotAgain(t *testing.T) {
	h := newHub(t)
	h.intend(h.freeze(1, "1.0.0", settings("1")), v1alpha1.DirectionForward)
	h.settle()
	task := h.task()
	task.Works = nil
	h.writes = 0
	outcome, err := h.applier.Apply(background, task)
	if err != nil || h.writes != 0 {
		t.Errorf("%d writes, error %v", h.writes, err)
	}
	if len(outcome.Works) != 1 || !applicationOf(outcome.Status, outcome.Works).complete {
		t.Error("the judge does not get the works that the hub has")
	}
}

func TestARecordThatWasDeletedAndRemadeTakesItsWorksOver(t *testing.T) {
	h := newHub(t)
	first := h.freeze(1, "1.0.0", settings("1"), service())
	second := h.freeze(2, "1.1.0", settings("2"))
	h.intend(first, v1alpha1.DirectionForward)
	h.intend(first, v1alpha1.DirectionForward)
	h.settle()
	if err := h.client.Delete(background, h.delivery()); err != nil {
		t.Fatal(err)
	}
	h.intend(second, v1alpha1.DirectionForward)
	if err := h.reconcile(); err != nil {
		t.Fatal(err)
	}
	if status := h.delivery().Status; status.Phase != v1alpha1.PhaseAdd || len(status.Dropping) != 1 {
		t.Errorf("what the works carry is forgotten: %+v", status)
	}
	h.settle()
	if got := h.content(); got != "ConfigMap/settings=2" {
		t.Errorf("the work carries %s", got)
	}
}

func TestAWorkEditedByHandIsRestored(t *testing.T) {
	h := newHub(t)
	h.intend(h.freeze(1, "1.0.0", settings("1")), v1alpha1.DirectionForward)
	h.settle()
	work := h.works()[0]
	work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests, workv1.Manifest{RawExtension: service()})
	if err := h.client.Update(background, work); err != nil {
		t.Fatal(err)
	}
	h.settle()
	if got := h.content(); got != "ConfigMap/settings=1" {
		t.Errorf("the work carries %s", got)
	}
}

func TestASlimCacheTellsWhatIsWritten(t *testing.T) {
	h := newHub(t)
	h.intend(h.freeze(1, "1.0.0", settings("1")), v1alpha1.DirectionForward)
	h.settle()
	task := h.task()
	if _, err := SlimWork(task.Works[0]); err != nil {
		t.Fatal(err)
	}
	if len(task.Works[0].Spec.Workload.Manifests) != 0 {
		t.Error("a slim work still carries manifests")
	}
	if !isSettled(task) {
		t.Error("a slim work seems to need a write")
	}
	edited := h.works()[0]
	edited.Spec.Workload.Manifests = nil
	if _, err := SlimWork(edited); err != nil {
		t.Fatal(err)
	}
	task.Works = []*workv1.ManifestWork{edited}
	if isSettled(task) {
		t.Error("an edited work seems to be as it was written")
	}
}

func TestAHubThatChangesWhatIsWrittenIsNamed(t *testing.T) {
	h := newHub(t)
	h.intend(h.freeze(1, "1.0.0", settings("1")), v1alpha1.DirectionForward)
	h.tamper = func(work *workv1.ManifestWork) {
		work.Spec.Executor = &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{Type: workv1.ExecutorSubjectTypeServiceAccount}}
	}
	for range 3 {
		if err := h.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if status := h.delivery().Status; status.Reason != v1alpha1.ReasonWriteRefused || !strings.Contains(status.Message, "another spec") {
		t.Errorf("status is %s/%s: %s", status.State, status.Reason, status.Message)
	}
}

func TestContentsThatDoNotFitOneWorkTogetherAreReplacedWithoutAGap(t *testing.T) {
	for _, direction := range []v1alpha1.Direction{v1alpha1.DirectionForward, v1alpha1.DirectionRollback} {
		t.Run(string(direction), func(t *testing.T) {
			h := newHub(t)
			h.intend(h.freeze(1, "1.0.0", sized(300, "old")...), v1alpha1.DirectionForward)
			h.settle()
			h.intend(h.freeze(2, "1.1.0", sized(300, "new")...), direction)
			h.reconcileOrFail()
			if got := h.layout(); got != "00: old=300, 01: new=300" {
				t.Errorf("before the new content is applied the works are %s", got)
			}
			h.settle()
			if got := h.layout(); got != "01: new=300" {
				t.Errorf("the works are %s", got)
			}
		})
	}
}

func TestObstacles(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "manifestworks"}, "w", errors.New("quota of namespace c1"))
	for _, tc := range []struct {
		name    string
		prepare func(*hub)
		state   v1alpha1.DeliveryState
		reason  string
		message string
		started bool
		fix     func(*hub)
	}{{
		name:    "a refused write shows the hub's words, and its deadline runs",
		prepare: func(h *hub) { h.refuseWork = denied },
		state:   v1alpha1.StateDegraded, reason: v1alpha1.ReasonWriteRefused, message: "quota of namespace c1", started: true,
		fix: func(h *hub) { h.refuseWork = nil },
	}, {
		name: "a missing payload names the Secret, and its deadline runs",
		prepare: func(h *hub) {
			if err := h.client.Delete(background, secretOf(h.delivery().Spec.Revision)); err != nil {
				h.t.Fatal(err)
			}
		},
		state: v1alpha1.StateDegraded, reason: v1alpha1.ReasonRevisionMissing, message: "Secret shop/api-", started: true,
		fix: func(h *hub) { h.freeze(1, "1.0.0", settings("1")) },
	}, {
		name: "a corrupt payload is as good as missing",
		prepare: func(h *hub) {
			secret := secretOf(h.delivery().Spec.Revision)
			if err := h.client.Get(background, client.ObjectKeyFromObject(secret), secret); err != nil {
				h.t.Fatal(err)
			}
			secret.Data["payload"] = []byte("nonsense")
			if err := h.client.Update(background, secret); err != nil {
				h.t.Fatal(err)
			}
		},
		state: v1alpha1.StateDegraded, reason: v1alpha1.ReasonRevisionMissing, message: "cannot be used", started: true,
		fix: func(h *hub) {
			if err := h.client.Delete(background, secretOf(h.delivery().Spec.Revision)); err != nil {
				h.t.Fatal(err)
			}
			h.freeze(1, "1.0.0", settings("1"))
		},
	}, {
		name: "a work of our name that is not ours is left alone",
		prepare: func(h *hub) {
			work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: v1alpha1.WorkName("shop", "api", 0),
				Labels: map[string]string{v1alpha1.LabelRolloutNamespace: "shop", v1alpha1.LabelRolloutName: "api", v1alpha1.LabelRolloutUID: "another"}}}
			if err := h.client.Create(background, work); err != nil {
				h.t.Fatal(err)
			}
		},
		state: v1alpha1.StateBlocked, reason: v1alpha1.ReasonForeignObject, message: "ManifestWork c1/",
		fix: func(h *hub) {
			work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: v1alpha1.WorkName("shop", "api", 0)}}
			if err := h.client.Delete(background, work); err != nil {
				h.t.Fatal(err)
			}
		},
	}, {
		name: "an object that another rollout holds stays with its holder",
		prepare: func(h *hub) {
			other := otherDelivery("v1", "ConfigMap", "settings")
			if err := h.client.Create(background, other); err != nil {
				h.t.Fatal(err)
			}
		},
		state: v1alpha1.StateBlocked, reason: v1alpha1.ReasonHeldByOther, message: "ConfigMap shop/settings on cluster c1 is held by FleetRollout shop/other",
		fix: func(h *hub) {
			if err := h.client.Delete(background, otherDelivery("v1", "ConfigMap", "settings")); err != nil {
				h.t.Fatal(err)
			}
		},
	}, {
		name:    "a cluster that is being deleted gets no writes",
		prepare: func(h *hub) { h.cluster.Deleting = true },
		state:   v1alpha1.StatePending, reason: v1alpha1.ReasonClusterDeleting,
		fix: func(h *hub) { h.cluster.Deleting = false },
	}} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHub(t)
			h.intend(h.freeze(1, "1.0.0", settings("1")), v1alpha1.DirectionForward)
			tc.prepare(h)
			h.workWrites = 0
			h.settle()
			status := h.delivery().Status
			if status.State != tc.state || status.Reason != tc.reason || !strings.Contains(status.Message, tc.message) {
				t.Errorf("status is %s/%s: %s", status.State, status.Reason, status.Message)
			}
			if h.workWrites != 0 {
				t.Errorf("%d works are written", h.workWrites)
			}
			if (status.WrittenAt != nil) != tc.started || status.Delivery != 1 {
				t.Errorf("delivery %d, written at %v", status.Delivery, status.WrittenAt)
			}
			writtenAt := status.WrittenAt

			h.clock.SetTime(noon.Add(time.Minute))
			tc.fix(h)
			h.settle()
			status = h.delivery().Status
			if status.Reason != v1alpha1.ReasonAwaitingReport || h.content() != "ConfigMap/settings=1" {
				t.Errorf("once fixed, status is %s/%s: %s", status.State, status.Reason, status.Message)
			}
			if writtenAt != nil && !writtenAt.Equal(status.WrittenAt) {
				t.Errorf("the deadline starts anew at %v", status.WrittenAt)
			}
		})
	}
}

// otherDelivery is the delivery of rollout shop/other that holds an object.
func otherDelivery(version, kind, name string) *v1alpha1.RolloutDelivery {
	return &v1alpha1.RolloutDelivery{
		ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: v1alpha1.DeliveryName("shop", "other")},
		Spec:       v1alpha1.RolloutDeliverySpec{Rollout: v1alpha1.RolloutReference{Namespace: "shop", Name: "other", UID: "u2"}},
		Status: v1alpha1.RolloutDeliveryStatus{State: v1alpha1.StateHealthy, Rendered: &v1alpha1.Rendered{Objects: []v1alpha1.RenderedObject{
			{ObjectReference: v1alpha1.ObjectReference{Version: version, Kind: kind, Namespace: "shop", Name: name}}}}},
	}
}

func TestOfTwoRecordedHoldersTheOlderKeepsTheObject(t *testing.T) {
	own, other := otherDelivery("v1", "ConfigMap", "settings"), otherDelivery("v2", "ConfigMap", "settings")
	own.Name, own.UID, other.UID = "own", "a", "b"
	wanted := own.Status.Rendered.Objects
	own.CreationTimestamp, other.CreationTimestamp = metav1.NewTime(noon), metav1.NewTime(minute(1))
	if got := heldByOther(own, wanted, []v1alpha1.RolloutDelivery{*own, *other}); got != nil {
		t.Errorf("the older one is blocked: %+v", got)
	}
	own.CreationTimestamp = metav1.NewTime(minute(2))
	if got := heldByOther(own, wanted, []v1alpha1.RolloutDelivery{*own, *other}); got == nil {
		t.Error("the younger one is not blocked")
	}
	other.Status.State = v1alpha1.StateRemoved
	if got := heldByOther(own, wanted, []v1alpha1.RolloutDelivery{*other}); got != nil {
		t.Errorf("a removed delivery still holds: %+v", got)
	}
}

func TestJobsThatCompletedAreNotBroughtBackByARollback(t *testing.T) { // law 23
	h := newHub(t)
	migrate := manifest("batch/v1", "Job", "migrate", "registry/migrate:1")
	first := h.freeze(1, "1.0.0", settings("1"), migrate)
	h.intend(first, v1alpha1.DirectionForward)
	h.settle()
	record := h.delivery()
	var delivered string
	for _, object := range record.Status.Rendered.Objects {
		if object.Kind == "Job" {
			delivered = object.Namespace + "/" + object.Name
		}
	}
	h.agent.Condition = condition(v1alpha1.AgentReport{Digest: first.Digest, Delivery: 1, Health: v1alpha1.HealthHealthy, CompletedJobs: []string{delivered}})
	h.settle()
	if jobs := h.delivery().Status.CompletedJobs; len(jobs) != 1 || jobs[0].Name != "migrate" {
		t.Fatalf("completed Jobs are %v", jobs)
	}
	h.intend(h.freeze(2, "1.1.0", settings("2")), v1alpha1.DirectionForward)
	h.settle()
	h.intend(first, v1alpha1.DirectionRollback)
	h.settle()
	if got := h.content(); got != "ConfigMap/settings=1" {
		t.Errorf("the rollback carries %s", got)
	}
}

func TestAJobThatCompletesBetweenTwoPhasesStaysInTheContent(t *testing.T) {
	h := newHub(t)
	migrate := manifest("batch/v1", "Job", "migrate", "registry/migrate:1")
	first := h.freeze(1, "1.0.0", settings("1"), migrate)
	h.intend(h.freeze(2, "1.1.0", settings("2"), service()), v1alpha1.DirectionForward)
	h.settle()
	h.intend(first, v1alpha1.DirectionRollback)
	if err := h.reconcile(); err != nil {
		t.Fatal(err)
	}
	rendered := h.delivery().Status.Rendered
	var delivered string
	for _, object := range rendered.Objects {
		if object.Kind == "Job" {
			delivered = object.Namespace + "/" + object.Name
		}
	}
	h.agent.Condition = condition(v1alpha1.AgentReport{Digest: first.Digest, Delivery: 2, Health: v1alpha1.HealthProgressing, CompletedJobs: []string{delivered}})
	if err := h.reconcile(); err != nil {
		t.Fatal(err)
	}
	if len(h.delivery().Status.CompletedJobs) != 1 {
		t.Fatal("the completed Job is not recorded")
	}
	h.settle()
	if got := h.content(); !strings.Contains(got, "Job/migrate-") || strings.Contains(got, "Service") {
		t.Errorf("the second phase carries %s", got)
	}
}
