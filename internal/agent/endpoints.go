package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

const (
	// DefaultEndpointInterval is how often an endpoint is probed.
	DefaultEndpointInterval = 10 * time.Second
	// secondLook is how soon a probe is repeated whose outcome would make the
	// endpoint unhealthy: one lost packet must not reset a soak.
	secondLook = time.Second
	// unhealthyAfter is how many probes in a row must be bad for that.
	unhealthyAfter = 2
	// probesAtOnce bounds how many probes are under way.
	probesAtOnce = 16
	// jitter is the share of the interval by which probes are spread.
	jitter = 0.2
)

// intent is one delivery at one number: what was probed for another one counts
// for nothing.
type intent struct {
	uid      types.UID
	delivery int64
	digest   string
}

func intentOf(d *v1alpha1.RolloutDelivery) intent {
	return intent{uid: d.UID, delivery: d.Spec.Delivery, digest: d.Spec.Revision.Digest}
}

// endpoints probes what the health policies of the present deliveries name.
// Each endpoint has a goroutine of its own; evaluation only reads what they
// found.
type endpoints struct {
	dialer   Dialer
	interval time.Duration
	clock    clock.WithTicker
	metrics  *Metrics
	changed  func(names ...string)
	recalled *recollection

	wake   bell
	places chan struct{}

	mu     sync.Mutex
	rounds map[string]*probing
}

// probing is the state of the endpoints of one delivery.
type probing struct {
	intent  intent
	rollout v1alpha1.RolloutReference
	checks  []v1alpha1.EndpointCheck
	states  []endpointState
	// due tells that the objects have been healthy within this delivery. Before,
	// whoever answers may still be the content that is being left.
	due bool
	// stop ends the goroutines; nil while they have not been started.
	stop context.CancelFunc
}

// endpointState is how an endpoint is, after all probes of this delivery.
type endpointState struct {
	reported v1alpha1.EndpointHealth
	// answered tells that it has been healthy within this delivery.
	answered bool
	// bad counts the bad probes in a row.
	bad int
}

func newEndpoints(dialer Dialer, interval time.Duration, clock clock.WithTicker) *endpoints {
	return &endpoints{
		dialer: dialer, interval: interval, clock: clock, changed: func(...string) {}, recalled: &recollection{},
		wake: newBell(), places: make(chan struct{}, probesAtOnce), rounds: map[string]*probing{},
	}
}

// about returns how the endpoints of a delivery are, in the order of its
// health policy, and whether they count yet. It begins to probe once the
// objects are healthy.
func (e *endpoints) about(d *v1alpha1.RolloutDelivery, objects v1alpha1.Health) ([]v1alpha1.EndpointHealth, bool) {
	checks := d.Status.Rendered.Health.Endpoints
	if len(checks) == 0 {
		e.forget(d.Name)
		return nil, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	round, known := e.rounds[d.Name]
	if !known || round.intent != intentOf(d) {
		if known && round.stop != nil {
			round.stop()
		}
		round = e.begin(d)
		e.rounds[d.Name] = round
	}
	if !round.due && objects == v1alpha1.HealthHealthy {
		round.due = true
		e.wake.ring()
	}
	report := make([]v1alpha1.EndpointHealth, len(round.states))
	for i, state := range round.states {
		report[i] = state.reported
	}
	return report, round.due
}

// begin is the state before the first probe. An agent that was restarted goes
// on from what it had reported of the same delivery.
func (e *endpoints) begin(d *v1alpha1.RolloutDelivery) *probing {
	checks := d.Status.Rendered.Health.Endpoints
	round := &probing{intent: intentOf(d), rollout: d.Spec.Rollout, checks: checks, states: make([]endpointState, len(checks))}
	before, _ := e.recalled.of(d)
	for i, check := range checks {
		round.states[i].reported = v1alpha1.EndpointHealth{
			Endpoint: nameOf(check.Service), Health: v1alpha1.HealthProgressing, Message: "not probed yet",
		}
		if len(before.Endpoints) != len(checks) || before.Endpoints[i].Endpoint != nameOf(check.Service) {
			continue
		}
		round.states[i].reported = before.Endpoints[i]
		round.states[i].answered = before.Endpoints[i].Health != v1alpha1.HealthProgressing
		round.due = round.due || round.states[i].answered
	}
	if round.due {
		e.wake.ring()
	}
	e.metrics.forgetEndpoints(d.Spec.Rollout)
	return round
}

// forget ends the probes of a delivery.
func (e *endpoints) forget(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if round, known := e.rounds[name]; known {
		if round.stop != nil {
			round.stop()
		}
		delete(e.rounds, name)
	}
}

// run probes until the context ends.
func (e *endpoints) run(ctx context.Context) {
	var probes sync.WaitGroup
	defer probes.Wait()
	for {
		e.start(ctx, &probes)
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
		}
	}
}

