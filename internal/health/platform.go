package health

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func namespace(s Subject) Verdict {
	if text(s.Object, "status", "phase") == "Terminating" {
		return progressing("being deleted")
	}
	return healthy()
}

// service needs a ready endpoint if it selects pods, and its address if a load
// balancer is promised. Without any endpoint it is healthy only where its workload
// rests on purpose. Where the endpoints are not known, they are not asked for.
func service(s Subject) Verdict {
	o := s.Object
	if text(o, "spec", "type") == "ExternalName" {
		return healthy()
	}
	if endpoints := s.Endpoints; endpoints != nil && len(Selector(o)) > 0 && endpoints.Ready == 0 {
		switch {
		case endpoints.Total > 0:
			return progressing("none of its %d endpoints is ready", endpoints.Total)
		case !endpoints.Resting:
			return progressing("it has no endpoints: no pod that it selects has an address")
		}
	}
	if text(o, "spec", "type") == "LoadBalancer" {
		if ingress, _, _ := unstructured.NestedSlice(o.Object, "status", "loadBalancer", "ingress"); len(ingress) == 0 {
			return progressing("its load balancer has no address yet")
		}
	}
	return healthy()
}

// Selector is by which labels a Service selects pods; empty if it selects none.
func Selector(service *unstructured.Unstructured) map[string]string {
	selector, _, _ := unstructured.NestedStringMap(service.Object, "spec", "selector")
	return selector
}

// RestsFor tells whether a workload has no pods on purpose that a Service would
// select.
func RestsFor(service, workload *unstructured.Unstructured) bool {
	switch workload.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}, schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}:
		if number(workload, 1, "spec", "replicas") > 0 {
			return false
		}
	case schema.GroupKind{Group: "apps", Kind: "DaemonSet"}:
		if !isSeen(workload) || number(workload, 0, "status", "desiredNumberScheduled") > 0 {
			return false
		}
	default:
		return false
	}
	pods, _, _ := unstructured.NestedStringMap(workload.Object, "spec", "template", "metadata", "labels")
	for key, value := range Selector(service) {
		if has, found := pods[key]; !found || has != value {
			return false
		}
	}
	return service.GetNamespace() == workload.GetNamespace()
}

// claim is healthy once it is bound, and as large as it is asked to be. One whose
// class waits for the first pod that uses it cannot be bound before.
func claim(s Subject) Verdict {
	o := s.Object
	switch phase := text(o, "status", "phase"); {
	case phase == "Lost":
		return failed("its PersistentVolume is lost")
	case phase == "Bound":
		if wanted, has := text(o, "spec", "resources", "requests", "storage"), text(o, "status", "capacity", "storage"); isLess(has, wanted) {
			return progressing("it is to grow to %s, and has %s", wanted, has)
		}
		return healthy()
	case s.WaitsForConsumer:
		return healthy()
	}
	return progressing("not bound to a volume yet")
}

// isLess compares two quantities; what is no quantity is not less.
func isLess(a, b string) bool {
	left, errLeft := resource.ParseQuantity(a)
	right, errRight := resource.ParseQuantity(b)
	return errLeft == nil && errRight == nil && left.Cmp(right) < 0
}

// autoscaler is unhealthy while it cannot scale its target, or was told something
// that can never work. That metrics are missing is not its fault, and a target at
// zero replicas is meant to rest.
func autoscaler(s Subject) Verdict {
	o := withAnnotatedConditions(s.Object)
	able, active := condition(o, "AbleToScale"), condition(o, "ScalingActive")
	switch reason := active["reason"]; {
	case able == nil:
		return progressing("its controller has not looked at its target yet")
	case able["status"] == "False":
		return progressing("%s", told(able))
	case active["status"] == "False" && (reason == "InvalidSelector" || reason == "InvalidMetricSourceType"):
		return degraded(told(active))
	}
	return healthy()
}

// withAnnotatedConditions returns an autoscaler of version v1 with the conditions
// that this version keeps in an annotation, because it has no field for them.
func withAnnotatedConditions(o *unstructured.Unstructured) *unstructured.Unstructured {
	raw, found := o.GetAnnotations()["autoscaling.alpha.kubernetes.io/conditions"]
	if !found || len(conditions(o)) > 0 {
		return o
	}
	var list []any
	if err := json.Unmarshal([]byte(raw), &list); err != nil {
		return o
	}
	return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": list}}}
}

func disruptionBudget(s Subject) Verdict {
	o := s.Object
	if !isSeen(o) {
		return progressing(unseen)
	}
	current, desired := number(o, 0, "status", "currentHealthy"), number(o, 0, "status", "desiredHealthy")
	if expected := number(o, 0, "status", "expectedPods"); expected > 0 && current < desired {
		return progressing("%d of the %d pods that must be healthy are", current, desired)
	}
	return healthy()
}

func apiService(s Subject) Verdict {
	if verdict, found := byCondition(s.Object, "Available"); found {
		return verdict
	}
	return progressing("it is not known yet whether it is available")
}
