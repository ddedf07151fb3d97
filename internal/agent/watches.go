package agent

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// objectKey names an object on the managed cluster, in the version that it was
// delivered in.
type objectKey = v1alpha1.ObjectReference

// kindOf is the kind that an object is watched as.
func kindOf(ref objectKey) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: ref.Group, Version: ref.Version, Kind: ref.Kind}
}

// isSecret tells whether a kind is never read, whatever its rights may allow.
func isSecret(kind schema.GroupVersionKind) bool {
	return kind.Group == "" && kind.Kind == "Secret"
}

// clients of the managed cluster. They only read.
type clients struct {
	dynamic  dynamic.Interface
	metadata metadata.Interface
	mapper   meta.ResettableRESTMapper
	// ready tells whether the API says that it is ready.
	ready func(context.Context) bool
}

// observer is told what may have changed on the managed cluster. It must not
// block.
type observer interface {
	// objectChanged: an object came, changed or went.
	objectChanged(objectKey)
	// kindChanged: the access to a kind changed.
	kindChanged(schema.GroupVersionKind)
}

// watches holds one watch for each kind that a present delivery contains. Only
// objects with a rollout's label are watched, so its memory follows what
// was delivered and not the size of the cluster.
type watches struct {
	clients  clients
	clock    clock.WithTicker
	observer observer
	// recall is what drift of an object was reported before the agent was
	// restarted. It may be nil.
	recall func(objectKey) []drift

	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]*kindWatch
}

func newWatches(c clients, clock clock.WithTicker) *watches {
	return &watches{clients: c, clock: clock, kinds: map[schema.GroupVersionKind]*kindWatch{}}
}

// want starts the watches that are missing and stops those that are no longer
// needed. All end with the context.
func (w *watches) want(ctx context.Context, wanted sets.Set[schema.GroupVersionKind]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for kind, watch := range w.kinds {
		if !wanted.Has(kind) {
			watch.stop()
			delete(w.kinds, kind)
		}
	}
	for kind := range wanted {
		if _, running := w.kinds[kind]; running || isSecret(kind) {
			continue
		}
		watch := newKindWatch(kind, w.clients, w.clock, w.observer)
		if w.recall != nil {
			watch.owned.recall = func(name types.NamespacedName) []drift { return w.recall(watch.keyOf(name)) }
		}
		var kindCtx context.Context
		kindCtx, watch.stop = context.WithCancel(ctx)
		w.kinds[kind] = watch
		go watch.run(kindCtx)
	}
}

// see implements Look, without what pods complain about.
func (w *watches) see(ref objectKey) Sight {
	kind := kindOf(ref)
	if isSecret(kind) {
		return Sight{Access: AccessForbidden}
	}
	w.mu.Lock()
	watch, running := w.kinds[kind]
	slices := w.kinds[sliceKind]
	w.mu.Unlock()
	if !running {
		return Sight{Access: AccessSettling}
	}
	sight := watch.see(ref.Namespace, ref.Name)
	if kind == serviceKind && slices != nil {
		sight.Endpoints = slices.endpointsOf(types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
	}
	return sight
}
