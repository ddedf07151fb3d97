package e2e

import (
	"fmt"
	"math/rand"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/test/product"
)

// One story, told in order, on one lab: later specs begin where the earlier
// ones end.
var _ = Describe("A rollout on real OCM", Ordered, func() {
	It("brings the first release to every cluster, group by group", func(ctx SpecContext) {
		release(ctx, "1.0.0", "1.0.0")
		eventuallySucceeded(ctx, "1.0.0")
		for _, c := range []string{"c1", "c2", "c3"} {
			expectRuns(ctx, c, "1.0.0")
		}
		written := func(cluster string) time.Time { return getDelivery(ctx, cluster).Status.WrittenAt.Time }
		proven := func(cluster string) time.Time { return getDelivery(ctx, cluster).Status.ProvenAt.Time }
		Expect(written("c2")).To(BeTemporally(">=", proven("c1").Add(10*time.Second)), "gray waits for canary's soak")
		Expect(written("c3")).To(BeTemporally(">=", proven("c2").Add(5*time.Second)), "production waits for gray's soak")
	})

	It("brings a good release out and keeps what did not change", func(ctx SpecContext) {
		configMap := &corev1.ConfigMap{}
		key := client.ObjectKey{Namespace: product.ExampleWorkload, Name: "api"}
		Expect(managedClient("c1").Get(ctx, key, configMap)).To(Succeed())
		uid := configMap.UID

		release(ctx, "1.1.0", "1.1.0")
		eventuallySucceeded(ctx, "1.1.0")
		for _, c := range []string{"c1", "c2", "c3"} {
			expectRuns(ctx, c, "1.1.0")
		}
		Expect(managedClient("c1").Get(ctx, key, configMap)).To(Succeed())
		Expect(configMap.UID).To(Equal(uid))
	})

	It("survives kill -9 of the manager during a release, and rewrites no ManifestWork", func(ctx SpecContext) {
		works := watchWorks(ctx)
		release(ctx, "1.1.1", "1.1.1")
		killUntil(ctx, func() bool {
			r := getRollout(ctx)
			return r.Status.StableRevision != nil && r.Status.StableRevision.Version == "1.1.1"
		})
		eventuallySucceeded(ctx, "1.1.1")
		Expect(works.rewritten()).To(BeEmpty())
	}, SpecTimeout(10*time.Minute))

	It("takes a broken release back by itself before production sees it, and removes what only it had (H1)", func(ctx SpecContext) {
		works := watchWorks(ctx)
		service := &corev1.Service{}
		key := client.ObjectKey{Namespace: product.ExampleWorkload, Name: "api"}
		Expect(managedClient("c1").Get(ctx, key, service)).To(Succeed())
		uid, address := service.UID, service.Spec.ClusterIP

		rollout, err := product.ReadExample()
		Expect(err).NotTo(HaveOccurred())
		addManifest(rollout, map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "only-bad", "namespace": product.ExampleWorkload},
			"data":     map[string]any{"a": "1"},
		})
		addManifest(rollout, map[string]any{
			"apiVersion": "v1", "kind": "PersistentVolumeClaim",
			"metadata": map[string]any{"name": "data", "namespace": product.ExampleWorkload},
			"spec": map[string]any{
				"accessModes": []any{"ReadWriteOnce"},
				"resources":   map[string]any{"requests": map[string]any{"storage": "1Gi"}},
			},
		})
		Expect(product.SetRelease(rollout, "1.2.0", "1.2.0-broken")).To(Succeed())
		Expect(applyRollout(ctx, rollout)).To(Succeed())

		// It is really delivered to the canary, and really broken there.
		Eventually(func() error {
			return managedClient("c1").Get(ctx, client.ObjectKey{Namespace: product.ExampleWorkload, Name: "only-bad"}, &corev1.ConfigMap{})
		}).WithContext(ctx).Should(Succeed())
		claim := &corev1.PersistentVolumeClaim{}
		claimKey := client.ObjectKey{Namespace: product.ExampleWorkload, Name: "data"}
		Eventually(func() error { return managedClient("c1").Get(ctx, claimKey, claim) }).WithContext(ctx).Should(Succeed())
		claimUID := claim.UID

		eventuallyRolledBack(ctx, "1.2.0", "1.1.1")
		for _, c := range []string{"c1", "c2", "c3"} {
			expectRuns(ctx, c, "1.1.1")
		}
		Eventually(func() bool {
			err := managedClient("c1").Get(ctx, client.ObjectKey{Namespace: product.ExampleWorkload, Name: "only-bad"}, &corev1.ConfigMap{})
			return apierrors.IsNotFound(err)
		}).WithContext(ctx).Should(BeTrue(), "what only the bad release had is gone")
		Expect(managedClient("c1").Get(ctx, claimKey, claim)).To(Succeed(), "a claim is never deleted by a rollback")
		Expect(claim.UID).To(Equal(claimUID))
		Expect(claim.DeletionTimestamp).To(BeNil())
		Expect(getDelivery(ctx, "c1").Status.Kept).To(ContainElement(HaveField("Kind", "PersistentVolumeClaim")))
		Expect(managedClient("c1").Get(ctx, key, service)).To(Succeed())
		Expect(service.UID).To(Equal(uid))
		Expect(service.Spec.ClusterIP).To(Equal(address))

		for _, c := range []string{"c2", "c3"} {
			Expect(getDelivery(ctx, c).Spec.Revision.Version).To(Equal("1.1.1"), "only the canary was ever given 1.2.0")
		}
		Expect(works.rewritten()).To(BeEmpty())
		Expect(verdictOf(ctx, "1.2.0")).To(Equal(v1alpha1.VerdictFailed))
	}, SpecTimeout(8*time.Minute))

	It("does not try the bad release again by itself, not even after a restart", func(ctx SpecContext) {
		before := getRollout(ctx).Status.Run.Number
		generation := getWork(ctx, "c1").Generation
		manager := theProd.Managers[0]
		Expect(manager.Kill()).To(Succeed())
		Expect(manager.Start(ctx)).To(Succeed())
		Consistently(func(g Gomega) {
			g.Expect(getRollout(ctx).Status.Run.Number).To(Equal(before))
			g.Expect(getWork(ctx, "c1").Generation).To(Equal(generation))
		}, 20*time.Second).WithContext(ctx).Should(Succeed())
	})

	It("survives kill -9 of the manager during a rollback, and rewrites no ManifestWork", func(ctx SpecContext) {
		works := watchWorks(ctx)
		release(ctx, "1.2.1", "1.2.1-broken")
		killUntil(ctx, func() bool {
			r := getRollout(ctx)
			return r.Status.Run != nil && r.Status.Run.Revision.Version == "1.2.1" && r.Status.Run.Phase == v1alpha1.RunFailed &&
				r.Status.Rollbacks[len(r.Status.Rollbacks)-1].Result == v1alpha1.RollbackComplete
		})
		eventuallyRolledBack(ctx, "1.2.1", "1.1.1")
		Expect(works.rewritten()).To(BeEmpty())
		expectRuns(ctx, "c1", "1.1.1")
	}, SpecTimeout(10*time.Minute))

	It("waits for a killed agent, says so, and goes on when it is back (D3)", func(ctx SpecContext) {
		release(ctx, "1.3.0", "1.3.0")
		Eventually(func(g Gomega) {
			r := getRollout(ctx)
			g.Expect(r.Status.Run.Revision.Version).To(Equal("1.3.0"))
			g.Expect(r.Status.Run.Group).To(Equal("canary"))
			g.Expect(r.Status.Run.SoakStartedAt).NotTo(BeNil(), describe(r))
		}).WithContext(ctx).Should(Succeed())
		agent := theProd.Agents["c1"]
		Expect(agent.Kill()).To(Succeed())

		Eventually(func(g Gomega) {
			d := getDelivery(ctx, "c1")
			g.Expect(d.Status.State).To(Equal(v1alpha1.StateUnreachable))
			g.Expect(d.Status.Reason).To(Equal(v1alpha1.ReasonAgentSilent))
		}).WithContext(ctx).Should(Succeed())
		Consistently(func(g Gomega) {
			r := getRollout(ctx)
			g.Expect(r.Status.Run.Group).To(Equal("canary"), "the soak does not end on old evidence")
			g.Expect(getDelivery(ctx, "c2").Spec.Revision.Version).To(Equal("1.1.1"))
		}, 15*time.Second).WithContext(ctx).Should(Succeed())

		Expect(agent.Start(ctx)).To(Succeed())
		eventuallySucceeded(ctx, "1.3.0")
	}, SpecTimeout(6*time.Minute))

	It("brings a cluster that cannot be reached up to date when it returns, without waiting for it (A1)", func(ctx SpecContext) {
		cluster := theLab.Cluster("c2")
		Expect(cluster.StopAgents()).To(Succeed())
		Expect(theProd.Agents["c2"].Kill()).To(Succeed())
		Eventually(func() v1alpha1.DeliveryState { return getDelivery(ctx, "c2").Status.State }).
			WithContext(ctx).Should(Equal(v1alpha1.StateUnreachable))

		// In a group of its own it would hold the step, for want of any evidence.
		rollout, err := product.ReadExample()
		Expect(err).NotTo(HaveOccurred())
		groups := rollout.Spec.Strategy.Groups
		groups[1].Name, groups[1].ClusterSelector = "others", metav1.LabelSelector{}
		rollout.Spec.Strategy.Groups = groups[:2]
		Expect(product.SetRelease(rollout, "1.4.0", "1.4.0")).To(Succeed())
		Expect(applyRollout(ctx, rollout)).To(Succeed())
		Eventually(func(g Gomega) {
			r := getRollout(ctx)
			g.Expect(r.Status.Run.Revision.Version).To(Equal("1.4.0"))
			g.Expect(r.Status.Run.Phase).To(Equal(v1alpha1.RunSucceeded), describe(r))
			g.Expect(meta.IsStatusConditionFalse(r.Status.Conditions, v1alpha1.ConditionReady)).To(BeTrue(), "an unreachable cluster keeps Ready=False")
			g.Expect(r.Status.Clusters.Progress).To(Equal("2/3"))
			g.Expect(r.Status.Problems).To(ContainElement(HaveField("Cluster", "c2")))
		}).WithContext(ctx).Should(Succeed())
		expectRuns(ctx, "c1", "1.4.0")
		expectRuns(ctx, "c3", "1.4.0")
		expectRuns(ctx, "c2", "1.3.0")

		Expect(cluster.StartAgents(ctx)).To(Succeed())
		Expect(theProd.Agents["c2"].Start(ctx)).To(Succeed())
		eventuallySucceeded(ctx, "1.4.0")
		expectRuns(ctx, "c2", "1.4.0")
	}, SpecTimeout(8*time.Minute))

	It("delivers a template pasted from a live object without what only a server writes (D5)", func(ctx SpecContext) {
		live := getDeployment(ctx, "c1")
		rollout, err := product.ReadExample()
		Expect(err).NotTo(HaveOccurred())
		pasteLive(rollout, live)
		Expect(product.SetRelease(rollout, "1.5.0", "1.5.0")).To(Succeed())
		Expect(applyRollout(ctx, rollout)).To(Succeed())
		eventuallySucceeded(ctx, "1.5.0")
		for _, manifest := range getWork(ctx, "c1").Spec.Workload.Manifests {
			for _, field := range []string{"resourceVersion", `"uid"`, "managedFields", "deployment.kubernetes.io/revision", `"status"`, "last-applied-configuration"} {
				Expect(string(manifest.Raw)).NotTo(ContainSubstring(field))
			}
		}
		generation := getDeployment(ctx, "c1").Generation
		Consistently(func() int64 { return getDeployment(ctx, "c1").Generation }, 20*time.Second).
			WithContext(ctx).Should(Equal(generation), "hub and cluster do not fight")
	}, SpecTimeout(6*time.Minute))

	It("never drops what every revision holds, however fast they come (C4)", func(ctx SpecContext) {
		kept := func(cluster string) map[string]types.UID {
			GinkgoHelper()
			uids := map[string]types.UID{}
			key := client.ObjectKey{Namespace: product.ExampleWorkload, Name: "api"}
			for kind, object := range map[string]client.Object{
				"Deployment": &appsv1.Deployment{}, "Service": &corev1.Service{}, "ConfigMap": &corev1.ConfigMap{},
			} {
				Expect(managedClient(cluster).Get(ctx, key, object)).To(Succeed(), kind)
				Expect(object.GetDeletionTimestamp()).To(BeNil(), kind)
				uids[kind] = object.GetUID()
			}
			return uids
		}
		before := map[string]map[string]types.UID{"c1": kept("c1"), "c2": kept("c2"), "c3": kept("c3")}
		version := ""
		for i := range 20 {
			version = fmt.Sprintf("1.6.%d", i)
			release(ctx, version, version)
			// As fast as the manager takes them up: each of them becomes a revision.
			Eventually(func(g Gomega) {
				r := getRollout(ctx)
				g.Expect(r.Status.ObservedGeneration).To(Equal(r.Generation))
				g.Expect(r.Status.CurrentRevision).To(HaveField("Version", version))
			}).WithContext(ctx).Should(Succeed())
		}
		eventuallySucceeded(ctx, version)
		for cluster, uids := range before {
			expectRuns(ctx, cluster, version)
			Expect(kept(cluster)).To(Equal(uids), cluster)
		}
		var revisions v1alpha1.RolloutRevisionList
		Expect(hub.List(ctx, &revisions, client.InNamespace(product.ExampleNamespace))).To(Succeed())
		Expect(len(revisions.Items)).To(BeNumerically("<=", v1alpha1.DefaultHistoryLimit+2), "the limit, the stable one, and one in use")
	}, SpecTimeout(6*time.Minute))

	It("is uninstalled as documented, keeps what it shall, and is installed again (O4)", uninstallAndInstall, SpecTimeout(8*time.Minute))

	It("takes over what was kept", func(ctx SpecContext) {
		release(ctx, "2.0.0", "2.0.0")
		eventuallySucceeded(ctx, "2.0.0")
		expectRuns(ctx, "c1", "2.0.0")
	}, SpecTimeout(6*time.Minute))

	It("removes what it delivered when the rollout is deleted", func(ctx SpecContext) {
		Expect(hub.Delete(ctx, getRollout(ctx))).To(Succeed())
		Eventually(func() bool {
			return apierrors.IsNotFound(hub.Get(ctx, rolloutKey, &v1alpha1.FleetRollout{}))
		}).WithContext(ctx).Should(BeTrue())
		for _, c := range []string{"c1", "c2", "c3"} {
			Eventually(func() bool {
				key := client.ObjectKey{Namespace: product.ExampleWorkload, Name: "api"}
				return apierrors.IsNotFound(managedClient(c).Get(ctx, key, &corev1.Service{}))
			}).WithContext(ctx).Should(BeTrue())
			Expect(managedClient(c).Get(ctx, types.NamespacedName{Name: product.ExampleWorkload}, &corev1.Namespace{})).
				To(Succeed(), "a Namespace is never deleted by us")
		}
	}, SpecTimeout(5*time.Minute))
})

// killUntil kills the manager with SIGKILL again and again, at random moments,
// until done; it leaves the manager running.
func killUntil(ctx SpecContext, done func() bool) {
	GinkgoHelper()
	seed := GinkgoRandomSeed()
	GinkgoWriter.Println("seed of the kills:", seed)
	random := rand.New(rand.NewSource(seed))
	manager := theProd.Managers[0]
	kills := 0
	next := time.After(0)
	for !done() {
		select {
		case <-ctx.Done():
			Fail("the manager was killed again and again, and the run did not end: " + describe(getRollout(ctx)))
		case <-next:
			Expect(manager.Kill()).To(Succeed())
			Expect(manager.Start(ctx)).To(Succeed())
			kills++
			next = time.After(time.Duration(2000+random.Intn(6000)) * time.Millisecond)
		case <-time.After(pollEach):
		}
	}
	Expect(kills).To(BeNumerically(">=", 2))
	GinkgoWriter.Println("the manager was killed", kills, "times")
}
