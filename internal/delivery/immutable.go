package delivery

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/revision"
	"open-cluster-management.io/fleet-rollout/pkg/workbuilder"
)

// immutableHere finds a field that this cluster's overrides would change and that
// the API does not let change (law 23). The templates were compared when the
// revision was frozen; what overrides make of them is known only here. Going back
// is tried whatever it meets. Values are not shown, since some may come from a Secret.
func immutableHere(delivery *v1alpha1.RolloutDelivery, rendering workbuilder.Rendering, present []*unstructured.Unstructured) *Obstacle {
	before := delivery.Status.Rendered
	if delivery.Spec.Direction == v1alpha1.DirectionRollback || before == nil || isRendered(delivery) ||
		len(before.Overrides)+len(rendering.Rendered.Overrides) == 0 {
		return nil
	}
	findings := revision.ImmutableObjects(present, rendering.Objects)
	if len(findings) == 0 {
		return nil
	}
	first := findings[0]
	return &Obstacle{State: v1alpha1.StateBlocked, Cause: v1alpha1.Cause{
		Reason: v1alpha1.ReasonOverrideFailed,
		Message: fmt.Sprintf("%s, %s would change on cluster %s with the overrides that match it (%s; before: %s), and the API does not let it change: give those clusters the earlier value, or the object another name",
			describe(first.Object), first.Field, delivery.Namespace, orNone(rendering.Rendered.Overrides), orNone(before.Overrides)),
	}}
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
