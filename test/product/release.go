package product

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/test/lab"
)

// The names in examples/payments.
const (
	ExampleNamespace  = "platform"
	ExampleRollout    = "payments"
	ExampleImage      = "registry.example.com/payments/api"
	ExampleWorkload   = "payments"
	ExampleDeployment = "api"
)

// ApplyFleet applies examples/payments/fleet.yaml.
func (p *Product) ApplyFleet(ctx context.Context) error {
	path, err := examplePath("fleet.yaml")
	if err != nil {
		return err
	}
	_, err = p.Kubectl(ctx, "apply", "--server-side", "-f", path)
	return err
}

// ReadExample reads the FleetRollout of examples/payments/rollout.yaml.
func ReadExample() (*v1alpha1.FleetRollout, error) {
	path, err := examplePath("rollout.yaml")
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rollout := &v1alpha1.FleetRollout{}
	if err := yaml.UnmarshalStrict(raw, rollout); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rollout, nil
}

// SetRelease edits a rollout as an engineer does for a release: its version,
// and the tag of the Deployment's image. The lab makes pods whose image
// contains "broken" fail for real.
func SetRelease(rollout *v1alpha1.FleetRollout, version, tag string) error {
	rollout.Spec.Version = version
	found := false
	err := EditManifests(rollout, func(object *unstructured.Unstructured) error {
		if object.GetKind() != "Deployment" {
			return nil
		}
		found = true
		containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		if err != nil || len(containers) == 0 {
			return fmt.Errorf("%s has no containers: %w", object.GetName(), err)
		}
		containers[0].(map[string]any)["image"] = ExampleImage + ":" + tag
		return unstructured.SetNestedSlice(object.Object, containers, "spec", "template", "spec", "containers")
	})
	if err == nil && !found {
		err = fmt.Errorf("rollout %s has no Deployment", rollout.Name)
	}
	return err
}

// EditManifests lets edit change each manifest of a rollout in place.
func EditManifests(rollout *v1alpha1.FleetRollout, edit func(*unstructured.Unstructured) error) error {
	for i := range rollout.Spec.Template.Components {
		manifests := rollout.Spec.Template.Components[i].Manifests
		for j := range manifests {
			object := &unstructured.Unstructured{}
			if err := json.Unmarshal(manifests[j].Raw, &object.Object); err != nil {
				return err
			}
			if err := edit(object); err != nil {
				return err
			}
			raw, err := json.Marshal(object.Object)
			if err != nil {
				return err
			}
			manifests[j] = runtime.RawExtension{Raw: raw}
		}
	}
	return nil
}

// Release applies the example in the given version, as an engineer would with
// an edited file.
func Release(ctx context.Context, hub client.Client, version, tag string) error {
	rollout, err := ReadExample()
	if err != nil {
		return err
	}
	if err := SetRelease(rollout, version, tag); err != nil {
		return err
	}
	rollout.TypeMeta.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("FleetRollout"))
	// Through JSON, so that only what the file says is applied.
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(rollout)
	if err != nil {
		return err
	}
	delete(content, "status")
	object := &unstructured.Unstructured{Object: content}
	if err := hub.Patch(ctx, object, client.Apply, client.FieldOwner("engineer"), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply FleetRollout %s in version %s: %w", rollout.Name, version, err)
	}
	return nil
}

func examplePath(name string) (string, error) {
	root, err := lab.RepoRoot()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, "examples", "payments", name), nil
}
