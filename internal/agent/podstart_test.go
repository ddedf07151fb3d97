package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func TestWhetherAPodStarted(t *testing.T) {
	running := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	restarted := running
	restarted.RestartCount = 3
	starting := running
	starting.Started = ptr.To(false)
	ready := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	ended := func(reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason}}}
	}
	cases := []struct {
		name   string
		status corev1.PodStatus
		want   podStartState
	}{
		{"a pod that waits for a node", corev1.PodStatus{Phase: corev1.PodPending}, podUndecided},
		{"a pod that pulls its image", corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{waiting("ContainerCreating", "")}}, podUndecided},
		{"an image that cannot be pulled", corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{waiting("ImagePullBackOff", "")}}, podNotStarted},
		{"an init container that crashes", corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{waiting("CrashLoopBackOff", "")}}, podNotStarted},
		{"a pod that runs, not yet ready", corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{running}}, podStarted},
		{"a pod whose startup probe waits", corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{starting}}, podUndecided},
		{"a pod that crashed and is tried again", corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{restarted}}, podNotStarted},
		{"a pod that crashed and is ready by now", corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{restarted}, Conditions: ready}, podStarted},
		{"a pod of a Job that completed", corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{ended("Completed")}}, podStarted},
		{"a pod of a Job that ran and failed", corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{ended("Error")}}, podStarted},
		{"a command that does not exist", corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{ended("StartError")}}, podNotStarted},
		{"a pod that its node refused", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu"}, podNotStarted},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := startOf(&corev1.Pod{Status: c.status}); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// arrivedAt is when the content of the Deployment arrived.
var arrivedAt = metav1.NewTime(time.Unix(1000, 0))

// podFixture is a cluster with the Deployment payments/api at its delivered
// content, whose policy asks that 80 % of the new pods start.
type podFixture struct {
	kube     *fake.Clientset
	clock    *testclock.FakeClock
	starts   *podStarts
	delivery *v1alpha1.RolloutDelivery
	objects  v1alpha1.AgentReport
}

func newPodFixture(t *testing.T, pods ...runtime.Object) *podFixture {
	t.Helper()
	deployment := parse(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api, namespace: payments, uid: d1}\nspec: {selector: {matchLabels: {app: api}}}")
	sight := seen(deployment)
	sight.ArrivedAt = arrivedAt
	f := &podFixture{
		kube: fake.NewClientset(append(pods, replicaSet("new", "d1"), replicaSet("foreign", "d2"))...), clock: testclock.NewFakeClock(time.Unix(5000, 0)),
		delivery: deliveryOf(apiDeployment), objects: v1alpha1.AgentReport{Health: v1alpha1.HealthHealthy, Text: "objects"},
	}
	f.delivery.Status.Rendered.Health.Signals.MinPodStartSuccessPercent = ptr.To[int32](80)
	f.starts = newPodStarts(f.kube, func(v1alpha1.ObjectReference) Sight { return sight }, f.clock, func(...string) {})
	return f
}

func controlledBy(kind, uid string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, UID: types.UID(uid), Controller: ptr.To(true)}}
}

func replicaSet(name, deployment string) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "payments", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "api"}, OwnerReferences: controlledBy("Deployment", deployment),
	}}
}

// pod of a ReplicaSet, so many seconds after the content arrived; it started,
// or its image cannot be pulled.
func pod(replicaSet string, seconds int, number int, state podStartState) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "payments", Name: fmt.Sprintf("%s-%d", replicaSet, number), Labels: map[string]string{"app": "api"},
		CreationTimestamp: metav1.NewTime(arrivedAt.Add(time.Duration(seconds) * time.Second)), OwnerReferences: controlledBy("ReplicaSet", replicaSet),
	}}
	switch state {
	case podStarted:
		p.Status.Phase, p.Status.ContainerStatuses = corev1.PodRunning, []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	case podNotStarted:
		p.Status.Phase, p.Status.ContainerStatuses = corev1.PodPending, []corev1.ContainerStatus{waiting("ErrImagePull", "")}
	}
	return p
}

