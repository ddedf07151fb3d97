package main

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// errNotRenewed is the answer to a write of a process that cannot know whether
// it still leads.
var errNotRenewed = errors.New("the leader's Lease was not renewed in time; another replica may lead, so nothing is written any more")

// leaseFence refuses the writes of a leader that has not renewed its Lease for
// as long as it may. A process that was frozen wakes in the middle of its work,
// with caches that fill up at once and so pass every optimistic lock, before its
// elector notices that somebody else leads.
type leaseFence struct {
	// name of the leader's Lease.
	name string
	// maxAge of the last renewal: the elector's renew deadline.
	maxAge time.Duration
	clock  clock.PassiveClock

	mu      sync.Mutex
	renewed time.Time
}

// guard puts the fence between a configuration and its hub.
func (f *leaseFence) guard(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) { return f.roundTrip(next, request) })
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func (f *leaseFence) roundTrip(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet {
		return next.RoundTrip(request)
	}
	// The name is in the path of an update. No controller creates Leases before
	// this process leads; afterwards that of an agent is no renewal.
	path := request.URL.Path
	isCreation := request.Method == http.MethodPost && strings.HasSuffix(path, "/leases") && !f.hasLed()
	if isCreation || strings.HasSuffix(path, "/leases/"+f.name) {
		sent := f.clock.Now()
		response, err := next.RoundTrip(request)
		if err == nil && response.StatusCode < http.StatusMultipleChoices {
			f.mu.Lock()
			f.renewed = sent
			f.mu.Unlock()
		}
		return response, err
	}
	if f.isOutdated() {
		if request.Body != nil {
			request.Body.Close()
		}
		return nil, errNotRenewed
	}
	return next.RoundTrip(request)
}

func (f *leaseFence) hasLed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.renewed.IsZero()
}

// isOutdated tells that the last renewal is too long ago, on the clock that
// runs while a process is stopped or on the one that runs while a machine is.
func (f *leaseFence) isOutdated() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.renewed.IsZero() {
		return false
	}
	now := f.clock.Now()
	return max(now.Sub(f.renewed), now.Round(0).Sub(f.renewed.Round(0))) > f.maxAge
}
