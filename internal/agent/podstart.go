package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

const (
	// podStartEvery is how often pods are counted while something is not
	// healthy, and podStartIdle how often otherwise.
	podStartEvery = 5 * time.Second
	podStartIdle  = time.Minute
	// podPage is how many pods are read with one request.
	podPage = 200
)

// podCounts are the new pods of a delivery whose start has been decided.
type podCounts struct {
	started int
	failed  int
	// example names one that failed, and why.
	example string
}

func (c podCounts) total() int { return c.started + c.failed }

// podStarts counts, where a health policy bounds it, how many pods of the
// delivered workloads started. New is a pod that was created since the
// workload's content arrived; both moments are on the clock of the cluster's
// API.
type podStarts struct {
	kube    kubernetes.Interface
	look    Look
	clock   clock.WithTicker
	metrics *Metrics
	changed func(names ...string)
	wake    bell

	mu     sync.Mutex
	counts map[string]podStart
}

// podStart is what is known of one delivery.
type podStart struct {
	intent   intent
	delivery *v1alpha1.RolloutDelivery
	// healthy tells that the objects are, and fresh that the pods were counted
	// since: counts from before prove nothing.
	healthy  bool
	fresh    bool
	lookedAt time.Time
	counts   podCounts
	// problem is why pods cannot be counted.
	problem string
}

func newPodStarts(kube kubernetes.Interface, look Look, clock clock.WithTicker, changed func(names ...string)) *podStarts {
	return &podStarts{kube: kube, look: look, clock: clock, changed: changed, wake: newBell(), counts: map[string]podStart{}}
}

// judge adds the signal to a report on the objects. It returns false while the
// pods have not been counted.
func (p *podStarts) judge(d *v1alpha1.RolloutDelivery, report v1alpha1.AgentReport) (v1alpha1.AgentReport, bool) {
	bound := d.Status.Rendered.Health.Signals.MinPodStartSuccessPercent
	if bound == nil {
		p.forget(d.Name)
		return report, true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s, known := p.counts[d.Name]
	if !known || s.intent != intentOf(d) {
		s = podStart{intent: intentOf(d)}
	}
	healthy := report.Health == v1alpha1.HealthHealthy
	if s.lookedAt.IsZero() || healthy && !s.healthy {
		s.fresh = false
		p.wake.ring()
	}
	s.delivery, s.healthy = d, healthy
	p.counts[d.Name] = s
	switch {
	case s.lookedAt.IsZero() || healthy && !s.fresh:
		return report, false
	case s.problem != "":
		return withFinding(report, v1alpha1.HealthProgressing, s.problem), true
	case s.counts.total() > 0 && s.counts.started*100 < int(*bound)*s.counts.total():
		return withFinding(report, v1alpha1.HealthDegraded, fmt.Sprintf(
			"%d of %d new pods did not start, such as %s; at least %d %% must", s.counts.failed, s.counts.total(), s.counts.example, *bound)), true
	}
	return report, true
}

func (p *podStarts) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.counts, name)
}

// run counts until the context ends. Where no policy asks for it the cluster is
// asked nothing.
func (p *podStarts) run(ctx context.Context) {
	ticker := p.clock.NewTicker(podStartEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-ticker.C():
		}
		p.round(ctx)
	}
}

func (p *podStarts) round(ctx context.Context) {
	p.mu.Lock()
	due := map[string]podStart{}
	for name, s := range p.counts {
		isIdle := s.healthy && s.fresh && s.counts.failed == 0
		since := p.clock.Since(s.lookedAt)
		if s.lookedAt.IsZero() || s.healthy && !s.fresh || since >= podStartIdle || !isIdle && since >= podStartEvery {
			due[name] = s
		}
	}
	p.mu.Unlock()
	for name, asked := range due {
		counts, err := p.count(ctx, asked.delivery)
		problem := ""
		switch {
		case apierrors.IsForbidden(err):
			problem = "the agent may not list pods or replicasets: its ClusterRole lacks the rule (" + err.Error() + ")"
		case err != nil:
			klog.InfoS("Cannot count pods", "delivery", name, "err", err, "retryAfter", podStartEvery)
			continue
		}
		p.record(name, asked, counts, problem)
	}
}

// record takes counts over, unless they are about an earlier delivery.
func (p *podStarts) record(name string, asked podStart, counts podCounts, problem string) {
	p.mu.Lock()
	s, known := p.counts[name]
	if !known || s.intent != asked.intent {
		p.mu.Unlock()
		return
	}
	changed := s.lookedAt.IsZero() || asked.healthy && !s.fresh || s.counts != counts || s.problem != problem
	s.lookedAt, s.counts, s.problem = p.clock.Now(), counts, problem
	s.fresh = s.fresh || asked.healthy
	p.counts[name] = s
	p.mu.Unlock()
	p.metrics.started(asked.delivery.Spec.Rollout, counts)
	if changed {
		p.changed(name)
	}
}

