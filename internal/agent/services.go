package agent

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

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

// endpointsOf counts the endpoints of a Service; nil while they are not known.
func (w *kindWatch) endpointsOf(service types.NamespacedName) *health.Endpoints {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.access != AccessReadable {
		return nil
	}
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
