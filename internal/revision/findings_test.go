package revision

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func describeFindings(findings []Finding) []string {
	var out []string
	for _, finding := range findings {
		out = append(out, finding.Object.Kind+" "+finding.Field)
	}
	return out
}

func TestChangesThatTheAPIRefusesAreFound(t *testing.T) {
	object := func(kind, rest string) string {
		versions := map[string]string{
			"StatefulSet": "apps/v1", "Deployment": "apps/v1", "ReplicaSet": "apps/v1", "DaemonSet": "apps/v1",
			"RoleBinding": "rbac.authorization.k8s.io/v1", "ClusterRoleBinding": "rbac.authorization.k8s.io/v1",
			"StorageClass": "storage.k8s.io/v1", "PriorityClass": "scheduling.k8s.io/v1", "IngressClass": "networking.k8s.io/v1",
			"RuntimeClass": "node.k8s.io/v1", "CustomResourceDefinition": "apiextensions.k8s.io/v1", "Job": "batch/v1",
		}
		apiVersion := versions[kind]
		if apiVersion == "" {
			apiVersion = "v1"
		}
		namespace := ", namespace: shop"
		if strings.HasSuffix(kind, "Class") || strings.HasPrefix(kind, "Cluster") || kind == "CustomResourceDefinition" || kind == "PersistentVolume" {
			namespace = ""
		}
		if rest != "" {
			rest = ", " + rest
		}
		return fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: x%s}%s}", apiVersion, kind, namespace, rest)
	}
	cases := map[string]struct {
		kind, before, after string
		want                []string
	}{
		"Deployment selector":           {"Deployment", "spec: {selector: {matchLabels: {a: b}}}", "spec: {selector: {matchLabels: {a: c}}}", []string{"spec.selector"}},
		"Deployment image":              {"Deployment", "spec: {template: {spec: {containers: [{name: a, image: b}]}}}", "spec: {template: {spec: {containers: [{name: a, image: c}]}}}", nil},
		"ReplicaSet selector":           {"ReplicaSet", "spec: {selector: {matchLabels: {a: b}}}", "spec: {selector: {matchLabels: {a: c}}}", []string{"spec.selector"}},
		"DaemonSet selector":            {"DaemonSet", "spec: {selector: {matchLabels: {a: b}}}", "spec: {selector: {matchLabels: {a: c}}}", []string{"spec.selector"}},
		"StatefulSet service":           {"StatefulSet", "spec: {serviceName: a}", "spec: {serviceName: b}", []string{"spec.serviceName"}},
		"StatefulSet pod management":    {"StatefulSet", "spec: {serviceName: a}", "spec: {serviceName: a, podManagementPolicy: Parallel}", []string{"spec.podManagementPolicy"}},
		"StatefulSet default spelled":   {"StatefulSet", "spec: {serviceName: a}", "spec: {serviceName: a, podManagementPolicy: OrderedReady}", nil},
		"StatefulSet claim size":        {"StatefulSet", "spec: {volumeClaimTemplates: [{metadata: {name: d}, spec: {resources: {requests: {storage: 1Gi}}}}]}", "spec: {volumeClaimTemplates: [{metadata: {name: d}, spec: {resources: {requests: {storage: 2Gi}}}}]}", []string{"spec.volumeClaimTemplates"}},
		"StatefulSet claim default":     {"StatefulSet", "spec: {volumeClaimTemplates: [{metadata: {name: d}, spec: {}}]}", "spec: {volumeClaimTemplates: [{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: d}, spec: {volumeMode: Filesystem}}]}", nil},
		"StatefulSet replicas":          {"StatefulSet", "spec: {replicas: 1}", "spec: {replicas: 2}", nil},
		"Service address":               {"Service", "spec: {clusterIP: 10.0.0.1}", "spec: {clusterIP: 10.0.0.2}", []string{"spec.clusterIP"}},
		"Service becomes headless":      {"Service", "spec: {ports: []}", "spec: {clusterIP: None}", []string{"spec.clusterIP"}},
		"Service address left out":      {"Service", "spec: {clusterIP: None}", "spec: {ports: []}", nil},
		"Service was an external name":  {"Service", "spec: {type: ExternalName, externalName: a}", "spec: {clusterIP: None}", nil},
		"claim grows":                   {"PersistentVolumeClaim", "spec: {resources: {requests: {storage: 1Gi}}}", "spec: {resources: {requests: {storage: 2Gi}}}", nil},
		"claim shrinks":                 {"PersistentVolumeClaim", "spec: {resources: {requests: {storage: 2Gi}}}", "spec: {resources: {requests: {storage: 2000Mi}}}", []string{"spec.resources.requests.storage"}},
		"claim of another class":        {"PersistentVolumeClaim", "spec: {storageClassName: a}", "spec: {storageClassName: b}", []string{"spec.storageClassName"}},
		"claim of other modes":          {"PersistentVolumeClaim", "spec: {accessModes: [ReadWriteOnce]}", "spec: {accessModes: [ReadWriteMany], volumeMode: Filesystem}", []string{"spec.accessModes"}},
		"volume of another source":      {"PersistentVolume", "spec: {hostPath: {path: /a}, capacity: {storage: 1Gi}}", "spec: {hostPath: {path: /b}, capacity: {storage: 2Gi}}", []string{"spec.hostPath"}},
		"RoleBinding role":              {"RoleBinding", "roleRef: {kind: Role, name: a}", "roleRef: {kind: Role, name: b}", []string{"roleRef"}},
		"RoleBinding group spelled":     {"RoleBinding", "roleRef: {kind: Role, name: a}", "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: a}", nil},
		"ClusterRoleBinding role":       {"ClusterRoleBinding", "roleRef: {kind: ClusterRole, name: a}", "roleRef: {kind: ClusterRole, name: b}", []string{"roleRef"}},
		"frozen ConfigMap data":         {"ConfigMap", "immutable: true, data: {a: b}", "immutable: true, data: {a: c}", []string{"data"}},
		"frozen ConfigMap thawed":       {"ConfigMap", "immutable: true, data: {a: b}", "data: {a: b}", []string{"immutable"}},
		"frozen ConfigMap same":         {"ConfigMap", "immutable: true, data: {a: b}", "immutable: true, data: {a: b}, binaryData: {}", nil},
		"free ConfigMap":                {"ConfigMap", "data: {a: b}", "data: {a: c}, immutable: true", nil},
		"Secret type":                   {"Secret", "type: a/b", "type: a/c", []string{"type"}},
		"StorageClass provisioner":      {"StorageClass", "provisioner: a, parameters: {p: q}", "provisioner: b, parameters: {p: r}", []string{"provisioner", "parameters"}},
		"StorageClass defaults spelled": {"StorageClass", "provisioner: a", "provisioner: a, parameters: {}, reclaimPolicy: Delete, volumeBindingMode: Immediate", nil},
		"PriorityClass value":           {"PriorityClass", "value: 1", "value: 2", []string{"value"}},
		"IngressClass controller":       {"IngressClass", "spec: {controller: a/b}", "spec: {controller: a/c}", []string{"spec.controller"}},
		"RuntimeClass handler":          {"RuntimeClass", "handler: a", "handler: b", []string{"handler"}},
		"CRD scope and kind":            {"CustomResourceDefinition", "spec: {group: g, scope: Namespaced, names: {kind: A, plural: as}}", "spec: {group: g, scope: Cluster, names: {kind: B, plural: as}}", []string{"spec.scope", "spec.names.kind"}},
		"CRD group and plural":          {"CustomResourceDefinition", "spec: {group: g, names: {plural: as}}", "spec: {group: h, names: {plural: bs}}", []string{"spec.group", "spec.names.plural"}},
		"Job template":                  {"Job", "spec: {template: {spec: {containers: [{name: a, image: b}]}}}", "spec: {template: {spec: {containers: [{name: a, image: c}]}}}", nil},
		"Pod image":                     {"Pod", "spec: {containers: [{name: a, image: b}]}", "spec: {containers: [{name: a, image: c}]}", nil},
		"Pod command":                   {"Pod", "spec: {containers: [{name: a, image: b}]}", "spec: {containers: [{name: a, image: b, command: [c]}]}", []string{"spec.containers"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before, after := payloadOf(t, object(c.kind, c.before)), payloadOf(t, object(c.kind, c.after))
			var want []string
			for _, field := range c.want {
				want = append(want, c.kind+" "+field)
			}
			findings := ImmutableChanges(before, after)
			if diff := cmp.Diff(want, describeFindings(findings)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			for _, finding := range findings {
				if !strings.HasPrefix(finding.Message, c.kind+" ") || !strings.Contains(finding.Message, finding.Field) {
					t.Errorf("message %q does not name object and field", finding.Message)
				}
			}
			if again := ImmutableChanges(before, before); len(again) > 0 {
				t.Errorf("no change, and yet %v", again)
			}
		})
	}
}

