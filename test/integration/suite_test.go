// Package integration tests Fleet Rollout on one real API server. Nothing runs
// there but Kubernetes: the specs play the agents and the managed clusters.
package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/test/lab"
)

const manifestsFolder = "../../manifests"

var (
	// restConfig is the administrator's configuration of the API server.
	restConfig *rest.Config
	// k8s reads and writes without a cache, and refuses fields that the API
	// does not know, as kubectl does.
	k8s client.Client
	// fromBeforePolicy was created before the ValidatingAdmissionPolicy was, and
	// breaks it.
	fromBeforePolicy = client.ObjectKey{Namespace: "default", Name: "from-before"}
)

func TestIntegration(t *testing.T) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(60 * time.Second)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	RegisterFailHandler(Fail)
	RunSpecs(t, "Integration")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	// The controller manager is there for garbage collection, and because it is
	// what checks the types of admission policies.
	controlPlane, err := lab.StartControlPlane(ctx, lab.ControlPlaneOptions{ControllerManager: true, Log: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(controlPlane.Stop()).To(Succeed()) })
	restConfig = controlPlane.RESTConfig()

	scheme, err := lab.Scheme()
	Expect(err).NotTo(HaveOccurred())
	Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	plain, err := client.New(restConfig, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	k8s = client.WithFieldValidation(plain, metav1.FieldValidationStrict)

	Expect(controlPlane.InstallCRDs(ctx, ocmCRDs(ctx)...)).To(Succeed())
	Expect(controlPlane.InstallCRDs(ctx, filepath.Join(manifestsFolder, "crds", "*.yaml"))).To(Succeed())
	inline := rolloutFrom(strings.Replace(validRollout, "kind: ConfigMap", "kind: Secret", 1))
	inline.SetName(fromBeforePolicy.Name)
	Expect(k8s.Create(ctx, inline)).To(Succeed())
	installPolicies(ctx)
	startManager(ctx, controlPlane)
}, NodeTimeout(20*time.Minute)) // The first start may have to build the binaries.

// ocmCRDs are the files with OCM's kinds on a hub, from the module that our
// code is built with.
func ocmCRDs(ctx context.Context) []string {
	GinkgoHelper()
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "open-cluster-management.io/api").Output()
	Expect(err).NotTo(HaveOccurred())
	dir := strings.TrimSpace(string(out))
	return []string{
		filepath.Join(dir, "cluster", "v1", "*.crd.yaml"),
		filepath.Join(dir, "cluster", "v1beta1", "*.crd.yaml"),
		filepath.Join(dir, "work", "v1", "0000_00*.crd.yaml"),
		filepath.Join(dir, "addon", "v1alpha1", "*.crd.yaml"),
	}
}

// edit reads an object again, changes it and updates it, as often as somebody
// else was faster. It returns the API server's answer.
func edit[T client.Object](ctx context.Context, object T, change func(T)) error {
	GinkgoHelper()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
		change(object)
		return k8s.Update(ctx, object)
	})
}

// editStatus is edit for the status.
func editStatus[T client.Object](ctx context.Context, object T, change func(T)) error {
	GinkgoHelper()
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
		change(object)
		return k8s.Status().Update(ctx, object)
	})
}

// installPolicies applies manifests/admission and waits until the API server
// has taken the policy up, which it does some time after the write.
func installPolicies(ctx context.Context) {
	GinkgoHelper()
	files, err := filepath.Glob(filepath.Join(manifestsFolder, "admission", "*.yaml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(files).NotTo(BeEmpty())
	for _, file := range files {
		for _, object := range objectsIn(file) {
			Expect(k8s.Create(ctx, object)).To(Succeed(), file)
		}
	}
	inline := rolloutFrom(strings.Replace(validRollout, "kind: ConfigMap", "kind: Secret", 1))
	Eventually(ctx, func(ctx context.Context) error {
		return k8s.Create(ctx, inline.DeepCopy(), client.DryRunAll)
	}).Should(MatchError(apierrors.IsInvalid, "IsInvalid"), "the policy is not in force")
	unowned := objectFrom(validAction)
	Eventually(ctx, func(ctx context.Context) error {
		return k8s.Create(ctx, unowned.DeepCopy(), client.DryRunAll)
	}).Should(MatchError(apierrors.IsForbidden, "IsForbidden"), "the policy of RolloutActions is not in force")
	owned := objectFrom(validAction)
	owned.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "default", UID: "1"}})
	Eventually(ctx, func(ctx context.Context) error {
		return clientOf("system:admin", "system:masters").Create(ctx, signed(owned, "system:admin"), client.DryRunAll)
	}).Should(MatchError(apierrors.IsInvalid, "IsInvalid"), "the policy of the audit trail is not in force")
	for _, name := range []string{"fleetrollouts", "rolloutactions", "rolloutaction-trail"} {
		Eventually(ctx, func(ctx context.Context) (*admissionv1.TypeChecking, error) {
			var policy admissionv1.ValidatingAdmissionPolicy
			err := k8s.Get(ctx, client.ObjectKey{Name: name + "." + v1alpha1.GroupName}, &policy)
			return policy.Status.TypeChecking, err
		}).Should(Equal(&admissionv1.TypeChecking{}), "policy %s was not type-checked without a warning", name)
	}
}

// objectsIn returns the objects of a file of several YAML documents.
func objectsIn(file string) []*unstructured.Unstructured {
	GinkgoHelper()
	text, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	var objects []*unstructured.Unstructured
	for _, document := range strings.Split(string(text), "\n---\n") {
		objects = append(objects, objectFrom(document))
	}
	return objects
}

// objectFrom reads one object from YAML, with exactly the fields written there.
func objectFrom(text string) *unstructured.Unstructured {
	GinkgoHelper()
	object := &unstructured.Unstructured{}
	Expect(yaml.UnmarshalStrict([]byte(text), &object.Object)).To(Succeed(), text)
	// Numbers arrive as float64; the API's own decoder makes integers of them.
	raw, err := object.MarshalJSON()
	Expect(err).NotTo(HaveOccurred())
	Expect(object.UnmarshalJSON(raw)).To(Succeed())
	return object
}

// newNamespace creates a namespace for one spec.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace := objectFrom("{apiVersion: v1, kind: Namespace, metadata: {generateName: spec-}}")
	Expect(k8s.Create(ctx, namespace)).To(Succeed())
	return namespace.GetName()
}

// rolloutFrom reads a FleetRollout from YAML.
func rolloutFrom(text string) *unstructured.Unstructured {
	GinkgoHelper()
	rollout := objectFrom(text)
	Expect(rollout.GetKind()).To(Equal("FleetRollout"), fmt.Sprintf("not a FleetRollout:\n%s", text))
	return rollout
}
