package delivery

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/liveness"
)

const digest2 = "sha256:2222"

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// minute is a time n minutes after noon.
func minute(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }

// written is the observation of a cluster whose delivery 3 of version 1.1.0 was
// written at noon and is applied; its agent lives and has not reported.
func written() Observation {
	return Observation{
		Cluster: Cluster{Name: "c1", Exists: true, Available: true},
		Spec: v1alpha1.RolloutDeliverySpec{
			Rollout:  v1alpha1.RolloutReference{Namespace: "shop", Name: "api", UID: "u1"},
			Revision: v1alpha1.RevisionReference{Name: "api-2222", Number: 2, Version: "1.1.0", Digest: digest2},
			Delivery: 3, Run: 7, Attempt: 1, Direction: v1alpha1.DirectionForward,
		},
		Status: v1alpha1.RolloutDeliveryStatus{
			State: v1alpha1.StateApplying, Delivery: 3, Phase: v1alpha1.PhaseDrop,
			Rendered:  &v1alpha1.Rendered{Delivery: 3, Digest: digest2, Works: []string{"w"}},
			WrittenAt: stamp(noon),
			Clock:     v1alpha1.DeliveryClock{Run: 7},
		},
		Works: []*workv1.ManifestWork{appliedWork(2, 2)},
		Agent: Agent{Enabled: true, Liveness: liveness.State{
			Seen: true, Live: true, Confirmed: true, Interval: time.Minute, ExpiresAt: noon.Add(10 * time.Hour)}},
		Run: RunClock{Number: 7},
		Now: minute(1),
	}
}

// proven is the same cluster, proven healthy since a minute past noon.
func proven() Observation {
	o := written()
	o.Agent.Condition = condition(report(v1alpha1.HealthHealthy))
	o.Status = Judge(o).Status
	o.Now = minute(2)
	return o
}

func appliedWork(generation, observed int64) *workv1.ManifestWork {
	return &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Name: "w", Namespace: "c1", Generation: generation, Annotations: map[string]string{
			v1alpha1.AnnotationDelivery: "3", v1alpha1.AnnotationPhase: "Drop"}},
		Status: workv1.ManifestWorkStatus{Conditions: []metav1.Condition{
			{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, ObservedGeneration: observed},
			{Type: workv1.WorkAvailable, Status: metav1.ConditionTrue, ObservedGeneration: observed},
		}},
	}
}

// refuse makes the work agent refuse a Deployment at a generation; the condition
// of the whole work keeps what it says.
func refuse(work *workv1.ManifestWork, generation int64) {
	work.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
		ResourceMeta: workv1.ManifestResourceMeta{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "api"},
		Conditions: []metav1.Condition{{Type: workv1.ManifestApplied, Status: metav1.ConditionFalse, ObservedGeneration: generation,
			Message: "Failed to apply manifest: exceeded quota: pods"}},
	}}
}

func report(health v1alpha1.Health) v1alpha1.AgentReport {
	r := v1alpha1.AgentReport{Digest: digest2, Delivery: 3, Health: health, Objects: 1}
	if health != v1alpha1.HealthHealthy {
		r.Text = "Deployment shop/api is " + string(health)
		r.Unhealthy = []v1alpha1.ObjectHealth{{Health: health, Message: "1 of 2 replicas are available",
			ObjectReference: v1alpha1.ObjectReference{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "api"}}}
	}
	return r
}

func condition(r v1alpha1.AgentReport) *metav1.Condition {
	message, err := r.Encode()
	if err != nil {
		panic(err)
	}
	status := metav1.ConditionUnknown
	switch r.Health {
	case v1alpha1.HealthHealthy:
		status = metav1.ConditionTrue
	case v1alpha1.HealthDegraded, v1alpha1.HealthFailed:
		status = metav1.ConditionFalse
	}
	return &metav1.Condition{Type: v1alpha1.ConditionType("shop", "api"), Status: status, Reason: string(r.Health), Message: message}
}

