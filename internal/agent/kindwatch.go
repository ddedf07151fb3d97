package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/health"
)

const (
	// retryCap bounds how long a kind that cannot be read is left alone.
	retryCap = 15 * time.Second
	// forbiddenRetry is how soon a grant is noticed.
	forbiddenRetry = time.Minute
	// refusalsMeant is how many refusals in a row, by an API that says it is
	// ready, are taken for the truth.
	refusalsMeant = 2
	// settleFor is how long a kind may fail to be read before its objects are
	// reported as not readable instead of not at all.
	settleFor = 30 * time.Second
)

// kindWatch watches the delivered objects of one kind, and knows why when it
// cannot.
type kindWatch struct {
	kind     schema.GroupVersionKind
	extent   extent
	clients  clients
	clock    clock.WithTicker
	observer observer
	stop     context.CancelFunc
	startAt  time.Time
	owned    *ownerships

	mu      sync.RWMutex
	access  Access
	problem string
	objects map[types.NamespacedName]seenObject
	// completed are the stamps of Jobs that completed, kept when they are gone.
	completed map[types.NamespacedName]string
}

// seenObject is an object with the verdict on its progress that it had already
// when its content last changed.
type seenObject struct {
	meta      metav1.Object
	full      *unstructured.Unstructured
	inherited string
	// since is when it was seen at its content first, on this process's clock.
	since time.Time
}

func newKindWatch(kind schema.GroupVersionKind, extent extent, c clients, clock clock.WithTicker, o observer) *kindWatch {
	return &kindWatch{
		kind: kind, extent: extent, clients: c, clock: clock, observer: o, startAt: clock.Now(), owned: newOwnerships(),
		access: AccessSettling, objects: map[types.NamespacedName]seenObject{}, completed: map[types.NamespacedName]string{},
	}
}

func (w *kindWatch) see(namespace, name string) Sight {
	w.mu.RLock()
	defer w.mu.RUnlock()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	sight := Sight{Access: w.access, Problem: w.problem, CompletedAs: w.completed[key]}
	seen, found := w.objects[key]
	if w.access != AccessReadable || !found {
		return sight
	}
	sight.Meta, sight.Full = seen.meta, seen.full
	sight.SeenFor = w.clock.Since(seen.since)
	owned := w.owned.of(seen.meta)
	sight.Drifts, sight.ArrivedAt = owned.drifts, owned.arrivedAt
	if sight.Full != nil && seen.inherited != "" {
		sight.Inherited = seen.inherited == health.ProgressVerdict(seen.full)
	}
	return sight
}

// run keeps the watch going until the context ends: it finds the resource of
// the kind, asks whether it may read it, watches, and begins again when the
// answer changes. What was seen stays until there is a better answer.
func (w *kindWatch) run(ctx context.Context) {
	retry, refusals := retryFirst, 0
	for ctx.Err() == nil {
		synced, err := w.watch(ctx)
		if ctx.Err() != nil {
			return
		}
		if synced {
			retry, refusals = retryFirst, 0
		}
		wait := retry
		switch refusal := refusalOf(err); {
		case refusal == "":
			w.note(err)
		case w.clients.ready(ctx):
			if refusals++; refusals >= refusalsMeant {
				w.setAccess(refusal, refusedResource(err))
				wait = max(wait, refusalRetry(refusal))
			}
		default:
			refusals = 0
		}
		retry = min(2*retry, retryCap)
		select {
		case <-ctx.Done():
		case <-w.clock.After(wait):
		}
	}
}

// refusalOf is the access that an error of the API stands for; empty if it
// stands for none. It is to be believed only of an API that is ready: one that
// has just started forbids everything, and does not know its custom resources.
func refusalOf(err error) Access {
	switch {
	case apierrors.IsForbidden(err):
		return AccessForbidden
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err):
		return AccessNotServed
	}
	return ""
}

