package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/utils/clock"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

const (
	// bodyLimit is how much of an answer is read, in bytes: enough to know that
	// it comes.
	bodyLimit = 16 << 10
	// maxRedirects bounds how often a probe is sent on within one endpoint.
	maxRedirects = 5
	// userAgent of the probes, for access logs.
	userAgent = "fleet-rollout-agent"
)

// Dialer opens the connections of the probes. *net.Dialer is one.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// mappedDialer dials other addresses in the place of some Services, where there
// is no Service network.
type mappedDialer struct {
	Dialer
	addresses map[string]string
}

func (d mappedDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if mapped, found := d.addresses[address]; found {
		address = mapped
	}
	return d.Dialer.DialContext(ctx, network, address)
}

// outcome is what one probe of an endpoint found.
type outcome struct {
	// failure says in a few words what is wrong, always the same ones for the
	// same cause; empty if the endpoint answered well.
	failure string
	// latency is how long the answer took.
	latency time.Duration
}

// probe asks an endpoint once.
func probe(ctx context.Context, dialer Dialer, clock clock.PassiveClock, check v1alpha1.EndpointCheck) outcome {
	ctx, cancel := context.WithTimeout(ctx, check.Timeout())
	defer cancel()
	start := clock.Now()
	var err error
	if check.SchemeOrDefault() == v1alpha1.EndpointTCP {
		err = connect(ctx, dialer, check)
	} else {
		err = ask(ctx, dialer, check)
	}
	if err != nil {
		return outcome{failure: failureOf(err, check.Timeout())}
	}
	return outcome{latency: clock.Since(start)}
}

func connect(ctx context.Context, dialer Dialer, check v1alpha1.EndpointCheck) error {
	conn, err := dialer.DialContext(ctx, "tcp", addressOf(check.Service))
	if err != nil {
		return err
	}
	return conn.Close()
}

// statusError is an answer that is no success.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

// ask sends a GET. A redirect to another host is an answer and is not followed:
// a probe must not be led to where the rollout did not point it.
func ask(ctx context.Context, dialer Dialer, check v1alpha1.EndpointCheck) error {
	transport := &http.Transport{
		DialContext: dialer.DialContext,
		// As a kubelet's probes do: the certificates of Services are rarely made
		// for an authority that the agent knows.
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // See above.
		TLSHandshakeTimeout: check.Timeout(),
		DisableKeepAlives:   true,
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if next.URL.Host != via[0].URL.Host || len(via) > maxRedirects {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, urlOf(check), nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", userAgent)
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if _, err := io.CopyN(io.Discard, answer.Body, bodyLimit); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if answer.StatusCode < 200 || answer.StatusCode >= 400 {
		return statusError(answer.StatusCode)
	}
	return nil
}

// addressOf is the name of the Service in the cluster's DNS, with the port.
func addressOf(s v1alpha1.ServiceEndpoint) string {
	return net.JoinHostPort(s.Name+"."+s.Namespace+".svc", strconv.Itoa(int(s.Port)))
}

func urlOf(check v1alpha1.EndpointCheck) string {
	scheme := "http"
	if check.SchemeOrDefault() == v1alpha1.EndpointHTTPS {
		scheme = "https"
	}
	path := check.Service.Path
	if path == "" {
		path = "/"
	}
	return scheme + "://" + addressOf(check.Service) + path
}

// nameOf is how an endpoint is reported.
func nameOf(s v1alpha1.ServiceEndpoint) string {
	return fmt.Sprintf("%s/%s:%d", s.Namespace, s.Name, s.Port)
}

// parseEndpoint reads "namespace/name:port".
func parseEndpoint(text string) (v1alpha1.ServiceEndpoint, error) {
	wrong := fmt.Errorf("endpoint %q: write namespace/name:port", text)
	namespace, rest, found := strings.Cut(text, "/")
	name, port, hasPort := strings.Cut(rest, ":")
	number, err := strconv.ParseUint(port, 10, 16)
	if !found || !hasPort || namespace == "" || name == "" || err != nil || number == 0 {
		return v1alpha1.ServiceEndpoint{}, wrong
	}
	return v1alpha1.ServiceEndpoint{Namespace: namespace, Name: name, Port: int32(number)}, nil
}

// failureOf says what is wrong without anything that differs from probe to
// probe, such as a local port: each new wording would be a new report.
func failureOf(err error, timeout time.Duration) string {
	var (
		status  statusError
		network net.Error
		dns     *net.DNSError
		errno   syscall.Errno
		record  tls.RecordHeaderError
		address *url.Error
	)
	switch {
	case errors.As(err, &status):
		return status.Error()
	case errors.As(err, &dns) && dns.IsNotFound:
		return "its name is not known: is there such a Service?"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return fmt.Sprintf("no answer within %s", timeout)
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return "does not speak TLS"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "closes the connection without an answer"
	case errors.As(err, &dns):
		return "its name cannot be resolved"
	case errors.As(err, &address) && address.Op == "parse":
		return "its path is not that of a URL"
	}
	return "no valid answer"
}
