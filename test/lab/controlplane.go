package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	serviceRange   = "10.0.0.0/16"
	firstServiceIP = "10.0.0.1"
)

// ControlPlaneOptions say what StartControlPlane starts.
type ControlPlaneOptions struct {
	// Dir holds data, keys, logs and the state file. Empty means a new temporary
	// folder that Stop removes, logs included.
	Dir string
	// ControllerManager starts kube-controller-manager too. Without it nothing
	// deletes namespaces, collects garbage or makes service accounts.
	ControllerManager bool
	// APIServerArgs are added to those of kube-apiserver.
	APIServerArgs []string
	// Log receives progress, such as which binaries are being built. May be nil.
	Log io.Writer
}

// ControlPlane is a running Kubernetes API with the processes behind it.
type ControlPlane struct {
	name       string
	dir        string
	config     *rest.Config
	supervisor *supervisor
	// temporary is set when Stop shall remove the whole folder of the lab.
	temporary bool
}

// StartControlPlane starts etcd and kube-apiserver, building them first if the
// cache lacks them. It takes seconds and serves as the real API server of
// integration tests. The processes end with Stop, or with this process.
func StartControlPlane(ctx context.Context, options ControlPlaneOptions) (*ControlPlane, error) {
	names := []string{binEtcd, binAPIServer}
	if options.ControllerManager {
		names = append(names, binControllerManager)
	}
	bin, err := Build(ctx, options.Log, names...)
	if err != nil {
		return nil, err
	}
	dir, temporary, err := dirOrTemporary(options.Dir)
	if err != nil {
		return nil, err
	}
	const name = "control-plane"
	s, err := claimDir(dir, state{Hub: name})
	if err != nil {
		return nil, err
	}
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	plan := controlPlanePlan{bin: bin, name: name, controllerManager: options.ControllerManager, apiServerArgs: options.APIServerArgs}
	cp, err := plan.start(ctx, s)
	if err != nil {
		return nil, errors.Join(err, s.stopAll())
	}
	cp.temporary = temporary
	return cp, nil
}

func dirOrTemporary(dir string) (string, bool, error) {
	if dir != "" {
		return dir, false, nil
	}
	dir, err := os.MkdirTemp("", "fleet-rollout-lab-")
	return dir, true, err
}

// Name returns the name of the cluster, "hub" for a hub.
func (c *ControlPlane) Name() string { return c.name }

// RESTConfig returns a copy of the administrator's client configuration, without
// a rate limit on the client's side.
func (c *ControlPlane) RESTConfig() *rest.Config { return rest.CopyConfig(c.config) }

// KubeconfigPath returns the administrator's kubeconfig.
func (c *ControlPlane) KubeconfigPath() string { return adminKubeconfig(c.dir) }

// LogDir returns the folder with one log file for each process.
func (c *ControlPlane) LogDir() string { return filepath.Join(c.supervisor.logDir(), c.name) }

// Process returns a process of this cluster, for example "kube-apiserver" or
// "etcd", to pause or kill it. It is nil if there is none of that name.
func (c *ControlPlane) Process(name string) *Process { return c.supervisor.process(c.name, name) }

// RunProcess starts a further process under the control plane's supervision,
// in its log folder. It ends with the control plane at the latest.
func (c *ControlPlane) RunProcess(ctx context.Context, spec ProcessSpec) (*Process, error) {
	spec.Cluster = c.name
	return c.supervisor.run(ctx, spec)
}

// Stop ends the processes and removes the data; the logs stay unless the folder
// was a temporary one. The control planes of a Lab are stopped with the Lab.
func (c *ControlPlane) Stop() error {
	err := c.supervisor.stopAll()
	if c.temporary {
		err = errors.Join(err, os.RemoveAll(c.supervisor.dir))
	}
	return err
}

func adminKubeconfig(clusterDir string) string { return filepath.Join(clusterDir, "admin.kubeconfig") }

// openControlPlane returns a control plane that runs already.
func openControlPlane(s *supervisor, name string) (*ControlPlane, error) {
	dir := filepath.Join(s.dir, clustersFolder, name)
	config, err := loadRESTConfig(adminKubeconfig(dir))
	if err != nil {
		return nil, err
	}
	return &ControlPlane{name: name, dir: dir, config: config, supervisor: s}, nil
}

// controlPlanePlan is what a new control plane shall consist of.
type controlPlanePlan struct {
	bin, name         string
	controllerManager bool
	apiServerArgs     []string
}

func (p controlPlanePlan) spec(s *supervisor, name string, args ...string) ProcessSpec {
	return ProcessSpec{Cluster: p.name, Name: name, Path: filepath.Join(p.bin, name), Args: args, Detached: s.detached}
}

