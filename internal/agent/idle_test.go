package agent

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// realDeployment is a Deployment as a cluster shows it, managedFields included.
const realDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: api
  namespace: payments
  uid: d1
  generation: 1
  labels: {rollout.open-cluster-management.io/rollout-name: payments, rollout.open-cluster-management.io/rollout-namespace: platform}
  annotations: {deployment.kubernetes.io/revision: "1", rollout.open-cluster-management.io/content-hash: "sha256:new"}
spec:
  replicas: 2
  progressDeadlineSeconds: 600
  revisionHistoryLimit: 10
  selector: {matchLabels: {app: api}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}}
  template:
    metadata: {labels: {app: api}}
    spec:
      containers:
      - name: api
        image: registry.example.com/payments/api:1.4.0
        imagePullPolicy: IfNotPresent
        ports: [{containerPort: 8080, name: http, protocol: TCP}]
        env: [{name: LEVEL, value: info}, {name: REGION, value: eu}]
        readinessProbe: {httpGet: {path: /ready, port: http, scheme: HTTP}, periodSeconds: 10, failureThreshold: 3, successThreshold: 1, timeoutSeconds: 1}
        resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 256Mi}}
        terminationMessagePath: /dev/termination-log
        terminationMessagePolicy: File
      dnsPolicy: ClusterFirst
      restartPolicy: Always
      schedulerName: default-scheduler
      terminationGracePeriodSeconds: 30
status:
  observedGeneration: 1
  replicas: 2
  updatedReplicas: 2
  readyReplicas: 2
  availableReplicas: 2
  conditions:
  - {type: Available, status: "True", reason: MinimumReplicasAvailable, message: Deployment has minimum availability., lastUpdateTime: "2026-01-01T00:00:00Z", lastTransitionTime: "2026-01-01T00:00:00Z"}
  - {type: Progressing, status: "True", reason: NewReplicaSetAvailable, message: ReplicaSet "api-1" has successfully progressed., lastUpdateTime: "2026-01-01T00:00:00Z", lastTransitionTime: "2026-01-01T00:00:00Z"}
