package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/test/product"
)

// bulk is a rollout whose content the specs below choose. Its workloads live in a
// namespace of its name.
type bulk struct{ name string }

func (b bulk) key() client.ObjectKey {
	return client.ObjectKey{Namespace: product.ExampleNamespace, Name: b.name}
}

// rollout brings a Namespace, a Deployment and ConfigMaps of so many KiB to all
// clusters at once.
func (b bulk) rollout(version, tag string, kib map[string]int) *v1alpha1.FleetRollout {
	GinkgoHelper()
	rollout, err := product.ReadExample()
	Expect(err).NotTo(HaveOccurred())
	rollout.Name = b.name
	rollout.Spec.Strategy.Groups = []v1alpha1.Group{{Name: "all", Steps: rollout.Spec.Strategy.Groups[0].Steps[:1]}}
	rollout.Spec.Strategy.Groups[0].Steps[0].SoakSeconds = 0
	manifests := []any{
		map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": b.name}},
		map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "api", "namespace": b.name},
			"spec": map[string]any{
				"replicas": 1, "progressDeadlineSeconds": 30,
				"selector": map[string]any{"matchLabels": map[string]any{"app": b.name}},
				"template": map[string]any{
					"metadata": map[string]any{"labels": map[string]any{"app": b.name}},
					"spec":     map[string]any{"containers": []any{map[string]any{"name": "api", "image": "x"}}},
				},
			}},
	}
	for name, size := range kib {
		manifests = append(manifests, map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": name, "namespace": b.name},
			"data":     map[string]any{"text": strings.Repeat("x", size<<10)}})
	}
	component := v1alpha1.Component{Name: "bulk"}
	for _, manifest := range manifests {
		raw, err := json.Marshal(manifest)
		Expect(err).NotTo(HaveOccurred())
		component.Manifests = append(component.Manifests, runtime.RawExtension{Raw: raw})
	}
	rollout.Spec.Template.Components = []v1alpha1.Component{component}
	Expect(product.SetRelease(rollout, version, tag)).To(Succeed())
	return rollout
}

func (b bulk) get(ctx context.Context) *v1alpha1.FleetRollout {
	GinkgoHelper()
	rollout := &v1alpha1.FleetRollout{}
	Expect(hub.Get(ctx, b.key(), rollout)).To(Succeed())
	return rollout
}

// eventuallyReady waits until a version is stable and proven everywhere.
func (b bulk) eventuallyReady(ctx context.Context, version string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		r := &v1alpha1.FleetRollout{}
		g.Expect(hub.Get(ctx, b.key(), r)).To(Succeed())
		g.Expect(r.Status.ObservedGeneration).To(Equal(r.Generation))
		g.Expect(r.Status.StableRevision).NotTo(BeNil(), describe(r))
		g.Expect(r.Status.StableRevision.Version).To(Equal(version), describe(r))
		g.Expect(meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionReady)).To(BeTrue(), describe(r))
	}).WithContext(ctx).Should(Succeed())
}

func (b bulk) delivery(ctx context.Context, cluster string) *v1alpha1.RolloutDelivery {
	GinkgoHelper()
	delivery := &v1alpha1.RolloutDelivery{}
	key := client.ObjectKey{Namespace: cluster, Name: v1alpha1.DeliveryName(product.ExampleNamespace, b.name)}
	Expect(hub.Get(ctx, key, delivery)).To(Succeed())
	return delivery
}

// layout tells which ConfigMaps each work on a cluster lists.
func (b bulk) layout(ctx context.Context, cluster string) map[string]string {
	GinkgoHelper()
	list := &workv1.ManifestWorkList{}
	Expect(hub.List(ctx, list, client.InNamespace(cluster), client.MatchingLabels{v1alpha1.LabelRolloutName: b.name})).To(Succeed())
	works := map[string]string{}
	for _, work := range list.Items {
		var names []string
		size := 0
		for _, manifest := range work.Spec.Workload.Manifests {
			size += manifest.Size()
			object := metav1.PartialObjectMetadata{}
			Expect(json.Unmarshal(manifest.Raw, &object)).To(Succeed())
			if object.Kind == "ConfigMap" {
				names = append(names, object.Name)
			}
		}
		Expect(size).To(BeNumerically("<=", 512000), work.Name)
		works[work.Name[len(work.Name)-2:]] = strings.Join(names, " ")
	}
	return works
}

