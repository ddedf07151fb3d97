package lab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const (
	klusterletName     = "klusterlet"
	workServiceAccount = klusterletName + "-work-sa"

	aggregateToWorkLabel = "open-cluster-management.io/aggregate-to-work"
)

// klusterletRBAC are the files of OCM's own source that give a work agent its
// rights, below manifests/klusterlet: what it needs to run, what it may apply
// (the role "execution", and Kubernetes's role "admin" in all namespaces), and
// whatever other roles carry the label that aggregates them.
//
// A work agent with these rights applies Deployments, Jobs, ConfigMaps, Secrets,
// Services, PersistentVolumeClaims, NetworkPolicies, autoscalers, disruption
// budgets and all else that "admin" may write, Namespaces, RBAC objects,
// PriorityClasses and webhook configurations. Seen with OCM v1.2.0, it can NOT
//
//   - apply a CustomResourceDefinition with the update strategy ServerSideApply:
//     it may create, update and delete them but not patch them, so only the
//     strategies Update and CreateOnly work;
//   - apply objects of a custom kind, even one it has just delivered, unless a
//     ClusterRole for them is labelled
//     open-cluster-management.io/aggregate-to-work=true or
//     rbac.authorization.k8s.io/aggregate-to-admin=true; that role may be in the
//     same ManifestWork;
//   - apply other cluster-scoped kinds: PersistentVolumes, StorageClasses,
//     IngressClasses, RuntimeClasses, ValidatingAdmissionPolicies, Nodes;
//   - write ResourceQuotas and LimitRanges;
//   - delete a webhook configuration it has delivered.
//
// Such a manifest is reported with Applied=False and a message that says
// "forbidden", and is tried again.
func klusterletRBAC() []string {
	return []string{
		"managed/klusterlet-work-serviceaccount.yaml",
		"managed/klusterlet-work-clusterrole.yaml",
		"managed/klusterlet-work-clusterrolebinding.yaml",
		"managed/klusterlet-work-clusterrole-execution.yaml",
		"managed/klusterlet-work-clusterrolebinding-execution-admin.yaml",
		"managed/klusterlet-work-clusterrolebinding-aggregate.yaml",
		"management/klusterlet-role-extension-apiserver.yaml",
		"management/klusterlet-work-role.yaml",
		"management/klusterlet-work-rolebinding.yaml",
		"management/klusterlet-work-rolebinding-extension-apiserver.yaml",
	}
}

// installKlusterletRBAC does what the klusterlet operator does for the rights of
// the work agent's service account.
func installKlusterletRBAC(ctx context.Context, k8s client.Client, ocmDir string) error {
	for _, file := range klusterletRBAC() {
		object, err := renderKlusterletManifest(filepath.Join(ocmDir, "manifests", "klusterlet", file))
		if err != nil {
			return err
		}
		if err := client.IgnoreAlreadyExists(k8s.Create(ctx, object)); err != nil {
			return fmt.Errorf("create %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	// The operator makes this one in code.
	aggregate := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "open-cluster-management:" + klusterletName + "-work:aggregate"},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{
			MatchLabels: map[string]string{aggregateToWorkLabel: "true"},
		}}},
	}
	if err := k8s.Create(ctx, aggregate); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("create ClusterRole %s: %w", aggregate.Name, err)
	}
	return await(ctx, "the aggregated rights of the work agent", nil, func(ctx context.Context) error {
		if err := k8s.Get(ctx, client.ObjectKeyFromObject(aggregate), aggregate); err != nil {
			return err
		}
		if len(aggregate.Rules) == 0 {
			return fmt.Errorf("ClusterRole %s has no rules yet", aggregate.Name)
		}
		return nil
	})
}

// renderKlusterletManifest fills in one of the operator's templates for an
// ordinary klusterlet in the default mode.
func renderKlusterletManifest(file string) (*unstructured.Unstructured, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	parsed, err := template.New(filepath.Base(file)).Option("missingkey=error").Parse(string(content))
	if err != nil {
		return nil, err
	}
	var rendered bytes.Buffer
	err = parsed.Execute(&rendered, map[string]any{
		"KlusterletName":        klusterletName,
		"KlusterletNamespace":   agentNamespace,
		"AgentNamespace":        agentNamespace,
		"WorkServiceAccount":    workServiceAccount,
		"Labels":                map[string]string{},
		"ManagedClusterRoleArn": "",
		"RegistrationDriver":    map[string]string{"AuthType": "csr"},
	})
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(rendered.Bytes(), &object.Object); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return object, nil
}