// start starts the probes that are due.
func (e *endpoints) start(ctx context.Context, probes *sync.WaitGroup) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, round := range e.rounds {
		if !round.due || round.stop != nil {
			continue
		}
		var roundCtx context.Context
		roundCtx, round.stop = context.WithCancel(ctx)
		for i := range round.checks {
			probes.Go(func() { e.watch(roundCtx, name, round, i) })
		}
	}
}

// watch probes one endpoint until the context ends.
func (e *endpoints) watch(ctx context.Context, name string, round *probing, i int) {
	for {
		select {
		case <-ctx.Done():
			return
		case e.places <- struct{}{}:
		}
		found := probe(ctx, e.dialer, e.clock, round.checks[i])
		<-e.places
		if ctx.Err() != nil {
			return
		}
		e.metrics.probed(round.rollout, nameOf(round.checks[i].Service), found)
		changed, again := e.record(round, i, found)
		if changed {
			e.changed(name)
		}
		wait := e.interval + time.Duration((2*rand.Float64()-1)*jitter*float64(e.interval)) //nolint:gosec // To spread, not to hide.
		if again {
			wait = min(wait, secondLook)
		}
		select {
		case <-ctx.Done():
			return
		case <-e.clock.After(wait):
		}
	}
}

// record takes an outcome over, and tells whether the report changes by it and
// whether to look again soon.
func (e *endpoints) record(round *probing, i int, found outcome) (changed, again bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := round.states[i]
	after := before.next(round.checks[i], found)
	round.states[i] = after
	return after.reported != before.reported, after.bad > 0 && after.bad < unhealthyAfter
}

// next is the state after one more probe. The latency is reported as it was
// when the health or the message changed last: alone it is no news.
func (s endpointState) next(check v1alpha1.EndpointCheck, found outcome) endpointState {
	health, message := v1alpha1.HealthHealthy, ""
	switch slowest := check.MaxLatencyMilliseconds; {
	case found.failure != "" && !s.answered:
		health, message = v1alpha1.HealthProgressing, found.failure
	case found.failure != "":
		health, message = v1alpha1.HealthDegraded, found.failure
	case slowest != nil && found.latency > time.Duration(*slowest)*time.Millisecond:
		health, message = v1alpha1.HealthDegraded, fmt.Sprintf("answers more slowly than in %d ms", *slowest)
	}
	if health == v1alpha1.HealthHealthy {
		s.bad, s.answered = 0, true
	} else if s.bad++; s.bad < unhealthyAfter && s.reported.Health == v1alpha1.HealthHealthy {
		return s
	}
	if s.reported.Health == health && s.reported.Message == message {
		return s
	}
	s.reported.Health, s.reported.Message, s.reported.LatencyMilliseconds = health, message, nil
	if found.failure == "" {
		s.reported.LatencyMilliseconds = ptr.To(int32(found.latency.Milliseconds()))
	}
	return s
}

// withEndpoints adds the endpoints to a report on the objects. Those that do
// not count yet are shown, and hold nothing: what the objects lack is said
// already.
func withEndpoints(report v1alpha1.AgentReport, endpoints []v1alpha1.EndpointHealth, count bool) v1alpha1.AgentReport {
	report.Endpoints = endpoints
	if !count {
		return report
	}
	var worst *v1alpha1.EndpointHealth
	for i, endpoint := range endpoints {
		if severity(endpoint.Health) > 0 && (worst == nil || severity(endpoint.Health) > severity(worst.Health)) {
			worst = &endpoints[i]
		}
	}
	if worst == nil {
		return report
	}
	return withFinding(report, worst.Health, fmt.Sprintf("endpoint %s: %s", worst.Endpoint, worst.Message))
}

// withFinding lets something beside the objects make a report worse.
func withFinding(report v1alpha1.AgentReport, health v1alpha1.Health, words string) v1alpha1.AgentReport {
	if report.Health == v1alpha1.HealthHealthy {
		report.Text = bounded(words + "; " + report.Text)
	} else {
		report.Text = bounded(report.Text + "; " + words)
	}
	if severity(health) > severity(report.Health) {
		report.Health = health
	}
	return report
}
