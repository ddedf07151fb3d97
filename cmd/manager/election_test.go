package main

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	testingclock "k8s.io/utils/clock/testing"
)

// heldLock is a Lease that has a record.
type heldLock struct {
	resourcelock.Interface
	record resourcelock.LeaderElectionRecord
}

func (l *heldLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	held := l.record
	return &held, nil, nil
}

func (l *heldLock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	l.record = record
	return nil
}

func (l *heldLock) Identity() string { return "new" }

func TestANewLeaderKnowsForHowLongNobodyLed(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now := testingclock.NewFakePassiveClock(noon)
	type gap struct{ from, until time.Time }
	var told []gap
	held := &heldLock{record: resourcelock.LeaderElectionRecord{HolderIdentity: "old", RenewTime: metav1.NewTime(noon)}}
	lock := &watchedLock{Interface: held, clock: now, tell: func(from, until time.Time) { told = append(told, gap{from, until}) }}
	look := func() {
		t.Helper()
		if _, _, err := lock.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	look()
	held.record.RenewTime = metav1.NewTime(noon.Add(time.Minute)) // The old one leads on for a while.
	look()
	now.SetTime(noon.Add(20 * time.Minute))
	for range 3 { // It takes the Lease, and renews it.
		if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "new", RenewTime: metav1.NewTime(now.Now())}); err != nil {
			t.Fatal(err)
		}
		look()
	}
	want := gap{noon.Add(time.Minute), noon.Add(20 * time.Minute)}
	if len(told) != 1 || told[0] != want {
		t.Errorf("told %v, want once %v", told, want)
	}
}

func TestTheFirstLeaderKnowsOfNobodyBefore(t *testing.T) {
	lock := &watchedLock{Interface: &heldLock{}, clock: testingclock.NewFakePassiveClock(time.Now()), tell: func(from, until time.Time) {
		t.Errorf("told of a time from %s until %s in which nobody led", from, until)
	}}
	if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "new"}); err != nil {
		t.Fatal(err)
	}
}
