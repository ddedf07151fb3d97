package rollout

import (
	"fmt"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// decideVerdicts compares the verdicts on the revisions with what became of
// their runs, so that a verdict lost in a crash is written later. Nothing but
// a finished rollback that a person ordered takes Succeeded away (law 10).
func (d *decision) decideVerdicts() {
	seen := false
	for i := range d.in.Revisions {
		d.decideVerdict(&d.in.Revisions[i])
		seen = seen || (d.in.Current != nil && d.in.Revisions[i].Digest == d.in.Current.Digest)
	}
	if d.in.Current != nil && !seen {
		d.decideVerdict(d.in.Current)
	}
}

func (d *decision) decideVerdict(r *Revision) {
	before := r.Verdict
	if before == "" {
		before = v1alpha1.VerdictCandidate
	}
	change := VerdictChange{Revision: r.Name, Verdict: before, Attempts: r.Attempts}
	if old := d.superseded; old != nil && old.Revision.Digest == r.Digest {
		change.Attempts = max(change.Attempts, old.Attempt)
		change.give(v1alpha1.VerdictSuperseded, v1alpha1.Cause{
			Reason:  v1alpha1.ReasonSuperseded,
			Message: fmt.Sprintf("run %d ended because the template changed", old.Number),
		})
	}
	isLast := d.run != nil && d.run.Revision.Digest == r.Digest
	if isLast {
		change.Attempts = max(change.Attempts, d.run.Attempt)
		d.verdictOfLastRun(&change)
	}
	if !isLast && change.Verdict == v1alpha1.VerdictCandidate && change.Attempts > 0 {
		change.give(v1alpha1.VerdictSuperseded, v1alpha1.Cause{
			Reason:  v1alpha1.ReasonSuperseded,
			Message: "a newer revision took the place of its run",
		})
	}
	if !isLast && before == v1alpha1.VerdictCandidate && d.isStable(r.Digest) {
		// Its record was deleted and made again.
		change.Verdict, change.Cause = v1alpha1.VerdictSucceeded, v1alpha1.Cause{
			Reason:  v1alpha1.ReasonSucceeded,
			Message: "it is the stable revision; its record was made again",
		}
	}
	if d.left != nil && d.left.Digest == r.Digest {
		change.Verdict, change.Cause = v1alpha1.VerdictFailed, d.leftCause
	}
	if change.Verdict != before || change.Attempts != r.Attempts {
		d.plan.Verdicts = append(d.plan.Verdicts, change)
	}
}

func (d *decision) verdictOfLastRun(change *VerdictChange) {
	cause := v1alpha1.Cause{}
	if d.run.HaltCause != nil {
		cause = *d.run.HaltCause
	}
	switch d.run.Phase {
	case v1alpha1.RunSucceeded:
		if d.wasLeft() {
			return
		}
		change.give(v1alpha1.VerdictSucceeded, v1alpha1.Cause{
			Reason:  v1alpha1.ReasonSucceeded,
			Message: fmt.Sprintf("run %d proved it on the fleet", d.run.Number),
		})
	case v1alpha1.RunFailed:
		change.give(v1alpha1.VerdictFailed, cause)
	case v1alpha1.RunSuperseded:
		change.give(v1alpha1.VerdictSuperseded, cause)
	}
}

// give sets a verdict, unless the revision has Succeeded once. One that failed
// stays known to be bad even if its next attempt is superseded.
func (c *VerdictChange) give(verdict v1alpha1.Verdict, cause v1alpha1.Cause) {
	if c.Verdict == v1alpha1.VerdictSucceeded || c.Verdict == verdict {
		return
	}
	if c.Verdict == v1alpha1.VerdictFailed && verdict == v1alpha1.VerdictSuperseded {
		return
	}
	c.Verdict, c.Cause = verdict, cause
}
