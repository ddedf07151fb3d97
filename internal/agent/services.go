package agent

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/health"
)

// serviceNameLabel names the Service of an EndpointSlice.
const serviceNameLabel = "kubernetes.io/service-name"

var (
	serviceKind = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	sliceKind   = schema.GroupVersionKind{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"}
)

// withSlices adds the EndpointSlices to the kinds to be watched where a Service
// is delivered. Kubernetes gives them the labels of their Service, and with those
// the one by which delivered objects are selected.
func withSlices(kinds sets.Set[schema.GroupVersionKind]) sets.Set[schema.GroupVersionKind] {
	if !kinds.Has(serviceKind) {
		return kinds
	}
	return kinds.Clone().Insert(sliceKind)
}

// concerns is the delivered object that a change of a watched one is about: of an
// EndpointSlice it is the Service.
func concerns(key objectKey, object *unstructured.Unstructured) objectKey {
	if kindOf(key) != sliceKind || object == nil {
		return key
	}
	return objectKey{Version: "v1", Kind: "Service", Namespace: key.Namespace, Name: object.GetLabels()[serviceNameLabel]}
}

// judgedBy is the kind of the delivered objects that are judged by those of a kind.
func judgedBy(kind schema.GroupVersionKind) schema.GroupVersionKind {
	if kind == sliceKind {
		return serviceKind
	}
	return kind
}

// withEndpointsOf adds the endpoints to the sight of a Service that selects pods.
// While they cannot be read, the Service cannot be judged either.
func withEndpointsOf(sight Sight, slices *kindWatch) Sight {
	if len(health.Selector(sight.Full)) == 0 {
		return sight
	}
	if slices == nil {
		return Sight{Access: AccessSettling}
	}
	switch access, problem := slices.accessible(); access {
	case AccessReadable:
		sight.Endpoints = slices.endpointsOf(types.NamespacedName{Namespace: sight.Full.GetNamespace(), Name: sight.Full.GetName()})
	case AccessSettling:
		return Sight{Access: AccessSettling}
	case AccessForbidden:
		sight.Access, sight.Problem = AccessBroken, "its endpoints may not be read: "+missingRule(problem)
	case AccessBroken:
		sight.Access, sight.Problem = AccessBroken, "its endpoints: "+problem
	case AccessNotServed:
		// A cluster without EndpointSlices: the pods' own workload has to do.
	}
	return sight
}

// withResting notes of a Service without endpoints whether a workload of the same
// content that it selects has no pods on purpose.
func withResting(sight Sight, content []v1alpha1.RenderedObject, look Look) Sight {
	if sight.Full == nil || sight.Endpoints == nil || sight.Endpoints.Total > 0 {
		return sight
	}
	for _, object := range content {
		if object.Group != "apps" || object.Namespace != sight.Full.GetNamespace() {
			continue
		}
		if workload := look(object.ObjectReference).Full; workload != nil && health.RestsFor(sight.Full, workload) {
			endpoints := *sight.Endpoints
			endpoints.Resting = true
			sight.Endpoints = &endpoints
			return sight
		}
	}
	return sight
}

// endpointsOf counts the endpoints of a Service.
func (w *kindWatch) endpointsOf(service types.NamespacedName) *health.Endpoints {
	w.mu.RLock()
	defer w.mu.RUnlock()
	found := &health.Endpoints{}
	for key, slice := range w.objects {
		if key.Namespace != service.Namespace || slice.full == nil || slice.full.GetLabels()[serviceNameLabel] != service.Name {
			continue
		}
		endpoints, _, _ := unstructured.NestedFieldNoCopy(slice.full.Object, "endpoints")
		list, _ := endpoints.([]any)
		for _, item := range list {
			endpoint, _ := item.(map[string]any)
			found.Total++
			// An endpoint that does not say counts as ready, as the API has it.
			if ready, says, _ := unstructured.NestedBool(endpoint, "conditions", "ready"); ready || !says {
				found.Ready++
			}
		}
	}
	return found
}
