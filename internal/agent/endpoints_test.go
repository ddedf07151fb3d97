package agent

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func answered(latency time.Duration) outcome { return outcome{latency: latency} }

func TestHowAnEndpointIsAfterItsProbes(t *testing.T) {
	const fast, slow = 20 * time.Millisecond, 800 * time.Millisecond
	refused := outcome{failure: "connection refused"}
	cases := []struct {
		name    string
		probes  []outcome
		health  v1alpha1.Health
		message string
		latency *int32
	}{
		{"it progresses until it answers", []outcome{refused, refused, refused}, v1alpha1.HealthProgressing, "connection refused", nil},
		{"it is healthy once it answers", []outcome{refused, answered(fast)}, v1alpha1.HealthHealthy, "", ptr.To[int32](20)},
		{"one lost probe is none", []outcome{answered(fast), refused}, v1alpha1.HealthHealthy, "", ptr.To[int32](20)},
		{"two are degraded, because it had answered", []outcome{answered(fast), refused, refused}, v1alpha1.HealthDegraded, "connection refused", nil},
		{"one answer ends it", []outcome{answered(fast), refused, refused, answered(30 * time.Millisecond)}, v1alpha1.HealthHealthy, "", ptr.To[int32](30)},
		{"too slow an answer is degraded", []outcome{answered(fast), answered(slow), answered(slow)}, v1alpha1.HealthDegraded, "answers more slowly than in 500 ms", ptr.To[int32](800)},
		{"from the first one on", []outcome{answered(slow)}, v1alpha1.HealthDegraded, "answers more slowly than in 500 ms", ptr.To[int32](800)},
		{"slow and lost are both bad", []outcome{answered(fast), refused, answered(slow)}, v1alpha1.HealthDegraded, "answers more slowly than in 500 ms", ptr.To[int32](800)},
		{"other latencies within the bound are no news", []outcome{answered(fast), answered(400 * time.Millisecond)}, v1alpha1.HealthHealthy, "", ptr.To[int32](20)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			check := endpointOf(v1alpha1.EndpointHTTP)
			check.MaxLatencyMilliseconds = ptr.To[int32](500)
			state := endpointState{reported: v1alpha1.EndpointHealth{Endpoint: "payments/api:80", Health: v1alpha1.HealthProgressing, Message: "not probed yet"}}
			for _, found := range c.probes {
				state = state.next(check, found)
			}
			want := v1alpha1.EndpointHealth{Endpoint: "payments/api:80", Health: c.health, Message: c.message, LatencyMilliseconds: c.latency}
			if diff := cmp.Diff(want, state.reported); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEndpointsMakeAReportWorseAndNeverBetter(t *testing.T) {
	endpoint := func(health v1alpha1.Health) []v1alpha1.EndpointHealth {
		return []v1alpha1.EndpointHealth{{Endpoint: "payments/ui:80", Health: v1alpha1.HealthHealthy},
			{Endpoint: "payments/api:80", Health: health, Message: "status 503"}}
	}
	cases := []struct {
		name     string
		objects  v1alpha1.Health
		endpoint v1alpha1.Health
		count    bool
		want     v1alpha1.Health
		named    bool
	}{
		{"all well", v1alpha1.HealthHealthy, v1alpha1.HealthHealthy, true, v1alpha1.HealthHealthy, false},
		{"an endpoint that is down", v1alpha1.HealthHealthy, v1alpha1.HealthDegraded, true, v1alpha1.HealthDegraded, true},
		{"an endpoint that never answered", v1alpha1.HealthHealthy, v1alpha1.HealthProgressing, true, v1alpha1.HealthProgressing, true},
		{"objects that have failed", v1alpha1.HealthFailed, v1alpha1.HealthDegraded, true, v1alpha1.HealthFailed, true},
		{"a suspended object holds without a deadline before anything is probed", v1alpha1.HealthSuspended, v1alpha1.HealthProgressing, false, v1alpha1.HealthSuspended, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := withEndpoints(v1alpha1.AgentReport{Health: c.objects, Text: "objects"}, endpoint(c.endpoint), c.count)
			if got.Health != c.want {
				t.Errorf("health is %s, want %s", got.Health, c.want)
			}
			if named := strings.Contains(got.Text, "endpoint payments/api:80: status 503"); named != c.named || !strings.Contains(got.Text, "objects") {
				t.Errorf("the text is %q", got.Text)
			}
			if len(got.Endpoints) != 2 {
				t.Errorf("endpoints are %v", got.Endpoints)
			}
		})
	}
}

// endpointsFixture probes a server whose status can be set.
type endpointsFixture struct {
	endpoints *endpoints
	delivery  *v1alpha1.RolloutDelivery
	status    atomic.Int32
	probed    atomic.Int32
	changed   chan struct{}
}

func newEndpointsFixture(t *testing.T) *endpointsFixture {
	t.Helper()
	f := &endpointsFixture{delivery: deliveryOf(apiDeployment), changed: make(chan struct{}, 1)}
	f.status.Store(http.StatusOK)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		f.probed.Add(1)
		w.WriteHeader(int(f.status.Load()))
	}))
	f.delivery.Status.Rendered.Health.Endpoints = []v1alpha1.EndpointCheck{endpointOf(v1alpha1.EndpointHTTP)}
	f.endpoints = newEndpoints(&syncDialer{address: server.Listener.Addr().String()}, time.Millisecond, clock.RealClock{})
	f.endpoints.changed = func(...string) {
		select {
		case f.changed <- struct{}{}:
		default:
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); f.endpoints.run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended; server.Close() })
	return f
}

