// Package product installs Fleet Rollout on a lab as an administrator would on
// a real hub, and runs the manager and the agents as processes.
//
// Nothing runs with an administrator's rights: the manager has a token of the
// service account that the manifests give it, each agent has the hub identity
// that OCM's registration agent obtained for the addon, and on its cluster the
// service account that the addon deployed.
package product

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/test/lab"
)

const (
	managerNamespace      = "fleet-rollout-system"
	managerServiceAccount = "fleet-rollout-manager"
	agentNamespace        = "open-cluster-management-agent-addon"
	agentServiceAccount   = "fleet-rollout-agent"

	enableTimeout = 5 * time.Minute
)

// Options say how Install installs.
type Options struct {
	// Lab to install on.
	Lab *lab.Lab
	// Managers is how many replicas of the manager run. Zero means 1.
	Managers int
	// ManagerArgs are added to the manager's arguments.
	ManagerArgs []string
	// AgentArgs are added to the arguments of every agent.
	AgentArgs []string
	// Detached keeps manager and agents running when this process ends.
	Detached bool
	// Log receives progress. May be nil.
	Log io.Writer
}

// Product is Fleet Rollout on a lab.
type Product struct {
	lab      *lab.Lab
	bin      string
	kubectl  string
	log      io.Writer
	detached bool
	// agentArgs of Options.
	agentArgs []string
	// Managers are the processes of the manager's replicas.
	Managers []*lab.Process
	// Agents are the processes of the agents, by cluster.
	Agents map[string]*lab.Process
}

// Install builds manager and agent, applies manifests to the hub and
// starts the manager. The addon is not enabled on any cluster yet.
func Install(ctx context.Context, options Options) (*Product, error) {
	log := options.Log
	if log == nil {
		log = io.Discard
	}
	p := &Product{lab: options.Lab, log: log, detached: options.Detached, agentArgs: options.AgentArgs, Agents: map[string]*lab.Process{}}
	labBin, err := lab.Build(ctx, log)
	if err != nil {
		return nil, err
	}
	p.kubectl = filepath.Join(labBin, "kubectl")
	if p.bin, err = lab.BuildProduct(ctx, log, "./cmd/manager", "./cmd/addon-agent"); err != nil {
		return nil, err
	}
	root, err := lab.RepoRoot()
	if err != nil {
		return nil, err
	}
	// What the README tells an administrator to run.
	if _, err := p.Kubectl(ctx, "apply", "--server-side", "-k", filepath.Join(root, "manifests")); err != nil {
		return nil, err
	}
	for i := range max(options.Managers, 1) {
		m, err := p.startManager(ctx, i, options.ManagerArgs)
		if err != nil {
			return nil, err
		}
		p.Managers = append(p.Managers, m)
	}
	return p, nil
}

// Kubectl runs kubectl on the hub as an administrator and returns its output.
func (p *Product) Kubectl(ctx context.Context, args ...string) (string, error) {
	args = append([]string{"--kubeconfig", p.lab.Hub().KubeconfigPath()}, args...)
	out, err := exec.CommandContext(ctx, p.kubectl, args...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args[2:], " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

func (p *Product) startManager(ctx context.Context, replica int, extra []string) (*lab.Process, error) {
	hub := p.lab.Hub()
	kubeconfig, err := hub.ServiceAccountKubeconfig(ctx, managerNamespace, managerServiceAccount)
	if err != nil {
		return nil, err
	}
	return p.lab.RunProcess(ctx, lab.ProcessSpec{
		Cluster:  hub.Name(),
		Name:     fmt.Sprintf("fleet-rollout-manager-%d", replica),
		Path:     filepath.Join(p.bin, "manager"),
		Detached: p.detached,
		Args: append([]string{
			"--kubeconfig", kubeconfig,
			"--leader-elect-namespace", managerNamespace,
			// A killed leader's successor should not keep a test waiting.
			"--leader-elect-lease-duration", "4s",
			"--leader-elect-renew-deadline", "3s",
			"--leader-elect-retry-period", "500ms",
			"--agent-image", "fleet-rollout:lab",
			"--metrics-bind-address", "127.0.0.1:0",
			"--health-probe-bind-address", "127.0.0.1:0",
		}, extra...),
	})
}

// Enable enables the addon on clusters, with the object that
// "clusteradm addon enable --names fleet-rollout --clusters …" creates, and
// starts their agents.
func (p *Product) Enable(ctx context.Context, clusters ...string) error {
	ctx, cancel := context.WithTimeout(ctx, enableTimeout)
	defer cancel()
	hub, err := HubClient(p.lab)
	if err != nil {
		return err
	}
	for _, name := range clusters {
		addon := &addonv1alpha1.ManagedClusterAddOn{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: v1alpha1.AddonName},
		}
		if err := client.IgnoreAlreadyExists(hub.Create(ctx, addon)); err != nil {
			return fmt.Errorf("enable the addon on cluster %q: %w", name, err)
		}
	}
	for _, name := range clusters {
		if err := p.startAgent(ctx, name); err != nil {
			return fmt.Errorf("start the agent of cluster %q: %w", name, err)
		}
		fmt.Fprintf(p.log, "        addon enabled on %s, its agent runs\n", name)
	}
	return nil
}

func (p *Product) startAgent(ctx context.Context, name string) error {
	cluster := p.lab.Cluster(name)
	hubKubeconfig, err := cluster.WaitAddonHubKubeconfig(ctx, v1alpha1.AddonName, agentNamespace)
	if err != nil {
		return err
	}
	kubeconfig, err := cluster.ServiceAccountKubeconfig(ctx, agentNamespace, agentServiceAccount)
	if err != nil {
		return err
	}
	agent, err := p.lab.RunProcess(ctx, lab.ProcessSpec{
		Cluster:  name,
		Name:     "fleet-rollout-agent",
		Path:     filepath.Join(p.bin, "addon-agent"),
		Detached: p.detached,
		Args: append([]string{
			"--cluster-name", name,
			"--hub-kubeconfig", hubKubeconfig,
			"--kubeconfig", kubeconfig,
			"--lease-fast", "3s",
			"--lease-slow", "5s",
		}, p.agentArgs...),
		Prepare: func(ctx context.Context) error {
			_, err := cluster.WaitAddonHubKubeconfig(ctx, v1alpha1.AddonName, agentNamespace)
			return err
		},
	})
	if err != nil {
		return err
	}
	p.Agents[name] = agent
	return nil
}

// HubClient returns an administrator's client of the hub that knows the kinds
// of OCM and of Fleet Rollout.
func HubClient(l *lab.Lab) (client.Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.Install, clusterv1beta1.Install, workv1.Install, addonv1alpha1.Install, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return client.New(l.Hub().RESTConfig(), client.Options{Scheme: scheme})
}

// ClusterClient returns an administrator's client of a managed cluster.
func ClusterClient(l *lab.Lab, name string) (client.Client, error) {
	cluster := l.Cluster(name)
	if cluster == nil {
		return nil, fmt.Errorf("the lab has no cluster %q", name)
	}
	return client.New(cluster.RESTConfig(), client.Options{Scheme: clientgoscheme.Scheme})
}
