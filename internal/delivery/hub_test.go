package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/liveness"
	"open-cluster-management.io/fleet-rollout/internal/revision"
	"open-cluster-management.io/fleet-rollout/pkg/workbuilder"
)

var errCrash = errors.New("the manager is killed")

// hubScheme knows the kinds of the tests; building it takes a while.
var hubScheme = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, workv1.Install, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return scheme
})

// hub is an API server in memory with one managed cluster c1. It counts writes,
// lets generations follow specs, and kills the manager at a chosen write.
type hub struct {
	t      *testing.T
	client client.WithWatch
	clock  *clocktesting.FakePassiveClock

	writes     int // of any kind
	specWrites int // of the spec of a ManifestWork
	workWrites int // of a ManifestWork, deletions included
	reads      int // of single objects and of lists

	// crashAt kills the manager at that write: before the hub carries it out, or
	// after, with the answer lost.
	crashAt    int
	crashAfter bool
	refuseWork error
	// tamper changes what is written to a ManifestWork, as a webhook may.
	tamper func(*workv1.ManifestWork)

	cluster Cluster
	agent   Agent
	// existing and unserved are what the agent answers a preflight with; mute, it
	// does not.
	existing []v1alpha1.ObjectReference
	unserved []v1alpha1.RequiredAPI
	mute     bool
	// adjust changes what is frozen.
	adjust func(*v1alpha1.FleetRolloutSpec)

	run     RunClock
	applier *Applier
}

func newHub(t *testing.T, objects ...client.Object) *hub {
	t.Helper()
	h := &hub{t: t, clock: clocktesting.NewFakePassiveClock(noon), cluster: Cluster{Name: "c1", Exists: true, Available: true},
		run: RunClock{Number: 1},
		agent: Agent{Enabled: true, Liveness: liveness.State{
			Seen: true, Live: true, Confirmed: true, Interval: time.Minute, ExpiresAt: noon.Add(time.Hour)}}}
	h.client = fake.NewClientBuilder().WithScheme(hubScheme()).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.RolloutDelivery{}, &workv1.ManifestWork{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				return h.write(obj, func() error {
					obj.SetGeneration(1)
					obj.SetUID(types.UID(fmt.Sprintf("uid-%d", h.writes)))
					return c.Create(ctx, obj, opts...)
				})
			},
			Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
				return h.write(obj, func() error {
					h.bumpGeneration(ctx, c, obj)
					return c.Update(ctx, obj, opts...)
				})
			},
			Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				return h.write(obj, func() error { return c.Delete(ctx, obj, opts...) })
			},
			SubResourceUpdate: func(ctx context.Context, c client.Client, _ string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
				return h.write(obj, func() error { return c.Status().Update(ctx, obj, opts...) })
			},
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				h.reads++
				return c.Get(ctx, key, obj, opts...)
			},
		}).Build()
	h.restart()
	return h
}

// restart forgets all that a manager has in memory.
func (h *hub) restart() { h.applier = NewApplier(h.client, h.client, h.clock) }

func (h *hub) write(obj client.Object, carryOut func() error) error {
	_, isWork := obj.(*workv1.ManifestWork)
	if isWork && h.refuseWork != nil {
		return h.refuseWork
	}
	h.writes++
	if h.writes == h.crashAt && !h.crashAfter {
		return errCrash
	}
	if isWork {
		h.workWrites++
	}
	if isWork && h.tamper != nil {
		h.tamper(obj.(*workv1.ManifestWork))
	}
	if err := carryOut(); err != nil {
		return err
	}
	if isWork && obj.GetGeneration() == 1 && obj.GetResourceVersion() == "1" {
		h.specWrites++
	}
	if h.writes == h.crashAt {
		return errCrash
	}
	return nil
}

