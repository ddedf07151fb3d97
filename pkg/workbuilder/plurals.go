package workbuilder

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The groups that Kubernetes itself serves. Their resources follow one rule of
// spelling, so that the name can be derived from the kind.
var builtInGroups = map[string]bool{
	"":                             true,
	"admissionregistration.k8s.io": true,
	"apiextensions.k8s.io":         true,
	"apiregistration.k8s.io":       true,
	"apps":                         true,
	"autoscaling":                  true,
	"batch":                        true,
	"certificates.k8s.io":          true,
	"coordination.k8s.io":          true,
	"discovery.k8s.io":             true,
	"events.k8s.io":                true,
	"flowcontrol.apiserver.k8s.io": true,
	"networking.k8s.io":            true,
	"node.k8s.io":                  true,
	"policy":                       true,
	"rbac.authorization.k8s.io":    true,
	"resource.k8s.io":              true,
	"scheduling.k8s.io":            true,
	"storage.k8s.io":               true,
}

// plurals knows the resource names of kinds. Manifest configs and orphan rules
// name resources, and the hub cannot ask the managed cluster.
type plurals map[schema.GroupKind]string

// pluralsOf learns the names that the CustomResourceDefinitions among the
// objects give.
func pluralsOf(objects []*unstructured.Unstructured) plurals {
	names := plurals{}
	for _, object := range objects {
		if groupKindOf(object) != crdKind {
			continue
		}
		group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(object.Object, "spec", "names", "kind")
		plural, _, _ := unstructured.NestedString(object.Object, "spec", "names", "plural")
		if plural != "" {
			names[schema.GroupKind{Group: group, Kind: kind}] = plural
		}
	}
	return names
}

// candidates returns the resource names that a kind may have: the one that is
// certain for built-in kinds and for kinds whose CustomResourceDefinition is
// among the objects, and the usual English plurals otherwise. The work agent
// ignores a config of a resource that the work does not carry, so naming several
// is harmless. A kind with yet another plural (such as "datum", "data") is
// applied with the work agent's default strategy, Update, unless its
// CustomResourceDefinition is in the template.
func (p plurals) candidates(kind schema.GroupKind) []string {
	if plural, ok := p[kind]; ok {
		return []string{plural}
	}
	if builtInGroups[kind.Group] {
		plural, _ := meta.UnsafeGuessKindToResource(kind.WithVersion(""))
		return []string{plural.Resource}
	}
	lower := strings.ToLower(kind.Kind)
	names := []string{lower, lower + "es", lower + "s"}
	if stem, ok := strings.CutSuffix(lower, "y"); ok {
		names = append(names, stem+"ies")
	}
	slices.Sort(names)
	return names
}
