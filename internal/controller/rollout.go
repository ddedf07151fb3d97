// Package controller holds the two reconcilers of the manager. The rollout
// controller thinks about a fleet and touches only small objects; the delivery
// controller thinks about one cluster.
package controller

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/liveness"
	"open-cluster-management.io/fleet-rollout/internal/observe"
	"open-cluster-management.io/fleet-rollout/internal/rollout"
)

const (
	// conflictDelay is when a reconcile is repeated after a write was refused
	// because its object had changed. The change itself usually wakes it sooner.
	conflictDelay = 50 * time.Millisecond
	// refusalDelay is when a write is tried again that waits for something no
	// watch tells of, such as a cluster's namespace.
	refusalDelay = 5 * time.Second
)

// RolloutReconciler moves a fleet from revision to revision: it observes, asks
// the planner, and carries its plan out. Facts are persisted before the writes
// that follow from them, so a manager that dies in between repeats a write and
// never a decision.
type RolloutReconciler struct {
	// Client reads from the manager's cache and writes to the hub.
	Client client.Client
	// Reader reads from the hub itself.
	Reader client.Reader
	// Liveness of the agents; the delivery reconciler feeds it.
	Liveness *liveness.Tracker
	// Clock is the hub's clock.
	Clock clock.PassiveClock
	// Recorder tells people what has happened.
	Recorder record.EventRecorder
	// MaxConcurrentReconciles is how many rollouts are worked on at the same
	// time. Defaults to 4.
	MaxConcurrentReconciles int

	observer *observe.Observer
	rollouts *observe.OwnWrites[*v1alpha1.FleetRollout]
	notes    notebook
}

// complete makes what the exported fields leave out.
func (r *RolloutReconciler) complete() {
	r.observer = observe.NewObserver(r.Client, r.Reader, r.Liveness, r.Clock)
	r.rollouts = observe.NewOwnWrites[*v1alpha1.FleetRollout](r.Clock)
	if r.MaxConcurrentReconciles == 0 {
		r.MaxConcurrentReconciles = 4
	}
}

// Reconcile brings one FleetRollout one decision further.
func (r *RolloutReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	fro, err := r.read(ctx, request.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	if fro == nil {
		return r.answerOrphans(ctx, request.NamespacedName)
	}
	if fro, err = r.ensureFinalizer(ctx, fro); fro == nil || err != nil {
		return quietly(err)
	}

	d, err := r.decide(ctx, fro)
	if err != nil {
		return quietly(err)
	}
	wake := &alarm{}
	wake.in(d.plan.RecheckAfter)
	if d.isWaitingForReads() {
		wake.in(refusalDelay)
	}

	if d.writesBesideStatus() {
		if err := r.fence(ctx, fro); err != nil {
			return quietly(err)
		}
	}
	if err := r.recordFailures(ctx, d.assigned); err != nil {
		return quietly(err)
	}
	ended, begun := d.verdicts()
	if err := r.recordVerdicts(ctx, d.observation.Revisions, ended); err != nil {
		return quietly(err)
	}
	later, err := r.persist(ctx, fro, d)
	if err != nil {
		return quietly(err)
	}
	if err := r.recordVerdicts(ctx, d.observation.Revisions, begun); err != nil {
		return quietly(err)
	}
	wake.in(later)
	r.announce(ctx, fro, d.plan.Events)

	outcome := r.carryOut(ctx, fro, d)
	wake.in(outcome.retryAfter)
	if outcome.err != nil {
		// Told here and not returned: with an error controller-runtime forgets
		// the wake-up, and a soak or a deadline would end late.
		log.FromContext(ctx).Error(outcome.err, "Some writes were refused")
		wake.in(refusalDelay)
		return wake.result(), nil
	}
	if fro.DeletionTimestamp != nil {
		return r.finish(ctx, fro, wake)
	}
	return wake.result(), nil
}

// decided is a plan, what it was made from, and what is to be written for it.
type decided struct {
	observation observe.Observation
	plan        rollout.Plan
	assigned    []assignment
	now         time.Time
}

// isWaitingForReads tells that what the plan lacks is told by no watch: a
// confirmation of removals, or the API server's consent to a new revision.
func (d decided) isWaitingForReads() bool {
	unconfirmed := d.plan.ConfirmRemovals && !d.observation.Snapshot.Membership.RemovalConfirmed
	return unconfirmed || d.observation.FreezeRefused
}

// writesBesideStatus tells that the plan writes to other objects than the
// FleetRollout, whose lock protects only its own status.
func (d decided) writesBesideStatus() bool {
	return len(d.assigned)+len(d.plan.Verdicts)+len(d.plan.Forget) > 0
}

// verdicts are the changes that must be written before the facts, because a run
// that takes the place of the last one hides them, and those of a run that goes
// on, which come after the facts: an attempt counts once it is persisted.
func (d decided) verdicts() (ended, begun []rollout.VerdictChange) {
	for _, change := range d.plan.Verdicts {
		if run := d.plan.Run; run != nil && run.EndedAt == nil && run.Revision.Name == change.Revision {
			begun = append(begun, change)
		} else {
			ended = append(ended, change)
		}
	}
	return ended, begun
}

// decide observes and plans.
func (r *RolloutReconciler) decide(ctx context.Context, fro *v1alpha1.FleetRollout) (decided, error) {
	observation, err := r.observer.Observe(ctx, fro)
	if err != nil {
		return decided{}, err
	}
	// Times are persisted in microseconds; a finer one would differ from itself
	// when it is read again.
	now := r.Clock.Now().Truncate(time.Microsecond)
	plan := r.plan(ctx, fro, &observation, now)
	return decided{observation, plan, assignments(fro, observation, plan), now}, nil
}

// read returns the newest known state of a FleetRollout, or nil if it is gone.
func (r *RolloutReconciler) read(ctx context.Context, key types.NamespacedName) (*v1alpha1.FleetRollout, error) {
	var fro v1alpha1.FleetRollout
	err := r.Client.Get(ctx, key, &fro)
	if apierrors.IsNotFound(err) {
		r.rollouts.Forget(key)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read rollout %s: %w", key, err)
	}
	return r.rollouts.Newer(&fro), nil
}

// plan asks the planner, and asks again with confirmed decisions if a removal
// depends on them.
func (r *RolloutReconciler) plan(ctx context.Context, fro *v1alpha1.FleetRollout, observation *observe.Observation, now time.Time) rollout.Plan {
	plan := rollout.Next(observation.Snapshot, now)
	if !plan.ConfirmRemovals {
		return plan
	}
	observation.Snapshot = r.observer.ConfirmMembership(ctx, fro, observation.Snapshot)
	if !observation.Snapshot.Membership.RemovalConfirmed {
		log.FromContext(ctx).Info("Removals wait: an uncached read of the decisions does not confirm them")
		return plan
	}
	confirmed := rollout.Next(observation.Snapshot, now)
	confirmed.ConfirmRemovals = true
	return confirmed
}

// quietly turns a refusal because an object has changed, or is gone, into a
// repeat: the next reconcile decides on what is there then.
func quietly(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ctrl.Result{RequeueAfter: conflictDelay}, nil
	}
	return ctrl.Result{}, err
}

// alarm keeps the earliest of several delays.
type alarm struct{ delay time.Duration }

// in asks for a reconcile after the delay; zero asks for none.
func (a *alarm) in(delay time.Duration) {
	if delay > 0 && (a.delay == 0 || delay < a.delay) {
		a.delay = delay
	}
}

func (a *alarm) result() ctrl.Result { return ctrl.Result{RequeueAfter: a.delay} }