func (p controlPlanePlan) start(ctx context.Context, s *supervisor) (*ControlPlane, error) {
	dir := filepath.Join(s.dir, clustersFolder, p.name)
	pki, err := newClusterPKI(filepath.Join(dir, "pki"), p.name)
	if err != nil {
		return nil, fmt.Errorf("create the keys of cluster %s: %w", p.name, err)
	}
	etcd, err := p.startEtcd(ctx, s, dir)
	if err != nil {
		return nil, err
	}
	if err := p.startAPIServer(ctx, s, dir, pki, etcd); err != nil {
		return nil, err
	}
	cp, err := openControlPlane(s, p.name)
	if err != nil {
		return nil, err
	}
	if p.controllerManager {
		if err := p.startControllerManager(ctx, s, cp, pki); err != nil {
			return nil, err
		}
	}
	return cp, nil
}

// startEtcd returns the URL for clients.
func (p controlPlanePlan) startEtcd(ctx context.Context, s *supervisor, dir string) (string, error) {
	url := func(port int) string { return fmt.Sprintf("http://%s:%d", loopback, port) }
	ports, err := s.startOnFreePorts(ctx, 2, func(ports []int) ProcessSpec {
		return p.spec(s, binEtcd,
			"--name", p.name,
			"--data-dir", filepath.Join(dir, "etcd"),
			"--listen-client-urls", url(ports[0]), "--advertise-client-urls", url(ports[0]),
			"--listen-peer-urls", url(ports[1]), "--initial-advertise-peer-urls", url(ports[1]),
			"--initial-cluster", p.name+"="+url(ports[1]),
			// A lab's data need not survive a power cut.
			"--unsafe-no-fsync",
			"--log-level", "warn",
		)
	}, func(ctx context.Context, ports []int) error { return getOK(ctx, url(ports[0])+"/health") })
	if err != nil {
		return "", err
	}
	return url(ports[0]), nil
}

func (p controlPlanePlan) startAPIServer(ctx context.Context, s *supervisor, dir string, pki *clusterPKI, etcd string) error {
	ready := func(ctx context.Context, ports []int) error {
		server := fmt.Sprintf("https://%s:%d", loopback, ports[0])
		auth := &clientcmdapi.AuthInfo{ClientCertificateData: pki.admin.cert, ClientKeyData: pki.admin.key}
		if err := writeKubeconfig(adminKubeconfig(dir), p.name, server, pki.ca.cert, adminUser, auth); err != nil {
			return finalError{err}
		}
		config, err := loadRESTConfig(adminKubeconfig(dir))
		if err != nil {
			return finalError{err}
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return finalError{err}
		}
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}
	_, err := s.startOnFreePorts(ctx, 1, func(ports []int) ProcessSpec {
		args := []string{
			"--etcd-servers", etcd,
			"--bind-address", loopback, "--advertise-address", loopback,
			"--secure-port", strconv.Itoa(ports[0]),
			"--tls-cert-file", pki.file("server.crt"), "--tls-private-key-file", pki.file("server.key"),
			"--client-ca-file", pki.file("ca.crt"),
			"--requestheader-client-ca-file", pki.file("front-proxy-ca.crt"),
			"--requestheader-allowed-names", "front-proxy",
			"--requestheader-username-headers", "X-Remote-User",
			"--requestheader-group-headers", "X-Remote-Group",
			"--requestheader-extra-headers-prefix", "X-Remote-Extra-",
			"--service-account-issuer", "https://kubernetes.default.svc",
			"--service-account-key-file", pki.file("service-accounts.key"),
			"--service-account-signing-key-file", pki.file("service-accounts.key"),
			"--service-cluster-ip-range", serviceRange,
			"--authorization-mode", "RBAC",
			"--endpoint-reconciler-type", "none",
			"--allow-privileged",
			// Many agents share one small machine; fairness between them must not
			// be what a test measures.
			"--max-requests-inflight", "2000", "--max-mutating-requests-inflight", "1000",
		}
		if !p.controllerManager {
			// It refuses pods until a controller has made the service account.
			args = append(args, "--disable-admission-plugins", "ServiceAccount")
		}
		return p.spec(s, binAPIServer, append(args, p.apiServerArgs...)...)
	}, ready)
	return err
}

func (p controlPlanePlan) startControllerManager(ctx context.Context, s *supervisor, cp *ControlPlane, pki *clusterPKI) error {
	process, err := s.run(ctx, p.spec(s, binControllerManager,
		"--kubeconfig", cp.KubeconfigPath(),
		"--leader-elect=false",
		"--secure-port", "0",
		"--controllers", "*,-node-ipam-controller,-node-route-controller,-cloud-node-lifecycle-controller",
		"--cluster-signing-cert-file", pki.file("ca.crt"), "--cluster-signing-key-file", pki.file("ca.key"),
		"--root-ca-file", pki.file("ca.crt"),
		"--service-account-private-key-file", pki.file("service-accounts.key"),
		"--kube-api-qps", "200", "--kube-api-burst", "400",
	))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cp.config)
	if err != nil {
		return err
	}
	// Its first visible work, and what pods in this namespace need.
	return await(ctx, "the default service account of "+p.name, []*Process{process}, func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(corev1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// getOK asks a plain HTTP endpoint for status 200.
func getOK(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}
