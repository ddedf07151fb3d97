package agent

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// endpointOf is a check of the Service payments/api.
func endpointOf(scheme v1alpha1.EndpointScheme) v1alpha1.EndpointCheck {
	return v1alpha1.EndpointCheck{
		Service: v1alpha1.ServiceEndpoint{Namespace: "payments", Name: "api", Port: 80, Path: "/ready"}, Scheme: scheme,
	}
}

// dialerTo dials the address for every Service, and remembers which were asked
// for.
type dialerTo struct {
	address string
	asked   []string
}

func (d *dialerTo) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	d.asked = append(d.asked, address)
	return (&net.Dialer{}).DialContext(ctx, network, d.address)
}

func TestWhatAProbeFinds(t *testing.T) {
	answer := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/ready" || r.Method != http.MethodGet || !strings.HasPrefix(r.Host, "api.payments.svc") {
				w.WriteHeader(http.StatusTeapot)
				return
			}
			w.WriteHeader(status)
		}
	}
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/inner" {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			http.Redirect(w, r, to, http.StatusFound)
		}
	}
	cases := []struct {
		name    string
		scheme  v1alpha1.EndpointScheme
		handler http.HandlerFunc
		tls     bool
		want    string
		dials   int
	}{
		{"200 is well", "", answer(200), false, "", 1},
		{"399 is well", v1alpha1.EndpointHTTP, answer(399), false, "", 1},
		{"404 is not", v1alpha1.EndpointHTTP, answer(404), false, "status 404", 1},
		{"503 is not", v1alpha1.EndpointHTTP, answer(503), false, "status 503", 1},
		{"a certificate that nobody signed is well", v1alpha1.EndpointHTTPS, answer(200), true, "", 1},
		{"HTTPS where there is no TLS is not", v1alpha1.EndpointHTTPS, answer(200), false, "does not speak TLS", 1},
		{"a connection is well for TCP", v1alpha1.EndpointTCP, answer(503), false, "", 1},
		{"a redirect within the endpoint is followed", v1alpha1.EndpointHTTP, redirect("/inner"), false, "status 500", 2},
		{"a redirect to another host is an answer", v1alpha1.EndpointHTTP, redirect("http://169.254.169.254/latest"), false, "", 1},
		{"a redirect to another port too", v1alpha1.EndpointHTTP, redirect("http://api.payments.svc:81/inner"), false, "", 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(c.handler)
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			if c.tls {
				server.StartTLS()
			} else {
				server.Start()
			}
			defer server.Close()
			dialer := &dialerTo{address: server.Listener.Addr().String()}
			got := probe(t.Context(), dialer, clock.RealClock{}, endpointOf(c.scheme))
			if got.failure != c.want || (got.failure == "" && got.latency <= 0) {
				t.Errorf("got %+v, want failure %q", got, c.want)
			}
			if len(dialer.asked) != c.dials || dialer.asked[0] != "api.payments.svc:80" {
				t.Errorf("dialled %v, want the Service %d times", dialer.asked, c.dials)
			}
		})
	}
}

func TestAProbeOfWhatDoesNotAnswer(t *testing.T) {
	// Listens, and never accepts.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	check := endpointOf(v1alpha1.EndpointHTTP)
	check.TimeoutSeconds = ptr.To[int32](1)
	if got := probe(t.Context(), &dialerTo{address: silent.Addr().String()}, clock.RealClock{}, check); got.failure != "no answer within 1s" {
		t.Errorf("an endpoint that does not answer: %+v", got)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	if got := probe(t.Context(), &dialerTo{address: closed.Addr().String()}, clock.RealClock{}, check); got.failure != "connection refused" {
		t.Errorf("an endpoint where nobody listens: %+v", got)
	}
}

func TestAProbeReadsNoMoreThanItsLimit(t *testing.T) {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1024)); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	check := endpointOf(v1alpha1.EndpointHTTP)
	check.TimeoutSeconds = ptr.To[int32](60)
	if got := probe(t.Context(), &dialerTo{address: server.Listener.Addr().String()}, clock.RealClock{}, check); got.failure != "" {
		t.Errorf("an endless answer: %+v", got)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the connection was not closed")
	}
}

func TestAnAddressCanBeGivenInThePlaceOfAService(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	dialer, err := Options{EndpointAddresses: map[string]string{"payments/api:80": server.Listener.Addr().String()}}.dialer()
	if err != nil {
		t.Fatal(err)
	}
	if got := probe(t.Context(), dialer, clock.RealClock{}, endpointOf(v1alpha1.EndpointHTTP)); got.failure != "" {
		t.Errorf("got %+v", got)
	}
	for _, wrong := range []string{"api:80", "payments/api", "payments/api:0", "payments/api:http", "/api:80", "payments/:80", "payments/api:70000"} {
		if _, err := (Options{EndpointAddresses: map[string]string{wrong: "127.0.0.1:1"}}).dialer(); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%q was accepted: %v", wrong, err)
		}
	}
}