// refusedResource is the resource that a refusal is about, as in
// "deployments.apps", or empty.
func refusedResource(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsForbidden(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return ""
	}
	details := status.Status().Details
	return schema.GroupResource{Group: details.Group, Resource: details.Kind}.String()
}

// refusalRetry is how soon a change is looked for, at the least: a grant may
// take its time, a custom resource is often delivered just after its
// definition.
func refusalRetry(refusal Access) time.Duration {
	if refusal == AccessForbidden {
		return forbiddenRetry
	}
	return 0
}

// note takes an error into account that says nothing about the right to read.
func (w *kindWatch) note(err error) {
	klog.InfoS("Cannot read kind on the managed cluster", "kind", w.kind, "err", err)
	// An API that does not answer at all says nothing about the objects: then
	// the Lease is not renewed, and the hub counts the cluster lost.
	answered := apierrors.ReasonForError(err) != metav1.StatusReasonUnknown
	if answered && w.clock.Since(w.startAt) >= settleFor {
		w.setAccess(AccessBroken, err.Error())
	}
}

// watch returns when the kind cannot be watched, or no longer, and tells
// whether it has been.
func (w *kindWatch) watch(ctx context.Context) (bool, error) {
	mapping, err := w.clients.mapper.RESTMapping(w.kind.GroupKind(), w.kind.Version)
	if meta.IsNoMatchError(err) {
		w.clients.mapper.Reset()
	}
	if err != nil {
		return false, err
	}
	if err := w.tryList(ctx, mapping.Resource); err != nil {
		if apierrors.IsNotFound(err) {
			w.clients.mapper.Reset()
		}
		return false, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	informer := w.informer(mapping.Resource)
	if err := informer.SetTransform(w.slim); err != nil {
		return false, fmt.Errorf("watch %s: %w", w.kind, err)
	}
	if err := informer.SetWatchErrorHandlerWithContext(
		func(ctx context.Context, r *cache.Reflector, err error) {
			if refusalOf(err) != "" {
				cancel(err)
				return
			}
			cache.DefaultWatchErrorHandler(ctx, r, err)
		}); err != nil {
		return false, fmt.Errorf("watch %s: %w", w.kind, err)
	}
	registration, err := informer.AddEventHandler(w.handler())
	if err != nil {
		return false, fmt.Errorf("watch %s: %w", w.kind, err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		informer.RunWithContext(ctx)
	}()
	synced := cache.WaitForCacheSync(ctx.Done(), registration.HasSynced)
	if synced {
		w.forgetAllBut(informer.GetStore())
		w.setAccess(AccessReadable, "")
	}
	<-stopped
	return synced, context.Cause(ctx)
}

// onlyDelivered selects the objects that a rollout delivered.
func onlyDelivered(options *metav1.ListOptions) {
	options.LabelSelector = v1alpha1.LabelRolloutName
}

// tryList asks whether the kind may be read: an informer would not say, but
// try again for ever.
func (w *kindWatch) tryList(ctx context.Context, resource schema.GroupVersionResource) error {
	options := metav1.ListOptions{Limit: 1}
	onlyDelivered(&options)
	_, err := w.clients.metadata.Resource(resource).List(ctx, options)
	return err
}

func (w *kindWatch) informer(resource schema.GroupVersionResource) cache.SharedIndexInformer {
	if w.extent != metadataOnly {
		return dynamicinformer.NewFilteredDynamicInformer(
			w.clients.dynamic, resource, metav1.NamespaceAll, 0, cache.Indexers{}, onlyDelivered).Informer()
	}
	return metadatainformer.NewFilteredMetadataInformer(
		w.clients.metadata, resource, metav1.NamespaceAll, 0, cache.Indexers{}, onlyDelivered).Informer()
}

// slim drops what is large and not judged: the managedFields, of which it keeps
// what drift is seen by, a copy of the object in an annotation, and the schemas of
// definitions.
func (w *kindWatch) slim(o any) (any, error) {
	object, err := meta.Accessor(o)
	if err != nil {
		return o, nil
	}
	w.owned.observe(object)
	object.SetManagedFields(nil)
	if annotations := object.GetAnnotations(); annotations[corev1.LastAppliedConfigAnnotation] != "" {
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		object.SetAnnotations(annotations)
	}
	if full, isFull := o.(*unstructured.Unstructured); isFull && w.extent == withoutVersions {
		unstructured.RemoveNestedField(full.Object, "spec", "versions")
	}
	return o, nil
}

func (w *kindWatch) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    w.put,
		UpdateFunc: func(_, o any) { w.put(o) },
		DeleteFunc: w.remove,
	}
}

