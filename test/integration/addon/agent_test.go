package addon

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/agent"
)

const (
	oldHash = "sha256:old"
	newHash = "sha256:new"
)

var conditionType = v1alpha1.ConditionType("platform", "payments")

// agentManifests puts the agent's rights on the managed cluster.
func agentManifests(ctx context.Context) {
	GinkgoHelper()
	for _, file := range []string{
		"agent/10-namespace.yaml", "agent/20-serviceaccount.yaml", "agent/30-clusterrole.yaml", "agent/40-aggregation.yaml",
	} {
		for _, object := range objectsIn(file) {
			Expect(client.IgnoreAlreadyExists(k8s.Create(ctx, object))).To(Succeed(), file)
		}
	}
}

// startAgent runs the agent of c1 with its own two identities until the
// returned function is called.
func startAgent(fast, slow time.Duration) func() {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- agent.Options{
			ClusterName: "c1",
			Hub:         asAgent(),
			Managed: as("system:serviceaccount:"+addonNamespace+":fleet-rollout-agent",
				"system:serviceaccounts", "system:serviceaccounts:"+addonNamespace),
			FastLease: fast,
			SlowLease: slow,
		}.Run(ctx)
	}()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		Eventually(ended).Should(Receive(BeNil()), "the agent does not end with its context")
	}
	DeferCleanup(stop)
	return stop
}

// deliver plays the hub: it creates the delivery, rendered to the objects.
func deliver(ctx context.Context, number int64, objects ...v1alpha1.RenderedObject) *v1alpha1.RolloutDelivery {
	GinkgoHelper()
	d := &v1alpha1.RolloutDelivery{
		ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: v1alpha1.DeliveryName("platform", "payments")},
		Spec: v1alpha1.RolloutDeliverySpec{
			Rollout: v1alpha1.RolloutReference{Namespace: "platform", Name: "payments", UID: "u1"},
			Revision: v1alpha1.RevisionReference{
				Name: "payments-r1", Digest: digestOf(number), Number: 1, Version: "1.0.0",
			},
			Delivery: number, Run: 1, Attempt: 1, Direction: v1alpha1.DirectionForward,
		},
	}
	Expect(k8s.Create(ctx, d)).To(Succeed())
	render(ctx, d, objects...)
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(k8s.Delete(ctx, d))).To(Succeed())
		// With no agent left to do it.
		found := addonOfC1(ctx)
		before := found.DeepCopy()
		meta.RemoveStatusCondition(&found.Status.Conditions, conditionType)
		Expect(k8s.Status().Patch(ctx, found, client.MergeFrom(before))).To(Succeed())
	})
	return d
}

func digestOf(number int64) string {
	const digits = "0123456789abcdef"
	digest := []byte("sha256:")
	for range 64 {
		digest = append(digest, digits[number%16])
	}
	return string(digest)
}

func render(ctx context.Context, d *v1alpha1.RolloutDelivery, objects ...v1alpha1.RenderedObject) {
	GinkgoHelper()
	d.Status.Delivery = d.Spec.Delivery
	d.Status.Rendered = &v1alpha1.Rendered{
		Delivery: d.Spec.Delivery, Digest: d.Spec.Revision.Digest, Revision: d.Spec.Revision.Name, Attempt: 1, Objects: objects,
	}
	Expect(k8s.Status().Update(ctx, d)).To(Succeed())
}

func rendered(group, kind, name, hash string) v1alpha1.RenderedObject {
	return v1alpha1.RenderedObject{
		ObjectReference: v1alpha1.ObjectReference{Group: group, Version: "v1", Kind: kind, Namespace: "workloads", Name: name},
		Hash:            hash,
	}
}

// delivered is the metadata of an object as the work agent applies it.
func delivered(name, hash string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "workloads", Name: name,
		Labels:      map[string]string{v1alpha1.LabelRolloutNamespace: "platform", v1alpha1.LabelRolloutName: "payments"},
		Annotations: map[string]string{v1alpha1.AnnotationContentHash: hash},
	}
}

func applyObject[T client.Object](ctx context.Context, object T) T {
	GinkgoHelper()
	Expect(k8s.Create(ctx, object)).To(Succeed())
	DeferCleanup(func(ctx context.Context) {
		Expect(client.IgnoreNotFound(k8s.Delete(ctx, object, client.GracePeriodSeconds(0)))).To(Succeed())
	})
	return object
}

