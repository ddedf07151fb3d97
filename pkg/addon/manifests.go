package addon

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	agentmanifests "open-cluster-management.io/fleet-rollout/manifests/agent"
)

// clusterNameVariable is the environment variable of the agent's container
// that its arguments refer to.
const clusterNameVariable = "CLUSTER_NAME"

// placement is what differs from one managed cluster to the next.
type placement struct {
	namespace string
	cluster   string
	image     string
}

// parseManifests reads the embedded objects, in the order of the files' names.
func parseManifests() ([]runtime.Object, error) {
	names, err := fs.Glob(agentmanifests.Files, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list agent manifests: %w", err)
	}
	var objects []runtime.Object
	for _, name := range names {
		content, err := agentmanifests.Files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read agent manifest %s: %w", name, err)
		}
		documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
		for {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("read agent manifest %s: %w", name, err)
			}
			object, _, err := scheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
			if err != nil {
				return nil, fmt.Errorf("decode agent manifest %s: %w", name, err)
			}
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// instantiate copies the objects for one managed cluster.
func instantiate(objects []runtime.Object, p placement) ([]runtime.Object, error) {
	out := make([]runtime.Object, 0, len(objects))
	for _, template := range objects {
		object := template.DeepCopyObject()
		switch o := object.(type) {
		case *corev1.Namespace:
			o.Name = p.namespace
		case *corev1.ServiceAccount:
			o.Namespace = p.namespace
		case *rbacv1.ClusterRole:
			// The same on every cluster.
		case *rbacv1.ClusterRoleBinding:
			for i := range o.Subjects {
				o.Subjects[i].Namespace = p.namespace
			}
		case *appsv1.Deployment:
			o.Namespace = p.namespace
			for i := range o.Spec.Template.Spec.Containers {
				setContainer(&o.Spec.Template.Spec.Containers[i], p)
			}
		default:
			return nil, fmt.Errorf("agent manifest of kind %T: nothing sets its namespace", object)
		}
		out = append(out, object)
	}
	return out, nil
}

func setContainer(container *corev1.Container, p placement) {
	container.Image = p.image
	for i := range container.Env {
		if container.Env[i].Name == clusterNameVariable {
			container.Env[i].Value = p.cluster
		}
	}
}
