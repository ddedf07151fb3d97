package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// The sets are those that a real API server showed of a Deployment that the
// real work agent had applied, and of what kubectl did to it.
const (
	appliedWhole  = `{"f:metadata":{"f:annotations":{"f:rollout.open-cluster-management.io/content-hash":{}}},"f:spec":{"f:replicas":{},"f:selector":{},"f:template":{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"api\"}":{".":{},"f:env":{"k:{\"name\":\"A\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:name":{}}}}}}}`
	appliedScaled = `{"f:metadata":{"f:annotations":{"f:rollout.open-cluster-management.io/content-hash":{}}},"f:spec":{"f:selector":{},"f:template":{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"api\"}":{".":{},"f:env":{"k:{\"name\":\"A\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:name":{}}}}}}}`
	appliedNoEnv  = `{"f:metadata":{"f:annotations":{"f:rollout.open-cluster-management.io/content-hash":{}}},"f:spec":{"f:replicas":{},"f:selector":{},"f:template":{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"api\"}":{".":{},"f:image":{},"f:name":{}}}}}}}`
	replicasField = `{"f:spec":{"f:replicas":{}}}`
	ownerField    = `{"f:metadata":{"f:ownerReferences":{".":{},"k:{\"uid\":\"960667d2\"}":{}}}}`
	teamField     = `{"f:metadata":{"f:annotations":{"f:team":{}}}}`
	readyField    = `{"f:status":{"f:readyReplicas":{}}}`
)

func owner(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, APIVersion: "apps/v1", FieldsType: "FieldsV1",
		Time:     &metav1.Time{Time: time.Unix(1000, 0)},
		FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)},
	}
}

func byUs(fields string) metav1.ManagedFieldsEntry {
	return owner(v1alpha1.FieldManager, metav1.ManagedFieldsOperationApply, fields)
}

func byKubectl(fields string) metav1.ManagedFieldsEntry {
	return owner("kubectl-edit", metav1.ManagedFieldsOperationUpdate, fields)
}

// byScale is how kubectl scale and an autoscaler write: through the
// subresource, and without a time.
func byScale(manager string) metav1.ManagedFieldsEntry {
	e := owner(manager, metav1.ManagedFieldsOperationUpdate, replicasField)
	e.Subresource, e.Time = "scale", nil
	return e
}

func inStatus(fields string) metav1.ManagedFieldsEntry {
	e := owner("kube-controller-manager", metav1.ManagedFieldsOperationUpdate, fields)
	e.Subresource = "status"
	return e
}

// moment is an object at some time: its stamp and who owns what.
type moment struct {
	hash  string
	owned []metav1.ManagedFieldsEntry
}

func deploymentAt(t *testing.T, m moment) *unstructured.Unstructured {
	t.Helper()
	object := deploymentWith(t, m.hash, "")
	object.SetUID("u1")
	object.SetManagedFields(m.owned)
	return object
}

func driftWatch() *kindWatch {
	kind := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	w := newKindWatch(kind, extentOf(kind), clients{}, testclock.NewFakeClock(time.Unix(0, 0)), silent{})
	w.setAccess(AccessReadable, "")
	return w
}

// show lets the watch see an object, as an informer does.
func show(t *testing.T, w *kindWatch, m moment) Sight {
	t.Helper()
	object, err := w.slim(deploymentAt(t, m))
	if err != nil {
		t.Fatal(err)
	}
	w.put(object)
	return w.see("payments", "api")
}

func TestDriftIsWhatOthersTookFromUs(t *testing.T) {
	whole := moment{newHash, []metav1.ManagedFieldsEntry{byUs(appliedWhole), owner("work-agent", metav1.ManagedFieldsOperationUpdate, ownerField)}}
	scaled := moment{newHash, []metav1.ManagedFieldsEntry{byUs(appliedScaled), byKubectl(replicasField)}}
	taken := []drift{{manager: "kubectl-edit", paths: []string{".spec.replicas"}}}
	cases := []struct {
		name string
		seen []moment
		want []drift
	}{
		{"nothing, as the work agent left it", []moment{whole}, nil},
		{"a field whose value was changed", []moment{whole, scaled}, taken},
		{"through the scale subresource too", []moment{whole, {newHash, []metav1.ManagedFieldsEntry{byUs(appliedScaled), byScale("kubectl")}}},
			[]drift{{manager: "kubectl", paths: []string{".spec.replicas"}}}},
		{"until OCM repairs it", []moment{whole, scaled, whole}, nil},
		{"though more happens to the object", []moment{whole, scaled,
			{newHash, []metav1.ManagedFieldsEntry{byUs(appliedScaled), byKubectl(replicasField), inStatus(readyField)}}}, taken},
		{"a field that was removed has no owner", []moment{whole, {newHash, []metav1.ManagedFieldsEntry{byUs(appliedNoEnv), byKubectl(teamField)}}},
			[]drift{{manager: nobody, paths: []string{
				`.spec.template.spec.containers[name="api"].env[name="A"].name`, `.spec.template.spec.containers[name="api"].env[name="A"].value`}}}},
		{"not what others add", []moment{whole, {newHash, append([]metav1.ManagedFieldsEntry{byKubectl(teamField)}, whole.owned...)}}, nil},
		{"not the status", []moment{whole, {newHash, append([]metav1.ManagedFieldsEntry{inStatus(readyField)}, whole.owned...)}}, nil},
		{"L4: not replicas that were left to an autoscaler", []moment{{newHash, []metav1.ManagedFieldsEntry{byUs(appliedScaled)}},
			{newHash, []metav1.ManagedFieldsEntry{byUs(appliedScaled), byScale("kube-controller-manager")}}}, nil},
		{"not what new content no longer has", []moment{{"sha256:old", whole.owned}, {newHash, []metav1.ManagedFieldsEntry{byUs(appliedNoEnv)}}}, nil},
		{"a stamp that somebody else wrote is no new content", []moment{whole, {"sha256:x", []metav1.ManagedFieldsEntry{
			byUs(strings.Replace(appliedScaled, `"f:metadata":{"f:annotations":{"f:rollout.open-cluster-management.io/content-hash":{}}},`, "", 1)), byKubectl(replicasField)}}, scaled}, taken},
		{"taken before it was seen first, and repaired: from then on it is known", []moment{scaled, whole, scaled}, taken},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := driftWatch()
			var got Sight
			for _, m := range c.seen {
				got = show(t, w, m)
			}
			if diff := cmp.Diff(c.want, got.Drifts, cmp.AllowUnexported(drift{})); diff != "" {
				t.Errorf("drift (-want +got):\n%s", diff)
			}
			if got.Full.GetManagedFields() != nil {
				t.Error("managedFields are kept in memory")
			}
		})
	}
}

