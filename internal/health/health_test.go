package health

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("parse %s: %v", text, err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		t.Fatalf("parse %s: %v", text, err)
	}
	return object
}

func TestHealthOfWorkloads(t *testing.T) {
	const (
		deploymentHead = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api, namespace: payments, generation: 3}\n"
		statefulHead   = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db, namespace: payments, generation: 3}\n"
		daemonHead     = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: log, namespace: payments, generation: 3}\n"
		jobHead        = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate, namespace: payments}\n"
		crdHead        = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.com}\n"
	)
	complete := "{type: Progressing, status: 'True', reason: NewReplicaSetAvailable}"
	available := "{type: Available, status: 'True'}"
	cases := []struct {
		name    string
		object  string
		want    v1alpha1.Health
		message string
	}{
		{"E1: a Deployment whose updated replicas are all unavailable is progressing", deploymentHead + `
spec: {replicas: 2, progressDeadlineSeconds: 600}
status: {observedGeneration: 3, replicas: 2, updatedReplicas: 2, unavailableReplicas: 2,
  conditions: [{type: Progressing, status: 'True', reason: ReplicaSetUpdated}, {type: Available, status: 'False'}]}`,
			v1alpha1.HealthProgressing, "0 of 2 replicas available"},
		{"E1: it has failed at once when its own deadline is over", deploymentHead + `
spec: {replicas: 2, progressDeadlineSeconds: 600}
status: {observedGeneration: 3, replicas: 2, updatedReplicas: 2, unavailableReplicas: 2,
  conditions: [{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded, message: timed out}]}`,
			v1alpha1.HealthFailed, "progress deadline exceeded, 0 of 2 replicas available"},
		{"a complete Deployment is healthy", deploymentHead + `
spec: {replicas: 2, progressDeadlineSeconds: 600}
status: {observedGeneration: 3, replicas: 2, updatedReplicas: 2, readyReplicas: 2, availableReplicas: 2,
  conditions: [` + complete + `, ` + available + `]}`, v1alpha1.HealthHealthy, ""},
		{"D1: a Deployment whose controller has not seen its generation is progressing whatever the status says", deploymentHead + `
spec: {replicas: 2, progressDeadlineSeconds: 600}
status: {observedGeneration: 2, replicas: 2, updatedReplicas: 2, readyReplicas: 2, availableReplicas: 2,
  conditions: [` + complete + `, ` + available + `]}`, v1alpha1.HealthProgressing, unseen},
		{"a Deployment without any status is progressing, even with no replicas", deploymentHead + `
spec: {replicas: 0}`, v1alpha1.HealthProgressing, unseen},
		{"a Deployment that was complete and lost a replica is degraded", deploymentHead + `
spec: {replicas: 4, progressDeadlineSeconds: 600}
status: {observedGeneration: 3, replicas: 4, updatedReplicas: 4, readyReplicas: 3, availableReplicas: 3,
  conditions: [` + complete + `, ` + available + `]}`, v1alpha1.HealthDegraded, "3 of 4 replicas available"},
		{"a Deployment in the middle of its update is progressing", deploymentHead + `
spec: {replicas: 4, progressDeadlineSeconds: 600}
status: {observedGeneration: 3, replicas: 5, updatedReplicas: 2, readyReplicas: 4, availableReplicas: 4,
  conditions: [{type: Progressing, status: 'True', reason: ReplicaSetUpdated}, ` + available + `]}`,
			v1alpha1.HealthProgressing, "2 of 4 replicas updated, 4 available"},
		{"a paused Deployment is suspended", deploymentHead + `
spec: {replicas: 1, paused: true}
status: {observedGeneration: 3}`, v1alpha1.HealthSuspended, "paused"},

		{"a StatefulSet with all pods ready and updated is healthy", statefulHead + `
spec: {replicas: 2, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0}}}
status: {observedGeneration: 3, replicas: 2, readyReplicas: 2, currentReplicas: 2, updatedReplicas: 2}`,
			v1alpha1.HealthHealthy, ""},
		{"a StatefulSet with an old pod is progressing", statefulHead + `
spec: {replicas: 2, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0}}}
status: {observedGeneration: 3, replicas: 2, readyReplicas: 2, currentReplicas: 1, updatedReplicas: 1}`,
			v1alpha1.HealthProgressing, "updated: 1/2"},
		{"a StatefulSet with OnDelete is progressing while a pod is not ready", statefulHead + `
spec: {replicas: 2, updateStrategy: {type: OnDelete}}
status: {observedGeneration: 3, replicas: 2, readyReplicas: 1}`,
			v1alpha1.HealthProgressing, "1 of 2 replicas ready"},
		{"a StatefulSet with minReadySeconds waits for availability", statefulHead + `
spec: {replicas: 2, minReadySeconds: 30, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0}}}
status: {observedGeneration: 3, replicas: 2, readyReplicas: 2, availableReplicas: 1, currentReplicas: 2, updatedReplicas: 2}`,
			v1alpha1.HealthProgressing, "1 of 2 replicas ready"},
		{"a StatefulSet without any status is progressing, even with no replicas", statefulHead + `
spec: {replicas: 0}`, v1alpha1.HealthProgressing, unseen},

		{"a DaemonSet with all pods updated and available is healthy", daemonHead + `
spec: {updateStrategy: {type: RollingUpdate}}
status: {observedGeneration: 3, desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 2, numberReady: 2}`,
			v1alpha1.HealthHealthy, ""},
		{"a DaemonSet with an old pod is progressing", daemonHead + `
spec: {updateStrategy: {type: RollingUpdate}}
status: {observedGeneration: 3, desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: 1, numberAvailable: 2, numberReady: 2}`,
			v1alpha1.HealthProgressing, "1 of 2 pods updated"},
		{"a DaemonSet with OnDelete does not wait for somebody to delete pods", daemonHead + `
spec: {updateStrategy: {type: OnDelete}}
status: {observedGeneration: 3, desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: 0, numberAvailable: 2, numberReady: 2}`,
			v1alpha1.HealthHealthy, ""},
		{"a DaemonSet with OnDelete needs its pods available", daemonHead + `
spec: {updateStrategy: {type: OnDelete}}
status: {observedGeneration: 3, desiredNumberScheduled: 2, currentNumberScheduled: 2, numberAvailable: 1, numberReady: 1}`,
			v1alpha1.HealthProgressing, "1 of 2 pods available"},
		{"a DaemonSet that no node wants is healthy", daemonHead + `
spec: {updateStrategy: {type: RollingUpdate}}
status: {observedGeneration: 3, desiredNumberScheduled: 0, currentNumberScheduled: 0, numberAvailable: 0}`,
			v1alpha1.HealthHealthy, ""},

		{"E3: a Job that was just applied is progressing", jobHead, v1alpha1.HealthProgressing,
			"not completed: 0 active, 0 succeeded, 0 failed"},
		{"E3: a Job that runs is progressing", jobHead + `status: {active: 1, startTime: "2026-01-01T00:00:00Z"}`,
			v1alpha1.HealthProgressing, "not completed: 1 active, 0 succeeded, 0 failed"},
		{"E3: a Job that completed is healthy", jobHead + `status: {succeeded: 1, conditions: [{type: Complete, status: 'True'}]}`,
			v1alpha1.HealthHealthy, ""},
		{"E3: a Job that failed has failed at once", jobHead +
			`status: {failed: 7, conditions: [{type: Failed, status: 'True', reason: BackoffLimitExceeded, message: too often}]}`,
			v1alpha1.HealthFailed, "failed: BackoffLimitExceeded: too often"},
		{"E3: a suspended Job is suspended", jobHead + `spec: {suspend: true}
status: {conditions: [{type: Suspended, status: 'True'}]}`, v1alpha1.HealthSuspended, "suspended"},

		{"E5: a definition without conditions is progressing", crdHead, v1alpha1.HealthProgressing, "Install in progress"},
		{"E5: a definition that is being installed is progressing", crdHead +
			`status: {conditions: [{type: NamesAccepted, status: 'True'}, {type: Established, status: 'False', reason: Installing}]}`,
			v1alpha1.HealthProgressing, "Install in progress"},
		{"E5: an established definition is healthy", crdHead +
			`status: {conditions: [{type: NamesAccepted, status: 'True'}, {type: Established, status: 'True'}]}`,
			v1alpha1.HealthHealthy, ""},
		{"E5: a definition whose names are taken has failed", crdHead +
			`status: {conditions: [{type: NamesAccepted, status: 'False', reason: Conflict, message: taken}]}`,
			v1alpha1.HealthFailed, "failed: taken"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := Of(Subject{Object: parse(t, c.object)}); got.Health != c.want || got.Message != c.message {
				t.Errorf("got %s %q, want %s %q", got.Health, got.Message, c.want, c.message)
			}
		})
	}
}

