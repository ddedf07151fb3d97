package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/leaderelection"
)

// watchedLock is the lock of the leader's Lease that also finds out for how long
// nobody led before this process did: until then no manager was watching, and
// no cluster may fail for it.
type watchedLock struct {
	resourcelock.Interface
	clock clock.PassiveClock
	// tell is called once, before this process begins to lead, if somebody led
	// before.
	tell func(from, until time.Time)

	mu     sync.Mutex
	led    bool
	others time.Time
}

// Get returns the record of the Lease, and remembers when its holder renewed it.
func (l *watchedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	found, raw, err := l.Interface.Get(ctx)
	if err == nil && found.HolderIdentity != l.Identity() {
		l.mu.Lock()
		l.others = found.RenewTime.Time
		l.mu.Unlock()
	}
	return found, raw, err
}

// Update takes or renews the Lease.
func (l *watchedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.Interface.Update(ctx, record); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.led && !l.others.IsZero() {
		l.tell(l.others, l.clock.Now())
	}
	l.led = true
	return nil
}

// newLock returns the lock that the manager elects its leader with.
func (o *Options) newLock(config *rest.Config, scheme *runtime.Scheme, tell func(from, until time.Time)) (resourcelock.Interface, error) {
	clients, err := kubernetes.NewForConfig(rest.AddUserAgent(config, "leader-election"))
	if err != nil {
		return nil, fmt.Errorf("set up the client of the leader election: %w", err)
	}
	lock, err := leaderelection.NewResourceLock(config, lockEvents{scheme: scheme, clients: clients}, leaderelection.Options{
		LeaderElection:          true,
		LeaderElectionID:        o.LeaderElection.ID,
		LeaderElectionNamespace: o.LeaderElection.Namespace,
		RenewDeadline:           o.LeaderElection.RenewDeadline,
	})
	if err != nil {
		return nil, fmt.Errorf("set up the leader election: %w", err)
	}
	return &watchedLock{Interface: lock, clock: clock.RealClock{}, tell: tell}, nil
}

// lockEvents records who became leader, as events of the Lease.
type lockEvents struct {
	scheme  *runtime.Scheme
	clients kubernetes.Interface
}

// GetEventRecorderFor returns the recorder of a component.
func (e lockEvents) GetEventRecorderFor(name string) record.EventRecorder {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: e.clients.CoreV1().Events("")})
	return broadcaster.NewRecorder(e.scheme, corev1.EventSource{Component: name})
}
