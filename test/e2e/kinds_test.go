package e2e

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/test/product"
)

const (
	// kindsName is the rollout of this file, its Placement, and the namespace of its
	// objects.
	kindsName = "kinds"
	// kindsCluster is the cluster that it goes to.
	kindsCluster = "c3"
)

// patient is an object that is delivered sick, and how it gets well. What
// Kubernetes' own controllers and kwok play needs no help.
type patient struct {
	manifest string
	// bad is a status to be written by the test in the place of a controller that
	// the lab does not have; empty if it is sick by itself.
	bad string
	// says is what the agent must say of it while it is sick, after its health.
	health v1alpha1.Health
	says   string
	// good is the status with which it is well, and cure what else is done; a
	// patient without either gets well by itself.
	good string
	cure func(context.Context, client.Client) error
}

const slowPods = `{selector: {matchLabels: {app: %[1]s}}, template: {metadata: {labels: {app: %[1]s}}, spec: {containers: [{name: c, image: "example.com/slow:1"}]}}%[2]s}`

// patients by kind.
func patients() map[string]patient {
	const progressing, degraded, suspended = v1alpha1.HealthProgressing, v1alpha1.HealthDegraded, v1alpha1.HealthSuspended
	inNamespace := "metadata: {name: %s, namespace: " + kindsName + "}\n"
	named := func(apiVersion, kind, name, rest string) string {
		return fmt.Sprintf("apiVersion: %s\nkind: %s\n"+inNamespace+"%s", apiVersion, kind, name, rest)
	}
	spec := func(app, more string) string { return "spec: " + fmt.Sprintf(slowPods, app, more) }
	return map[string]patient{
		"Deployment":  {manifest: named("apps/v1", "Deployment", "api", spec("api", "")), health: progressing, says: "0 of 1 replicas"},
		"StatefulSet": {manifest: named("apps/v1", "StatefulSet", "db", spec("db", ", serviceName: db")), health: progressing, says: "0 of 1 replicas ready"},
		"DaemonSet":   {manifest: named("apps/v1", "DaemonSet", "log", spec("log", "")), health: progressing, says: "pods available"},
		"ReplicaSet":  {manifest: named("apps/v1", "ReplicaSet", "old", spec("old", "")), health: progressing, says: "0 of 1 replicas available"},
		"Pod":         {manifest: named("v1", "Pod", "alone", `spec: {containers: [{name: c, image: "example.com/slow:1"}]}`), health: progressing, says: "not ready"},
		"Job": {manifest: named("batch/v1", "Job", "migrate", `spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "example.com/slow:1"}]}}}`),
			health: progressing, says: "not completed"},
		"PodDisruptionBudget": {manifest: named("policy/v1", "PodDisruptionBudget", "api", "spec: {minAvailable: 1, selector: {matchLabels: {app: api}}}"),
			health: progressing, says: "0 of the 1 pods that must be healthy"},
		"Service": {manifest: named("v1", "Service", "api", "spec: {selector: {app: api}, ports: [{port: 80}]}"), health: progressing, says: "endpoints"},
		"Service of a load balancer": {manifest: named("v1", "Service", "front", "spec: {type: LoadBalancer, selector: {app: api}, ports: [{port: 80}]}"),
			health: progressing, says: "its load balancer has no address yet", good: "{loadBalancer: {ingress: [{ip: 192.0.2.1}]}}"},
		"PersistentVolumeClaim": {manifest: named("v1", "PersistentVolumeClaim", "data", "spec: {storageClassName: kinds-manual, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"),
			health: progressing, says: "not bound to a volume yet", cure: create("apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: kinds}\nspec: {storageClassName: kinds-manual, capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /nowhere}}")},
		"HorizontalPodAutoscaler": {manifest: named("autoscaling/v2", "HorizontalPodAutoscaler", "late", "spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: late}, maxReplicas: 3}"),
			health: progressing, says: "AbleToScale is False: FailedGetScale",
			cure: create(named("apps/v1", "Deployment", "late", `spec: {selector: {matchLabels: {app: late}}, template: {metadata: {labels: {app: late}}, spec: {containers: [{name: c, image: "example.com/fast:1"}]}}}`))},
		"APIService": {manifest: "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1.away.example.org}\nspec: {group: away.example.org, version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {namespace: kinds, name: away}}",
			health: progressing, says: "Available is False: ServiceNotFound",
			cure: func(ctx context.Context, c client.Client) error {
				o := parsed("apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1.away.example.org}")
				return c.Patch(ctx, o, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"service":null,"insecureSkipTLSVerify":false}}`)))
			}},

		"ClusterServiceVersion": {manifest: named("operators.coreos.com/v1alpha1", "ClusterServiceVersion", "op", ""),
			bad: "{phase: Failed, reason: ComponentUnhealthy, message: the operator crashes}", health: degraded, says: "the operator crashes", good: "{phase: Succeeded}"},
		"Subscription": {manifest: named("operators.coreos.com/v1alpha1", "Subscription", "op", "spec: {name: op, channel: stable}"),
			bad: "{conditions: [{type: ResolutionFailed, status: 'True', reason: ConstraintsNotSatisfiable}]}", health: degraded, says: "ResolutionFailed",
			good: "{state: AtLatestKnown, installedCSV: op, currentCSV: op, conditions: []}"},
		"InstallPlan": {manifest: named("operators.coreos.com/v1alpha1", "InstallPlan", "op", ""), bad: "{phase: RequiresApproval}", health: suspended, says: "approve", good: "{phase: Complete}"},
		"ClusterExtension": {manifest: "apiVersion: olm.operatorframework.io/v1\nkind: ClusterExtension\nmetadata: {name: kinds}\n",
			bad:    "{conditions: [{type: Installed, status: 'False', reason: Absent, observedGeneration: 1}, {type: Progressing, status: 'True', reason: Retrying, observedGeneration: 1}]}",
			health: progressing, says: "Installed is False: Absent",
			good: "{conditions: [{type: Installed, status: 'True', reason: Succeeded, observedGeneration: 1}, {type: Progressing, status: 'True', reason: Succeeded, observedGeneration: 1}]}"},
		"Cluster": {manifest: named("cluster.x-k8s.io/v1beta1", "Cluster", "edge", ""),
			bad: "{phase: Provisioning, observedGeneration: 1, conditions: [{type: Ready, status: 'False', reason: WaitingForInfrastructure}]}", health: progressing, says: "WaitingForInfrastructure",
			good: "{phase: Provisioned, observedGeneration: 1, conditions: [{type: Ready, status: 'True'}]}"},
		"MachineDeployment": {manifest: named("cluster.x-k8s.io/v1beta1", "MachineDeployment", "edge", "spec: {replicas: 2}"),
			bad: "{observedGeneration: 1, replicas: 3, updatedReplicas: 1, readyReplicas: 2}", health: progressing, says: "1 of 2 machines are up to date",
			good: "{observedGeneration: 1, replicas: 2, updatedReplicas: 2, readyReplicas: 2, conditions: [{type: Available, status: 'True'}, {type: Ready, status: 'True'}]}"},
		"KubeadmControlPlane": {manifest: named("controlplane.cluster.x-k8s.io/v1beta1", "KubeadmControlPlane", "edge", "spec: {replicas: 1, version: v1.34.0}"),
			bad: "{observedGeneration: 1, version: v1.33.0, replicas: 1, updatedReplicas: 0, readyReplicas: 1}", health: progressing, says: "v1.34.0 is wanted, and the oldest machine has v1.33.0",
			good: "{observedGeneration: 1, version: v1.34.0, replicas: 1, updatedReplicas: 1, readyReplicas: 1, conditions: [{type: Available, status: 'True'}, {type: Ready, status: 'True'}]}"},
		"a kind with conditions": {manifest: named("kinds.example.org/v1", "Gadget", "g", ""),
			bad: "{observedGeneration: 1, conditions: [{type: Ready, status: 'False', reason: Cold}]}", health: progressing,
			good: "{observedGeneration: 1, conditions: [{type: Ready, status: 'True'}]}"},
		"a kind with a check": {manifest: named("kinds.example.org/v1", "Widget", "w", ""), bad: "{phase: Starting}", health: progressing, says: "it is Starting", good: "{phase: Up}"},
	}
}

// bystanders are healthy from the beginning.
var bystanders = []string{
	"apiVersion: v1\nkind: Namespace\nmetadata: {name: kinds}",
	"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly, namespace: kinds}\nspec: {suspend: true, schedule: '0 3 * * *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: x}]}}}}}",
	"apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: api, namespace: kinds}\nspec: {defaultBackend: {service: {name: api, port: {number: 80}}}}",
	"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: later, namespace: kinds}\nspec: {storageClassName: kinds-later, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}",
	"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: resting, namespace: kinds}\nspec: {replicas: 0, selector: {matchLabels: {app: resting}}, template: {metadata: {labels: {app: resting}}, spec: {containers: [{name: c, image: x}]}}}",
	"apiVersion: v1\nkind: Service\nmetadata: {name: resting, namespace: kinds}\nspec: {selector: {app: resting}, ports: [{port: 80}]}",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: checked, namespace: kinds}\ndata: {address: here}",
}

func parsed(text string) *unstructured.Unstructured {
	GinkgoHelper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	Expect(err).NotTo(HaveOccurred())
	object := &unstructured.Unstructured{}
	Expect(object.UnmarshalJSON(raw)).To(Succeed())
	return object
}

func create(manifest string) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error { return c.Create(ctx, parsed(manifest)) }
}

// definition is a small CustomResourceDefinition of the shape of a foreign one.
func definition(group, version, kind, plural, scope string) *unstructured.Unstructured {
	return parsed(fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[4]s.%[1]s}
spec:
  group: %[1]s
  scope: %[5]s
  names: {kind: %[3]s, plural: %[4]s}
  versions:
  - name: %[2]s
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}`, group, version, kind, plural, scope))
}

