package revision

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// The kinds that are treated specially.
var (
	claimKind     = schema.GroupKind{Kind: "PersistentVolumeClaim"}
	namespaceKind = schema.GroupKind{Kind: "Namespace"}
	secretKind    = schema.GroupKind{Kind: "Secret"}
	crdKind       = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
)

// decode reads JSON the way Kubernetes does: whole numbers become int64.
func decode(raw []byte, into *map[string]any) error {
	return utiljson.Unmarshal(raw, into)
}
