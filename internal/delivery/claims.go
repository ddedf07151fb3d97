package delivery

import (
	"fmt"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// claim identifies an object on a cluster; its API version does not count,
// because every version shows the same object.
type claim struct {
	group, kind, namespace, name string
}

func claimOf(object v1alpha1.ObjectReference) claim {
	return claim{object.Group, object.Kind, object.Namespace, object.Name}
}

// heldByOther looks for an object that another rollout holds on the same
// cluster (law 20). Whoever is recorded as delivering it, or as still carrying
// it, is the holder. Should two be recorded, as two managers that overlap may
// do, the older delivery is. It returns nil if every object is free or ours.
func heldByOther(own *v1alpha1.RolloutDelivery, objects []v1alpha1.RenderedObject, others []v1alpha1.RolloutDelivery) *Obstacle {
	wanted := map[claim]bool{}
	for _, object := range objects {
		wanted[claimOf(object.ObjectReference)] = true
	}
	ours := held(own)
	for i := range others {
		other := &others[i]
		if other.UID == own.UID || other.Name == own.Name {
			continue
		}
		for _, object := range heldInOrder(other) {
			key := claimOf(object)
			if !wanted[key] || (ours[key] && isOlder(own, other)) {
				continue
			}
			holder := other.Spec.Rollout
			return &Obstacle{State: v1alpha1.StateBlocked, Cause: v1alpha1.Cause{
				Reason: v1alpha1.ReasonHeldByOther,
				Message: fmt.Sprintf("%s on cluster %s is held by FleetRollout %s/%s: take it out of one of the two, or rename it",
					describe(object), own.Namespace, holder.Namespace, holder.Name),
			}}
		}
	}
	return nil
}

// heldInOrder are the objects that a delivery holds on its cluster.
func heldInOrder(delivery *v1alpha1.RolloutDelivery) []v1alpha1.ObjectReference {
	status := delivery.Status
	if status.Rendered == nil || status.State == v1alpha1.StateRemoved {
		return nil
	}
	objects := make([]v1alpha1.ObjectReference, 0, len(status.Rendered.Objects)+len(status.Dropping))
	for _, object := range status.Rendered.Objects {
		objects = append(objects, object.ObjectReference)
	}
	return append(objects, status.Dropping...)
}

func held(delivery *v1alpha1.RolloutDelivery) map[claim]bool {
	claims := map[claim]bool{}
	for _, object := range heldInOrder(delivery) {
		claims[claimOf(object)] = true
	}
	return claims
}

// isOlder tells whether a delivery is older than another; names decide between
// two of the same second.
func isOlder(a, b *v1alpha1.RolloutDelivery) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}
