package integration

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// regional is an override for the clusters of a region.
func regional(region, patch string) []v1alpha1.Override {
	return []v1alpha1.Override{{
		Name:            "regional",
		ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"region": region}},
		Patches:         []v1alpha1.Patch{{Target: v1alpha1.ObjectTarget{Kind: "ConfigMap"}, Patch: patch}},
	}}
}

// manifests are what a cluster's work carries, as bytes.
func (f *fleet) manifests(ctx context.Context, suffix string) []string {
	GinkgoHelper()
	var raw []string
	for _, manifest := range f.work(ctx, suffix).Spec.Workload.Manifests {
		raw = append(raw, string(manifest.Raw))
	}
	return raw
}

func (f *fleet) label(ctx context.Context, suffix string, labels map[string]string) {
	GinkgoHelper()
	cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: f.name(suffix)}}
	Expect(edit(ctx, cluster, func(c *clusterv1.ManagedCluster) { c.Labels = labels })).To(Succeed())
}

var _ = Describe("Overrides", func() {
	const replaces = `[{"op": "replace", "path": "/data/a", "value": "eu"}]`

	It("block the cluster that they do not fit, by cluster, object and path, and no other (N1)", func(ctx SpecContext) {
		f := newFleet(ctx, "unfit", map[string]map[string]string{"c1": {"group": "all"}, "c2": {"group": "all", "region": "eu"}})
		Expect(k8s.Create(ctx, f.rollout(group("all")))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		before := f.work(ctx, "c2").ResourceVersion

		f.edit(ctx, func(r *v1alpha1.FleetRollout) {
			r.Spec.Version, r.Spec.Template, r.Spec.Overrides = "2.0.0", template("2.0.0"), regional("eu", replaces)
		})
		Eventually(func(g Gomega) {
			d := f.delivery(ctx, "c2")
			g.Expect(d.Status.State).To(Equal(v1alpha1.StateBlocked))
			g.Expect(d.Status.Reason).To(Equal(v1alpha1.ReasonOverrideFailed))
			for _, named := range []string{f.name("c2"), "regional", "ConfigMap default/app", "/data/a"} {
				g.Expect(d.Status.Message).To(ContainSubstring(named))
			}
			g.Expect(f.delivery(ctx, "c1").Status.State).To(Equal(v1alpha1.StateHealthy))
			g.Expect(f.versions(ctx, "c1", "c2")).To(Equal([]string{"2.0.0", "2.0.0"}))
			r := f.get(ctx)
			g.Expect(ready(r)).NotTo(BeEmpty())
			g.Expect(r.Status.Clusters.Blocked).To(BeEquivalentTo(1), describe(r))
			g.Expect(describe(r)).To(ContainSubstring(f.name("c2")))
		}).WithContext(ctx).Should(Succeed())
		Expect(f.work(ctx, "c2").ResourceVersion).To(Equal(before), "nothing is written to the cluster that is blocked")

		By("a label that takes the override away lets the cluster go on")
		f.label(ctx, "c2", map[string]string{"group": "all"})
		f.succeeds(ctx, "2.0.0")
		Expect(f.manifests(ctx, "c2")).To(Equal(f.manifests(ctx, "c1")))
	})

	It("come back with their revision byte for byte, and later labels write nothing (N3)", func(ctx SpecContext) {
		f := newFleet(ctx, "snapshot", map[string]map[string]string{"c1": {"group": "all"}, "c2": {"group": "all", "region": "eu"}})
		override := func(o string) []v1alpha1.Override {
			return regional("eu", `{"data": {"o": "`+o+`", "on": "${cluster.name}"}}`)
		}
		r := f.rollout(group("all"))
		r.Spec.Overrides = override("1")
		r.Spec.History.Limit = ptr.To[int32](2)
		Expect(k8s.Create(ctx, r)).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		before := f.manifests(ctx, "c2")
		Expect(before).To(ContainElement(ContainSubstring(`"o":"1"`)))
		Expect(before).To(ContainElement(ContainSubstring(f.name("c2"))))
		Expect(f.manifests(ctx, "c1")).NotTo(ContainElement(ContainSubstring(`"o":`)))

		f.set(func(c *playedCluster) { c.health = healthOf("2.0.0", v1alpha1.HealthFailed) }, f.clusters...)
		f.edit(ctx, func(r *v1alpha1.FleetRollout) {
			r.Spec.Version, r.Spec.Template, r.Spec.Overrides = "2.0.0", template("2.0.0"), override("2")
		})
		f.rollsBack(ctx, "2.0.0", "1.0.0")
		Eventually(func() []string { return f.manifests(ctx, "c2") }).WithContext(ctx).Should(Equal(before))

		By("an edited override alone is a revision")
		f.set(func(c *playedCluster) { c.health = alwaysHealthy }, f.clusters...)
		f.edit(ctx, func(r *v1alpha1.FleetRollout) { r.Spec.Version, r.Spec.Overrides = "3.0.0", override("3") })
		f.succeeds(ctx, "3.0.0")
		Expect(f.manifests(ctx, "c2")).To(ContainElement(ContainSubstring(`"o":"3"`)))

		By("a changed label shows as drift of intent")
		written := f.work(ctx, "c2").ResourceVersion
		f.label(ctx, "c2", map[string]string{"group": "all"})
		Eventually(func() string { return f.delivery(ctx, "c2").Status.IntentDrift }).WithContext(ctx).
			Should(ContainSubstring(`override "regional" matches no longer`))
		Consistently(func() string { return f.work(ctx, "c2").ResourceVersion }, 2*time.Second).WithContext(ctx).Should(Equal(written))
		f.label(ctx, "c2", map[string]string{"group": "all", "region": "eu"})
		Eventually(func() string { return f.delivery(ctx, "c2").Status.IntentDrift }).WithContext(ctx).Should(BeEmpty())
	})

	It("are refused where a patch fills a Secret, and where they change nothing", func(ctx SpecContext) {
		f := newFleet(ctx, "refusals", map[string]map[string]string{"c1": {"group": "all"}})
		try := func(override v1alpha1.Override) error {
			r := f.rollout(group("all"))
			override.Name = "o"
			r.Spec.Overrides = []v1alpha1.Override{override}
			return k8s.Create(ctx, r, client.DryRunAll)
		}
		patch := func(target v1alpha1.ObjectTarget, text string) v1alpha1.Override {
			return v1alpha1.Override{Patches: []v1alpha1.Patch{{Target: target, Patch: text}}}
		}
		secret := v1alpha1.ObjectTarget{Kind: "Secret", Name: "creds"}
		for _, text := range []string{
			"stringData: {password: hunter2}", "metadata: {}\ndata:\n  password: aHVudGVyMg==\n", `{"data": {"password": "aHVudGVyMg=="}}`,
			`[{"op": "add", "path": "/data/password", "value": "aHVudGVyMg=="}]`, "- {op: add, path: /stringData, value: {}}",
		} {
			err := try(patch(secret, text))
			Expect(err).To(MatchError(ContainSubstring(`override "o" changes the data of a Secret`)), text)
			Expect(err.Error()).NotTo(ContainSubstring("hunter2"))
		}
		Expect(try(patch(secret, "metadata: {labels: {a: b}}"))).To(Succeed())
		Expect(try(patch(v1alpha1.ObjectTarget{Kind: "ConfigMap"}, "data: {a: b}"))).To(Succeed())
		Expect(try(v1alpha1.Override{})).To(MatchError(ContainSubstring("the override changes nothing")))
		Expect(try(patch(v1alpha1.ObjectTarget{}, "data: {a: b}"))).To(MatchError(ContainSubstring("names nothing")))
		Expect(try(v1alpha1.Override{Images: []v1alpha1.ImageOverride{{Name: "a", NewTag: "1", Digest: "sha256:x"}}})).
			To(MatchError(ContainSubstring("exclude each other")))
	})
})
