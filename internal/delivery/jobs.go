package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/pkg/workbuilder"
)

// CompletedJobs translates the Jobs that the agent reports completed, which bear
// the names they were delivered under, into Jobs of the template. A condition
// that says nothing of the delivery in hand has none. A missing payload is no
// error: Apply says so.
func (a *Applier) CompletedJobs(ctx context.Context, delivery *v1alpha1.RolloutDelivery, agent Agent) ([]v1alpha1.CompletedJob, error) {
	if agent.Condition == nil || !isRendered(delivery) {
		return nil, nil
	}
	report, err := v1alpha1.DecodeAgentReport(agent.Condition.Message)
	spec := delivery.Spec
	if err != nil || report.Delivery != spec.Delivery || report.Digest != spec.Revision.Digest {
		return nil, nil
	}
	known := map[string]bool{}
	for _, job := range delivery.Status.CompletedJobs {
		known[job.Namespace+"/"+workbuilder.JobName(job.Name, spec.Revision.Digest, spec.Attempt)] = true
	}
	if !slices.ContainsFunc(report.CompletedJobs, func(name string) bool { return !known[name] }) {
		return nil, nil
	}
	payload, err := a.payloads.Get(ctx, spec.Rollout.Namespace, spec.Revision)
	var missing *missingPayloadError
	if errors.As(err, &missing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rendering, err := workbuilder.Render(workbuilder.Request{
		Cluster:       delivery.Namespace,
		Spec:          spec,
		Payload:       payload,
		CompletedJobs: completedBefore(delivery.Status, spec),
		Recorded:      delivery.Status.Rendered,
	})
	if err != nil {
		return nil, fmt.Errorf("find the completed Jobs of cluster %q: %w", delivery.Namespace, err)
	}
	return rendering.Completed(report.CompletedJobs), nil
}
