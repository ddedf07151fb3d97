package placement_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/pkg/placement"
)

func TestAClusterIsInTheFirstGroupItMatches(t *testing.T) {
	groups := []v1alpha1.Group{
		{Name: "canary", ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"env": "staging"}}},
		{Name: "broken", ClusterSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: "Near"}}}},
		{Name: "eu", ClusterSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "region", Operator: metav1.LabelSelectorOpIn, Values: []string{"eu-1", "eu-2"}},
		}}},
	}
	cases := []struct {
		name   string
		labels map[string]string
		groups []v1alpha1.Group
		want   string
	}{
		{"one group matches", map[string]string{"region": "eu-2"}, groups, "eu"},
		{"two groups match, the first counts", map[string]string{"env": "staging", "region": "eu-1"}, groups, "canary"},
		{"no group matches", map[string]string{"region": "us"}, groups, v1alpha1.UnmatchedGroup},
		{"a cluster without labels", nil, groups, v1alpha1.UnmatchedGroup},
		{"an empty selector matches every cluster", nil, append([]v1alpha1.Group{{Name: "all"}}, groups...), "all"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if got := placement.AssignGroup(tc.groups, tc.labels); got != tc.want {
				t.Errorf("group %q, want %q", got, tc.want)
			}
		})
	}
}
