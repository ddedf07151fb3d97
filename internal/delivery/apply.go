package delivery

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/clock"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/pkg/content"
	"open-cluster-management.io/fleet-rollout/pkg/workbuilder"
)

// Applier writes the ManifestWorks of deliveries. It is safe for concurrent use
// on different deliveries.
type Applier struct {
	client   client.Client
	reader   client.Reader
	payloads *Payloads
	clock    clock.PassiveClock

	intents intents

	// claiming serialises, per cluster, looking who holds an object and
	// recording that we do.
	claiming [64]sync.Mutex
}

// NewApplier returns an applier that writes with writer, whose reads may come
// from a cache, and reads with reader from the hub itself.
func NewApplier(writer client.Client, reader client.Reader, clock clock.PassiveClock) *Applier {
	return &Applier{client: writer, reader: reader, payloads: NewPayloads(reader), clock: clock}
}

// Task is one delivery to be carried out.
type Task struct {
	// Delivery as it is recorded; its status is renewed by each record.
	Delivery *v1alpha1.RolloutDelivery
	// Cluster of the delivery.
	Cluster Cluster
	// Agent on the cluster, which answers the preflight.
	Agent Agent
	// Run of its rollout.
	Run RunClock
	// Works of the rollout on the cluster as the cache has them.
	Works []*workv1.ManifestWork
}

// Outcome is where a task stands.
type Outcome struct {
	// Status to be judged from. It may hold more than what is recorded.
	Status v1alpha1.RolloutDeliveryStatus
	// Works as they are now.
	Works []*workv1.ManifestWork
	// Obstacle is why they are not as the spec wants them; nil if they are.
	Obstacle *Obstacle
	// Refused is the hub's refusal behind an obstacle, to be tried again with
	// growing delay; nil otherwise.
	Refused error
}

// Apply brings the works of a delivery one step nearer to its spec: at most one
// record in status and one write of the works. Where nothing is to be done, and
// that is the rule, it reads nothing from the hub and writes nothing. The error
// is one for which IsStale holds, or a failed read or write that is worth
// another try; refusals are no errors but obstacles.
func (a *Applier) Apply(ctx context.Context, task *Task) (Outcome, error) {
	if isSettled(task) {
		return Outcome{Status: a.withIntentDrift(ctx, task), Works: task.Works}, nil
	}
	if !task.Cluster.Exists || task.Cluster.Deleting {
		return a.hold(task), nil
	}
	present, obstacle, err := a.present(ctx, task)
	if err != nil {
		return Outcome{}, err
	}
	if obstacle != nil {
		status := taken(task.Delivery)
		if isInPreflight(task.Delivery) && len(present) == 0 {
			// What is not on the cluster is not ours to hold while we cannot write.
			status = unrendered(status)
		}
		return Outcome{Status: status, Works: present, Obstacle: obstacle}, nil
	}
	if err := a.checkFresh(ctx, task, present); err != nil {
		return Outcome{}, err
	}
	r, obstacle, err := a.render(ctx, task, present)
	if err != nil {
		return Outcome{}, err
	}
	if obstacle != nil {
		return a.obstructed(task, present, obstacle), nil
	}
	if isInPreflight(task.Delivery) {
		rendering, waiting, err := a.conclude(ctx, task, r, present)
		switch {
		case err != nil:
			return Outcome{}, err
		case waiting != nil:
			return *waiting, nil
		}
		return a.write(ctx, task, rendering, present)
	}
	switch obstacle, err := a.record(ctx, task, r, present); {
	case err != nil:
		return Outcome{}, err
	case obstacle != nil:
		return a.obstructed(task, present, obstacle), nil
	case isInPreflight(task.Delivery):
		return Outcome{Status: task.Delivery.Status, Works: present}, nil
	}
	return a.write(ctx, task, r.rendering, present)
}

// isSettled tells whether the works are written for the delivery's present
// phase, and the phase is not over; or that the agent has not answered yet.
func isSettled(task *Task) bool {
	delivery := task.Delivery
	if !isRendered(delivery) {
		return false
	}
	status := delivery.Status
	if status.Phase == v1alpha1.PhasePreflight {
		return status.WrittenAt != nil && answerOf(task) == nil
	}
	for _, name := range status.Rendered.Works {
		work := findWork(task.Works, name)
		if work == nil || !isWritten(work, status) || !isIntact(work) {
			return false
		}
	}
	if !applicationOf(status, task.Works).complete {
		return true
	}
	return status.Phase == v1alpha1.PhaseDrop && len(leftOver(status, task.Works)) == 0
}

