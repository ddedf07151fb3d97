// Package health judges objects of a managed cluster: given one as it is now, it
// says whether it is healthy, and what is wrong with it otherwise. It is pure.
//
// The base is kstatus. The rules here add what that leaves out and a rollout
// must know: a status that was never written has seen no generation, a workload
// that is paused is neither good nor bad, a Job that runs has proved nothing, a
// resource of an operator says in its own words whether its operator has failed.
// Everything is judged against the live spec, because that is what an autoscaler
// has changed.
//
// All of it holds for an object that is at its delivered content; that it is, is
// for the caller to know.
package health

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// Subject is an object and what is known beside it.
type Subject struct {
	// Object as it is on the cluster.
	Object *unstructured.Unstructured

	// Complaint is what the pods of a workload complain about, if anything.
	Complaint string

	// Inherited tells that the verdict on a Deployment's progress was given to
	// earlier content: it was there, word for word, before the content changed.
	Inherited bool

	// Endpoints of a Service; nil if they are not known.
	Endpoints *Endpoints

	// WaitsForConsumer tells that the storage class of a PersistentVolumeClaim
	// binds it only once a pod uses it.
	WaitsForConsumer bool
}

// Endpoints are the endpoints of a Service.
type Endpoints struct {
	// Ready endpoints, of the Total that the Service has.
	Ready, Total int

	// Resting tells that a workload which the Service selects is at zero replicas
	// on purpose; see RestsFor.
	Resting bool
}

// Verdict is the health of an object.
type Verdict struct {
	Health v1alpha1.Health
	// Message says what is wrong; empty while it is healthy.
	Message string
	// Suspended tells of a healthy object that is stopped on purpose and holds
	// nothing up, such as a CronJob.
	Suspended bool
}

func (v Verdict) isHealthy() bool { return v.Health == v1alpha1.HealthHealthy }

// rule judges an object of one kind.
type rule func(Subject) Verdict

var rules = map[schema.GroupKind]rule{
	{Group: "apps", Kind: "Deployment"}:                deployment,
	{Group: "apps", Kind: "StatefulSet"}:               statefulSet,
	{Group: "apps", Kind: "DaemonSet"}:                 daemonSet,
	{Group: "apps", Kind: "ReplicaSet"}:                replicaSet,
	{Group: "", Kind: "Pod"}:                           pod,
	{Group: "batch", Kind: "Job"}:                      job,
	{Group: "batch", Kind: "CronJob"}:                  cronJob,
	{Group: "", Kind: "Namespace"}:                     namespace,
	{Group: "", Kind: "Service"}:                       service,
	{Group: "", Kind: "PersistentVolumeClaim"}:         claim,
	{Group: "networking.k8s.io", Kind: "Ingress"}:      exists,
	{Group: "autoscaling", Kind: autoscalerKind}:       autoscaler,
	{Group: "policy", Kind: "PodDisruptionBudget"}:     disruptionBudget,
	{Group: "apiextensions.k8s.io", Kind: crdKind}:     byLibrary,
	{Group: "apiregistration.k8s.io", Kind: apiKind}:   apiService,
	{Group: olmGroup, Kind: "ClusterServiceVersion"}:   clusterServiceVersion,
	{Group: olmGroup, Kind: "Subscription"}:            subscription,
	{Group: olmGroup, Kind: "InstallPlan"}:             installPlan,
	{Group: olmV1Group, Kind: "ClusterExtension"}:      clusterExtension,
	{Group: capiGroup, Kind: "Cluster"}:                capiCluster,
	{Group: capiGroup, Kind: "MachineDeployment"}:      machineDeployment,
	{Group: controlPlaneGroup, Kind: kubeadmPlaneKind}: kubeadmControlPlane,
}

