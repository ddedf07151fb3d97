package integration

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

var _ = Describe("A fleet that changes", func() {
	It("does not wait for a cluster that cannot be reached, and takes it along when it returns (A1)", func(ctx SpecContext) {
		f := newFleet(ctx, "edge", labelled(map[string]int{"all": 5}))
		g := group("all")
		g.MaxConcurrent = ptr.To(intstr.FromInt32(2))
		r := f.rollout(g)
		r.Spec.Strategy.FailureBudget = &v1alpha1.FailureBudget{Clusters: intstr.FromInt32(1)}
		Expect(k8s.Create(ctx, r)).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		f.set(func(c *playedCluster) { c.silent = true }, f.name("all3"))
		f.setAvailable(ctx, f.name("all3"), metav1.ConditionUnknown)
		Eventually(func() int32 { return f.get(ctx).Status.Clusters.Unreachable }).WithContext(ctx).Should(BeEquivalentTo(1))

		f.release(ctx, "2.0.0")
		Eventually(func(g Gomega) {
			r := f.get(ctx)
			g.Expect(r.Status.Clusters.Progress).To(Equal("4/5"), describe(r))
			g.Expect(r.Status.Clusters.Failed).To(BeZero(), describe(r))
			g.Expect(r.Status.Clusters.Unreachable).To(BeEquivalentTo(1), describe(r))
			g.Expect(r.Status.Run.Phase).To(Equal(v1alpha1.RunSucceeded), describe(r))
			g.Expect(ready(r)).To(Equal(v1alpha1.ReasonClustersNotReady), "no claim of full success")
			g.Expect(describe(r)).To(ContainSubstring(f.name("all3")))
		}).WithContext(ctx).Should(Succeed())

		f.setAvailable(ctx, f.name("all3"), metav1.ConditionTrue)
		f.set(func(c *playedCluster) { c.silent = false }, f.name("all3"))
		f.succeeds(ctx, "2.0.0")
		Expect(f.get(ctx).Status.Clusters.Progress).To(Equal("5/5"))
		Expect(f.versions(ctx, "all3")).To(Equal([]string{"2.0.0"}))
	})

	It("follows the rollout to another placement, and touches nothing that stays (A6)", func(ctx SpecContext) {
		f := newFleet(ctx, "move", labelled(map[string]int{"all": 3}))
		f.decide(ctx, f.name("all1"), f.name("all2"))
		f.place(ctx, "next", f.name("all2"), f.name("all3"))
		foreign := &workv1.ManifestWork{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.name("all1"), Name: "foreign"},
			Spec: workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{
				{RawExtension: runtime.RawExtension{Raw: template("0.1.0").Components[0].Manifests[0].Raw}},
			}}},
		}
		Expect(k8s.Create(ctx, foreign)).To(Succeed())
		Expect(k8s.Create(ctx, f.rollout(group("all")))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		stays, leaves := f.work(ctx, "all2"), f.work(ctx, "all1")

		f.edit(ctx, func(r *v1alpha1.FleetRollout) { r.Spec.Placements[0].Name = "next" })
		Eventually(func() string { return f.delivery(ctx, "all3").Spec.Revision.Version }).WithContext(ctx).Should(Equal("1.0.0"))
		Eventually(func() *v1alpha1.Proof { return f.delivery(ctx, "all3").Status.Proven }).WithContext(ctx).ShouldNot(BeNil())
		Expect(f.work(ctx, "all1").UID).To(Equal(leaves.UID), "a removal waits for a minute of stable decisions")
		Eventually(func() string { return f.work(ctx, "all1").Name }, 90*time.Second).WithContext(ctx).Should(BeEmpty())
		Eventually(func() string { return f.delivery(ctx, "all1").Name }).WithContext(ctx).Should(BeEmpty())
		f.succeeds(ctx, "1.0.0")
		now := f.work(ctx, "all2")
		Expect(now.UID).To(Equal(stays.UID))
		Expect(now.Generation).To(Equal(stays.Generation))
		Expect(f.get(ctx).Status.Clusters.Progress).To(Equal("2/2"))
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(foreign), foreign)).To(Succeed())
		Expect(foreign.DeletionTimestamp).To(BeNil())
		Expect(f.get(ctx).Status.Run.Number).To(BeEquivalentTo(1), "another placement is no revision")
	})

	It("lets a cluster that changes its group in mid soak end what it began (B5)", func(ctx SpecContext) {
		f := newFleet(ctx, "label", labelled(map[string]int{"canary": 1, "prod": 2}))
		Expect(k8s.Create(ctx, f.rollout(group("canary", step("100%", 6)), group("prod")))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		f.release(ctx, "2.0.0")
		soaking := f.soaks(ctx, "2.0.0")
		work := f.work(ctx, "canary1")
		Eventually(time.Now).WithContext(ctx).Should(BeTemporally(">=", soaking.Add(3*time.Second)))
		cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: f.name("canary1")}}
		Expect(edit(ctx, cluster, func(c *clusterv1.ManagedCluster) { c.Labels["group"] = "prod" })).To(Succeed())

		f.succeeds(ctx, "2.0.0")
		now, d := f.work(ctx, "canary1"), f.delivery(ctx, "canary1")
		Expect(now.UID).To(Equal(work.UID))
		Expect(now.Generation).To(Equal(work.Generation), "neither deleted nor rewritten")
		Expect(d.Spec.Group).To(Equal("canary"), "a written cluster stays in its group")
		Expect(d.Spec.Delivery).To(BeEquivalentTo(2))
		Expect(f.get(ctx).Status.Clusters.Progress).To(Equal("3/3"), "it counts once")
		for _, suffix := range []string{"prod1", "prod2"} {
			Expect(f.delivery(ctx, suffix).Status.WrittenAt.Time).To(BeTemporally(">=", soaking.Add(6*time.Second)))
		}
	})

	It("handles 250 clusters once, while a page of the decisions is made anew with other members (M3)", func(ctx SpecContext) {
		f := &fleet{player: play(k8s), namespace: "crowd"}
		f.leaseSeconds, f.crowd = 600, f.namespace // Renewals are not what this spec is about.
		labels := map[string]map[string]string{}
		for i := range 255 {
			labels[fmt.Sprintf("%03d", i)] = map[string]string{"group": map[bool]string{true: "canary", false: "prod"}[i%25 == 0]}
		}
		f.fill(ctx, labels)
		selected, late := f.clusters[:250], f.clusters[250:]
		f.decide(ctx, selected...)
		Expect(k8s.Create(ctx, f.rollout(group("canary"), group("prod", step("50%", 0), step("100%", 0))))).To(Succeed())
		Eventually(func(g Gomega) {
			r := f.get(ctx)
			g.Expect(r.Status.Run).NotTo(BeNil(), describe(r))
			g.Expect(r.Status.Run.Group).To(Equal("prod"), describe(r))
			g.Expect(r.Status.Clusters.Selected).To(BeEquivalentTo(250))
		}, time.Minute).WithContext(ctx).Should(Succeed())

		page := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: placementName + "-decision-3"}}
		Expect(k8s.Delete(ctx, page)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(describe(f.get(ctx))).To(ContainSubstring(v1alpha1.ReasonDecisionsIncomplete))
		}).WithContext(ctx).Should(Succeed())
		// The last five of the page are not in it any more; five others are.
		f.decide(ctx, append(append([]string{}, selected[:245]...), late...)...)

		Eventually(func(g Gomega) {
			r := f.get(ctx)
			g.Expect(r.Status.Run.Phase).To(Equal(v1alpha1.RunSucceeded), describe(r))
		}, 2*time.Minute).WithContext(ctx).Should(Succeed())
		var deliveries v1alpha1.RolloutDeliveryList
		Expect(k8s.List(ctx, &deliveries, client.MatchingLabels{v1alpha1.LabelRolloutNamespace: f.namespace})).To(Succeed())
		has := map[string]bool{}
		for _, d := range deliveries.Items {
			has[d.Namespace] = true
			Expect(d.Spec.Delivery).To(BeEquivalentTo(1), d.Namespace)
			Expect(d.Spec.Removal).To(BeEmpty(), d.Namespace)
			suffix := d.Namespace[len(f.namespace)+1:]
			Expect(d.Spec.Group).To(Equal(labels[suffix]["group"]), d.Namespace)
		}
		for _, cluster := range append(append([]string{}, selected[:245]...), late...) {
			Expect(has).To(HaveKey(cluster))
		}
		var works workv1.ManifestWorkList
		Expect(k8s.List(ctx, &works, client.MatchingLabels{v1alpha1.LabelRolloutNamespace: f.namespace})).To(Succeed())
		for _, w := range works.Items {
			Expect(w.Generation).To(BeEquivalentTo(1), w.Namespace)
		}
		var events corev1.EventList
		Expect(k8s.List(ctx, &events, client.InNamespace(f.namespace))).To(Succeed())
		Expect(events.Items).NotTo(BeEmpty())
		for _, e := range events.Items {
			Expect(len(e.Message)).To(BeNumerically("<=", 1024))
		}
	}, SpecTimeout(5*time.Minute))
})