// leftOver are the works whose part the rendering no longer has. They are deleted
// once the phase Drop is applied: by then what moved has another work.
func leftOver(status v1alpha1.RolloutDeliveryStatus, works []*workv1.ManifestWork) []*workv1.ManifestWork {
	var left []*workv1.ManifestWork
	for _, work := range works {
		if work.DeletionTimestamp == nil && !slices.Contains(status.Rendered.Works, work.Name) {
			left = append(left, work)
		}
	}
	return left
}

// taken is the status from which to go on: the recorded one, or that with which
// a new intent begins.
func taken(delivery *v1alpha1.RolloutDelivery) v1alpha1.RolloutDeliveryStatus {
	if isTakenUp(delivery) {
		return *delivery.Status.DeepCopy()
	}
	return takeUp(delivery)
}

// hold writes nothing to a cluster that is leaving the hub.
func (a *Applier) hold(task *Task) Outcome {
	return Outcome{Status: taken(task.Delivery), Works: task.Works, Obstacle: &Obstacle{
		State: v1alpha1.StatePending,
		Cause: v1alpha1.Cause{
			Reason:  v1alpha1.ReasonClusterDeleting,
			Message: fmt.Sprintf("ManagedCluster %s is being deleted or is gone: nothing is written to it", task.Cluster.Name),
		},
	}}
}

// obstructed is the outcome of an obstacle. One that is not waited for starts no
// deadline; with any other the first attempt to write has been made.
func (a *Applier) obstructed(task *Task, present []*workv1.ManifestWork, obstacle *Obstacle) Outcome {
	status := taken(task.Delivery)
	if obstacle.State == v1alpha1.StateDegraded {
		startDeadline(&status, task.Run, a.clock.Now())
	}
	return Outcome{Status: status, Works: present, Obstacle: obstacle}
}

// renderer is what a delivery renders from and to.
type renderer struct {
	request   workbuilder.Request
	rendering workbuilder.Rendering
	asked     question
}

func (r renderer) render() (workbuilder.Rendering, error) {
	rendering, err := workbuilder.Render(r.request)
	// The agent reads here how to judge, and what the cluster must serve.
	rendering.Rendered.Health = r.request.Payload.Health
	rendering.Rendered.Requires = r.request.Payload.Requires.APIs
	return rendering, err
}

// render renders the delivery. What keeps it from that is an obstacle.
func (a *Applier) render(ctx context.Context, task *Task, present []*workv1.ManifestWork) (renderer, *Obstacle, error) {
	spec := task.Delivery.Spec
	payload, err := a.payloads.Get(ctx, spec.Rollout.Namespace, spec.Revision)
	var missing *missingPayloadError
	if errors.As(err, &missing) {
		return renderer{}, degraded(v1alpha1.ReasonRevisionMissing, missing.message), nil
	}
	if err != nil {
		return renderer{}, nil, err
	}
	objects, err := workbuilder.Objects(present)
	if err != nil {
		return renderer{}, nil, fmt.Errorf("read the present works of cluster %q: %w", task.Delivery.Namespace, err)
	}
	unadopted := task.Delivery.Status.Unadopted
	if task.Delivery.Status.Rendered == nil {
		unadopted = slices.Concat(unadopted, orphanedBy(present, objects))
	}
	r := renderer{request: workbuilder.Request{
		Cluster:       task.Delivery.Namespace,
		Labels:        task.Cluster.Labels,
		Claims:        task.Cluster.Claims,
		Spec:          spec,
		Payload:       payload,
		CompletedJobs: completedBefore(task.Delivery.Status, spec),
		Unadopted:     unadopt(unadopted, nil, payload.Delivery.Adopt),
		Present:       present,
		Recorded:      task.Delivery.Status.Rendered,
	}}
	var tooLarge *workbuilder.TooLargeError
	var unfit *content.OverrideError
	switch r.rendering, err = r.render(); {
	case errors.As(err, &tooLarge):
		return renderer{}, &Obstacle{State: v1alpha1.StateBlocked, Cause: v1alpha1.Cause{
			Reason: v1alpha1.ReasonTooLarge, Message: tooLarge.Error()}}, nil
	case errors.As(err, &unfit):
		return renderer{}, &Obstacle{State: v1alpha1.StateBlocked, Cause: v1alpha1.Cause{
			Reason: v1alpha1.ReasonOverrideFailed, Message: unfit.Error()}}, nil
	case err != nil:
		return renderer{}, degraded(v1alpha1.ReasonInvalidSpec, err.Error()), nil
	}
	if obstacle := immutableHere(task.Delivery, r.rendering, objects); obstacle != nil {
		return renderer{}, obstacle, nil
	}
	r.asked = questionOf(r.rendering, objects)
	return r, nil, nil
}

