package rollout

import (
	"slices"
	"strings"
	"time"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// toldActions are the open actions once a plan is carried out.
func toldActions(s Snapshot, p Plan) []Action {
	var list []Action
	for _, a := range s.Actions {
		at := slices.IndexFunc(p.Actions, func(o ActionOutcome) bool { return o.UID == a.UID })
		if at >= 0 {
			if o := p.Actions[at]; !o.Accepted || o.Complete != nil {
				continue
			}
			a.Accepted = true
		}
		list = append(list, a)
	}
	return list
}

// checkActions: every order is decided at once, explained, and never carried
// out twice (law 18).
func (l *lawful) checkActions(s Snapshot, p Plan) {
	for _, a := range s.Actions {
		decided := slices.ContainsFunc(p.Actions, func(o ActionOutcome) bool { return o.UID == a.UID })
		if !a.Accepted && !decided {
			l.fatalf(s, p, "%s %s is not decided", a.Spec.Verb, a.Name)
		}
		carriedOut := slices.ContainsFunc(p.Events, func(e Event) bool {
			return (e.Reason == EventActionAccepted || e.Reason == EventActionRefused) && strings.Contains(e.Message, "(action "+a.Name+")")
		})
		if carriedOut && l.f.obeyed[a.UID] {
			l.fatalf(s, p, "%s %s is carried out a second time (law 18)", a.Spec.Verb, a.Name)
		}
	}
	for _, o := range p.Actions {
		if o.Complete == nil && o.Cause.Reason == "" || o.Complete != nil && (o.Complete.Cause.Reason == "" || o.Complete.Cause.Message == "") {
			l.fatalf(s, p, "what became of %s is not explained", o.Name)
		}
		if len(o.Cause.Message) > v1alpha1.MaxMessageLength {
			l.fatalf(s, p, "the message about %s is too long", o.Name)
		}
	}
	if len(p.HandledActions) > maxHandled {
		l.fatalf(s, p, "%d handled actions", len(p.HandledActions))
	}
	if r := p.Run; r != nil && r.Phase != v1alpha1.RunProgressing && r.Phase != v1alpha1.RunHalted && (r.PauseOrder != nil || r.Promotion != nil || len(r.Approvals) > 0) {
		l.fatalf(s, p, "an ended run still shows an order (case K6)")
	}
}

// accepted tells that a plan takes up an order of the given verb with effect.
func accepted(s Snapshot, p Plan, verbs ...v1alpha1.Verb) bool {
	for _, o := range p.Actions {
		at := slices.IndexFunc(s.Actions, func(a Action) bool { return a.UID == o.UID })
		if at >= 0 && !slices.Contains(s.HandledActions, o.UID) && slices.Contains(verbs, s.Actions[at].Spec.Verb) && o.Accepted && o.Cause.Reason == v1alpha1.ReasonAccepted {
			return true
		}
	}
	return false
}

// fallback is the target of the newest open rollback that a person ordered, or
// the stable revision.
func fallback(p Plan) *v1alpha1.RevisionReference {
	for _, r := range slices.Backward(p.Rollbacks) {
		if r.Trigger == v1alpha1.TriggerRequested && r.FinishedAt == nil {
			return &r.To
		}
	}
	return p.Stable
}

// settled tells that a rollback that a person ordered is complete with a plan.
func settled(s Snapshot, p Plan) bool {
	return slices.ContainsFunc(p.Rollbacks, func(r v1alpha1.RollbackRecord) bool {
		open := !slices.ContainsFunc(s.Rollbacks, func(b v1alpha1.RollbackRecord) bool { return b.ID == r.ID && b.FinishedAt != nil })
		return open && r.Trigger == v1alpha1.TriggerRequested && r.Result == v1alpha1.RollbackComplete && p.Stable != nil && r.To == *p.Stable
	})
}

func isPaused(s Snapshot, p Plan) bool {
	return s.Paused || (p.Run != nil && p.Run.PauseOrder != nil)
}

// isOpen works out once more whether a cluster may be written forward; the
// windows of the simulation are in UTC.
func isOpen(s Snapshot, c *Cluster, now time.Time) bool {
	for _, f := range s.Strategy.Freezes {
		if !now.Before(f.From.Time) && now.Before(f.To.Time) {
			return false
		}
	}
	selected := false
	for _, w := range s.Strategy.Windows {
		if want, ok := w.ClusterSelector.MatchLabels["group"]; ok && want != c.Labels["group"] {
			continue
		}
		selected = true
		start, _ := time.Parse("15:04", w.Start)
		for back := range 9 {
			opens := now.UTC().Truncate(24*time.Hour).AddDate(0, 0, -back).Add(time.Duration(start.Hour())*time.Hour + time.Duration(start.Minute())*time.Minute)
			named := len(w.Days) == 0 || slices.Contains(w.Days, v1alpha1.Weekday(opens.Weekday().String()[:3]))
			if named && !now.Before(opens) && now.Before(opens.Add(time.Duration(w.DurationSeconds)*time.Second)) {
				return true
			}
		}
	}
	return !selected
}

// checkGates: no forward write outside a window, through a shut gate, to a
// cluster without a group, or of content that the cluster refused.
func (l *lawful) checkGates(s Snapshot, p Plan, w Write, c *Cluster) {
	if !isOpen(s, c, l.f.now) {
		l.fatalf(s, p, "forward write to %s outside its window", w.Cluster)
	}
	if isFresh(c) && c.Delivery.Status.State == v1alpha1.StateBlocked && c.Delivery.Spec.Removal == "" {
		about := c.Delivery.Status.Reason == v1alpha1.ReasonHeldByOther || c.Delivery.Status.Reason == v1alpha1.ReasonTooLarge
		if !about || c.Delivery.Spec.Revision.Digest == w.Spec.Revision.Digest {
			l.fatalf(s, p, "forward write to %s, whose delivery is blocked (law 17)", w.Cluster)
		}
	}
	if s.Strategy.Unmatched == v1alpha1.UnmatchedBlock && p.Run != nil && l.groupOf(p, c) == v1alpha1.UnmatchedGroup {
		l.fatalf(s, p, "forward write to %s, which no group selects (law 17)", w.Cluster)
	}
	if !isRunWrite(p, w) || w.Spec.Group != p.Run.Group {
		return
	}
	for _, g := range p.Run.FrozenGroups {
		if g.Name != w.Spec.Group || g.StepsOrDefault()[w.Spec.Step-1].Approval != v1alpha1.ApprovalRequired {
			continue
		}
		if !slices.ContainsFunc(p.Run.Approvals, func(a v1alpha1.Approval) bool {
			return a.Group == g.Name && a.Step == w.Spec.Step && a.Decision == v1alpha1.StepApproved
		}) {
			l.fatalf(s, p, "step %d of group %q is written without its approval (law 18)", w.Spec.Step, g.Name)
		}
	}
}

// checkStart: a revision that failed is tried again only on somebody's order
// (law 13), and an abort ends the run whatever else is ordered.
func (l *lawful) checkStart(s Snapshot, p Plan) {
	if p.Run == nil {
		return
	}
	if s.Run == nil || s.Run.Number != p.Run.Number {
		for _, r := range s.Revisions {
			if r.Digest == p.Run.Revision.Digest && r.Verdict == v1alpha1.VerdictFailed && !accepted(s, p, v1alpha1.VerbRetry) {
				l.fatalf(s, p, "run %d of %s, which is known to be bad, starts by itself (law 13)", p.Run.Number, r.Version)
			}
		}
		if len(p.Run.Approvals)+len(s.Actions) > 0 && len(p.Run.Approvals) > len(s.Actions) {
			l.fatalf(s, p, "run %d starts with approvals of another (law 14)", p.Run.Number)
		}
	}
	if accepted(s, p, v1alpha1.VerbAbort) && !accepted(s, p, v1alpha1.VerbRetry) && p.Run.Phase != v1alpha1.RunFailed {
		l.fatalf(s, p, "an aborted run is %s (law 18)", p.Run.Phase)
	}
	for _, r := range p.Rollbacks {
		ordered := r.Trigger == v1alpha1.TriggerAborted || r.Trigger == v1alpha1.TriggerRequested
		if ordered != (r.Action != "") || ordered != (r.Actor == "alice") {
			l.fatalf(s, p, "rollback %d, %s, is by %q with action %q", r.ID, r.Trigger, r.Actor, r.Action)
		}
	}
}
