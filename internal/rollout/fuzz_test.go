package rollout

import (
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// FuzzNextAlwaysReturnsAPlan corrupts the facts of a rollout in the middle of
// its life in ways that no honest history has, such as a status edited by
// hand: Next must neither panic nor run for ever, and must say how things
// stand.
func FuzzNextAlwaysReturnsAPlan(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	snapshots := lifeOfARollout(f)
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 3))
		s := snapshots[r.IntN(len(snapshots))]
		s.Clusters = append([]Cluster(nil), s.Clusters...)
		for i := range s.Clusters {
			if d := s.Clusters[i].Delivery; d != nil {
				corrupted := *d
				s.Clusters[i].Delivery = &corrupted
			}
		}
		s.Run = s.Run.DeepCopy()
		for range 1 + r.IntN(6) {
			corrupt(&s, r)
		}
		p := Next(s, fleetEpoch.Add(time.Duration(r.IntN(1000))*time.Second))
		if p.Outcome.Cause.Reason == "" {
			t.Errorf("seed %d: the outcome says nothing", seed)
		}
	})
}

func lifeOfARollout(tb testing.TB) []Snapshot {
	f := newFleet(tb, groupNamed("canary", step("100%", 10)), groupNamed("production", step("50%", 10), step("100%", 0)))
	f.add("canary", 2)
	f.add("production", 3)
	f.deploy("1.0.0")
	f.push("1.1.0", failsOn("production-3"))
	var list []Snapshot
	for range 90 {
		f.tick(time.Second)
		list = append(list, f.snapshot())
	}
	return list
}

func corrupt(s *Snapshot, r *rand.Rand) {
	word := pick(r, "", "canary", "nonsense", v1alpha1.UnmatchedGroup)
	at := pick(r, nil, microTime(fleetEpoch), microTime(fleetEpoch.Add(time.Hour)))
	c := &s.Clusters[r.IntN(len(s.Clusters))]
	d := c.Delivery
	if d == nil {
		d = &Delivery{}
		c.Delivery = d
	}
	switch r.IntN(26) {
	case 0:
		s.Run = nil
	case 1:
		s.Stable = nil
	case 2:
		s.Current = nil
	case 3:
		s.Strategy = v1alpha1.Strategy{}
	case 4:
		s.Revisions = nil
	case 5:
		*c = Cluster{Name: c.Name, Exists: r.IntN(2) == 0, Selected: true, Available: true, AgentLive: true}
	case 6:
		d.Spec = v1alpha1.RolloutDeliverySpec{}
	case 7:
		d.Status = v1alpha1.RolloutDeliveryStatus{Delivery: d.Spec.Delivery, HealthySince: at, LostSince: at, UnhealthySince: at, ReturnedAt: at}
	case 8:
		d.Spec.UnreachableAtWrite = true
	case 9:
		d.Spec.Group = word
	case 10:
		d.Spec.Removal = v1alpha1.DeletePolicy(word)
	case 11:
		d.Status.WrittenAt, d.Status.ProvenAt = nil, at
	case 12:
		c.Blocked = &v1alpha1.Cause{}
	case 13:
		s.Rollbacks = append([]v1alpha1.RollbackRecord{{ID: int64(r.IntN(3))}}, s.Rollbacks...)
	case 14:
		s.Membership.LastPlacements = append([]v1alpha1.ResolvedPlacement{{Name: word, SelectedClusters: 3}}, s.Membership.LastPlacements...)
	case 15:
		s.Strategy.Windows = []v1alpha1.MaintenanceWindow{{TimeZone: word, Start: word, DurationSeconds: int32(r.IntN(3) - 1)}}
		s.Strategy.Freezes = []v1alpha1.Freeze{{From: metav1.NewTime(fleetEpoch.Add(time.Hour)), To: metav1.NewTime(fleetEpoch)}, {}}
	case 16:
		s.Strategy.Unmatched = v1alpha1.UnmatchedBlock
	case 17:
		s.HandledActions = []types.UID{types.UID(word), "uid-1"}
		s.RemovalConfirmation = &v1alpha1.Order{Action: word}
	}
	number := int64(r.IntN(4))
	for range r.IntN(5) {
		verb := pick(r, v1alpha1.VerbApprove, v1alpha1.VerbReject, v1alpha1.VerbPause, v1alpha1.VerbResume, v1alpha1.VerbPromote, v1alpha1.VerbAbort, v1alpha1.VerbRollback, v1alpha1.VerbRetry, v1alpha1.VerbConfirmRemoval, v1alpha1.Verb(word))
		a := Action{Name: word, UID: types.UID(pick(r, "uid-1", "uid-2", "uid-3")), Accepted: r.IntN(4) == 0, Spec: v1alpha1.RolloutActionSpec{Verb: verb, Group: word, Step: int32(r.IntN(5) - 1), ToRevision: pick(r, nil, &number)}}
		if s.Run != nil {
			a.Spec.Revision, a.Spec.Attempt = s.Run.Revision.Digest, s.Run.Attempt
		}
		s.Actions = append(s.Actions, a)
	}
	if s.Run == nil {
		return
	}
	switch r.IntN(13) {
	case 9:
		s.Run.Approvals = []v1alpha1.Approval{{Group: word, Step: -1}}
		s.Run.Promotion, s.Run.PauseOrder = &v1alpha1.Order{}, pick(r, nil, &v1alpha1.Order{})
	case 0:
		s.Run.Group = word
	case 1:
		s.Run.Step = int32(r.IntN(100) - 50)
	case 2:
		s.Run.StepTarget = nil
	case 3:
		s.Run.StepStartedAt = at
	case 4:
		s.Run.SoakStartedAt = at
	case 5:
		s.Run.FrozenGroups = nil
	case 6:
		s.Run.Phase = v1alpha1.RunPhase(word)
	case 7:
		s.Run.PausedAt, s.Run.PausedMilliseconds = at, -1<<40
	case 8:
		s.Run.FrozenGroups = []v1alpha1.Group{{Name: word, ClusterSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Nonsense"}}},
			Steps: []v1alpha1.Step{{Clusters: intstr.FromString(word)}}, MaxConcurrent: &intstr.IntOrString{Type: 7}}}
	}
}