// kindsRollout brings all patients to the cluster.
func kindsRollout(version string, more ...string) *v1alpha1.FleetRollout {
	GinkgoHelper()
	rollout, err := product.ReadExample()
	Expect(err).NotTo(HaveOccurred())
	rollout.Name = kindsName
	rollout.Spec.Version = version
	rollout.Spec.Placements = []v1alpha1.PlacementReference{{Name: kindsName}}
	rollout.Spec.Strategy.Groups = []v1alpha1.Group{{Name: "all", ClusterSelector: metav1.LabelSelector{}}}
	seconds := int32(900)
	rollout.Spec.Strategy.ProgressDeadlineSeconds = &seconds
	rollout.Spec.Rollback.Mode = v1alpha1.RollbackManual
	rollout.Spec.Health.Checks = []v1alpha1.HealthCheck{
		{Target: v1alpha1.ObjectTarget{Group: "kinds.example.org", Kind: "Widget"}, Healthy: "object.status.phase == 'Up'", Message: "'it is ' + object.status.phase"},
		{Target: v1alpha1.ObjectTarget{Kind: "ConfigMap", Name: "checked"}, Healthy: "object.data.address == 'here'"},
	}
	component := v1alpha1.Component{Name: "all"}
	for _, p := range patients() {
		more = append(more, p.manifest)
	}
	for _, manifest := range append(more, bystanders...) {
		raw, err := parsed(manifest).MarshalJSON()
		Expect(err).NotTo(HaveOccurred())
		component.Manifests = append(component.Manifests, runtime.RawExtension{Raw: raw})
	}
	rollout.Spec.Template.Components = []v1alpha1.Component{component}
	return rollout
}

