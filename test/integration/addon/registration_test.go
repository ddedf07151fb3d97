package addon

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

const (
	agentUser  = "system:open-cluster-management:cluster:c1:addon:fleet-rollout:agent:fleet-rollout-agent"
	agentGroup = "system:open-cluster-management:cluster:c1:addon:fleet-rollout"
	addonGroup = "system:open-cluster-management:addon:fleet-rollout"
)

// asAgent is the identity that a certificate of the addon gives.
func asAgent() *rest.Config { return as(agentUser, agentGroup, addonGroup) }

func addonOfC1(ctx context.Context) *addonv1alpha1.ManagedClusterAddOn {
	GinkgoHelper()
	found := &addonv1alpha1.ManagedClusterAddOn{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: "c1", Name: v1alpha1.AddonName}, found)).To(Succeed())
	return found
}

func awaitAccess(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) error {
		return k8s.Get(ctx, client.ObjectKey{Namespace: "c1", Name: v1alpha1.AgentLeaseName}, &coordinationv1.Lease{})
	}).Should(Succeed())
}

var _ = Describe("The addon manager", func() {
	It("registers the agent, installs it, and gives it its access, with its own rights alone", func(ctx SpecContext) {
		awaitAccess(ctx)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			found := addonOfC1(ctx)
			g.Expect(meta.IsStatusConditionTrue(found.Status.Conditions, "RegistrationApplied")).To(BeTrue())
			g.Expect(found.Status.Namespace).To(Equal(addonNamespace))
			g.Expect(found.Status.Registrations).To(HaveLen(1))
			g.Expect(found.Status.Registrations[0].Subject.User).To(Equal(agentUser)) //nolint:staticcheck // The subject of the addon API v1alpha1.
			g.Expect(found.Status.HealthCheck.Mode).To(Equal(addonv1alpha1.HealthCheckModeCustomized))
		}).Should(Succeed())

		work := &workv1.ManifestWork{}
		Eventually(ctx, func(ctx context.Context) error {
			return k8s.Get(ctx, client.ObjectKey{Namespace: "c1", Name: "addon-fleet-rollout-deploy-0"}, work)
		}).Should(Succeed())
		Expect(work.Spec.Workload.Manifests).To(HaveLen(7))
		Expect(work.Spec.DeleteOption.SelectivelyOrphan.OrphaningRules).To(ConsistOf(
			workv1.OrphaningRule{Resource: "namespaces", Name: addonNamespace}))
	})

	It("writes no access again when the addon's status changes", func(ctx SpecContext) {
		awaitAccess(ctx)
		before := versionsOfAccess(ctx)
		setForeignCondition(ctx, metav1.ConditionUnknown)
		Consistently(ctx, versionsOfAccess, "500ms").Should(Equal(before))
	})

	It("approves a certificate for the registration agent of exactly this cluster", func(ctx SpecContext) {
		awaitAccess(ctx)
		Expect(requestCertificate(ctx, "addon-c1-good", "system:open-cluster-management:c1:x")).To(Succeed())
		Expect(requestCertificate(ctx, "addon-c1-bad", "system:open-cluster-management:c10:x")).To(Succeed())
		Eventually(ctx, isApproved).WithArguments("addon-c1-good").Should(BeTrue())
		Consistently(ctx, isApproved, "500ms").WithArguments("addon-c1-bad").Should(BeFalse())
	})
})

func versionsOfAccess(ctx context.Context) []string {
	GinkgoHelper()
	const name = "open-cluster-management:fleet-rollout:agent"
	var versions []string
	for _, object := range []client.Object{
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}},
	} {
		Expect(k8s.Get(ctx, client.ObjectKey{Namespace: "c1", Name: object.GetName()}, object)).To(Succeed())
		versions = append(versions, object.GetResourceVersion())
	}
	return versions
}

// requestCertificate asks for a certificate of the agent of c1, as OCM's
// registration agent does.
func requestCertificate(ctx context.Context, name, user string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{
		CommonName: agentUser, Organization: []string{agentGroup, addonGroup, "system:authenticated"},
	}}, key)
	if err != nil {
		return err
	}
	return clientAs(as(user, "klusterlets")).Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			addonv1alpha1.AddonLabelKey: v1alpha1.AddonName, clusterv1.ClusterNameLabelKey: "c1",
		}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages: []certificatesv1.KeyUsage{
				certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth,
			},
		},
	})
}

func isApproved(ctx context.Context, name string) bool {
	GinkgoHelper()
	found := &certificatesv1.CertificateSigningRequest{}
	Expect(k8s.Get(ctx, client.ObjectKey{Name: name}, found)).To(Succeed())
	for _, c := range found.Status.Conditions {
		if c.Type == certificatesv1.CertificateApproved {
			return true
		}
	}
	return false
}

