package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/observe"
	"open-cluster-management.io/fleet-rollout/internal/revision"
)

// The field indexes of the rollout controller.
const (
	// placementField indexes FleetRollouts by the Placements they name.
	placementField = "spec.placements.name"
	// decidedClusterField indexes PlacementDecisions by the clusters they name.
	decidedClusterField = "status.decisions.clusterName"
	// sourceField indexes FleetRollouts by the objects that manifestsFrom names.
	sourceField = "spec.template.components.manifestsFrom"
)

// SetupWithManager registers the reconciler, its indexes and its watches.
func (r *RolloutReconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.complete()
	indexer := mgr.GetFieldIndexer()
	for _, index := range []struct {
		object  client.Object
		field   string
		extract client.IndexerFunc
	}{
		{&v1alpha1.RolloutDelivery{}, observe.DeliveryNameField, observe.IndexDeliveryName},
		{&v1alpha1.RolloutAction{}, observe.ActionRolloutField, observe.IndexActionRollout},
		{&v1alpha1.FleetRollout{}, placementField, placementsOf},
		{&v1alpha1.FleetRollout{}, sourceField, sourcesOf},
		{&clusterv1beta1.PlacementDecision{}, decidedClusterField, clustersOf},
	} {
		if err := indexer.IndexField(context.Background(), index.object, index.field, index.extract); err != nil {
			return fmt.Errorf("index %T by %s: %w", index.object, index.field, err)
		}
	}

	sources, err := newSourceCache(mgr)
	if err != nil {
		return fmt.Errorf("cache the sources of manifests: %w", err)
	}
	r.observer.Sources = sources
	owned := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &v1alpha1.FleetRollout{}, handler.OnlyControllerOwner())
	return ctrl.NewControllerManagedBy(mgr).
		Named("rollout").
		For(&v1alpha1.FleetRollout{}, builder.WithPredicates(r.foreignWrites(r.rollouts.Wrote))).
		Watches(&v1alpha1.RolloutDelivery{}, r.deliveryHandler(), builder.WithPredicates(r.foreignWrites(r.observer.Deliveries.Wrote))).
		Watches(&v1alpha1.RolloutRevision{}, owned, builder.WithPredicates(r.foreignWrites(r.observer.Revisions.Wrote))).
		Watches(&v1alpha1.RolloutAction{}, handler.EnqueueRequestsFromMapFunc(rolloutsOfAction)).
		Watches(&corev1.Secret{}, owned).
		WatchesRawSource(source.Kind[client.Object](sources, observe.SourceMetadata(revision.SourceConfigMap), handler.EnqueueRequestsFromMapFunc(r.rolloutsOfSource(revision.SourceConfigMap)))).
		WatchesRawSource(source.Kind[client.Object](sources, observe.SourceMetadata(revision.SourceSecret), handler.EnqueueRequestsFromMapFunc(r.rolloutsOfSource(revision.SourceSecret)))).
		Watches(&clusterv1beta1.Placement{}, handler.EnqueueRequestsFromMapFunc(r.rolloutsOfPlacement)).
		Watches(&clusterv1beta1.PlacementDecision{}, handler.EnqueueRequestsFromMapFunc(r.rolloutsOfDecision)).
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(r.rolloutsOfCluster), builder.WithPredicates(clusterChanged())).
		WithOptions(controller.Options{
			LogConstructor: func(request *reconcile.Request) logr.Logger {
				logger := mgr.GetLogger().WithName("rollout")
				if request == nil {
					return logger
				}
				return logger.WithValues("rollout", request.NamespacedName)
			},
			MaxConcurrentReconciles: r.MaxConcurrentReconciles,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, 30*time.Second),
		}).
		Complete(r)
}

// foreignWrites drops the watch events that only show what this process wrote:
// the reconcile that wrote it knows it already.
func (r *RolloutReconciler) foreignWrites(wrote func(client.Object) bool) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(object client.Object) bool {
		return object.GetDeletionTimestamp() != nil || !wrote(object)
	})
}

// deliveryHandler wakes the rollouts that a delivery belongs to. One that is
// gone must not live on in the memory of our own writes.
func (r *RolloutReconciler) deliveryHandler() handler.EventHandler {
	wake := handler.EnqueueRequestsFromMapFunc(rolloutsOfDelivery)
	return handler.Funcs{
		CreateFunc:  wake.Create,
		UpdateFunc:  wake.Update,
		GenericFunc: wake.Generic,
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			r.observer.Deliveries.Forget(client.ObjectKeyFromObject(e.Object))
			wake.Delete(ctx, e, queue)
		},
	}
}

