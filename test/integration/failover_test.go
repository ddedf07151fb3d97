package integration

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

var _ = Describe("A leader that is frozen past its lease", Ordered, Label("slow"), func() {
	var hub *ownHub
	BeforeAll(func(ctx SpecContext) { hub = newOwnHub(ctx) }, NodeTimeout(10*time.Minute))

	// The write that the leader is about to send when it freezes arrives when the
	// other replica has brought the story to its end.
	DescribeTable("is replaced, and spoils nothing when it thaws",
		func(ctx SpecContext, name string, moment func(write) bool) {
			s := newStory(ctx, hub, name)
			flags := []string{
				"--leader-elect-namespace", "default", "--leader-elect-id", name,
				"--leader-elect-lease-duration", "4s", "--leader-elect-renew-deadline", "3s", "--leader-elect-retry-period", "500ms",
			}
			frozen, thaw, late := make(chan write, 1), make(chan struct{}), make(chan int, 1)
			leader := hub.startManager(ctx, name+"-leader", flags...)
			once := false
			leader.proxy.reset(func(number int, w write, forward func() int) fate {
				if once || !moment(w) {
					return pass(number, w, forward)
				}
				defer GinkgoRecover()
				once = true
				Expect(leader.Pause()).To(Succeed())
				frozen <- w
				<-thaw
				late <- forward()
				return answered
			})
			release := sync.OnceFunc(func() { close(thaw) })
			DeferCleanup(release) // Whatever happens, the proxy must not wait for ever.

			history := watchProgress(ctx, s)
			s.begin(ctx)
			Eventually(leader.proxy.writes).WithContext(ctx).ShouldNot(BeEmpty(), "the first replica does not lead")
			other := hub.startManager(ctx, name+"-other", flags...)
			s.succeeds(ctx, "1.0.0")
			s.releaseBadVersion(ctx)
			s.rollsBack(ctx, "2.0.0", "1.0.0")
			var held write
			Expect(frozen).To(Receive(&held), "the leader did not get to the moment of this spec")
			before, ended, writes := leader.proxy.writes(), s.outcome(ctx), other.proxy.writes()
			Expect(writes).NotTo(BeEmpty(), "the other replica has done nothing")

			release()
			var code int
			Eventually(late).WithContext(ctx).Should(Receive(&code))
			Expect(code).To(BeNumerically(">=", http.StatusBadRequest), "the hub took a late %s", held)
			Expect(leader.Continue()).To(Succeed())
			Eventually(leader.Running).WithContext(ctx).Should(BeFalse(), "it ends when it finds that it leads no more")
			Expect(leader.proxy.writes()).To(Equal(before))
			Expect(cmp.Diff(ended, s.outcome(ctx))).To(BeEmpty())
			Expect(other.proxy.writes()).To(Equal(writes))

			Expect(ended.Clusters).To(Equal(map[string]clusterOutcome{
				"canary1": {Version: "1.0.0", Delivery: 3, WorkGeneration: 4, State: v1alpha1.StateHealthy},
				"prod1":   {Version: "1.0.0", Delivery: 3, WorkGeneration: 4, State: v1alpha1.StateHealthy},
			}))
			Expect(slices.IsSortedFunc(history(), progress.compare)).To(BeTrue(), "a step back in %v", history())
			s.wipe(ctx)
		},
		Entry("when it creates a work", "creates", func(w write) bool {
			return w.isWork() && w.Method == http.MethodPost
		}, SpecTimeout(2*time.Minute)),
		Entry("when it has decided something about the run", "decides", nth(4, func(w write) bool {
			return w.Resource == "fleetrollouts" && w.Subresource == "status"
		}), SpecTimeout(2*time.Minute)),
		Entry("when it sends the second cluster forward", "forward", nth(2, func(w write) bool {
			return w.Resource == "rolloutdeliveries" && w.Method == http.MethodPost
		}), SpecTimeout(2*time.Minute)),
		Entry("when it sends a cluster back", "back", nth(3, func(w write) bool {
			return w.Resource == "rolloutdeliveries" && w.Method == http.MethodPut && w.Subresource == ""
		}), SpecTimeout(2*time.Minute)),
		Entry("when it writes the old content back", "content", nth(3, func(w write) bool {
			return w.isWork() && w.Method == http.MethodPut
		}), SpecTimeout(2*time.Minute)),
	)
})

// nth is true for the n-th write that matches.
func nth(n int, matches func(write) bool) func(write) bool {
	seen := 0
	return func(w write) bool {
		if matches(w) {
			seen++
		}
		return matches(w) && seen == n
	}
}

// progress is how far a rollout has come.
type progress struct {
	run int64
	// place is the group, from 1, and last once the run has ended.
	place int
	step  int32
}

func (p progress) compare(other progress) int {
	return slices.Compare([]int64{p.run, int64(p.place), int64(p.step)}, []int64{other.run, int64(other.place), int64(other.step)})
}

// watchProgress follows the status of the story's rollout. The function that it
// returns tells every place that the run was in, in order.
func watchProgress(ctx context.Context, s story) func() []progress {
	GinkgoHelper()
	return watchAll(ctx, s.client.(client.WithWatch), &v1alpha1.FleetRolloutList{}, func(r *v1alpha1.FleetRollout) (progress, bool) {
		if r.Status.Run == nil {
			return progress{}, false
		}
		return progressOf(r.Status.Run), true
	}, client.InNamespace(s.namespace))
}

// watchAll follows objects until the spec ends. The function that it returns
// tells what was noted of each of their versions so far, in order.
func watchAll[T client.Object, N any](ctx context.Context, c client.WithWatch, list client.ObjectList, note func(T) (N, bool), options ...client.ListOption) func() []N {
	GinkgoHelper()
	watcher, err := c.Watch(ctx, list, options...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(watcher.Stop)
	var mu sync.Mutex
	var noted []N
	go func() {
		defer GinkgoRecover()
		for event := range watcher.ResultChan() {
			object, ok := event.Object.(T)
			if !ok || event.Type == watch.Deleted {
				continue
			}
			if n, ok := note(object); ok {
				mu.Lock()
				noted = append(noted, n)
				mu.Unlock()
			}
		}
	}()
	return func() []N {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(noted)
	}
}

func progressOf(run *v1alpha1.Run) progress {
	p := progress{run: run.Number, place: len(run.FrozenGroups) + 1, step: run.Step}
	for i, g := range run.FrozenGroups {
		if run.EndedAt == nil && g.Name == run.Group {
			p.place = i + 1
		}
	}
	return p
}
