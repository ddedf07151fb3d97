package delivery

import (
	"fmt"

	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/pkg/workbuilder"
)

// annotationSeenHash is on works in the manager's cache, never on the hub: the
// hash of the spec as the hub has it. It stands for the manifests, which would
// fill the memory of a manager of many clusters.
const annotationSeenHash = v1alpha1.GroupName + "/seen-hash"

// SlimWork is a transform for the cache of ManifestWorks. It replaces the
// manifests by the hash of the spec and drops managedFields. A slim work says
// what is written and how it fares; whoever needs the manifests reads the hub.
func SlimWork(object any) (any, error) {
	work, ok := object.(*workv1.ManifestWork)
	if !ok {
		return object, nil
	}
	hash, err := workbuilder.SpecHash(work.Spec)
	if err != nil {
		return nil, fmt.Errorf("slim ManifestWork %s/%s: %w", work.Namespace, work.Name, err)
	}
	if work.Annotations == nil {
		work.Annotations = map[string]string{}
	}
	work.Annotations[annotationSeenHash] = hash
	work.ManagedFields = nil
	work.Spec.Workload.Manifests = nil
	work.Spec.ManifestConfigs = nil
	return work, nil
}

// isIntact tells whether a work's spec is the one that was written, not one that
// somebody edited since.
func isIntact(work *workv1.ManifestWork) bool {
	hash, slim := work.Annotations[annotationSeenHash]
	if !slim {
		var err error
		if hash, err = workbuilder.SpecHash(work.Spec); err != nil {
			return false
		}
	}
	return hash == work.Annotations[v1alpha1.AnnotationWorkHash]
}
