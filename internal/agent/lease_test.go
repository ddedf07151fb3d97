package agent

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
)

// leaseHub takes renewals.
type leaseHub struct{ renewals chan coordinationv1.LeaseSpec }

func (h leaseHub) Patch(_ context.Context, _ string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*coordinationv1.Lease, error) {
	var lease coordinationv1.Lease
	if err := json.Unmarshal(data, &lease); err != nil {
		return nil, err
	}
	h.renewals <- lease.Spec
	return &lease, nil
}

type leaseFixture struct {
	clock    *testclock.FakeClock
	fast     atomic.Bool
	problem  atomic.Pointer[error]
	lease    *lease
	renewals chan coordinationv1.LeaseSpec
}

// startLease runs a Lease with the default intervals until the test ends.
func startLease(t *testing.T) *leaseFixture {
	t.Helper()
	f := &leaseFixture{clock: testclock.NewFakeClock(time.Unix(0, 0)), renewals: make(chan coordinationv1.LeaseSpec, 1)}
	f.lease = &lease{
		leases: leaseHub{f.renewals}, clock: f.clock, holder: "c1", fast: DefaultFastLease, slow: DefaultSlowLease,
		isFast: f.fast.Load,
		vouches: []func(context.Context) error{func(context.Context) error {
			if problem := f.problem.Load(); problem != nil {
				return *problem
			}
			return nil
		}},
		sooner: newBell(),
	}
	return f
}

func (f *leaseFixture) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.lease.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// renewed waits for a renewal and returns its duration in seconds.
func (f *leaseFixture) renewed(t *testing.T) int32 {
	t.Helper()
	select {
	case spec := <-f.renewals:
		return *spec.LeaseDurationSeconds
	case <-time.After(10 * time.Second):
		t.Fatal("the Lease was not renewed")
		return 0
	}
}

// step lets time pass once the Lease waits for it.
func (f *leaseFixture) step(t *testing.T, d time.Duration) {
	t.Helper()
	for range 10_000 {
		if f.clock.HasWaiters() {
			f.clock.Step(d)
			return
		}
		<-time.After(time.Millisecond)
	}
	t.Fatal("the Lease does not wait")
}

func TestTheLeaseHoldsThreeIntervals(t *testing.T) {
	f := startLease(t)
	f.run(t)
	if got := f.renewed(t); got != 180 {
		t.Errorf("slow: %d seconds, want 180", got)
	}
	f.fast.Store(true)
	f.lease.sooner <- struct{}{}
	if got := f.renewed(t); got != 60 {
		t.Errorf("fast, at once: %d seconds, want 60", got)
	}
	f.step(t, DefaultFastLease)
	if got := f.renewed(t); got != 60 {
		t.Errorf("fast: %d seconds, want 60", got)
	}
	f.fast.Store(false)
	f.step(t, DefaultFastLease)
	if got := f.renewed(t); got != 180 {
		t.Errorf("slow again: %d seconds, want 180", got)
	}
}

func TestTheLeaseIsNotRenewedWhileTheReportsMustNotBeBelieved(t *testing.T) {
	f := startLease(t)
	problem := errors.New("the managed cluster does not answer")
	f.problem.Store(&problem)
	f.run(t)
	f.step(t, leaseRetry)
	select {
	case <-f.renewals:
		t.Fatal("the Lease was renewed")
	default:
	}
	f.problem.Store(nil)
	f.step(t, leaseRetry)
	f.renewed(t)
}

func TestShortIntervalsStillGiveAWholeSecond(t *testing.T) {
	for interval, want := range map[time.Duration]int32{
		100 * time.Millisecond: 1, time.Second: 3, 1500 * time.Millisecond: 5, DefaultFastLease: 60,
	} {
		if got := *leaseSeconds(interval); got != want {
			t.Errorf("%s: %d seconds, want %d", interval, got, want)
		}
	}
}
