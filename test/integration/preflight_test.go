package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

var appConfig = v1alpha1.ObjectReference{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: "app"}

var _ = Describe("A preflight", func() {
	It("names what existed before, before the work is written, and remembers it", func(ctx SpecContext) {
		f := newFleet(ctx, "adopt", labelled(map[string]int{"all": 2}))
		f.set(func(c *playedCluster) { c.existing = []v1alpha1.ObjectReference{appConfig} }, f.name("all1"))
		Expect(k8s.Create(ctx, f.rollout(group("all")))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		first := f.delivery(ctx, "all1").Status
		Expect(first.Unadopted).To(Equal([]v1alpha1.ObjectReference{appConfig}))
		Expect(first.Preflight.AnsweredAt).NotTo(BeNil())
		created := f.work(ctx, "all1").CreationTimestamp
		Expect(first.Preflight.AnsweredAt.Time).To(BeTemporally("<", created.Add(1e9)), "the answer comes first")
		Expect(f.delivery(ctx, "all2").Status.Unadopted).To(BeEmpty())

		f.release(ctx, "2.0.0")
		f.succeeds(ctx, "2.0.0")
		second := f.delivery(ctx, "all1").Status
		Expect(second.Unadopted).To(Equal(first.Unadopted))
		Expect(second.Preflight).To(Equal(first.Preflight), "the same objects are not asked about again")
	})

	It("blocks a cluster without a required API, and lets it go on by itself (law 17)", func(ctx SpecContext) {
		f := newFleet(ctx, "api", labelled(map[string]int{"all": 2}))
		crontab := v1alpha1.RequiredAPI{Group: "stable.example.com", Version: "v1", Kind: "CronTab"}
		f.set(func(c *playedCluster) { c.unserved = []v1alpha1.RequiredAPI{crontab} }, f.name("all1"))
		r := f.rollout(group("all"))
		r.Spec.Requires.APIs = []v1alpha1.RequiredAPI{crontab}
		Expect(k8s.Create(ctx, r)).To(Succeed())
		Eventually(func(g Gomega) {
			r := f.get(ctx)
			g.Expect(r.Status.Clusters.Blocked).To(BeEquivalentTo(1), describe(r))
			g.Expect(r.Status.Clusters.Healthy).To(BeEquivalentTo(1), describe(r))
			g.Expect(meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionReady)).To(BeFalse())
			g.Expect(describe(r)).To(And(ContainSubstring(v1alpha1.ReasonAPINotServed), ContainSubstring(f.name("all1")), ContainSubstring("CronTab (stable.example.com/v1)")))
		}).WithContext(ctx).Should(Succeed())
		Expect(f.work(ctx, "all1").Name).To(BeEmpty())

		f.set(func(c *playedCluster) { c.unserved = nil }, f.name("all1"))
		f.succeeds(ctx, "1.0.0")
	})

	It("waits for an agent, names the command that brings it, and counts the time", func(ctx SpecContext) {
		f := newFleet(ctx, "noagent", labelled(map[string]int{"all": 1}))
		f.set(func(c *playedCluster) { c.silent = true }, f.name("all1"))
		Expect(k8s.Delete(ctx, &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: f.name("all1"), Name: v1alpha1.AddonName}})).To(Succeed())
		Expect(k8s.Create(ctx, f.rollout(group("all")))).To(Succeed())
		Eventually(func(g Gomega) {
			status := f.delivery(ctx, "all1").Status
			g.Expect(status.State).To(Equal(v1alpha1.StateProgressing))
			g.Expect(status.Reason).To(Equal(v1alpha1.ReasonAgentMissing))
			g.Expect(status.Message).To(ContainSubstring("clusteradm addon enable --names fleet-rollout --clusters " + f.name("all1")))
			g.Expect(status.WrittenAt).NotTo(BeNil())
		}).WithContext(ctx).Should(Succeed())
		Expect(k8s.Create(ctx, &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: f.name("all1"), Name: v1alpha1.AddonName}})).To(Succeed())
		f.set(func(c *playedCluster) { c.silent = false }, f.name("all1"))
		f.succeeds(ctx, "1.0.0")
	})
})

