package health

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

var widget = v1alpha1.ObjectReference{Group: "example.com", Version: "v1", Kind: "Widget", Name: "w"}

func TestChecksJudgeWhatTheyTarget(t *testing.T) {
	checks, problems := Compile([]v1alpha1.HealthCheck{
		{Target: v1alpha1.ObjectTarget{Kind: "Widget", Name: "other"}, Healthy: "true"},
		{
			Target:  v1alpha1.ObjectTarget{Group: "example.com", Kind: "Widget"},
			Healthy: "object.status.phase == 'Up' && quantity(object.status.used).isLessThan(quantity('1Gi'))",
			Failed:  "object.status.phase == 'Broken'",
			Message: "'phase ' + object.status.phase",
		},
	}, field.NewPath("spec"))
	if len(problems) > 0 {
		t.Fatal(problems.ToAggregate())
	}
	for _, c := range []struct {
		name, status string
		want         v1alpha1.Health
		message      string
	}{
		{"nothing is there yet", "", v1alpha1.HealthProgressing, "its check is not true: no such key: status"},
		{"not healthy", "status: {phase: Starting, used: 1Mi}", v1alpha1.HealthProgressing, "phase Starting"},
		{"a part is missing", "status: {phase: Up}", v1alpha1.HealthProgressing, "phase Up"},
		{"over a bound", "status: {phase: Up, used: 2Gi}", v1alpha1.HealthProgressing, "phase Up"},
		{"healthy", "status: {phase: Up, used: 1Mi}", v1alpha1.HealthHealthy, ""},
		{"failed comes before healthy", "status: {phase: Broken, used: 1Mi}", v1alpha1.HealthFailed, "phase Broken"},
	} {
		object := parse(t, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n"+c.status)
		if got := checks.Of(widget, Subject{Object: object}); got.Health != c.want || got.Message != c.message {
			t.Errorf("%s: got %s %q, want %s %q", c.name, got.Health, got.Message, c.want, c.message)
		}
	}
	byName, _ := Compile([]v1alpha1.HealthCheck{{Target: v1alpha1.ObjectTarget{Name: "w"}, Healthy: "true"}}, field.NewPath("spec"))
	if byName.Targets(v1alpha1.ObjectReference{Version: "v1", Kind: "Secret", Name: "w"}) || !byName.Targets(v1alpha1.ObjectReference{Version: "v1", Kind: "ConfigMap", Name: "w"}) {
		t.Error("a check judges a Secret, or no ConfigMap")
	}
	if !checks.Targets(widget) || checks.Targets(v1alpha1.ObjectReference{Kind: "Gadget", Name: "w"}) {
		t.Error("the checks target something else")
	}
}

func TestWithoutACheckTheKindIsJudged(t *testing.T) {
	checks, _ := Compile(nil, field.NewPath("spec"))
	if got := checks.Of(widget, Subject{Object: parse(t, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nstatus: {conditions: [{type: Ready, status: 'False'}]}")}); got.Health != v1alpha1.HealthProgressing {
		t.Errorf("got %s", got.Health)
	}
}

func TestExpressionsAreRefusedByField(t *testing.T) {
	for name, c := range map[string]struct {
		check v1alpha1.HealthCheck
		field string
		says  string
	}{
		"no CEL":           {v1alpha1.HealthCheck{Healthy: "object.status ="}, "checks[0].healthy", "not a CEL expression"},
		"unknown variable": {v1alpha1.HealthCheck{Healthy: "oldObject.spec == object.spec"}, "checks[0].healthy", "oldObject"},
		"not a bool":       {v1alpha1.HealthCheck{Healthy: "'yes'"}, "checks[0].healthy", "it gives a string; write an expression that gives a bool"},
		"not a string":     {v1alpha1.HealthCheck{Healthy: "true", Message: "1 + 1"}, "checks[0].message", "gives a int"},
		"failed":           {v1alpha1.HealthCheck{Healthy: "true", Failed: "has(object"}, "checks[0].failed", "not a CEL expression"},
	} {
		_, problems := Compile([]v1alpha1.HealthCheck{c.check}, field.NewPath("checks"))
		if len(problems) != 1 || problems[0].Field != c.field || !strings.Contains(problems[0].Error(), c.says) {
			t.Errorf("%s: got %v", name, problems)
		}
	}
}

func TestAnExpensiveExpressionIsNotTrue(t *testing.T) {
	checks, problems := Compile([]v1alpha1.HealthCheck{{
		Target:  v1alpha1.ObjectTarget{Kind: "Widget"},
		Healthy: "object.l.all(a, object.l.all(b, object.l.all(c, object.l.all(d, a + b + c + d >= 0))))",
	}}, field.NewPath("checks"))
	if len(problems) > 0 {
		t.Fatal(problems.ToAggregate())
	}
	object := parse(t, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nl: ["+strings.Repeat("1, ", 200)+"1]")
	if got := checks.Of(widget, Subject{Object: object}); got.Health != v1alpha1.HealthProgressing || !strings.Contains(got.Message, "cost limit") {
		t.Errorf("got %s %q", got.Health, got.Message)
	}
}
