package controller

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/revision"
)

// newSourceCache returns a cache of the metadata of all ConfigMaps and Secrets of
// the hub. The manager's own cache cannot serve for that: of Secrets it knows only
// ours. Nothing of their content is in it, and little of their metadata, because
// all that counts is whether they change.
func newSourceCache(mgr ctrl.Manager) (cache.Cache, error) {
	sources, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(),
		Scheme:     mgr.GetScheme(),
		Mapper:     mgr.GetRESTMapper(),
		DefaultTransform: func(object any) (any, error) {
			full, ok := object.(*metav1.PartialObjectMetadata)
			if !ok {
				return object, nil
			}
			return &metav1.PartialObjectMetadata{TypeMeta: full.TypeMeta, ObjectMeta: metav1.ObjectMeta{
				Namespace: full.Namespace, Name: full.Name, UID: full.UID, ResourceVersion: full.ResourceVersion,
			}}, nil
		},
	})
	if err != nil {
		return nil, err
	}
	return sources, mgr.Add(sources)
}

// rolloutsOfSource wakes the rollouts that name a source when it comes, changes
// or goes.
func (r *RolloutReconciler) rolloutsOfSource(kind revision.SourceKind) handler.MapFunc {
	return func(ctx context.Context, object client.Object) []reconcile.Request {
		names := sets.New[types.NamespacedName]()
		var rollouts v1alpha1.FleetRolloutList
		source := revision.SourceName{Kind: kind, Name: object.GetName()}
		if err := r.Client.List(ctx, &rollouts, client.InNamespace(object.GetNamespace()),
			client.MatchingFields{sourceField: source.String()}, client.UnsafeDisableDeepCopy); err != nil {
			log.FromContext(ctx).Error(err, "Cannot list the rollouts of a source", "source", source)
		}
		for i := range rollouts.Items {
			names.Insert(client.ObjectKeyFromObject(&rollouts.Items[i]))
		}
		return requests(names)
	}
}

func sourcesOf(object client.Object) []string {
	var names []string
	for _, name := range revision.SourceNames(object.(*v1alpha1.FleetRollout).Spec.Template) {
		names = append(names, name.String())
	}
	return names
}