// live are the UIDs and sizes in KiB of the ConfigMaps of a rollout on a cluster.
func (b bulk) live(ctx context.Context, cluster string) (map[string]types.UID, map[string]int) {
	GinkgoHelper()
	list := &corev1.ConfigMapList{}
	Expect(managedClient(cluster).List(ctx, list, client.InNamespace(b.name), client.MatchingLabels{v1alpha1.LabelRolloutName: b.name})).To(Succeed())
	uids, sizes := map[string]types.UID{}, map[string]int{}
	for _, item := range list.Items {
		uids[item.Name], sizes[item.Name] = item.UID, len(item.Data["text"])>>10
	}
	return uids, sizes
}

func (b bulk) remove(ctx context.Context) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(hub.Delete(ctx, &v1alpha1.FleetRollout{ObjectMeta: metav1.ObjectMeta{Namespace: product.ExampleNamespace, Name: b.name}}))).To(Succeed())
	Eventually(func() bool { return apierrors.IsNotFound(hub.Get(ctx, b.key(), &v1alpha1.FleetRollout{})) }).WithContext(ctx).Should(BeTrue())
}

var _ = Describe("Content over the ManifestWork limit on real OCM (M1, law 21)", Ordered, func() {
	large := bulk{name: "large"}
	before := map[string]types.UID{}

	It("is split over several works, and proven when all are", func(ctx SpecContext) {
		Expect(hub.Create(ctx, large.rollout("1.0.0", "1.0.0", map[string]int{"a": 100, "b": 100, "c": 100, "d": 100}))).To(Succeed())
		large.eventuallyReady(ctx, "1.0.0")
		before, _ = large.live(ctx, "c1")
		Expect(before).To(HaveLen(4))

		sizes := map[string]int{"a": 100, "b": 100, "c": 100, "d": 100, "e": 100, "f": 100}
		Expect(applyRollout(ctx, large.rollout("2.0.0", "2.0.0", sizes))).To(Succeed())
		large.eventuallyReady(ctx, "2.0.0")
		for _, cluster := range []string{"c1", "c2", "c3"} {
			Expect(large.layout(ctx, cluster)).To(Equal(map[string]string{"00": "a b c d", "01": "e f"}))
			_, live := large.live(ctx, cluster)
			Expect(live).To(Equal(sizes))
		}
		uids, _ := large.live(ctx, "c1")
		for name, uid := range before {
			Expect(uids[name]).To(Equal(uid), name)
		}
		before = uids
	}, SpecTimeout(6*time.Minute))

	It("moves an object to another work without recreating it", func(ctx SpecContext) {
		sizes := map[string]int{"a": 130, "b": 130, "c": 130, "d": 130, "e": 100, "f": 100}
		Expect(applyRollout(ctx, large.rollout("3.0.0", "3.0.0", sizes))).To(Succeed())
		large.eventuallyReady(ctx, "3.0.0")
		Expect(large.layout(ctx, "c1")).To(Equal(map[string]string{"00": "a b c", "01": "d e f"}))
		uids, live := large.live(ctx, "c1")
		Expect(live).To(Equal(sizes))
		Expect(uids).To(Equal(before))
	}, SpecTimeout(6*time.Minute))

	It("goes back in all its works when a release fails, and removes what only that had", func(ctx SpecContext) {
		sizes := map[string]int{"a": 200, "b": 200, "c": 200, "d": 200, "e": 200, "f": 200, "only-bad": 300}
		Expect(applyRollout(ctx, large.rollout("4.0.0", "4.0.0-broken", sizes))).To(Succeed())
		Eventually(func() map[string]int { _, live := large.live(ctx, "c1"); return live }).WithContext(ctx).Should(Equal(sizes))
		uids, _ := large.live(ctx, "c1")
		for name, uid := range before {
			Expect(uids[name]).To(Equal(uid), name)
		}
		Eventually(func(g Gomega) {
			r := large.get(ctx)
			g.Expect(r.Status.Run.Revision.Version).To(Equal("4.0.0"), describe(r))
			g.Expect(r.Status.Run.Phase).To(Equal(v1alpha1.RunFailed), describe(r))
			last := r.Status.Rollbacks[len(r.Status.Rollbacks)-1]
			g.Expect(last.Result).To(Equal(v1alpha1.RollbackComplete), describe(r))
		}).WithContext(ctx).Should(Succeed())
		want := map[string]int{"a": 130, "b": 130, "c": 130, "d": 130, "e": 100, "f": 100}
		Eventually(func() map[string]int { _, live := large.live(ctx, "c1"); return live }).WithContext(ctx).Should(Equal(want))
		uids, _ = large.live(ctx, "c1")
		Expect(uids).To(Equal(before), "nothing that both contents have was recreated")
		GinkgoWriter.Println("after the rollback:", large.layout(ctx, "c1"))
	}, SpecTimeout(8*time.Minute))

	It("is refused before anything is written when one object exceeds the limit", func(ctx SpecContext) {
		layout := large.layout(ctx, "c1")
		number := large.delivery(ctx, "c1").Spec.Delivery
		Expect(applyRollout(ctx, large.rollout("5.0.0", "5.0.0", map[string]int{"huge": 600}))).To(Succeed())
		Eventually(func(g Gomega) {
			r := large.get(ctx)
			g.Expect(r.Status.ObservedGeneration).To(Equal(r.Generation))
			text := describe(r)
			g.Expect(text).To(And(ContainSubstring("ConfigMap large/huge"), ContainSubstring("512000")))
		}).WithContext(ctx).Should(Succeed())
		Expect(large.layout(ctx, "c1")).To(Equal(layout))
		Expect(large.delivery(ctx, "c1").Spec.Delivery).To(Equal(number))
	}, SpecTimeout(3*time.Minute))

	It("is removed with all its works", func(ctx SpecContext) {
		large.remove(ctx)
		for _, cluster := range []string{"c1", "c2", "c3"} {
			Eventually(func() map[string]int { _, live := large.live(ctx, cluster); return live }).WithContext(ctx).Should(BeEmpty())
			Expect(large.layout(ctx, cluster)).To(BeEmpty())
		}
	}, SpecTimeout(3*time.Minute))
})

