package controller

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/delivery"
	"open-cluster-management.io/fleet-rollout/internal/liveness"
	"open-cluster-management.io/fleet-rollout/internal/status"
)

const (
	defaultConcurrentDeliveries = 8

	// A refused write is tried again with a delay that grows to this. The end of
	// a Lease may be noticed that much later meanwhile, because
	// controller-runtime forgets RequeueAfter with an error.
	firstDeliveryRetry = 50 * time.Millisecond
	lastDeliveryRetry  = 15 * time.Second

	// obstacleRecheck is how often a delivery with an obstacle is looked at
	// although no event says that it is gone: nothing watches payload Secrets.
	obstacleRecheck = 15 * time.Second
)

// DeliveryReconciler brings one rollout to one managed cluster and keeps the
// record of it. What one event costs does not depend on the size of the fleet:
// everything it looks at lies in the namespace of one cluster.
type DeliveryReconciler struct {
	// Client reads from the manager's cache and writes to the hub.
	Client client.Client
	// Reader reads from the hub itself.
	Reader client.Reader
	// Liveness is fed by this reconciler's watches and shared with the
	// rollout's reconciler.
	Liveness *liveness.Tracker
	// Clock is the hub's clock.
	Clock clock.PassiveClock
	// Recorder tells people when a cluster begins or ceases to drift. Without one
	// nobody is told.
	Recorder record.EventRecorder
	// MaxConcurrentReconciles is how many deliveries are worked on at the same
	// time. Defaults to 8.
	MaxConcurrentReconciles int

	applier *delivery.Applier
}

// SetupWithManager registers the reconciler and its watches.
func (r *DeliveryReconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.prepare()
	concurrent := r.MaxConcurrentReconciles
	if concurrent == 0 {
		concurrent = defaultConcurrentDeliveries
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("delivery").
		For(&v1alpha1.RolloutDelivery{}, builder.WithPredicates(intentChanges())).
		Watches(&v1alpha1.RolloutDelivery{}, handler.Funcs{UpdateFunc: r.releaseOnUpdate, DeleteFunc: r.releaseOnDelete}).
		Watches(&workv1.ManifestWork{}, handler.EnqueueRequestsFromMapFunc(deliveryOfWork), builder.WithPredicates(workChanges())).
		Watches(&addonv1alpha1.ManagedClusterAddOn{}, r.addonHandler()).
		Watches(&coordinationv1.Lease{}, r.leaseHandler()).
		Watches(&clusterv1.ManagedCluster{}, r.clusterHandler()).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrent,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstDeliveryRetry, lastDeliveryRetry),
		}).
		Complete(r)
	if err == nil {
		err = registerMetrics()
	}
	if err != nil {
		return fmt.Errorf("set up the delivery controller: %w", err)
	}
	return nil
}

func (r *DeliveryReconciler) prepare() {
	if r.applier == nil {
		r.applier = delivery.NewApplier(r.Client, r.Reader, r.Clock)
	}
}

// Reconcile writes the works of one delivery as far as they are not written, and
// records what is to be seen of them.
func (r *DeliveryReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	result, err := r.reconcile(ctx, request)
	if delivery.IsStale(err) {
		// The cache will have caught up by then; there is nothing to report.
		ctrl.LoggerFrom(ctx).V(1).Info("Read again, the cache is behind", "reason", err.Error())
		return ctrl.Result{RequeueAfter: firstDeliveryRetry}, nil
	}
	return result, err
}

func (r *DeliveryReconciler) reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	record := &v1alpha1.RolloutDelivery{}
	if err := r.Client.Get(ctx, request.NamespacedName, record); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if record.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	task, err := r.task(ctx, record)
	if err != nil {
		return ctrl.Result{}, err
	}
	if record.Spec.Removal != "" {
		return r.remove(ctx, task)
	}
	agent, err := r.agent(ctx, record)
	if err != nil {
		return ctrl.Result{}, err
	}
	task.Agent = agent
	before := record.Status
	outcome, err := r.applier.Apply(ctx, task)
	if err != nil {
		return ctrl.Result{}, err
	}
	completed, err := r.applier.CompletedJobs(ctx, record, agent)
	if err != nil {
		return ctrl.Result{}, err
	}
	verdict := delivery.Judge(delivery.Observation{
		Cluster:       task.Cluster,
		Spec:          record.Spec,
		Status:        outcome.Status,
		Works:         outcome.Works,
		Obstacle:      outcome.Obstacle,
		Agent:         agent,
		CompletedJobs: completed,
		Run:           task.Run,
		Now:           r.Clock.Now(),
	})
	if err := delivery.Record(ctx, r.Client, record, verdict.Status); err != nil {
		return ctrl.Result{}, err
	}
	observeLatency(record, before)
	r.announceDrift(record, before.Drift)
	after := verdict.RecheckAfter
	if outcome.Obstacle != nil && !isReported(outcome.Obstacle) && (after == 0 || after > obstacleRecheck) {
		after = obstacleRecheck
	}
	return ctrl.Result{RequeueAfter: after}, outcome.Refused
}

// isReported tells that the agent's next report says when an obstacle is gone.
func isReported(obstacle *delivery.Obstacle) bool {
	return obstacle.Cause.Reason == v1alpha1.ReasonAPINotServed
}

// The reasons of events on a RolloutDelivery.
const (
	eventDrifted    = "Drifted"
	eventDriftEnded = "DriftEnded"
)