// syncDialer is a dialerTo for many goroutines.
type syncDialer struct{ address string }

func (d *syncDialer) DialContext(ctx context.Context, network, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, d.address)
}

// await asks until the only endpoint has the health.
func (f *endpointsFixture) await(t *testing.T, want v1alpha1.Health) v1alpha1.EndpointHealth {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		got, _ := f.endpoints.about(f.delivery, v1alpha1.HealthHealthy)
		if got[0].Health == want {
			return got[0]
		}
		select {
		case <-f.changed:
		case <-limit:
			t.Fatalf("the endpoint is %+v, want %s", got[0], want)
		}
	}
}

func TestAnEndpointIsProbedOnceTheObjectsAreHealthy(t *testing.T) {
	f := newEndpointsFixture(t)
	if got, count := f.endpoints.about(f.delivery, v1alpha1.HealthProgressing); count || got[0].Health != v1alpha1.HealthProgressing {
		t.Errorf("before: %+v, counts %v", got, count)
	}
	if f.probed.Load() != 0 {
		t.Error("the content that is being left was probed")
	}
	f.await(t, v1alpha1.HealthHealthy)
	f.status.Store(http.StatusServiceUnavailable)
	if got := f.await(t, v1alpha1.HealthDegraded); got.Message != "status 503" {
		t.Errorf("down: %+v", got)
	}
	f.status.Store(http.StatusOK)
	f.await(t, v1alpha1.HealthHealthy)
}

func TestAnAnswerToAnEarlierDeliveryProvesNothing(t *testing.T) {
	f := newEndpointsFixture(t)
	f.await(t, v1alpha1.HealthHealthy)
	f.status.Store(http.StatusServiceUnavailable)
	f.delivery = f.delivery.DeepCopy()
	f.delivery.Spec.Delivery, f.delivery.Status.Rendered.Delivery = 8, 8
	if got, count := f.endpoints.about(f.delivery, v1alpha1.HealthProgressing); count || got[0].Health != v1alpha1.HealthProgressing {
		t.Errorf("the next delivery begins with %+v, counts %v", got, count)
	}
	limit := time.After(time.Minute)
	for {
		got, _ := f.endpoints.about(f.delivery, v1alpha1.HealthHealthy)
		if got[0].Message == "status 503" {
			if got[0].Health != v1alpha1.HealthProgressing {
				t.Errorf("it never answered within this delivery, and is %s", got[0].Health)
			}
			return
		}
		select {
		case <-f.changed:
		case <-limit:
			t.Fatalf("the endpoint is %+v", got[0])
		}
	}
}

func TestProbesEndWithTheirDelivery(t *testing.T) {
	f := newEndpointsFixture(t)
	f.await(t, v1alpha1.HealthHealthy)
	f.endpoints.mu.Lock()
	round := f.endpoints.rounds[f.delivery.Name]
	f.endpoints.mu.Unlock()
	f.endpoints.forget(f.delivery.Name)
	if len(f.endpoints.rounds) != 0 || round.stop == nil {
		t.Error("the endpoints are remembered")
	}
}

func TestARestartedAgentGoesOnFromWhatItHadReported(t *testing.T) {
	d := deliveryOf(apiDeployment)
	d.Status.Rendered.Health.Endpoints = []v1alpha1.EndpointCheck{endpointOf(v1alpha1.EndpointHTTP)}
	healthy := v1alpha1.EndpointHealth{Endpoint: "payments/api:80", Health: v1alpha1.HealthHealthy, LatencyMilliseconds: ptr.To[int32](12)}
	for delivery, want := range map[int64]v1alpha1.Health{7: v1alpha1.HealthHealthy, 6: v1alpha1.HealthProgressing} {
		e := newEndpoints(&syncDialer{}, time.Hour, clock.RealClock{})
		e.recalled = &recollection{reports: map[string]v1alpha1.AgentReport{
			ourType: {Digest: "sha256:r2", Delivery: delivery, Endpoints: []v1alpha1.EndpointHealth{healthy}}}}
		if got, _ := e.about(d, v1alpha1.HealthHealthy); got[0].Health != want {
			t.Errorf("reported in delivery %d: the endpoint begins as %s, want %s", delivery, got[0].Health, want)
		}
	}
}