var _ = Describe("Delivery options on real OCM", Ordered, func() {
	options := bulk{name: "options"}
	withExecutor := func(rollout *v1alpha1.FleetRollout) *v1alpha1.FleetRollout {
		rollout.Spec.Delivery.Executor = &v1alpha1.Executor{ServiceAccount: v1alpha1.ExecutorServiceAccount{Namespace: "default", Name: "deployer"}}
		rollout.Spec.Delivery.IgnoreFields = []v1alpha1.IgnoredFields{{
			Target: v1alpha1.ObjectTarget{Kind: "Deployment", Name: "api"}, JSONPaths: []string{".spec.replicas"},
		}}
		return rollout
	}

	It("names the rights that an executor lacks, and goes on once they are granted", func(ctx SpecContext) {
		Expect(hub.Create(ctx, withExecutor(options.rollout("1.0.0", "1.0.0", nil)))).To(Succeed())
		Eventually(func(g Gomega) {
			delivery := &v1alpha1.RolloutDelivery{}
			key := client.ObjectKey{Namespace: "c1", Name: v1alpha1.DeliveryName(product.ExampleNamespace, options.name)}
			g.Expect(hub.Get(ctx, key, delivery)).To(Succeed())
			status := delivery.Status
			g.Expect(status.Reason).To(Equal(v1alpha1.ReasonApplyFailed), status.Message)
			g.Expect(status.Message).To(And(ContainSubstring("default/deployer"), ContainSubstring("create, update, patch"), ContainSubstring("each minute")))
			GinkgoWriter.Println(status.Message)
		}).WithContext(ctx).Should(Succeed())
		for _, cluster := range []string{"c1", "c2", "c3"} {
			binding := &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "deployer"},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
				Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "deployer"}},
			}
			Expect(managedClient(cluster).Create(ctx, binding)).To(Succeed())
		}
		options.eventuallyReady(ctx, "1.0.0")
	}, SpecTimeout(6*time.Minute))

	It("leaves ignored fields to whoever wrote them, also in the next revision", func(ctx SpecContext) {
		key := client.ObjectKey{Namespace: options.name, Name: "api"}
		deployment := &appsv1.Deployment{}
		Expect(managedClient("c1").Get(ctx, key, deployment)).To(Succeed())
		Expect(*deployment.Spec.Replicas).To(Equal(int32(1)), "an ignored field is set when the object is created")
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":3}}`))
		Expect(managedClient("c1").Patch(ctx, deployment, patch, client.FieldOwner("somebody"))).To(Succeed())

		Expect(applyRollout(ctx, withExecutor(options.rollout("1.1.0", "1.1.0", nil)))).To(Succeed())
		options.eventuallyReady(ctx, "1.1.0")
		Expect(managedClient("c1").Get(ctx, key, deployment)).To(Succeed())
		Expect(*deployment.Spec.Replicas).To(Equal(int32(3)))
		Expect(deployment.Spec.Template.Spec.Containers[0].Image).To(HaveSuffix("1.1.0"))
	}, SpecTimeout(5*time.Minute))

	AfterAll(func(ctx SpecContext) {
		options.remove(ctx)
		for _, cluster := range []string{"c1", "c2", "c3"} {
			binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "deployer"}}
			Expect(client.IgnoreNotFound(managedClient(cluster).Delete(ctx, binding))).To(Succeed())
		}
	}, NodeTimeout(5*time.Minute))
})
