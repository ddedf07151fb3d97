package integration

import (
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"open-cluster-management.io/fleet-rollout/test/lab"
)

const (
	managerNamespace = "fleet-rollout-system"
	managerAccount   = "fleet-rollout-manager"
)

// manager is the one manager of the suite: a process, so that specs can kill
// it. It has the rights of manifests/hub and no others. The addon manager is
// off; nobody registers here.
var manager *lab.Process

func startManager(ctx SpecContext, controlPlane *lab.ControlPlane) {
	GinkgoHelper()
	for _, file := range []string{"namespace.yaml", "serviceaccount.yaml", "rbac.yaml", "user-roles.yaml"} {
		for _, object := range objectsIn(filepath.Join(manifestsFolder, "hub", file)) {
			Expect(k8s.Create(ctx, object)).To(Succeed(), file)
		}
	}
	kubeconfig, err := controlPlane.ServiceAccountKubeconfig(ctx, managerNamespace, managerAccount)
	Expect(err).NotTo(HaveOccurred())
	bin, err := lab.BuildProduct(ctx, GinkgoWriter, "./cmd/manager")
	Expect(err).NotTo(HaveOccurred())
	manager, err = controlPlane.RunProcess(ctx, lab.ProcessSpec{
		Name: "manager",
		Path: filepath.Join(bin, "manager"),
		Args: []string{
			"--kubeconfig", kubeconfig,
			"--addon-manager=false",
			"--leader-elect-namespace", managerNamespace,
			"--leader-elect-lease-duration", "4s",
			"--leader-elect-renew-deadline", "3s",
			"--leader-elect-retry-period", "500ms",
			"--metrics-bind-address", "0",
			"--health-probe-bind-address", "0",
		},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		if manager.Running() {
			Expect(manager.Stop()).To(Succeed())
		}
	})
}