func (h *hub) bumpGeneration(ctx context.Context, c client.Client, obj client.Object) {
	next, ok := obj.(*workv1.ManifestWork)
	if !ok {
		return
	}
	present := &workv1.ManifestWork{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(obj), present); err != nil {
		return
	}
	before, _ := workbuilder.SpecHash(present.Spec)
	after, _ := workbuilder.SpecHash(next.Spec)
	if before != after {
		next.Generation = present.Generation + 1
		h.specWrites++
	}
}

// manifest is a plain object with some content.
func manifest(apiVersion, kind, name, content string) runtime.RawExtension {
	object := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"namespace": "shop", "name": name}}
	switch kind {
	case "ConfigMap":
		object["data"] = map[string]any{"content": content}
	case "CustomResourceDefinition":
		object["metadata"] = map[string]any{"name": name}
		object["spec"] = map[string]any{"group": "shop.example.com", "scope": "Namespaced",
			"names":    map[string]any{"plural": "carts", "kind": "Cart", "singular": "cart", "listKind": "CartList"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}}}
	case "Job":
		object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"restartPolicy": "Never",
			"containers": []any{map[string]any{"name": "main", "image": content}}}}}
	case "PersistentVolumeClaim":
		object["spec"] = map[string]any{"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}}
	case "Service":
		object["spec"] = map[string]any{"ports": []any{map[string]any{"port": 80}}}
	}
	raw, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return runtime.RawExtension{Raw: raw}
}

// freeze makes a revision of manifests and stores its payload on the hub.
func (h *hub) freeze(number int64, version string, manifests ...runtime.RawExtension) v1alpha1.RevisionReference {
	h.t.Helper()
	rollout := &v1alpha1.FleetRollout{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api", UID: "u1"}}
	rollout.Spec.Version = version
	rollout.Spec.Placements = []v1alpha1.PlacementReference{{Name: "fleet"}}
	rollout.Spec.Strategy.Groups = []v1alpha1.Group{{Name: "all"}}
	rollout.Spec.Template.Components = []v1alpha1.Component{{Name: "main", Manifests: manifests}}
	if h.adjust != nil {
		h.adjust(&rollout.Spec)
	}
	frozen, err := revision.Freeze(rollout.Spec)
	if err != nil {
		h.t.Fatal(err)
	}
	record, secret, err := revision.New(rollout, number, frozen)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.client.Create(context.Background(), secret); err != nil {
		h.t.Fatal(err)
	}
	return revision.Reference(record)
}

// intend writes the spec of the delivery of shop/api, as the rollout controller does.
func (h *hub) intend(reference v1alpha1.RevisionReference, direction v1alpha1.Direction) {
	h.t.Helper()
	ctx := context.Background()
	record := h.delivery()
	if record == nil {
		record = &v1alpha1.RolloutDelivery{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: v1alpha1.DeliveryName("shop", "api")}}
	}
	record.Spec.Rollout = v1alpha1.RolloutReference{Namespace: "shop", Name: "api", UID: "u1"}
	record.Spec.Revision = reference
	record.Spec.Delivery++
	record.Spec.Run, record.Spec.Attempt, record.Spec.Direction = 1, 1, direction
	write := h.client.Update
	if record.ResourceVersion == "" {
		if err := h.client.Create(ctx, record); err != nil {
			h.t.Fatal(err)
		}
		return
	}
	if err := write(ctx, record); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hub) delivery() *v1alpha1.RolloutDelivery {
	record := &v1alpha1.RolloutDelivery{}
	err := h.client.Get(context.Background(), types.NamespacedName{Namespace: "c1", Name: v1alpha1.DeliveryName("shop", "api")}, record)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return record
}

func (h *hub) works() []*workv1.ManifestWork {
	list := &workv1.ManifestWorkList{}
	if err := h.client.List(context.Background(), list, client.InNamespace("c1"), ownLabels(v1alpha1.RolloutReference{Namespace: "shop", Name: "api", UID: "u1"})); err != nil {
		h.t.Fatal(err)
	}
	var works []*workv1.ManifestWork
	for i := range list.Items {
		works = append(works, &list.Items[i])
	}
	return works
}

