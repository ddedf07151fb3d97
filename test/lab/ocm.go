package lab

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const (
	apiModule  = "open-cluster-management.io/api"
	ocmModule  = "open-cluster-management.io/ocm"
	kwokSource = "sigs.k8s.io/kwok"

	hubNamespace   = "open-cluster-management-hub"
	agentNamespace = "open-cluster-management-agent"

	registrationController = "registration-controller"

	// globalSet holds every ManagedCluster; OCM's hub makes it.
	globalSet = "global"
)

// hubCRDs and managedCRDs are globs below the source of OCM's API module.
func hubCRDs() []string {
	return []string{
		"cluster/v1/*.crd.yaml",
		"cluster/v1beta1/*.crd.yaml",
		"cluster/v1beta2/*.crd.yaml",
		"cluster/v1alpha1/*addonplacementscores.crd.yaml",
		"work/v1/0000_00*.crd.yaml",
		"work/v1alpha1/*.crd.yaml",
		"addon/v1alpha1/*.crd.yaml",
	}
}

func managedCRDs() []string {
	return []string{
		"work/v1/0000_01*.crd.yaml",
		"cluster/v1alpha1/*clusterclaims.crd.yaml",
	}
}

// sources are folders of modules whose files the lab reads at run time, so that
// they are always those of the binaries that run.
type sources struct{ api, ocm, kwok string }

func findSources(ctx context.Context) (sources, error) {
	root, err := RepoRoot()
	if err != nil {
		return sources{}, err
	}
	var result sources
	for _, s := range []struct {
		dir          *string
		module, path string
	}{
		{&result.api, kubernetesModule, apiModule},
		{&result.ocm, kubernetesModule, ocmModule},
		{&result.kwok, kwokModule, kwokSource},
	} {
		if *s.dir, err = moduleDir(ctx, nestedModule(root, s.module), s.path); err != nil {
			return sources{}, err
		}
	}
	return result, nil
}

// Scheme knows the Kubernetes and OCM kinds of a lab.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme,
		apiextensionsv1.AddToScheme,
		clusterv1.Install,
		clusterv1beta1.Install,
		clusterv1beta2.Install,
		workv1.Install,
		addonv1alpha1.Install,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// Client returns an uncached client with the rights of an administrator.
func (c *ControlPlane) Client() (client.Client, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	return client.New(c.RESTConfig(), client.Options{Scheme: scheme})
}

// InstallCRDs creates the CustomResourceDefinitions in files that match globs,
// or updates them, and waits until they are served.
func (c *ControlPlane) InstallCRDs(ctx context.Context, globs ...string) error {
	k8s, err := c.Client()
	if err != nil {
		return err
	}
	crds, err := readCRDs(globs)
	if err != nil {
		return err
	}
	return inParallel(crds, func(crd *apiextensionsv1.CustomResourceDefinition) error {
		if err := createOrUpdateCRD(ctx, k8s, crd); err != nil {
			return fmt.Errorf("install CRD %s: %w", crd.Name, err)
		}
		return await(ctx, "CRD "+crd.Name, nil, func(ctx context.Context) error {
			if err := k8s.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
				return err
			}
			for _, condition := range crd.Status.Conditions {
				if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
					return isDiscovered(k8s, crd)
				}
			}
			return fmt.Errorf("not established")
		})
	})
}

// isDiscovered asks whether clients find the kind of a CRD: the API server lists it
// a moment after it is established, and on a busy machine that moment is long.
func isDiscovered(k8s client.Client, crd *apiextensionsv1.CustomResourceDefinition) error {
	kind := schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
	for _, version := range crd.Spec.Versions {
		if !version.Served {
			continue
		}
		if _, err := k8s.RESTMapper().RESTMapping(kind, version.Name); err != nil {
			return fmt.Errorf("not discovered: %w", err)
		}
	}
	return nil
}

