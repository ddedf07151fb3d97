package e2e

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/test/lab"
	"open-cluster-management.io/fleet-rollout/test/product"
)

// documented returns the commands of a section of docs/operations.md, in order,
// for the example rollout.
func documented(heading string) []string {
	GinkgoHelper()
	root, err := lab.RepoRoot()
	Expect(err).NotTo(HaveOccurred())
	raw, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	Expect(err).NotTo(HaveOccurred())
	_, section, found := strings.Cut(string(raw), heading+"\n")
	Expect(found).To(BeTrue(), "docs/operations.md has no section %q", heading)
	section, _, _ = strings.Cut(section, "\n##")
	names := strings.NewReplacer("NAMESPACE", product.ExampleNamespace, "NAME", product.ExampleRollout,
		"-k manifests", "-k "+filepath.Join(root, "manifests"), "'", "")
	var commands []string
	for _, line := range regexp.MustCompile(`(?m)^ *kubectl (.+)$`).FindAllStringSubmatch(section, -1) {
		commands = append(commands, names.Replace(line[1]))
	}
	return commands
}

func kubectl(ctx context.Context, command string) {
	GinkgoHelper()
	out, err := theProd.Kubectl(ctx, strings.Fields(command)...)
	Expect(err).NotTo(HaveOccurred(), out)
}

// expectNothingHangs fails while a namespace is being deleted for ever.
func expectNothingHangs(ctx context.Context) {
	GinkgoHelper()
	for _, c := range []client.Client{hub, managedClient("c1"), managedClient("c2"), managedClient("c3")} {
		Eventually(func(g Gomega) {
			var namespaces corev1.NamespaceList
			g.Expect(c.List(ctx, &namespaces)).To(Succeed())
			for _, namespace := range namespaces.Items {
				g.Expect(namespace.DeletionTimestamp).To(BeNil(), "namespace %s", namespace.Name)
			}
		}).WithContext(ctx).Should(Succeed())
	}
}

// uninstallAndInstall is part of the story of one rollout: it begins with a
// running one and ends with a hub on which the product is installed anew.
func uninstallAndInstall(ctx SpecContext) {
	steps := documented("## Uninstalling")
	Expect(steps).To(HaveLen(4))
	By("keeping the workloads")
	version := getRollout(ctx).Spec.Version
	kubectl(ctx, steps[0])
	eventuallySucceeded(ctx, version)
	service := &corev1.Service{}
	serviceKey := client.ObjectKey{Namespace: product.ExampleWorkload, Name: "api"}
	Expect(managedClient("c1").Get(ctx, serviceKey, service)).To(Succeed())
	uid := service.UID

	By("deleting the rollouts while the manager is gone, which waits for it")
	manager := theProd.Managers[0]
	Expect(manager.Kill()).To(Succeed())
	kubectl(ctx, steps[1]+" --wait=false")
	Expect(hub.Get(ctx, rolloutKey, &v1alpha1.FleetRollout{})).To(Succeed(), "the finalizer keeps it")
	Expect(manager.Start(ctx)).To(Succeed())
	kubectl(ctx, steps[1])
	Expect(hub.Get(ctx, rolloutKey, &v1alpha1.FleetRollout{})).To(MatchError(apierrors.IsNotFound, "IsNotFound"))

	By("disabling the addon")
	kubectl(ctx, steps[2])
	for name, agent := range theProd.Agents {
		Expect(agent.Stop()).To(Succeed()) // A pod goes with its Deployment; here it is a process.
		Eventually(func() error {
			return hub.Get(ctx, client.ObjectKey{Namespace: name, Name: v1alpha1.AgentLeaseName}, &coordinationv1.Lease{})
		}).WithContext(ctx).Should(MatchError(apierrors.IsNotFound, "IsNotFound"), "the agent's Lease on %s", name)
	}
	Eventually(func(g Gomega) {
		var works workv1.ManifestWorkList
		g.Expect(hub.List(ctx, &works)).To(Succeed())
		g.Expect(works.Items).To(BeEmpty(), "neither ours nor that which carried the agent")
	}).WithContext(ctx).Should(Succeed())

	By("deleting the manager and the kinds")
	Expect(manager.Stop()).To(Succeed())
	kubectl(ctx, steps[3])
	err := hub.List(ctx, &v1alpha1.RolloutDeliveryList{})
	Expect(meta.IsNoMatchError(err) || apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	expectNothingHangs(ctx)
	Expect(managedClient("c1").Get(ctx, serviceKey, service)).To(Succeed())
	Expect(service.UID).To(Equal(uid), "what was to be kept is still the same")
	Expect(service.OwnerReferences).To(BeEmpty())

	By("installing it again")
	install(ctx, agentArgs)
}
