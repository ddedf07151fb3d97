package main

import (
	"context"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/test/product"
)

const productionCluster = "c3"

// verify asks every cluster's own API what it runs.
func (d *demo) verify(ctx context.Context, production *imageWatch) error {
	want := product.ExampleImage + ":1.1.0"
	for _, c := range d.lab.Clusters() {
		k8s, err := product.ClusterClient(d.lab, c.Name())
		if err != nil {
			return err
		}
		deployment := &appsv1.Deployment{}
		if err := k8s.Get(ctx, deploymentKey(), deployment); err != nil {
			return fmt.Errorf("cluster %s: %w", c.Name(), err)
		}
		image := imageOf(deployment)
		if image != want {
			return fmt.Errorf("cluster %s runs %s, not %s", c.Name(), image, want)
		}
		if deployment.Status.ObservedGeneration != deployment.Generation || deployment.Status.AvailableReplicas != *deployment.Spec.Replicas {
			return fmt.Errorf("cluster %s: %d of %d replicas of %s are available", c.Name(), deployment.Status.AvailableReplicas, *deployment.Spec.Replicas, image)
		}
		d.say("  cluster %s runs %s, %d of %d replicas available", c.Name(), image, deployment.Status.AvailableReplicas, *deployment.Spec.Replicas)
	}
	images, err := production.stop()
	if err != nil {
		return err
	}
	for _, image := range images {
		if image != want {
			return fmt.Errorf("production cluster %s was given %s while 1.2.0 went out", productionCluster, image)
		}
	}
	d.say("  production cluster %s never saw 1.2.0 (watched all along)", productionCluster)

	var revisions v1alpha1.RolloutRevisionList
	if err := d.hub.List(ctx, &revisions, client.InNamespace(product.ExampleNamespace)); err != nil {
		return err
	}
	for _, r := range revisions.Items {
		if r.Spec.Version == "1.2.0" && r.Status.Verdict != v1alpha1.VerdictFailed {
			return fmt.Errorf("revision %s of version 1.2.0 is marked %q, not Failed", r.Name, r.Status.Verdict)
		}
		if r.Spec.Version == "1.2.0" {
			d.say("  revision %d, version 1.2.0, is marked %s", r.Spec.Number, r.Status.Verdict)
			return nil
		}
	}
	return fmt.Errorf("there is no revision of version 1.2.0")
}

// imageWatch notes every image that the production cluster's Deployment has
// had, from the cluster's own API.
type imageWatch struct {
	watcher watch.Interface
	done    chan struct{}

	mu       sync.Mutex
	images   []string
	broken   error
	stopping bool
}

func (d *demo) watchProduction(ctx context.Context) (*imageWatch, error) {
	k8s, err := client.NewWithWatch(d.lab.Cluster(productionCluster).RESTConfig(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return nil, err
	}
	watcher, err := k8s.Watch(ctx, &appsv1.DeploymentList{}, client.InNamespace(product.ExampleWorkload))
	if err != nil {
		return nil, fmt.Errorf("watch production: %w", err)
	}
	w := &imageWatch{watcher: watcher, done: make(chan struct{})}
	go w.run()
	return w, nil
}

func (w *imageWatch) run() {
	defer close(w.done)
	for event := range w.watcher.ResultChan() {
		w.mu.Lock()
		if deployment, ok := event.Object.(*appsv1.Deployment); ok {
			w.images = append(w.images, imageOf(deployment))
		} else if !w.stopping {
			// Stopping a watch may cut an event in two, which arrives as an error.
			w.broken = fmt.Errorf("the watch on production broke: %v", event.Object)
		}
		w.mu.Unlock()
	}
}

// stop ends the watch and returns what it saw; at least the image that was
// there when it began.
func (w *imageWatch) stop() ([]string, error) {
	select {
	case <-w.done:
		return nil, fmt.Errorf("the watch on production ended before it was stopped")
	default:
	}
	w.mu.Lock()
	w.stopping = true
	w.mu.Unlock()
	w.watcher.Stop()
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken == nil && len(w.images) == 0 {
		w.broken = fmt.Errorf("the watch on production saw nothing")
	}
	return w.images, w.broken
}

func deploymentKey() client.ObjectKey {
	return client.ObjectKey{Namespace: product.ExampleWorkload, Name: product.ExampleDeployment}
}

func imageOf(deployment *appsv1.Deployment) string {
	if len(deployment.Spec.Template.Spec.Containers) == 0 {
		return ""
	}
	return deployment.Spec.Template.Spec.Containers[0].Image
}