var _ = Describe("Two rollouts with one object", func() {
	It("leave it with its holder, who is named with object and cluster (L1)", func(ctx SpecContext) {
		f := newFleet(ctx, "twice", labelled(map[string]int{"all": 2}))
		f.place(ctx, "one", f.name("all1"))
		holder := f.rollout(group("all"))
		holder.Name, holder.Spec.Placements[0].Name = "holder", "one"
		Expect(k8s.Create(ctx, holder)).To(Succeed())
		key := client.ObjectKey{Namespace: f.name("all1"), Name: v1alpha1.DeliveryName(f.namespace, "holder")}
		held := &v1alpha1.RolloutDelivery{}
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, key, held)).To(Succeed())
			g.Expect(held.Status.State).To(Equal(v1alpha1.StateHealthy))
		}).WithContext(ctx).Should(Succeed())

		Expect(k8s.Create(ctx, f.rollout(group("all")))).To(Succeed())
		Eventually(func(g Gomega) {
			r := f.get(ctx)
			g.Expect(r.Status.Clusters.Blocked).To(BeEquivalentTo(1), describe(r))
			g.Expect(r.Status.Clusters.Healthy).To(BeEquivalentTo(1), "the other cluster goes on")
			g.Expect(describe(r)).To(And(ContainSubstring("ConfigMap default/app"), ContainSubstring("FleetRollout twice/holder"), ContainSubstring(f.name("all1"))))
		}).WithContext(ctx).Should(Succeed())
		Expect(f.work(ctx, "all1").Name).To(BeEmpty(), "nothing of it is written where the object is held")
		before := held.ResourceVersion
		Expect(k8s.Get(ctx, key, held)).To(Succeed())
		Expect(held.ResourceVersion).To(Equal(before), "the holder is not touched")
	})
})

var _ = Describe("Drift", func() {
	It("is told on the delivery and by an event, and so is its end; the proof stays", func(ctx SpecContext) {
		f := newFleet(ctx, "drift", labelled(map[string]int{"all": 1}))
		Expect(k8s.Create(ctx, f.rollout(group("all")))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		proven := f.delivery(ctx, "all1").Status.HealthySince
		drift := v1alpha1.ObjectDrift{ObjectReference: appConfig, Manager: "kubectl-edit", Paths: []string{".data.version"}}
		f.set(func(c *playedCluster) { c.drift = []v1alpha1.ObjectDrift{drift} }, f.name("all1"))
		Eventually(func(g Gomega) {
			status := f.delivery(ctx, "all1").Status
			g.Expect(status.Drift).To(Equal([]v1alpha1.ObjectDrift{drift}))
			g.Expect(status.Message).To(ContainSubstring("kubectl-edit has taken .data.version of ConfigMap default/app"))
			g.Expect(status.HealthySince).To(Equal(proven))
			g.Expect(events(ctx, f.name("all1"))).To(ContainElement("Drifted"))
		}).WithContext(ctx).Should(Succeed())
		f.set(func(c *playedCluster) { c.drift = nil }, f.name("all1"))
		Eventually(func(g Gomega) {
			g.Expect(f.delivery(ctx, "all1").Status.Drift).To(BeEmpty())
			g.Expect(events(ctx, f.name("all1"))).To(ContainElement("DriftEnded"))
		}).WithContext(ctx).Should(Succeed())
		f.succeeds(ctx, "1.0.0")
	})
})

// events are the reasons of the events in a namespace.
func events(ctx context.Context, namespace string) []string {
	GinkgoHelper()
	var list corev1.EventList
	Expect(k8s.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
	var reasons []string
	for _, event := range list.Items {
		reasons = append(reasons, event.Reason)
	}
	return reasons
}
