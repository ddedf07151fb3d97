package delivery

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/pkg/workbuilder"
)

// Remove takes the works of a delivery away as its spec.removal says, one step
// at a time, and returns the status to be recorded. It is Removed once the hub
// has no work of the rollout on the cluster left. Orphan first rewrites the
// works so that their removal leaves the objects, and waits until the work agent
// has taken that in: a work that is deleted before would take its objects along.
func (a *Applier) Remove(ctx context.Context, task *Task) (Outcome, error) {
	works, err := a.remaining(ctx, task)
	if err != nil {
		return Outcome{}, err
	}
	outcome := Outcome{Status: taken(task.Delivery), Works: works}
	if len(works) == 0 {
		a.settle(&outcome.Status, v1alpha1.StateRemoved, "no ManifestWork of the rollout is left on the cluster")
		return outcome, nil
	}
	waiting := fmt.Sprintf("%d ManifestWorks are being removed", len(works))
	if task.Cluster.Exists && task.Cluster.Deleting {
		// Detaching removes the works by itself, and nothing of ours is in its way.
		waiting = fmt.Sprintf("ManagedCluster %s is being deleted, and its works with it", task.Cluster.Name)
		a.settle(&outcome.Status, v1alpha1.StateRemoving, waiting)
		return outcome, nil
	}
	for _, work := range works {
		ready, reason, err := a.readyToDelete(ctx, task, work)
		switch {
		case err != nil && isRefusal(err):
			waiting = fmt.Sprintf("the hub refuses to rewrite ManifestWork %s before its removal: %v", work.Name, err)
			outcome.Refused = err
			continue
		case err != nil:
			return Outcome{}, err
		case !ready:
			waiting = reason
			continue
		}
		if err := a.deleteWork(ctx, work); err != nil {
			return Outcome{}, err
		}
	}
	if task.Cluster.Exists && !task.Cluster.Available {
		waiting = fmt.Sprintf("cluster %s is not Available: its works are removed when it returns, or when its ManagedCluster is deleted", task.Cluster.Name)
	}
	a.settle(&outcome.Status, v1alpha1.StateRemoving, waiting)
	return outcome, nil
}

// remaining are the works of the rollout that are left. That there is none is
// true only if the hub itself says so.
func (a *Applier) remaining(ctx context.Context, task *Task) ([]*workv1.ManifestWork, error) {
	if len(task.Works) > 0 || task.Delivery.Status.State == v1alpha1.StateRemoved {
		return task.Works, nil
	}
	delivery := task.Delivery
	list := &workv1.ManifestWorkList{}
	if err := a.reader.List(ctx, list, client.InNamespace(delivery.Namespace), ownLabels(delivery.Spec.Rollout)); err != nil {
		return nil, fmt.Errorf("list the ManifestWorks of cluster %q: %w", delivery.Namespace, err)
	}
	works := make([]*workv1.ManifestWork, len(list.Items))
	for i := range list.Items {
		works[i] = &list.Items[i]
	}
	return works, nil
}

// readyToDelete tells whether the deletion of a work does to its objects what
// the removal says, and otherwise what it waits for.
func (a *Applier) readyToDelete(ctx context.Context, task *Task, work *workv1.ManifestWork) (bool, string, error) {
	if task.Delivery.Spec.Removal != v1alpha1.DeletePolicyOrphan || !task.Cluster.Exists || work.DeletionTimestamp != nil {
		return true, "", nil
	}
	option := work.Spec.DeleteOption
	if option == nil || option.PropagationPolicy != workv1.DeletePropagationPolicyTypeOrphan {
		full := &workv1.ManifestWork{}
		err := a.reader.Get(ctx, client.ObjectKeyFromObject(work), full)
		if apierrors.IsNotFound(err) {
			return true, "", nil
		}
		if err != nil {
			return false, "", fmt.Errorf("read ManifestWork %s/%s: %w", work.Namespace, work.Name, err)
		}
		orphaned, err := workbuilder.Orphaned(full)
		if err != nil {
			return false, "", fmt.Errorf("orphan the objects of ManifestWork %s/%s: %w", work.Namespace, work.Name, err)
		}
		if err := a.client.Update(ctx, orphaned); err != nil {
			return false, "", fmt.Errorf("update ManifestWork %s/%s: %w", work.Namespace, work.Name, err)
		}
		return false, fmt.Sprintf("the work agent is to release the objects of ManifestWork %s", work.Name), nil
	}
	applied := meta.FindStatusCondition(work.Status.Conditions, workv1.WorkApplied)
	switch {
	case applied == nil || applied.ObservedGeneration != work.Generation:
		return false, fmt.Sprintf("the work agent is to release the objects of ManifestWork %s", work.Name), nil
	case applied.Status != metav1.ConditionTrue:
		return false, fmt.Sprintf("ManifestWork %s keeps its objects because not all of them can be applied: %s", work.Name, applied.Message), nil
	}
	return true, "", nil
}

// settle enters a state of removal. Proof of health and the intervals of deadlines end with it.
func (a *Applier) settle(status *v1alpha1.RolloutDeliveryStatus, state v1alpha1.DeliveryState, message string) {
	if status.State != state {
		since := metav1.NewTime(a.clock.Now().Truncate(time.Second))
		status.StateSince = &since
	}
	status.State, status.Reason, status.Message = state, v1alpha1.ReasonRemoving, cut(message, v1alpha1.MaxMessageLength)
	status.HealthySince, status.UnhealthySince, status.LostSince = nil, nil, nil
	status.UnhealthyObjects, status.WorstObject = nil, ""
}
