package rollout

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// fakeAction is a RolloutAction and what its status says.
type fakeAction struct {
	Action
	decided  bool
	outcome  v1alpha1.Cause
	complete *Completion
}

// order creates a RolloutAction about what its author sees: the run, or for a
// Retry the template's revision.
func (f *fleet) order(verb v1alpha1.Verb, change ...func(*v1alpha1.RolloutActionSpec)) *fakeAction {
	n := len(f.actions) + 1
	a := &fakeAction{Action: Action{
		Name: fmt.Sprintf("action-%03d", n), UID: types.UID(fmt.Sprintf("uid-%d", n)), CreatedAt: f.now.Truncate(time.Second),
		Spec: v1alpha1.RolloutActionSpec{Rollout: "payments", Verb: verb, Actor: "alice"},
	}}
	if f.run != nil {
		a.Spec.Revision, a.Spec.Attempt = f.run.Revision.Digest, f.run.Attempt
	}
	if r := f.revision(f.current); verb == v1alpha1.VerbRetry && r != nil && (f.run == nil || f.run.Revision.Digest != r.Digest) {
		a.Spec.Revision, a.Spec.Attempt = r.Digest, r.Attempts
	}
	for _, c := range change {
		c(&a.Spec)
	}
	f.actions = append(f.actions, a)
	f.dirty = true
	f.logf("order:    %s %s by %s%s", verb, a.Name, a.Spec.Actor, ofStep(a.Spec))
	return a
}

func ofStep(s v1alpha1.RolloutActionSpec) string {
	switch {
	case s.Group != "":
		return fmt.Sprintf(", step %d of %s", s.Step, s.Group)
	case s.ToRevision != nil:
		return fmt.Sprintf(", to revision %d", *s.ToRevision)
	}
	return ""
}

func stepOf(group string, n int32) func(*v1alpha1.RolloutActionSpec) {
	return func(s *v1alpha1.RolloutActionSpec) { s.Group, s.Step = group, n }
}

func toRevision(n int64) func(*v1alpha1.RolloutActionSpec) {
	return func(s *v1alpha1.RolloutActionSpec) { s.ToRevision = &n }
}

// obeyNow gives an order and lets the manager act on it.
func (f *fleet) obeyNow(verb v1alpha1.Verb, change ...func(*v1alpha1.RolloutActionSpec)) *fakeAction {
	f.t.Helper()
	a := f.order(verb, change...)
	f.tick(0)
	if !a.decided {
		f.t.Fatalf("%s was not decided", verb)
	}
	return a
}

// openActions are those that a manager would read.
func (f *fleet) openActions() []Action {
	var list []Action
	for _, a := range f.actions {
		if !a.decided || (a.Accepted && a.complete == nil) {
			list = append(list, a.Action)
		}
	}
	return list
}

// tellActions writes what became of actions on their status; it tells whether
// it came to its end.
func (f *fleet) tellActions(plan Plan) bool {
	for _, uid := range plan.HandledActions {
		f.obeyed[uid] = true
	}
	for _, o := range plan.Actions {
		if f.crashes() {
			return false
		}
		a := f.actions[slices.IndexFunc(f.actions, func(a *fakeAction) bool { return a.UID == o.UID })]
		if !a.decided {
			a.decided, a.Accepted, a.outcome = true, o.Accepted, o.Cause
		}
		a.complete, f.dirty = o.Complete, true
		if o.Complete != nil {
			f.logf("order:    %s %s complete %v, %s: %s", a.Spec.Verb, a.Name, o.Complete.Done, o.Complete.Cause.Reason, o.Complete.Cause.Message)
		}
	}
	return true
}
