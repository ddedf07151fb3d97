// Package perf measures. Its figures come from benchmarks on the lab; nothing
// here passes or fails by time.
package perf

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/test/lab"
	"open-cluster-management.io/fleet-rollout/test/product"
)

// BenchmarkReadyToNextWork measures the event path on real Kubernetes and real
// OCM: from the moment the Deployment of the canary is seen ready through its
// cluster's own API, to the moment the ManifestWork of the next cluster is
// seen with the new delivery through the hub's. Between the two lie the agent's
// evaluation and report, the hub's judgement, the plan, the render and the
// write. Run it with
//
//	go test -run '^$' -bench ReadyToNextWork -benchtime 20x -timeout 30m ./test/perf
func BenchmarkReadyToNextWork(b *testing.B) {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Minute)
	defer cancel()
	hub := startFleet(ctx, b)

	var took []time.Duration
	release := 1
	for b.Loop() {
		release++
		took = append(took, releaseOnce(ctx, b, hub, fmt.Sprintf("1.0.%d", release)))
	}
	slices.Sort(took)
	b.ReportMetric(0, "ns/op") // The soak, the pods and the end of the run are not of interest.
	b.ReportMetric(float64(took[0].Microseconds())/1000, "min-ms")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "median-ms")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms")
}

var (
	theLab *lab.Lab
)

// startFleet brings up a hub and two clusters, canary and gray, with the
// example in its first version and no soak.
func startFleet(ctx context.Context, b *testing.B) client.Client {
	b.Helper()
	var err error
	theLab, err = lab.Start(ctx, lab.Options{Clusters: lab.DefaultClusters(2), Log: os.Stderr})
	check(b, err)
	b.Cleanup(func() { check(b, theLab.Stop()) })
	installed, err := product.Install(ctx, product.Options{Lab: theLab, Log: os.Stderr})
	check(b, err)
	check(b, installed.Enable(ctx, "c1", "c2"))
	check(b, installed.ApplyFleet(ctx))
	hub, err := product.HubClient(theLab)
	check(b, err)
	rollout, err := product.ReadExample()
	check(b, err)
	for i := range rollout.Spec.Strategy.Groups {
		rollout.Spec.Strategy.Groups[i].Steps = nil
	}
	check(b, hub.Create(ctx, rollout))
	awaitStable(ctx, b, hub, rollout.Spec.Version)
	return hub
}

func releaseOnce(ctx context.Context, b *testing.B, hub client.Client, version string) time.Duration {
	b.Helper()
	ready := firstSeen(ctx, b, "c1", func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Spec.Containers[0].Image == product.ExampleImage+":"+version &&
			d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == *d.Spec.Replicas &&
			d.Status.Replicas == *d.Spec.Replicas && d.Status.AvailableReplicas == *d.Spec.Replicas
	})
	before := deliveryNumber(ctx, b, hub, "c2")
	written := firstSeenWork(ctx, b, "c2", func(w *workv1.ManifestWork) bool {
		return w.Annotations[v1alpha1.AnnotationDelivery] == fmt.Sprint(before+1)
	})
	rollout := &v1alpha1.FleetRollout{}
	check(b, hub.Get(ctx, client.ObjectKey{Namespace: product.ExampleNamespace, Name: product.ExampleRollout}, rollout))
	check(b, product.SetRelease(rollout, version, version))
	check(b, hub.Update(ctx, rollout))
	from, to := <-ready, <-written
	if from.IsZero() || to.IsZero() {
		b.Fatalf("version %s: a watch ended early; logs in %s", version, theLab.LogDir())
	}
	awaitStable(ctx, b, hub, version)
	return to.Sub(from)
}

func deliveryNumber(ctx context.Context, b *testing.B, hub client.Client, cluster string) int64 {
	b.Helper()
	d := &v1alpha1.RolloutDelivery{}
	key := client.ObjectKey{Namespace: cluster, Name: v1alpha1.DeliveryName(product.ExampleNamespace, product.ExampleRollout)}
	check(b, hub.Get(ctx, key, d))
	return d.Spec.Delivery
}

// firstSeen tells when a Deployment of a managed cluster first is as wanted.
func firstSeen(ctx context.Context, b *testing.B, cluster string, wanted func(*appsv1.Deployment) bool) <-chan time.Time {
	b.Helper()
	watching, err := client.NewWithWatch(theLab.Cluster(cluster).RESTConfig(), client.Options{Scheme: scheme.Scheme})
	check(b, err)
	return first(ctx, b, watching, &appsv1.DeploymentList{}, client.InNamespace(product.ExampleWorkload), func(object runtime.Object) bool {
		d, ok := object.(*appsv1.Deployment)
		return ok && wanted(d)
	})
}

// firstSeenWork tells when a ManifestWork of ours first is as wanted.
func firstSeenWork(ctx context.Context, b *testing.B, cluster string, wanted func(*workv1.ManifestWork) bool) <-chan time.Time {
	b.Helper()
	works := runtime.NewScheme()
	check(b, workv1.Install(works))
	watching, err := client.NewWithWatch(theLab.Hub().RESTConfig(), client.Options{Scheme: works})
	check(b, err)
	return first(ctx, b, watching, &workv1.ManifestWorkList{}, client.InNamespace(cluster), func(object runtime.Object) bool {
		w, ok := object.(*workv1.ManifestWork)
		return ok && wanted(w)
	})
}

func first(ctx context.Context, b *testing.B, watching client.WithWatch, list client.ObjectList, in client.InNamespace, wanted func(runtime.Object) bool) <-chan time.Time {
	b.Helper()
	watcher, err := watching.Watch(ctx, list, in)
	check(b, err)
	found := make(chan time.Time, 1)
	go func() {
		defer watcher.Stop()
		defer close(found)
		for event := range watcher.ResultChan() {
			if wanted(event.Object) {
				found <- time.Now()
				return
			}
		}
	}()
	return found
}

func awaitStable(ctx context.Context, b *testing.B, hub client.Client, version string) {
	b.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		rollout := &v1alpha1.FleetRollout{}
		check(b, hub.Get(ctx, client.ObjectKey{Namespace: product.ExampleNamespace, Name: product.ExampleRollout}, rollout))
		if stable := rollout.Status.StableRevision; stable != nil && stable.Version == version {
			return
		}
		select {
		case <-ctx.Done():
			b.Fatalf("version %s did not become stable; logs in %s", version, theLab.LogDir())
		case <-ticker.C:
		}
	}
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
