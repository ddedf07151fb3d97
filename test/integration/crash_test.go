package integration

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// killsApart is after how many writes a manager is killed again. The story takes
// about fifty writes, so every run sees five deaths; and the first death comes
// one write later in every run, so that in the end each write was the last one
// of a manager.
const killsApart = 9

var _ = Describe("A manager that is killed", Ordered, Label("slow"), func() {
	var (
		hub       *ownHub
		want      outcome
		wantWorks int
	)
	// tell plays the story with a manager of its own, and returns how it ended
	// and how many writes of ManifestWorks the hub accepted.
	tell := func(ctx SpecContext, name string, intercept func(*proxiedManager) interceptor) (outcome, int) {
		GinkgoHelper()
		s := newStory(ctx, hub, name)
		m := hub.startManager(ctx, name, "--leader-elect=false")
		m.proxy.reset(intercept(m))
		s.play(ctx)
		ended, works := s.outcome(ctx), countWorks(m.proxy.writes())
		Expect(m.Kill()).To(Succeed())
		s.wipe(ctx)
		return ended, works
	}
	undisturbed := func(*proxiedManager) interceptor { return pass }

	BeforeAll(func(ctx SpecContext) {
		hub = newOwnHub(ctx)
		want, wantWorks = tell(ctx, "undisturbed", undisturbed)
		Expect(want.Clusters).To(HaveKeyWithValue("canary1", clusterOutcome{
			Version: "1.0.0", Delivery: 3, WorkGeneration: 4, State: "Healthy",
		}), "forward twice with one write each, and back with two")
	}, NodeTimeout(10*time.Minute))

	DescribeTable("leaves the same behind as one that lives, whichever write it dies at",
		func(ctx SpecContext, name string, dying func(forward func() int)) {
			for first := 1; first <= killsApart; first++ {
				var killedAt []string
				ended, works := tell(ctx, fmt.Sprintf("%s-%d", name, first), func(m *proxiedManager) interceptor {
					return func(number int, w write, forward func() int) fate {
						if number%killsApart != first%killsApart {
							return pass(number, w, forward)
						}
						killedAt = append(killedAt, fmt.Sprintf("%d: %s", number, w))
						dying(forward)
						m.dieAndLive(ctx)
						return lost
					}
				})
				Expect(cmp.Diff(want, ended)).To(BeEmpty(), "killed at %q", killedAt)
				Expect(works).To(Equal(wantWorks), "writes of ManifestWorks, killed at %q", killedAt)
				Expect(len(killedAt)).To(BeNumerically(">=", 2), "the story is too short for this spec")
			}
		},
		Entry("before the answer reaches it", "unanswered", func(forward func() int) { forward() }, SpecTimeout(5*time.Minute)),
		Entry("before the write reaches the hub", "unsent", func(func() int) {}, SpecTimeout(5*time.Minute)),
	)

	It("writes nothing after its start when there is nothing to do", func(ctx SpecContext) {
		s := newStory(ctx, hub, "restarted")
		m := hub.startManager(ctx, "restarted", "--leader-elect=false")
		s.play(ctx)
		Expect(m.Kill()).To(Succeed())
		m.proxy.reset(pass)
		m.dieAndLive(ctx)
		Consistently(m.proxy.writes, 4*time.Second).WithContext(ctx).Should(BeEmpty())
		s.wipe(ctx)
	})
})

// countWorks counts the writes of ManifestWork specs.
func countWorks(writes []write) int {
	n := 0
	for _, w := range writes {
		if w.isWork() {
			n++
		}
	}
	return n
}
