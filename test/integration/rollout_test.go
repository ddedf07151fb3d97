package integration

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

var _ = Describe("Rolling out", func() {
	It("walks the groups in order, soaks, and makes the revision stable", func(ctx SpecContext) {
		f := newFleet(ctx, "walk", labelled(map[string]int{"canary": 1, "prod": 3}))
		Expect(k8s.Create(ctx, f.rollout(group("canary", step("100%", 2)), group("prod", step("34%", 1), step("100%", 0))))).To(Succeed())
		f.succeeds(ctx, "1.0.0")

		canary := f.delivery(ctx, "canary1")
		firstProd := f.delivery(ctx, "prod1")
		lastProd := f.delivery(ctx, "prod3")
		Expect(firstProd.Status.WrittenAt.Time).To(BeTemporally(">=", after(canary.Status.ProvenAt, 2)))
		Expect(firstProd.Spec.Step).To(BeEquivalentTo(1))
		Expect(lastProd.Spec.Step).To(BeEquivalentTo(2))
		Expect(lastProd.Status.WrittenAt.Time).To(BeTemporally(">=", after(firstProd.Status.ProvenAt, 1)))
		Expect(f.verdict(ctx, "1.0.0")).To(Equal(v1alpha1.VerdictSucceeded))
		Expect(f.get(ctx).Status.Clusters.Progress).To(Equal("4/4"))
	})

	It("names an unknown placement, and starts when it appears", func(ctx SpecContext) {
		f := newFleet(ctx, "unknown", labelled(map[string]int{"canary": 1}))
		r := f.rollout(group("canary"))
		r.Spec.Placements = []v1alpha1.PlacementReference{{Name: "nowhere"}}
		Expect(k8s.Create(ctx, r)).To(Succeed())
		Eventually(func(g Gomega) {
			r := f.get(ctx)
			g.Expect(ready(r)).To(Equal(v1alpha1.ReasonPlacementNotFound), describe(r))
			g.Expect(describe(r)).To(ContainSubstring("nowhere"))
		}).WithContext(ctx).Should(Succeed())
		Expect(f.delivery(ctx, "canary1").Name).To(BeEmpty())
		f.edit(ctx, func(r *v1alpha1.FleetRollout) { r.Spec.Placements[0].Name = placementName })
		f.succeeds(ctx, "1.0.0")
	})

	It("admits the share that the law says, for odd sizes too (B1)", func(ctx SpecContext) {
		f := newFleet(ctx, "share", labelled(map[string]int{"all": 5}))
		r := f.rollout(group("all", step("10%", 3600), step("50%", 3600), step("100%", 0)))
		Expect(k8s.Create(ctx, r)).To(Succeed())
		Eventually(func(g Gomega) {
			r := f.get(ctx)
			g.Expect(r.Status.Run).NotTo(BeNil())
			g.Expect(r.Status.Run.SoakStartedAt).NotTo(BeNil(), describe(r))
		}).WithContext(ctx).Should(Succeed())
		Expect(*f.get(ctx).Status.Run.StepTarget).To(BeEquivalentTo(1))
		Expect(f.versions(ctx, "all1", "all2", "all3", "all4", "all5")).To(Equal([]string{"1.0.0", "", "", "", ""}))
	})

	It("gives a cluster that joins during a run the stable revision, and the new one in its turn (A3)", func(ctx SpecContext) {
		f := newFleet(ctx, "join", labelled(map[string]int{"canary": 1, "prod": 1}))
		Expect(k8s.Create(ctx, f.rollout(group("canary", step("100%", 6)), group("prod")))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		f.release(ctx, "2.0.0")
		Eventually(func() string { return f.work(ctx, "canary1").Annotations[v1alpha1.AnnotationDelivery] }).WithContext(ctx).Should(Equal("2"))
		canary := f.work(ctx, "canary1")

		f.join(ctx, f.name("prod7"), map[string]string{"group": "prod"})
		f.decide(ctx, append(f.clusters, f.name("prod7"))...)
		Eventually(func() string { return f.delivery(ctx, "prod7").Spec.Revision.Version }).WithContext(ctx).Should(Equal("1.0.0"))
		f.succeeds(ctx, "2.0.0")
		joined := f.delivery(ctx, "prod7")
		Expect(joined.Spec.Revision.Version).To(Equal("2.0.0"))
		Expect(joined.Spec.Delivery).To(BeEquivalentTo(2), "stable once, the new one exactly once")
		Expect(joined.Status.WrittenAt.Time).To(BeTemporally(">=", after(f.delivery(ctx, "canary1").Status.ProvenAt, 6)))
		Expect(f.get(ctx).Status.Clusters.Selected).To(BeEquivalentTo(3))
		Expect(f.work(ctx, "canary1").Generation).To(Equal(canary.Generation), "the canary is not run again")
	})

	It("starts anew with a revision pushed during a soak, and never returns to the one in between (C1)", func(ctx SpecContext) {
		f := newFleet(ctx, "supersede", labelled(map[string]int{"canary": 2, "prod": 1}))
		r := f.rollout(group("canary", step("100%", 4)), group("prod"))
		r.Spec.Strategy.Groups[0].FailureBudget = &v1alpha1.FailureBudget{Clusters: intstr.FromInt32(1)}
		r.Spec.Strategy.FailureBudget = &v1alpha1.FailureBudget{Clusters: intstr.FromInt32(1)}
		Expect(k8s.Create(ctx, r)).To(Succeed())
		f.succeeds(ctx, "1.0.0")

		// One failure of 2.0.0 uses the budget up; a second one of 3.0.0 must not be added to it.
		f.set(func(c *playedCluster) { c.health = healthOf("2.0.0", v1alpha1.HealthFailed) }, f.name("canary2"))
		f.release(ctx, "2.0.0")
		Eventually(func(g Gomega) {
			r := f.get(ctx)
			g.Expect(r.Status.Clusters.Failed).To(BeEquivalentTo(1), describe(r))
			g.Expect(r.Status.Run.SoakStartedAt).NotTo(BeNil(), describe(r))
		}).WithContext(ctx).Should(Succeed())

		f.set(func(c *playedCluster) { c.health = healthOf("3.0.0", v1alpha1.HealthFailed) }, f.name("canary1"))
		f.release(ctx, "3.0.0")
		Eventually(func() v1alpha1.Verdict { return f.verdict(ctx, "2.0.0") }).WithContext(ctx).Should(Equal(v1alpha1.VerdictSuperseded))
		Eventually(func(g Gomega) {
			r := f.get(ctx)
			g.Expect(r.Status.Run.Revision.Version).To(Equal("3.0.0"))
			g.Expect(r.Status.Run.SoakStartedAt).NotTo(BeNil(), describe(r))
		}).WithContext(ctx).Should(Succeed())
		Expect(f.versions(ctx, "prod1")).To(Equal([]string{"1.0.0"}))
		soak := f.get(ctx).Status.Run.SoakStartedAt
		Expect(soak.Time).To(BeTemporally(">=", f.delivery(ctx, "canary2").Status.ProvenAt.Time), "the soak began again")

		f.set(func(c *playedCluster) { c.health = healthOf("3.0.0", v1alpha1.HealthFailed) }, f.name("canary2"))
		f.rollsBack(ctx, "3.0.0", "1.0.0")
		Expect(f.versions(ctx, "canary1", "canary2", "prod1")).To(Equal([]string{"1.0.0", "1.0.0", "1.0.0"}))
	})

	It("believes nothing of an earlier generation (D1)", func(ctx SpecContext) {
		f := newFleet(ctx, "stale", labelled(map[string]int{"canary": 1}))
		Expect(k8s.Create(ctx, f.rollout(group("canary")))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		f.set(func(c *playedCluster) { c.frozenWork = true }, f.clusters...)
		f.release(ctx, "2.0.0")
		// The report says healthy at the new delivery; only Applied is still about the old generation.
		Eventually(func() int64 { return f.work(ctx, "canary1").Generation }).WithContext(ctx).Should(BeEquivalentTo(2))
		Consistently(func(g Gomega) {
			r := f.get(ctx)
			g.Expect(r.Status.Run.SoakStartedAt).To(BeNil())
			g.Expect(r.Status.StableRevision.Version).To(Equal("1.0.0"))
			g.Expect(f.delivery(ctx, "canary1").Status.State).NotTo(Equal(v1alpha1.StateHealthy))
		}, 3*time.Second).WithContext(ctx).Should(Succeed())
		f.set(func(c *playedCluster) { c.frozenWork = false }, f.clusters...)
		f.succeeds(ctx, "2.0.0")
	})

	It("writes one cluster after the other, each a while after the one before is proven (I1)", func(ctx SpecContext) {
		f := newFleet(ctx, "one", labelled(map[string]int{"all": 3}))
		g := group("all")
		g.MaxConcurrent, g.MinSuccessSeconds = ptr.To(intstr.FromInt32(1)), 2
		Expect(k8s.Create(ctx, f.rollout(g))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		f.release(ctx, "2.0.0")
		f.succeeds(ctx, "2.0.0")
		for i := 2; i <= 3; i++ {
			before, next := f.delivery(ctx, fmt.Sprintf("all%d", i-1)), f.delivery(ctx, fmt.Sprintf("all%d", i))
			Expect(next.Status.WrittenAt.Time).To(BeTemporally(">=", after(before.Status.ProvenAt, 2)))
		}
	})

	It("starts the soak again after a spell of bad health, and shows the spell (I5)", func(ctx SpecContext) {
		f := newFleet(ctx, "soak", labelled(map[string]int{"canary": 1, "prod": 1}))
		Expect(k8s.Create(ctx, f.rollout(group("canary", step("100%", 5)), group("prod")))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		f.release(ctx, "2.0.0")
		soaking := func(g Gomega) {
			r := f.get(ctx)
			g.Expect(r.Status.Run.Revision.Version).To(Equal("2.0.0"))
			g.Expect(r.Status.Run.SoakStartedAt).NotTo(BeNil(), describe(r))
		}
		Eventually(soaking).WithContext(ctx).Should(Succeed())
		first := f.get(ctx).Status.Run.SoakStartedAt
		f.set(func(c *playedCluster) { c.health = healthOf("2.0.0", v1alpha1.HealthDegraded) }, f.name("canary1"))
		Eventually(func(g Gomega) {
			g.Expect(f.get(ctx).Status.Run.SoakStartedAt).To(BeNil())
			d := f.delivery(ctx, "canary1")
			g.Expect(d.Status.State).To(Equal(v1alpha1.StateDegraded))
			g.Expect(d.Status.UnhealthySince).NotTo(BeNil())
		}).WithContext(ctx).Should(Succeed())
		f.set(func(c *playedCluster) { c.health = alwaysHealthy }, f.name("canary1"))
		Eventually(soaking).WithContext(ctx).Should(Succeed())
		second := f.get(ctx).Status.Run.SoakStartedAt
		Expect(second.Time).To(BeTemporally(">", first.Time))
		f.succeeds(ctx, "2.0.0")
		Expect(f.delivery(ctx, "prod1").Status.WrittenAt.Time).To(BeTemporally(">=", after(second, 5)))
	})
})

var _ = Describe("Going back", func() {
	It("returns to the revision that succeeded, not to one that failed (G1)", func(ctx SpecContext) {
		f := newFleet(ctx, "target", labelled(map[string]int{"canary": 1, "prod": 1}))
		Expect(k8s.Create(ctx, f.rollout(group("canary"), group("prod")))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		f.set(func(c *playedCluster) {
			c.health = func(v string) v1alpha1.Health {
				if v == "1.0.0" {
					return v1alpha1.HealthHealthy
				}
				return v1alpha1.HealthFailed
			}
		}, f.clusters...)
		f.release(ctx, "2.0.0")
		f.rollsBack(ctx, "2.0.0", "1.0.0")
		f.release(ctx, "3.0.0")
		f.rollsBack(ctx, "3.0.0", "1.0.0")
		Expect(f.verdict(ctx, "2.0.0")).To(Equal(v1alpha1.VerdictFailed))
		Expect(f.verdict(ctx, "3.0.0")).To(Equal(v1alpha1.VerdictFailed))
		Expect(f.versions(ctx, "canary1", "prod1")).To(Equal([]string{"1.0.0", "1.0.0"}))
		Expect(f.delivery(ctx, "prod1").Spec.Delivery).To(BeEquivalentTo(1), "production was never touched")
	})

	It("says that there is nothing to return to, leaves the workloads, and takes the next good revision (G3)", func(ctx SpecContext) {
		f := newFleet(ctx, "first", labelled(map[string]int{"canary": 1, "prod": 1}))
		f.set(func(c *playedCluster) { c.health = healthOf("1.0.0", v1alpha1.HealthFailed) }, f.clusters...)
		Expect(k8s.Create(ctx, f.rollout(group("canary"), group("prod")))).To(Succeed())
		Eventually(func() string { return ready(f.get(ctx)) }).WithContext(ctx).Should(Equal(v1alpha1.ReasonNoRollbackTarget))
		before := f.work(ctx, "canary1")
		Expect(before.Name).NotTo(BeEmpty())
		Consistently(func(g Gomega) {
			g.Expect(f.work(ctx, "canary1").Generation).To(Equal(before.Generation))
			g.Expect(f.get(ctx).Status.Run.Number).To(BeEquivalentTo(1))
			g.Expect(f.delivery(ctx, "prod1").Name).To(BeEmpty())
		}, 3*time.Second).WithContext(ctx).Should(Succeed())
		f.release(ctx, "2.0.0")
		f.succeeds(ctx, "2.0.0")
	})

	It("measures the deadline from the write of the new revision, not from the last run (I7)", func(ctx SpecContext) {
		f := newFleet(ctx, "deadline", labelled(map[string]int{"canary": 1}))
		r := f.rollout(group("canary"))
		r.Spec.Strategy.ProgressDeadlineSeconds = ptr.To[int32](4)
		Expect(k8s.Create(ctx, r)).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		// Longer than the deadline after the first run ended.
		ended := f.get(ctx).Status.Run.EndedAt
		Eventually(time.Now).WithContext(ctx).Should(BeTemporally(">", after(ended, 5)))

		f.set(func(c *playedCluster) { c.health = healthOf("2.0.0", v1alpha1.HealthProgressing) }, f.clusters...)
		f.release(ctx, "2.0.0")
		Eventually(func() v1alpha1.DeliveryState { return f.delivery(ctx, "canary1").Status.State }).
			WithContext(ctx).Should(Equal(v1alpha1.StateProgressing))
		written := f.delivery(ctx, "canary1").Status.WrittenAt
		Consistently(func() v1alpha1.RunPhase { return f.get(ctx).Status.Run.Phase }, time.Until(after(written, 3))).
			WithContext(ctx).Should(Equal(v1alpha1.RunProgressing))
		f.set(func(c *playedCluster) { c.health = alwaysHealthy }, f.clusters...)
		f.succeeds(ctx, "2.0.0")
		Expect(f.verdict(ctx, "2.0.0")).To(Equal(v1alpha1.VerdictSucceeded))

		f.set(func(c *playedCluster) { c.health = healthOf("3.0.0", v1alpha1.HealthProgressing) }, f.clusters...)
		f.release(ctx, "3.0.0")
		f.rollsBack(ctx, "3.0.0", "2.0.0")
		record := f.get(ctx).Status.Rollbacks[0]
		Expect(record.Cause.Message).NotTo(BeEmpty())
		Expect(record.Trigger).To(Equal(v1alpha1.TriggerBudgetSpent))
	})

	It("halts and stays halted with mode Manual, until a new revision", func(ctx SpecContext) {
		f := newFleet(ctx, "manual", labelled(map[string]int{"canary": 1, "prod": 1}))
		r := f.rollout(group("canary"), group("prod"))
		r.Spec.Rollback.Mode = v1alpha1.RollbackManual
		Expect(k8s.Create(ctx, r)).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		f.set(func(c *playedCluster) { c.health = healthOf("2.0.0", v1alpha1.HealthFailed) }, f.name("canary1"))
		f.release(ctx, "2.0.0")
		Eventually(func() v1alpha1.RunPhase { return f.get(ctx).Status.Run.Phase }).WithContext(ctx).Should(Equal(v1alpha1.RunHalted))
		f.set(func(c *playedCluster) { c.health = alwaysHealthy }, f.name("canary1"))
		Consistently(func(g Gomega) {
			g.Expect(f.get(ctx).Status.Run.Phase).To(Equal(v1alpha1.RunHalted), "recovery does not end a halt")
			g.Expect(f.versions(ctx, "canary1", "prod1")).To(Equal([]string{"2.0.0", "1.0.0"}))
		}, 3*time.Second).WithContext(ctx).Should(Succeed())
		f.release(ctx, "3.0.0")
		f.succeeds(ctx, "3.0.0")
	})

	It("does nothing forward while paused, and still goes back", func(ctx SpecContext) {
		f := newFleet(ctx, "paused", labelled(map[string]int{"canary": 1, "prod": 1}))
		Expect(k8s.Create(ctx, f.rollout(group("canary", step("100%", 2)), group("prod")))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		f.release(ctx, "2.0.0")
		Eventually(func() string { return f.delivery(ctx, "canary1").Spec.Revision.Version }).WithContext(ctx).Should(Equal("2.0.0"))
		f.edit(ctx, func(r *v1alpha1.FleetRollout) { r.Spec.Paused = true })
		Eventually(func() string { return ready(f.get(ctx)) }).WithContext(ctx).Should(Equal(v1alpha1.ReasonPaused))
		Consistently(func() []string { return f.versions(ctx, "prod1") }, 4*time.Second).WithContext(ctx).Should(Equal([]string{"1.0.0"}))
		f.set(func(c *playedCluster) { c.health = healthOf("2.0.0", v1alpha1.HealthFailed) }, f.name("canary1"))
		f.rollsBack(ctx, "2.0.0", "1.0.0")
	})
})

var _ = Describe("A refused edit", func() {
	It("leaves the running revision as it was, and names object and field", func(ctx SpecContext) {
		f := newFleet(ctx, "refused", labelled(map[string]int{"canary": 1}))
		r := f.rollout(group("canary"))
		r.Spec.Template.Components[0].Manifests = append(r.Spec.Template.Components[0].Manifests, manifest(deployment("a")))
		Expect(k8s.Create(ctx, r)).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		before := f.work(ctx, "canary1")
		f.edit(ctx, func(r *v1alpha1.FleetRollout) {
			r.Spec.Version = "2.0.0"
			r.Spec.Template.Components[0].Manifests[1] = manifest(deployment("b"))
		})
		Eventually(func(g Gomega) {
			r := f.get(ctx)
			g.Expect(ready(r)).To(Equal(v1alpha1.ReasonInvalidSpec), describe(r))
			g.Expect(describe(r)).To(And(ContainSubstring("spec.selector"), ContainSubstring("Deployment")))
		}).WithContext(ctx).Should(Succeed())
		Expect(f.work(ctx, "canary1").Generation).To(Equal(before.Generation))
		Expect(f.get(ctx).Status.StableRevision.Version).To(Equal("1.0.0"))
	})
})

func deployment(app string) map[string]any {
	labels := map[string]any{"app": app}
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "app", "namespace": "default"},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "app", "image": "registry.example.com/app:1"}}},
			},
		},
	}
}