// count reads the pods of every delivered workload.
func (p *podStarts) count(ctx context.Context, d *v1alpha1.RolloutDelivery) (podCounts, error) {
	var counts podCounts
	for _, object := range d.Status.Rendered.Objects {
		sight := p.look(object.ObjectReference)
		if sight.Full == nil || sight.ArrivedAt.IsZero() || stamp(sight.Full) != object.Hash {
			continue
		}
		if err := p.countOf(ctx, sight, &counts); err != nil {
			return podCounts{}, fmt.Errorf("pods of %s: %w", describe(object.ObjectReference), err)
		}
	}
	return counts, nil
}

func (p *podStarts) countOf(ctx context.Context, workload Sight, counts *podCounts) error {
	selector := selectorOf(workload.Full)
	if selector == "" {
		return nil
	}
	var owners sets.Set[types.UID]
	switch workload.Full.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		var err error
		if owners, err = p.replicaSets(ctx, workload.Full.GetNamespace(), selector, workload.Full.GetUID()); err != nil {
			return err
		}
	case schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, schema.GroupKind{Group: "apps", Kind: "DaemonSet"},
		schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, schema.GroupKind{Group: "batch", Kind: "Job"}:
		owners = sets.New(workload.Full.GetUID())
	default:
		return nil
	}
	return p.eachPod(ctx, workload.Full.GetNamespace(), selector, func(pod *corev1.Pod) {
		controller := metav1.GetControllerOf(pod)
		isNew := !pod.CreationTimestamp.Time.Before(workload.ArrivedAt.Time)
		if controller == nil || !owners.Has(controller.UID) || !isNew || pod.DeletionTimestamp != nil {
			return
		}
		switch startOf(pod) {
		case podStarted:
			counts.started++
		case podNotStarted:
			counts.failed++
			if counts.example == "" {
				counts.example = pod.Namespace + "/" + pod.Name
				if complaint := complaintOf(pod); complaint != "" {
					counts.example += ": " + complaint
				}
			}
		}
	})
}

func (p *podStarts) replicaSets(ctx context.Context, namespace, selector string, deployment types.UID) (sets.Set[types.UID], error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := p.kube.AppsV1().ReplicaSets(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	owned := sets.New[types.UID]()
	for i := range list.Items {
		if controller := metav1.GetControllerOf(&list.Items[i]); controller != nil && controller.UID == deployment {
			owned.Insert(list.Items[i].UID)
		}
	}
	return owned, nil
}

// eachPod reads page by page, so that memory does not follow the number of
// pods.
func (p *podStarts) eachPod(ctx context.Context, namespace, selector string, visit func(*corev1.Pod)) error {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	options := metav1.ListOptions{LabelSelector: selector, Limit: podPage}
	for {
		page, err := p.kube.CoreV1().Pods(namespace).List(ctx, options)
		if err != nil {
			return err
		}
		for i := range page.Items {
			visit(&page.Items[i])
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}

// podStartState says whether a pod has started.
type podStartState int

const (
	podUndecided podStartState = iota
	podStarted
	podNotStarted
)

// startOf decides whether a pod started. One that waits for a node, an image
// or its init containers has not been decided.
func startOf(pod *corev1.Pod) podStartState {
	all := append(append([]corev1.ContainerStatus{}, pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...)
	restarted := false
	for _, c := range all {
		if waiting := c.State.Waiting; waiting != nil && isStartFailure(waiting.Reason) {
			return podNotStarted
		}
		if ended := c.State.Terminated; ended != nil && isStartFailure(ended.Reason) {
			return podNotStarted
		}
		restarted = restarted || c.RestartCount > 0
	}
	isReady := false
	for _, c := range pod.Status.Conditions {
		isReady = isReady || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}
	switch {
	case pod.Status.Phase == corev1.PodSucceeded || isReady:
		return podStarted
	case pod.Status.Phase == corev1.PodFailed && len(pod.Status.ContainerStatuses) == 0:
		// Refused by the node, or evicted before anything ran.
		return podNotStarted
	case pod.Status.Phase == corev1.PodFailed:
		return podStarted
	case restarted:
		// Running for the moment: a container that crashes again and again
		// must not count as started each time that it is tried.
		return podNotStarted
	case pod.Status.Phase == corev1.PodRunning && areRunning(pod.Status.ContainerStatuses):
		return podStarted
	}
	return podUndecided
}

func areRunning(containers []corev1.ContainerStatus) bool {
	for _, c := range containers {
		if c.State.Running == nil || c.Started != nil && !*c.Started {
			return false
		}
	}
	return len(containers) > 0
}

// isStartFailure tells whether the kubelet gives this reason for a container
// that it could not start.
func isStartFailure(reason string) bool {
	switch reason {
	case "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError",
		"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PostStartHookError",
		"CrashLoopBackOff", "ContainerCannotRun", "StartError":
		return true
	}
	return false
}
