package status

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/rollout"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// soaking is a rollout whose one step soaks on two of three clusters.
func soaking() Input {
	started := metav1.NewMicroTime(noon.Add(-time.Minute))
	return Input{
		Now: noon,
		Snapshot: rollout.Snapshot{
			Generation: 4,
			Membership: rollout.Membership{Complete: true, Placements: []v1alpha1.ResolvedPlacement{{Name: "fleet", Generation: 1, SelectedClusters: 3}}},
			Current:    &rollout.Revision{RevisionReference: v1alpha1.RevisionReference{Name: "payments-2", Number: 2, Version: "1.1.0"}},
			Clusters: []rollout.Cluster{
				{Name: "c1", Selected: true, Delivery: &rollout.Delivery{}},
				{Name: "c2", Selected: true, Delivery: &rollout.Delivery{}},
				{Name: "c3", Selected: true},
			},
		},
		Plan: rollout.Plan{
			Run:        &v1alpha1.Run{Number: 2, Phase: v1alpha1.RunProgressing, StartedAt: started},
			Placements: []v1alpha1.ResolvedPlacement{{Name: "fleet", Generation: 1, SelectedClusters: 3}},
			Outcome: rollout.Outcome{
				Progressing: true,
				Cause:       v1alpha1.Cause{Reason: v1alpha1.ReasonSoaking, Message: "step 1 of group canary soaks"},
			},
			Judgements: []rollout.Judgement{
				{Cluster: "c1", Member: true, Updated: true, Healthy: true, State: v1alpha1.StateHealthy},
				{Cluster: "c2", Member: true, Updated: true, Healthy: true, State: v1alpha1.StateHealthy},
				{Cluster: "c3", Member: true, State: v1alpha1.StatePending},
			},
		},
	}
}

