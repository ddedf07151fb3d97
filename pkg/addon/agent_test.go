package addon

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func agentFor(t *testing.T) *agentAddon {
	t.Helper()
	a, err := newAgentAddon(Options{Image: "registry.example.com/fleet-rollout:v1"}, newHub().permissions)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func manifestsFor(t *testing.T, a *agentAddon, addon *addonv1alpha1.ManagedClusterAddOn) []runtime.Object {
	t.Helper()
	objects, err := a.Manifests(cluster("c1"), addon)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func find[T runtime.Object](t *testing.T, objects []runtime.Object) T {
	t.Helper()
	for _, object := range objects {
		if found, ok := object.(T); ok {
			return found
		}
	}
	var none T
	t.Fatalf("no %T among the manifests", none)
	return none
}

func TestAnAgentWithoutImageIsRefused(t *testing.T) {
	if _, err := newAgentAddon(Options{}, newHub().permissions); err == nil || !strings.Contains(err.Error(), "image") {
		t.Errorf("got error %v, want one about the image", err)
	}
}

func TestManifestsFollowTheNamespaceOfTheAddon(t *testing.T) {
	for namespace, installNamespace := range map[string]string{
		"open-cluster-management-agent-addon": "", "somewhere": "somewhere",
	} {
		addon := addonOf("c1", "u1")
		addon.Spec.InstallNamespace = installNamespace //nolint:staticcheck // What clusteradm sets.
		for _, object := range manifestsFor(t, agentFor(t), addon) {
			accessor, err := meta.Accessor(object)
			if err != nil {
				t.Fatal(err)
			}
			switch o := object.(type) {
			case *corev1.Namespace:
				if o.Name != namespace {
					t.Errorf("the namespace is %s, want %s", o.Name, namespace)
				}
			case *rbacv1.ClusterRole:
			case *rbacv1.ClusterRoleBinding:
				if o.Subjects[0].Namespace != namespace {
					t.Errorf("binding %s is to namespace %s, want %s", o.Name, o.Subjects[0].Namespace, namespace)
				}
			default:
				if accessor.GetNamespace() != namespace {
					t.Errorf("%T %s is in namespace %q, want %s", object, accessor.GetName(), accessor.GetNamespace(), namespace)
				}
			}
			if object.GetObjectKind().GroupVersionKind().Kind == "" {
				t.Errorf("%T %s has no kind: the framework cannot deliver it", object, accessor.GetName())
			}
		}
	}
}

func TestManifestsOfOneClusterDoNotLeakIntoTheNext(t *testing.T) {
	a := agentFor(t)
	first := find[*appsv1.Deployment](t, manifestsFor(t, a, addonOf("c1", "u1")))
	objects, err := a.Manifests(cluster("c2"), addonOf("c2", "u2"))
	if err != nil {
		t.Fatal(err)
	}
	second := find[*appsv1.Deployment](t, objects)
	if got := first.Spec.Template.Spec.Containers[0].Env[0].Value; got != "c1" {
		t.Errorf("the first cluster is called %q, want c1", got)
	}
	container := second.Spec.Template.Spec.Containers[0]
	if container.Env[0].Value != "c2" || container.Image != "registry.example.com/fleet-rollout:v1" {
		t.Errorf("the second is called %q with image %q", container.Env[0].Value, container.Image)
	}
}

func TestTheAgentsPodIsRestricted(t *testing.T) {
	pod := find[*appsv1.Deployment](t, manifestsFor(t, agentFor(t), addonOf("c1", "u1"))).Spec.Template.Spec
	container := pod.Containers[0].SecurityContext
	if !ptr.Deref(pod.SecurityContext.RunAsNonRoot, false) ||
		pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
		ptr.Deref(container.AllowPrivilegeEscalation, true) ||
		!ptr.Deref(container.ReadOnlyRootFilesystem, false) ||
		!slices.Equal(container.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("the pod does not meet the restricted standard: %v %v", pod.SecurityContext, container)
	}
}

func TestTheAgentWritesNothingOnItsClusterAndReadsNoSecret(t *testing.T) {
	for _, object := range manifestsFor(t, agentFor(t), addonOf("c1", "u1")) {
		role, ok := object.(*rbacv1.ClusterRole)
		if !ok {
			continue
		}
		for _, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				if !slices.Contains([]string{"get", "list", "watch"}, verb) {
					t.Errorf("role %s allows %s of %v", role.Name, verb, rule.Resources)
				}
			}
			for _, resource := range rule.Resources {
				if resource == "secrets" || resource == "*" {
					t.Errorf("role %s allows to read %s", role.Name, resource)
				}
			}
		}
	}
}

func TestTheAgentMayReadWhatItAsksForByItself(t *testing.T) {
	granted := map[string][]string{}
	for _, object := range manifestsFor(t, agentFor(t), addonOf("c1", "u1")) {
		role, ok := object.(*rbacv1.ClusterRole)
		if !ok {
			continue
		}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					granted[resource+"."+group] = rule.Verbs
				}
			}
		}
	}
	for resource, why := range map[string]string{
		"pods.":                           "complaints of pods, and how many started",
		"replicasets.apps":                "which pods are a Deployment's",
		"endpointslices.discovery.k8s.io": "health of Services",
		"services.":                       "health of Services",
		"deployments.apps":                "preflight, health and drift",
	} {
		for _, verb := range []string{"get", "list", "watch"} {
			if !slices.Contains(granted[resource], verb) {
				t.Errorf("the agent may not %s %s, which it needs for: %s", verb, resource, why)
			}
		}
	}
}

func TestRolesOfUsersAreAggregatedToTheAgent(t *testing.T) {
	var labels []map[string]string
	for _, object := range manifestsFor(t, agentFor(t), addonOf("c1", "u1")) {
		if role, ok := object.(*rbacv1.ClusterRole); ok && role.AggregationRule != nil {
			for _, selector := range role.AggregationRule.ClusterRoleSelectors {
				labels = append(labels, selector.MatchLabels)
			}
			if len(role.Rules) > 0 {
				t.Errorf("role %s is aggregated and has rules: the work agent would refuse it", role.Name)
			}
		}
	}
	if len(labels) != 1 || labels[0]["rollout.open-cluster-management.io/aggregate-to-agent"] != "true" {
		t.Errorf("aggregated labels are %v", labels)
	}
}

func TestDisablingTheAddonKeepsTheNamespaceOfOthers(t *testing.T) {
	namespace := find[*corev1.Namespace](t, manifestsFor(t, agentFor(t), addonOf("c1", "u1")))
	if _, kept := namespace.Annotations[addonv1alpha1.DeletionOrphanAnnotationKey]; !kept {
		t.Errorf("the namespace would be deleted with the addon")
	}
}

func TestTheAddonMeetsTheNameAndIdentityThatTheAPIPromises(t *testing.T) {
	options := agentFor(t).GetAgentAddonOptions()
	if options.AddonName != v1alpha1.AddonName {
		t.Errorf("the addon is called %s", options.AddonName)
	}
	configs, err := options.Registration.CSRConfigurations(cluster("c1"), addonOf("c1", "u1"))
	if err != nil {
		t.Fatal(err)
	}
	const user = "system:open-cluster-management:cluster:c1:addon:fleet-rollout:agent:fleet-rollout-agent"
	if len(configs) != 1 || configs[0].Subject.User != user { //nolint:staticcheck // The subject of the addon API v1alpha1.
		t.Errorf("registrations are %v", configs)
	}
}