var _ = Describe("Health of every kind on a real cluster", Ordered, func() {
	report := func(ctx context.Context, g Gomega) v1alpha1.AgentReport {
		addon := &addonv1alpha1.ManagedClusterAddOn{}
		g.Expect(hub.Get(ctx, client.ObjectKey{Namespace: kindsCluster, Name: v1alpha1.AddonName}, addon)).To(Succeed())
		condition := meta.FindStatusCondition(addon.Status.Conditions, v1alpha1.ConditionType(product.ExampleNamespace, kindsName))
		g.Expect(condition).NotTo(BeNil())
		report, err := v1alpha1.DecodeAgentReport(condition.Message)
		g.Expect(err).NotTo(HaveOccurred())
		return report
	}
	writeStatus := func(ctx context.Context, p patient, status string) {
		GinkgoHelper()
		body, err := yaml.YAMLToJSON([]byte("status: " + status))
		Expect(err).NotTo(HaveOccurred())
		object := parsed(p.manifest)
		Eventually(func() error {
			return managedClient(kindsCluster).Status().Patch(ctx, object.DeepCopy(), client.RawPatch("application/merge-patch+json", body))
		}).WithContext(ctx).Should(Succeed(), "status of %s", object.GetKind())
	}
	// foreign are the kinds whose controllers the lab does not have.
	foreign := []*unstructured.Unstructured{}

	BeforeAll(func(ctx SpecContext) {
		foreign = append(foreign,
			definition("operators.coreos.com", "v1alpha1", "ClusterServiceVersion", "clusterserviceversions", "Namespaced"),
			definition("operators.coreos.com", "v1alpha1", "Subscription", "subscriptions", "Namespaced"),
			definition("operators.coreos.com", "v1alpha1", "InstallPlan", "installplans", "Namespaced"),
			definition("olm.operatorframework.io", "v1", "ClusterExtension", "clusterextensions", "Cluster"),
			definition("cluster.x-k8s.io", "v1beta1", "Cluster", "clusters", "Namespaced"),
			definition("cluster.x-k8s.io", "v1beta1", "MachineDeployment", "machinedeployments", "Namespaced"),
			definition("controlplane.cluster.x-k8s.io", "v1beta1", "KubeadmControlPlane", "kubeadmcontrolplanes", "Namespaced"),
			definition("kinds.example.org", "v1", "Gadget", "gadgets", "Namespaced"),
			definition("kinds.example.org", "v1", "Widget", "widgets", "Namespaced"),
		)
		cluster := managedClient(kindsCluster)
		beside := append([]*unstructured.Unstructured{
			parsed("apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: kinds-later}\nprovisioner: kubernetes.io/no-provisioner\nvolumeBindingMode: WaitForFirstConsumer"),
			parsed("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: kinds, labels: {rollout.open-cluster-management.io/aggregate-to-agent: 'true'}}\n" +
				"rules: [{apiGroups: [operators.coreos.com, olm.operatorframework.io, cluster.x-k8s.io, controlplane.cluster.x-k8s.io, kinds.example.org], resources: ['*'], verbs: [get, list, watch]}]"),
		}, foreign...)
		for _, object := range beside {
			Expect(cluster.Create(ctx, object)).To(Succeed())
		}
		DeferCleanup(func(ctx SpecContext) {
			for _, object := range append(beside, parsed("apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: kinds}"),
				parsed("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: taken.names.example.org}")) {
				Expect(client.IgnoreNotFound(cluster.Delete(ctx, object))).To(Succeed())
			}
		})
		Expect(hub.Create(ctx, &clusterv1beta1.Placement{
			ObjectMeta: metav1.ObjectMeta{Namespace: product.ExampleNamespace, Name: kindsName},
			Spec: clusterv1beta1.PlacementSpec{Predicates: []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
				ClaimSelector: clusterv1beta1.ClusterClaimSelector{}, LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "production"}},
			}}}},
		})).To(Succeed())
		Expect(hub.Create(ctx, kindsRollout("1.0.0"))).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			rollout := &v1alpha1.FleetRollout{ObjectMeta: metav1.ObjectMeta{Namespace: product.ExampleNamespace, Name: kindsName}}
			Expect(client.IgnoreNotFound(hub.Delete(ctx, rollout))).To(Succeed())
			Eventually(func() error {
				return client.IgnoreNotFound(hub.Get(ctx, client.ObjectKeyFromObject(rollout), rollout))
			}).WithContext(ctx).Should(Succeed())
			Expect(hub.Delete(ctx, &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: product.ExampleNamespace, Name: kindsName}})).To(Succeed())
		})
	})

	It("is not healthy while an object is sick, and says what is wrong", func(ctx SpecContext) {
		for _, p := range patients() {
			if p.bad != "" {
				writeStatus(ctx, p, p.bad)
			}
		}
		// Some get well by themselves: what was seen once is seen.
		missing := patients()
		last := map[string]string{}
		Eventually(func(g Gomega) {
			for _, found := range report(ctx, g).Unhealthy {
				for name, p := range missing {
					object := parsed(p.manifest)
					// A Job has its revision and attempt in its name.
					if found.Kind != object.GetKind() || !strings.HasPrefix(found.Name, object.GetName()) {
						continue
					}
					last[name] = fmt.Sprintf("%s: %s", found.Health, found.Message)
					if found.Health == p.health && strings.Contains(found.Message, p.says) {
						delete(missing, name)
					}
				}
			}
			waiting := map[string]string{}
			for name := range missing {
				waiting[name] = last[name]
			}
			g.Expect(waiting).To(BeEmpty())
		}).WithContext(ctx).Should(Succeed())
	})

	It("is healthy once all are well, and names what is suspended beside it (E8)", func(ctx SpecContext) {
		for name, p := range patients() {
			if p.good != "" {
				writeStatus(ctx, p, p.good)
			}
			if p.cure != nil {
				Expect(p.cure(ctx, managedClient(kindsCluster))).To(Succeed(), name)
			}
		}
		Eventually(func(g Gomega) {
			r := report(ctx, g)
			g.Expect(r.Unhealthy).To(BeEmpty())
			g.Expect(r.Health).To(Equal(v1alpha1.HealthHealthy), r.Text)
			g.Expect(r.Suspended).To(ConsistOf(v1alpha1.ObjectReference{Group: "batch", Version: "v1", Kind: "CronJob", Namespace: kindsName, Name: "nightly"}))
			g.Expect(r.CompletedJobs).To(HaveLen(1))
			d := &v1alpha1.RolloutDelivery{}
			g.Expect(hub.Get(ctx, client.ObjectKey{Namespace: kindsCluster, Name: v1alpha1.DeliveryName(product.ExampleNamespace, kindsName)}, d)).To(Succeed())
			g.Expect(d.Status.State).To(Equal(v1alpha1.StateHealthy), d.Status.Message)
			g.Expect(d.Status.SuspendedObjects).To(HaveLen(1))
		}).WithContext(ctx).Should(Succeed())
	})

	It("has failed at once when the names of a definition are taken, and says so only while they are (E5)", func(ctx SpecContext) {
		taken := definition("names.example.org", "v1", "Thing", "taken", "Namespaced")
		Expect(managedClient(kindsCluster).Create(ctx, taken)).To(Succeed())
		asks := definition("names.example.org", "v1", "Thing", "things", "Namespaced")
		manifest, err := yaml.Marshal(asks)
		Expect(err).NotTo(HaveOccurred())
		rollout := kindsRollout("1.1.0", string(manifest))
		// What was cured by hand would be delivered sick again.
		Expect(product.EditManifests(rollout, func(object *unstructured.Unstructured) error {
			if object.GetKind() == "APIService" {
				unstructured.RemoveNestedField(object.Object, "spec", "service")
				unstructured.RemoveNestedField(object.Object, "spec", "insecureSkipTLSVerify")
			}
			return nil
		})).To(Succeed())
		Eventually(func() error { return applyRollout(ctx, rollout) }).WithContext(ctx).Should(Succeed())
		Eventually(func(g Gomega) {
			r := report(ctx, g)
			g.Expect(r.Health).To(Equal(v1alpha1.HealthFailed), r.Text)
			g.Expect(r.Text).To(ContainSubstring("things.names.example.org"))
		}).WithContext(ctx).Should(Succeed())
		Expect(managedClient(kindsCluster).Delete(ctx, taken)).To(Succeed())
		Eventually(func(g Gomega) {
			r := report(ctx, g)
			g.Expect(r.Health).To(Equal(v1alpha1.HealthHealthy), r.Text)
		}).WithContext(ctx).Should(Succeed())
	})
})
