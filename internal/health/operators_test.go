package health

import (
	"testing"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// The statuses are those that Cluster API writes: its v1beta1 keeps conditions
// without generations, its v1beta2 keeps the former under status.deprecated.
func TestKindsOfClusterAPIBecomeHealthy(t *testing.T) {
	const progressing, failed, suspended, healthy = v1alpha1.HealthProgressing, v1alpha1.HealthFailed, v1alpha1.HealthSuspended, v1alpha1.HealthHealthy
	for _, life := range []struct {
		name, head string
		stages     []stage
	}{
		{"a Cluster in v1beta1", "apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata: {name: c, generation: 2}\nspec: {topology: {version: v1.34.0}}\n", []stage{
			{more: "status: {phase: Pending}", want: progressing, message: unseen},
			{more: `status: {phase: Failed, observedGeneration: 1, failureReason: InvalidConfiguration, failureMessage: of the earlier content}`, want: progressing, message: unseen},
			{more: `status: {phase: Provisioning, observedGeneration: 2, conditions: [{type: Ready, status: 'False', reason: WaitingForControlPlane, severity: Info}, {type: InfrastructureReady, status: 'True'}]}`, want: progressing, message: "Ready is False: WaitingForControlPlane"},
			{more: `status: {phase: Provisioned, observedGeneration: 2, conditions: [{type: Ready, status: 'True'}, {type: TopologyReconciled, status: 'False', reason: ControlPlaneUpgradePending, message: 'upgrade to v1.34.0'}]}`, want: progressing, message: "TopologyReconciled is False: ControlPlaneUpgradePending: upgrade to v1.34.0"},
			{more: `status: {phase: Failed, observedGeneration: 2, failureReason: CreateError, failureMessage: no quota}`, want: failed, message: "failed: no quota"},
			{more: `status: {phase: Provisioned, observedGeneration: 2, conditions: [{type: Ready, status: 'True'}, {type: TopologyReconciled, status: 'True'}]}`, want: healthy},
		}},
		{"a paused Cluster", "apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata: {name: c, generation: 1}\nspec: {paused: true}\n", []stage{
			{more: "status: {phase: Provisioned, observedGeneration: 1}", want: suspended, message: "paused"},
		}},
		{"a Cluster in v1beta2", "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: c, generation: 2}\n", []stage{
			{more: `status: {observedGeneration: 2, phase: Provisioned, conditions: [{type: Available, status: 'False', reason: NotAvailable, message: '* WorkersAvailable: 1 of 2', observedGeneration: 2}]}`, want: progressing, message: "Available is False: NotAvailable: * WorkersAvailable: 1 of 2"},
			{more: `status: {observedGeneration: 2, phase: Provisioned, conditions: [{type: Available, status: 'True', observedGeneration: 1}]}`, want: progressing, message: unseen},
			{more: `status: {observedGeneration: 2, phase: Provisioned, conditions: [{type: Available, status: 'True', observedGeneration: 2}, {type: RollingOut, status: 'True', reason: RollingOut, observedGeneration: 2}]}`, want: progressing, message: "RollingOut is True: RollingOut"},
			{more: `status: {observedGeneration: 2, phase: Provisioned, conditions: [{type: Available, status: 'True', observedGeneration: 2}, {type: RollingOut, status: 'False', reason: NotRollingOut, observedGeneration: 2}], deprecated: {v1beta1: {conditions: [{type: Ready, status: 'False'}]}}}`, want: healthy},
		}},
		{"a MachineDeployment", "apiVersion: cluster.x-k8s.io/v1beta1\nkind: MachineDeployment\nmetadata: {name: md, generation: 3}\nspec: {replicas: 3}\n", []stage{
			{more: "status: {observedGeneration: 2, replicas: 3, updatedReplicas: 3, readyReplicas: 3}", want: progressing, message: unseen},
			{more: "status: {observedGeneration: 3, replicas: 4, updatedReplicas: 1, readyReplicas: 3, phase: ScalingUp}", want: progressing, message: "1 of 3 machines are up to date"},
			{more: "status: {observedGeneration: 3, replicas: 3, updatedReplicas: 3, readyReplicas: 2}", want: progressing, message: "2 of 3 machines are ready"},
			{more: "status: {observedGeneration: 3, replicas: 4, updatedReplicas: 3, readyReplicas: 4, phase: ScalingDown}", want: progressing, message: "1 machines more than wanted are not gone yet"},
			{more: `status: {observedGeneration: 3, replicas: 3, updatedReplicas: 3, readyReplicas: 3, conditions: [{type: Available, status: 'True'}, {type: Ready, status: 'False', reason: WaitingForAvailableMachines}]}`, want: progressing, message: "Ready is False: WaitingForAvailableMachines"},
			{more: `status: {observedGeneration: 3, replicas: 3, updatedReplicas: 3, readyReplicas: 3, phase: Running, conditions: [{type: Available, status: 'True'}, {type: Ready, status: 'True'}]}`, want: healthy},
			{more: `status: {observedGeneration: 3, replicas: 3, upToDateReplicas: 3, readyReplicas: 3, availableReplicas: 3, conditions: [{type: Available, status: 'True', observedGeneration: 3}, {type: RollingOut, status: 'False', observedGeneration: 3}]}`, want: healthy},
		}},
		{"a MachineDeployment that is paused by annotation", "apiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineDeployment\nmetadata: {name: md, generation: 1, annotations: {cluster.x-k8s.io/paused: ''}}\n", []stage{
			{more: "status: {observedGeneration: 1}", want: suspended, message: "paused"},
		}},
		{"a KubeadmControlPlane", "apiVersion: controlplane.cluster.x-k8s.io/v1beta1\nkind: KubeadmControlPlane\nmetadata: {name: cp, generation: 5}\nspec: {replicas: 3, version: v1.34.0}\n", []stage{
			{more: "status: {observedGeneration: 4, version: v1.34.0}", want: progressing, message: unseen},
			{more: "status: {observedGeneration: 5}", want: progressing, message: "Kubernetes v1.34.0 is wanted, and the oldest machine has none"},
			{more: `status: {observedGeneration: 5, version: v1.33.4, replicas: 4, updatedReplicas: 1, readyReplicas: 3, conditions: [{type: Available, status: 'True'}, {type: Ready, status: 'False', reason: RollingUpdateInProgress}]}`, want: progressing, message: "Kubernetes v1.34.0 is wanted, and the oldest machine has v1.33.4"},
			{more: `status: {observedGeneration: 5, version: v1.34.0, replicas: 3, updatedReplicas: 3, readyReplicas: 3, conditions: [{type: Available, status: 'True'}, {type: Ready, status: 'False', reason: ControlPlaneComponentsUnhealthy}]}`, want: progressing, message: "Ready is False: ControlPlaneComponentsUnhealthy"},
			{more: `status: {observedGeneration: 5, version: v1.33.4, failureReason: UpdateError, failureMessage: cannot join}`, want: failed, message: "failed: cannot join"},
			{more: `status: {observedGeneration: 5, version: v1.34.0, replicas: 3, updatedReplicas: 3, readyReplicas: 3, conditions: [{type: Available, status: 'True'}, {type: Ready, status: 'True'}]}`, want: healthy},
			{more: `status: {observedGeneration: 5, version: v1.34.0, replicas: 3, upToDateReplicas: 3, readyReplicas: 3, conditions: [{type: Available, status: 'True', observedGeneration: 5}]}`, want: healthy},
		}},
	} {
		t.Run(life.name, func(t *testing.T) {
			for i, s := range life.stages {
				if got := Of(Subject{Object: parse(t, life.head+s.more)}); got.Health != s.want || got.Message != s.message {
					t.Errorf("stage %d: got %s %q, want %s %q", i, got.Health, got.Message, s.want, s.message)
				}
			}
		})
	}
}
