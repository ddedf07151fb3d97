package agent

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/health"
)

// compiledChecks holds the compiled checks of each delivery's content: compiling
// costs a thousand times what evaluating does.
type compiledChecks struct {
	mu         sync.Mutex
	byDelivery map[string]compiledContent
}

type compiledContent struct {
	digest string
	checks *health.Checks
}

func newCompiledChecks() *compiledChecks {
	return &compiledChecks{byDelivery: map[string]compiledContent{}}
}

// of returns the checks of a delivery. The hub has compiled them before it froze
// the revision; what this agent still cannot compile calls nothing healthy.
func (c *compiledChecks) of(d *v1alpha1.RolloutDelivery) *health.Checks {
	c.mu.Lock()
	defer c.mu.Unlock()
	digest := d.Status.Rendered.Digest
	if known, found := c.byDelivery[d.Name]; found && known.digest == digest {
		return known.checks
	}
	checks, problems := health.Compile(d.Status.Rendered.Health.Checks, field.NewPath("health", "checks"))
	if len(problems) > 0 {
		klog.InfoS("Cannot compile the checks of a delivery; is the manager of another release?", "delivery", d.Name, "err", problems.ToAggregate())
	}
	c.byDelivery[d.Name] = compiledContent{digest: digest, checks: checks}
	return checks
}

// forget drops the checks of a delivery that is gone.
func (c *compiledChecks) forget(delivery string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byDelivery, delivery)
}

// wakeUps mark deliveries once a time has passed that alone changes what is
// believed of them.
type wakeUps struct {
	clock clock.WithTicker
	mark  func(...string)

	mu      sync.Mutex
	pending map[string]bool
}

func newWakeUps(clock clock.WithTicker, mark func(...string)) *wakeUps {
	return &wakeUps{clock: clock, mark: mark, pending: map[string]bool{}}
}

// in marks a delivery after a time, once however often it is asked for meanwhile.
func (w *wakeUps) in(name string, after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending[name] {
		return
	}
	w.pending[name] = true
	due := w.clock.After(after)
	go func() {
		<-due
		w.mu.Lock()
		delete(w.pending, name)
		w.mu.Unlock()
		w.mark(name)
	}()
}