func (f *podFixture) judge(t *testing.T) v1alpha1.AgentReport {
	t.Helper()
	f.starts.round(t.Context())
	report, known := f.starts.judge(f.delivery, f.objects)
	if !known {
		t.Fatal("the pods were not counted")
	}
	return report
}

func TestTooManyPodsThatDoNotStartDegradeACluster(t *testing.T) {
	cases := []struct {
		name string
		pods []runtime.Object
		want v1alpha1.Health
		text string
	}{
		{"no new pod decides nothing", nil, v1alpha1.HealthHealthy, ""},
		{"4 of 5 are 80 %", []runtime.Object{pod("new", 1, 1, podStarted), pod("new", 1, 2, podStarted), pod("new", 1, 3, podStarted), pod("new", 1, 4, podStarted), pod("new", 1, 5, podNotStarted)},
			v1alpha1.HealthHealthy, ""},
		{"3 of 4 are less", []runtime.Object{pod("new", 1, 1, podStarted), pod("new", 1, 2, podStarted), pod("new", 1, 3, podStarted), pod("new", 0, 4, podNotStarted)},
			v1alpha1.HealthDegraded, "1 of 4 new pods did not start, such as payments/new-4: ImagePullBackOff"},
		{"undecided pods do not count", []runtime.Object{pod("new", 1, 1, podStarted), pod("new", 1, 2, podUndecided), pod("new", 1, 3, podUndecided)}, v1alpha1.HealthHealthy, ""},
		{"pods from before do not count", []runtime.Object{pod("new", -1, 1, podNotStarted)}, v1alpha1.HealthHealthy, ""},
		{"pods of others with the same labels do not count", []runtime.Object{pod("foreign", 1, 1, podNotStarted)}, v1alpha1.HealthHealthy, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newPodFixture(t, c.pods...)
			if _, known := f.starts.judge(f.delivery, f.objects); known {
				t.Fatal("healthy before the pods were counted")
			}
			if got := f.judge(t); got.Health != c.want || !strings.Contains(got.Text, c.text) {
				t.Errorf("got %s, %q; want %s, %q", got.Health, got.Text, c.want, c.text)
			}
		})
	}
}

func TestPodsAreCountedAnewOnceTheObjectsAreHealthy(t *testing.T) {
	f := newPodFixture(t)
	f.objects.Health = v1alpha1.HealthProgressing
	f.starts.judge(f.delivery, f.objects)
	f.judge(t)
	if _, err := f.kube.CoreV1().Pods("payments").Create(t.Context(), pod("new", 1, 1, podNotStarted), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.objects.Health = v1alpha1.HealthHealthy
	if got, known := f.starts.judge(f.delivery, f.objects); known {
		t.Fatalf("got %+v by counts from before", got)
	}
	if got := f.judge(t); got.Health != v1alpha1.HealthDegraded {
		t.Errorf("got %+v", got)
	}
}

func TestPodsAreReadSeldomWhileAllIsWell(t *testing.T) {
	f := newPodFixture(t, pod("new", 1, 1, podStarted))
	f.starts.judge(f.delivery, f.objects)
	f.judge(t)
	f.kube.ClearActions()
	f.clock.Step(podStartEvery)
	f.starts.round(t.Context())
	if n := len(f.kube.Actions()); n != 0 {
		t.Errorf("%d requests after %s", n, podStartEvery)
	}
	f.clock.Step(podStartIdle)
	f.starts.round(t.Context())
	if n := len(f.kube.Actions()); n != 2 {
		t.Errorf("%d requests after %s, want pods and replicasets", n, podStartIdle)
	}
	f.starts.forget(f.delivery.Name)
	f.kube.ClearActions()
	f.clock.Step(podStartIdle)
	f.starts.round(t.Context())
	if n := len(f.kube.Actions()); n != 0 {
		t.Errorf("%d requests for a delivery that is gone", n)
	}
}

func TestPodsThatMayNotBeListedAreNoProof(t *testing.T) {
	f := newPodFixture(t)
	f.kube.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
	})
	f.starts.judge(f.delivery, f.objects)
	if got := f.judge(t); got.Health != v1alpha1.HealthProgressing || !strings.Contains(got.Text, "may not list pods") {
		t.Errorf("got %s, %q", got.Health, got.Text)
	}
}
