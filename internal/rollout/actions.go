package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// maxHandled is how many orders may be stored in the rollout while their own
// status does not say so yet; further ones wait for the next plan.
const maxHandled = 100

// ruling is what the planner makes of an order.
type ruling struct {
	accepted bool
	cause    v1alpha1.Cause
}

func took(format string, args ...any) ruling {
	return ruling{accepted: true, cause: v1alpha1.Cause{Reason: v1alpha1.ReasonAccepted, Message: clip(fmt.Sprintf(format, args...))}}
}

func noEffect(format string, args ...any) ruling {
	return ruling{accepted: true, cause: v1alpha1.Cause{Reason: v1alpha1.ReasonNoEffect, Message: clip(fmt.Sprintf(format, args...))}}
}

func refused(reason, format string, args ...any) ruling {
	return ruling{cause: v1alpha1.Cause{Reason: reason, Message: clip(fmt.Sprintf(format, args...))}}
}

// obeyActions carries out the orders of people, in order of their creation
// (law 18). Their effect goes into the facts together with their UIDs, and only
// then onto their own status, so that a crash in between applies none twice.
func (d *decision) obeyActions() {
	d.actions = slices.Clone(d.in.Actions)
	slices.SortStableFunc(d.actions, func(a, b Action) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.Name, b.Name))
	})
	d.keepHandled()
	for i := range d.actions {
		a := &d.actions[i]
		switch {
		case a.Accepted:
		case slices.Contains(d.handled, a.UID):
			d.rule(a, took("the order was carried out before the manager restarted; what it changed is in status.run and status.rollbacks"))
		case len(d.handled) >= maxHandled:
			d.wake(d.now.Add(time.Second))
			return
		default:
			d.obey(a)
		}
	}
}

// keepHandled keeps the UIDs of orders whose status does not say Accepted yet.
func (d *decision) keepHandled() {
	for _, uid := range d.in.HandledActions {
		if slices.ContainsFunc(d.actions, func(a Action) bool { return a.UID == uid && !a.Accepted }) {
			d.handled = append(d.handled, uid)
		}
	}
}

func (d *decision) obey(a *Action) {
	r := d.carryOutOrder(a)
	if r.accepted {
		d.handled = append(d.handled, a.UID)
	}
	d.rule(a, r)
	said := fmt.Sprintf("%s by %s (action %s): %s", a.Spec.Verb, a.Spec.Actor, a.Name, r.cause.Message)
	switch {
	case !r.accepted:
		d.warn(EventActionRefused, said)
	default:
		d.note(EventActionAccepted, said)
	}
}

func (d *decision) rule(a *Action, r ruling) {
	d.plan.Actions = append(d.plan.Actions, ActionOutcome{Name: a.Name, UID: a.UID, Accepted: r.accepted, Cause: r.cause})
}

func (d *decision) carryOutOrder(a *Action) ruling {
	if d.in.Deleting {
		return refused(v1alpha1.ReasonVoid, "rollout %s is being deleted", d.in.Name)
	}
	if r := d.void(a); r != nil {
		return *r
	}
	switch a.Spec.Verb {
	case v1alpha1.VerbApprove:
		return d.decideStep(a, v1alpha1.StepApproved)
	case v1alpha1.VerbReject:
		return d.decideStep(a, v1alpha1.StepRejected)
	case v1alpha1.VerbPause:
		return d.pause(a)
	case v1alpha1.VerbResume:
		return d.resume()
	case v1alpha1.VerbPromote:
		return d.promote(a)
	case v1alpha1.VerbAbort:
		return d.abort(a)
	case v1alpha1.VerbRollback:
		return d.orderRollback(a)
	case v1alpha1.VerbRetry:
		return d.retry()
	case v1alpha1.VerbConfirmRemoval:
		return d.confirmRemoval(a)
	}
	return refused(v1alpha1.ReasonVoid, "spec.verb %q is not a verb that this version knows", a.Spec.Verb)
}

