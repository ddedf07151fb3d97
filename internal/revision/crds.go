package revision

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// CRDVersionFindings finds CustomResourceDefinitions that list, or serve, fewer
// versions than the previous revision did (law 22). Objects may be stored in a
// version that is no longer listed, and clients may use one that is no longer
// served. A CustomResourceDefinition that next does not have at all is no
// finding: it stays on the clusters as it is.
func CRDVersionFindings(previous, next v1alpha1.RevisionPayload) []Finding {
	var findings []Finding
	for _, both := range pairs(previous, next) {
		if both.next.GroupVersionKind().GroupKind() != crdKind {
			continue
		}
		served := map[string]bool{}
		for _, version := range versionsOf(both.next) {
			served[version.name] = version.served
		}
		for _, version := range versionsOf(both.previous) {
			field := fmt.Sprintf("spec.versions[%s]", version.name)
			nextServed, listed := served[version.name]
			switch {
			case !listed:
				findings = append(findings, both.finding(field, "the version is gone, and objects may be stored in it; list it again, with served: true if it was served"))
			case version.served && !nextServed:
				findings = append(findings, both.finding(field+".served", "the version is no longer served, and clients may use it; write served: true"))
			}
		}
	}
	return findings
}

type crdVersion struct {
	name   string
	served bool
}

func versionsOf(crd *unstructured.Unstructured) []crdVersion {
	list, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	var versions []crdVersion
	for _, item := range list {
		entry, ok := item.(map[string]any)
		if !ok {
			continue
		}
		name, _, _ := unstructured.NestedString(entry, "name")
		served, _, _ := unstructured.NestedBool(entry, "served")
		versions = append(versions, crdVersion{name, served})
	}
	return versions
}
