package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/test/product"
)

var rolloutKey = client.ObjectKey{Namespace: product.ExampleNamespace, Name: product.ExampleRollout}

func getRollout(ctx context.Context) *v1alpha1.FleetRollout {
	GinkgoHelper()
	rollout := &v1alpha1.FleetRollout{}
	Expect(hub.Get(ctx, rolloutKey, rollout)).To(Succeed())
	return rollout
}

func getDelivery(ctx context.Context, cluster string) *v1alpha1.RolloutDelivery {
	GinkgoHelper()
	delivery := &v1alpha1.RolloutDelivery{}
	key := client.ObjectKey{Namespace: cluster, Name: v1alpha1.DeliveryName(rolloutKey.Namespace, rolloutKey.Name)}
	Expect(hub.Get(ctx, key, delivery)).To(Succeed())
	return delivery
}

func getWork(ctx context.Context, cluster string) *workv1.ManifestWork {
	GinkgoHelper()
	work := &workv1.ManifestWork{}
	key := client.ObjectKey{Namespace: cluster, Name: v1alpha1.WorkName(rolloutKey.Namespace, rolloutKey.Name, 0)}
	Expect(hub.Get(ctx, key, work)).To(Succeed())
	return work
}

// eventuallySucceeded waits until a version is stable and the whole fleet is
// proven on it.
func eventuallySucceeded(ctx context.Context, version string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		r := &v1alpha1.FleetRollout{}
		g.Expect(hub.Get(ctx, rolloutKey, r)).To(Succeed())
		g.Expect(r.Status.ObservedGeneration).To(Equal(r.Generation))
		g.Expect(r.Status.StableRevision).NotTo(BeNil(), describe(r))
		g.Expect(r.Status.StableRevision.Version).To(Equal(version), describe(r))
		g.Expect(meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionReady)).To(BeTrue(), describe(r))
	}).WithContext(ctx).Should(Succeed())
}

// eventuallyRolledBack waits until a version has failed and the fleet is back
// on the target.
func eventuallyRolledBack(ctx context.Context, bad, target string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		r := &v1alpha1.FleetRollout{}
		g.Expect(hub.Get(ctx, rolloutKey, r)).To(Succeed())
		g.Expect(r.Status.Run).NotTo(BeNil())
		g.Expect(r.Status.Run.Revision.Version).To(Equal(bad), describe(r))
		g.Expect(r.Status.Run.Phase).To(Equal(v1alpha1.RunFailed), describe(r))
		g.Expect(r.Status.Rollbacks).NotTo(BeEmpty(), describe(r))
		last := r.Status.Rollbacks[len(r.Status.Rollbacks)-1]
		g.Expect(last.To.Version).To(Equal(target), describe(r))
		g.Expect(last.Result).To(Equal(v1alpha1.RollbackComplete), describe(r))
		g.Expect(meta.IsStatusConditionFalse(r.Status.Conditions, v1alpha1.ConditionReady)).To(BeTrue(), "a finished rollback is not Ready")
		g.Expect(meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionRolledBack)).To(BeTrue(), describe(r))
	}).WithContext(ctx).Should(Succeed())
}

func describe(r *v1alpha1.FleetRollout) string {
	text := ""
	for _, c := range r.Status.Conditions {
		text += fmt.Sprintf("%s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
	}
	if r.Status.Run != nil {
		text += fmt.Sprintf("run %d %s group %q step %d\n", r.Status.Run.Number, r.Status.Run.Phase, r.Status.Run.Group, r.Status.Run.Step)
		for _, w := range r.Status.Run.WaitingFor {
			text += "waits for: " + w.Message + "\n"
		}
	}
	return text
}

// expectRuns asks a cluster's own API which image its Deployment runs.
func expectRuns(ctx context.Context, cluster, version string) {
	GinkgoHelper()
	deployment := getDeployment(ctx, cluster)
	Expect(deployment.Spec.Template.Spec.Containers[0].Image).To(Equal(product.ExampleImage + ":" + version))
	Expect(deployment.Status.ObservedGeneration).To(Equal(deployment.Generation))
	Expect(deployment.Status.AvailableReplicas).To(Equal(*deployment.Spec.Replicas))
}

func getDeployment(ctx context.Context, cluster string) *appsv1.Deployment {
	GinkgoHelper()
	deployment := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: product.ExampleWorkload, Name: product.ExampleDeployment}
	Expect(managedClient(cluster).Get(ctx, key, deployment)).To(Succeed())
	return deployment
}
