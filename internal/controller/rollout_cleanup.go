package controller

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/observe"
	"open-cluster-management.io/fleet-rollout/internal/revision"
	"open-cluster-management.io/fleet-rollout/internal/rollout"
)

// forgetDeliveries deletes the records of clusters on which nothing of the
// rollout is left. The very version that was judged is deleted, or none.
func (r *RolloutReconciler) forgetDeliveries(ctx context.Context, observation observe.Observation, clusters []string) error {
	var errs []error
	for _, cluster := range clusters {
		delivery := observation.Deliveries[cluster]
		if delivery == nil {
			continue
		}
		err := r.Client.Delete(ctx, delivery.DeepCopy(), client.Preconditions{UID: &delivery.UID, ResourceVersion: &delivery.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("delete delivery of cluster %q: %w", cluster, err))
			continue
		}
		r.observer.Deliveries.Forget(client.ObjectKeyFromObject(delivery))
		log.FromContext(ctx).Info("Deleted delivery", "cluster", cluster)
	}
	return joinUnlessConflict(errs)
}

// trimHistory deletes revisions beyond the history's limit. Whatever a cluster
// has or shall have, and every target of an open rollback, stays.
func (r *RolloutReconciler) trimHistory(ctx context.Context, fro *v1alpha1.FleetRollout, observation observe.Observation, plan rollout.Plan) error {
	retained := make([]v1alpha1.RolloutRevision, 0, len(observation.Revisions))
	for _, record := range observation.Revisions {
		retained = append(retained, *record)
	}
	for _, name := range revision.Trim(retained, revisionsInUse(observation, plan), fro.Spec.History.LimitOrDefault()) {
		record := observation.Revisions[name]
		// The payload first: a record without payload is found and trimmed again,
		// a payload without record would not be.
		if err := r.deletePayload(ctx, fro, client.ObjectKeyFromObject(record)); err != nil {
			return fmt.Errorf("delete payload secret %s/%s: %w", record.Namespace, record.Name, err)
		}
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, record.DeepCopy(), client.Preconditions{UID: &record.UID})); err != nil {
			return fmt.Errorf("delete revision %s/%s: %w", record.Namespace, record.Name, err)
		}
		r.observer.ForgetRevision(client.ObjectKeyFromObject(record))
		log.FromContext(ctx).Info("Trimmed revision", "revision", name, "number", record.Spec.Number)
	}
	return nil
}

// deletePayload deletes the Secret of a revision if it is the rollout's. One that
// somebody else put in its place is theirs: the manager may delete any Secret of
// the hub, and must not lend that to whoever can name a revision.
func (r *RolloutReconciler) deletePayload(ctx context.Context, fro *v1alpha1.FleetRollout, key types.NamespacedName) error {
	var payload corev1.Secret
	if err := r.Client.Get(ctx, key, &payload); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !metav1.IsControlledBy(&payload, fro) {
		return nil
	}
	return client.IgnoreNotFound(r.Client.Delete(ctx, &payload, client.Preconditions{UID: &payload.UID}))
}

// revisionsInUse are the names of the revisions that history must keep.
func revisionsInUse(observation observe.Observation, plan rollout.Plan) sets.Set[string] {
	keep := sets.New[string]()
	if plan.Stable != nil {
		keep.Insert(plan.Stable.Name)
	}
	if plan.Run != nil {
		keep.Insert(plan.Run.Revision.Name)
	}
	if current := observation.Snapshot.Current; current != nil {
		keep.Insert(current.Name)
	}
	for _, record := range plan.Rollbacks {
		if record.FinishedAt != nil {
			continue
		}
		keep.Insert(record.To.Name)
		for _, from := range record.From {
			keep.Insert(from.Name)
		}
	}
	applied := sets.New[string]()
	for _, delivery := range observation.Deliveries {
		keep.Insert(delivery.Spec.Revision.Name)
		if rendered := delivery.Status.Rendered; rendered != nil {
			keep.Insert(rendered.Revision)
		}
		for _, proof := range []*v1alpha1.Proof{delivery.Status.Applied, delivery.Status.Proven} {
			if proof != nil {
				applied.Insert(proof.Digest)
			}
		}
	}
	for name, record := range observation.Revisions {
		if applied.Has(record.Spec.Digest) {
			keep.Insert(name)
		}
	}
	return keep
}

// finish lets a rollout go once no delivery of it is left. The API server is
// asked, because a delivery that the cache does not show yet would stay behind
// for ever.
func (r *RolloutReconciler) finish(ctx context.Context, fro *v1alpha1.FleetRollout, wake *alarm) (ctrl.Result, error) {
	var left v1alpha1.RolloutDeliveryList
	known, err := r.hasCachedDeliveries(ctx, fro)
	if err != nil || known {
		return wake.result(), err
	}
	if err := r.Reader.List(ctx, &left, client.MatchingLabels{v1alpha1.LabelRolloutUID: string(fro.UID)}); err != nil {
		return ctrl.Result{}, fmt.Errorf("list deliveries of rollout %s/%s: %w", fro.Namespace, fro.Name, err)
	}
	if len(left.Items) > 0 {
		wake.in(refusalDelay)
		return wake.result(), nil
	}

	newest, err := r.read(ctx, types.NamespacedName{Namespace: fro.Namespace, Name: fro.Name})
	if newest == nil || err != nil {
		return ctrl.Result{}, err
	}
	released := newest.DeepCopy()
	controllerutil.RemoveFinalizer(released, v1alpha1.Finalizer)
	err = r.Client.Patch(ctx, released, client.MergeFromWithOptions(newest, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return quietly(fmt.Errorf("remove finalizer of rollout %s/%s: %w", fro.Namespace, fro.Name, err))
	}
	r.rollouts.Forget(client.ObjectKeyFromObject(fro))
	r.observer.Forget(fro.UID)
	forgetMetrics(fro.Namespace, fro.Name)
	r.notes.tearOut(fro.UID)
	log.FromContext(ctx).Info("Removed everything; the rollout may go")
	return ctrl.Result{}, nil
}

func (r *RolloutReconciler) hasCachedDeliveries(ctx context.Context, fro *v1alpha1.FleetRollout) (bool, error) {
	var known v1alpha1.RolloutDeliveryList
	name := v1alpha1.DeliveryName(fro.Namespace, fro.Name)
	if err := r.Client.List(ctx, &known, client.MatchingFields{observe.DeliveryNameField: name}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list deliveries of rollout %s/%s: %w", fro.Namespace, fro.Name, err)
	}
	for i := range known.Items {
		if observe.IsOwnDelivery(fro, &known.Items[i]) {
			return true, nil
		}
	}
	return false, nil
}

// joinUnlessConflict joins errors. If all of them are conflicts the first stands
// for all, so that it is still recognised.
func joinUnlessConflict(errs []error) error {
	for _, err := range errs {
		if !apierrors.IsConflict(err) {
			return errors.Join(errs...)
		}
	}
	if len(errs) > 0 {
		return errs[0]
	}
	return nil
}
