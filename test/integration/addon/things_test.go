package addon

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

var thingKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}

// thingRole is what a user grants for custom resources.
func thingRole() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{
			Name:   "things-for-the-agent",
			Labels: map[string]string{"rollout.open-cluster-management.io/aggregate-to-agent": "true"},
		},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{thingKind.Group}, Resources: []string{"things"}, Verbs: []string{"get", "list", "watch"},
		}},
	}
}

// installThings makes the API server serve a kind of its own.
func installThings(context.Context) {
	GinkgoHelper()
	_, err := envtest.InstallCRDs(admin, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{{
		ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: thingKind.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: thingKind.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: ptr.To(true),
				}},
			}},
		},
	}}})
	Expect(err).NotTo(HaveOccurred())
}

func thingAt(hash string) *unstructured.Unstructured {
	thing := &unstructured.Unstructured{}
	thing.SetGroupVersionKind(thingKind)
	meta := delivered("api", hash)
	thing.SetNamespace(meta.Namespace)
	thing.SetName(meta.Name)
	thing.SetLabels(meta.Labels)
	thing.SetAnnotations(meta.Annotations)
	return thing
}