// announceDrift tells when other managers begin to take fields of ours on a
// cluster, take them of other objects, or give them back.
func (r *DeliveryReconciler) announceDrift(record *v1alpha1.RolloutDelivery, before []v1alpha1.ObjectDrift) {
	after := record.Status.Drift
	if r.Recorder == nil || equality.Semantic.DeepEqual(before, after) {
		return
	}
	if len(after) == 0 {
		r.Recorder.Event(record, corev1.EventTypeNormal, eventDriftEnded, "no other field manager holds fields of ours any more")
		return
	}
	r.Recorder.Event(record, corev1.EventTypeWarning, eventDrifted, status.Bounded(delivery.DescribeDrift(after)))
}

func (r *DeliveryReconciler) remove(ctx context.Context, task *delivery.Task) (ctrl.Result, error) {
	outcome, err := r.applier.Remove(ctx, task)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := delivery.Record(ctx, r.Client, task.Delivery, outcome.Status); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, outcome.Refused
}

// task gathers what Apply and Remove need, from the cache alone.
func (r *DeliveryReconciler) task(ctx context.Context, record *v1alpha1.RolloutDelivery) (*delivery.Task, error) {
	cluster, err := r.cluster(ctx, record.Namespace)
	if err != nil {
		return nil, err
	}
	run, err := r.runClock(ctx, record)
	if err != nil {
		return nil, err
	}
	rollout := record.Spec.Rollout
	list := &workv1.ManifestWorkList{}
	if err := r.Client.List(ctx, list, client.InNamespace(record.Namespace), client.MatchingLabels{v1alpha1.LabelRolloutUID: string(rollout.UID)}); err != nil {
		return nil, fmt.Errorf("list the ManifestWorks of cluster %q: %w", record.Namespace, err)
	}
	task := &delivery.Task{Delivery: record, Cluster: cluster, Run: run}
	for i := range list.Items {
		if work := &list.Items[i]; delivery.IsOwn(work, rollout) {
			task.Works = append(task.Works, work)
		}
	}
	return task, nil
}

func (r *DeliveryReconciler) cluster(ctx context.Context, name string) (delivery.Cluster, error) {
	cluster := &clusterv1.ManagedCluster{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: name}, cluster)
	if apierrors.IsNotFound(err) {
		return delivery.Cluster{Name: name}, nil
	}
	if err != nil {
		return delivery.Cluster{}, fmt.Errorf("read ManagedCluster %q: %w", name, err)
	}
	return delivery.Cluster{
		Name:      name,
		Exists:    true,
		Deleting:  cluster.DeletionTimestamp != nil,
		Available: isAvailable(cluster),
		Labels:    cluster.Labels,
		Claims:    claimsOf(cluster),
	}, nil
}

// claimsOf are the claims of a cluster by name.
func claimsOf(cluster *clusterv1.ManagedCluster) map[string]string {
	claims := make(map[string]string, len(cluster.Status.ClusterClaims))
	for _, claim := range cluster.Status.ClusterClaims {
		claims[claim.Name] = claim.Value
	}
	return claims
}

func isAvailable(cluster *clusterv1.ManagedCluster) bool {
	return meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
}

// runClock reads the clock of the rollout's run. A cache that has not seen the
// run yet that wrote the delivery says nothing of its steps and pauses.
func (r *DeliveryReconciler) runClock(ctx context.Context, record *v1alpha1.RolloutDelivery) (delivery.RunClock, error) {
	reference := record.Spec.Rollout
	rollout := &v1alpha1.FleetRollout{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: reference.Namespace, Name: reference.Name}, rollout)
	if client.IgnoreNotFound(err) != nil {
		return delivery.RunClock{}, fmt.Errorf("read FleetRollout %s/%s: %w", reference.Namespace, reference.Name, err)
	}
	run := rollout.Status.Run
	if err != nil || rollout.UID != reference.UID || run == nil || run.Number < record.Spec.Run {
		return delivery.RunClock{Number: record.Spec.Run}, nil
	}
	from, until := r.Liveness.Unwatched()
	return delivery.ClockOf(run, from, until), nil
}

// agent gathers what is known of the agent and of its report on this delivery.
func (r *DeliveryReconciler) agent(ctx context.Context, record *v1alpha1.RolloutDelivery) (delivery.Agent, error) {
	cluster := record.Namespace
	agent := delivery.Agent{Liveness: r.Liveness.State(cluster)}
	if !agent.Liveness.Seen {
		// The watch may not have handed the Lease over yet, as right after a
		// start; a proven cluster must not seem lost for that.
		lease := &coordinationv1.Lease{}
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: cluster, Name: v1alpha1.AgentLeaseName}, lease)
		if client.IgnoreNotFound(err) != nil {
			return agent, fmt.Errorf("read Lease %s/%s: %w", cluster, v1alpha1.AgentLeaseName, err)
		}
		if err == nil && lease.Spec.RenewTime != nil {
			r.Liveness.ObserveLease(cluster, lease)
			agent.Liveness = r.Liveness.State(cluster)
		}
	}
	addon := &addonv1alpha1.ManagedClusterAddOn{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: cluster, Name: v1alpha1.AddonName}, addon)
	if apierrors.IsNotFound(err) {
		return agent, nil
	}
	if err != nil {
		return agent, fmt.Errorf("read ManagedClusterAddOn %s/%s: %w", cluster, v1alpha1.AddonName, err)
	}
	agent.Enabled = true
	rollout := record.Spec.Rollout
	agent.Condition = meta.FindStatusCondition(addon.Status.Conditions, v1alpha1.ConditionType(rollout.Namespace, rollout.Name))
	return agent, nil
}