// edit changes an object whatever others wrote to it meanwhile.
func edit[T client.Object](ctx context.Context, object T, change func()) {
	GinkgoHelper()
	before := object.DeepCopyObject().(T)
	change()
	Expect(k8s.Patch(ctx, object, client.MergeFrom(before))).To(Succeed())
}

// setForeignCondition plays somebody else who writes to the addon.
func setForeignCondition(ctx context.Context, status metav1.ConditionStatus) {
	GinkgoHelper()
	found := addonOfC1(ctx)
	before := found.DeepCopy()
	meta.SetStatusCondition(&found.Status.Conditions, metav1.Condition{
		Type: "Foreign", Status: status, Reason: "Test", Message: "of somebody else"})
	Expect(k8s.Status().Patch(ctx, found, client.MergeFrom(before))).To(Succeed())
}

func setHash(object client.Object, hash string) func() {
	return func() { object.SetAnnotations(map[string]string{v1alpha1.AnnotationContentHash: hash}) }
}

func deploymentAt(hash string) *appsv1.Deployment {
	labels := map[string]string{"app": "api"}
	return &appsv1.Deployment{
		ObjectMeta: delivered("api", hash),
		Spec: appsv1.DeploymentSpec{
			// The controller manager of the suite acts on Deployments; paused and
			// without replicas it leaves the status to the spec.
			Replicas: ptr.To[int32](0), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "api", Image: "api:1"}}},
			},
		},
	}
}

func conditionNow(ctx context.Context) *metav1.Condition {
	GinkgoHelper()
	return meta.FindStatusCondition(addonOfC1(ctx).Status.Conditions, conditionType)
}

// reportNow is the present report; its zero value if there is none.
func reportNow(ctx context.Context) v1alpha1.AgentReport {
	GinkgoHelper()
	c := conditionNow(ctx)
	if c == nil {
		return v1alpha1.AgentReport{}
	}
	report, err := v1alpha1.DecodeAgentReport(c.Message)
	Expect(err).NotTo(HaveOccurred())
	return report
}

func healthNow(ctx context.Context) v1alpha1.Health { return reportNow(ctx).Health }
func textNow(ctx context.Context) string            { return reportNow(ctx).Text }

func leaseNow(ctx context.Context) *coordinationv1.Lease {
	GinkgoHelper()
	found := &coordinationv1.Lease{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: "c1", Name: v1alpha1.AgentLeaseName}, found)).To(Succeed())
	return found
}

