package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/observe"
	"open-cluster-management.io/fleet-rollout/internal/rollout"
)

// writeWorkers is how many deliveries of a rollout are written at the same
// time: enough to keep the API server of a hub busy, and no more.
const writeWorkers = 16

// outcome is what came of carrying out a plan.
type outcome struct {
	// retryAfter is when what could not be written yet is tried again.
	retryAfter time.Duration
	// err is anything that should not happen.
	err error
}

// recordFailures writes which clusters count as failed from now on. It comes
// before the facts that follow from them: once a step is left, what showed the
// failure is no longer counted. A cluster that cannot be written for another
// reason than a newer version must not hold up the others' way back.
func (r *RolloutReconciler) recordFailures(ctx context.Context, assigned []assignment) error {
	var failed []assignment
	for _, a := range assigned {
		if a.isFailure {
			failed = append(failed, a)
		}
	}
	for _, result := range r.writeAll(ctx, failed) {
		switch {
		case result.err == nil:
		case apierrors.IsNotFound(result.err):
			log.FromContext(ctx).Info("A cluster that failed is gone", "cluster", result.cluster)
		default:
			// Without the record the failure would be forgotten with the step.
			return fmt.Errorf("record that cluster %q failed: %w", result.cluster, result.err)
		}
	}
	return nil
}

// carryOut writes what the plan orders, now that its facts are persisted. A
// cluster whose write fails holds up no other.
func (r *RolloutReconciler) carryOut(ctx context.Context, fro *v1alpha1.FleetRollout, d decided) outcome {
	wake := &alarm{}
	var errs []error
	note := func(err error) {
		switch {
		case err == nil:
		case apierrors.IsConflict(err):
			wake.in(conflictDelay)
		default:
			errs = append(errs, err)
		}
	}

	// Answers first: somebody waits for them.
	note(r.answerActions(ctx, d))
	var intents []assignment
	for _, a := range d.assigned {
		if !a.isFailure {
			intents = append(intents, a)
		}
	}
	results := r.writeAll(ctx, intents)
	r.noteRefusals(fro, results, wake)
	for _, result := range results {
		switch {
		case result.err == nil:
		case result.isOutdated():
			wake.in(conflictDelay)
		case result.waitsForCluster():
			wake.in(refusalDelay)
		default:
			errs = append(errs, result.err)
		}
	}
	note(r.forgetDeliveries(ctx, d.observation, d.plan.Forget))
	if fro.DeletionTimestamp == nil && len(errs) == 0 {
		note(r.trimHistory(ctx, fro, d.observation, d.plan))
		note(r.trimActions(ctx, d.observation))
	}
	return outcome{retryAfter: wake.delay, err: errors.Join(errs...)}
}

// assignment is a RolloutDelivery as it shall be.
type assignment struct {
	delivery *v1alpha1.RolloutDelivery
	cause    v1alpha1.Cause
	// isFailure tells that it records a failure, and no intent.
	isFailure bool
	attempt   func(ctx context.Context, c client.Client, delivery *v1alpha1.RolloutDelivery) error
}

// assignments turns the plan's writes, removals, failures and absences into
// deliveries, at most one per cluster, in the plan's order, and only those that
// differ from what is there.
func assignments(fro *v1alpha1.FleetRollout, observation observe.Observation, plan rollout.Plan) []assignment {
	byCluster := map[string]*assignment{}
	var order []string
	take := func(cluster string) *assignment {
		if a := byCluster[cluster]; a != nil {
			return a
		}
		a := &assignment{delivery: newDelivery(fro, cluster), attempt: create}
		if present := observation.Deliveries[cluster]; present != nil {
			a.delivery, a.attempt = present.DeepCopy(), update
		}
		byCluster[cluster] = a
		order = append(order, cluster)
		return a
	}

	for _, write := range plan.Writes {
		a := take(write.Cluster)
		a.delivery.Spec = *write.Spec.DeepCopy()
		a.delivery.Spec.Rollout = referenceTo(fro)
		a.cause = write.Cause
	}
	for _, removal := range plan.Removals {
		if observation.Deliveries[removal.Cluster] == nil {
			continue
		}
		a := take(removal.Cluster)
		a.delivery.Spec.Removal = removal.Policy
		a.cause = removal.Cause
	}
	for _, failure := range plan.Failures {
		if observation.Deliveries[failure.Cluster] == nil {
			continue
		}
		a := take(failure.Cluster)
		a.delivery.Spec.Failure = failure.Cause.DeepCopy()
		a.cause = failure.Cause
		a.isFailure = true
	}
	for _, absence := range plan.Absences {
		if observation.Deliveries[absence.Cluster] == nil {
			continue
		}
		a := take(absence.Cluster)
		a.delivery.Spec.AbsentSince = nil
		if !absence.Since.IsZero() {
			since := metav1.NewMicroTime(absence.Since)
			a.delivery.Spec.AbsentSince = &since
		}
	}

	var result []assignment
	for _, cluster := range order {
		a := byCluster[cluster]
		if present := observation.Deliveries[cluster]; present != nil && apiequality.Semantic.DeepEqual(present.Spec, a.delivery.Spec) {
			continue
		}
		result = append(result, *a)
	}
	return result
}