func TestImmutableDataIsNeverShown(t *testing.T) {
	before := payloadOf(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: shop}, immutable: true, data: {token: hush}}")
	after := payloadOf(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: shop}, immutable: true, data: {token: quiet}}")
	for _, finding := range ImmutableChanges(before, after) {
		if strings.Contains(finding.Message, "hush") || strings.Contains(finding.Message, "quiet") {
			t.Errorf("message %q shows data", finding.Message)
		}
	}
}

func TestNewAndRenamedObjectsChangeNothing(t *testing.T) {
	before := payloadOf(t, deploymentYAML)
	after := payloadOf(t, strings.NewReplacer("name: api,", "name: api2,", "matchLabels: {app: api}", "matchLabels: {app: api2}").Replace(deploymentYAML))
	if findings := ImmutableChanges(before, after); len(findings) > 0 {
		t.Errorf("findings %v", findings)
	}
}

func TestCustomResourceDefinitionsMustGoOnServingTheirVersions(t *testing.T) {
	crd := func(versions string) v1alpha1.RevisionPayload {
		return payloadOf(t, "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: data.example.com}, spec: {group: example.com, scope: Namespaced, names: {kind: Datum, plural: data}, versions: ["+versions+"]}}")
	}
	const both = "{name: v1, served: true, storage: false}, {name: v2, served: true, storage: true}"
	cases := map[string]struct {
		before, after v1alpha1.RevisionPayload
		want          []string
	}{
		"nothing changes":           {crd(both), crd(both), nil},
		"a version comes":           {crd("{name: v1, served: true, storage: true}"), crd(both), nil},
		"a version goes":            {crd(both), crd("{name: v2, served: true, storage: true}"), []string{"CustomResourceDefinition spec.versions[v1]"}},
		"a version is not served":   {crd(both), crd("{name: v1, served: false, storage: false}, {name: v2, served: true, storage: true}"), []string{"CustomResourceDefinition spec.versions[v1].served"}},
		"one unserved goes":         {crd("{name: v0, served: false, storage: false}, " + both), crd(both), []string{"CustomResourceDefinition spec.versions[v0]"}},
		"the definition goes":       {crd(both), payloadOf(t, configMapYAML), nil},
		"the definition comes anew": {payloadOf(t, configMapYAML), crd(both), nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, describeFindings(CRDVersionFindings(c.before, c.after))); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