// rolloutsOfDelivery goes by labels and by spec: an object that has only one of
// them right is not ours, but the rollout it stands in the way of must know.
func rolloutsOfDelivery(_ context.Context, object client.Object) []reconcile.Request {
	names := sets.New(types.NamespacedName{
		Namespace: object.GetLabels()[v1alpha1.LabelRolloutNamespace],
		Name:      object.GetLabels()[v1alpha1.LabelRolloutName],
	})
	if delivery, ok := object.(*v1alpha1.RolloutDelivery); ok {
		names.Insert(types.NamespacedName{Namespace: delivery.Spec.Rollout.Namespace, Name: delivery.Spec.Rollout.Name})
	}
	return requests(names)
}

func (r *RolloutReconciler) rolloutsOfPlacement(ctx context.Context, object client.Object) []reconcile.Request {
	return requests(r.rolloutsNaming(ctx, client.ObjectKeyFromObject(object)))
}

func (r *RolloutReconciler) rolloutsOfDecision(ctx context.Context, object client.Object) []reconcile.Request {
	return requests(r.rolloutsNaming(ctx, types.NamespacedName{
		Namespace: object.GetNamespace(),
		Name:      object.GetLabels()[clusterv1beta1.PlacementLabel],
	}))
}

// rolloutsOfCluster wakes the rollouts that have a delivery on the cluster, and
// those whose placements select it.
func (r *RolloutReconciler) rolloutsOfCluster(ctx context.Context, object client.Object) []reconcile.Request {
	names := sets.New[types.NamespacedName]()

	var deliveries v1alpha1.RolloutDeliveryList
	if err := r.Client.List(ctx, &deliveries, client.InNamespace(object.GetName()), client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Cannot list the deliveries of a cluster", "cluster", object.GetName())
	}
	for i := range deliveries.Items {
		reference := deliveries.Items[i].Spec.Rollout
		names.Insert(types.NamespacedName{Namespace: reference.Namespace, Name: reference.Name})
	}

	var decisions clusterv1beta1.PlacementDecisionList
	if err := r.Client.List(ctx, &decisions, client.MatchingFields{decidedClusterField: object.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Cannot list the placement decisions of a cluster", "cluster", object.GetName())
	}
	for i := range decisions.Items {
		names = names.Union(r.rolloutsNaming(ctx, types.NamespacedName{
			Namespace: decisions.Items[i].Namespace,
			Name:      decisions.Items[i].Labels[clusterv1beta1.PlacementLabel],
		}))
	}
	return requests(names)
}

func (r *RolloutReconciler) rolloutsNaming(ctx context.Context, placement types.NamespacedName) sets.Set[types.NamespacedName] {
	names := sets.New[types.NamespacedName]()
	var rollouts v1alpha1.FleetRolloutList
	if err := r.Client.List(ctx, &rollouts, client.InNamespace(placement.Namespace),
		client.MatchingFields{placementField: placement.Name}, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Cannot list the rollouts of a placement", "placement", placement)
	}
	for i := range rollouts.Items {
		names.Insert(client.ObjectKeyFromObject(&rollouts.Items[i]))
	}
	return names
}

func requests(names sets.Set[types.NamespacedName]) []reconcile.Request {
	var result []reconcile.Request
	for name := range names {
		if name.Name != "" {
			result = append(result, reconcile.Request{NamespacedName: name})
		}
	}
	return result
}

func placementsOf(object client.Object) []string {
	var names []string
	for _, reference := range object.(*v1alpha1.FleetRollout).Spec.Placements {
		names = append(names, reference.Name)
	}
	return names
}

func clustersOf(object client.Object) []string {
	var names []string
	for _, decision := range object.(*clusterv1beta1.PlacementDecision).Status.Decisions {
		names = append(names, decision.ClusterName)
	}
	return names
}

// clusterChanged passes on what a rollout depends on: labels, taints, deletion
// and availability. The status of a ManagedCluster changes far more often.
func clusterChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*clusterv1.ManagedCluster), e.ObjectNew.(*clusterv1.ManagedCluster)
		return !apiequality.Semantic.DeepEqual(before.Labels, after.Labels) ||
			!apiequality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) ||
			(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
			isAvailable(before) != isAvailable(after)
	}}
}
