package addon

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"open-cluster-management.io/addon-framework/pkg/addonfactory"
	"open-cluster-management.io/addon-framework/pkg/agent"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// agentName is the last part of the agent's user name on the hub,
// system:open-cluster-management:cluster:<cluster>:addon:fleet-rollout:agent:fleet-rollout-agent.
const agentName = "fleet-rollout-agent"

// agentAddon implements agent.AgentAddon for "fleet-rollout".
type agentAddon struct {
	image       string
	objects     []runtime.Object
	permissions *permissions
}

func newAgentAddon(opts Options, p *permissions) (*agentAddon, error) {
	if opts.Image == "" {
		return nil, fmt.Errorf("addon %s: the image of the agent is empty: set it", v1alpha1.AddonName)
	}
	objects, err := parseManifests()
	if err != nil {
		return nil, fmt.Errorf("addon %s: %w", v1alpha1.AddonName, err)
	}
	return &agentAddon{image: opts.Image, objects: objects, permissions: p}, nil
}

// Manifests are the objects for one managed cluster. The framework asks for
// them two or three times for each event of the addon, so they are copied
// rather than parsed.
func (a *agentAddon) Manifests(
	cluster *clusterv1.ManagedCluster, addon *addonv1alpha1.ManagedClusterAddOn,
) ([]runtime.Object, error) {
	namespace, err := installNamespace(addon)
	if err != nil {
		return nil, err
	}
	return instantiate(a.objects, placement{namespace: namespace, cluster: cluster.Name, image: a.image})
}

// GetAgentAddonOptions registers the agent with a client certificate of the
// hub, and tells the framework how the addon's Available condition is made.
//
// OCM's default for Available is a Lease on the managed cluster that the
// registration agent there reads. Our agent writes nothing on the managed
// cluster, so it cannot renew one; and Available set by the agent itself would
// stay True after its death. So Available follows the agent's Deployment, as
// the work agent reports it in the status of the ManifestWork. Rollouts do not
// look at this condition: for them the agent lives while its Lease on the hub
// is renewed (law 5).
func (a *agentAddon) GetAgentAddonOptions() agent.AgentAddonOptions {
	return agent.AgentAddonOptions{
		AddonName: v1alpha1.AddonName,
		Registration: &agent.RegistrationOption{
			CSRConfigurations:     agent.KubeClientSignerConfigurations(v1alpha1.AddonName, agentName),
			CSRApproveCheck:       approveRequest,
			PermissionConfig:      a.permissions.ensure,
			AgentInstallNamespace: installNamespace,
		},
		HealthProber: &agent.HealthProber{Type: agent.HealthProberTypeDeploymentAvailability},
	}
}

// installNamespace is where the agent runs on the managed cluster: what the
// ManagedClusterAddOn says, else OCM's namespace for addons.
func installNamespace(addon *addonv1alpha1.ManagedClusterAddOn) (string, error) {
	//nolint:staticcheck // Deprecated, and still what "clusteradm addon enable --namespace" sets.
	if namespace := addon.Spec.InstallNamespace; namespace != "" {
		return namespace, nil
	}
	return addonfactory.AddonDefaultInstallNamespace, nil
}