func TestDriftIsRememberedOverARestartOfTheAgent(t *testing.T) {
	w := driftWatch()
	w.owned.recall = (&recollection{reports: map[string]v1alpha1.AgentReport{ourType: {
		Digest: "sha256:r2", Delivery: 7, Drift: []v1alpha1.ObjectDrift{
			{ObjectReference: apiDeployment, Manager: "kubectl-edit", Paths: []string{".spec.replicas"}}},
	}}}).recallOf(t, deliveryOf(apiDeployment))
	scaled := moment{newHash, []metav1.ManagedFieldsEntry{byUs(appliedScaled), byKubectl(`{"f:spec":{"f:replicas":{},"f:paused":{}}}`)}}
	want := []drift{{manager: "kubectl-edit", paths: []string{".spec.replicas"}}}
	if diff := cmp.Diff(want, show(t, w, scaled).Drifts, cmp.AllowUnexported(drift{})); diff != "" {
		t.Errorf("drift after the restart (-want +got):\n%s", diff)
	}
	if got := show(t, w, moment{newHash, []metav1.ManagedFieldsEntry{byUs(appliedWhole)}}).Drifts; got != nil {
		t.Errorf("drift is %v, though it was repaired", got)
	}
}

func TestDriftOfAnEarlierDeliveryIsForgotten(t *testing.T) {
	w := driftWatch()
	w.owned.recall = (&recollection{reports: map[string]v1alpha1.AgentReport{ourType: {
		Digest: "sha256:r1", Delivery: 6, Drift: []v1alpha1.ObjectDrift{
			{ObjectReference: apiDeployment, Manager: "kubectl-edit", Paths: []string{".spec.replicas"}}},
	}}}).recallOf(t, deliveryOf(apiDeployment))
	if got := show(t, w, moment{newHash, []metav1.ManagedFieldsEntry{byUs(appliedScaled), byKubectl(replicasField)}}).Drifts; got != nil {
		t.Errorf("drift is %v, of a delivery before", got)
	}
}

// recallOf is the recollection as a watch of Deployments asks for it.
func (r *recollection) recallOf(t *testing.T, d *v1alpha1.RolloutDelivery) func(name types.NamespacedName) []drift {
	t.Helper()
	present := newDeliveries(testclock.NewFakeClock(time.Unix(0, 0)))
	present.put(d)
	recall := r.driftOf(present)
	return func(name types.NamespacedName) []drift {
		key := apiDeployment
		key.Namespace, key.Name = name.Namespace, name.Name
		return recall(key)
	}
}

func TestAnObjectThatIsMadeAnewHasNoDrift(t *testing.T) {
	w := driftWatch()
	show(t, w, moment{newHash, []metav1.ManagedFieldsEntry{byUs(appliedWhole)}})
	anew := deploymentAt(t, moment{newHash, []metav1.ManagedFieldsEntry{byUs(appliedScaled)}})
	anew.SetUID("u2")
	object, _ := w.slim(anew)
	w.remove(deploymentAt(t, moment{newHash, nil}))
	w.put(object)
	if got := w.see("payments", "api").Drifts; got != nil {
		t.Errorf("drift is %v", got)
	}
	if n := len(w.owned.objects); n != 1 {
		t.Errorf("%d objects are remembered, want the new one", n)
	}
	w.remove(anew)
	if n := len(w.owned.objects); n != 0 {
		t.Errorf("%d objects are remembered after the last was deleted", n)
	}
}

func TestAReportNamesDriftAndStaysHealthy(t *testing.T) {
	config := seen(parse(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: api, namespace: payments}"))
	config.Drifts = []drift{{manager: "kubectl-edit", paths: []string{".data.a", ".data.b", ".data.c", ".data.d", ".data.e", ".data.f"}}}
	report := evaluateOne(t, configRef, config)
	want := []v1alpha1.ObjectDrift{{ObjectReference: configRef, Manager: "kubectl-edit",
		Paths: []string{".data.a", ".data.b", ".data.c", ".data.d", ".data.e"}}}
	if diff := cmp.Diff(want, report.Drift); diff != "" {
		t.Errorf("drift (-want +got):\n%s", diff)
	}
	if report.Health != v1alpha1.HealthHealthy || !strings.Contains(report.Text, "kubectl-edit took .data.a") {
		t.Errorf("health %s, text %q", report.Health, report.Text)
	}
	many := make([]v1alpha1.ObjectReference, 12)
	for i := range many {
		many[i] = configRef
	}
	if bounded, _ := evaluateAll(many, func(v1alpha1.ObjectReference) Sight { return config }); len(bounded.Drift) != maxDrift {
		t.Errorf("%d objects drift in the report, want %d", len(bounded.Drift), maxDrift)
	}
}
