package rollout

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// orderRandom lets a person order something; sometimes about what is past.
func (h *history) orderRandom() {
	f, r := h.f, h.random
	if f.run == nil {
		return
	}
	verb := pick(r, v1alpha1.VerbApprove, v1alpha1.VerbApprove, v1alpha1.VerbReject, v1alpha1.VerbPause, v1alpha1.VerbResume, v1alpha1.VerbResume,
		v1alpha1.VerbPromote, v1alpha1.VerbPromote, v1alpha1.VerbAbort, v1alpha1.VerbRollback, v1alpha1.VerbRetry, v1alpha1.VerbRetry, v1alpha1.VerbConfirmRemoval)
	f.order(verb, func(s *v1alpha1.RolloutActionSpec) {
		switch {
		case verb == v1alpha1.VerbApprove || verb == v1alpha1.VerbReject:
			s.Group, s.Step = h.randomStep()
		case verb == v1alpha1.VerbRollback && r.IntN(2) == 0:
			n := int64(1 + r.IntN(len(f.revisions)+1))
			s.ToRevision = &n
		}
		if r.IntN(12) == 0 {
			s.Attempt++
		}
		if r.IntN(12) == 0 {
			s.Revision = pick(r, f.revisions...).Digest
		}
	})
}

// randomStep is the step being walked, or any other.
func (h *history) randomStep() (string, int32) {
	run := h.f.run
	if run.Group != "" && h.random.IntN(3) > 0 {
		return run.Group, run.Step
	}
	if len(run.FrozenGroups) == 0 {
		return "canary", 1
	}
	g := pick(h.random, run.FrozenGroups...)
	return g.Name, int32(1 + h.random.IntN(len(g.StepsOrDefault())))
}

// addGates gives a strategy approvals, shares of none, windows and freezes.
func (h *history) addGates(s *v1alpha1.Strategy) {
	r := h.random
	for i := range s.Groups {
		steps := s.Groups[i].Steps
		for k := range steps {
			if r.IntN(6) == 0 {
				steps[k].Approval = v1alpha1.ApprovalRequired
			}
		}
		if r.IntN(12) == 0 {
			s.Groups[i].Steps = append([]v1alpha1.Step{step("0", 0)}, steps...)
		}
	}
	if r.IntN(6) == 0 {
		s.Unmatched = v1alpha1.UnmatchedBlock
	}
	for range max(0, r.IntN(5)-2) {
		opens := h.f.now.Add(time.Duration(r.IntN(20)-10) * time.Minute)
		w := hours("", opens.Format("15:04"), time.Duration(1+r.IntN(15))*time.Minute)
		if r.IntN(3) > 0 {
			w.ClusterSelector = metav1.LabelSelector{MatchLabels: map[string]string{"group": pick(r, "canary", "production")}}
		}
		if r.IntN(4) == 0 {
			w.Days = []v1alpha1.Weekday{"Mon", "Wed"}
		}
		s.Windows = append(s.Windows, w)
	}
	if r.IntN(4) == 0 {
		from := h.f.now.Add(time.Duration(r.IntN(300)) * time.Second)
		s.Freezes = append(s.Freezes, v1alpha1.Freeze{From: metav1.NewTime(from), To: metav1.NewTime(from.Add(time.Duration(1+r.IntN(200)) * time.Second))})
	}
}

// help is a person who lets the run go on wherever it waits for one.
func (h *history) help() {
	f := h.f
	if f.run == nil || slices.ContainsFunc(f.actions, func(a *fakeAction) bool { return !a.decided }) {
		return
	}
	switch {
	case f.run.PauseOrder != nil:
		f.order(v1alpha1.VerbResume)
	case f.waitsFor(v1alpha1.ReasonWaitingForApproval), f.waitsFor(v1alpha1.ReasonRejected):
		f.order(v1alpha1.VerbApprove, stepOf(f.run.Group, f.run.Step))
	case f.waitsFor(v1alpha1.ReasonShareReached):
		f.order(v1alpha1.VerbPromote, stepOf(f.run.Group, f.run.Step))
	}
}

// ordersMustBeAnswered: every order is decided, and what it asked for is done,
// or overtaken, or visibly going on.
func (h *history) ordersMustBeAnswered() {
	f := h.f
	for _, a := range f.actions {
		switch {
		case !a.decided:
			f.t.Fatalf("%s %s was never decided\n%s", a.Spec.Verb, a.Name, f.tail())
		case !a.Accepted || a.complete != nil:
		case f.run.Promotion != nil && f.run.Promotion.Action == a.Name, f.removal != nil && f.removal.Action == a.Name:
		case slices.ContainsFunc(f.rollbacks, func(r v1alpha1.RollbackRecord) bool { return r.Action == a.Name && r.FinishedAt == nil }):
		default:
			f.t.Fatalf("%s %s never completes\n%s", a.Spec.Verb, a.Name, f.tail())
		}
	}
	if len(f.handled) > 0 {
		f.t.Fatalf("handled actions are kept: %v\n%s", f.handled, f.tail())
	}
}
