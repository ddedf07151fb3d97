package content

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// The fields of metadata that a server writes. Owner references belong here
// although people may set them: they name UIDs of the cluster they were copied
// from, and the garbage collector of another cluster would delete the object for
// want of its owner.
var serverMetadata = []string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation",
	"managedFields", "ownerReferences", "resourceVersion", "selfLink", "uid",
}

// The annotations that a server, a controller or a client writes about one
// object on one cluster.
var serverAnnotations = []string{
	"autoscaling.alpha.kubernetes.io/conditions",
	"autoscaling.alpha.kubernetes.io/current-metrics",
	"deployment.kubernetes.io/desired-replicas",
	"deployment.kubernetes.io/max-replicas",
	"deployment.kubernetes.io/revision",
	"deployment.kubernetes.io/revision-history",
	"deprecated.daemonset.template.generation",
	"kubectl.kubernetes.io/last-applied-configuration",
	"open-cluster-management.io/config-spec-hash",
	"pv.kubernetes.io/bind-completed",
	"pv.kubernetes.io/bound-by-controller",
	"pv.kubernetes.io/provisioned-by",
	"volume.beta.kubernetes.io/storage-provisioner",
	"volume.kubernetes.io/selected-node",
	"volume.kubernetes.io/storage-provisioner",
	v1alpha1.AnnotationContentHash,
}

// The finalizers that a server adds by itself.
var serverFinalizers = map[string]bool{
	"foregroundDeletion":           true,
	"kubernetes.io/pv-protection":  true,
	"kubernetes.io/pvc-protection": true,
	"orphan":                       true,
}

// The labels by which a Job's controller finds its pods.
var jobLabels = []string{
	"batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name",
}

var (
	secretKind    = schema.GroupKind{Kind: "Secret"}
	jobKind       = schema.GroupKind{Group: "batch", Kind: "Job"}
	claimKind     = schema.GroupKind{Kind: "PersistentVolumeClaim"}
	volumeKind    = schema.GroupKind{Kind: "PersistentVolume"}
	serviceKind   = schema.GroupKind{Kind: "Service"}
	namespaceKind = schema.GroupKind{Kind: "Namespace"}
)

func kindOf(object *unstructured.Unstructured) schema.GroupKind {
	return object.GroupVersionKind().GroupKind()
}

// Clean takes out what a server wrote, so that a template copied from a live
// object carries its author's intent alone (law 24).
func Clean(object *unstructured.Unstructured) {
	content := object.Object
	isLive := object.GetUID() != ""
	delete(content, "status")
	metadata, _ := content["metadata"].(map[string]any)
	for _, name := range serverMetadata {
		delete(metadata, name)
	}
	cleanFinalizers(metadata)

	switch kindOf(object) {
	case jobKind:
		cleanJob(content)
	case claimKind:
		cleanClaim(object)
	case serviceKind:
		if isLive {
			cleanService(content)
		}
	case volumeKind:
		unstructured.RemoveNestedField(content, "spec", "claimRef", "uid")
		unstructured.RemoveNestedField(content, "spec", "claimRef", "resourceVersion")
	case namespaceKind:
		unstructured.RemoveNestedField(content, "spec", "finalizers")
		removeKeys(metadata, "labels", []string{"kubernetes.io/metadata.name"})
	}
	removeKeys(metadata, "annotations", serverAnnotations)
	dropNullTimestamps(content)
}

// cleanJob removes the selector that the API server generates. A copied one is
// refused, because it names another Job's pods.
func cleanJob(content map[string]any) {
	if manual, _, _ := unstructured.NestedBool(content, "spec", "manualSelector"); manual {
		return
	}
	unstructured.RemoveNestedField(content, "spec", "selector")
	metadata, _ := content["metadata"].(map[string]any)
	removeKeys(metadata, "labels", jobLabels)
	if template, ok, _ := unstructured.NestedFieldNoCopy(content, "spec", "template", "metadata"); ok {
		if metadata, ok := template.(map[string]any); ok {
			removeKeys(metadata, "labels", jobLabels)
		}
	}
}

// cleanClaim removes the volume that a controller bound a claim to; without the
// annotation that says so, a volumeName is its author's.
func cleanClaim(object *unstructured.Unstructured) {
	if object.GetAnnotations()["pv.kubernetes.io/bound-by-controller"] == "yes" {
		unstructured.RemoveNestedField(object.Object, "spec", "volumeName")
	}
}

// cleanService removes the addresses that a Service copied from a cluster had
// there. In a manifest that somebody wrote they are its author's, and "None" always
// is.
func cleanService(content map[string]any) {
	if address, _, _ := unstructured.NestedString(content, "spec", "clusterIP"); address == "None" {
		return
	}
	unstructured.RemoveNestedField(content, "spec", "clusterIP")
	unstructured.RemoveNestedField(content, "spec", "clusterIPs")
}

func cleanFinalizers(metadata map[string]any) {
	finalizers, ok := metadata["finalizers"].([]any)
	if !ok {
		return
	}
	kept := make([]any, 0, len(finalizers))
	for _, finalizer := range finalizers {
		if name, ok := finalizer.(string); !ok || !serverFinalizers[name] {
			kept = append(kept, finalizer)
		}
	}
	if len(kept) == 0 {
		delete(metadata, "finalizers")
		return
	}
	metadata["finalizers"] = kept
}

// removeKeys deletes keys of a map inside metadata, and the map itself once it
// is empty.
func removeKeys(metadata map[string]any, name string, keys []string) {
	values, ok := metadata[name].(map[string]any)
	if !ok {
		if metadata[name] == nil {
			delete(metadata, name)
		}
		return
	}
	for _, key := range keys {
		delete(values, key)
	}
	if len(values) == 0 {
		delete(metadata, name)
	}
}

// dropNullTimestamps removes "creationTimestamp: null", which clients write into
// every metadata, also of pod templates. The API server counts it as a change
// each time.
func dropNullTimestamps(value any) {
	switch typed := value.(type) {
	case map[string]any:
		if stamp, ok := typed["creationTimestamp"]; ok && stamp == nil {
			delete(typed, "creationTimestamp")
		}
		for _, inner := range typed {
			dropNullTimestamps(inner)
		}
	case []any:
		for _, inner := range typed {
			dropNullTimestamps(inner)
		}
	}
}