func newDelivery(fro *v1alpha1.FleetRollout, cluster string) *v1alpha1.RolloutDelivery {
	return &v1alpha1.RolloutDelivery{ObjectMeta: metav1.ObjectMeta{
		Namespace: cluster,
		Name:      v1alpha1.DeliveryName(fro.Namespace, fro.Name),
		Labels: map[string]string{
			v1alpha1.LabelRolloutNamespace: fro.Namespace,
			v1alpha1.LabelRolloutName:      fro.Name,
			v1alpha1.LabelRolloutUID:       string(fro.UID),
		},
	}}
}

func referenceTo(fro *v1alpha1.FleetRollout) v1alpha1.RolloutReference {
	return v1alpha1.RolloutReference{Namespace: fro.Namespace, Name: fro.Name, UID: fro.UID}
}

// create fails if the delivery exists: the cache lags, or it is not ours. The
// next observation tells which.
func create(ctx context.Context, c client.Client, delivery *v1alpha1.RolloutDelivery) error {
	return c.Create(ctx, delivery)
}

// update carries the resourceVersion it is based on, so that a newer intent is
// never overwritten by an older one.
func update(ctx context.Context, c client.Client, delivery *v1alpha1.RolloutDelivery) error {
	return c.Update(ctx, delivery)
}

// written is what came of one assignment.
type written struct {
	cluster string
	// based is the resourceVersion that the write was based on; empty for a
	// creation.
	based string
	err   error
}

// isOutdated tells that the write was based on a state that has passed.
func (w written) isOutdated() bool {
	return apierrors.IsConflict(w.err) || apierrors.IsAlreadyExists(w.err) ||
		(apierrors.IsNotFound(w.err) && w.based != "")
}

// waitsForCluster tells that the namespace of the cluster is not there yet, or
// going.
func (w written) waitsForCluster() bool {
	return apierrors.IsNotFound(w.err) || apierrors.HasStatusCause(w.err, corev1.NamespaceTerminatingCause)
}

// writeAll writes the assignments, the first of them first.
func (r *RolloutReconciler) writeAll(ctx context.Context, all []assignment) []written {
	results := make([]written, len(all))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(writeWorkers, len(all)) {
		workers.Go(func() {
			for i := range next {
				results[i] = r.write(ctx, all[i])
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	workers.Wait()
	return results
}

func (r *RolloutReconciler) write(ctx context.Context, a assignment) written {
	cluster, based := a.delivery.Namespace, a.delivery.ResourceVersion
	if err := a.attempt(ctx, r.Client, a.delivery); err != nil {
		return written{cluster: cluster, based: based, err: fmt.Errorf("write delivery of cluster %q: %w", cluster, err)}
	}
	r.observer.Deliveries.Remember(a.delivery)
	spec := a.delivery.Spec
	log.FromContext(ctx).Info("Wrote delivery", "cluster", cluster, "revision", spec.Revision.Number, "version", spec.Revision.Version,
		"delivery", spec.Delivery, "direction", spec.Direction, "removal", spec.Removal, "reason", a.cause.Reason, "message", a.cause.Message)
	return written{cluster: cluster}
}

// noteRefusals keeps what the API said about writes that cannot succeed for
// now; the next status names their clusters.
func (r *RolloutReconciler) noteRefusals(fro *v1alpha1.FleetRollout, results []written, wake *alarm) {
	refusals := map[string]v1alpha1.Cause{}
	for _, result := range results {
		if result.err == nil || result.isOutdated() {
			continue
		}
		refusals[result.cluster] = v1alpha1.Cause{
			Reason:  v1alpha1.ReasonWriteRefused,
			Message: fmt.Sprintf("the hub refused its RolloutDelivery, and it is tried again: %s", apiMessage(result.err)),
		}
	}
	if !apiequality.Semantic.DeepEqual(refusals, r.notes.refusals(fro.UID)) {
		r.notes.noteRefusals(fro.UID, refusals)
		// The status that was just written does not know them.
		wake.in(conflictDelay)
	}
}

// apiMessage is the API server's own words, where there are any.
func apiMessage(err error) string {
	var refused apierrors.APIStatus
	if errors.As(err, &refused) {
		return refused.Status().Message
	}
	return err.Error()
}