const (
	autoscalerKind    = "HorizontalPodAutoscaler"
	crdKind           = "CustomResourceDefinition"
	apiKind           = "APIService"
	kubeadmPlaneKind  = "KubeadmControlPlane"
	olmGroup          = "operators.coreos.com"
	olmV1Group        = "olm.operatorframework.io"
	capiGroup         = "cluster.x-k8s.io"
	controlPlaneGroup = "controlplane.cluster.x-k8s.io"
)

// lifeless are the kinds of Kubernetes whose existence is all there is to judge.
// Nothing but their metadata need be read.
var lifeless = map[schema.GroupKind]bool{
	{Group: "", Kind: "ConfigMap"}:                                                    true,
	{Group: "", Kind: "Secret"}:                                                       true,
	{Group: "", Kind: "ServiceAccount"}:                                               true,
	{Group: "", Kind: "LimitRange"}:                                                   true,
	{Group: "", Kind: "ResourceQuota"}:                                                true,
	{Group: "", Kind: "PersistentVolume"}:                                             true,
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:                               true,
	{Group: "networking.k8s.io", Kind: "IngressClass"}:                                true,
	{Group: "rbac.authorization.k8s.io", Kind: "Role"}:                                true,
	{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:                         true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:                         true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}:                  true,
	{Group: "storage.k8s.io", Kind: "StorageClass"}:                                   true,
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:                               true,
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:     true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}:        true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicyBinding"}: true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}:   true,
}

// IsLifeless tells whether the existence of an object is all that there is to
// judge of its kind, so that its content need not be read.
func IsLifeless(kind schema.GroupKind) bool { return lifeless[kind] }

// HasRule tells whether a kind has a rule of its own. Of another kind the
// conditions Ready and Available are judged where they exist, else its existence.
func HasRule(kind schema.GroupKind) bool { return rules[kind] != nil }

// Of judges an object.
func Of(s Subject) Verdict {
	if own := rules[s.Object.GroupVersionKind().GroupKind()]; own != nil {
		return own(s)
	}
	return byConditions(s)
}

// timeless are the kinds with a rule whose verdict cannot be about earlier
// content: nothing of it depends on what a controller makes of the spec, or, with
// Jobs, each content has an object of its own.
var timeless = map[schema.GroupKind]bool{
	{Group: "batch", Kind: "Job"}:                 true,
	{Group: "batch", Kind: "CronJob"}:             true,
	{Group: "", Kind: "Namespace"}:                true,
	{Group: "networking.k8s.io", Kind: "Ingress"}: true,
}

// MustSettle tells whether the status of an object may be about earlier content
// without anybody being able to see it: then it is to be believed, for good or for
// bad, only once the content has been there for a while.
func MustSettle(o *unstructured.Unstructured) bool {
	kind := o.GroupVersionKind().GroupKind()
	return !timeless[kind] && !lifeless[kind] && !TellsGeneration(o)
}

// TellsGeneration tells whether an object's status says which generation it is
// about, in itself or in each of its conditions.
func TellsGeneration(o *unstructured.Unstructured) bool {
	if hasObserved(o) {
		return true
	}
	told := conditions(o)
	for _, c := range told {
		if _, found := c["observedGeneration"]; !found {
			return false
		}
	}
	return len(told) > 0
}

func healthy() Verdict { return Verdict{Health: v1alpha1.HealthHealthy} }

func progressing(format string, args ...any) Verdict {
	return Verdict{Health: v1alpha1.HealthProgressing, Message: fmt.Sprintf(format, args...)}
}

func degraded(message string) Verdict {
	return Verdict{Health: v1alpha1.HealthDegraded, Message: message}
}

func failed(format string, args ...any) Verdict {
	return Verdict{Health: v1alpha1.HealthFailed, Message: fmt.Sprintf(format, args...)}
}

func suspended(format string, args ...any) Verdict {
	return Verdict{Health: v1alpha1.HealthSuspended, Message: fmt.Sprintf(format, args...)}
}

func exists(Subject) Verdict { return healthy() }
