package delivery

import (
	"testing"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// A completed Job is found in what was delivered, whatever the cluster's labels have
// become since.
func TestACompletedJobThatAnOverrideChangedIsKnown(t *testing.T) {
	h := newHub(t)
	h.cluster.Labels = map[string]string{"region": "eu"}
	h.adjust = func(spec *v1alpha1.FleetRolloutSpec) {
		spec.Overrides = []v1alpha1.Override{{
			Name:    "regional",
			Patches: []v1alpha1.Patch{{Target: v1alpha1.ObjectTarget{Kind: "Job"}, Patch: `{"metadata": {"annotations": {"region": "${cluster.labels['region']}"}}}`}},
		}}
	}
	first := h.freeze(1, "1.0.0", manifest("batch/v1", "Job", "migrate", "registry/migrate:1"))
	h.intend(first, v1alpha1.DirectionForward)
	h.settle()
	h.cluster.Labels = nil
	delivered := h.delivery().Status.Rendered.Objects[0]
	h.agent.Condition = condition(v1alpha1.AgentReport{Digest: first.Digest, Delivery: 1, Health: v1alpha1.HealthHealthy,
		CompletedJobs: []string{delivered.Namespace + "/" + delivered.Name}})
	h.settle()
	if jobs := h.delivery().Status.CompletedJobs; len(jobs) != 1 || jobs[0].Name != "migrate" {
		t.Errorf("completed Jobs are %v", jobs)
	}
}
