package lab

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// HubName is the name of the hub's control plane; no managed cluster may have it.
const HubName = "hub"

const (
	defaultNodes                = 2
	defaultLeaseDurationSeconds = 10
)

// ClusterSpec describes a managed cluster.
type ClusterSpec struct {
	// Name of the ManagedCluster.
	Name string `json:"name"`
	// Labels of the ManagedCluster.
	Labels map[string]string `json:"labels,omitempty"`
	// RestrictedWorkAgent runs the work agent with the rights a real klusterlet
	// gives it instead of those of an administrator. See klusterletRBAC for what
	// it then cannot do.
	RestrictedWorkAgent bool `json:"restrictedWorkAgent,omitempty"`
	// LeaseDurationSeconds is spec.leaseDurationSeconds of the ManagedCluster.
	// Without a renewal OCM calls the cluster unavailable after five times this
	// long. Zero means 10 seconds; OCM's own default is 60.
	LeaseDurationSeconds int32 `json:"leaseDurationSeconds,omitempty"`
	// Nodes is the number of fake nodes. Zero means 2.
	Nodes int `json:"nodes,omitempty"`
}

func (s ClusterSpec) leaseDurationSeconds() int32 {
	return cmp.Or(s.LeaseDurationSeconds, defaultLeaseDurationSeconds)
}

func (s ClusterSpec) nodes() int { return cmp.Or(s.Nodes, defaultNodes) }

// DefaultClusters returns n clusters c1, c2, …: the first is for staging and has
// a restricted work agent, the second is gray, all others are in production.
func DefaultClusters(n int) []ClusterSpec {
	specs := make([]ClusterSpec, n)
	for i := range specs {
		specs[i] = ClusterSpec{Name: fmt.Sprintf("c%d", i+1), Labels: map[string]string{"tier": "production"}}
		switch i {
		case 0:
			specs[i].Labels = map[string]string{"env": "staging"}
			specs[i].RestrictedWorkAgent = true
		case 1:
			specs[i].Labels = map[string]string{"tier": "gray"}
		}
	}
	return specs
}

// ParseClusterSpec reads name[:label=value[,label=value…]].
func ParseClusterSpec(text string) (ClusterSpec, error) {
	name, labels, _ := strings.Cut(text, ":")
	spec := ClusterSpec{Name: name, Labels: map[string]string{}}
	for pair := range strings.SplitSeq(labels, ",") {
		if pair == "" {
			continue
		}
		key, value, found := strings.Cut(pair, "=")
		if !found || key == "" {
			return ClusterSpec{}, fmt.Errorf("cluster %q: label %q is not of the form label=value", text, pair)
		}
		spec.Labels[key] = value
	}
	return spec, validateClusters([]ClusterSpec{spec})
}

// validateClusters refuses names that cannot be names of clusters or folders.
func validateClusters(specs []ClusterSpec) error {
	var names []string
	for _, spec := range specs {
		if problems := validation.IsDNS1123Label(spec.Name); len(problems) > 0 {
			return fmt.Errorf("cluster name %q: %s", spec.Name, strings.Join(problems, "; "))
		}
		if spec.Name == HubName || spec.Name == (ProcessSpec{}).logFolder() {
			return fmt.Errorf("cluster name %q is taken by the lab itself", spec.Name)
		}
		if slices.Contains(names, spec.Name) {
			return fmt.Errorf("two clusters are called %q", spec.Name)
		}
		names = append(names, spec.Name)
		for key, value := range spec.Labels {
			problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)
			if len(problems) > 0 {
				return fmt.Errorf("cluster %s: label %s=%s: %s", spec.Name, key, value, strings.Join(problems, "; "))
			}
		}
	}
	return nil
}
