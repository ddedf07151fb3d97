// Package liveness remembers when the hub last saw the agent of each cluster
// alive. An agent is live while the hub keeps seeing its Lease change (law 5).
// Only the hub's clock is used: the times inside a Lease are written by another
// machine and serve to tell two renewals apart, never to measure.
//
// The memory is lost with the process on purpose. After a start a Lease counts
// as live until three intervals pass without a change, and State.Confirmed
// tells such a benefit of the doubt from a change that was really seen.
package liveness

import (
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/clock"
)

const (
	// defaultInterval is assumed where a Lease does not say how long it lasts.
	defaultInterval = 60 * time.Second
	// missedIntervals is how many renewals may be missed in a row.
	missedIntervals = 3
)

// State is what is known about the agent of one cluster at one moment.
type State struct {
	// Seen tells that a Lease is known which the agent has renewed at least
	// once, by this manager's or an earlier one's watch.
	Seen bool
	// Live tells that Seen holds and that less than three intervals have passed
	// since the last change, or since this manager saw the Lease first.
	Live bool
	// Confirmed tells that this manager has itself seen the Lease or a report
	// change.
	Confirmed bool
	// LastSeenAt is when it last did, on the hub's clock; zero unless Confirmed.
	LastSeenAt time.Time
	// Interval is how often the agent renews now: a third of the Lease's
	// duration, 60 seconds where it has none.
	Interval time.Duration
	// ExpiresAt is when Live ends unless a change is seen before; zero unless
	// Seen.
	ExpiresAt time.Time
}

// Tracker keeps the State of all clusters. It is safe for concurrent use, and
// each call costs the same whatever the number of clusters.
type Tracker struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	agents map[string]*agent

	unwatchedFrom, unwatchedUntil time.Time
}

// agent is what one cluster's agent was seen to do.
type agent struct {
	// looked tells that its Lease, or that there is none, was seen before.
	looked   bool
	renewed  bool
	renewal  string
	version  uint64
	interval time.Duration

	reported bool
	report   string

	// since is when the last change was seen, or the Lease for the first time.
	since     time.Time
	confirmed bool
}

// NewTracker returns a tracker that knows no cluster and measures on clock.
func NewTracker(clock clock.PassiveClock) *Tracker {
	return &Tracker{clock: clock, agents: map[string]*agent{}}
}

// ObserveAbsence takes the time before this process in which no manager was
// watching.
func (t *Tracker) ObserveAbsence(from, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unwatchedFrom, t.unwatchedUntil = from, until
}

// Unwatched returns the time before this process in which no manager was
// watching; zero if none is known.
func (t *Tracker) Unwatched() (from, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unwatchedFrom, t.unwatchedUntil
}

// ObserveLease takes a Lease of a cluster's agent as the hub has it now. Nil,
// and a Lease that was never renewed, say that there is no agent. It returns
// whether Seen, Live or Confirmed are different from before, so that a watch
// needs to wake nobody for the renewals in between.
func (t *Tracker) ObserveLease(cluster string, lease *coordinationv1.Lease) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	before := t.agents[cluster].state(now)

	a := t.agent(cluster)
	if lease != nil {
		// Two readers may hand over the same Lease in different order. An older
		// copy that comes late says nothing.
		version, err := strconv.ParseUint(lease.ResourceVersion, 10, 64)
		if err == nil && version < a.version {
			return false
		}
		a.version = version
	}
	if lease == nil || lease.Spec.RenewTime == nil {
		a.looked, a.renewed, a.renewal, a.confirmed = true, false, "", false
		return a.state(now).differs(before)
	}
	a.interval = defaultInterval
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil && *seconds > 0 {
		a.interval = time.Duration(*seconds) * time.Second / missedIntervals
	}
	renewal := lease.Spec.RenewTime.UTC().Format(time.RFC3339Nano)
	if a.renewal != renewal {
		// The first look at a renewed Lease does not tell whether its agent
		// still lives; any change after a first look does.
		a.confirmed = a.confirmed || a.looked
		a.renewed, a.renewal, a.since = true, renewal, now
	}
	a.looked = true
	return a.state(now).differs(before)
}

// ObserveReport takes a fingerprint of all that the agent of a cluster reports
// now; empty if it reports nothing. A changed fingerprint is a sign of life
// like a renewed Lease. It returns the same as ObserveLease.
func (t *Tracker) ObserveReport(cluster, fingerprint string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	before := t.agents[cluster].state(now)

	a := t.agent(cluster)
	if a.reported && a.report != fingerprint && fingerprint != "" {
		a.since, a.confirmed = now, true
	}
	a.reported, a.report = true, fingerprint
	return a.state(now).differs(before)
}

// Forget drops all that is known about a cluster that is gone.
func (t *Tracker) Forget(cluster string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.agents, cluster)
}

// State returns what is known about the agent of a cluster now.
func (t *Tracker) State(cluster string) State {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.agents[cluster].state(t.clock.Now())
}

func (t *Tracker) agent(cluster string) *agent {
	a := t.agents[cluster]
	if a == nil {
		a = &agent{interval: defaultInterval}
		t.agents[cluster] = a
	}
	return a
}

// state of an agent at now; a nil agent is one nobody has heard of.
func (a *agent) state(now time.Time) State {
	if a == nil {
		return State{Interval: defaultInterval}
	}
	s := State{Seen: a.renewed, Interval: a.interval, Confirmed: a.confirmed}
	if a.confirmed {
		s.LastSeenAt = a.since
	}
	if a.renewed {
		s.ExpiresAt = a.since.Add(missedIntervals * a.interval)
		s.Live = now.Before(s.ExpiresAt)
	}
	return s
}

func (s State) differs(before State) bool {
	return s.Seen != before.Seen || s.Live != before.Live || s.Confirmed != before.Confirmed
}