var _ = Describe("The agent", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		awaitAccess(ctx)
		agentManifests(ctx)
		Expect(k8s.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "workloads"}})).To(Succeed())
	})

	It("follows the objects of a delivery to healthy and back, and takes its condition away at the end", func(ctx SpecContext) {
		startAgent(time.Second, 2*time.Second)
		d := deliver(ctx, 1, rendered("", "ConfigMap", "api", newHash), rendered("", "Secret", "api", newHash))
		Eventually(ctx, textNow).Should(HavePrefix("ConfigMap workloads/api: not there yet"))
		config := applyObject(ctx, &corev1.ConfigMap{ObjectMeta: delivered("api", oldHash)})
		edit(ctx, config, setHash(config, newHash))
		Eventually(ctx, healthNow).Should(Equal(v1alpha1.HealthHealthy))
		Expect(textNow(ctx)).To(ContainSubstring("Secret workloads/api is not readable by the agent: taken as applied"))
		Expect(conditionNow(ctx).Status).To(Equal(metav1.ConditionTrue))
		Expect(reportNow(ctx).Digest).To(Equal(d.Spec.Revision.Digest))
		Expect(reportNow(ctx).Delivery).To(BeEquivalentTo(1))

		Expect(k8s.Delete(ctx, config)).To(Succeed())
		Eventually(ctx, healthNow).Should(Equal(v1alpha1.HealthProgressing))
		Expect(conditionNow(ctx).Status).To(Equal(metav1.ConditionUnknown))

		Expect(k8s.Delete(ctx, d)).To(Succeed())
		Eventually(ctx, conditionNow).Should(BeNil())
	})

	It("keeps to its last word until the hub has rendered a new delivery", func(ctx SpecContext) {
		startAgent(time.Second, 2*time.Second)
		applyObject(ctx, &corev1.ConfigMap{ObjectMeta: delivered("api", newHash)})
		d := deliver(ctx, 1, rendered("", "ConfigMap", "api", newHash))
		Eventually(ctx, healthNow).Should(Equal(v1alpha1.HealthHealthy))

		edit(ctx, d, func() { d.Spec.Delivery, d.Spec.Revision.Digest = 2, digestOf(2) })
		Consistently(ctx, func(ctx context.Context) int64 { return reportNow(ctx).Delivery }, "500ms").Should(BeEquivalentTo(1))
		render(ctx, d, rendered("", "ConfigMap", "api", newHash))
		Eventually(ctx, func(ctx context.Context) int64 { return reportNow(ctx).Delivery }).Should(BeEquivalentTo(2))
	})

	It("judges a real Deployment by its status", func(ctx SpecContext) {
		startAgent(time.Second, 2*time.Second)
		deliver(ctx, 1, rendered("apps", "Deployment", "api", newHash))
		d := applyObject(ctx, deploymentAt(newHash))
		Eventually(ctx, healthNow).Should(Equal(v1alpha1.HealthHealthy))

		edit(ctx, d, func() { d.Spec.Replicas = ptr.To[int32](2) })
		Eventually(ctx, healthNow).Should(Equal(v1alpha1.HealthDegraded), "complete before, and not now")
		Expect(textNow(ctx)).To(HavePrefix("Deployment workloads/api: 0 of 2 replicas"))
	})

	It("says what pods complain about", func(ctx SpecContext) {
		startAgent(time.Second, 2*time.Second)
		deliver(ctx, 1, rendered("apps", "Deployment", "api", newHash))
		d := deploymentAt(newHash)
		d.Spec.Replicas = ptr.To[int32](1)
		applyObject(ctx, d)
		pod := &corev1.PodList{}
		// The service account controller has to make the default account first.
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(k8s.List(ctx, pod, client.InNamespace("workloads"), client.MatchingLabels{"app": "api"})).To(Succeed())
			g.Expect(pod.Items).To(HaveLen(1))
		}).Should(Succeed())
		pod.Items[0].Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "api", Image: "api:1",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}},
		}}
		Expect(k8s.Status().Update(ctx, &pod.Items[0])).To(Succeed())
		Eventually(ctx, textNow).Should(HaveSuffix("ImagePullBackOff (image api:1)"))
	})

	It("leaves the conditions of others alone, and does not write when nothing changes", func(ctx SpecContext) {
		startAgent(time.Second, 2*time.Second)
		setForeignCondition(ctx, metav1.ConditionTrue)
		config := applyObject(ctx, &corev1.ConfigMap{ObjectMeta: delivered("api", newHash)})
		d := deliver(ctx, 1, rendered("", "ConfigMap", "api", newHash))
		Eventually(ctx, healthNow).Should(Equal(v1alpha1.HealthHealthy))
		Expect(meta.IsStatusConditionTrue(addonOfC1(ctx).Status.Conditions, "Foreign")).To(BeTrue())

		// Somebody else writes between two reports: the agent's copy is old then.
		setForeignCondition(ctx, metav1.ConditionFalse)
		edit(ctx, config, setHash(config, oldHash))
		Eventually(ctx, healthNow).Should(Equal(v1alpha1.HealthProgressing))
		Expect(meta.IsStatusConditionFalse(addonOfC1(ctx).Status.Conditions, "Foreign")).To(BeTrue())

		version := addonOfC1(ctx).ResourceVersion
		edit(ctx, config, func() { config.Data = map[string]string{"unrelated": "change"} })
		d.Status.Message = "of the hub alone"
		Expect(k8s.Status().Update(ctx, d)).To(Succeed())
		Consistently(ctx, func(ctx context.Context) string { return addonOfC1(ctx).ResourceVersion }, "1s").Should(Equal(version))
	})

	It("notices a kind that is served later, and one that it is allowed to read later", func(ctx SpecContext) {
		startAgent(time.Second, 2*time.Second)
		deliver(ctx, 1, v1alpha1.RenderedObject{
			ObjectReference: v1alpha1.ObjectReference{Group: "example.com", Version: "v1", Kind: "Thing", Namespace: "workloads", Name: "api"},
			Hash:            newHash,
		})
		Eventually(ctx, textNow).Should(ContainSubstring("the cluster does not serve example.com/v1 Thing"))
		applyObject(ctx, thingRole())
		installThings(ctx)
		Eventually(ctx, textNow).Should(ContainSubstring("not there yet"))
		thing := thingAt(newHash)
		Expect(k8s.Create(ctx, thing)).To(Succeed())
		Eventually(ctx, textNow).Should(Equal("all objects are healthy (1)"))
	})

	It("renews its Lease often while a delivery is fresh, and says so in it", func(ctx SpecContext) {
		startAgent(time.Second, 30*time.Second)
		Eventually(ctx, func(ctx context.Context) *int32 { return leaseNow(ctx).Spec.LeaseDurationSeconds }).Should(HaveValue(BeEquivalentTo(90)))
		d := deliver(ctx, 1, rendered("", "ConfigMap", "api", newHash))
		edit(ctx, d, func() { d.Spec.FastLeaseSeconds = 5 })
		Eventually(ctx, func(ctx context.Context) *int32 { return leaseNow(ctx).Spec.LeaseDurationSeconds }, "2s").
			Should(HaveValue(BeEquivalentTo(3)), "not told the hub at once")
		first := leaseNow(ctx).Spec.RenewTime
		Eventually(ctx, func(ctx context.Context) bool { return first.Before(leaseNow(ctx).Spec.RenewTime) }, "3s").Should(BeTrue())
		Eventually(ctx, func(ctx context.Context) *int32 { return leaseNow(ctx).Spec.LeaseDurationSeconds }).
			Should(HaveValue(BeEquivalentTo(90)), "it does not slow down again")
	})

	It("does not renew its Lease when it has ended", func(ctx SpecContext) {
		stop := startAgent(200*time.Millisecond, 200*time.Millisecond)
		before := leaseNow(ctx).Spec.RenewTime
		Eventually(ctx, func(ctx context.Context) *metav1.MicroTime { return leaseNow(ctx).Spec.RenewTime }).ShouldNot(Equal(before))
		stop()
		last := leaseNow(ctx).ResourceVersion
		Consistently(ctx, func(ctx context.Context) string { return leaseNow(ctx).ResourceVersion }, "1s").Should(Equal(last))
	})

	It("says after its own restart what it said before, without a write", func(ctx SpecContext) {
		applyObject(ctx, &corev1.ConfigMap{ObjectMeta: delivered("api", newHash)})
		stop := startAgent(200*time.Millisecond, 200*time.Millisecond)
		deliver(ctx, 1, rendered("", "ConfigMap", "api", newHash), rendered("", "ServiceAccount", "default", newHash))
		Eventually(ctx, healthNow).Should(Equal(v1alpha1.HealthProgressing))
		stop()
		version, renewed := addonOfC1(ctx).ResourceVersion, leaseNow(ctx).ResourceVersion
		startAgent(200*time.Millisecond, 200*time.Millisecond)
		Eventually(ctx, func(ctx context.Context) string { return leaseNow(ctx).ResourceVersion }).ShouldNot(Equal(renewed))
		Consistently(ctx, func(ctx context.Context) string { return addonOfC1(ctx).ResourceVersion }, "500ms").Should(Equal(version))
	})

	It("survives a restart of the API server", func(ctx SpecContext) {
		startAgent(200*time.Millisecond, 200*time.Millisecond)
		config := applyObject(ctx, &corev1.ConfigMap{ObjectMeta: delivered("api", newHash)})
		applyObject(ctx, deploymentAt(newHash))
		deliver(ctx, 1, rendered("", "ConfigMap", "api", newHash), rendered("apps", "Deployment", "api", newHash))
		Eventually(ctx, healthNow).Should(Equal(v1alpha1.HealthHealthy))
		version := addonOfC1(ctx).ResourceVersion

		server := controlPlane.Process("kube-apiserver")
		Expect(server.Kill()).To(Succeed())
		Expect(server.Start(ctx)).To(Succeed())
		Eventually(ctx, func(ctx context.Context) error {
			return k8s.Get(ctx, client.ObjectKeyFromObject(config), config)
		}, "60s").Should(Succeed())
		last := leaseNow(ctx).ResourceVersion
		Eventually(ctx, func(ctx context.Context) string { return leaseNow(ctx).ResourceVersion }).ShouldNot(Equal(last))
		Expect(addonOfC1(ctx).ResourceVersion).To(Equal(version),
			"what an API server says that is not ready yet was taken for the state of the cluster")
		edit(ctx, config, setHash(config, oldHash))
		Eventually(ctx, healthNow, "90s").Should(Equal(v1alpha1.HealthProgressing))
		renewed := leaseNow(ctx).ResourceVersion
		Eventually(ctx, func(ctx context.Context) string { return leaseNow(ctx).ResourceVersion }).ShouldNot(Equal(renewed))
	})
})
