package e2e

import (
	"context"
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/test/product"
)

// addManifest adds an object to the last component of a rollout.
func addManifest(rollout *v1alpha1.FleetRollout, object map[string]any) {
	GinkgoHelper()
	raw, err := json.Marshal(object)
	Expect(err).NotTo(HaveOccurred())
	component := &rollout.Spec.Template.Components[len(rollout.Spec.Template.Components)-1]
	component.Manifests = append(component.Manifests, runtime.RawExtension{Raw: raw})
}

// pasteLive replaces the Deployment of a rollout by a live one as
// "kubectl get -o yaml" shows it.
func pasteLive(rollout *v1alpha1.FleetRollout, live *appsv1.Deployment) {
	GinkgoHelper()
	Expect(live.UID).NotTo(BeEmpty())
	Expect(live.Annotations).NotTo(BeEmpty())
	pasted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	Expect(err).NotTo(HaveOccurred())
	Expect(product.EditManifests(rollout, func(object *unstructured.Unstructured) error {
		if object.GetKind() == "Deployment" {
			object.Object = pasted
			object.SetAPIVersion("apps/v1")
			object.SetKind("Deployment")
		}
		return nil
	})).To(Succeed())
}

// applyRollout creates or replaces the spec of a rollout.
func applyRollout(ctx context.Context, rollout *v1alpha1.FleetRollout) error {
	present := &v1alpha1.FleetRollout{}
	if err := hub.Get(ctx, client.ObjectKeyFromObject(rollout), present); err != nil {
		return err
	}
	present.Spec = rollout.Spec
	return hub.Update(ctx, present)
}

// verdictOf returns the verdict of the revision of a version.
func verdictOf(ctx context.Context, version string) v1alpha1.Verdict {
	GinkgoHelper()
	var list v1alpha1.RolloutRevisionList
	Expect(hub.List(ctx, &list, client.InNamespace(product.ExampleNamespace))).To(Succeed())
	for _, r := range list.Items {
		if r.Spec.Version == version {
			return r.Status.Verdict
		}
	}
	Fail("there is no revision of version " + version)
	return ""
}
