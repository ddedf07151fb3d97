package health

import (
	"os"
	"regexp"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func TestTheDocumentedChecksCompile(t *testing.T) {
	page, err := os.ReadFile("../../docs/health.md")
	if err != nil {
		t.Fatal(err)
	}
	var checks []v1alpha1.HealthCheck
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1) {
		var spec v1alpha1.FleetRolloutSpec
		var list []v1alpha1.HealthCheck
		if yaml.Unmarshal(block[1], &list) == nil {
			checks = append(checks, list...)
		} else if yaml.Unmarshal(block[1], &spec) == nil {
			checks = append(checks, spec.Health.Checks...)
		}
	}
	if len(checks) < 4 {
		t.Fatalf("%d checks are documented", len(checks))
	}
	if _, problems := Compile(checks, field.NewPath("checks")); len(problems) > 0 {
		t.Error(problems.ToAggregate())
	}
}
