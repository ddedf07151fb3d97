package agent

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"open-cluster-management.io/fleet-rollout/internal/health"
)

const (
	// complaintsEvery is how often the pods of unhealthy workloads are read.
	complaintsEvery = 5 * time.Second
	// maxTroubled bounds how many workloads are read in one round, and podLimit
	// how many pods of each: a complaint is a hint for people, not evidence.
	maxTroubled = 10
	podLimit    = 100
)

// complaints knows why the pods of unhealthy workloads do not get ready. A
// Deployment says how many replicas are missing; only its pods say that the
// image cannot be pulled. Pods are read while something is wrong, not watched.
type complaints struct {
	kube    kubernetes.Interface
	clock   clock.WithTicker
	changed func(objectKey)

	mu       sync.Mutex
	troubled map[objectKey]trouble
}

type trouble struct {
	namespace string
	selector  string
	complaint string
}

func newComplaints(kube kubernetes.Interface, clock clock.WithTicker, changed func(objectKey)) *complaints {
	return &complaints{kube: kube, clock: clock, changed: changed, troubled: map[objectKey]trouble{}}
}

// about adds what is known to a sight, and follows the workload while it is
// not healthy.
func (c *complaints) about(ref objectKey, sight Sight) Sight {
	if sight.Full == nil || (ref.Group != "apps" && ref.Group != "batch") {
		return sight
	}
	selector := selectorOf(sight.Full)
	if selector == "" {
		return sight
	}
	if !health.HasRule(kindOf(ref).GroupKind()) {
		return sight
	}
	verdict := health.Of(sight.subject())
	c.mu.Lock()
	defer c.mu.Unlock()
	if severity(verdict.Health) == 0 {
		delete(c.troubled, ref)
		return sight
	}
	t := c.troubled[ref]
	if t.selector != selector {
		t = trouble{namespace: ref.Namespace, selector: selector}
	}
	c.troubled[ref] = t
	sight.Complaint = t.complaint
	return sight
}

// run reads pods until the context ends.
func (c *complaints) run(ctx context.Context) {
	ticker := c.clock.NewTicker(complaintsEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			c.round(ctx)
		}
	}
}

func (c *complaints) round(ctx context.Context) {
	for ref, t := range c.some() {
		complaint, err := c.read(ctx, t)
		if err != nil {
			klog.V(2).InfoS("Cannot read pods", "workload", ref, "err", err)
			continue
		}
		if c.update(ref, t, complaint) {
			c.changed(ref)
		}
	}
}

func (c *complaints) some() map[objectKey]trouble {
	c.mu.Lock()
	defer c.mu.Unlock()
	some := map[objectKey]trouble{}
	for ref, t := range c.troubled {
		if len(some) == maxTroubled {
			break
		}
		some[ref] = t
	}
	return some
}

// update keeps the last complaint while none is heard: a container that is
// restarted over and over is silent in between.
func (c *complaints) update(ref objectKey, asked trouble, complaint string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, troubled := c.troubled[ref]
	if !troubled || t.selector != asked.selector || complaint == "" || complaint == t.complaint {
		return false
	}
	t.complaint = complaint
	c.troubled[ref] = t
	return true
}

func (c *complaints) read(ctx context.Context, t trouble) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	pods, err := c.kube.CoreV1().Pods(t.namespace).List(ctx, metav1.ListOptions{LabelSelector: t.selector, Limit: podLimit})
	if err != nil {
		return "", fmt.Errorf("list pods %q in namespace %s: %w", t.selector, t.namespace, err)
	}
	for i := range pods.Items {
		if complaint := complaintOf(&pods.Items[i]); complaint != "" {
			return complaint, nil
		}
	}
	return "", nil
}

// selectorOf is the selector of a workload's pods, or empty.
func selectorOf(o *unstructured.Unstructured) string {
	raw, found, err := unstructured.NestedMap(o.Object, "spec", "selector")
	if err != nil || !found {
		return ""
	}
	var selector metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &selector); err != nil {
		return ""
	}
	return metav1.FormatLabelSelector(&selector)
}

// complaintOf is why a pod does not get ready, or empty if it says nothing.
func complaintOf(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c.Reason
		}
	}
	for _, containers := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, c := range containers {
			if complaint := complaintOfContainer(c); complaint != "" {
				return complaint
			}
		}
	}
	return ""
}

func complaintOfContainer(c corev1.ContainerStatus) string {
	if c.State.Waiting == nil {
		return ""
	}
	switch reason := c.State.Waiting.Reason; reason {
	case "", "ContainerCreating", "PodInitializing":
		return ""
	case "ErrImagePull", "ImagePullBackOff":
		// The two alternate; one name for both keeps the report still.
		return fmt.Sprintf("ImagePullBackOff (image %s)", c.Image)
	case "CreateContainerConfigError", "InvalidImageName":
		return fmt.Sprintf("%s (container %s: %s)", reason, c.Name, strings.TrimSpace(c.State.Waiting.Message))
	default:
		return fmt.Sprintf("%s (container %s)", reason, c.Name)
	}
}