func TestJudgeState(t *testing.T) {
	for _, tc := range []struct {
		name    string
		given   Observation
		change  func(*Observation)
		state   v1alpha1.DeliveryState
		reason  string
		message string
		healthy bool
	}{{
		name:  "applied and reported healthy for this delivery is proven",
		given: written(),
		change: func(o *Observation) {
			o.Agent.Condition = condition(report(v1alpha1.HealthHealthy))
		},
		state: v1alpha1.StateHealthy, reason: "Healthy", message: "1.1.0", healthy: true,
	}, {
		name:  "conditions of an earlier generation prove nothing, whatever the agent says (case D1)",
		given: written(),
		change: func(o *Observation) {
			o.Works = []*workv1.ManifestWork{appliedWork(2, 1)}
			o.Agent.Condition = condition(report(v1alpha1.HealthHealthy))
		},
		state: v1alpha1.StateApplying, reason: v1alpha1.ReasonApplying, message: "not applied",
	}, {
		name:  "a work that is not there is not applied",
		given: written(),
		change: func(o *Observation) {
			o.Works = nil
			o.Agent.Condition = condition(report(v1alpha1.HealthHealthy))
		},
		state: v1alpha1.StateApplying, reason: v1alpha1.ReasonApplying,
	}, {
		name:  "a work that an earlier delivery wrote is not this one's",
		given: written(),
		change: func(o *Observation) {
			o.Works[0].Annotations[v1alpha1.AnnotationDelivery] = "2"
			o.Agent.Condition = condition(report(v1alpha1.HealthHealthy))
		},
		state: v1alpha1.StateApplying, reason: v1alpha1.ReasonApplying,
	}, {
		name:  "the phase Add proves nothing, since objects of the earlier content still stand",
		given: written(),
		change: func(o *Observation) {
			o.Status.Phase = v1alpha1.PhaseAdd
			o.Works[0].Annotations[v1alpha1.AnnotationPhase] = "Add"
			o.Agent.Condition = condition(report(v1alpha1.HealthHealthy))
		},
		state: v1alpha1.StateApplying, reason: v1alpha1.ReasonDropping,
	}, {
		name:  "while objects are dropped, that is said",
		given: written(),
		change: func(o *Observation) {
			o.Status.Dropping = []v1alpha1.ObjectReference{{Version: "v1", Kind: "Service", Namespace: "shop", Name: "s"}}
			o.Works = []*workv1.ManifestWork{appliedWork(2, 1)}
		},
		state: v1alpha1.StateApplying, reason: v1alpha1.ReasonDropping, message: "1 objects",
	}, {
		name:   "a first delivery that cannot be applied is not ready, in the API's words (case P3)",
		given:  written(),
		change: func(o *Observation) { refuse(o.Works[0], 2) },
		state:  v1alpha1.StateDegraded, reason: v1alpha1.ReasonApplyFailed, message: "Deployment shop/api: Failed to apply manifest: exceeded quota: pods",
	}, {
		name:   "an apply failure after success takes the proof away (case P3)",
		given:  proven(),
		change: func(o *Observation) { refuse(o.Works[0], 2) },
		state:  v1alpha1.StateDegraded, reason: v1alpha1.ReasonApplyFailed, message: "exceeded quota",
	}, {
		name:  "a failed work without named objects is said in its own words",
		given: written(),
		change: func(o *Observation) {
			o.Works[0].Status.Conditions[0].Status = metav1.ConditionFalse
			o.Works[0].Status.Conditions[0].Message = "Failed to apply manifest work"
		},
		state: v1alpha1.StateDegraded, reason: v1alpha1.ReasonApplyFailed, message: "Failed to apply manifest work",
	}, {
		name:  "an apply failure of an earlier generation is no failure of this one",
		given: written(),
		change: func(o *Observation) {
			refuse(o.Works[0], 1)
		},
		state: v1alpha1.StateApplying, reason: v1alpha1.ReasonApplying,
	}, {
		name:   "no report is not yet",
		given:  written(),
		change: func(*Observation) {},
		state:  v1alpha1.StateProgressing, reason: v1alpha1.ReasonAwaitingReport,
	}, {
		name:  "a report about an earlier delivery is not yet",
		given: written(),
		change: func(o *Observation) {
			r := report(v1alpha1.HealthHealthy)
			r.Delivery = 2
			o.Agent.Condition = condition(r)
		},
		state: v1alpha1.StateProgressing, reason: v1alpha1.ReasonAwaitingReport, message: "delivery 2",
	}, {
		name:  "a report about another digest is not yet",
		given: written(),
		change: func(o *Observation) {
			r := report(v1alpha1.HealthHealthy)
			r.Digest = "sha256:1111"
			o.Agent.Condition = condition(r)
		},
		state: v1alpha1.StateProgressing, reason: v1alpha1.ReasonAwaitingReport,
	}, {
		name:  "an unparsable report is not yet, and takes an earlier proof away",
		given: proven(),
		change: func(o *Observation) {
			o.Agent.Condition.Message = "all is well"
		},
		state: v1alpha1.StateProgressing, reason: v1alpha1.ReasonAwaitingReport, message: "cannot be read",
	}, {
		name:  "a health that nobody knows is not yet",
		given: written(),
		change: func(o *Observation) {
			o.Agent.Condition = condition(report("Splendid"))
			o.Agent.Condition.Status = metav1.ConditionTrue
		},
		state: v1alpha1.StateProgressing, reason: v1alpha1.ReasonAwaitingReport, message: "Splendid",
	}, {
		name:  "a report that contradicts its condition is not yet",
		given: written(),
		change: func(o *Observation) {
			o.Agent.Condition = condition(report(v1alpha1.HealthHealthy))
			o.Agent.Condition.Status = metav1.ConditionFalse
		},
		state: v1alpha1.StateProgressing, reason: v1alpha1.ReasonAwaitingReport,
	}, {
		name:   "missing replicas are progress, not health (case E1)",
		given:  written(),
		change: func(o *Observation) { o.Agent.Condition = condition(report(v1alpha1.HealthProgressing)) },
		state:  v1alpha1.StateProgressing, reason: "Progressing", message: "Deployment shop/api",
	}, {
		name:   "a terminal failure is failed at once (case E1)",
		given:  written(),
		change: func(o *Observation) { o.Agent.Condition = condition(report(v1alpha1.HealthFailed)) },
		state:  v1alpha1.StateFailed, reason: "Failed",
	}, {
		name:  "a terminal failure is believed while objects still wait to be applied",
		given: written(),
		change: func(o *Observation) {
			o.Works = []*workv1.ManifestWork{appliedWork(2, 1)}
			o.Agent.Condition = condition(report(v1alpha1.HealthFailed))
		},
		state: v1alpha1.StateFailed, reason: "Failed",
	}, {
		name:   "degraded is named as degraded",
		given:  written(),
		change: func(o *Observation) { o.Agent.Condition = condition(report(v1alpha1.HealthDegraded)) },
		state:  v1alpha1.StateDegraded, reason: "Degraded",
	}, {
		name:   "suspended is neither success nor failure",
		given:  written(),
		change: func(o *Observation) { o.Agent.Condition = condition(report(v1alpha1.HealthSuspended)) },
		state:  v1alpha1.StateProgressing, reason: "Suspended",
	}, {
		name:   "an addon that was never enabled is named with the command that enables it",
		given:  written(),
		change: func(o *Observation) { o.Agent = Agent{} },
		state:  v1alpha1.StateProgressing, reason: v1alpha1.ReasonAgentMissing,
		message: "clusteradm addon enable --names fleet-rollout --clusters c1",
	}, {
		name:   "an agent that never renewed its Lease is missing",
		given:  written(),
		change: func(o *Observation) { o.Agent.Liveness = liveness.State{} },
		state:  v1alpha1.StateProgressing, reason: v1alpha1.ReasonAgentMissing,
	}, {
		name:   "an agent that is gone after it proved something is silent",
		given:  proven(),
		change: func(o *Observation) { o.Agent = Agent{} },
		state:  v1alpha1.StateUnreachable, reason: v1alpha1.ReasonAgentSilent,
	}, {
		name:   "an agent that stops to renew makes the cluster unreachable, its last report notwithstanding (case D3)",
		given:  proven(),
		change: func(o *Observation) { o.Agent.Liveness.Live = false },
		state:  v1alpha1.StateUnreachable, reason: v1alpha1.ReasonAgentSilent,
	}, {
		name:   "a cluster that is not Available is unreachable",
		given:  proven(),
		change: func(o *Observation) { o.Cluster.Available = false },
		state:  v1alpha1.StateUnreachable, reason: v1alpha1.ReasonClusterUnavailable,
	}, {
		name:   "a cluster that is gone is unreachable",
		given:  proven(),
		change: func(o *Observation) { o.Cluster = Cluster{Name: "c1"} },
		state:  v1alpha1.StateUnreachable, reason: v1alpha1.ReasonClusterUnavailable,
	}, {
		name:  "a blocked cluster is blocked, reachable or not",
		given: written(),
		change: func(o *Observation) {
			o.Cluster.Available = false
			o.Obstacle = &Obstacle{State: v1alpha1.StateBlocked, Cause: v1alpha1.Cause{Reason: v1alpha1.ReasonHeldByOther, Message: "held"}}
		},
		state: v1alpha1.StateBlocked, reason: v1alpha1.ReasonHeldByOther, message: "held",
	}, {
		name:  "a refused write says what the hub says",
		given: written(),
		change: func(o *Observation) {
			o.Agent.Condition = condition(report(v1alpha1.HealthHealthy))
			o.Obstacle = degraded(v1alpha1.ReasonWriteRefused, "denied by policy")
		},
		state: v1alpha1.StateDegraded, reason: v1alpha1.ReasonWriteRefused, message: "denied by policy",
	}, {
		name:   "a restart alone takes no proof away",
		given:  proven(),
		change: func(o *Observation) { o.Agent.Liveness.Confirmed = false },
		state:  v1alpha1.StateHealthy, reason: "Healthy", healthy: true,
	}} {
		t.Run(tc.name, func(t *testing.T) {
			o := tc.given
			tc.change(&o)
			got := Judge(o).Status
			if got.State != tc.state || got.Reason != tc.reason {
				t.Errorf("got %s/%s (%s), want %s/%s", got.State, got.Reason, got.Message, tc.state, tc.reason)
			}
			if !strings.Contains(got.Message, tc.message) {
				t.Errorf("message %q does not say %q", got.Message, tc.message)
			}
			if got.Message == "" {
				t.Error("there is no message")
			}
			if (got.HealthySince != nil) != tc.healthy {
				t.Errorf("healthySince is %v, want set: %t", got.HealthySince, tc.healthy)
			}
			if again := Judge(resume(o, got)); again.Changed(got) {
				t.Errorf("a second look at the same changes the status (-first +second):\n%s", cmp.Diff(got, again.Status))
			}
		})
	}
}