// void refuses an order that is about another revision or attempt than the
// present one: that of the run, or of the template for a Retry.
func (d *decision) void(a *Action) *ruling {
	digest, attempt, what := d.present(a.Spec.Verb)
	var r ruling
	switch {
	case digest == "":
		r = refused(v1alpha1.ReasonVoid, "rollout %s has no run yet that an order could be about", d.in.Name)
	case a.Spec.Revision != digest || a.Spec.Attempt != attempt:
		r = refused(v1alpha1.ReasonVoid, "the order is about attempt %d of revision %s; the present one is %s: attempt %d of revision %s", a.Spec.Attempt, a.Spec.Revision, what, attempt, digest)
	default:
		return nil
	}
	return &r
}

func (d *decision) present(verb v1alpha1.Verb) (digest string, attempt int32, what string) {
	if current := d.in.Current; verb == v1alpha1.VerbRetry && current != nil && (d.run == nil || d.run.Revision.Digest != current.Digest) {
		return current.Digest, current.Attempts, "the template's, " + current.Version
	}
	if d.run == nil {
		return "", 0, ""
	}
	return d.run.Revision.Digest, d.run.Attempt, d.runInWords()
}

func (d *decision) runInWords() string {
	return fmt.Sprintf("run %d of %s", d.run.Number, d.run.Revision.Version)
}

func (d *decision) order(a *Action) v1alpha1.Order {
	return v1alpha1.Order{Action: a.Name, Actor: a.Spec.Actor, At: d.stamp(), Reason: a.Spec.Reason}
}

// because adds the author's own words to a sentence.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return fmt.Sprintf(" (%s)", reason)
}

// completeActions says of accepted orders that what they asked for is done, or
// will never be.
func (d *decision) completeActions() {
	for i := range d.actions {
		a := &d.actions[i]
		if !a.Accepted && !slices.Contains(d.handled, a.UID) {
			continue
		}
		at := slices.IndexFunc(d.plan.Actions, func(o ActionOutcome) bool { return o.UID == a.UID })
		if at < 0 {
			done := d.completion(a)
			if done == nil {
				continue
			}
			d.plan.Actions = append(d.plan.Actions, ActionOutcome{Name: a.Name, UID: a.UID, Accepted: true, Complete: done})
			continue
		}
		if o := &d.plan.Actions[at]; o.Cause.Reason == v1alpha1.ReasonNoEffect {
			o.Complete = &Completion{Done: true, Cause: o.Cause}
		} else {
			o.Complete = d.completion(a)
		}
	}
}

func done(message string) *Completion {
	return &Completion{Done: true, Cause: v1alpha1.Cause{Reason: v1alpha1.ReasonDone, Message: message}}
}

func overtaken(message string) *Completion {
	return &Completion{Cause: v1alpha1.Cause{Reason: v1alpha1.ReasonOvertaken, Message: message}}
}

// completion of an order that has taken effect; nil while it is not known.
func (d *decision) completion(a *Action) *Completion {
	switch a.Spec.Verb {
	case v1alpha1.VerbPromote:
		return d.promoteCompletion(a)
	case v1alpha1.VerbAbort, v1alpha1.VerbRollback:
		return d.rollbackCompletion(a)
	case v1alpha1.VerbConfirmRemoval:
		return d.removalCompletion(a)
	}
	return done("the order has taken effect")
}

func (d *decision) promoteCompletion(a *Action) *Completion {
	if d.run == nil || d.run.Revision.Digest != a.Spec.Revision || d.run.Attempt != a.Spec.Attempt {
		return overtaken("the run ended before the step was left")
	}
	if p := d.run.Promotion; p != nil && p.Action == a.Name {
		return nil
	}
	if d.run.Phase != v1alpha1.RunProgressing && d.run.Phase != v1alpha1.RunSucceeded {
		return overtaken(fmt.Sprintf("%s is %s", d.runInWords(), d.run.Phase))
	}
	return done("the step was left")
}

func (d *decision) rollbackCompletion(a *Action) *Completion {
	for i := range d.rollbacks {
		r := &d.rollbacks[i]
		if r.Action != a.Name {
			continue
		}
		switch r.Result {
		case v1alpha1.RollbackComplete:
			return done(fmt.Sprintf("rollback %d is complete: %s restored on %s", r.ID, clusters(int(r.Restored)), r.To.Version))
		case v1alpha1.RollbackSuperseded:
			return overtaken(fmt.Sprintf("rollback %d ended with %d of %s restored, because something newer took over what was left", r.ID, r.Restored, clusters(int(r.Clusters))))
		}
		return nil
	}
	return done("no cluster had to go back")
}
