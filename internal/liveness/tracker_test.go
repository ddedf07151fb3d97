package liveness_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"open-cluster-management.io/fleet-rollout/internal/liveness"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// renewal is the Lease after its n-th renewal, with the given duration. The
// agent's own clock is an hour behind the hub's.
func renewal(n int, seconds int32) *coordinationv1.Lease {
	at := metav1.NewMicroTime(start.Add(-time.Hour + time.Duration(n)*time.Second))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(100 + n)},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &at, LeaseDurationSeconds: ptr.To(seconds)},
	}
}

func TestTracker(t *testing.T) {
	unrenewed := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "50"}}
	for _, tc := range []struct {
		name    string
		observe func(*liveness.Tracker, *clocktesting.FakePassiveClock)
		want    liveness.State
	}{{
		name:    "a cluster nobody has heard of is neither seen nor live",
		observe: func(*liveness.Tracker, *clocktesting.FakePassiveClock) {},
		want:    liveness.State{Interval: time.Minute},
	}, {
		name: "a Lease that the hub created and nobody renewed is not an agent",
		observe: func(tr *liveness.Tracker, _ *clocktesting.FakePassiveClock) {
			tr.ObserveLease("c1", unrenewed)
		},
		want: liveness.State{Interval: time.Minute},
	}, {
		name: "the first renewal of a watched Lease is a sign of life",
		observe: func(tr *liveness.Tracker, c *clocktesting.FakePassiveClock) {
			tr.ObserveLease("c1", unrenewed)
			c.SetTime(start.Add(time.Second))
			tr.ObserveLease("c1", renewal(1, 60))
		},
		want: liveness.State{Seen: true, Live: true, Confirmed: true, Interval: 20 * time.Second,
			LastSeenAt: start.Add(time.Second), ExpiresAt: start.Add(61 * time.Second)},
	}, {
		name: "after a start a Lease has the benefit of the doubt, however old its renewal",
		observe: func(tr *liveness.Tracker, c *clocktesting.FakePassiveClock) {
			tr.ObserveLease("c1", renewal(1, 60))
			c.SetTime(start.Add(time.Minute - 1))
		},
		want: liveness.State{Seen: true, Live: true, Interval: 20 * time.Second, ExpiresAt: start.Add(time.Minute)},
	}, {
		name: "three intervals without a change end it",
		observe: func(tr *liveness.Tracker, c *clocktesting.FakePassiveClock) {
			tr.ObserveLease("c1", renewal(1, 60))
			c.SetTime(start.Add(30 * time.Second))
			tr.ObserveLease("c1", renewal(1, 60))
			c.SetTime(start.Add(time.Minute))
		},
		want: liveness.State{Seen: true, Interval: 20 * time.Second, ExpiresAt: start.Add(time.Minute)},
	}, {
		name: "a change brings it back to life, also when the agent's clock was set back",
		observe: func(tr *liveness.Tracker, c *clocktesting.FakePassiveClock) {
			tr.ObserveLease("c1", renewal(10, 60))
			c.SetTime(start.Add(time.Hour))
			back := renewal(5, 60)
			back.ResourceVersion = "200"
			tr.ObserveLease("c1", back)
		},
		want: liveness.State{Seen: true, Live: true, Confirmed: true, Interval: 20 * time.Second,
			LastSeenAt: start.Add(time.Hour), ExpiresAt: start.Add(time.Hour + time.Minute)},
	}, {
		name: "an older copy of the Lease that comes late is no renewal",
		observe: func(tr *liveness.Tracker, c *clocktesting.FakePassiveClock) {
			tr.ObserveLease("c1", renewal(2, 60))
			c.SetTime(start.Add(time.Second))
			tr.ObserveLease("c1", renewal(1, 60))
		},
		want: liveness.State{Seen: true, Live: true, Interval: 20 * time.Second, ExpiresAt: start.Add(time.Minute)},
	}, {
		name: "an older copy from before the first renewal does not take it back",
		observe: func(tr *liveness.Tracker, _ *clocktesting.FakePassiveClock) {
			tr.ObserveLease("c1", renewal(2, 60))
			tr.ObserveLease("c1", unrenewed)
		},
		want: liveness.State{Seen: true, Live: true, Interval: 20 * time.Second, ExpiresAt: start.Add(time.Minute)},
	}, {
		name: "a slower renewal gives more time from the renewal that says so",
		observe: func(tr *liveness.Tracker, c *clocktesting.FakePassiveClock) {
			tr.ObserveLease("c1", renewal(1, 60))
			c.SetTime(start.Add(20 * time.Second))
			tr.ObserveLease("c1", renewal(2, 180))
		},
		want: liveness.State{Seen: true, Live: true, Confirmed: true, Interval: time.Minute,
			LastSeenAt: start.Add(20 * time.Second), ExpiresAt: start.Add(200 * time.Second)},
	}, {
		name: "a changed report is a sign of life, the first look at one is not",
		observe: func(tr *liveness.Tracker, c *clocktesting.FakePassiveClock) {
			tr.ObserveLease("c1", renewal(1, 60))
			tr.ObserveReport("c1", "a")
			c.SetTime(start.Add(40 * time.Second))
			tr.ObserveReport("c1", "b")
			c.SetTime(start.Add(50 * time.Second))
			tr.ObserveReport("c1", "b")
		},
		want: liveness.State{Seen: true, Live: true, Confirmed: true, Interval: 20 * time.Second,
			LastSeenAt: start.Add(40 * time.Second), ExpiresAt: start.Add(100 * time.Second)},
	}, {
		name: "a report that vanishes is no sign of life",
		observe: func(tr *liveness.Tracker, c *clocktesting.FakePassiveClock) {
			tr.ObserveLease("c1", renewal(1, 60))
			tr.ObserveReport("c1", "a")
			c.SetTime(start.Add(40 * time.Second))
			tr.ObserveReport("c1", "")
		},
		want: liveness.State{Seen: true, Live: true, Interval: 20 * time.Second, ExpiresAt: start.Add(time.Minute)},
	}, {
		name: "a deleted Lease means that there is no agent",
		observe: func(tr *liveness.Tracker, _ *clocktesting.FakePassiveClock) {
			tr.ObserveLease("c1", renewal(1, 60))
			tr.ObserveLease("c1", renewal(2, 60))
			tr.ObserveLease("c1", nil)
		},
		want: liveness.State{Interval: 20 * time.Second},
	}, {
		name: "a forgotten cluster starts anew",
		observe: func(tr *liveness.Tracker, _ *clocktesting.FakePassiveClock) {
			tr.ObserveLease("c1", renewal(1, 60))
			tr.ObserveLease("c1", renewal(2, 60))
			tr.Forget("c1")
		},
		want: liveness.State{Interval: time.Minute},
	}} {
		t.Run(tc.name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(start)
			tracker := liveness.NewTracker(clock)
			tc.observe(tracker, clock)
			if diff := cmp.Diff(tc.want, tracker.State("c1")); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			if other := tracker.State("c2"); other.Seen || other.Confirmed {
				t.Errorf("another cluster's state is touched: %+v", other)
			}
		})
	}
}

