package delivery

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// unapplied is a cluster whose work agent has not applied what was written at
// noon, and may take two minutes.
func unapplied() Observation {
	o := written()
	o.Status.Rendered.Health.Signals.MaxSyncLatencySeconds = ptr.To[int32](120)
	o.Works[0] = appliedWork(2, 1)
	return o
}

func TestALateSyncIsDegradedUntilItIsApplied(t *testing.T) {
	o := unapplied()
	verdict := Judge(o)
	if verdict.Status.State != v1alpha1.StateApplying || verdict.RecheckAfter != time.Minute {
		t.Errorf("within the bound: %s, looks again after %s", verdict.Status.State, verdict.RecheckAfter)
	}
	for name, late := range map[string]func(*Observation){
		"the moment it is late": func(o *Observation) { o.Now = minute(2).Add(time.Nanosecond) },
		"long after":            func(o *Observation) { o.Now = minute(30) },
		"not yet dropped": func(o *Observation) {
			o.Now, o.Status.Phase = minute(30), v1alpha1.PhaseAdd
			o.Works[0] = appliedWork(2, 2)
			o.Works[0].Annotations[v1alpha1.AnnotationPhase] = "Add"
		},
	} {
		o := unapplied()
		late(&o)
		status := Judge(o).Status
		if status.State != v1alpha1.StateDegraded || status.Reason != v1alpha1.ReasonSyncLate || !strings.Contains(status.Message, "120 s") {
			t.Errorf("%s: %s/%s %q", name, status.State, status.Reason, status.Message)
		}
	}
	o.Now = minute(30)
	o.Status = Judge(o).Status
	o.Now = minute(31)
	if again := Judge(o); again.Changed(o.Status) {
		t.Error("lateness is recorded again as time goes by")
	}
	o.Works[0] = appliedWork(2, 2)
	o.Agent.Condition = condition(report(v1alpha1.HealthHealthy))
	if status := Judge(o).Status; status.State != v1alpha1.StateHealthy {
		t.Errorf("once applied: %s/%s", status.State, status.Reason)
	}
}

func TestLatencyCountsFromWhenTheWorksCouldBeApplied(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Observation)
		want   time.Duration
	}{
		"from the write": {func(*Observation) {}, 5 * time.Minute},
		"from the answer to the preflight": {func(o *Observation) {
			o.Status.Preflight = &v1alpha1.Preflight{Delivery: 3, AnsweredAt: stamp(minute(4))}
		}, time.Minute},
		"from the write, where the preflight was of an earlier delivery": {func(o *Observation) {
			o.Status.Preflight = &v1alpha1.Preflight{Delivery: 2, AnsweredAt: stamp(minute(4))}
		}, 5 * time.Minute},
		"from the return of a cluster that was unreachable": {func(o *Observation) {
			o.Spec.UnreachableAtWrite, o.Status.ReturnedAt = true, stamp(minute(3))
		}, 2 * time.Minute},
	} {
		o := written()
		o.Now = minute(5)
		test.change(&o)
		o.Agent.Condition = condition(report(v1alpha1.HealthHealthy))
		status := Judge(o).Status
		if got := SyncLatency(o.Spec, status); got != test.want {
			t.Errorf("%s: applied after %s, want %s", name, got, test.want)
		}
		if got := ProofLatency(o.Spec, status); got != test.want {
			t.Errorf("%s: proven after %s, want %s", name, got, test.want)
		}
	}
	if got := SyncLatency(unapplied().Spec, unapplied().Status); got >= 0 {
		t.Errorf("not applied, and after %s", got)
	}
}

func TestALostClusterIsNotLateAsWell(t *testing.T) {
	o := unapplied()
	o.Now = minute(30)
	o.Cluster.Available = false
	if status := Judge(o).Status; status.State != v1alpha1.StateUnreachable {
		t.Errorf("state %s", status.State)
	}
	o.Status.Clock.LostSinceWriteMilliseconds = (29 * time.Minute).Milliseconds()
	o.Cluster.Available = true
	if status := Judge(o).Status; status.State != v1alpha1.StateApplying {
		t.Errorf("back after 29 of 30 minutes: state %s", status.State)
	}
}

func TestDriftSuspensionAndEndpointsReachTheStatus(t *testing.T) {
	o := proven()
	r := report(v1alpha1.HealthHealthy)
	for range 12 {
		r.Drift = append(r.Drift, v1alpha1.ObjectDrift{ObjectReference: ref("apps/v1", "Deployment", "api"), Manager: "kubectl-edit",
			Paths: []string{".spec.replicas", "2", "3", "4", "5", "6"}})
		r.Suspended = append(r.Suspended, ref("batch/v1", "CronJob", "nightly"))
	}
	r.Endpoints = []v1alpha1.EndpointHealth{{Endpoint: "shop/api:80", Health: v1alpha1.HealthHealthy, LatencyMilliseconds: ptr.To[int32](7)}}
	o.Agent.Condition = condition(r)
	status := Judge(o).Status
	if status.State != v1alpha1.StateHealthy || status.HealthySince == nil || status.HealthySince.Time != minute(1) {
		t.Errorf("drift breaks the proof: %s since %v", status.State, status.HealthySince)
	}
	if len(status.Drift) != 10 || len(status.Drift[0].Paths) != 5 || len(status.SuspendedObjects) != 10 {
		t.Errorf("%d drifted with %d paths, %d suspended", len(status.Drift), len(status.Drift[0].Paths), len(status.SuspendedObjects))
	}
	if diff := cmp.Diff(r.Endpoints, status.Endpoints); diff != "" {
		t.Errorf("endpoints (-want +got):\n%s", diff)
	}
	for _, words := range []string{"kubectl-edit has taken .spec.replicas", "Deployment shop/api, and 11 more", "CronJob shop/nightly"} {
		if !strings.Contains(status.Message, words) {
			t.Errorf("%q does not say %q", status.Message, words)
		}
	}
	o.Status = status
	if again := Judge(o); again.Changed(status) {
		t.Errorf("the same report changes the status:\n%s", cmp.Diff(status, again.Status))
	}
	o.Agent.Condition = nil
	if gone := Judge(o).Status; len(gone.Drift) == 0 {
		t.Error("a report that is gone ends the drift")
	}
	o.Agent.Condition = condition(report(v1alpha1.HealthHealthy))
	if ended := Judge(o).Status; len(ended.Drift)+len(ended.Endpoints)+len(ended.SuspendedObjects) > 0 {
		t.Errorf("a report without drift leaves %v", ended.Drift)
	}
}

func TestTheWorstObjectIsNamed(t *testing.T) {
	o := written()
	r := report(v1alpha1.HealthDegraded)
	r.Unhealthy = []v1alpha1.ObjectHealth{
		{ObjectReference: ref("apps/v1", "Deployment", "api"), Health: v1alpha1.HealthDegraded, Message: "ImagePullBackOff"},
		{ObjectReference: ref("apps/v1", "Deployment", "web"), Health: v1alpha1.HealthProgressing},
	}
	o.Agent.Condition = condition(r)
	status := Judge(o).Status
	if status.WorstObject != "Deployment shop/api (Degraded)" {
		t.Errorf("worst object %q", status.WorstObject)
	}
	o.Status = status
	o.Agent.Condition = condition(report(v1alpha1.HealthHealthy))
	if status := Judge(o).Status; status.WorstObject != "" {
		t.Errorf("all is well, and the worst object is %q", status.WorstObject)
	}
}
