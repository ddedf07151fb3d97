package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// addonHub is a hub's API for one ManagedClusterAddOn, with optimistic locking.
type addonHub struct {
	addon   addonv1alpha1.ManagedClusterAddOn
	err     error
	gets    int
	patches int
}

func newAddonHub() *addonHub {
	return &addonHub{addon: addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{
		Namespace: "c1", Name: v1alpha1.AddonName, UID: "u1", ResourceVersion: "1",
	}}}
}

func (h *addonHub) Get(context.Context, string, metav1.GetOptions) (*addonv1alpha1.ManagedClusterAddOn, error) {
	h.gets++
	if h.err != nil {
		return nil, h.err
	}
	return h.addon.DeepCopy(), nil
}

func (h *addonHub) Patch(_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*addonv1alpha1.ManagedClusterAddOn, error) {
	h.patches++
	if h.err != nil {
		return nil, h.err
	}
	var patch addonv1alpha1.ManagedClusterAddOn
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, err
	}
	if patch.ResourceVersion != h.addon.ResourceVersion || patch.UID != h.addon.UID {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "managedclusteraddons"}, name, errors.New("changed"))
	}
	h.addon.Status.Conditions = patch.Status.Conditions
	h.touch()
	return h.addon.DeepCopy(), nil
}

func (h *addonHub) touch() {
	version, _ := strconv.Atoi(h.addon.ResourceVersion)
	h.addon.ResourceVersion = strconv.Itoa(version + 1)
}

// reporterFixture is a reporter whose cluster shows one Deployment.
type reporterFixture struct {
	hub        *addonHub
	clock      *testclock.FakeClock
	deliveries *deliveries
	reporter   *reporter
	sight      Sight
	reference  v1alpha1.ObjectReference
}

func newReporterFixture(t *testing.T) *reporterFixture {
	t.Helper()
	f := &reporterFixture{hub: newAddonHub(), clock: testclock.NewFakeClock(time.Unix(100, 0))}
	f.deliveries = newDeliveries(f.clock)
	f.reporter = newReporter(f.hub, f.deliveries, f.judge, f.clock)
	f.available(t, "1")
	f.reference = referenceTo(f.sight.Full)
	f.deliveries.put(deliveryOf(f.reference))
	return f
}

func (f *reporterFixture) judge(d *v1alpha1.RolloutDelivery) (v1alpha1.AgentReport, bool) {
	found, known := evaluate(d, func(v1alpha1.ObjectReference) Sight { return f.sight }, rules{})
	return found.report, known
}

// available shows the Deployment with so many of its three replicas.
func (f *reporterFixture) available(t *testing.T, replicas string) {
	t.Helper()
	f.sight = seen(parse(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: payments, generation: 1}
spec: {replicas: 3, progressDeadlineSeconds: 600}
status: {observedGeneration: 1, replicas: 3, updatedReplicas: 3, readyReplicas: `+replicas+`, availableReplicas: `+replicas+`,
  conditions: [{type: Progressing, status: 'True', reason: NewReplicaSetAvailable}, {type: Available, status: 'True'}]}`))
}

// pass marks everything and lets the reporter pass once.
func (f *reporterFixture) pass(t *testing.T) time.Duration {
	t.Helper()
	f.reporter.mark(f.deliveries.names()...)
	return f.reporter.pass(t.Context())
}

func TestAReportSurvivesThatSomebodyElseWroteTheAddon(t *testing.T) {
	f := newReporterFixture(t)
	f.pass(t)
	meta.SetStatusCondition(&f.hub.addon.Status.Conditions, metav1.Condition{Type: "Available", Status: metav1.ConditionTrue, Reason: "R"})
	f.hub.touch()
	f.available(t, "3")
	f.pass(t)
	if !meta.IsStatusConditionTrue(f.hub.addon.Status.Conditions, ourType) {
		t.Errorf("our condition is not True: %v", f.hub.addon.Status.Conditions)
	}
	if !meta.IsStatusConditionTrue(f.hub.addon.Status.Conditions, "Available") {
		t.Errorf("the foreign condition is lost: %v", f.hub.addon.Status.Conditions)
	}
}

func TestAReportCostsOneRequestOnceTheAddonIsKnown(t *testing.T) {
	f := newReporterFixture(t)
	f.pass(t)
	f.hub.gets, f.hub.patches = 0, 0
	f.pass(t)
	if f.hub.gets+f.hub.patches != 0 {
		t.Errorf("nothing changed: %d reads, %d writes", f.hub.gets, f.hub.patches)
	}
	f.available(t, "3")
	f.pass(t)
	if f.hub.gets != 0 || f.hub.patches != 1 {
		t.Errorf("the health changed: %d reads, %d writes, want 0 and 1", f.hub.gets, f.hub.patches)
	}
}

func TestWordsWaitAndHealthDoesNot(t *testing.T) {
	f := newReporterFixture(t)
	f.pass(t)
	f.hub.patches = 0
	f.available(t, "2")
	if wait := f.pass(t); wait != wordingEvery || f.hub.patches != 0 {
		t.Errorf("other words: %d writes, comes again after %s; want none and %s", f.hub.patches, wait, wordingEvery)
	}
	f.clock.Step(wordingEvery)
	if wait := f.reporter.pass(t.Context()); wait != 0 || f.hub.patches != 1 {
		t.Errorf("later: %d writes, comes again after %s; want 1 and never", f.hub.patches, wait)
	}
	f.available(t, "3")
	f.pass(t)
	if f.hub.patches != 2 {
		t.Errorf("the health was not written at once")
	}
}

func TestTheAgentStopsVouchingWhenItCannotReport(t *testing.T) {
	f := newReporterFixture(t)
	f.pass(t)
	if err := f.reporter.vouches(); err != nil {
		t.Fatalf("all is written: %v", err)
	}
	f.hub.err = errors.New("the hub is away")
	f.available(t, "3")
	if wait := f.pass(t); wait != retryFirst {
		t.Errorf("comes again after %s, want %s", wait, retryFirst)
	}
	if err := f.reporter.vouches(); err != nil {
		t.Errorf("it gave up at once: %v", err)
	}
	f.clock.Step(vouchFor)
	if f.reporter.vouches() == nil {
		t.Errorf("it vouches for a report that is %s old", vouchFor)
	}
	f.hub.err = nil
	f.reporter.pass(t.Context())
	if err := f.reporter.vouches(); err != nil {
		t.Errorf("all is written again: %v", err)
	}
}

func TestTheAgentHasCaughtUpOnlyWhenEverythingWasEvaluated(t *testing.T) {
	f := newReporterFixture(t)
	isUp := func() bool {
		select {
		case <-f.reporter.caughtUp:
			return true
		default:
			return false
		}
	}
	f.sight = Sight{Access: AccessSettling}
	f.pass(t)
	if isUp() || f.hub.patches != 0 {
		t.Errorf("caught up: %v, %d writes, before the watches were complete", isUp(), f.hub.patches)
	}
	f.available(t, "3")
	f.reporter.kindChanged(kindOf(f.reference))
	f.reporter.pass(t.Context())
	if !isUp() {
		t.Errorf("not caught up with everything evaluated")
	}
}

func TestAConditionGoesWithItsDelivery(t *testing.T) {
	f := newReporterFixture(t)
	f.pass(t)
	name := f.deliveries.names()[0]
	f.deliveries.remove(name)
	f.reporter.mark(name)
	f.reporter.pass(t.Context())
	if c := meta.FindStatusCondition(f.hub.addon.Status.Conditions, ourType); c != nil {
		t.Errorf("the condition is still there: %v", c)
	}
}
