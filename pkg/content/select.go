package content

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// Cluster is what overrides may know of a managed cluster.
type Cluster struct {
	// Name of the ManagedCluster.
	Name string
	// Labels of the ManagedCluster.
	Labels map[string]string
	// Claims of the cluster by name.
	Claims map[string]string
}

// Resolution is what overrides came to for one cluster. It is recorded before
// anything is written, and makes a later rendering give the same bytes.
type Resolution struct {
	// Overrides that match the cluster, by name, in order.
	Overrides []string
	// Variables that they use, by name, and their values.
	Variables []v1alpha1.ResolvedVariable
}

// Select returns the overrides that match a cluster, in order. It returns an
// error if a selector is malformed, which Freeze refuses.
func Select(overrides []v1alpha1.Override, cluster Cluster) ([]string, error) {
	var names []string
	for _, override := range overrides {
		selector, err := metav1.LabelSelectorAsSelector(&override.ClusterSelector)
		if err != nil {
			return nil, fmt.Errorf("override %q: read its clusterSelector: %w", override.Name, err)
		}
		if !selector.Matches(labels.Set(cluster.Labels)) {
			continue
		}
		claimed, err := matchesClaims(override.ClaimSelector, cluster.Claims)
		if err != nil {
			return nil, fmt.Errorf("override %q: read its claimSelector: %w", override.Name, err)
		}
		if claimed {
			names = append(names, override.Name)
		}
	}
	return names, nil
}

// matchesClaims tells whether claims fulfil a selector. The operators mean what
// they mean for labels; the values of claims are freer than those of labels, so
// that they are compared here.
func matchesClaims(selector *v1alpha1.ClaimSelector, claims map[string]string) (bool, error) {
	if selector == nil {
		return true, nil
	}
	for _, requirement := range selector.MatchExpressions {
		value, has := claims[requirement.Key]
		listed := has && slices.Contains(requirement.Values, value)
		var holds bool
		switch requirement.Operator {
		case metav1.LabelSelectorOpIn:
			holds = listed
		case metav1.LabelSelectorOpNotIn:
			holds = !listed
		case metav1.LabelSelectorOpExists:
			holds = has
		case metav1.LabelSelectorOpDoesNotExist:
			holds = !has
		default:
			return false, fmt.Errorf("%q is no operator; write In, NotIn, Exists or DoesNotExist", requirement.Operator)
		}
		if !holds {
			return false, nil
		}
	}
	return true, nil
}
