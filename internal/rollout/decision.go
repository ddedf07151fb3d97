package rollout

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// decision is the working state of one call of Next.
type decision struct {
	in   *Snapshot
	now  time.Time
	plan Plan

	// run and stable are working copies of the persisted facts.
	run    *v1alpha1.Run
	stable *v1alpha1.RevisionReference

	// superseded is the run that this call ended for a newer revision, or for
	// the stable one; nil otherwise.
	superseded *v1alpha1.Run
	// reverted tells that superseded ended without a successor.
	reverted *v1alpha1.Cause
	// hindrance says why no run starts although the template asks for one.
	hindrance *v1alpha1.Cause

	// rollbacks are working copies, oldest first.
	rollbacks []v1alpha1.RollbackRecord

	// actions in the order in which they are obeyed, and the UIDs of those
	// whose effect is in the facts.
	actions []Action
	handled []types.UID

	// removal is a person's word that clusters may go although none is selected.
	removal *v1alpha1.Order

	// left is the revision that stopped being stable with this plan, because a
	// rollback that a person ordered is complete, and leftCause that order.
	left      *v1alpha1.RevisionReference
	leftCause v1alpha1.Cause

	// calendar is read when the first cluster asks for it.
	calendar *calendar

	groups  []group
	members []member

	// base is how many clusters belong to the rollout.
	base int
	// failed is how many of the run's clusters count as failed.
	failed int

	// goingBack is how many clusters occupy a place of rollback.maxConcurrent.
	goingBack int

	// held says why absent clusters are not removed.
	held *v1alpha1.Cause

	// lease remembers the time left as of a step, which all clusters that the
	// step admits share.
	lease struct {
		group *group
		step  int32
		left  time.Duration
	}

	waiting []v1alpha1.Waiting
	wakeAt  time.Time
}

func newDecision(in *Snapshot, now time.Time) *decision {
	d := &decision{in: in, now: now}
	if in.Run != nil {
		d.run = in.Run.DeepCopy()
		d.run.WaitingFor, d.run.Groups = nil, nil
	}
	if in.Stable != nil {
		stable := *in.Stable
		d.stable = &stable
	}
	d.rollbacks = make([]v1alpha1.RollbackRecord, len(in.Rollbacks))
	for i := range in.Rollbacks {
		in.Rollbacks[i].DeepCopyInto(&d.rollbacks[i])
	}
	if in.RemovalConfirmation != nil {
		removal := *in.RemovalConfirmation
		d.removal = &removal
	}
	return d
}

// stamp is this moment as it is persisted: in microseconds, so that it reads
// back as it was written.
func (d *decision) stamp() metav1.MicroTime {
	return metav1.NewMicroTime(d.now.Truncate(time.Microsecond))
}

func (d *decision) stampPointer() *metav1.MicroTime {
	stamp := d.stamp()
	return &stamp
}

// wake asks to be called again at the given moment, if it lies ahead.
func (d *decision) wake(at time.Time) {
	if at.After(d.now) && (d.wakeAt.IsZero() || at.Before(d.wakeAt)) {
		d.wakeAt = at
	}
}

// going tells that a run has not ended. A halted run has not: it waits.
func (d *decision) going() bool {
	return d.run != nil && (d.run.Phase == v1alpha1.RunProgressing || d.run.Phase == v1alpha1.RunHalted)
}

// progressing tells that the run may admit clusters and leave steps.
func (d *decision) progressing() bool {
	return d.run != nil && d.run.Phase == v1alpha1.RunProgressing
}

// mayGoForward tells whether forward writes and the steps of a run are allowed
// now (laws 4 and 18). Without complete decisions nobody knows how large a
// group is; a paused run changes nothing, so that it goes on where it was.
func (d *decision) mayGoForward() bool {
	return d.in.Membership.Complete && !d.isPaused() && !d.in.Deleting
}

// revision finds a retained revision by its digest; nil if it is not retained.
func (d *decision) revision(digest string) *Revision {
	if d.in.Current != nil && d.in.Current.Digest == digest {
		return d.in.Current
	}
	for i := range d.in.Revisions {
		if d.in.Revisions[i].Digest == digest {
			return &d.in.Revisions[i]
		}
	}
	return nil
}

// problemOf says why a revision cannot be delivered; nil if it can. The
// snapshot names the retained revisions; one that is not among them is taken
// for retained as long as nothing else is known, because the delivery
// controller refuses to render what it cannot load.
func (d *decision) problemOf(digest string) *v1alpha1.Cause {
	if r := d.revision(digest); r != nil {
		return r.Problem
	}
	return nil
}

// isStable tells that a digest is that of the stable revision.
func (d *decision) isStable(digest string) bool {
	return d.stable != nil && d.stable.Digest == digest
}

func milliseconds(n int64) time.Duration {
	return time.Duration(n) * time.Millisecond
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func stampOf(t time.Time) *metav1.MicroTime {
	if t.IsZero() {
		return nil
	}
	stamp := metav1.NewMicroTime(t)
	return &stamp
}

func timeOf(t *metav1.MicroTime) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
