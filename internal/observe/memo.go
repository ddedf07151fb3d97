package observe

import "sync"

// memo remembers results that are dear to compute and follow from their input
// alone. Its zero value is ready.
type memo[K comparable, V any] struct {
	mu      sync.Mutex
	results map[K]V
}

func (m *memo[K, V]) get(key K) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok := m.results[key]
	return value, ok
}

func (m *memo[K, V]) put(key K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.results == nil {
		m.results = map[K]V{}
	}
	m.results[key] = value
}

func (m *memo[K, V]) forget(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.results, key)
}
