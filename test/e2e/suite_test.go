// Package e2e runs Fleet Rollout on real Kubernetes and real Open Cluster
// Management: a hub, three managed clusters with their registration and work
// agents, our manager and agents as processes. Only pods are played, by kwok.
package e2e

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/test/lab"
	"open-cluster-management.io/fleet-rollout/test/product"
)

const (
	setupTimeout = 40 * time.Minute
	// patience is how long a state may take that the real parts reach in
	// seconds on an idle machine.
	patience = 3 * time.Minute
	pollEach = 200 * time.Millisecond
)

var (
	theLab  *lab.Lab
	theProd *product.Product
	hub     client.Client
)

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(pollEach)
	SetDefaultConsistentlyPollingInterval(pollEach)
	suite, reporter := GinkgoConfiguration()
	suite.Timeout = 2 * time.Hour
	RunSpecs(t, "Fleet Rollout on real OCM", suite, reporter)
}

var _ = BeforeSuite(func(ctx SpecContext) {
	var err error
	theLab, err = lab.Start(ctx, lab.Options{Clusters: lab.DefaultClusters(3), Log: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() {
			GinkgoWriter.Println("logs:", theLab.LogDir())
		}
		Expect(theLab.Stop()).To(Succeed())
	})
	install(ctx, endpoint.listen())
	Expect(theProd.ApplyFleet(ctx)).To(Succeed())
}, NodeTimeout(setupTimeout))

// managedClient returns an administrator's client of a managed cluster.
func managedClient(name string) client.Client {
	GinkgoHelper()
	c, err := product.ClusterClient(theLab, name)
	Expect(err).NotTo(HaveOccurred())
	return c
}

// release applies the example rollout in a version.
func release(ctx context.Context, version, tag string) {
	GinkgoHelper()
	Expect(product.Release(ctx, hub, version, tag)).To(Succeed())
}

// agentArgs are what the agents run with: where they find the endpoint.
var agentArgs []string

// install installs the product on the lab, and enables the addon everywhere.
func install(ctx context.Context, endpoint []string) {
	GinkgoHelper()
	agentArgs = endpoint
	var err error
	theProd, err = product.Install(ctx, product.Options{
		Lab: theLab, Log: GinkgoWriter, AgentArgs: append(endpoint, "--endpoint-interval", "1s"),
	})
	Expect(err).NotTo(HaveOccurred())
	hub, err = product.HubClient(theLab)
	Expect(err).NotTo(HaveOccurred())
	Expect(theProd.Enable(ctx, "c1", "c2", "c3")).To(Succeed())
}
