package integration

import (
	"math/rand"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

var _ = Describe("Being killed", func() {
	It("costs neither a served soak nor a second write, at whatever moment it comes (K4)", func(ctx SpecContext) {
		random := rand.New(rand.NewSource(GinkgoRandomSeed()))
		f := newFleet(ctx, "killed", labelled(map[string]int{"canary": 1, "prod": 2}))
		Expect(k8s.Create(ctx, f.rollout(group("canary", step("100%", 10)), group("prod", step("50%", 4), step("100%", 0))))).To(Succeed())
		f.succeeds(ctx, "1.0.0")

		soaks := map[time.Time]bool{}
		note := func() v1alpha1.RunPhase {
			run := f.get(ctx).Status.Run
			if run.Revision.Version != "2.0.0" {
				return ""
			}
			if run.Group == "canary" && run.SoakStartedAt != nil {
				soaks[run.SoakStartedAt.Time] = true
			}
			return run.Phase
		}
		f.release(ctx, "2.0.0")
		kills := 0
		for phase := note(); phase != v1alpha1.RunSucceeded && kills < 4; phase = note() {
			pause := time.Duration(random.Int63n(int64(3 * time.Second)))
			if kills > 0 {
				pause += 4 * time.Second // Another one leads only when the dead one's lease is over.
			}
			GinkgoWriter.Printf("killed %s later\n", pause)
			due := time.Now().Add(pause)
			Eventually(func() time.Time { note(); return time.Now() }).WithContext(ctx).Should(BeTemporally(">=", due))
			Expect(manager.Kill()).To(Succeed())
			Expect(manager.Start(ctx)).To(Succeed())
			kills++
		}
		f.succeeds(ctx, "2.0.0")
		Expect(kills).To(BeNumerically(">=", 2))
		Expect(soaks).To(HaveLen(1), "a soak that was served counts on")
		for _, suffix := range []string{"canary1", "prod1", "prod2"} {
			Expect(f.work(ctx, suffix).Generation).To(BeEquivalentTo(2), "written once for each revision")
			Expect(f.delivery(ctx, suffix).Spec.Delivery).To(BeEquivalentTo(2))
		}
		for soak := range soaks {
			Expect(f.delivery(ctx, "prod1").Status.WrittenAt.Time).To(BeTemporally(">=", soak.Add(10*time.Second)))
		}
		Expect(f.get(ctx).Status.Run.Number).To(BeEquivalentTo(2))
		Expect(f.get(ctx).Status.Run.Attempt).To(BeEquivalentTo(1))
	}, SpecTimeout(3*time.Minute))
})
