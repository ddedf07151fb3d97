package controller

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

type deliveryQueue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// The handlers below wake no delivery for the objects that a watch begins with:
// the deliveries themselves are all looked at when a manager starts, with caches
// that are filled by then.

// intentChanges lets changed intent through, and a status that somebody set
// back. What this controller writes itself wakes nobody.
func intentChanges() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*v1alpha1.RolloutDelivery)
			after, also := e.ObjectNew.(*v1alpha1.RolloutDelivery)
			if !ok || !also {
				return false
			}
			return before.Generation != after.Generation ||
				after.Status.Delivery < before.Status.Delivery ||
				(before.Status.Rendered != nil && after.Status.Rendered == nil)
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// releaseOnUpdate wakes the blocked deliveries of a cluster when another one of
// it may have given up an object.
func (r *DeliveryReconciler) releaseOnUpdate(ctx context.Context, e event.UpdateEvent, queue deliveryQueue) {
	before, ok := e.ObjectOld.(*v1alpha1.RolloutDelivery)
	after, also := e.ObjectNew.(*v1alpha1.RolloutDelivery)
	if !ok || !also {
		return
	}
	removed := after.Status.State == v1alpha1.StateRemoved && before.Status.State != v1alpha1.StateRemoved
	if removed || len(after.Status.Dropping) < len(before.Status.Dropping) ||
		(before.Status.Rendered != nil && !equality.Semantic.DeepEqual(before.Status.Rendered, after.Status.Rendered)) {
		r.enqueueBlocked(ctx, after, queue)
	}
}

func (r *DeliveryReconciler) releaseOnDelete(ctx context.Context, e event.DeleteEvent, queue deliveryQueue) {
	if gone, ok := e.Object.(*v1alpha1.RolloutDelivery); ok {
		r.applier.Forget(client.ObjectKeyFromObject(gone))
		r.enqueueBlocked(ctx, gone, queue)
	}
}

func (r *DeliveryReconciler) enqueueBlocked(ctx context.Context, changed *v1alpha1.RolloutDelivery, queue deliveryQueue) {
	for _, other := range r.deliveriesOn(ctx, changed.Namespace) {
		if other.Name != changed.Name && other.Status.State == v1alpha1.StateBlocked {
			queue.Add(requestFor(&other))
		}
	}
}

// deliveryOfWork finds the delivery of a work by the labels it carries.
func deliveryOfWork(_ context.Context, work client.Object) []ctrl.Request {
	labels := work.GetLabels()
	namespace, name := labels[v1alpha1.LabelRolloutNamespace], labels[v1alpha1.LabelRolloutName]
	if labels[v1alpha1.LabelRolloutUID] == "" || namespace == "" || name == "" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{
		Namespace: work.GetNamespace(),
		Name:      v1alpha1.DeliveryName(namespace, name),
	}}}
}

// workChanges lets through what the judge looks at: a changed spec, deletion,
// and how far the work is applied. OCM writes much more than that into a status.
func workChanges() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*workv1.ManifestWork)
			after, also := e.ObjectNew.(*workv1.ManifestWork)
			if !ok || !also {
				return false
			}
			return before.Generation != after.Generation ||
				(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
				!equality.Semantic.DeepEqual(before.Labels, after.Labels) ||
				!sameApplication(&before.Status, &after.Status)
		},
	}
}

func sameApplication(before, after *workv1.ManifestWorkStatus) bool {
	if !sameCondition(before.Conditions, after.Conditions, workv1.WorkApplied) ||
		len(before.ResourceStatus.Manifests) != len(after.ResourceStatus.Manifests) {
		return false
	}
	for i := range before.ResourceStatus.Manifests {
		if !sameCondition(before.ResourceStatus.Manifests[i].Conditions, after.ResourceStatus.Manifests[i].Conditions, workv1.ManifestApplied) {
			return false
		}
	}
	return true
}

func sameCondition(before, after []metav1.Condition, conditionType string) bool {
	return equality.Semantic.DeepEqual(meta.FindStatusCondition(before, conditionType), meta.FindStatusCondition(after, conditionType))
}

// addonHandler feeds the tracker with reports and wakes the deliveries whose
// report changed, or all of a cluster where that says something new of its agent.
func (r *DeliveryReconciler) addonHandler() handler.Funcs {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, queue deliveryQueue) {
			addon, ok := ourAddon(e.Object)
			if !ok {
				return
			}
			r.Liveness.ObserveReport(addon.Namespace, reportFingerprint(addon))
			if !e.IsInInitialList {
				r.enqueueAll(ctx, addon.Namespace, queue)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue deliveryQueue) {
			before, ok := ourAddon(e.ObjectOld)
			after, also := ourAddon(e.ObjectNew)
			if !ok || !also {
				return
			}
			if r.Liveness.ObserveReport(after.Namespace, reportFingerprint(after)) {
				r.enqueueAll(ctx, after.Namespace, queue)
				return
			}
			changed := changedReports(before.Status.Conditions, after.Status.Conditions)
			if len(changed) == 0 {
				return
			}
			for _, record := range r.deliveriesOn(ctx, after.Namespace) {
				rollout := record.Spec.Rollout
				if changed[v1alpha1.ConditionType(rollout.Namespace, rollout.Name)] {
					queue.Add(requestFor(&record))
				}
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue deliveryQueue) {
			if addon, ok := ourAddon(e.Object); ok {
				r.enqueueAll(ctx, addon.Namespace, queue)
			}
		},
	}
}

