// Package addon tests the addon and its agent on one real API server, which is
// hub and managed cluster at once. Both run with the rights that the manifests
// give them; the specs play OCM.
package addon

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/pkg/addon"
	"open-cluster-management.io/fleet-rollout/test/lab"
)

const (
	manifestsFolder = "../../../manifests"

	// managerUser is the service account of manifests/hub.
	managerUser = "system:serviceaccount:fleet-rollout-system:fleet-rollout-manager"

	addonNamespace = "open-cluster-management-agent-addon"
	agentImage     = "registry.example.com/fleet-rollout:test"
)

var (
	// admin is the administrator's configuration of the API server.
	admin *rest.Config
	k8s   client.Client
	// controlPlane is stopped and started by the specs about restarts.
	controlPlane *lab.ControlPlane
)

func TestAddon(t *testing.T) {
	klog.SetOutput(GinkgoWriter)
	klog.LogToStderr(false)
	ctrl.SetLogger(klog.Background())
	SetDefaultEventuallyTimeout(30 * time.Second)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	RegisterFailHandler(Fail)
	RunSpecs(t, "Addon")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	controlPlane, err = lab.StartControlPlane(ctx, lab.ControlPlaneOptions{ControllerManager: true, Log: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(controlPlane.Stop()).To(Succeed()) })
	admin = controlPlane.RESTConfig()

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.Install, workv1.Install, addonv1alpha1.Install, v1alpha1.AddToScheme,
	} {
		Expect(add(scheme)).To(Succeed())
	}
	k8s, err = client.New(admin, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())

	ocm := ocmAPI(ctx)
	_, err = envtest.InstallCRDs(admin, envtest.CRDInstallOptions{Paths: []string{
		filepath.Join(manifestsFolder, "crds"),
		filepath.Join(ocm, "cluster", "v1"), filepath.Join(ocm, "work", "v1"), filepath.Join(ocm, "addon", "v1alpha1"),
	}})
	Expect(err).NotTo(HaveOccurred())
	for _, file := range []string{
		"hub/namespace.yaml", "hub/rbac.yaml", "hub-addon/clusterrole.yaml", "hub-addon/clustermanagementaddon.yaml",
	} {
		for _, object := range objectsIn(file) {
			Expect(k8s.Create(ctx, object)).To(Succeed(), file)
		}
	}
	allowCertificateRequests(ctx)
	startAddonManager()
	joinCluster(ctx, "c1")
}, NodeTimeout(20*time.Minute)) // The first start may have to build the binaries.

// ocmAPI is the folder of OCM's API module, where its CRDs are.
func ocmAPI(ctx context.Context) string {
	GinkgoHelper()
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "open-cluster-management.io/api").Output()
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(string(out))
}

func objectsIn(file string) []*unstructured.Unstructured {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(manifestsFolder, file))
	Expect(err).NotTo(HaveOccurred())
	var objects []*unstructured.Unstructured
	for _, document := range strings.Split(string(text), "\n---\n") {
		object := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal([]byte(document), &object.Object)).To(Succeed(), file)
		objects = append(objects, object)
	}
	return objects
}

// as is the configuration of somebody else.
func as(user string, groups ...string) *rest.Config {
	cfg := rest.CopyConfig(admin)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return cfg
}

func clientAs(cfg *rest.Config) client.Client {
	GinkgoHelper()
	c, err := client.New(cfg, client.Options{Scheme: k8s.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// allowCertificateRequests gives registration agents what OCM's hub gives them.
func allowCertificateRequests(ctx context.Context) {
	GinkgoHelper()
	Expect(k8s.Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "request-certificates"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{certificatesv1.GroupName}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create"},
		}},
	})).To(Succeed())
	Expect(k8s.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "request-certificates"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "request-certificates"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "klusterlets"}},
	})).To(Succeed())
}

// startAddonManager runs it with the rights of the manager's service account.
func startAddonManager() {
	GinkgoHelper()
	runnable := addon.NewRunnable(as(managerUser), addon.Options{Image: agentImage})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runnable.Start(ctx) }()
	DeferCleanup(func() {
		cancel()
		Eventually(ended).Should(Receive(BeNil()), "the addon manager does not end with its context")
	})
}

// joinCluster plays OCM's hub up to a cluster with the addon enabled.
func joinCluster(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(k8s.Create(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	Expect(k8s.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	registration := &addonv1alpha1.ClusterManagementAddOn{}
	Expect(k8s.Get(ctx, client.ObjectKey{Name: v1alpha1.AddonName}, registration)).To(Succeed())
	Expect(k8s.Create(ctx, &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{
		Namespace: name, Name: v1alpha1.AddonName,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: addonv1alpha1.GroupVersion.String(), Kind: "ClusterManagementAddOn",
			Name: registration.Name, UID: registration.UID,
		}},
	}})).To(Succeed())
}
