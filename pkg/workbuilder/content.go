package workbuilder

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	rbacGroup = "rbac.authorization.k8s.io"
	crdGroup  = "apiextensions.k8s.io"
)

// The kinds that are treated specially.
var (
	namespaceKind = schema.GroupKind{Kind: "Namespace"}
	claimKind     = schema.GroupKind{Kind: "PersistentVolumeClaim"}
	volumeKind    = schema.GroupKind{Kind: "PersistentVolume"}
	crdKind       = schema.GroupKind{Group: crdGroup, Kind: "CustomResourceDefinition"}
	jobKind       = schema.GroupKind{Group: "batch", Kind: "Job"}
	scalerKind    = schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}
)

// isProtected tells whether objects of a kind hold data, or own objects that
// do. They are never deleted with a revision or a rollout (law 22).
func isProtected(kind schema.GroupKind) bool {
	switch kind {
	case namespaceKind, claimKind, volumeKind, crdKind:
		return true
	}
	return false
}

// isScalable tells whether spec.replicas of a kind belongs to the autoscaler
// that targets it.
func isScalable(kind schema.GroupKind) bool {
	if kind.Group != "apps" {
		return false
	}
	switch kind.Kind {
	case "Deployment", "StatefulSet", "ReplicaSet":
		return true
	}
	return false
}

// releaseScaledReplicas takes spec.replicas out of what a
// HorizontalPodAutoscaler of the same content scales. Server-side apply gives up
// a field by leaving it out; a field that a revision once set and the next does
// not is removed, and the API then defaults it to 1. So this holds from the
// first revision that has the autoscaler, and adding an autoscaler to a workload
// that ran with a fixed number scales from 1 once. It returns what is scaled.
func releaseScaledReplicas(objects []*unstructured.Unstructured) map[objectKey]bool {
	scaled := map[objectKey]bool{}
	for _, object := range objects {
		if groupKindOf(object) != scalerKind {
			continue
		}
		target, _, _ := unstructured.NestedStringMap(object.Object, "spec", "scaleTargetRef")
		version, err := schema.ParseGroupVersion(target["apiVersion"])
		if err != nil {
			continue
		}
		scaled[objectKey{version.Group, target["kind"], object.GetNamespace(), target["name"]}] = true
	}
	for _, object := range objects {
		if isScalable(groupKindOf(object)) && scaled[keyOf(object)] {
			unstructured.RemoveNestedField(object.Object, "spec", "replicas")
		}
	}
	return scaled
}

// keepCRDVersions replaces a CustomResourceDefinition by the present one where
// the new content would take a version away: one that is served, or that objects
// may be stored in. The hub cannot see which versions are stored, so every
// version that the present one lists counts.
func keepCRDVersions(objects []*unstructured.Unstructured, present []presentPart) {
	carried := map[objectKey]*unstructured.Unstructured{}
	for _, part := range present {
		for _, candidate := range part.objects {
			if object := candidate.object; groupKindOf(object) == crdKind && !isPlaceholder(object) {
				carried[keyOf(object)] = object
			}
		}
	}
	for i, object := range objects {
		if groupKindOf(object) != crdKind {
			continue
		}
		if old := carried[keyOf(object)]; old != nil && takesVersionAway(old, object) {
			objects[i] = old.DeepCopy()
		}
	}
}

func takesVersionAway(old, next *unstructured.Unstructured) bool {
	nextVersions := crdVersions(next)
	for name, served := range crdVersions(old) {
		nextServed, listed := nextVersions[name]
		if !listed || (served && !nextServed) {
			return true
		}
	}
	return false
}

// crdVersions maps the versions that a CustomResourceDefinition lists to
// whether they are served.
func crdVersions(crd *unstructured.Unstructured) map[string]bool {
	list, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	versions := map[string]bool{}
	for _, item := range list {
		version, ok := item.(map[string]any)
		if !ok {
			continue
		}
		name, _, _ := unstructured.NestedString(version, "name")
		served, _, _ := unstructured.NestedBool(version, "served")
		versions[name] = served
	}
	return versions
}
