package rollout

import (
	"encoding/json"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// judge is the delivery controller for one delivery, as the contract of
// RolloutDeliveryStatus has it.
type judge struct {
	c      *fakeCluster
	spec   *v1alpha1.RolloutDeliverySpec
	status *v1alpha1.RolloutDeliveryStatus
	run    *v1alpha1.Run
	now    time.Time
}

func (j *judge) judge() {
	if j.spec.Removal != "" {
		j.removeWorks()
		return
	}
	if j.status.Delivery < j.spec.Delivery {
		*j.status = v1alpha1.RolloutDeliveryStatus{
			Delivery: j.spec.Delivery, State: v1alpha1.StatePending,
			Applied: j.status.Applied, Proven: j.status.Proven,
		}
	}
	if j.c.heldByOther {
		j.state(v1alpha1.StateBlocked, v1alpha1.ReasonHeldByOther, "Deployment api is held by rollout platform/other")
		return
	}
	if j.c.written.Delivery != j.spec.Delivery {
		j.c.written = v1alpha1.Proof{Digest: j.spec.Revision.Digest, Delivery: j.spec.Delivery}
		j.c.writtenAt = j.now
	}
	if j.status.WrittenAt == nil {
		j.status.WrittenAt = j.stamp()
		if j.run != nil {
			j.status.Clock.Run = j.run.Number
			j.status.Clock.PausedAtWriteMilliseconds = j.pausedMilliseconds()
		}
	}
	if !j.judgeReachability() {
		return
	}
	j.judgeEvidence()
}

func (j *judge) removeWorks() {
	if j.status.State == v1alpha1.StateRemoved && j.c.removalStarted.IsZero() && j.c.written.Digest == "" {
		return
	}
	if j.c.removalStarted.IsZero() {
		j.c.removalStarted = j.now
	}
	j.state(v1alpha1.StateRemoving, v1alpha1.ReasonRemoving, "removing")
	if j.c.connected && j.now.Sub(j.c.removalStarted) >= 2*time.Second {
		j.c.removalStarted = time.Time{}
		j.c.written, j.c.applied, j.c.report = v1alpha1.Proof{}, v1alpha1.Proof{}, v1alpha1.AgentReport{}
		j.state(v1alpha1.StateRemoved, v1alpha1.ReasonRemoving, "removed")
	}
}

// judgeReachability opens and closes the loss, and tells whether the cluster
// can be reached.
func (j *judge) judgeReachability() bool {
	s := j.status
	neverProven := s.Proven == nil && !j.c.seen
	cause := j.c.unreachable()
	if neverProven {
		cause = nil
		if !j.c.available() {
			cause = j.c.unreachable()
		}
	}
	// An open loss ends only with a sign of life that this manager saw itself.
	if cause == nil && s.LostSince != nil && j.c.lastSeen().Before(s.LostSince.Time) {
		cause = &v1alpha1.Cause{Reason: v1alpha1.ReasonAgentSilent, Message: "not seen since the manager started"}
	}
	if cause != nil {
		if !j.spec.UnreachableAtWrite || s.ReturnedAt != nil {
			if s.LostSince == nil {
				s.LostSince = j.stamp()
				s.Clock.PausedAtLossMilliseconds = j.pausedMilliseconds()
			}
		}
		j.closeUnhealthy()
		s.HealthySince = nil
		j.state(v1alpha1.StateUnreachable, cause.Reason, cause.Message)
		return false
	}
	if j.spec.UnreachableAtWrite && s.ReturnedAt == nil {
		s.ReturnedAt = j.stamp()
		s.Clock.PausedAtReturnMilliseconds = j.pausedMilliseconds()
	}
	if s.LostSince != nil {
		j.closeLoss()
	}
	return true
}

func (j *judge) judgeEvidence() {
	s := j.status
	if j.c.applied != j.c.written {
		s.HealthySince = nil
		j.state(v1alpha1.StateApplying, v1alpha1.ReasonApplying, "the work agent has not applied it")
		return
	}
	proof := v1alpha1.Proof{Digest: j.spec.Revision.Digest, Delivery: j.spec.Delivery}
	s.Applied = &proof
	if s.AppliedAt == nil {
		s.AppliedAt = j.stamp()
	}
	if !j.c.seen {
		j.state(v1alpha1.StateProgressing, v1alpha1.ReasonAgentMissing, "the addon is not enabled; run: clusteradm addon enable --names fleet-rollout --clusters "+j.c.name)
		return
	}
	if j.c.report.Digest != proof.Digest || j.c.report.Delivery != proof.Delivery {
		j.state(v1alpha1.StateProgressing, v1alpha1.ReasonAwaitingReport, "the agent has not reported on it")
		return
	}
	switch j.c.report.Health {
	case v1alpha1.HealthHealthy:
		j.closeUnhealthy()
		s.Proven = &proof
		if s.ProvenAt == nil {
			s.ProvenAt = j.stamp()
		}
		if s.HealthySince == nil {
			s.HealthySince = j.stamp()
		}
		j.state(v1alpha1.StateHealthy, string(v1alpha1.HealthHealthy), "")
	case v1alpha1.HealthFailed:
		j.openUnhealthy()
		if s.FailedAt == nil {
			s.FailedAt = j.stamp()
			s.Failure = &v1alpha1.Cause{Reason: string(v1alpha1.HealthFailed), Message: "Deployment api: ProgressDeadlineExceeded"}
		}
		j.state(v1alpha1.StateFailed, string(v1alpha1.HealthFailed), "Deployment api: ProgressDeadlineExceeded")
	case v1alpha1.HealthDegraded:
		j.openUnhealthy()
		j.state(v1alpha1.StateDegraded, string(v1alpha1.HealthDegraded), "Deployment api: 0 of 2 ready")
	case v1alpha1.HealthSuspended:
		j.closeUnhealthy()
		s.HealthySince = nil
		j.state(v1alpha1.StateProgressing, reasonSuspended, "Job migrate is suspended")
	default:
		j.openUnhealthy()
		j.state(v1alpha1.StateProgressing, v1alpha1.ReasonProgressing, "Deployment api: 1 of 2 ready")
	}
}

func (j *judge) openUnhealthy() {
	j.status.HealthySince = nil
	if j.status.ProvenAt != nil && j.status.UnhealthySince == nil {
		j.status.UnhealthySince = j.stamp()
	}
}

func (j *judge) closeUnhealthy() {
	s := j.status
	if s.UnhealthySince == nil {
		return
	}
	j.ofThisStep()
	s.Clock.UnhealthyMilliseconds += j.now.Sub(j.withinStep(s.UnhealthySince.Time)).Milliseconds()
	s.UnhealthySince = nil
}

func (j *judge) closeLoss() {
	s := j.status
	paused := milliseconds(j.pausedMilliseconds() - s.Clock.PausedAtLossMilliseconds)
	j.ofThisStep()
	s.Clock.LostMilliseconds += max(0, j.now.Sub(j.withinStep(s.LostSince.Time))-paused).Milliseconds()
	s.Clock.LostSinceWriteMilliseconds += max(0, j.now.Sub(s.LostSince.Time)-paused).Milliseconds()
	s.LostSince = nil
}

// ofThisStep resets the sums if they belong to an earlier step.
func (j *judge) ofThisStep() {
	if j.run == nil || j.run.StepStartedAt == nil {
		return
	}
	c := &j.status.Clock
	if c.Run == j.run.Number && c.StepStartedAt != nil && c.StepStartedAt.Time.Equal(j.run.StepStartedAt.Time) {
		return
	}
	c.Run, c.StepStartedAt = j.run.Number, j.run.StepStartedAt.DeepCopy()
	c.UnhealthyMilliseconds, c.LostMilliseconds = 0, 0
}

func (j *judge) withinStep(t time.Time) time.Time {
	if j.run != nil && j.run.StepStartedAt != nil && j.run.StepStartedAt.After(t) {
		return j.run.StepStartedAt.Time
	}
	return t
}

func (j *judge) pausedMilliseconds() int64 {
	if j.run == nil {
		return 0
	}
	sum := j.run.PausedMilliseconds
	if j.run.PausedAt != nil {
		sum += j.now.Sub(j.run.PausedAt.Time).Milliseconds()
	}
	return sum
}

func (j *judge) state(state v1alpha1.DeliveryState, reason, message string) {
	j.status.State, j.status.Reason, j.status.Message = state, reason, message
}

func (j *judge) stamp() *metav1.MicroTime { return microTime(j.now.Truncate(time.Microsecond)) }
