package agent

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/health"
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

// extent is how much of the objects of a kind is read and kept.
type extent string

const (
	// metadataOnly, of kinds whose existence is all there is to judge: so that the
	// content of a ConfigMap never gets here.
	metadataOnly extent = "Metadata"
	// withoutVersions leaves out the schemas of a definition: no rule looks at them,
	// and they are large.
	withoutVersions extent = "WithoutVersions"
	// everything, because a rule or a check may look at any field.
	everything extent = "Everything"
)

// extentOf is how much is read of a kind that no check targets.
func extentOf(kind schema.GroupVersionKind) extent {
	switch {
	case health.IsLifeless(kind.GroupKind()):
		return metadataOnly
	case kind.Group == "apiextensions.k8s.io":
		return withoutVersions
	}
	return everything
}

// isCut tells whether more is read of a kind if a check targets it. Kinds whose
// history the watch must remember are never among them: a watch that reads more
// begins anew.
func isCut(kind schema.GroupVersionKind) bool { return extentOf(kind) != everything }

// want starts the watches that are missing or must read more or less than they do,
// and stops those that are no longer needed. All end with the context.
func (w *watches) want(ctx context.Context, wanted map[schema.GroupVersionKind]extent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for kind, watch := range w.kinds {
		if wanted[kind] != watch.extent {
			watch.stop()
			delete(w.kinds, kind)
		}
	}
	for kind, extent := range wanted {
		if _, running := w.kinds[kind]; running || isSecret(kind) {
			continue
		}
		watch := newKindWatch(kind, extent, w.clients, w.clock, w.observer)
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
	if kind == serviceKind && sight.Full != nil {
		return withEndpointsOf(sight, slices)
	}
	return sight
}
