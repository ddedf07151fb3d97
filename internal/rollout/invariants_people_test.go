package rollout

import (
	"slices"
	"strings"

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
