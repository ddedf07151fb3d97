package agent

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/health"
)

func TestContentWhoseStatusTellsNoGenerationMustSettle(t *testing.T) {
	widget := parse(t, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nstatus: {conditions: [{type: Ready, status: 'True'}]}")
	telling := parse(t, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nstatus: {observedGeneration: 0, conditions: [{type: Ready, status: 'True'}]}")
	service := parse(t, "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {type: ClusterIP, clusterIP: 10.0.0.1}")
	checks, problems := health.Compile([]v1alpha1.HealthCheck{{Target: v1alpha1.ObjectTarget{Kind: "Service"}, Healthy: "true"}}, field.NewPath("checks"))
	if len(problems) > 0 {
		t.Fatal(problems.ToAggregate())
	}
	cron := parse(t, "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c}")
	settle := 5 * time.Second
	for _, c := range []struct {
		name     string
		sight    Sight
		by       rules
		seenFor  time.Duration
		settling time.Duration
	}{
		{"just arrived", seen(widget), rules{settle: settle}, time.Second, 4 * time.Second},
		{"old enough", seen(widget), rules{settle: settle}, settle, 0},
		{"its status tells the generation", seen(telling), rules{settle: settle}, 0, 0},
		{"a kind of Kubernetes", seen(service), rules{settle: settle}, 0, settle},
		{"a kind that cannot be about earlier content", seen(cron), rules{settle: settle}, 0, 0},
		{"a kind of Kubernetes judged by a check", seen(service), rules{settle: settle, checks: checks}, 0, settle},
		{"nothing to settle", seen(widget), rules{}, 0, 0},
	} {
		c.sight.SeenFor = c.seenFor
		found, known := evaluate(deliveryOf(referenceTo(c.sight.Full)), func(v1alpha1.ObjectReference) Sight { return c.sight }, c.by)
		want := v1alpha1.HealthHealthy
		if c.settling > 0 {
			want = v1alpha1.HealthProgressing
		}
		if !known || found.report.Health != want || found.settling != c.settling {
			t.Errorf("%s: %s, looks again in %s, want %s in %s", c.name, found.report.Health, found.settling, want, c.settling)
		}
	}
}

func TestAJobThatCompletedIsHealthyThoughItIsGoneE3(t *testing.T) {
	job := v1alpha1.ObjectReference{Group: "batch", Version: "v1", Kind: "Job", Namespace: "payments", Name: "migrate-r2-1"}
	gone := Sight{Access: AccessReadable, CompletedAs: newHash}
	report := evaluateOne(t, job, gone)
	if report.Health != v1alpha1.HealthHealthy || len(report.CompletedJobs) != 1 {
		t.Errorf("got %s, completed %v", report.Health, report.CompletedJobs)
	}
	gone.CompletedAs = "sha256:another"
	if report := evaluateOne(t, job, gone); report.Health != v1alpha1.HealthProgressing {
		t.Errorf("a Job of other content completed, and it is %s", report.Health)
	}
}

func TestAJobThatWasReportedCompletedStaysSoOverARestartE3(t *testing.T) {
	by := rules{completed: sets.New("payments/migrate")}
	found, known := evaluate(deliveryOf(jobRef, configRef), func(v1alpha1.ObjectReference) Sight { return Sight{Access: AccessReadable} }, by)
	if !known || len(found.report.CompletedJobs) != 1 {
		t.Errorf("completed %v", found.report.CompletedJobs)
	}
	if len(found.report.Unhealthy) != 1 || found.report.Unhealthy[0].Name != configRef.Name {
		t.Errorf("unhealthy %v, want the ConfigMap that is not there alone", found.report.Unhealthy)
	}
}

// The fix of a resource that is broken must not be counted as failed because the
// resource's status is still about what was broken.
func TestLaw5AFailureMustSettleToo(t *testing.T) {
	checks, problems := health.Compile([]v1alpha1.HealthCheck{{
		Target: v1alpha1.ObjectTarget{Kind: "Widget"}, Healthy: "object.status.phase == 'Up'", Failed: "object.status.phase == 'Broken'",
	}}, field.NewPath("checks"))
	if len(problems) > 0 {
		t.Fatal(problems.ToAggregate())
	}
	widget := parse(t, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nstatus: {phase: Broken}")
	by := rules{checks: checks, settle: 5 * time.Second}
	for seenFor, want := range map[time.Duration]v1alpha1.Health{time.Second: v1alpha1.HealthProgressing, 5 * time.Second: v1alpha1.HealthFailed} {
		sight := seen(widget)
		sight.SeenFor = seenFor
		if found, _ := evaluate(deliveryOf(referenceTo(widget)), func(v1alpha1.ObjectReference) Sight { return sight }, by); found.report.Health != want {
			t.Errorf("after %s: %s, want %s", seenFor, found.report.Health, want)
		}
	}
}

func TestASuspendedCronJobIsNamedAndHoldsNothingUpE8(t *testing.T) {
	cron := parse(t, "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly, namespace: payments}\nspec: {suspend: true}")
	report := evaluateOne(t, referenceTo(cron), seen(cron))
	if report.Health != v1alpha1.HealthHealthy || len(report.Suspended) != 1 || report.Suspended[0].Name != "nightly" {
		t.Errorf("got %s, suspended %v", report.Health, report.Suspended)
	}
}

func TestLongStatusesAreCutAndTheHealthIsStillToldM5(t *testing.T) {
	long := strings.Repeat("long ", 1024)
	var references []v1alpha1.ObjectReference
	widget := parse(t, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nstatus: {observedGeneration: 0, conditions: [{type: Ready, status: 'False', message: '"+long+"'}]}")
	for range 30 {
		references = append(references, referenceTo(widget))
	}
	report, _ := evaluateAll(references, func(v1alpha1.ObjectReference) Sight { return seen(widget) })
	message, err := report.Encode()
	if err != nil || len(message) > v1alpha1.MaxReportBytes {
		t.Fatalf("%d bytes, error %v", len(message), err)
	}
	told, err := v1alpha1.DecodeAgentReport(message)
	if err != nil || told.Health != v1alpha1.HealthProgressing || !told.Truncated {
		t.Errorf("error %v, report %+v", err, told)
	}
}