func (h *hub) task() *Task {
	return &Task{Delivery: h.delivery(), Cluster: h.cluster, Agent: h.agent, Run: h.run, Works: h.works()}
}

// reconcile does what the delivery reconciler does: once, and once more when the
// agent has answered a preflight.
func (h *hub) reconcile() error {
	if err := h.reconcileOnce(); err != nil || h.mute || !isInPreflight(h.delivery()) {
		return err
	}
	condition := h.agent.Condition
	defer func() { h.agent.Condition = condition }()
	h.answer(v1alpha1.Preflight{Existing: h.existing, Unserved: h.unserved})
	return h.reconcileOnce()
}

// answer lets the agent answer the preflight of the delivery as it is now.
func (h *hub) answer(found v1alpha1.Preflight) {
	h.t.Helper()
	spec := h.delivery().Spec
	found.Delivery = spec.Delivery
	h.agent.Condition = condition(v1alpha1.AgentReport{Digest: spec.Revision.Digest, Delivery: spec.Delivery,
		Health: v1alpha1.HealthProgressing, Preflight: &found})
}

func (h *hub) reconcileOnce() error {
	ctx := context.Background()
	task := h.task()
	if task.Delivery.Spec.Removal != "" {
		outcome, err := h.applier.Remove(ctx, task)
		if err != nil {
			return err
		}
		return Record(ctx, h.client, task.Delivery, outcome.Status)
	}
	outcome, err := h.applier.Apply(ctx, task)
	if err != nil {
		return err
	}
	completed, err := h.applier.CompletedJobs(ctx, task.Delivery, h.agent)
	if err != nil {
		return err
	}
	verdict := Judge(Observation{Cluster: task.Cluster, Spec: task.Delivery.Spec, Status: outcome.Status, Works: outcome.Works,
		Obstacle: outcome.Obstacle, Agent: h.agent, CompletedJobs: completed, Run: task.Run, Now: h.clock.Now()})
	return Record(ctx, h.client, task.Delivery, verdict.Status)
}

// settle reconciles, restarting what is killed, and lets the work agent apply,
// until nothing is written any more.
func (h *hub) settle() {
	h.t.Helper()
	for range 20 {

		before := h.writes
		if err := h.reconcile(); errors.Is(err, errCrash) {

			h.restart()
			continue
		} else if err != nil {
			h.t.Fatal(err)
		}
		if applied := h.applyWorks(); h.writes == before && !applied {
			return
		}
	}
	h.t.Fatal("the delivery does not come to rest")
}

// applyWorks plays the work agent: it applies every work at its generation.
func (h *hub) applyWorks() bool {
	h.t.Helper()
	changed := false
	for _, work := range h.works() {
		applied := meta.FindStatusCondition(work.Status.Conditions, workv1.WorkApplied)
		if applied != nil && applied.ObservedGeneration == work.Generation {
			continue
		}
		changed = true
		meta.SetStatusCondition(&work.Status.Conditions, metav1.Condition{Type: workv1.WorkApplied, Status: metav1.ConditionTrue,
			Reason: "AppliedManifestWorkComplete", ObservedGeneration: work.Generation})
		before, works := h.writes, h.workWrites
		crashAt := h.crashAt
		h.crashAt = 0
		if err := h.client.Status().Update(context.Background(), work); err != nil {
			h.t.Fatal(err)
		}
		h.writes, h.workWrites, h.crashAt = before, works, crashAt
	}
	return changed
}

// content lists what the works carry, such as "ConfigMap/settings=1".
func (h *hub) content() string {
	objects, err := workbuilder.Objects(h.works())
	if err != nil {
		h.t.Fatal(err)
	}
	var names []string
	for _, object := range objects {
		name := object.GetKind() + "/" + object.GetName()
		if data, ok := object.Object["data"].(map[string]any); ok {
			name += fmt.Sprintf("=%v", data["content"])
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func secretOf(reference v1alpha1.RevisionReference) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: reference.Name}}
}