func degraded(reason, message string) *Obstacle {
	return &Obstacle{State: v1alpha1.StateDegraded, Cause: v1alpha1.Cause{Reason: reason, Message: message}}
}

// record persists what is about to be written: a new rendering, or that its
// second phase begins. A crash after it repeats the write and no decision.
func (a *Applier) record(ctx context.Context, task *Task, r renderer, present []*workv1.ManifestWork) (*Obstacle, error) {
	delivery := task.Delivery
	if !isRendered(delivery) {
		return a.recordRendering(ctx, task, r, present)
	}
	next := *delivery.Status.DeepCopy()
	// The bytes are the same unless this manager renders in another way than
	// the one that recorded; the agent compares with what is recorded.
	next.Rendered = r.rendering.Rendered.DeepCopy()
	if next.Phase == v1alpha1.PhaseAdd && applicationOf(next, present).complete && allIntact(next.Rendered, present) {
		next.Phase = v1alpha1.PhaseDrop
		if next.State == v1alpha1.StateApplying {
			announce(&next)
		}
	}
	return nil, Record(ctx, a.client, delivery, next)
}

func (a *Applier) recordRendering(ctx context.Context, task *Task, r renderer, present []*workv1.ManifestWork) (*Obstacle, error) {
	delivery, rendering := task.Delivery, r.rendering
	set, phase, err := firstPhase(rendering, present)
	if err != nil {
		return nil, err
	}
	claiming := a.claimingOn(delivery.Namespace)
	claiming.Lock()
	defer claiming.Unlock()
	others, err := a.others(ctx, delivery)
	if err != nil {
		return nil, err
	}
	if obstacle := heldByOther(delivery, rendering.Rendered.Objects, others); obstacle != nil {
		return obstacle, nil
	}
	next := taken(delivery)
	startDeadline(&next, task.Run, a.clock.Now())
	next.Unadopted = remembered(r.request.Unadopted, rendering.Rendered.Objects)
	if needsPreflight(delivery, rendering, r.asked) {
		recordPreflight(&next, rendering, set, task, a.clock.Now())
	} else {
		record(&next, rendering, set, phase, a.clock.Now())
	}
	return nil, Record(ctx, a.client, delivery, next)
}

// firstPhase chooses the phase in which a new rendering is written first: Add
// where present works are to lose something, Drop where none is.
func firstPhase(rendering workbuilder.Rendering, present []*workv1.ManifestWork) (workbuilder.WorkSet, v1alpha1.WritePhase, error) {
	set, err := workbuilder.Works(rendering, v1alpha1.PhaseAdd, present)
	if err != nil {
		return set, "", err
	}
	if !set.LeavesOut() || len(rendering.Objects) == 0 {
		return set, v1alpha1.PhaseDrop, nil
	}
	return set, v1alpha1.PhaseAdd, nil
}

// others are the deliveries of other rollouts to the same cluster. The hub is
// asked only where the cache knows of some.
func (a *Applier) others(ctx context.Context, own *v1alpha1.RolloutDelivery) ([]v1alpha1.RolloutDelivery, error) {
	list := &v1alpha1.RolloutDeliveryList{}
	if err := a.client.List(ctx, list, client.InNamespace(own.Namespace)); err != nil {
		return nil, fmt.Errorf("list the deliveries to cluster %q: %w", own.Namespace, err)
	}
	if !slices.ContainsFunc(list.Items, func(d v1alpha1.RolloutDelivery) bool { return d.Name != own.Name }) {
		return nil, nil
	}
	if err := a.reader.List(ctx, list, client.InNamespace(own.Namespace)); err != nil {
		return nil, fmt.Errorf("list the deliveries to cluster %q: %w", own.Namespace, err)
	}
	return list.Items, nil
}

func (a *Applier) claimingOn(cluster string) *sync.Mutex {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(cluster))
	return &a.claiming[sum.Sum32()%uint32(len(a.claiming))]
}

// Record writes a delivery's status to the hub if it differs from what is
// recorded, and renews the delivery. It fails with a conflict if the delivery
// has changed on the hub since it was read.
func Record(ctx context.Context, writer client.Client, delivery *v1alpha1.RolloutDelivery, status v1alpha1.RolloutDeliveryStatus) error {
	if equality.Semantic.DeepEqual(delivery.Status, status) {
		return nil
	}
	next := delivery.DeepCopy()
	next.Status = status
	if err := writer.Status().Update(ctx, next); err != nil {
		return fmt.Errorf("record the status of RolloutDelivery %s/%s: %w", delivery.Namespace, delivery.Name, err)
	}
	*delivery = *next
	return nil
}
