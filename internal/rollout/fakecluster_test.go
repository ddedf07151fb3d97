package rollout

import (
	"encoding/json"
	"reflect"
	"time"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// leaseInterval is how often the fake agents renew their Lease, and how long a
// fake ManagedCluster needs to be seen as unavailable is three of them.
const leaseInterval = 20 * time.Second

// behaviour is how a cluster takes a revision: its health at a time after the
// content was applied there.
type behaviour func(c *fakeCluster, sinceApplied time.Duration) v1alpha1.Health

func healthyAfter(d time.Duration) behaviour {
	return func(_ *fakeCluster, since time.Duration) v1alpha1.Health {
		if since < d {
			return v1alpha1.HealthProgressing
		}
		return v1alpha1.HealthHealthy
	}
}

func alwaysHealth(h v1alpha1.Health) behaviour {
	return func(*fakeCluster, time.Duration) v1alpha1.Health { return h }
}

// failsOn fails terminally on the named clusters and is healthy elsewhere.
func failsOn(names ...string) behaviour {
	return func(c *fakeCluster, since time.Duration) v1alpha1.Health {
		for _, name := range names {
			if c.name == name && since >= 2*time.Second {
				return v1alpha1.HealthFailed
			}
		}
		return healthyAfter(2*time.Second)(c, since)
	}
}

func mustJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// fakeCluster is a managed cluster, what the hub knows of it, and the delivery
// controller's work for it.
type fakeCluster struct {
	f    *fleet
	name string

	// The ManagedCluster.
	labels    map[string]string
	exists    bool
	deleting  bool
	tainted   bool
	wanted    bool // by the placement, apart from taints
	tolerated bool // the placement tolerates the taints of unreachable clusters

	// The network and the agent. connected false: no hub traffic at all.
	connected bool
	agentUp   bool
	addon     bool
	// aliveSince is when the agent could renew last began; lastAlive is its
	// last renewal before it could no longer.
	aliveSince time.Time
	lastAlive  time.Time
	// seen tells that a renewed Lease is known to the hub.
	seen bool

	// applyDelay is how long the work agent takes.
	applyDelay time.Duration
	// override replaces what the revision would do, for as long as it is set.
	override v1alpha1.Health
	// heldByOther makes the delivery controller refuse to write.
	heldByOther bool
	// contested is the digest of a revision with an object that another rollout
	// holds, which shows when its delivery is to be written.
	contested string
	// refuses are the versions that block their delivery, with the reason.
	refuses map[string]string

	delivery *Delivery

	// The works: what is written on the hub, and what is applied.
	written        v1alpha1.Proof
	writtenAt      time.Time
	applied        v1alpha1.Proof
	appliedAt      time.Time
	removalStarted time.Time
	// lastReach is what available and live were at the last act.
	lastReach [2]bool
	// report is the agent's condition on the hub.
	report v1alpha1.AgentReport
}

func newFakeCluster(f *fleet, name string) *fakeCluster {
	return &fakeCluster{
		f: f, name: name, labels: map[string]string{}, exists: true, wanted: true, connected: true,
		agentUp: true, addon: true, aliveSince: f.now.Add(-time.Hour), seen: true, applyDelay: 3 * time.Second,
	}
}

// renewed is the last renewal of the Lease: every interval while alive.
func (c *fakeCluster) renewed() time.Time {
	if !c.alive() {
		return c.lastAlive
	}
	return c.aliveSince.Add(c.f.now.Sub(c.aliveSince).Truncate(leaseInterval))
}

func (c *fakeCluster) alive() bool { return c.connected && c.agentUp && c.addon }

// lose and recover change network or agent through this one place.
func (c *fakeCluster) set(connected, agentUp bool) {
	was, last := c.alive(), c.renewed()
	c.connected, c.agentUp = connected, agentUp
	if is := c.alive(); is != was {
		if is {
			c.aliveSince, c.seen = c.f.now, true
		} else {
			c.lastAlive = last
		}
	}
	c.f.dirty = true
}

func (c *fakeCluster) lose()   { c.f.logf("cluster:  %s lost", c.name); c.set(false, c.agentUp) }
func (c *fakeCluster) comeUp() { c.f.logf("cluster:  %s back", c.name); c.set(true, true) }

// lastSeen is when this manager saw the Lease change; zero if it has not.
func (c *fakeCluster) lastSeen() time.Time {
	if at := c.renewed(); c.seen && at.After(c.f.managerStart) {
		return at
	}
	return time.Time{}
}

// live tells that the Lease is renewed, or that the manager started too
// recently to know better.
func (c *fakeCluster) live() bool {
	if !c.seen {
		return true
	}
	since := c.renewed()
	if since.Before(c.f.managerStart) {
		since = c.f.managerStart
	}
	return c.f.now.Sub(since) < 3*leaseInterval
}

// available is the ManagedCluster's condition: it follows the network at once
// when it returns, and late when it is lost.
func (c *fakeCluster) available() bool {
	return c.connected || c.f.now.Sub(c.lastAlive) < 2*leaseInterval
}

func (c *fakeCluster) unreachable() *v1alpha1.Cause {
	switch {
	case !c.available():
		return &v1alpha1.Cause{Reason: v1alpha1.ReasonClusterUnavailable, Message: "the ManagedCluster is not Available"}
	case !c.live():
		return &v1alpha1.Cause{Reason: v1alpha1.ReasonAgentSilent, Message: "the agent does not renew its Lease"}
	}
	return nil
}

// observe is the cluster as the rollout controller sees it; not at all if it
// is neither selected nor has a delivery.
func (c *fakeCluster) observe() (Cluster, bool) {
	selected := c.f.isSelected(c) && !c.f.incomplete
	if !selected && c.delivery == nil {
		return Cluster{}, false
	}
	seen := Cluster{
		Name: c.name, Labels: c.labels, Selected: selected, Exists: c.exists, Deleting: c.deleting,
		Available: c.available(), Tainted: c.tainted, AgentLive: c.live(), Unreachable: c.unreachable(),
		LastSeenAt: c.lastSeen(), LeaseInterval: leaseInterval,
	}
	if c.heldByOther {
		seen.Blocked = &v1alpha1.Cause{Reason: v1alpha1.ReasonHeldByOther, Message: "Deployment api is held by rollout platform/other"}
	}
	if c.delivery != nil {
		d := Delivery{}
		c.delivery.Spec.DeepCopyInto(&d.Spec)
		c.delivery.Status.DeepCopyInto(&d.Status)
		seen.Delivery = &d
		s := d.Status.State
		seen.UnhealthyNow = s == v1alpha1.StateDegraded || s == v1alpha1.StateFailed
	}
	return seen, true
}

// act lets the work agent, the agent and the delivery controller do what is
// due, and tells whether the delivery's status changed.
func (c *fakeCluster) act() bool {
	c.tainted = !c.available()
	reach := [2]bool{c.available(), c.live()}
	changed := reach != c.lastReach
	c.lastReach = reach
	if !c.exists {
		return false
	}
	c.actOnCluster()
	if c.delivery == nil {
		return changed
	}
	old := c.delivery.Status.DeepCopy()
	j := judge{c: c, spec: &c.delivery.Spec, status: &c.delivery.Status, run: c.f.run, now: c.f.now}
	j.judge()
	return changed || !reflect.DeepEqual(old, &c.delivery.Status)
}

// actOnCluster is the managed cluster itself: it applies what is written and
// reports what it sees, while it is connected.
func (c *fakeCluster) actOnCluster() {
	if !c.connected {
		return
	}
	if c.applied != c.written && c.f.now.Sub(c.writtenAt) >= c.applyDelay {
		c.applied, c.appliedAt = c.written, c.f.now
	}
	if c.alive() && c.applied.Digest != "" {
		c.report = v1alpha1.AgentReport{Digest: c.applied.Digest, Delivery: c.applied.Delivery, Health: c.health()}
	}
}

func (c *fakeCluster) health() v1alpha1.Health {
	if c.override != "" {
		return c.override
	}
	r := c.f.revision(c.applied.Digest)
	if r == nil {
		return v1alpha1.HealthDegraded
	}
	return r.behaviour(c, c.f.now.Sub(c.appliedAt))
}
