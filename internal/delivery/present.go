package delivery

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// present reads the works as the hub has them, whatever the cache says: what is
// dropped is found by comparing with them. Nothing is read for a cluster that
// never had any.
func (a *Applier) present(ctx context.Context, task *Task) ([]*workv1.ManifestWork, *Obstacle, error) {
	delivery := task.Delivery
	rollout := delivery.Spec.Rollout
	names := []string{v1alpha1.WorkName(rollout.Namespace, rollout.Name, 0)}
	if rendered := delivery.Status.Rendered; rendered != nil {
		names = append(names, rendered.Works...)
	} else if len(task.Works) == 0 && !isBlockedByForeignWork(delivery) {
		cached := &workv1.ManifestWork{}
		key := types.NamespacedName{Namespace: delivery.Namespace, Name: names[0]}
		if err := a.client.Get(ctx, key, cached); apierrors.IsNotFound(err) {
			return nil, nil, nil
		}
	}
	for _, work := range task.Works {
		names = append(names, work.Name)
	}
	slices.Sort(names)
	var present []*workv1.ManifestWork
	for _, name := range slices.Compact(names) {
		work := &workv1.ManifestWork{}
		err := a.reader.Get(ctx, types.NamespacedName{Namespace: delivery.Namespace, Name: name}, work)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read ManifestWork %s/%s: %w", delivery.Namespace, name, err)
		}
		if !IsOwn(work, rollout) {
			return present, foreign(work, rollout), nil
		}
		present = append(present, work)
	}
	return present, nil, nil
}

// isBlockedByForeignWork tells that a work that is not ours had our name when it
// was looked for last. The cache need not know such a work.
func isBlockedByForeignWork(delivery *v1alpha1.RolloutDelivery) bool {
	return delivery.Status.State == v1alpha1.StateBlocked && delivery.Status.Reason == v1alpha1.ReasonForeignObject
}

// isBeyond tells whether a work was written in a later phase than the recorded
// one.
func isBeyond(written string, recorded v1alpha1.WritePhase) bool {
	switch recorded {
	case v1alpha1.PhasePreflight:
		return true
	case v1alpha1.PhaseAdd:
		return written == string(v1alpha1.PhaseDrop)
	}
	return false
}

// checkFresh guards against a cache that shows an earlier intent than the works
// carry, as the one of a new leader may for a moment: it would write old content
// back. A record that is really behind its works, because somebody deleted and
// remade it, is confirmed by the hub.
func (a *Applier) checkFresh(ctx context.Context, task *Task, present []*workv1.ManifestWork) error {
	delivery := task.Delivery
	ahead := slices.ContainsFunc(present, func(work *workv1.ManifestWork) bool {
		number := deliveryOf(work)
		return number > delivery.Spec.Delivery ||
			number == delivery.Spec.Delivery && isRendered(delivery) &&
				isBeyond(work.Annotations[v1alpha1.AnnotationPhase], delivery.Status.Phase)
	})
	if !ahead {
		return nil
	}
	latest := &v1alpha1.RolloutDelivery{}
	if err := a.reader.Get(ctx, client.ObjectKeyFromObject(delivery), latest); err != nil {
		return fmt.Errorf("read RolloutDelivery %s/%s: %w", delivery.Namespace, delivery.Name, err)
	}
	if latest.ResourceVersion != delivery.ResourceVersion {
		return fmt.Errorf("RolloutDelivery %s/%s: %w", delivery.Namespace, delivery.Name, errStale)
	}
	return nil
}
