package e2e

import (
	"context"
	"fmt"
	"sort"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

var _ = Describe("The agent's identity on the hub, as OCM issued it", func() {
	var (
		agent client.Client
		kube  kubernetes.Interface
	)

	BeforeEach(func(ctx SpecContext) {
		path, err := theLab.Cluster("c1").WaitAddonHubKubeconfig(ctx, v1alpha1.AddonName, "open-cluster-management-agent-addon")
		Expect(err).NotTo(HaveOccurred())
		config, err := clientcmd.BuildConfigFromFlags("", path)
		Expect(err).NotTo(HaveOccurred())
		agent, err = client.New(config, client.Options{Scheme: hub.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		kube, err = kubernetes.NewForConfig(config)
		Expect(err).NotTo(HaveOccurred())
	})

	It("has in its own namespace what it needs, and nothing else", func(ctx SpecContext) {
		Expect(rulesIn(ctx, kube, "c1")).To(ConsistOf(
			"get managedclusteraddons.addon.open-cluster-management.io [fleet-rollout]",
			"patch managedclusteraddons/status.addon.open-cluster-management.io [fleet-rollout]",
			"get,list,watch rolloutdeliveries.rollout.open-cluster-management.io []",
			"get,patch,update leases.coordination.k8s.io [fleet-rollout-agent]",
		))
	})

	It("has nothing at all in the namespace of another cluster, nor in its users' namespaces", func(ctx SpecContext) {
		Expect(rulesIn(ctx, kube, "c2")).To(BeEmpty())
		Expect(rulesIn(ctx, kube, rolloutKey.Namespace)).To(BeEmpty())
	})

	DescribeTable("is refused when it tries", func(ctx SpecContext, try func(context.Context) error) {
		err := try(ctx)
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	},
		Entry("to read the deliveries of another cluster", func(ctx context.Context) error {
			return agent.List(ctx, &v1alpha1.RolloutDeliveryList{}, client.InNamespace("c2"))
		}),
		Entry("to read the deliveries of all clusters", func(ctx context.Context) error {
			return agent.List(ctx, &v1alpha1.RolloutDeliveryList{})
		}),
		Entry("to change what its own cluster shall have", func(ctx context.Context) error {
			return agent.Patch(ctx, deliveryOf("c1"), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"delivery":99}}`)))
		}),
		Entry("to change what the hub recorded about it", func(ctx context.Context) error {
			return agent.Status().Patch(ctx, deliveryOf("c1"), client.RawPatch("application/merge-patch+json", []byte(`{"status":{"state":"Healthy"}}`)))
		}),
		Entry("to read FleetRollouts", func(ctx context.Context) error {
			return agent.List(ctx, &v1alpha1.FleetRolloutList{}, client.InNamespace(rolloutKey.Namespace))
		}),
		Entry("to read payloads", func(ctx context.Context) error {
			_, err := kube.CoreV1().Secrets(rolloutKey.Namespace).List(ctx, metav1.ListOptions{})
			return err
		}),
		Entry("to read Secrets of its own namespace on the hub", func(ctx context.Context) error {
			_, err := kube.CoreV1().Secrets("c1").List(ctx, metav1.ListOptions{})
			return err
		}),
		Entry("to read the ManifestWorks of its own cluster", func(ctx context.Context) error {
			return agent.List(ctx, &workv1.ManifestWorkList{}, client.InNamespace("c1"))
		}),
		Entry("to report for another cluster", func(ctx context.Context) error {
			addon := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "c2", Name: v1alpha1.AddonName}}
			return agent.Status().Patch(ctx, addon, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"conditions":[]}}`)))
		}),
		Entry("to change the configuration of its addon", func(ctx context.Context) error {
			addon := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: v1alpha1.AddonName}}
			return agent.Patch(ctx, addon, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`)))
		}),
		Entry("to report for another addon", func(ctx context.Context) error {
			addon := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: "other"}}
			return agent.Status().Patch(ctx, addon, client.RawPatch("application/merge-patch+json", []byte(`{"status":{}}`)))
		}),
		Entry("to renew the Lease of the klusterlet", func(ctx context.Context) error {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: "managed-cluster-lease"}}
			return agent.Patch(ctx, lease, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{}}`)))
		}),
		Entry("to create a Lease", func(ctx context.Context) error {
			return agent.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: "mine"}})
		}),
		Entry("to renew the Lease of another cluster's agent", func(ctx context.Context) error {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "c2", Name: v1alpha1.AgentLeaseName}}
			return agent.Patch(ctx, lease, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{}}`)))
		}),
	)
})

func deliveryOf(cluster string) *v1alpha1.RolloutDelivery {
	return &v1alpha1.RolloutDelivery{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster, Name: v1alpha1.DeliveryName(rolloutKey.Namespace, rolloutKey.Name),
	}}
}

// rulesIn returns what an identity may do in a namespace beyond what every
// authenticated user may: reviews of itself and reading of the API's shape.
func rulesIn(ctx context.Context, kube kubernetes.Interface, namespace string) []string {
	GinkgoHelper()
	review, err := kube.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(review.Status.Incomplete).To(BeFalse())
	var rules []string
	for _, rule := range review.Status.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				if strings.HasPrefix(resource, "selfsubject") {
					continue
				}
				verbs := append([]string(nil), rule.Verbs...)
				sort.Strings(verbs)
				rules = append(rules, fmt.Sprintf("%s %s.%s %v", strings.Join(verbs, ","), resource, group, rule.ResourceNames))
			}
		}
	}
	return rules
}
