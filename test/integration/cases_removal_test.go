package integration

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

var _ = Describe("Letting go", func() {
	It("is blocked by the unreachable cluster alone, which can be detached (O1)", func(ctx SpecContext) {
		f := newFleet(ctx, "detach", labelled(map[string]int{"all": 3}))
		Expect(k8s.Create(ctx, f.rollout(group("all")))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		lost := f.name("all3")
		f.set(func(c *playedCluster) { c.silent = true }, lost)
		f.setAvailable(ctx, lost, metav1.ConditionUnknown)
		cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: lost}}
		// What OCM's hub does to a cluster: it stays until its namespace is clean.
		Expect(edit(ctx, cluster, func(c *clusterv1.ManagedCluster) {
			c.Finalizers = []string{clusterv1.ManagedClusterFinalizer}
		})).To(Succeed())

		Expect(k8s.Delete(ctx, f.get(ctx))).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(f.work(ctx, "all1").Name).To(BeEmpty())
			g.Expect(f.work(ctx, "all2").Name).To(BeEmpty())
			r := f.get(ctx)
			g.Expect(ready(r)).To(Equal(v1alpha1.ReasonDeleting))
			g.Expect(describe(r)).To(ContainSubstring(lost))
			g.Expect(describe(r)).NotTo(Or(ContainSubstring(f.name("all1")), ContainSubstring(f.name("all2"))), "they block nothing")
		}).WithContext(ctx).Should(Succeed())

		Expect(k8s.Delete(ctx, cluster)).To(Succeed())
		// OCM removes the works of a cluster that is being detached, by force where
		// the work agent is gone; then the cluster goes.
		Expect(k8s.DeleteAllOf(ctx, &workv1.ManifestWork{}, client.InNamespace(lost))).To(Succeed())
		work := f.work(ctx, "all3")
		Expect(work.Finalizers).To(HaveEach(workv1.ManifestWorkFinalizer), "only the work agent's")
		Expect(f.delivery(ctx, "all3").Finalizers).To(BeEmpty())
		Expect(edit(ctx, &work, func(w *workv1.ManifestWork) { w.Finalizers = nil })).To(Succeed())
		Expect(edit(ctx, cluster, func(c *clusterv1.ManagedCluster) { c.Finalizers = nil })).To(Succeed())
		key := client.ObjectKey{Namespace: f.namespace, Name: rolloutName}
		Eventually(func() error { return k8s.Get(ctx, key, &v1alpha1.FleetRollout{}) }).
			WithContext(ctx).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
		Expect(f.delivery(ctx, "all3").Name).To(BeEmpty(), "nothing stays behind")
	})

	It("holds up no namespace of a cluster, whatever goes first (O4)", func(ctx SpecContext) {
		f := newFleet(ctx, "gone", labelled(map[string]int{"all": 2}))
		Expect(k8s.Create(ctx, f.rollout(group("all")))).To(Succeed())
		other := f.rollout(group("all"))
		other.Name = "other"
		other.Spec.Template.Components[0].Manifests[0] = manifest(map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "other", "namespace": "default"},
		})
		Expect(k8s.Create(ctx, other)).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		Eventually(func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(other), other)).To(Succeed())
			g.Expect(ready(other)).To(Equal(v1alpha1.ReasonSucceeded), describe(other))
		}).WithContext(ctx).Should(Succeed())

		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.name("all1")}}
		Expect(k8s.Delete(ctx, namespace)).To(Succeed())
		Eventually(func() error { return k8s.Get(ctx, client.ObjectKeyFromObject(namespace), namespace) }, time.Minute).
			WithContext(ctx).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
		Eventually(func(g Gomega) {
			r := f.get(ctx)
			g.Expect(ready(r)).NotTo(Equal(v1alpha1.ReasonSucceeded), describe(r))
			g.Expect(describe(r)).To(ContainSubstring(f.name("all1")), "it says which cluster has nothing any more")
		}).WithContext(ctx).Should(Succeed())

		Expect(k8s.Delete(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: f.name("all1")}})).To(Succeed())
		f.decide(ctx, f.name("all2"))
		f.succeeds(ctx, "1.0.0")
		for _, name := range []string{rolloutName, "other"} {
			r := &v1alpha1.FleetRollout{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
			Expect(k8s.Delete(ctx, r)).To(Succeed())
			Eventually(func() error { return k8s.Get(ctx, client.ObjectKeyFromObject(r), r) }).
				WithContext(ctx).Should(MatchError(apierrors.IsNotFound, "IsNotFound"), name)
		}
		Expect(f.work(ctx, "all2").Name).To(BeEmpty())
	})
})

var _ = Describe("Telling the truth", func() {
	It("reports a write that the hub refuses in the hub's words, and empty decisions as such (P1)", func(ctx SpecContext) {
		f := newFleet(ctx, "denied", labelled(map[string]int{"all": 3}))
		deny(ctx, f, "works must carry a ticket number")
		Expect(k8s.Create(ctx, f.rollout(group("all")))).To(Succeed())
		Eventually(func(g Gomega) {
			r := f.get(ctx)
			g.Expect(ready(r)).NotTo(BeElementOf("", v1alpha1.ReasonNoClusters, v1alpha1.ReasonSucceeded), describe(r))
			g.Expect(r.Status.Problems).To(HaveLen(3), describe(r))
			for i, p := range r.Status.Problems {
				g.Expect(p.Cluster).To(Equal(f.clusters[i]))
				g.Expect(p.Message).To(ContainSubstring("works must carry a ticket number"))
			}
			d := f.delivery(ctx, "all2")
			g.Expect(d.Status.Reason).To(Equal(v1alpha1.ReasonWriteRefused), d.Status.Message)
			g.Expect(r.Status.Clusters.Healthy).To(BeZero())
			g.Expect(r.Status.Clusters.Updated).To(BeZero())
		}).WithContext(ctx).Should(Succeed())

		none := newFleet(ctx, "nobody", nil)
		Expect(k8s.Create(ctx, none.rollout(group("all")))).To(Succeed())
		Eventually(func(g Gomega) {
			r := none.get(ctx)
			g.Expect(ready(r)).To(Equal(v1alpha1.ReasonNoClusters), describe(r))
		}).WithContext(ctx).Should(Succeed())
	})
})

// deny lets the hub refuse works for the clusters of a fleet until the spec ends.
func deny(ctx SpecContext, f *fleet, words string) {
	GinkgoHelper()
	policy := objectFrom(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: deny-works}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [work.open-cluster-management.io], apiVersions: [v1], resources: [manifestworks], operations: [CREATE, UPDATE]}
  validations:
  - expression: "!object.metadata.namespace.startsWith('` + f.namespace + `-')"
    message: "` + words + `"
`)
	binding := objectFrom(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: deny-works}
spec: {policyName: deny-works, validationActions: [Deny]}
`)
	for _, object := range []*unstructured.Unstructured{policy, binding} {
		Expect(k8s.Create(ctx, object)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(k8s.Delete(ctx, object)).To(Succeed()) })
	}
	try := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: f.clusters[0], Name: "try"}}
	Eventually(func() error { return k8s.Create(ctx, try.DeepCopy(), client.DryRunAll) }).
		WithContext(ctx).Should(MatchError(ContainSubstring(words)), "the policy is not in force")
}