func TestConditions(t *testing.T) {
	record := func(result v1alpha1.RollbackResult) *v1alpha1.RollbackRecord {
		return &v1alpha1.RollbackRecord{
			To:       v1alpha1.RevisionReference{Number: 1, Version: "1.0.0"},
			Cause:    v1alpha1.Cause{Reason: v1alpha1.ReasonBudgetSpent, Message: "2 clusters failed"},
			Clusters: 3, Restored: 1, Result: result,
		}
	}
	// want is "Type=Status/Reason" for each condition.
	cases := []struct {
		name   string
		change func(in *Input)
		want   []string
		says   map[string]string
	}{
		{
			name: "a run soaks",
			want: []string{"PlacementResolved=True/Resolved", "Progressing=True/Soaking", "Ready=False/Soaking"},
			says: map[string]string{"PlacementResolved": "3 clusters selected by Placement fleet", "Ready": "step 1 of group canary soaks"},
		},
		{
			name: "a run succeeded",
			change: func(in *Input) {
				in.Plan.Outcome = rollout.Outcome{Ready: true, Cause: v1alpha1.Cause{Reason: v1alpha1.ReasonSucceeded, Message: "all 3 clusters run 1.1.0"}}
			},
			want: []string{"PlacementResolved=True/Resolved", "Progressing=False/Succeeded", "Ready=True/Succeeded"},
		},
		{
			name: "nothing goes on without somebody",
			change: func(in *Input) {
				cause := v1alpha1.Cause{Reason: v1alpha1.ReasonNoRollbackTarget, Message: "no revision ever succeeded"}
				in.Plan.Outcome = rollout.Outcome{Cause: cause, Stalled: &cause}
			},
			want: []string{"PlacementResolved=True/Resolved", "Progressing=False/NoRollbackTarget", "Ready=False/NoRollbackTarget", "Stalled=True/NoRollbackTarget"},
		},
		{
			name: "the decisions are not complete",
			change: func(in *Input) {
				in.Snapshot.Membership = rollout.Membership{Cause: v1alpha1.Cause{Reason: v1alpha1.ReasonPlacementNotFound, Message: `Placement "fleet" does not exist`}}
			},
			want: []string{"PlacementResolved=False/PlacementNotFound", "Progressing=True/Soaking", "Ready=False/Soaking"},
			says: map[string]string{"PlacementResolved": `Placement "fleet" does not exist`},
		},
		{
			name: "the decisions are complete and empty",
			change: func(in *Input) {
				for i := range in.Snapshot.Clusters {
					in.Snapshot.Clusters[i].Selected = false
				}
			},
			want: []string{"PlacementResolved=True/NoClusters", "Progressing=True/Soaking", "Ready=False/Soaking"},
		},
		{
			name:   "a rollback goes on",
			change: func(in *Input) { in.Plan.Outcome.RolledBack = record(v1alpha1.RollbackInProgress) },
			want:   []string{"PlacementResolved=True/Resolved", "Progressing=True/Soaking", "Ready=False/Soaking", "RolledBack=Unknown/RollingBack"},
			says:   map[string]string{"RolledBack": "1 of 3 clusters went back to version 1.0.0 (revision 1) so far: 2 clusters failed"},
		},
		{
			name:   "a rollback is complete",
			change: func(in *Input) { in.Plan.Outcome.RolledBack = record(v1alpha1.RollbackComplete) },
			want:   []string{"PlacementResolved=True/Resolved", "Progressing=True/Soaking", "Ready=False/Soaking", "RolledBack=True/RolledBack"},
		},
		{
			name:   "a rollback is incomplete",
			change: func(in *Input) { in.Plan.Outcome.RolledBack = record(v1alpha1.RollbackIncomplete) },
			want:   []string{"PlacementResolved=True/Resolved", "Progressing=True/Soaking", "Ready=False/Soaking", "RolledBack=False/RollbackIncomplete"},
		},
		{
			name:   "a newer run took a rollback over",
			change: func(in *Input) { in.Plan.Outcome.RolledBack = record(v1alpha1.RollbackSuperseded) },
			want:   []string{"PlacementResolved=True/Resolved", "Progressing=True/Soaking", "Ready=False/Soaking", "RolledBack=False/Superseded"},
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			in := soaking()
			if tc.change != nil {
				tc.change(&in)
			}
			status := Project(in)
			var got []string
			for _, c := range status.Conditions {
				got = append(got, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
				if c.ObservedGeneration != 4 {
					t.Errorf("%s is about generation %d, want 4", c.Type, c.ObservedGeneration)
				}
				if c.Message == "" {
					t.Errorf("%s says nothing", c.Type)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			for kind, message := range tc.says {
				if c := meta.FindStatusCondition(status.Conditions, kind); c == nil || c.Message != message {
					t.Errorf("%s says %+v, want %q", kind, c, message)
				}
			}
		})
	}
}

func TestTheTimeOfATransitionMovesOnlyWithTheStatus(t *testing.T) {
	in := soaking()
	in.Previous = Project(in)
	earlier := in.Previous.Conditions[0].LastTransitionTime

	in.Now = noon.Add(time.Hour)
	in.Plan.Outcome.Cause = v1alpha1.Cause{Reason: v1alpha1.ReasonWaitingForEvidence, Message: "c3 is not proven"}
	in.Plan.Outcome.RolledBack = &v1alpha1.RollbackRecord{Result: v1alpha1.RollbackInProgress}
	next := Project(in)
	for _, c := range next.Conditions {
		want := earlier
		if c.Type == v1alpha1.ConditionRolledBack {
			want = metav1.NewTime(in.Now)
		}
		if !c.LastTransitionTime.Equal(&want) {
			t.Errorf("%s changed at %s, want %s", c.Type, c.LastTransitionTime, want)
		}
	}

	in.Previous, in.Now = next, noon.Add(2*time.Hour)
	in.Plan.Outcome.Ready, in.Plan.Outcome.Progressing, in.Plan.Outcome.RolledBack = true, false, nil
	for _, c := range Project(in).Conditions {
		want := metav1.NewTime(in.Now)
		if c.Type == v1alpha1.ConditionPlacementResolved {
			want = earlier
		}
		if !c.LastTransitionTime.Equal(&want) {
			t.Errorf("%s changed at %s, want %s", c.Type, c.LastTransitionTime, want)
		}
	}
}

func TestTheSameInputGivesAnEqualStatus(t *testing.T) {
	in := soaking()
	in.Refusals = map[string]v1alpha1.Cause{"c9": {Reason: "WriteRefused"}, "c7": {Reason: "WriteRefused"}, "c8": {Reason: "WriteRefused"}}
	first := Project(in)
	in.Previous, in.Now = first, noon.Add(time.Minute)
	if second := Project(in); !Equal(first, second) {
		t.Errorf("statuses differ:\n%s", cmp.Diff(first, second))
	}
}

func TestEachClusterCountsOnce(t *testing.T) {
	in := soaking()
	in.Snapshot.Clusters = nil
	in.Plan.Judgements = nil
	add := func(j rollout.Judgement, delivery *rollout.Delivery) {
		j.Cluster = fmt.Sprintf("c%d", len(in.Snapshot.Clusters))
		in.Snapshot.Clusters = append(in.Snapshot.Clusters, rollout.Cluster{Name: j.Cluster, Selected: true, Delivery: delivery})
		in.Plan.Judgements = append(in.Plan.Judgements, j)
	}
	written := &rollout.Delivery{}
	add(rollout.Judgement{Member: true, Updated: true, Healthy: true, State: v1alpha1.StateHealthy}, written)
	add(rollout.Judgement{Member: true, Healthy: true, State: v1alpha1.StateHealthy}, written)
	add(rollout.Judgement{Member: true, State: v1alpha1.StatePending}, nil)
	add(rollout.Judgement{Member: true, State: v1alpha1.StatePending}, written)
	add(rollout.Judgement{Member: true, State: v1alpha1.StateApplying}, written)
	add(rollout.Judgement{Member: true, Updated: true, State: v1alpha1.StateProgressing}, written)
	add(rollout.Judgement{Member: true, Updated: true, State: v1alpha1.StateDegraded}, written)
	add(rollout.Judgement{Member: true, Updated: true, State: v1alpha1.StateFailed}, written)
	add(rollout.Judgement{Member: true, Updated: true, State: v1alpha1.StateUnreachable}, written)
	add(rollout.Judgement{Member: true, State: v1alpha1.StateBlocked}, nil)
	add(rollout.Judgement{Member: false, Updated: true, Healthy: true, State: v1alpha1.StateRemoving}, written)

	want := v1alpha1.ClusterCounts{
		Selected: 10, Updated: 5, Healthy: 2, Progressing: 3, Degraded: 1, Failed: 1, Unreachable: 1, Blocked: 1, Progress: "5/10",
	}
	if diff := cmp.Diff(want, Project(in).Clusters); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
}

func TestProblemsAreTheWorstFirstAndAtMostTwenty(t *testing.T) {
	in := soaking()
	in.Plan.Judgements = nil
	states := []v1alpha1.DeliveryState{v1alpha1.StatePending, v1alpha1.StateUnreachable, v1alpha1.StateDegraded, v1alpha1.StateBlocked, v1alpha1.StateFailed}
	for i := range 30 {
		in.Plan.Judgements = append(in.Plan.Judgements, rollout.Judgement{
			Cluster: fmt.Sprintf("c%02d", i), Member: true, State: states[i%5],
			Cause: &v1alpha1.Cause{Reason: string(states[i%5]), Message: "m"},
		})
	}
	in.Plan.Judgements = append(in.Plan.Judgements, rollout.Judgement{Cluster: "c99", State: v1alpha1.StateHealthy})
	in.Refusals = map[string]v1alpha1.Cause{"c00": {Reason: v1alpha1.ReasonWriteRefused, Message: "no namespace"}}

	var got []string
	for _, problem := range Project(in).Problems {
		got = append(got, problem.Cluster+" "+problem.Reason)
	}
	want := []string{
		"c00 WriteRefused",
		"c04 Failed", "c09 Failed", "c14 Failed", "c19 Failed", "c24 Failed", "c29 Failed",
		"c03 Blocked", "c08 Blocked", "c13 Blocked", "c18 Blocked", "c23 Blocked", "c28 Blocked",
		"c02 Degraded", "c07 Degraded", "c12 Degraded", "c17 Degraded", "c22 Degraded", "c27 Degraded",
		"c01 Unreachable",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestNoTextIsLongerThanTheAPITakes(t *testing.T) {
	long := strings.Repeat("é", 2000)
	cause := v1alpha1.Cause{Reason: "Long", Message: long}
	in := soaking()
	in.Plan.Run.HaltCause = &cause
	for range v1alpha1.MaxWaiting + 5 {
		in.Plan.Run.WaitingFor = append(in.Plan.Run.WaitingFor, v1alpha1.Waiting{Reason: "Long", Message: long})
	}
	in.Plan.Rollbacks = []v1alpha1.RollbackRecord{{ID: 1, Cause: cause}}
	in.Plan.Outcome.Cause = cause
	in.Plan.Judgements[0].Cause = &cause
	status := Project(in)

	texts := []string{status.Run.HaltCause.Message, status.Rollbacks[0].Cause.Message, status.Problems[0].Message}
	for _, waiting := range status.Run.WaitingFor {
		texts = append(texts, waiting.Message)
	}
	for _, c := range status.Conditions {
		texts = append(texts, c.Message)
	}
	for _, text := range texts {
		if len(text) > v1alpha1.MaxMessageLength || !utf8.ValidString(text) {
			t.Errorf("%d bytes, valid %v", len(text), utf8.ValidString(text))
		}
	}
	if got := len(status.Run.WaitingFor); got != v1alpha1.MaxWaiting {
		t.Errorf("waits for %d things, want at most %d", got, v1alpha1.MaxWaiting)
	}
	if in.Plan.Run.HaltCause.Message != long || len(in.Plan.Run.WaitingFor) == v1alpha1.MaxWaiting {
		t.Error("the plan was changed")
	}
}

func TestTheCurrentRevisionIsThatOfThePresentTemplate(t *testing.T) {
	in := soaking()
	in.Previous.CurrentRevision = &v1alpha1.RevisionReference{Name: "payments-1"}
	if got := Project(in).CurrentRevision; got == nil || got.Name != "payments-2" {
		t.Errorf("current revision %v", got)
	}
	in.Snapshot.Current = nil
	if got := Project(in).CurrentRevision; got != nil {
		t.Errorf("current revision %v although the template could not be frozen", got)
	}
	in.Snapshot.Deleting = true
	if got := Project(in).CurrentRevision; got == nil || got.Name != "payments-1" {
		t.Errorf("current revision %v while deleting, want what it was", got)
	}
}

func TestSameFacts(t *testing.T) {
	base := func() v1alpha1.FleetRolloutStatus {
		in := soaking()
		in.Plan.Rollbacks = []v1alpha1.RollbackRecord{{ID: 1, Restored: 1}}
		return Project(in)
	}
	cases := []struct {
		name   string
		change func(status *v1alpha1.FleetRolloutStatus)
		same   bool
	}{
		{"nothing", func(*v1alpha1.FleetRolloutStatus) {}, true},
		{"counters", func(s *v1alpha1.FleetRolloutStatus) { s.Clusters.Healthy++ }, true},
		{"counters of a group", func(s *v1alpha1.FleetRolloutStatus) { s.Run.Groups = []v1alpha1.GroupCounts{{Name: "all"}} }, true},
		{"what is waited for", func(s *v1alpha1.FleetRolloutStatus) { s.Run.WaitingFor = []v1alpha1.Waiting{{Reason: "x"}} }, true},
		{"problems", func(s *v1alpha1.FleetRolloutStatus) { s.Problems = []v1alpha1.Problem{{Cluster: "c1"}} }, true},
		{"how many were restored", func(s *v1alpha1.FleetRolloutStatus) { s.Rollbacks[0].Restored++ }, true},
		{"the words of a condition", func(s *v1alpha1.FleetRolloutStatus) { s.Conditions[1].Reason, s.Conditions[1].Message = "a", "b" }, true},
		{"the status of a condition", func(s *v1alpha1.FleetRolloutStatus) { s.Conditions[1].Status = metav1.ConditionFalse }, false},
		{"a condition more", func(s *v1alpha1.FleetRolloutStatus) {
			s.Conditions = append(s.Conditions, metav1.Condition{Type: v1alpha1.ConditionStalled})
		}, false},
		{"the phase of the run", func(s *v1alpha1.FleetRolloutStatus) { s.Run.Phase = v1alpha1.RunFailed }, false},
		{"the soak", func(s *v1alpha1.FleetRolloutStatus) { at := metav1.NewMicroTime(noon); s.Run.SoakStartedAt = &at }, false},
		{"a rollback", func(s *v1alpha1.FleetRolloutStatus) { s.Rollbacks[0].Result = v1alpha1.RollbackComplete }, false},
		{"the stable revision", func(s *v1alpha1.FleetRolloutStatus) { s.StableRevision = &v1alpha1.RevisionReference{Name: "x"} }, false},
		{"the generation", func(s *v1alpha1.FleetRolloutStatus) { s.ObservedGeneration++ }, false},
		{"an order that took effect", func(s *v1alpha1.FleetRolloutStatus) { s.HandledActions = []types.UID{"a"} }, false},
		{"a confirmation of removals", func(s *v1alpha1.FleetRolloutStatus) { s.RemovalConfirmation = &v1alpha1.Order{} }, false},
		{"an approval", func(s *v1alpha1.FleetRolloutStatus) { s.Run.Approvals = []v1alpha1.Approval{{Group: "all"}} }, false},
		{"a pause", func(s *v1alpha1.FleetRolloutStatus) { s.Run.PauseOrder = &v1alpha1.Order{} }, false},
		{"a promotion", func(s *v1alpha1.FleetRolloutStatus) { s.Run.Promotion = &v1alpha1.Order{} }, false},
		{"a placement", func(s *v1alpha1.FleetRolloutStatus) { s.Placements[0].Generation++ }, false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			changed := base()
			tc.change(&changed)
			if got := SameFacts(base(), changed); got != tc.same {
				t.Errorf("SameFacts is %v, want %v", got, tc.same)
			}
		})
	}
}

func TestAVerdictKeepsItsTimeUntilItChanges(t *testing.T) {
	change := rollout.VerdictChange{
		Revision: "payments-1", Verdict: v1alpha1.VerdictFailed, Attempts: 1,
		Cause: v1alpha1.Cause{Reason: v1alpha1.ReasonBudgetSpent, Message: strings.Repeat("x", 2000)},
	}
	failed := Verdict(v1alpha1.RolloutRevisionStatus{Verdict: v1alpha1.VerdictCandidate}, change, noon)
	if failed.Verdict != v1alpha1.VerdictFailed || !failed.DecidedAt.Time.Equal(noon) || len(failed.Message) > v1alpha1.MaxMessageLength {
		t.Errorf("status %+v", failed)
	}
	change.Attempts = 2
	again := Verdict(failed, change, noon.Add(time.Hour))
	if again.Attempts != 2 || !again.DecidedAt.Time.Equal(noon) {
		t.Errorf("status %+v, want the second attempt and the first time", again)
	}
	if EqualVerdict(failed, again) || !EqualVerdict(again, Verdict(again, change, noon.Add(2*time.Hour))) {
		t.Error("EqualVerdict misses a change, or sees one where there is none")
	}
}