`

// delivered is number i of many objects of a kind, owned as after an apply.
func delivered(tb testing.TB, i int) *unstructured.Unstructured {
	tb.Helper()
	raw, err := yaml.YAMLToJSON([]byte(realDeployment))
	if err != nil {
		tb.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		tb.Fatal(err)
	}
	object.SetName(fmt.Sprintf("api-%03d", i))
	object.SetUID(types.UID(object.GetName()))
	object.SetManagedFields([]metav1.ManagedFieldsEntry{byUs(appliedWhole), inStatus(readyField)})
	return object
}

func deliveredConfig(i int) *metav1.PartialObjectMetadata {
	config := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "payments", Name: fmt.Sprintf("config-%03d", i), UID: types.UID(fmt.Sprintf("config-%03d", i)),
		Labels: oursOf("platform", "payments"), Annotations: map[string]string{v1alpha1.AnnotationContentHash: newHash},
		ManagedFields: []metav1.ManagedFieldsEntry{byUs(`{"f:data":{"f:a":{}}}`)},
	}}
	config.SetGroupVersionKind(kindOf(configRef))
	return config
}

// resettable is a mapper whose answers do not change.
type resettable struct{ meta.RESTMapper }

func (resettable) Reset() {}

// idleHub counts what is written to it, and tells when it is read.
type idleHub struct {
	*addonHub
	read chan struct{}
}

func (h *idleHub) Get(ctx context.Context, name string, options metav1.GetOptions) (addon *addonv1alpha1.ManagedClusterAddOn, err error) {
	addon, err = h.addonHub.Get(ctx, name, options)
	select {
	case h.read <- struct{}{}:
	case <-ctx.Done():
	}
	return addon, err
}

// countedLeases counts the renewals.
type countedLeases struct{ renewed chan struct{} }

func (l countedLeases) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*coordinationv1.Lease, error) {
	l.renewed <- struct{}{}
	return &coordinationv1.Lease{}, nil
}

func TestAnIdleAgentWithManyObjectsWritesNothingButItsLease(t *testing.T) {
	const each = 100
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var deployments, configs []kruntime.Object
	var content []v1alpha1.ObjectReference
	for i := range each {
		deployment, config := delivered(t, i), deliveredConfig(i)
		deployments, configs = append(deployments, deployment), append(configs, config)
		ref := configRef
		ref.Name = config.Name
		content = append(content, referenceTo(deployment), ref)
	}
	scheme := kruntime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(kindOf(apiDeployment), meta.RESTScopeNamespace)
	mapper.Add(kindOf(configRef), meta.RESTScopeNamespace)
	dynamicClient := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(kruntime.NewScheme(),
		map[schema.GroupVersionResource]string{{Group: "apps", Version: "v1", Resource: "deployments"}: "DeploymentList"}, deployments...)
	watches := newWatches(clients{
		dynamic:  dynamicClient,
		metadata: metadatafake.NewSimpleMetadataClient(scheme, configs...),
		mapper:   resettable{mapper},
		ready:    func(context.Context) bool { return true },
	}, clock.RealClock{})

	hub := &idleHub{addonHub: newAddonHub(), read: make(chan struct{})}
	present := newDeliveries(clock.RealClock{})
	reporter := newReporter(hub, present, func(d *v1alpha1.RolloutDelivery) (v1alpha1.AgentReport, bool) {
		found, known := evaluate(d, watches.see, rules{})
		return found.report, known
	}, clock.RealClock{})
	reporter.resync = time.Millisecond
	watches.observer = reporter
	present.put(deliveryOf(content...))
	watches.want(ctx, present.wantedKinds())
	ended := make(chan struct{})
	go func() { defer close(ended); reporter.run(ctx) }()
	ticks := testclock.NewFakeClock(time.Unix(0, 0))
	leases := countedLeases{renewed: make(chan struct{})}
	renewal := &lease{leases: leases, clock: ticks, fast: time.Second, slow: time.Second, isFast: func() bool { return false }}
	go renewal.run(ctx)

	limit := time.After(time.Minute)
	resync := func(times int) {
		t.Helper()
		for range times {
			select {
			case <-hub.read:
			case <-limit:
				t.Fatal("the agent does not look again")
			}
		}
	}
	for up := false; !up; {
		select {
		case <-reporter.caughtUp:
			up = true
		case <-hub.read:
		case <-limit:
			t.Fatal("the agent has not caught up")
		}
	}
	// Each Deployment changes in what does not matter, as controllers do.
	resource := dynamicClient.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace("payments")
	for i := range each {
		deployment := delivered(t, i)
		deployment.SetResourceVersion("2")
		annotations := deployment.GetAnnotations()
		annotations["example.com/heartbeat"] = "2"
		deployment.SetAnnotations(annotations)
		if _, err := resource.Update(ctx, deployment, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	resync(50)
	for range 3 {
		select {
		case <-leases.renewed:
		case <-limit:
			t.Fatal("the Lease is not renewed")
		}
		for !ticks.HasWaiters() {
			runtime.Gosched()
		}
		ticks.Step(time.Second)
	}
	cancel()
	<-ended
	if hub.patches != 1 {
		t.Errorf("%d writes of the report, want the first one alone", hub.patches)
	}
	report, err := v1alpha1.DecodeAgentReport(meta.FindStatusCondition(hub.addon.Status.Conditions, ourType).Message)
	if err != nil || report.Health != v1alpha1.HealthHealthy || report.Objects != 2*each {
		t.Errorf("got %+v and error %v, want all %d objects healthy", report, err, 2*each)
	}
}

// BenchmarkEvaluate100Objects is the time and the garbage of one evaluation of
// a delivery with 100 Deployments.
func BenchmarkEvaluate100Objects(b *testing.B) {
	w, delivery := watched(b)
	look := func(ref v1alpha1.ObjectReference) Sight { return w.see(ref.Namespace, ref.Name) }
	b.ReportAllocs()
	for b.Loop() {
		if found, known := evaluate(delivery, look, rules{}); !known || found.report.Health != v1alpha1.HealthHealthy {
			b.Fatalf("got %+v", found.report)
		}
	}
}

// BenchmarkWatch100Objects is the time to take over a change of each of 100
// Deployments, and the memory that they keep in the agent.
func BenchmarkWatch100Objects(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	w, _ := watched(b)
	runtime.GC()
	runtime.ReadMemStats(&after)
	kept := float64(after.HeapAlloc) - float64(before.HeapAlloc)
	changes := make([]*unstructured.Unstructured, 100)
	for i := range changes {
		changes[i] = delivered(b, i)
	}
	fields := changes[0].GetManagedFields()
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		for _, object := range changes {
			object.SetManagedFields(fields)
			seen, _ := w.slim(object)
			w.put(seen)
		}
	}
	b.ReportMetric(kept/1024, "KiB-kept")
}

// watched is a watch that has seen 100 Deployments, and their delivery.
func watched(tb testing.TB) (*kindWatch, *v1alpha1.RolloutDelivery) {
	tb.Helper()
	w := driftWatch()
	var content []v1alpha1.ObjectReference
	for i := range 100 {
		object := delivered(tb, i)
		content = append(content, referenceTo(object))
		seen, err := w.slim(object)
		if err != nil {
			tb.Fatal(err)
		}
		w.put(seen)
	}
	return w, deliveryOf(content...)
}
