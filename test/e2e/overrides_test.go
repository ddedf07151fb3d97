package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

var _ = Describe("Overrides on real clusters", Ordered, func() {
	edge := bulk{name: "edge"}
	// A claim that is made on the cluster, and that its klusterlet reports.
	const claim = "site.example.com"
	site := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.open-cluster-management.io/v1alpha1", "kind": "ClusterClaim",
		"metadata": map[string]any{"name": claim}, "spec": map[string]any{"value": "Berlin: \"Mitte\""},
	}}

	overrides := func(pulled string) []v1alpha1.Override {
		return []v1alpha1.Override{{
			Name:            "second",
			ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"e2e-override": "yes"}},
			ClaimSelector: &v1alpha1.ClaimSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: claim, Operator: metav1.LabelSelectorOpExists}}},
			Exclude: []v1alpha1.ObjectTarget{{Kind: "ConfigMap", Name: "spare"}},
			Patches: []v1alpha1.Patch{
				{Target: v1alpha1.ObjectTarget{Kind: "ConfigMap", Name: "facts"},
					Patch: "data: {cluster: \"${cluster.name}\", site: \"${cluster.claims['" + claim + "']}\"}"},
				{Target: v1alpha1.ObjectTarget{Kind: "Deployment"},
					Patch: `[{"op": "replace", "path": "/spec/replicas", "value": 2}]`},
			},
			Images: []v1alpha1.ImageOverride{{Name: pulled, NewTag: "edge"}},
		}}
	}
	facts := func(ctx SpecContext, cluster string) map[string]string {
		config := &corev1.ConfigMap{}
		key := client.ObjectKey{Namespace: edge.name, Name: "facts"}
		Expect(managedClient(cluster).Get(ctx, key, config)).To(Succeed())
		delete(config.Data, "text")
		return config.Data
	}
	deployed := func(ctx SpecContext, cluster string) *appsv1.Deployment {
		deployment := &appsv1.Deployment{}
		Expect(managedClient(cluster).Get(ctx, client.ObjectKey{Namespace: edge.name, Name: "api"}, deployment)).To(Succeed())
		return deployment
	}
	label := func(ctx SpecContext, value string) {
		Eventually(func() error {
			cluster := &clusterv1.ManagedCluster{}
			if err := hub.Get(ctx, client.ObjectKey{Name: "c2"}, cluster); err != nil {
				return err
			}
			if cluster.Labels["e2e-override"] = value; value == "" {
				delete(cluster.Labels, "e2e-override")
			}
			return hub.Update(ctx, cluster)
		}).WithContext(ctx).Should(Succeed())
	}

	AfterAll(func(ctx SpecContext) {
		label(ctx, "")
		Expect(client.IgnoreNotFound(managedClient("c2").Delete(ctx, site))).To(Succeed())
		Expect(client.IgnoreNotFound(hub.Delete(ctx, &v1alpha1.FleetRollout{ObjectMeta: metav1.ObjectMeta{Namespace: edge.key().Namespace, Name: edge.name}}))).To(Succeed())
	})

	It("make the content of the clusters that they select, and of no other", func(ctx SpecContext) {
		label(ctx, "yes")
		Expect(managedClient("c2").Create(ctx, site)).To(Succeed())
		Eventually(func(g Gomega) {
			cluster := &clusterv1.ManagedCluster{}
			g.Expect(hub.Get(ctx, client.ObjectKey{Name: "c2"}, cluster)).To(Succeed())
			g.Expect(cluster.Status.ClusterClaims).To(ContainElement(HaveField("Name", claim)))
		}).WithContext(ctx).Should(Succeed())
		rollout := edge.rollout("1.0.0", "1.0.0", map[string]int{"facts": 1, "spare": 1})
		Expect(hub.Create(ctx, rollout)).To(Succeed())
		edge.eventuallyReady(ctx, "1.0.0")
		image := deployed(ctx, "c1").Spec.Template.Spec.Containers[0].Image
		uid := deployed(ctx, "c2").UID

		name := image[:len(image)-len(":1.0.0")]
		rollout = edge.rollout("2.0.0", "1.0.0", map[string]int{"facts": 1, "spare": 1})
		rollout.Spec.Overrides = overrides(name)
		Expect(applyRollout(ctx, rollout)).To(Succeed())
		edge.eventuallyReady(ctx, "2.0.0")

		got := facts(ctx, "c2")
		Expect(got).To(HaveKeyWithValue("cluster", "c2"))
		Expect(got).To(HaveKeyWithValue("site", `Berlin: "Mitte"`))
		second := deployed(ctx, "c2")
		Expect(second.UID).To(Equal(uid))
		Expect(*second.Spec.Replicas).To(BeEquivalentTo(2))
		Expect(second.Spec.Template.Spec.Containers[0].Image).To(Equal(name + ":edge"))
		_, live := edge.live(ctx, "c2")
		Expect(live).NotTo(HaveKey("spare"))

		Expect(facts(ctx, "c1")).To(BeEmpty())
		Expect(*deployed(ctx, "c1").Spec.Replicas).To(BeEquivalentTo(1))
		_, live = edge.live(ctx, "c1")
		Expect(live).To(HaveKey("spare"))
	}, SpecTimeout(setupTimeout))

	It("write nothing when a label changes, and say what it would change", func(ctx SpecContext) {
		generation := deployed(ctx, "c2").Generation
		label(ctx, "")
		Eventually(func() string { return edge.delivery(ctx, "c2").Status.IntentDrift }).WithContext(ctx).
			Should(ContainSubstring(`override "second" matches no longer`))
		Expect(deployed(ctx, "c2").Generation).To(Equal(generation))

		By("the next release brings it")
		rollout := edge.rollout("3.0.0", "1.0.0", map[string]int{"facts": 1, "spare": 1})
		Expect(applyRollout(ctx, rollout)).To(Succeed())
		edge.eventuallyReady(ctx, "3.0.0")
		Expect(facts(ctx, "c2")).To(BeEmpty())
		Expect(*deployed(ctx, "c2").Spec.Replicas).To(BeEquivalentTo(1))
		_, live := edge.live(ctx, "c2")
		Expect(live).To(HaveKey("spare"))
	}, SpecTimeout(setupTimeout))
})