var _ = Describe("The agent's identity on the hub", func() {
	const (
		rollouts  = "rollout.open-cluster-management.io"
		addons    = "addon.open-cluster-management.io"
		leases    = "coordination.k8s.io"
		works     = "work.open-cluster-management.io"
		rbacGroup = "rbac.authorization.k8s.io"
	)
	// try asks the API server's authorizer in the agent's name.
	try := func(ctx context.Context, verb, group, resource, namespace, name string) bool {
		GinkgoHelper()
		kube, err := kubernetes.NewForConfig(asAgent())
		Expect(err).NotTo(HaveOccurred())
		attributes := &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Namespace: namespace, Name: name}
		attributes.Resource, attributes.Subresource = split(resource)
		review, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		return review.Status.Allowed
	}

	DescribeTable("may do what it needs", func(ctx SpecContext, verb, group, resource, namespace, name string) {
		awaitAccess(ctx)
		Expect(try(ctx, verb, group, resource, namespace, name)).To(BeTrue())
	},
		Entry("read a delivery", "get", rollouts, "rolloutdeliveries", "c1", "any"),
		Entry("list its deliveries", "list", rollouts, "rolloutdeliveries", "c1", ""),
		Entry("watch its deliveries", "watch", rollouts, "rolloutdeliveries", "c1", ""),
		Entry("read its addon", "get", addons, "managedclusteraddons", "c1", "fleet-rollout"),
		Entry("report", "patch", addons, "managedclusteraddons/status", "c1", "fleet-rollout"),
		Entry("renew its Lease", "patch", leases, "leases", "c1", "fleet-rollout-agent"),
	)

	DescribeTable("may do nothing else", func(ctx SpecContext, verb, group, resource, namespace, name string) {
		awaitAccess(ctx)
		Expect(try(ctx, verb, group, resource, namespace, name)).To(BeFalse())
	},
		Entry("change a delivery", "patch", rollouts, "rolloutdeliveries", "c1", "any"),
		Entry("write a delivery's status", "patch", rollouts, "rolloutdeliveries/status", "c1", "any"),
		Entry("delete a delivery", "delete", rollouts, "rolloutdeliveries", "c1", "any"),
		Entry("read deliveries of another cluster", "list", rollouts, "rolloutdeliveries", "c2", ""),
		Entry("read all deliveries", "list", rollouts, "rolloutdeliveries", "", ""),
		Entry("read rollouts", "list", rollouts, "fleetrollouts", "c1", ""),
		Entry("read revisions", "list", rollouts, "rolloutrevisions", "c1", ""),
		Entry("list addons", "list", addons, "managedclusteraddons", "c1", ""),
		Entry("change its addon's spec", "patch", addons, "managedclusteraddons", "c1", "fleet-rollout"),
		Entry("replace its addon's status", "update", addons, "managedclusteraddons/status", "c1", "fleet-rollout"),
		Entry("report for another addon", "patch", addons, "managedclusteraddons/status", "c1", "other"),
		Entry("report for another cluster", "patch", addons, "managedclusteraddons/status", "c2", "fleet-rollout"),
		Entry("create a Lease", "create", leases, "leases", "c1", ""),
		Entry("renew the cluster's own Lease", "patch", leases, "leases", "c1", "managed-cluster-lease"),
		Entry("renew the Lease of another cluster", "patch", leases, "leases", "c2", "fleet-rollout-agent"),
		Entry("read Secrets", "get", "", "secrets", "c1", "any"),
		Entry("read works", "list", works, "manifestworks", "c1", ""),
		Entry("read clusters", "list", "cluster.open-cluster-management.io", "managedclusters", "", ""),
		Entry("widen its role", "update", rbacGroup, "roles", "c1", "open-cluster-management:fleet-rollout:agent"),
		Entry("request certificates", "create", "certificates.k8s.io", "certificatesigningrequests", "", ""),
	)

	It("is refused by the API itself, and not only by its authorizer's word", func(ctx SpecContext) {
		awaitAccess(ctx)
		agent := clientAs(asAgent())
		Expect(agent.Get(ctx, client.ObjectKey{Namespace: "c1", Name: v1alpha1.AddonName}, &addonv1alpha1.ManagedClusterAddOn{})).To(Succeed())
		Expect(agent.List(ctx, &addonv1alpha1.ManagedClusterAddOnList{}, client.InNamespace("c1"))).To(MatchError(ContainSubstring("forbidden")))
		Expect(agent.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: "mine"}})).
			To(MatchError(ContainSubstring("forbidden")))
	})

	It("is of no use to anybody who is merely authenticated", func(ctx SpecContext) {
		awaitAccess(ctx)
		for i, other := range []*rest.Config{as("mallory"), as("agent-of-c2", addonGroup)} {
			Expect(clientAs(other).List(ctx, &v1alpha1.RolloutDeliveryList{}, client.InNamespace("c1"))).
				To(MatchError(ContainSubstring("forbidden")), fmt.Sprint(i))
		}
	})
})

func split(resource string) (string, string) {
	for i := range resource {
		if resource[i] == '/' {
			return resource[:i], resource[i+1:]
		}
	}
	return resource, ""
}
