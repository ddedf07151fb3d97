package e2e

import (
	"context"
	"fmt"
	"sort"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"k8s.io/apimachinery/pkg/runtime"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// workWatch notes every generation of every ManifestWork of ours while it
// runs, with the delivery and phase that wrote it.
type workWatch struct {
	stop func()
	done chan struct{}

	mu sync.Mutex
	// generations by "cluster/delivery/phase".
	generations map[string]map[int64]bool
}

func watchWorks(ctx context.Context) *workWatch {
	GinkgoHelper()
	scheme := runtime.NewScheme()
	Expect(workv1.Install(scheme)).To(Succeed())
	watching, err := client.NewWithWatch(theLab.Hub().RESTConfig(), client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	watcher, err := watching.Watch(ctx, &workv1.ManifestWorkList{}, client.HasLabels{v1alpha1.LabelRolloutUID})
	Expect(err).NotTo(HaveOccurred())
	w := &workWatch{stop: watcher.Stop, done: make(chan struct{}), generations: map[string]map[int64]bool{}}
	go func() {
		defer close(w.done)
		for event := range watcher.ResultChan() {
			work, ok := event.Object.(*workv1.ManifestWork)
			if !ok {
				continue
			}
			key := fmt.Sprintf("%s/%s/%s", work.Namespace, work.Annotations[v1alpha1.AnnotationDelivery], work.Annotations[v1alpha1.AnnotationPhase])
			w.mu.Lock()
			if w.generations[key] == nil {
				w.generations[key] = map[int64]bool{}
			}
			w.generations[key][work.Generation] = true
			w.mu.Unlock()
		}
	}()
	DeferCleanup(watcher.Stop)
	return w
}

// rewritten stops the watch and returns each cluster/delivery/phase whose work
// was written more than once.
func (w *workWatch) rewritten() []string {
	w.stop()
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []string
	for key, generations := range w.generations {
		if len(generations) > 1 {
			found = append(found, fmt.Sprintf("%s has %d generations", key, len(generations)))
		}
	}
	sort.Strings(found)
	return found
}