func TestObservationsTellOnlyWhatChangesTheAnswer(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(start)
	tracker := liveness.NewTracker(clock)
	for i, step := range []struct {
		name    string
		after   time.Duration
		observe func() bool
		want    bool
	}{
		{"seen for the first time", 0, func() bool { return tracker.ObserveLease("c1", renewal(1, 60)) }, true},
		{"confirmed by the first renewal", 20 * time.Second, func() bool { return tracker.ObserveLease("c1", renewal(2, 60)) }, true},
		{"a renewal in time", 40 * time.Second, func() bool { return tracker.ObserveLease("c1", renewal(3, 60)) }, false},
		{"a report in time", 50 * time.Second, func() bool { return tracker.ObserveReport("c1", "a") }, false},
		{"a renewal after the Lease expired", 10 * time.Minute, func() bool { return tracker.ObserveLease("c1", renewal(4, 60)) }, true},
		{"a report after the Lease expired", 20 * time.Minute, func() bool { return tracker.ObserveReport("c1", "b") }, true},
		{"the Lease is gone", 20 * time.Minute, func() bool { return tracker.ObserveLease("c1", nil) }, true},
	} {
		clock.SetTime(start.Add(step.after))
		if got := step.observe(); got != step.want {
			t.Errorf("step %d, %s: got %t, want %t", i, step.name, got, step.want)
		}
	}
}

func TestTrackerMayBeUsedFromManyGoroutines(t *testing.T) {
	tracker := liveness.NewTracker(clocktesting.NewFakePassiveClock(start))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := range 200 {
				cluster := fmt.Sprintf("c%d", n%5)
				tracker.ObserveLease(cluster, renewal(g*200+n, 60))
				tracker.ObserveReport(cluster, strconv.Itoa(n))
				_ = tracker.State(cluster)
				if n%50 == 0 {
					tracker.Forget(cluster)
				}
			}
		}()
	}
	wg.Wait()
	tracker.Forget("c0")
	if tracker.State("c0").Seen {
		t.Error("a forgotten cluster is still seen")
	}
}
