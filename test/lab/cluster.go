package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Names of the OCM agents' processes, for (*Cluster).Process.
const (
	RegistrationAgent = "registration-agent"
	WorkAgent         = "work-agent"
)

// tokenLifetime of service account kubeconfigs; a lab does not live longer.
const tokenLifetime = 7 * 24 * time.Hour

// Cluster is a managed cluster. Its control plane's methods reach the managed
// cluster itself, not the hub.
type Cluster struct {
	*ControlPlane
	spec ClusterSpec
	hub  *ControlPlane
}

// Spec returns what the cluster was started from.
func (c *Cluster) Spec() ClusterSpec { return c.spec }

// join prepares the managed cluster, accepts it on the hub and starts its agents.
func (c *Cluster) join(ctx context.Context, p controlPlanePlan, src sources) error {
	k8s, err := c.Client()
	if err != nil {
		return err
	}
	hub, err := c.hub.Client()
	if err != nil {
		return err
	}
	err = hub.Create(ctx, &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: c.name, Labels: c.spec.Labels},
		Spec: clusterv1.ManagedClusterSpec{
			HubAcceptsClient:     true,
			LeaseDurationSeconds: c.spec.leaseDurationSeconds(),
		},
	})
	if err != nil {
		return fmt.Errorf("create ManagedCluster %s: %w", c.name, err)
	}
	spokeKubeconfig := c.KubeconfigPath()
	if c.spec.RestrictedWorkAgent {
		if err := installKlusterletRBAC(ctx, k8s, src.ocm); err != nil {
			return fmt.Errorf("restrict the work agent of %s: %w", c.name, err)
		}
		spokeKubeconfig, err = c.ServiceAccountKubeconfig(ctx, agentNamespace, workServiceAccount)
		if err != nil {
			return err
		}
	}
	registration := ocmProcess{name: RegistrationAgent, binary: binRegistration, args: []string{"agent",
		"--spoke-cluster-name", c.name,
		"--namespace", agentNamespace,
		"--kubeconfig", c.KubeconfigPath(),
		"--bootstrap-kubeconfig", c.hub.KubeconfigPath(),
		"--hub-kubeconfig-dir", c.hubKubeconfigDir(),
		"--cluster-healthcheck-period", "10s",
	}}
	if err := registration.start(ctx, p, c.supervisor); err != nil {
		return err
	}
	if err := c.awaitHubKubeconfig(ctx); err != nil {
		return err
	}
	work := ocmProcess{name: WorkAgent, binary: binWork, args: []string{"agent",
		"--spoke-cluster-name", c.name,
		"--namespace", agentNamespace,
		"--kubeconfig", spokeKubeconfig,
		"--workload-source-driver", "kube",
		"--workload-source-config", filepath.Join(c.hubKubeconfigDir(), "kubeconfig"),
		"--agent-id", "agent-" + c.name,
		"--status-sync-interval", "5s",
	}}
	return work.start(ctx, p, c.supervisor)
}

func (c *Cluster) hubKubeconfigDir() string { return filepath.Join(c.dir, "hub-kubeconfig") }

// awaitHubKubeconfig waits for what the registration agent gets from the hub; the
// work agent fails without it.
func (c *Cluster) awaitHubKubeconfig(ctx context.Context) error {
	return await(ctx, "the hub kubeconfig of "+c.name, []*Process{c.Process(RegistrationAgent)}, func(context.Context) error {
		for _, file := range []string{"kubeconfig", "tls.crt", "tls.key"} {
			info, err := os.Stat(filepath.Join(c.hubKubeconfigDir(), file))
			if err != nil {
				return err
			}
			if info.Size() == 0 {
				return fmt.Errorf("%s is empty", file)
			}
		}
		return nil
	})
}