// resume observes the same with a status that was recorded.
func resume(o Observation, status v1alpha1.RolloutDeliveryStatus) Observation {
	o.Status = status
	return o
}

func TestAReportWithoutALiveAgentProvesNothing(t *testing.T) { // law 5
	o := written()
	o.Agent.Condition = condition(report(v1alpha1.HealthHealthy))
	o.Agent.Liveness = liveness.State{Interval: time.Minute}
	status := Judge(o).Status
	if status.State != v1alpha1.StateProgressing || status.Reason != v1alpha1.ReasonAgentMissing || status.HealthySince != nil || status.Proven != nil {
		t.Errorf("without any renewed Lease: %s/%s, healthy since %v", status.State, status.Reason, status.HealthySince)
	}
	// The same report counts with the first renewal, and nothing is lost in between.
	o = resume(o, status)
	o.Agent.Liveness = liveness.State{Seen: true, Live: true, Confirmed: true, Interval: time.Minute, ExpiresAt: o.Now.Add(time.Minute)}
	if status = Judge(o).Status; status.State != v1alpha1.StateHealthy || status.LostSince != nil {
		t.Errorf("after the first renewal: %s/%s", status.State, status.Reason)
	}
}

func TestJudgeRecordsProof(t *testing.T) {
	o := written()
	o.Status.Dropping = []v1alpha1.ObjectReference{{Kind: "Service", Name: "s"}}
	o.Agent.Condition = condition(report(v1alpha1.HealthHealthy))
	o.CompletedJobs = []v1alpha1.CompletedJob{{Namespace: "shop", Name: "migrate", Hash: "h"}}
	got := Judge(o).Status
	proof := &v1alpha1.Proof{Digest: digest2, Delivery: 3}
	since := metav1.NewTime(minute(1))
	want := o.Status
	want.State, want.Reason, want.Message = v1alpha1.StateHealthy, "Healthy", "version 1.1.0 is applied and healthy"
	want.StateSince = &since
	want.Dropping = nil
	want.Applied, want.Proven = proof, proof
	want.AppliedAt, want.ProvenAt, want.HealthySince = stamp(minute(1)), stamp(minute(1)), stamp(minute(1))
	want.CompletedJobs = o.CompletedJobs
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestJudgeBoundsWhatTheAgentSays(t *testing.T) {
	o := written()
	r := report(v1alpha1.HealthDegraded)
	r.Text = strings.Repeat("ä", 2000)
	for len(r.Unhealthy) < 12 {
		r.Unhealthy = append(r.Unhealthy, r.Unhealthy[0])
	}
	r.Unhealthy[0].Message = strings.Repeat("x", 600)
	o.Agent.Condition = condition(report(v1alpha1.HealthDegraded))
	raw, _ := r.Encode()
	o.Agent.Condition.Message = raw
	got := Judge(o).Status
	if len(got.Message) > v1alpha1.MaxMessageLength || strings.ContainsRune(got.Message, '\uFFFD') {
		t.Errorf("message has %d bytes, or a broken character", len(got.Message))
	}
	if n := len(got.UnhealthyObjects); n == 0 || n > v1alpha1.MaxUnhealthyObjects {
		t.Errorf("%d unhealthy objects are named", n)
	}
	if n := len(got.UnhealthyObjects[0].Message); n > maxObjectMessage {
		t.Errorf("the message about an object has %d bytes", n)
	}
}

func TestJudgeWakesWhenTheLeaseExpires(t *testing.T) {
	o := proven()
	o.Agent.Liveness.ExpiresAt = o.Now.Add(42 * time.Second)
	if got := Judge(o).RecheckAfter; got != 42*time.Second {
		t.Errorf("recheck after %s, want 42s", got)
	}
	o.Agent.Liveness.Live = false
	if got := Judge(o).RecheckAfter; got != 0 {
		t.Errorf("recheck after %s for a silent agent; its next renewal is an event", got)
	}
}