// stage is an object at one moment of its life, and what it is called then.
type stage struct {
	// more is the rest of the object: its spec and status.
	more string
	// beside is what is known beside the object.
	beside  Subject
	want    v1alpha1.Health
	message string
}

// Each kind is taken from unhealthy to healthy, as its controller writes it.
func TestKindsBecomeHealthy(t *testing.T) {
	const progressing, degraded, failed, suspended, healthy = v1alpha1.HealthProgressing, v1alpha1.HealthDegraded, v1alpha1.HealthFailed, v1alpha1.HealthSuspended, v1alpha1.HealthHealthy
	lives := []struct {
		name, head string
		stages     []stage
	}{
		{"L4: a Deployment that an autoscaler scaled to seven is judged by seven", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api, generation: 4}\n", []stage{
			{more: "spec: {replicas: 7}\nstatus: {observedGeneration: 4, replicas: 7, updatedReplicas: 7, readyReplicas: 3, availableReplicas: 3, conditions: [{type: Progressing, status: 'True', reason: ReplicaSetUpdated}, {type: Available, status: 'False'}]}", want: progressing, message: "3 of 7 replicas available"},
			{more: "spec: {replicas: 7}\nstatus: {observedGeneration: 4, replicas: 7, updatedReplicas: 7, readyReplicas: 7, availableReplicas: 7, conditions: [{type: Progressing, status: 'True', reason: NewReplicaSetAvailable}, {type: Available, status: 'True'}]}", want: healthy},
		}},
		{"a Deployment at zero replicas", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api, generation: 2}\n", []stage{
			{more: "spec: {replicas: 0}\nstatus: {observedGeneration: 1}", want: progressing, message: unseen},
			{more: "spec: {replicas: 0}\nstatus: {observedGeneration: 2, conditions: [{type: Progressing, status: 'True', reason: NewReplicaSetAvailable}, {type: Available, status: 'True'}]}", want: healthy},
		}},
		{"a ReplicaSet", "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: api, generation: 1}\n", []stage{
			{more: "spec: {replicas: 2}", want: progressing, message: unseen},
			{more: "spec: {replicas: 2}\nstatus: {observedGeneration: 1, replicas: 0, conditions: [{type: ReplicaFailure, status: 'True', message: quota}]}", want: progressing, message: "0 of 2 replicas available: quota"},
			{more: "spec: {replicas: 2}\nstatus: {observedGeneration: 1, replicas: 2, fullyLabeledReplicas: 2, readyReplicas: 2, availableReplicas: 2}", want: healthy},
		}},
		{"a Pod", "apiVersion: v1\nkind: Pod\nmetadata: {name: api, generation: 2, creationTimestamp: '2020-01-01T00:00:00Z'}\n", []stage{
			{want: progressing, message: "not ready"},
			{more: "status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: no node}]}", want: progressing, message: "PodScheduled is False: Unschedulable: no node"},
			{more: "status: {phase: Pending, containerStatuses: [{name: api, state: {waiting: {reason: ContainerCreating}}}]}", want: progressing, message: "not ready"},
			{more: "status: {phase: Running, conditions: [{type: Ready, status: 'False'}], containerStatuses: [{name: api, state: {waiting: {reason: CrashLoopBackOff}}}]}", want: progressing, message: "container api waits: CrashLoopBackOff"},
			{more: "status: {phase: Running, observedGeneration: 1, conditions: [{type: Ready, status: 'True'}]}", want: progressing, message: unseen},
			{more: "status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}", want: healthy},
			{more: "status: {phase: Succeeded, conditions: [{type: Ready, status: 'False', reason: PodCompleted}]}", want: healthy},
			{more: "status: {phase: Failed, reason: Evicted, message: low on memory}", want: failed, message: "failed: low on memory"},
		}},
		{"E8: a CronJob", "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\n", []stage{
			{more: "spec: {suspend: true}", want: healthy},
			{more: "spec: {suspend: false}", want: healthy},
		}},
		{"a PersistentVolumeClaim", "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n", []stage{
			{more: "status: {phase: Pending}", want: progressing, message: "not bound to a volume yet"},
			{more: "status: {phase: Pending}", beside: Subject{WaitsForConsumer: true}, want: healthy},
			{more: "spec: {resources: {requests: {storage: 2Gi}}}\nstatus: {phase: Bound, capacity: {storage: 1Gi}}", want: progressing, message: "it is to grow to 2Gi, and has 1Gi"},
			{more: "spec: {resources: {requests: {storage: 2Gi}}}\nstatus: {phase: Bound, capacity: {storage: 2048Mi}}", want: healthy},
			{more: "status: {phase: Bound}", want: healthy},
			{more: "status: {phase: Lost}", want: failed, message: "its PersistentVolume is lost"},
		}},
		{"a Service", "apiVersion: v1\nkind: Service\nmetadata: {name: api}\n", []stage{
			{more: "spec: {type: ClusterIP, clusterIP: 10.0.0.1, selector: {app: api}}", beside: Subject{Endpoints: &Endpoints{Total: 2}}, want: progressing, message: "none of its 2 endpoints is ready"},
			{more: "spec: {type: ClusterIP, clusterIP: 10.0.0.1, selector: {app: api}}", beside: Subject{Endpoints: &Endpoints{Ready: 1, Total: 2}}, want: healthy},
			{more: "spec: {type: ClusterIP, clusterIP: 10.0.0.1, selector: {app: api}}", beside: Subject{Endpoints: &Endpoints{}}, want: progressing, message: "it has no endpoints: no pod that it selects has an address"},
			{more: "spec: {type: ClusterIP, clusterIP: 10.0.0.1, selector: {app: api}}", beside: Subject{Endpoints: &Endpoints{Resting: true}}, want: healthy},
			{more: "spec: {type: ClusterIP, clusterIP: None, selector: {app: api}}", beside: Subject{Endpoints: &Endpoints{Total: 1}}, want: progressing, message: "none of its 1 endpoints is ready"},
			{more: "spec: {type: ClusterIP, clusterIP: 10.0.0.1}", beside: Subject{Endpoints: &Endpoints{}}, want: healthy},
			{more: "spec: {type: ClusterIP, clusterIP: 10.0.0.1, selector: {app: api}}", want: healthy},
			{more: "spec: {type: ExternalName, externalName: example.com, selector: {app: api}}", beside: Subject{Endpoints: &Endpoints{Total: 2}}, want: healthy},
			{more: "spec: {type: LoadBalancer, clusterIP: 10.0.0.1, selector: {app: api}}\nstatus: {loadBalancer: {}}", beside: Subject{Endpoints: &Endpoints{Ready: 1, Total: 1}}, want: progressing, message: "its load balancer has no address yet"},
			{more: "spec: {type: LoadBalancer, clusterIP: 10.0.0.1, selector: {app: api}}\nstatus: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}", beside: Subject{Endpoints: &Endpoints{Ready: 1, Total: 1}}, want: healthy},
		}},
		{"an Ingress", "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: api}\n", []stage{{want: healthy}}},
		{"a HorizontalPodAutoscaler", "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: api}\n", []stage{
			{want: progressing, message: "its controller has not looked at its target yet"},
			{more: "status: {conditions: [{type: AbleToScale, status: 'False', reason: FailedGetScale, message: not found}]}", want: progressing, message: "AbleToScale is False: FailedGetScale: not found"},
			{more: "status: {conditions: [{type: AbleToScale, status: 'True'}, {type: ScalingActive, status: 'False', reason: FailedGetResourceMetric}]}", want: healthy},
			{more: "status: {conditions: [{type: AbleToScale, status: 'True'}, {type: ScalingActive, status: 'False', reason: InvalidSelector, message: no selector}]}", want: degraded, message: "ScalingActive is False: InvalidSelector: no selector"},
			{more: "status: {conditions: [{type: AbleToScale, status: 'True'}, {type: ScalingActive, status: 'False', reason: ScalingDisabled}]}", want: healthy},
		}},
		{"a HorizontalPodAutoscaler of version v1", "apiVersion: autoscaling/v1\nkind: HorizontalPodAutoscaler\n", []stage{
			{more: "metadata: {name: api}", want: progressing, message: "its controller has not looked at its target yet"},
			{more: `metadata: {name: api, annotations: {autoscaling.alpha.kubernetes.io/conditions: '[{"type":"AbleToScale","status":"False","reason":"FailedGetScale","message":"not found"}]'}}`, want: progressing, message: "AbleToScale is False: FailedGetScale: not found"},
			{more: `metadata: {name: api, annotations: {autoscaling.alpha.kubernetes.io/conditions: '[{"type":"AbleToScale","status":"True"}]'}}`, want: healthy},
		}},
		{"a PodDisruptionBudget", "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: api, generation: 1}\n", []stage{
			{want: progressing, message: unseen},
			{more: "status: {observedGeneration: 1, expectedPods: 2, desiredHealthy: 2, currentHealthy: 1}", want: progressing, message: "1 of the 2 pods that must be healthy are"},
			{more: "status: {observedGeneration: 1, expectedPods: 2, desiredHealthy: 1, currentHealthy: 2}", want: healthy},
			{more: "status: {observedGeneration: 1, expectedPods: 0, desiredHealthy: 1, currentHealthy: 0}", want: healthy},
		}},
		{"a Namespace", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n", []stage{
			{more: "status: {phase: Terminating}", want: progressing, message: "being deleted"},
			{more: "status: {phase: Active}", want: healthy},
		}},
		{"an APIService", "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1.example.com}\n", []stage{
			{want: progressing, message: "it is not known yet whether it is available"},
			{more: "status: {conditions: [{type: Available, status: 'False', reason: MissingEndpoints, message: none}]}", want: progressing, message: "Available is False: MissingEndpoints: none"},
			{more: "status: {conditions: [{type: Available, status: 'True'}]}", want: healthy},
		}},
		{"a ClusterServiceVersion", "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {name: op.v1}\n", []stage{
			{want: progressing, message: "OLM has not looked at it yet"},
			{more: "status: {phase: Installing, message: waiting}", want: progressing, message: "in phase Installing: waiting"},
			{more: "status: {phase: Failed, reason: ComponentFailed, message: no permission}", want: degraded, message: "failed: no permission"},
			{more: "status: {phase: Succeeded}", want: healthy},
		}},
		{"a Subscription", "apiVersion: operators.coreos.com/v1alpha1\nkind: Subscription\nmetadata: {name: op}\n", []stage{
			{want: progressing, message: "nothing is installed yet"},
			{more: "status: {conditions: [{type: ResolutionFailed, status: 'True', reason: ConstraintsNotSatisfiable, message: none}]}", want: degraded, message: "ResolutionFailed is True: ConstraintsNotSatisfiable: none"},
			{more: "status: {conditions: [{type: BundleUnpackFailed, status: 'True', reason: DeadlineExceeded}]}", want: degraded, message: "BundleUnpackFailed is True: DeadlineExceeded"},
			{more: "spec: {installPlanApproval: Manual}\nstatus: {state: UpgradePending, currentCSV: op.v1}", want: suspended, message: "op.v1 waits for the approval of its InstallPlan"},
			{more: "spec: {installPlanApproval: Manual, startingCSV: op.v2}\nstatus: {state: UpgradePending, installedCSV: op.v1}", want: suspended, message: "op.v2 waits for the approval of its InstallPlan"},
			{more: "spec: {installPlanApproval: Manual, startingCSV: op.v1}\nstatus: {state: UpgradePending, installedCSV: op.v1}", want: healthy},
			{more: "spec: {installPlanApproval: Automatic}\nstatus: {state: UpgradePending, installedCSV: op.v1}", want: progressing, message: "op.v1 is installed, in state UpgradePending"},
			{more: "status: {state: AtLatestKnown, installedCSV: op.v2}", want: healthy},
		}},
		{"an InstallPlan", "apiVersion: operators.coreos.com/v1alpha1\nkind: InstallPlan\nmetadata: {name: ip}\n", []stage{
			{want: progressing, message: "OLM has not looked at it yet"},
			{more: "status: {phase: RequiresApproval}", want: suspended, message: "waits for somebody to approve it"},
			{more: "status: {phase: Installing}", want: progressing, message: "in phase Installing"},
			{more: "status: {phase: Failed, message: bad bundle}", want: failed, message: "failed: bad bundle"},
			{more: "status: {phase: Complete}", want: healthy},
		}},
		{"a ClusterExtension", "apiVersion: olm.operatorframework.io/v1\nkind: ClusterExtension\nmetadata: {name: op, generation: 2}\n", []stage{
			{want: progressing, message: "OLM has not looked at it yet"},
			{more: "status: {conditions: [{type: Progressing, status: 'True', reason: Succeeded, observedGeneration: 1}, {type: Installed, status: 'True', reason: Succeeded, observedGeneration: 1}]}", want: progressing, message: unseen},
			{more: "status: {conditions: [{type: Progressing, status: 'False', reason: Blocked, message: pinned, observedGeneration: 2}, {type: Installed, status: 'True', observedGeneration: 2}]}", want: failed, message: "Progressing is False: Blocked: pinned"},
			{more: "status: {conditions: [{type: Progressing, status: 'True', reason: Retrying, observedGeneration: 2}, {type: Installed, status: 'True', observedGeneration: 2}]}", want: progressing, message: "Progressing is True: Retrying"},
			{more: "status: {conditions: [{type: Progressing, status: 'True', reason: Succeeded, observedGeneration: 2}, {type: Installed, status: 'True', observedGeneration: 2}]}", want: healthy},
		}},
		{"a custom resource with conditions", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, generation: 3}\n", []stage{
			{more: "status: {observedGeneration: 2, conditions: [{type: Ready, status: 'True'}]}", want: progressing, message: "Widget generation is 3, but latest observed generation is 2"},
			{more: "status: {conditions: [{type: Ready, status: 'True', observedGeneration: 2}]}", want: progressing, message: unseen},
			{more: "status: {observedGeneration: 3, conditions: [{type: Ready, status: 'False', reason: Pulling, message: pulls}]}", want: progressing, message: "pulls"},
			{more: "status: {observedGeneration: 3, conditions: [{type: Available, status: 'False', reason: Down, message: none is up}]}", want: progressing, message: "Available is False: Down: none is up"},
			{more: "status: {observedGeneration: 3, conditions: [{type: Stalled, status: 'True', message: bad spec}]}", want: failed, message: "failed: bad spec"},
			{more: "status: {conditions: [{type: Stalled, status: 'True', message: bad spec, observedGeneration: 2}]}", want: progressing, message: unseen},
			{more: "status: {observedGeneration: 3, conditions: [{type: Ready, status: 'True', observedGeneration: 3}]}", want: healthy},
		}},
		{"a custom resource without conditions exists", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n", []stage{{want: healthy}}},
	}
	for _, life := range lives {
		t.Run(life.name, func(t *testing.T) {
			for i, s := range life.stages {
				subject := s.beside
				subject.Object = parse(t, life.head+s.more)
				if got := Of(subject); got.Health != s.want || got.Message != s.message {
					t.Errorf("stage %d: got %s %q, want %s %q", i, got.Health, got.Message, s.want, s.message)
				}
			}
		})
	}
}

func TestASuspendedCronJobIsTold(t *testing.T) {
	for suspend, want := range map[string]bool{"true": true, "false": false} {
		got := Of(Subject{Object: parse(t, "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\nspec: {suspend: "+suspend+"}")})
		if got.Suspended != want {
			t.Errorf("suspend %s is told as %v", suspend, got.Suspended)
		}
	}
}
