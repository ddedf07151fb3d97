package delivery

import (
	"fmt"

	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// IsOwn tells whether an object in a cluster namespace belongs to a rollout. The
// UID counts: a rollout that was deleted and made anew under its name does not
// inherit what the old one left.
func IsOwn(object client.Object, rollout v1alpha1.RolloutReference) bool {
	labels := object.GetLabels()
	return labels[v1alpha1.LabelRolloutNamespace] == rollout.Namespace &&
		labels[v1alpha1.LabelRolloutName] == rollout.Name &&
		labels[v1alpha1.LabelRolloutUID] == string(rollout.UID)
}

// ownLabels select the works of a rollout.
func ownLabels(rollout v1alpha1.RolloutReference) client.MatchingLabels {
	return client.MatchingLabels{
		v1alpha1.LabelRolloutNamespace: rollout.Namespace,
		v1alpha1.LabelRolloutName:      rollout.Name,
		v1alpha1.LabelRolloutUID:       string(rollout.UID),
	}
}

// foreign is the obstacle of a work that has our name and is not ours.
func foreign(work *workv1.ManifestWork, rollout v1alpha1.RolloutReference) *Obstacle {
	return &Obstacle{State: v1alpha1.StateBlocked, Cause: v1alpha1.Cause{
		Reason: v1alpha1.ReasonForeignObject,
		Message: fmt.Sprintf("ManifestWork %s/%s does not carry the labels and UID of FleetRollout %s/%s, so it is left alone: delete or rename it",
			work.Namespace, work.Name, rollout.Namespace, rollout.Name),
	}}
}