func readCRDs(globs []string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, glob := range globs {
		files, err := filepath.Glob(glob)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("no CRD matches %s", glob)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := yaml.Unmarshal(content, crd); err != nil {
				return nil, fmt.Errorf("read CRD %s: %w", file, err)
			}
			crds = append(crds, crd)
		}
	}
	return crds, nil
}

func createOrUpdateCRD(ctx context.Context, k8s client.Client, crd *apiextensionsv1.CustomResourceDefinition) error {
	err := k8s.Create(ctx, crd)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	existing := &apiextensionsv1.CustomResourceDefinition{}
	if err := k8s.Get(ctx, client.ObjectKeyFromObject(crd), existing); err != nil {
		return err
	}
	existing.Spec = crd.Spec
	return k8s.Update(ctx, existing)
}

// below puts dir before every glob.
func below(dir string, globs []string) []string {
	result := make([]string, len(globs))
	for i, glob := range globs {
		result[i] = filepath.Join(dir, glob)
	}
	return result
}

func ensureNamespace(ctx context.Context, k8s client.Client, name string) error {
	err := k8s.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	return client.IgnoreAlreadyExists(err)
}

// startHubControllers installs OCM's hub on a control plane.
func startHubControllers(ctx context.Context, p controlPlanePlan, hub *ControlPlane, src sources, options Options) error {
	if err := hub.InstallCRDs(ctx, below(src.api, hubCRDs())...); err != nil {
		return err
	}
	k8s, err := hub.Client()
	if err != nil {
		return err
	}
	if err := ensureNamespace(ctx, k8s, hubNamespace); err != nil {
		return err
	}
	components := []ocmProcess{
		{name: registrationController, binary: binRegistration, args: []string{"controller",
			"--feature-gates=DefaultClusterSet=true,ManagedClusterAutoApproval=true,ResourceCleanup=true",
			"--auto-approved-csr-users=" + adminUser}},
		{name: "placement-controller", binary: binPlacement, args: []string{"controller"}},
		{name: "work-manager", binary: binWork, args: []string{"manager",
			"--work-driver", "kube", "--work-driver-config", hub.KubeconfigPath(),
			fmt.Sprintf("--feature-gates=ManifestWorkReplicaSet=%t", options.ManifestWorkReplicaSet)}},
		{name: "addon-manager", binary: binAddon, args: []string{"manager"}},
	}
	return inParallel(components, func(component ocmProcess) error {
		component.args = append(component.args, "--kubeconfig", hub.KubeconfigPath(), "--namespace", hubNamespace)
		return component.start(ctx, p, hub.supervisor)
	})
}

// ocmProcess is one of OCM's controllers or agents.
type ocmProcess struct {
	name, binary string
	args         []string
}

// start returns when the process listens. All of OCM's processes serve health
// and metrics and have no way to leave it, so each needs a port.
func (o ocmProcess) start(ctx context.Context, p controlPlanePlan, s *supervisor) error {
	address := func(ports []int) string { return net.JoinHostPort(loopback, strconv.Itoa(ports[0])) }
	_, err := s.startOnFreePorts(ctx, 1, func(ports []int) ProcessSpec {
		args := append(slices.Clone(o.args), "--disable-leader-election", "--listen", address(ports))
		spec := p.spec(s, o.binary, args...)
		spec.Name = o.name
		return spec
	}, func(ctx context.Context, ports []int) error {
		connection, err := new(net.Dialer).DialContext(ctx, "tcp", address(ports))
		if err != nil {
			return err
		}
		return connection.Close()
	})
	return err
}

// conditionTrue returns an error that shows the condition if it is not True.
func conditionTrue(conditions []metav1.Condition, conditionType string) error {
	for _, c := range conditions {
		if c.Type != conditionType {
			continue
		}
		if c.Status == metav1.ConditionTrue {
			return nil
		}
		return fmt.Errorf("condition %s is %s: %s", conditionType, c.Status, strings.TrimSpace(c.Reason+" "+c.Message))
	}
	return fmt.Errorf("condition %s is missing", conditionType)
}