// put remembers the object. The informer's own store is not asked, because
// it may already hold an object whose change of content has not come by here.
func (w *kindWatch) put(o any) {
	object, err := meta.Accessor(o)
	if err != nil {
		return
	}
	seen := seenObject{meta: object, since: w.clock.Now()}
	seen.full, _ = o.(*unstructured.Unstructured)
	key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}

	w.mu.Lock()
	if before, found := w.objects[key]; found && stamp(before.meta) == stamp(seen.meta) && before.meta.GetUID() == object.GetUID() {
		seen.since = before.since
	}
	if seen.full != nil && w.kind.Group == "batch" && w.kind.Kind == "Job" && health.Of(health.Subject{Object: seen.full}).Health == v1alpha1.HealthHealthy {
		w.completed[key] = stamp(seen.meta)
	}
	if before, found := w.objects[key]; found && seen.full != nil && before.full != nil {
		seen.inherited = before.inherited
		if stamp(before.meta) != stamp(seen.meta) {
			seen.inherited = health.ProgressVerdict(before.full)
		}
	}
	w.objects[key] = seen
	w.mu.Unlock()
	w.observer.objectChanged(concerns(w.keyOf(key), seen.full))
}

func (w *kindWatch) remove(o any) {
	name, err := cache.DeletionHandlingObjectToName(o)
	if err != nil {
		return
	}
	key := types.NamespacedName{Namespace: name.Namespace, Name: name.Name}
	w.mu.Lock()
	gone := w.objects[key].full
	w.drop(key)
	w.mu.Unlock()
	w.observer.objectChanged(concerns(w.keyOf(key), gone))
}

// drop forgets an object. The caller holds the lock.
func (w *kindWatch) drop(key types.NamespacedName) {
	if seen, found := w.objects[key]; found {
		w.owned.forget(seen.meta)
		delete(w.objects, key)
	}
}

// forgetAllBut drops what went while nobody watched.
func (w *kindWatch) forgetAllBut(store cache.Store) {
	var gone []types.NamespacedName
	w.mu.Lock()
	for key := range w.objects {
		if _, exists, err := store.GetByKey(cache.NewObjectName(key.Namespace, key.Name).String()); err == nil && !exists {
			w.drop(key)
			gone = append(gone, key)
		}
	}
	w.mu.Unlock()
	for _, key := range gone {
		w.observer.objectChanged(w.keyOf(key))
	}
}

// accessible is the access to the kind, and the problem with it.
func (w *kindWatch) accessible() (Access, string) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.access, w.problem
}

func (w *kindWatch) setAccess(access Access, problem string) {
	w.mu.Lock()
	changed := w.access != access || w.problem != problem
	w.access, w.problem = access, problem
	w.mu.Unlock()
	if changed {
		w.observer.kindChanged(w.kind)
	}
}

func (w *kindWatch) keyOf(name types.NamespacedName) objectKey {
	return objectKey{
		Group: w.kind.Group, Version: w.kind.Version, Kind: w.kind.Kind,
		Namespace: name.Namespace, Name: name.Name,
	}
}

func stamp(o metav1.Object) string { return o.GetAnnotations()[v1alpha1.AnnotationContentHash] }