var _ = Describe("Deleting a rollout", func() {
	It("removes its works and deliveries, names an unreachable cluster, and lets that one be detached", func(ctx SpecContext) {
		f := newFleet(ctx, "delete", labelled(map[string]int{"canary": 2}))
		Expect(k8s.Create(ctx, f.rollout(group("canary")))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		f.set(func(c *playedCluster) { c.silent = true }, f.name("canary2"))
		f.setAvailable(ctx, f.name("canary2"), metav1.ConditionUnknown)
		Expect(k8s.Delete(ctx, f.get(ctx))).To(Succeed())
		Eventually(func() string { return f.work(ctx, "canary1").Name }).WithContext(ctx).Should(BeEmpty())
		Eventually(func(g Gomega) {
			r := f.get(ctx)
			g.Expect(ready(r)).To(Equal(v1alpha1.ReasonDeleting))
			g.Expect(describe(r)).To(ContainSubstring(f.name("canary2")))
			g.Expect(describe(r)).NotTo(ContainSubstring(f.name("canary1")))
		}).WithContext(ctx).Should(Succeed())

		cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: f.name("canary2")}}
		Expect(k8s.Delete(ctx, cluster)).To(Succeed())
		key := client.ObjectKey{Namespace: f.namespace, Name: rolloutName}
		Eventually(func() error { return k8s.Get(ctx, key, &v1alpha1.FleetRollout{}) }).WithContext(ctx).ShouldNot(Succeed())
		Expect(f.delivery(ctx, "canary1").Name).To(BeEmpty())
	})
})