// WaitAvailable waits until the hub calls the cluster joined and available.
func (c *Cluster) WaitAvailable(ctx context.Context) error {
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	hub, err := c.hub.Client()
	if err != nil {
		return err
	}
	depends := []*Process{c.hub.Process(registrationController), c.Process(RegistrationAgent), c.Process(WorkAgent)}
	return await(ctx, "cluster "+c.name+" to be available", depends, func(ctx context.Context) error {
		cluster := &clusterv1.ManagedCluster{}
		if err := hub.Get(ctx, client.ObjectKey{Name: c.name}, cluster); err != nil {
			return err
		}
		if err := conditionTrue(cluster.Status.Conditions, clusterv1.ManagedClusterConditionJoined); err != nil {
			return err
		}
		return conditionTrue(cluster.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
	})
}

// StopAgents ends the registration and work agent: the hub loses the cluster,
// while its own workloads go on. The hub notices after five times the cluster's
// LeaseDurationSeconds.
func (c *Cluster) StopAgents() error {
	return inParallel([]*Process{c.Process(RegistrationAgent), c.Process(WorkAgent)}, (*Process).Stop)
}

// StartAgents starts the agents again after StopAgents, or the one that has
// ended.
func (c *Cluster) StartAgents(ctx context.Context) error {
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	if p := c.Process(RegistrationAgent); !p.Running() {
		if err := p.Start(ctx); err != nil {
			return err
		}
	}
	if err := c.awaitHubKubeconfig(ctx); err != nil {
		return err
	}
	if p := c.Process(WorkAgent); !p.Running() {
		return p.Start(ctx)
	}
	return nil
}

// WaitAddonHubKubeconfig waits until the registration agent has written the
// addon's hub credentials into the Secret <addon>-hub-kubeconfig in namespace on
// the managed cluster, copies them into a folder and returns the path of the
// kubeconfig there. The files replace those of an earlier call, so calling it
// again, best in ProcessSpec.Prepare, brings renewed credentials.
func (c *Cluster) WaitAddonHubKubeconfig(ctx context.Context, addonName, namespace string) (string, error) {
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	k8s, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return "", err
	}
	var data map[string][]byte
	name := addonName + "-hub-kubeconfig"
	what := fmt.Sprintf("secret %s/%s of cluster %s", namespace, name, c.name)
	err = await(ctx, what, []*Process{c.Process(RegistrationAgent)}, func(ctx context.Context) error {
		secret, err := k8s.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, key := range []string{"kubeconfig", "tls.crt", "tls.key"} {
			if len(secret.Data[key]) == 0 {
				return fmt.Errorf("the secret has no %s yet", key)
			}
		}
		data = secret.Data
		return nil
	})
	if err != nil {
		return "", err
	}
	// The kubeconfig names its certificate and key relative to itself.
	dir := filepath.Join(c.dir, "addons", addonName)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	for key, content := range data {
		if err := os.WriteFile(filepath.Join(dir, key), content, 0o600); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "kubeconfig"), nil
}

// ServiceAccountKubeconfig waits for a service account of this cluster and
// returns the path of a kubeconfig with a token for it that holds a week: a
// process that uses it has exactly the rights of that account.
func (c *ControlPlane) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	k8s, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return "", err
	}
	seconds := int64(tokenLifetime / time.Second)
	var token string
	what := fmt.Sprintf("service account %s/%s of cluster %s", namespace, name, c.name)
	err = await(ctx, what, nil, func(ctx context.Context) error {
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
		response, err := k8s.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		token = response.Status.Token
		return nil
	})
	if err != nil {
		return "", err
	}
	dir := filepath.Join(c.dir, "service-accounts")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(dir, namespace+"-"+name+".kubeconfig")
	auth := &clientcmdapi.AuthInfo{Token: token}
	return path, writeKubeconfig(path, c.name, c.config.Host, c.config.CAData, name, auth)
}

// withDefaultTimeout keeps a wait from lasting for ever when the caller gave no
// deadline.
func withDefaultTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, defaultTimeout, errTimeout)
}

const defaultTimeout = 5 * time.Minute

var errTimeout = errors.New("timed out after 5 minutes")
