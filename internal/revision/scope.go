package revision

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

type scope int

const (
	scopeUnknown scope = iota
	scopeCluster
	scopeNamespaced
)

// The built-in kinds that live outside namespaces. Every other kind that the
// client library knows lives in one.
var clusterKinds = map[schema.GroupKind]bool{
	namespaceKind:              true,
	{Kind: "Node"}:             true,
	{Kind: "PersistentVolume"}: true,
	crdKind:                    true,
	{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"}:          true,
	{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicyBinding"}:   true,
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:     true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}:        true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicyBinding"}: true,
	{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}:   true,
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:                             true,
	{Group: "authentication.k8s.io", Kind: "TokenReview"}:                             true,
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}:                 true,
	{Group: "certificates.k8s.io", Kind: "ClusterTrustBundle"}:                        true,
	{Group: "flowcontrol.apiserver.k8s.io", Kind: "FlowSchema"}:                       true,
	{Group: "flowcontrol.apiserver.k8s.io", Kind: "PriorityLevelConfiguration"}:       true,
	{Group: "internal.apiserver.k8s.io", Kind: "StorageVersion"}:                      true,
	{Group: "networking.k8s.io", Kind: "IPAddress"}:                                   true,
	{Group: "networking.k8s.io", Kind: "IngressClass"}:                                true,
	{Group: "networking.k8s.io", Kind: "ServiceCIDR"}:                                 true,
	{Group: "node.k8s.io", Kind: "RuntimeClass"}:                                      true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:                         true,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}:                  true,
	{Group: "resource.k8s.io", Kind: "DeviceClass"}:                                   true,
	{Group: "resource.k8s.io", Kind: "DeviceTaintRule"}:                               true,
	{Group: "resource.k8s.io", Kind: "ResourceSlice"}:                                 true,
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:                               true,
	{Group: "storage.k8s.io", Kind: "CSIDriver"}:                                      true,
	{Group: "storage.k8s.io", Kind: "CSINode"}:                                        true,
	{Group: "storage.k8s.io", Kind: "StorageClass"}:                                   true,
	{Group: "storage.k8s.io", Kind: "VolumeAttachment"}:                               true,
	{Group: "storage.k8s.io", Kind: "VolumeAttributesClass"}:                          true,
	{Group: "storagemigration.k8s.io", Kind: "StorageVersionMigration"}:               true,
}

// checkScopes finds objects without a namespace that need one, and the other way
// round. The work agent takes the namespace as it is written, and would retry
// for ever. Kinds that neither the client library nor a
// CustomResourceDefinition of the template knows are let pass.
func (c contents) checkScopes() field.ErrorList {
	custom := map[schema.GroupKind]scope{}
	for _, part := range c.components {
		for _, m := range part.manifests {
			if m.object.GroupVersionKind().GroupKind() != crdKind {
				continue
			}
			group, _, _ := unstructured.NestedString(m.object.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(m.object.Object, "spec", "names", "kind")
			switch text, _, _ := unstructured.NestedString(m.object.Object, "spec", "scope"); text {
			case "Cluster":
				custom[schema.GroupKind{Group: group, Kind: kind}] = scopeCluster
			case "Namespaced":
				custom[schema.GroupKind{Group: group, Kind: kind}] = scopeNamespaced
			}
		}
	}
	var problems field.ErrorList
	for _, part := range c.components {
		for _, m := range part.manifests {
			at := m.path.Child("metadata", "namespace")
			namespace := m.object.GetNamespace()
			switch scopeOf(m.object.GroupVersionKind(), custom) {
			case scopeCluster:
				if namespace != "" {
					problems = append(problems, field.Invalid(at, namespace, fmt.Sprintf("a %s does not live in a namespace; remove the field", m.object.GetKind())))
				}
			case scopeNamespaced:
				if namespace == "" {
					problems = append(problems, field.Required(at, fmt.Sprintf("a %s lives in a namespace, and there is no default; write the one for %q", m.object.GetKind(), m.object.GetName())))
				}
			}
		}
	}
	return problems
}

func scopeOf(kind schema.GroupVersionKind, custom map[schema.GroupKind]scope) scope {
	if known, ok := custom[kind.GroupKind()]; ok {
		return known
	}
	if clusterKinds[kind.GroupKind()] {
		return scopeCluster
	}
	if clientscheme.Scheme.Recognizes(kind) {
		return scopeNamespaced
	}
	return scopeUnknown
}
