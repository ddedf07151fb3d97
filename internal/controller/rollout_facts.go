package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/rollout"
	"open-cluster-management.io/fleet-rollout/internal/status"
)

// countsPause is how long a status that differs only in counters and words may
// wait for the next difference. While a thousand clusters move, the hub's
// writes belong to them.
const countsPause = 250 * time.Millisecond

// persist writes the status: the plan's facts, and the conditions and counters
// that follow from them, in one write, refused if the FleetRollout has changed
// since it was read. If only counters are left to write, it may ask to be
// called again later instead.
func (r *RolloutReconciler) persist(ctx context.Context, fro *v1alpha1.FleetRollout, d decided) (later time.Duration, err error) {
	next := status.Project(status.Input{
		Previous: fro.Status,
		Snapshot: d.observation.Snapshot,
		Plan:     d.plan,
		Refusals: r.notes.refusals(fro.UID),
		Now:      d.now,
	})
	if status.Equal(fro.Status, next) {
		return 0, nil
	}
	if since := d.now.Sub(r.notes.statusWrittenAt(fro.UID)); status.SameFacts(fro.Status, next) && since < countsPause {
		return countsPause - since, nil
	}

	updated := fro.DeepCopy()
	updated.Status = next
	if err := r.Client.Status().Update(ctx, updated); err != nil {
		return 0, fmt.Errorf("write status of rollout %s/%s: %w", fro.Namespace, fro.Name, err)
	}
	r.rollouts.Remember(updated)
	r.notes.noteStatusWrite(fro.UID, d.now)
	return 0, nil
}

// fence makes sure that the plan was made from the present FleetRollout. A
// manager that was frozen past its Lease and thaws still believes that it
// leads, for a moment; its cache is as old as its sleep, and the one that took
// over has written to the FleetRollout since.
func (r *RolloutReconciler) fence(ctx context.Context, fro *v1alpha1.FleetRollout) error {
	var live v1alpha1.FleetRollout
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(fro), &live); err != nil {
		return fmt.Errorf("read rollout %s/%s uncached: %w", fro.Namespace, fro.Name, err)
	}
	if live.ResourceVersion != fro.ResourceVersion {
		return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("fleetrollouts").GroupResource(), fro.Name,
			fmt.Errorf("the plan was made from resource version %s, and %s is present", fro.ResourceVersion, live.ResourceVersion))
	}
	return nil
}

// ensureFinalizer makes sure that the works of a rollout can be removed before
// it goes. It returns nil for a rollout that is going and needs nothing more.
func (r *RolloutReconciler) ensureFinalizer(ctx context.Context, fro *v1alpha1.FleetRollout) (*v1alpha1.FleetRollout, error) {
	has := controllerutil.ContainsFinalizer(fro, v1alpha1.Finalizer)
	switch {
	case has:
		return fro, nil
	case fro.DeletionTimestamp != nil:
		return nil, nil
	}
	patched := fro.DeepCopy()
	controllerutil.AddFinalizer(patched, v1alpha1.Finalizer)
	if err := r.Client.Patch(ctx, patched, client.MergeFromWithOptions(fro, client.MergeFromWithOptimisticLock{})); err != nil {
		return nil, fmt.Errorf("add finalizer to rollout %s/%s: %w", fro.Namespace, fro.Name, err)
	}
	r.rollouts.Remember(patched)
	return patched, nil
}

// recordVerdicts writes what became of revisions. It comes before the other
// facts: those may already be about a new run, from which the verdict on the one
// before could not be told any more.
func (r *RolloutReconciler) recordVerdicts(ctx context.Context, revisions map[string]*v1alpha1.RolloutRevision, changes []rollout.VerdictChange) error {
	now := r.Clock.Now().Truncate(time.Microsecond)
	for _, change := range changes {
		present := revisions[change.Revision]
		if present == nil {
			continue
		}
		updated := present.DeepCopy()
		updated.Status = status.Verdict(present.Status, change, now)
		if status.EqualVerdict(present.Status, updated.Status) {
			continue
		}
		if err := r.Client.Status().Update(ctx, updated); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("write verdict of revision %s/%s: %w", present.Namespace, present.Name, err)
		}
		r.observer.Revisions.Remember(updated)
		log.FromContext(ctx).Info("Recorded verdict", "revision", change.Revision, "verdict", change.Verdict,
			"reason", change.Cause.Reason, "message", change.Cause.Message)
	}
	return nil
}

// notebook holds what the reconciler need not know to be right: hints that a
// restart may lose.
type notebook struct {
	mu    sync.Mutex
	pages map[types.UID]*page
}

type page struct {
	statusWrittenAt time.Time
	refusals        map[string]v1alpha1.Cause
}

func (n *notebook) page(uid types.UID) *page {
	if n.pages == nil {
		n.pages = map[types.UID]*page{}
	}
	if n.pages[uid] == nil {
		n.pages[uid] = &page{}
	}
	return n.pages[uid]
}

func (n *notebook) statusWrittenAt(uid types.UID) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.page(uid).statusWrittenAt
}

func (n *notebook) noteStatusWrite(uid types.UID, at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.page(uid).statusWrittenAt = at
}

// refusals are the writes that the API refused when they were last tried.
func (n *notebook) refusals(uid types.UID) map[string]v1alpha1.Cause {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.page(uid).refusals
}

func (n *notebook) noteRefusals(uid types.UID, refusals map[string]v1alpha1.Cause) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.page(uid).refusals = refusals
}

func (n *notebook) tearOut(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.pages, uid)
}
