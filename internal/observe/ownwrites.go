package observe

import (
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ownWriteLifetime is how long a write of ours is remembered while the cache
// does not show it. A cache that lags longer is met by the API's optimistic
// lock alone.
const ownWriteLifetime = 10 * time.Second

// OwnWrites remembers objects of one kind as the API returned them from writes
// of this process, until the informer cache has caught up. Reading through it
// keeps a reconcile from deciding on a state that the one before has already
// changed. It is a hint and never the only safeguard: every write carries the
// resourceVersion it is based on.
type OwnWrites[T client.Object] struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	written map[types.NamespacedName]ownWrite[T]
}

type ownWrite[T client.Object] struct {
	object T
	at     time.Time
}

// NewOwnWrites returns an empty memory.
func NewOwnWrites[T client.Object](clock clock.PassiveClock) *OwnWrites[T] {
	return &OwnWrites[T]{clock: clock, written: map[types.NamespacedName]ownWrite[T]{}}
}

// Remember keeps an object as a write returned it. The caller must not change
// it afterwards.
func (w *OwnWrites[T]) Remember(object T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written[client.ObjectKeyFromObject(object)] = ownWrite[T]{object: object, at: w.clock.Now()}
}

// Forget drops what is remembered under a key, because the object was deleted
// or somebody else wrote it.
func (w *OwnWrites[T]) Forget(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.written, key)
}

// Wrote tells whether a watch event merely shows what was written here.
func (w *OwnWrites[T]) Wrote(object client.Object) bool {
	own, ok := w.remembered(client.ObjectKeyFromObject(object))
	return ok && own.GetUID() == object.GetUID() && own.GetResourceVersion() == object.GetResourceVersion()
}

// Newer returns the newer of what the cache shows and what was written here.
func (w *OwnWrites[T]) Newer(cached T) T {
	key := client.ObjectKeyFromObject(cached)
	own, ok := w.remembered(key)
	if !ok {
		return cached
	}
	if own.GetUID() == cached.GetUID() && isOlder(cached, own) {
		return own
	}
	w.Forget(key)
	return cached
}

// Missing returns what was written here under a key that the cache does not
// show, and whether there is such a write.
func (w *OwnWrites[T]) Missing(key types.NamespacedName) (T, bool) {
	return w.remembered(key)
}

func (w *OwnWrites[T]) remembered(key types.NamespacedName) (T, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	own, ok := w.written[key]
	if ok && w.clock.Since(own.at) > ownWriteLifetime {
		delete(w.written, key)
		ok = false
	}
	return own.object, ok
}

// isOlder compares resourceVersions as the numbers that every API server of
// today hands out. Where they are none, nothing counts as older.
func isOlder(a, b client.Object) bool {
	before, err := strconv.ParseUint(a.GetResourceVersion(), 10, 64)
	if err != nil {
		return false
	}
	after, err := strconv.ParseUint(b.GetResourceVersion(), 10, 64)
	return err == nil && before < after
}