func ourAddon(object client.Object) (*addonv1alpha1.ManagedClusterAddOn, bool) {
	addon, ok := object.(*addonv1alpha1.ManagedClusterAddOn)
	return addon, ok && addon.Name == v1alpha1.AddonName
}

func isReport(condition metav1.Condition) bool {
	return strings.HasPrefix(condition.Type, v1alpha1.GroupName+"/")
}

// reportFingerprint stands for all that the agent reports; empty if that is nothing.
func reportFingerprint(addon *addonv1alpha1.ManagedClusterAddOn) string {
	sum, any := fnv.New64a(), false
	for _, c := range addon.Status.Conditions {
		if isReport(c) {
			any = true
			_, _ = fmt.Fprintf(sum, "%s\x00%s\x00%s\x00%s\x00%d\x00", c.Type, c.Status, c.Reason, c.Message, c.LastTransitionTime.Unix())
		}
	}
	if !any {
		return ""
	}
	return fmt.Sprintf("%016x", sum.Sum64())
}

// changedReports are the types of the agent's conditions that differ.
func changedReports(before, after []metav1.Condition) map[string]bool {
	old := map[string]metav1.Condition{}
	for _, condition := range before {
		if isReport(condition) {
			old[condition.Type] = condition
		}
	}
	changed := map[string]bool{}
	for _, condition := range after {
		if !isReport(condition) {
			continue
		}
		if was, known := old[condition.Type]; !known || !equality.Semantic.DeepEqual(was, condition) {
			changed[condition.Type] = true
		}
		delete(old, condition.Type)
	}
	for vanished := range old {
		changed[vanished] = true
	}
	return changed
}

// leaseHandler feeds the tracker. A renewal in time, and that is nearly every
// event, wakes nobody.
func (r *DeliveryReconciler) leaseHandler() handler.Funcs {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, queue deliveryQueue) {
			if lease, ok := ourLease(e.Object); ok {
				r.Liveness.ObserveLease(lease.Namespace, lease)
				if !e.IsInInitialList {
					r.enqueueAll(ctx, lease.Namespace, queue)
				}
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue deliveryQueue) {
			before, ok := ourLease(e.ObjectOld)
			after, also := ourLease(e.ObjectNew)
			if !ok || !also {
				return
			}
			// A reconcile may have shown the first renewal to the tracker before.
			first := before.Spec.RenewTime == nil && after.Spec.RenewTime != nil
			if r.Liveness.ObserveLease(after.Namespace, after) || first {
				r.enqueueAll(ctx, after.Namespace, queue)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue deliveryQueue) {
			if lease, ok := ourLease(e.Object); ok {
				r.Liveness.ObserveLease(lease.Namespace, nil)
				r.enqueueAll(ctx, lease.Namespace, queue)
			}
		},
	}
}

func ourLease(object client.Object) (*coordinationv1.Lease, bool) {
	lease, ok := object.(*coordinationv1.Lease)
	return lease, ok && lease.Name == v1alpha1.AgentLeaseName
}

// clusterHandler wakes the deliveries of a cluster that becomes or ceases to be
// Available, that comes, that goes, and whose labels or claims change: overrides
// may ask for them.
func (r *DeliveryReconciler) clusterHandler() handler.Funcs {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, queue deliveryQueue) {
			if !e.IsInInitialList {
				r.enqueueAll(ctx, e.Object.GetName(), queue)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue deliveryQueue) {
			before, ok := e.ObjectOld.(*clusterv1.ManagedCluster)
			after, also := e.ObjectNew.(*clusterv1.ManagedCluster)
			if !ok || !also {
				return
			}
			if isAvailable(before) != isAvailable(after) || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
				!maps.Equal(before.Labels, after.Labels) || !slices.Equal(before.Status.ClusterClaims, after.Status.ClusterClaims) {
				r.enqueueAll(ctx, after.Name, queue)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue deliveryQueue) {
			r.Liveness.Forget(e.Object.GetName())
			r.enqueueAll(ctx, e.Object.GetName(), queue)
		},
	}
}

func (r *DeliveryReconciler) enqueueAll(ctx context.Context, cluster string, queue deliveryQueue) {
	for _, record := range r.deliveriesOn(ctx, cluster) {
		queue.Add(requestFor(&record))
	}
}

// deliveriesOn lists the deliveries to one cluster from the cache, which is
// indexed by namespace.
func (r *DeliveryReconciler) deliveriesOn(ctx context.Context, cluster string) []v1alpha1.RolloutDelivery {
	list := &v1alpha1.RolloutDeliveryList{}
	if err := r.Client.List(ctx, list, client.InNamespace(cluster)); err != nil {
		// Only a manager that is stopping cannot list from its cache.
		ctrl.LoggerFrom(ctx).Error(err, "List the deliveries to a cluster", "cluster", cluster)
		return nil
	}
	return list.Items
}

func requestFor(record *v1alpha1.RolloutDelivery) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKeyFromObject(record)}
}
