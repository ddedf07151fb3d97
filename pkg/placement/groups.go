// Package placement turns the decisions of OCM Placements into the members of
// a rollout and their groups.
package placement

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// AssignGroup returns the name of the first group whose selector matches the
// labels of a ManagedCluster, or v1alpha1.UnmatchedGroup if none does. A
// selector that cannot be parsed matches no cluster: an error must not widen a
// group.
func AssignGroup(groups []v1alpha1.Group, clusterLabels map[string]string) string {
	for i := range groups {
		selector, err := metav1.LabelSelectorAsSelector(&groups[i].ClusterSelector)
		if err != nil {
			continue
		}
		if selector.Matches(labels.Set(clusterLabels)) {
			return groups[i].Name
		}
	}
	return v1alpha1.UnmatchedGroup
}
