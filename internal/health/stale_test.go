package health

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func TestAStatusThatTellsNoGenerationMustSettle(t *testing.T) {
	for _, c := range []struct {
		name, object string
		want         bool
	}{
		{"a Deployment that tells its generation", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nstatus: {observedGeneration: 1}", false},
		{"a custom resource that tells nothing", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: x}\nstatus: {phase: Running}", true},
		{"one whose conditions all tell it", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: x}\nstatus: {conditions: [{type: Ready, observedGeneration: 1}, {type: Synced, observedGeneration: 1}]}", false},
		{"one of whose conditions one does not", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: x}\nstatus: {conditions: [{type: Ready}, {type: Synced, observedGeneration: 1}]}", true},
		{"one without any status", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: x}", true},
		{"a Service", "apiVersion: v1\nkind: Service\nmetadata: {name: x}", true},
		{"an APIService", "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: x}", true},
		{"a Subscription", "apiVersion: operators.coreos.com/v1alpha1\nkind: Subscription\nmetadata: {name: x}", true},
		{"a Job, of which each content has its own", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}", false},
		{"a CronJob, which is healthy because it exists", "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: x}", false},
		{"a ConfigMap", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}", false},
	} {
		if got := MustSettle(parse(t, c.object)); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

func TestACheckOfAStatusThatTellsItsGenerationNeedNotSettle(t *testing.T) {
	checks, problems := Compile([]v1alpha1.HealthCheck{{Target: v1alpha1.ObjectTarget{Kind: "Widget"}, Healthy: "true"}}, field.NewPath("checks"))
	if len(problems) > 0 {
		t.Fatal(problems.ToAggregate())
	}
	for status, want := range map[string]bool{
		"{observedGeneration: 1}":                              false,
		"{conditions: [{type: Ready, observedGeneration: 1}]}": true,
		"{}": true,
	} {
		object := parse(t, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nstatus: "+status)
		if got := checks.MustSettle(widget, object); got != want {
			t.Errorf("status %s: got %v", status, got)
		}
	}
}

// A failure is for good, so that one which is about the earlier content must not
// count against the present one.
func TestLaw5ACheckBelievesNothingOfAnEarlierGeneration(t *testing.T) {
	checks, problems := Compile([]v1alpha1.HealthCheck{{
		Target: v1alpha1.ObjectTarget{Kind: "Widget"}, Healthy: "object.status.phase == 'Up'", Failed: "object.status.phase == 'Broken'",
	}}, field.NewPath("checks"))
	if len(problems) > 0 {
		t.Fatal(problems.ToAggregate())
	}
	for _, phase := range []string{"Up", "Broken"} {
		object := parse(t, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, generation: 3}\nstatus: {observedGeneration: 2, phase: "+phase+"}")
		if got := checks.Of(widget, Subject{Object: object}); got != progressing(unseen) {
			t.Errorf("phase %s of generation 2: got %+v", phase, got)
		}
	}
}

func TestACheckThatCannotBeCompiledCallsNothingHealthy(t *testing.T) {
	object := parse(t, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nstatus: {conditions: [{type: Ready, status: 'True'}]}")
	for name, check := range map[string]v1alpha1.HealthCheck{
		"healthy": {Healthy: "ofTheFuture(object)"},
		"failed":  {Healthy: "true", Failed: "ofTheFuture(object)"},
	} {
		check.Target.Kind = "Widget"
		checks, problems := Compile([]v1alpha1.HealthCheck{check}, field.NewPath("checks"))
		if len(problems) != 1 {
			t.Fatalf("%s: got %v", name, problems)
		}
		if got := checks.Of(widget, Subject{Object: object}); got.Health != v1alpha1.HealthProgressing || !strings.Contains(got.Message, "is the agent older than the manager?") {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestAServiceMayBeWithoutEndpointsWhereItsWorkloadRests(t *testing.T) {
	service := parse(t, "apiVersion: v1\nkind: Service\nmetadata: {name: api, namespace: shop}\nspec: {selector: {app: api}}")
	const template = ", template: {metadata: {labels: {app: api, tier: web}}}}\n"
	for _, c := range []struct {
		name, workload string
		want           bool
	}{
		{"a Deployment at zero", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api, namespace: shop}\nspec: {replicas: 0" + template, true},
		{"a Deployment with replicas", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api, namespace: shop}\nspec: {replicas: 1" + template, false},
		{"one that does not say how many", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api, namespace: shop}\nspec: {paused: false" + template, false},
		{"one of another namespace", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api, namespace: other}\nspec: {replicas: 0" + template, false},
		{"one that is not selected", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api, namespace: shop}\nspec: {replicas: 0, template: {metadata: {labels: {app: db}}}}", false},
		{"a DaemonSet that no node wants", "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: api, namespace: shop, generation: 1}\nspec: {minReadySeconds: 0" + template + "status: {observedGeneration: 1, desiredNumberScheduled: 0}", true},
		{"a DaemonSet that was not looked at", "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: api, namespace: shop, generation: 1}\nspec: {minReadySeconds: 0" + template, false},
	} {
		if got := RestsFor(service, parse(t, c.workload)); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}
