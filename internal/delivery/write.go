package delivery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/pkg/workbuilder"
)

// write brings the works to the recorded phase, part by part. It does not touch
// what is there already. Works without a part in the content go last, once the
// others are applied: they may have carried what moved.
func (a *Applier) write(ctx context.Context, task *Task, rendering workbuilder.Rendering, present []*workv1.ManifestWork) (Outcome, error) {
	outcome := Outcome{Status: task.Delivery.Status}
	set, err := workbuilder.Works(rendering, outcome.Status.Phase, present)
	if err != nil {
		return Outcome{}, err
	}
	for _, wanted := range set.Works {
		work, err := a.writeWork(ctx, wanted, findWork(present, wanted.Name))
		var obstacle *obstacleError
		switch {
		case errors.As(err, &obstacle):
			nothingIsThere := len(present)+len(outcome.Works) == 0
			outcome.Obstacle, outcome.Works = obstacle.obstacle, present
			if nothingIsThere && obstacle.obstacle.Cause.Reason == v1alpha1.ReasonForeignObject {
				// Nothing of the rendering is on the cluster. Who is recorded as
				// delivering an object holds it, so the record is taken back.
				outcome.Status = unrendered(outcome.Status)
			}
			return outcome, nil
		case err != nil && isRefusal(err):
			outcome.Obstacle = degraded(v1alpha1.ReasonWriteRefused, fmt.Sprintf("the hub refuses ManifestWork %s: %v", wanted.Name, err))
			outcome.Refused, outcome.Works = err, present
			return outcome, nil
		case err != nil:
			return Outcome{}, err
		}
		if !isIntact(work) {
			outcome.Obstacle = degraded(v1alpha1.ReasonWriteRefused, fmt.Sprintf(
				"the hub stores another spec than was written to ManifestWork %s: look for an admission webhook or an old ManifestWork CRD that changes it", work.Name))
		}
		outcome.Works = append(outcome.Works, work)
	}
	if outcome.Status.Phase != v1alpha1.PhaseDrop || !applicationOf(outcome.Status, outcome.Works).complete {
		return outcome, nil
	}
	for _, work := range leftOver(outcome.Status, present) {
		if err := a.deleteWork(ctx, work); err != nil {
			return Outcome{}, err
		}
	}
	return outcome, nil
}

// unrendered is a status without the rendering that could not be written. It is
// called only where no work of the rollout is on the cluster.
func unrendered(status v1alpha1.RolloutDeliveryStatus) v1alpha1.RolloutDeliveryStatus {
	status.Rendered, status.Phase, status.Dropping = nil, "", nil
	status.WrittenAt, status.Clock = nil, v1alpha1.DeliveryClock{}
	return status
}

// obstacleError carries an obstacle found while writing.
type obstacleError struct{ obstacle *Obstacle }

func (e *obstacleError) Error() string { return e.obstacle.Cause.Message }

// writeWork creates or updates one work, and returns it as the hub has it then.
func (a *Applier) writeWork(ctx context.Context, wanted, present *workv1.ManifestWork) (*workv1.ManifestWork, error) {
	if present == nil {
		work := wanted.DeepCopy()
		err := a.client.Create(ctx, work)
		if apierrors.IsAlreadyExists(err) {
			return nil, a.explainExisting(ctx, wanted)
		}
		if err != nil {
			return nil, fmt.Errorf("create ManifestWork %s/%s: %w", wanted.Namespace, wanted.Name, err)
		}
		return work, nil
	}
	if present.DeletionTimestamp != nil {
		return nil, &obstacleError{&Obstacle{State: v1alpha1.StatePending, Cause: v1alpha1.Cause{
			Reason:  v1alpha1.ReasonRemoving,
			Message: fmt.Sprintf("ManifestWork %s of an earlier delivery is still being deleted by the work agent", present.Name)}}}
	}
	if isSame(present, wanted) {
		return present, nil
	}
	work := present.DeepCopy()
	work.Labels = merged(work.Labels, wanted.Labels)
	work.Annotations = merged(work.Annotations, wanted.Annotations)
	work.Spec = *wanted.Spec.DeepCopy()
	if err := a.client.Update(ctx, work); err != nil {
		return nil, fmt.Errorf("update ManifestWork %s/%s: %w", wanted.Namespace, wanted.Name, err)
	}
	return work, nil
}

// explainExisting says why a work that the cache does not know exists.
func (a *Applier) explainExisting(ctx context.Context, wanted *workv1.ManifestWork) error {
	work := &workv1.ManifestWork{}
	if err := a.reader.Get(ctx, client.ObjectKeyFromObject(wanted), work); err != nil {
		return fmt.Errorf("read ManifestWork %s/%s: %w", wanted.Namespace, wanted.Name, err)
	}
	rollout := v1alpha1.RolloutReference{
		Namespace: wanted.Labels[v1alpha1.LabelRolloutNamespace],
		Name:      wanted.Labels[v1alpha1.LabelRolloutName],
		UID:       types.UID(wanted.Labels[v1alpha1.LabelRolloutUID]),
	}
	if !IsOwn(work, rollout) {
		return &obstacleError{foreign(work, rollout)}
	}
	return fmt.Errorf("ManifestWork %s/%s: %w", wanted.Namespace, wanted.Name, errStale)
}

func (a *Applier) deleteWork(ctx context.Context, work *workv1.ManifestWork) error {
	if work.DeletionTimestamp != nil {
		return nil
	}
	err := a.client.Delete(ctx, work, client.Preconditions{UID: &work.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete ManifestWork %s/%s: %w", work.Namespace, work.Name, err)
	}
	return nil
}

// isSame tells whether a work is already as it is wanted. Its spec is compared
// as the hub has it, not as it was once written.
func isSame(present, wanted *workv1.ManifestWork) bool {
	for key, value := range wanted.Annotations {
		if present.Annotations[key] != value {
			return false
		}
	}
	for key, value := range wanted.Labels {
		if present.Labels[key] != value {
			return false
		}
	}
	return isIntact(present)
}

// allIntact tells whether nobody has edited the works of a rendering.
func allIntact(rendered *v1alpha1.Rendered, works []*workv1.ManifestWork) bool {
	return !slices.ContainsFunc(works, func(work *workv1.ManifestWork) bool {
		return slices.Contains(rendered.Works, work.Name) && !isIntact(work)
	})
}

func merged(present, ours map[string]string) map[string]string {
	result := maps.Clone(present)
	if result == nil {
		result = map[string]string{}
	}
	maps.Copy(result, ours)
	return result
}
