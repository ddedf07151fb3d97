package integration

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// write is a request that changes an object of the hub.
type write struct {
	Method, Resource, Namespace, Name string
	// Subresource is "status", for one; empty for the object itself.
	Subresource string
}

func (w write) String() string {
	return strings.TrimSuffix(fmt.Sprintf("%s %s %s/%s %s", w.Method, w.Resource, w.Namespace, w.Name, w.Subresource), " ")
}

// isWork tells whether the spec of a ManifestWork is written.
func (w write) isWork() bool { return w.Resource == "manifestworks" && w.Subresource == "" }

// writeOf reads a request. Events are no writes: they are told in passing and
// may be lost. Neither are Leases, by which managers elect their leader, nor
// requests that only try something.
func writeOf(r *http.Request) (write, bool) {
	if r.Method == http.MethodGet || r.URL.Query().Get("dryRun") != "" {
		return write{}, false
	}
	w := write{Method: r.Method}
	// /api/v1/… or /apis/<group>/<version>/…
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	prefix := 2
	if parts[0] == "apis" {
		prefix = 3
	}
	parts = parts[min(prefix, len(parts)):]
	if len(parts) > 2 && parts[0] == "namespaces" {
		w.Namespace, parts = parts[1], parts[2:]
	}
	for i, field := range []*string{&w.Resource, &w.Name, &w.Subresource} {
		if i < len(parts) {
			*field = parts[i]
		}
	}
	ignored := []string{"events", "leases", "selfsubjectaccessreviews", "subjectaccessreviews"}
	return w, !slices.Contains(ignored, w.Resource)
}

// fate is what becomes of the answer to a write.
type fate int

const (
	// answered: the manager gets the answer.
	answered fate = iota
	// lost: the connection breaks before the answer.
	lost
)

// interceptor decides about the number-th write, from 1, of a manager: whether
// and when it is forwarded to the hub, and what becomes of the answer. The
// other writes of the manager wait meanwhile. forward returns the HTTP status.
type interceptor func(number int, w write, forward func() int) fate

// pass forwards every write.
func pass(_ int, _ write, forward func() int) fate {
	forward()
	return answered
}

// writeProxy stands between a manager and the hub, and sees each of its writes.
type writeProxy struct {
	hub        *httputil.ReverseProxy
	server     *httptest.Server
	kubeconfig string
	// life counts the processes of the manager; what one of the dead still has in
	// the queue is never forwarded.
	life atomic.Int64

	// turn lets one write after the other pass.
	turn      sync.Mutex
	intercept interceptor
	count     int

	mu       sync.Mutex
	accepted []write
}

type lifeKey struct{}

// newWriteProxy starts a proxy to a hub; it ends with the spec.
func newWriteProxy(config *rest.Config) *writeProxy {
	GinkgoHelper()
	target, err := url.Parse(config.Host)
	Expect(err).NotTo(HaveOccurred())
	transport, err := rest.TransportFor(config)
	Expect(err).NotTo(HaveOccurred())
	p := &writeProxy{intercept: pass, kubeconfig: filepath.Join(GinkgoT().TempDir(), "kubeconfig")}
	p.hub = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // Watches are told at once.
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = httptest.NewUnstartedServer(p)
	p.server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, lifeKey{}, p.life.Load())
	}
	p.server.Start()
	DeferCleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
	})

	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["hub"] = &clientcmdapi.Cluster{Server: p.server.URL}
	kubeconfig.Contexts["hub"] = &clientcmdapi.Context{Cluster: "hub"}
	kubeconfig.CurrentContext = "hub"
	Expect(clientcmd.WriteToFile(*kubeconfig, p.kubeconfig)).To(Succeed())
	return p
}

// ServeHTTP forwards a request to the hub, a write only as the interceptor says.
func (p *writeProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	written, ok := writeOf(r)
	if !ok {
		p.hub.ServeHTTP(w, r)
		return
	}
	p.turn.Lock()
	defer p.turn.Unlock()
	if r.Context().Value(lifeKey{}) != p.life.Load() {
		panic(http.ErrAbortHandler)
	}
	p.count++
	answer := httptest.NewRecorder()
	forward := func() int {
		// What has been sent arrives, whatever happens to the sender.
		p.hub.ServeHTTP(answer, r.WithContext(context.WithoutCancel(r.Context())))
		if answer.Code < http.StatusMultipleChoices {
			p.mu.Lock()
			p.accepted = append(p.accepted, written)
			p.mu.Unlock()
		}
		return answer.Code
	}
	if p.intercept(p.count, written, forward) == lost {
		panic(http.ErrAbortHandler)
	}
	for key, values := range answer.Header() {
		w.Header()[key] = values
	}
	w.WriteHeader(answer.Code)
	// An error means that the manager is gone.
	_, _ = w.Write(answer.Body.Bytes())
}

// reset begins to count anew, with another interceptor.
func (p *writeProxy) reset(intercept interceptor) {
	p.turn.Lock()
	defer p.turn.Unlock()
	p.intercept, p.count = intercept, 0
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted = nil
}

// writes that the hub has accepted since the last reset.
func (p *writeProxy) writes() []write {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.accepted)
}
