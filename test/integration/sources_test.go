package integration

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// sourced is a rollout that has its content from a ConfigMap and a Secret.
func (f *fleet) sourced(groups ...v1alpha1.Group) *v1alpha1.FleetRollout {
	r := f.rollout(groups...)
	r.Spec.Template.Components[0].Manifests = nil
	r.Spec.Template.Components[0].ManifestsFrom = []v1alpha1.ManifestSource{
		{ConfigMap: &v1alpha1.SourceReference{Name: "base", Key: "app.yaml"}},
		{Secret: &v1alpha1.SourceReference{Name: "creds"}},
	}
	return r
}

func (f *fleet) base(data string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "base"}, Data: map[string]string{
		"app.yaml": fmt.Sprintf("# what the application reads\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: app, namespace: default}\ndata: {key: %s}\n", data)}}
}

func (f *fleet) creds(password string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "creds"}, StringData: map[string]string{
		"creds.yaml": fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: creds, namespace: default}\nstringData: {password: %s}\n", password)}}
}

var _ = Describe("manifestsFrom", func() {
	It("waits for a source by name, and finds it within seconds (K2)", func(ctx SpecContext) {
		f := newFleet(ctx, "sources", labelled(map[string]int{"all": 1}))
		Expect(k8s.Create(ctx, f.creds("one"))).To(Succeed())
		Expect(k8s.Create(ctx, f.sourced(group("all")))).To(Succeed())
		Eventually(func(g Gomega) {
			r := f.get(ctx)
			g.Expect(ready(r)).To(Equal(v1alpha1.ReasonSourceMissing), describe(r))
			g.Expect(describe(r)).To(ContainSubstring("ConfigMap base"))
		}).WithContext(ctx).Should(Succeed())
		created := time.Now()
		Expect(k8s.Create(ctx, f.base("one"))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		Expect(time.Since(created)).To(BeNumerically("<", 60*time.Second))

		By("a changed source is a revision, with every gate (law 19)")
		secret := f.creds("two")
		Expect(edit(ctx, secret, func(s *corev1.Secret) { s.StringData = f.creds("two").StringData })).To(Succeed())
		Eventually(func() int64 { return f.get(ctx).Status.StableRevision.Number }).WithContext(ctx).Should(BeEquivalentTo(2))
		f.succeeds(ctx, "1.0.0")

		By("a broken source is named by key, document and field, and what runs goes on")
		before := f.work(ctx, "all1").ResourceVersion
		config := f.base("two")
		Expect(edit(ctx, config, func(c *corev1.ConfigMap) { c.Data["app.yaml"] += "---\nkind: ConfigMap\n" })).To(Succeed())
		Eventually(func(g Gomega) {
			r := f.get(ctx)
			g.Expect(ready(r)).To(Equal(v1alpha1.ReasonInvalidSpec), describe(r))
			g.Expect(describe(r)).To(ContainSubstring("manifestsFrom[0][ConfigMap base, key app.yaml, document 3].apiVersion"))
		}).WithContext(ctx).Should(Succeed())
		Expect(f.work(ctx, "all1").ResourceVersion).To(Equal(before))
		Expect(edit(ctx, config, func(c *corev1.ConfigMap) { c.Data = f.base("two").Data })).To(Succeed())
		Eventually(func() int64 { return f.get(ctx).Status.StableRevision.Number }).WithContext(ctx).Should(BeEquivalentTo(3))

		By("a source that is deleted leaves what runs alone")
		Expect(k8s.Delete(ctx, config)).To(Succeed())
		Eventually(func() string { return ready(f.get(ctx)) }).WithContext(ctx).Should(Equal(v1alpha1.ReasonSourceMissing))
		Expect(f.get(ctx).Status.StableRevision.Number).To(BeEquivalentTo(3))
		Expect(f.work(ctx, "all1").DeletionTimestamp).To(BeNil())
	})

	It("shows a Secret in no object of ours but Secrets, and not in the log", func(ctx SpecContext) {
		const canary = "c4n4ry-in-a-coal-mine"
		f := newFleet(ctx, "canaries", labelled(map[string]int{"all": 2}))
		Expect(k8s.Create(ctx, f.base("one"))).To(Succeed())
		Expect(k8s.Create(ctx, f.creds(canary))).To(Succeed())
		Expect(k8s.Create(ctx, f.sourced(group("all")))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		work := f.work(ctx, "all1")
		Expect(holds(work.Spec, canary)).To(BeTrue(), "the Secret is delivered")

		By("a revision of it fails, one cannot be parsed, and one is not valid")
		f.set(func(c *playedCluster) { c.health = healthOf("2.0.0", v1alpha1.HealthFailed) }, f.name("all1"))
		f.edit(ctx, func(r *v1alpha1.FleetRollout) { r.Spec.Version = "2.0.0" })
		Eventually(func() string { return ready(f.get(ctx)) }).WithContext(ctx).Should(Equal(v1alpha1.ReasonRolledBack))
		for _, text := range []string{"a: [" + canary, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: api, namespace: default}, spec: {replicas: " + canary + "}}"} {
			secret := f.creds("")
			Expect(edit(ctx, secret, func(s *corev1.Secret) { s.Data["creds.yaml"] = []byte(text) })).To(Succeed())
			generation := f.get(ctx).Status.ObservedGeneration
			Eventually(func(g Gomega) {
				r := f.get(ctx)
				g.Expect(r.Status.ObservedGeneration).To(BeNumerically(">=", generation))
				g.Expect(ready(r)).To(Equal(v1alpha1.ReasonInvalidSpec), describe(r))
				g.Expect(describe(r)).To(ContainSubstring("Secret creds, key creds.yaml, document 1"))
			}).WithContext(ctx).Should(Succeed())
		}

		log, err := os.ReadFile(manager.LogPath())
		Expect(err).NotTo(HaveOccurred())
		for name, text := range map[string]any{
			"rollouts":   listed(ctx, &v1alpha1.FleetRolloutList{}),
			"revisions":  listed(ctx, &v1alpha1.RolloutRevisionList{}),
			"deliveries": listed(ctx, &v1alpha1.RolloutDeliveryList{}),
			"events":     listed(ctx, &corev1.EventList{}),
			"log":        string(log),
		} {
			Expect(holds(text, canary)).To(BeFalse(), name)
		}
		works := listed(ctx, &workv1.ManifestWorkList{})
		for i := range works.Items {
			works.Items[i].Spec = workv1.ManifestWorkSpec{} // That is what delivers it.
			works.Items[i].ManagedFields = nil
		}
		Expect(holds(works, canary)).To(BeFalse(), "works beside their manifests")
	})
})

func listed[T client.ObjectList](ctx context.Context, list T) T {
	GinkgoHelper()
	Expect(k8s.List(ctx, list)).To(Succeed())
	return list
}

// holds tells whether a text is anywhere in a value, plain or encoded.
func holds(value any, text string) bool {
	GinkgoHelper()
	raw, err := json.Marshal(value)
	Expect(err).NotTo(HaveOccurred())
	return strings.Contains(string(raw), text) || strings.Contains(string(raw), base64.StdEncoding.EncodeToString([]byte(text)))
}
