package revision_test

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/revision"
	"open-cluster-management.io/fleet-rollout/pkg/workbuilder"
)

func spec(manifests ...string) v1alpha1.FleetRolloutSpec {
	component := v1alpha1.Component{Name: "main"}
	for _, manifest := range manifests {
		component.Manifests = append(component.Manifests, runtime.RawExtension{Raw: json.RawMessage(manifest)})
	}
	return v1alpha1.FleetRolloutSpec{
		Version:    "1.0.0",
		Placements: []v1alpha1.PlacementReference{{Name: "fleet"}},
		Template:   v1alpha1.Template{Components: []v1alpha1.Component{component}},
		Strategy:   v1alpha1.Strategy{Groups: []v1alpha1.Group{{Name: "all", ClusterSelector: metav1.LabelSelector{}}}},
	}
}

// request delivers a frozen revision for the rollout with the longest names.
func request(frozen revision.Frozen) workbuilder.Request {
	long := strings.Repeat("n", 63)
	return workbuilder.Request{Cluster: "c1", Payload: frozen.Payload, Spec: v1alpha1.RolloutDeliverySpec{
		Rollout:  v1alpha1.RolloutReference{Namespace: long, Name: long, UID: "uid"},
		Revision: v1alpha1.RevisionReference{Digest: frozen.Digest},
		Attempt:  1, Delivery: 1, Direction: v1alpha1.DirectionForward,
	}}
}

// What Freeze lets pass must fit the ManifestWork, or the refusal would come
// once clusters are written. The largest content that freezes is the one to try.
func TestContentThatFreezesFitsTheWork(t *testing.T) {
	const job = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j%d","namespace":"shop"},"spec":{"template":{"metadata":{"annotations":{"x":"%s"}}}}}`
	for _, count := range []int{1, 20, 400} {
		freeze := func(size int) (revision.Frozen, error) {
			var manifests []string
			for i := range count {
				manifests = append(manifests, fmt.Sprintf(job, i, strings.Repeat("x", size)))
			}
			return revision.Freeze(spec(manifests...))
		}
		const slack = 1000
		bound := min(revision.MaxTotalBytes/count, revision.MaxObjectBytes)
		tooLarge := bound - slack + sort.Search(slack, func(more int) bool {
			_, err := freeze(bound - slack + more)
			return err != nil
		})
		if tooLarge == bound-slack || tooLarge == bound {
			t.Fatalf("%d objects: there is no largest size", count)
		}
		frozen, err := freeze(tooLarge - 1)
		if err != nil {
			t.Fatal(err)
		}
		rendering, err := workbuilder.Render(request(frozen))
		if err != nil {
			t.Fatal(err)
		}
		set, err := workbuilder.Works(rendering, v1alpha1.PhaseDrop, nil)
		if err != nil {
			t.Fatalf("%d objects of %d bytes freeze, and do not fit: %v", count, tooLarge-1, err)
		}
		size := 0
		for _, work := range set.Works {
			inWork := 0
			for _, manifest := range work.Spec.Workload.Manifests {
				inWork += manifest.Size()
			}
			if inWork > workbuilder.MaxWorkBytes {
				t.Errorf("%d objects: work %s has %d bytes", count, work.Name, inWork)
			}
			size += inWork
		}
		t.Logf("%d objects: %d bytes in %d works", count, size, len(set.Works))
	}
}

// The hash that is recorded for a completed Job is the inventory's, so that both
// speak of the same content.
func TestCompletedJobIsKnownByItsHashInTheInventory(t *testing.T) {
	frozen, err := revision.Freeze(spec(`{"kind":"Job","apiVersion":"batch/v1","metadata":{"namespace":"shop","name":"migrate"},"spec":{"template":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	rendering, err := workbuilder.Render(request(frozen))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := rendering.Jobs[0].Job.Hash, frozen.Inventory[0].Hash; got != want {
		t.Errorf("hash %s, inventory %s", got, want)
	}
}
