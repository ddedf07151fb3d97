package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// fleet is a hub with managed clusters in memory: it keeps what would be
// persisted, carries out plans as the rollout controller does, and plays the
// delivery controller and the agents in fakecluster_test.go. Its clock moves
// only when a test says so.
type fleet struct {
	t     testing.TB
	now   time.Time
	start time.Time

	// The FleetRollout.
	strategy    v1alpha1.Strategy
	policy      v1alpha1.RollbackPolicy
	paused      bool
	deleting    bool
	current     string // digest; empty when the template cannot be frozen
	invalidSpec *v1alpha1.Cause

	// Its status.
	run        *v1alpha1.Run
	rollbacks  []v1alpha1.RollbackRecord
	stable     *v1alpha1.RevisionReference
	placements []v1alpha1.ResolvedPlacement
	removal    *v1alpha1.Order
	handled    []types.UID

	// The RolloutActions, and the UIDs of those whose effect was stored once.
	actions []*fakeAction
	obeyed  map[types.UID]bool

	revisions []*fakeRevision
	clusters  []*fakeCluster

	// The placement.
	incomplete     bool
	selectsNothing bool
	generation     int64

	// The manager: when it started, and the plan that it made last.
	managerStart time.Time
	// unwatchedFrom is since when no manager had been watching when it started;
	// zero if another one had until that moment.
	unwatchedFrom time.Time
	outages       []outage
	last          Plan
	lastAt        time.Time
	dirty         bool

	// crashAfter makes the next reconcile stop after that many steps of
	// persisting and writing; negative means never.
	crashAfter int

	// log takes one line per thing that happens, if it is wanted.
	log      *strings.Builder
	lastWait string

	// check, if set, sees every plan with the snapshot it was made from, before
	// anything of it is carried out.
	check func(Snapshot, Plan)

	// forwardWrites counts the forward writes of each digest to each cluster.
	forwardWrites map[string]int
}

var fleetEpoch = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

func newFleet(t testing.TB, groups ...v1alpha1.Group) *fleet {
	return &fleet{
		t: t, now: fleetEpoch, start: fleetEpoch, managerStart: fleetEpoch.Add(-time.Hour),
		strategy: v1alpha1.Strategy{Groups: groups}, generation: 1, crashAfter: -1,
		forwardWrites: map[string]int{}, obeyed: map[types.UID]bool{},
	}
}

// groupNamed is a group of the clusters with the label group=name.
func groupNamed(name string, steps ...v1alpha1.Step) v1alpha1.Group {
	return v1alpha1.Group{
		Name:            name,
		ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"group": name}},
		Steps:           steps,
	}
}

// step is a step of a share, such as "10%" or "3", and a soak in seconds.
func step(share string, soak int32) v1alpha1.Step {
	return v1alpha1.Step{Clusters: intstr.Parse(share), SoakSeconds: soak}
}

func share(s string) *intstr.IntOrString {
	v := intstr.Parse(s)
	return &v
}

func failureBudget(s string) *v1alpha1.FailureBudget {
	return &v1alpha1.FailureBudget{Clusters: intstr.Parse(s)}
}

func secs(n int32) *int32 { return &n }

// fakeRevision is a revision and how clusters take it.
type fakeRevision struct {
	Revision
	behaviour behaviour
}

// push puts a new revision into the template.
func (f *fleet) push(version string, b behaviour) *fakeRevision {
	n := int64(len(f.revisions) + 1)
	r := &fakeRevision{behaviour: b, Revision: Revision{
		RevisionReference: v1alpha1.RevisionReference{
			Name: fmt.Sprintf("payments-%d", n), Number: n, Version: version, Digest: fmt.Sprintf("sha256:%064d", n),
		},
		Verdict: v1alpha1.VerdictCandidate,
	}}
	f.revisions = append(f.revisions, r)
	f.setTemplate(r)
	return r
}

func (f *fleet) setTemplate(r *fakeRevision) {
	f.current, f.dirty = r.Digest, true
	f.logf("template: %s", r.Version)
}

func (f *fleet) revision(digest string) *fakeRevision {
	for _, r := range f.revisions {
		if r.Digest == digest {
			return r
		}
	}
	return nil
}

// add lets n clusters join that carry the label group=group.
func (f *fleet) add(group string, n int) []*fakeCluster {
	var added []*fakeCluster
	for range n {
		c := newFakeCluster(f, fmt.Sprintf("%s-%d", group, f.countNamed(group+"-")+1))
		c.labels["group"] = group
		f.clusters = append(f.clusters, c)
		added = append(added, c)
	}
	f.dirty = true
	return added
}

func (f *fleet) countNamed(prefix string) int {
	n := 0
	for _, c := range f.clusters {
		if strings.HasPrefix(c.name, prefix) {
			n++
		}
	}
	return n
}

func (f *fleet) cluster(name string) *fakeCluster {
	for _, c := range f.clusters {
		if c.name == name {
			return c
		}
	}
	f.t.Fatalf("no cluster %q", name)
	return nil
}

func (f *fleet) isSelected(c *fakeCluster) bool {
	return c.exists && c.wanted && !f.selectsNothing && (!c.tainted || c.tolerated)
}

// snapshot is what the controller would read now.
func (f *fleet) snapshot() Snapshot {
	s := Snapshot{
		Namespace: "platform", Name: "payments", Generation: 1,
		Paused: f.paused, Deleting: f.deleting, OnDelete: v1alpha1.DeletePolicyDelete,
		Strategy: f.strategy, Rollback: f.policy,
		Run: f.run.DeepCopy(), Stable: f.stable.DeepCopy(), InvalidSpec: f.invalidSpec,
		Membership:    Membership{Complete: !f.incomplete, LastPlacements: slices.Clone(f.placements)},
		UnwatchedFrom: f.unwatchedFrom,
		Actions:       f.openActions(), RemovalConfirmation: f.removal.DeepCopy(), HandledActions: slices.Clone(f.handled),
	}
	if !f.unwatchedFrom.IsZero() {
		s.UnwatchedUntil = f.managerStart
	}
	for i := range f.rollbacks {
		s.Rollbacks = append(s.Rollbacks, *f.rollbacks[i].DeepCopy())
	}
	for _, r := range f.revisions {
		s.Revisions = append(s.Revisions, r.Revision)
		if r.Digest == f.current {
			current := r.Revision
			s.Current = &current
		}
	}
	selected := int32(0)
	for _, c := range f.clusters {
		if seen, ok := c.observe(); ok {
			s.Clusters = append(s.Clusters, seen)
			if seen.Selected {
				selected++
			}
		}
	}
	if f.incomplete {
		s.Membership.Cause = v1alpha1.Cause{Reason: v1alpha1.ReasonDecisionsIncomplete, Message: `placement "fleet": 1 of 2 pages is missing`}
	} else {
		s.Membership.Placements = []v1alpha1.ResolvedPlacement{{Name: "fleet", Generation: f.generation, SelectedClusters: selected}}
	}
	return s
}

// reconcile makes a plan and carries it out: failures, verdicts, the other
// facts, then writes. It tells whether it came to its end.
func (f *fleet) reconcile() bool {
	s := f.snapshot()
	plan := f.plan(s)
	if plan.ConfirmRemovals {
		s.Membership.RemovalConfirmed = true
		plan = f.plan(s)
	}
	f.last, f.lastAt, f.dirty = plan, f.now, false
	for _, x := range plan.Failures {
		if f.crashes() {
			return false
		}
		f.cluster(x.Cluster).delivery.Spec.Failure = x.Cause.DeepCopy()
	}
	begins := func(v VerdictChange) bool {
		return plan.Run != nil && plan.Run.EndedAt == nil && plan.Run.Revision.Name == v.Revision
	}
	if !f.tellVerdicts(plan, func(v VerdictChange) bool { return !begins(v) }) || f.crashes() {
		return false
	}
	f.run, f.rollbacks, f.stable, f.placements = plan.Run.DeepCopy(), plan.Rollbacks, plan.Stable.DeepCopy(), plan.Placements
	f.removal, f.handled = plan.RemovalConfirmation.DeepCopy(), plan.HandledActions
	for _, e := range plan.Events {
		f.logf("event:    %s: %s", e.Reason, e.Message)
	}
	f.logWaiting()
	return f.tellVerdicts(plan, begins) && f.tellActions(plan) && f.carryOut(plan)
}

// tellVerdicts writes the verdicts that are meant: those of ended runs before
// the facts, and that of a going run after them, because an attempt counts once
// its run is persisted. It tells whether it came to its end.
func (f *fleet) tellVerdicts(plan Plan, meant func(VerdictChange) bool) bool {
	for _, v := range plan.Verdicts {
		if !meant(v) {
			continue
		}
		if f.crashes() {
			return false
		}
		for _, r := range f.revisions {
			if r.Name == v.Revision {
				r.Verdict, r.Attempts = v.Verdict, v.Attempts
			}
		}
	}
	return true
}

func (f *fleet) plan(s Snapshot) Plan {
	plan := Next(s, f.now)
	if f.check != nil {
		f.check(s, plan)
	}
	return plan
}

func (f *fleet) carryOut(plan Plan) bool {
	for _, w := range plan.Writes {
		if f.crashes() {
			return false
		}
		c := f.cluster(w.Cluster)
		if c.delivery == nil {
			c.delivery = &Delivery{}
		}
		if w.Spec.Delivery != c.delivery.Spec.Delivery+1 {
			f.t.Fatalf("cluster %s: delivery %d follows %d", w.Cluster, w.Spec.Delivery, c.delivery.Spec.Delivery)
		}
		c.delivery.Spec = w.Spec
		if w.Spec.Direction == v1alpha1.DirectionForward {
			f.forwardWrites[w.Cluster+" "+w.Spec.Revision.Version]++
		}
		f.logf("write:    %-13s %s %s, delivery %d (%s)", w.Cluster, strings.ToLower(string(w.Spec.Direction)), w.Spec.Revision.Version, w.Spec.Delivery, w.Cause.Reason)
	}
	for _, r := range plan.Removals {
		if f.crashes() {
			return false
		}
		f.cluster(r.Cluster).delivery.Spec.Removal = r.Policy
		f.logf("remove:   %s (%s)", r.Cluster, r.Cause.Reason)
	}
	for _, a := range plan.Absences {
		if f.crashes() {
			return false
		}
		f.cluster(a.Cluster).delivery.Spec.AbsentSince = microTime(a.Since)
	}
	for _, name := range plan.Forget {
		if f.crashes() {
			return false
		}
		f.cluster(name).delivery = nil
		f.logf("forget:   %s", name)
	}
	f.dirty = f.dirty || len(plan.Writes)+len(plan.Removals)+len(plan.Forget) > 0
	return true
}

// crashes counts down to the crash that a test asked for.
func (f *fleet) crashes() bool {
	if f.crashAfter < 0 {
		return false
	}
	f.crashAfter--
	return f.crashAfter < 0
}

// restart replaces the manager: what was only in its memory is gone.
func (f *fleet) restart() {
	f.managerStart, f.crashAfter, f.dirty = f.now, -1, true
	f.unwatchedFrom = time.Time{}
	f.logf("manager:  restarted")
}

// outage lets time pass in which no manager watches: the clusters alone go on.
// Then a new one starts.
func (f *fleet) outage(d time.Duration) {
	from := f.now
	for end := f.now.Add(d); f.now.Before(end); {
		f.now = f.now.Add(min(time.Second, end.Sub(f.now)))
		for _, c := range f.clusters {
			if c.exists {
				c.actOnCluster()
			}
		}
	}
	f.logf("manager:  was away for %s", d)
	f.restart()
	f.unwatchedFrom = from
	f.outages = append(f.outages, outage{from, f.now})
}

// outage is a time in which no manager watched.
type outage struct{ from, until time.Time }

// watched is how much of the time since a moment a manager was watching.
func (f *fleet) watched(since, until time.Time) time.Duration {
	sum := until.Sub(since)
	for _, o := range f.outages {
		sum -= max(0, earlier(o.until, until).Sub(later(o.from, since)))
	}
	return sum
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// tick moves the clock, lets the clusters and the delivery controller act, and
// the rollout controller too if anything changed or its time has come.
func (f *fleet) tick(d time.Duration) {
	f.now = f.now.Add(d)
	f.actClusters()
	f.settle()
}

// actClusters lets the managed clusters and the delivery controller act.
func (f *fleet) actClusters() {
	for _, c := range f.clusters {
		if c.act() {
			f.dirty = true
		}
	}
}

// settle reconciles until nothing is left to do now.
func (f *fleet) settle() {
	for i := 0; f.dirty || (f.last.RecheckAfter > 0 && !f.now.Before(f.lastAt.Add(f.last.RecheckAfter))); i++ {
		if i > 50 {
			f.t.Fatalf("the manager does not come to rest: %+v", f.last)
		}
		if !f.reconcile() {
			f.restart()
		}
		f.actClusters()
	}
}

// runFor lets time pass, second by second.
func (f *fleet) runFor(d time.Duration) {
	for end := f.now.Add(d); f.now.Before(end); {
		f.tick(min(time.Second, end.Sub(f.now)))
	}
}

// sleepUntil lets time pass in which little happens, minute by minute.
func (f *fleet) sleepUntil(end time.Time) {
	for f.now.Before(end) {
		f.tick(min(time.Minute, end.Sub(f.now)))
	}
}

// runUntil lets time pass until the condition holds, for an hour at most.
func (f *fleet) runUntil(what string, holds func() bool) {
	f.t.Helper()
	for limit := f.now.Add(time.Hour); !holds(); {
		if !f.now.Before(limit) {
			f.t.Fatalf("not within an hour: %s\nrun: %+v\noutcome: %+v", what, f.run, f.last.Outcome)
		}
		f.tick(time.Second)
	}
}

func (f *fleet) runUntilPhase(phase v1alpha1.RunPhase) {
	f.t.Helper()
	f.runUntil("run "+string(phase), func() bool {
		return f.run != nil && f.run.Phase == phase && f.run.Revision.Digest == f.current
	})
}

// deploy pushes a revision and waits until it is stable everywhere.
func (f *fleet) deploy(version string) *fakeRevision {
	f.t.Helper()
	r := f.push(version, healthyAfter(2*time.Second))
	f.runUntil(version+" stable", func() bool { return f.stable != nil && f.stable.Digest == r.Digest })
	return r
}

// holding lists the clusters whose intent is the given revision, by name.
func (f *fleet) holding(r *fakeRevision) []string {
	names := []string{}
	for _, c := range f.clusters {
		if c.delivery != nil && c.delivery.Spec.Removal == "" && c.delivery.Spec.Revision.Digest == r.Digest {
			names = append(names, c.name)
		}
	}
	slices.Sort(names)
	return names
}

func (f *fleet) waitsFor(reason string) bool {
	return f.run != nil && slices.ContainsFunc(f.run.WaitingFor, func(w v1alpha1.Waiting) bool { return w.Reason == reason })
}

func (f *fleet) judgement(cluster string) Judgement {
	for _, j := range f.last.Judgements {
		if j.Cluster == cluster {
			return j
		}
	}
	f.t.Fatalf("no judgement of %q", cluster)
	return Judgement{}
}

func (f *fleet) logf(format string, args ...any) {
	if f.log != nil {
		fmt.Fprintf(f.log, "%8s  %s\n", f.now.Sub(f.start), fmt.Sprintf(format, args...))
	}
}

// logWaiting logs what the run waits for, when that changes.
func (f *fleet) logWaiting() {
	if f.log == nil || f.run == nil {
		return
	}
	wait := ""
	for i, w := range f.run.WaitingFor {
		if i == 3 {
			wait += fmt.Sprintf("; and %d more", len(f.run.WaitingFor)-i)
			break
		}
		line := w.Reason
		if w.Cluster != "" {
			line += " " + w.Cluster
		}
		if w.Until != nil {
			line += fmt.Sprintf(" until %s", w.Until.Sub(f.start))
		}
		wait += "; " + line
	}
	if wait = strings.TrimPrefix(wait, "; "); wait != f.lastWait && wait != "" {
		f.logf("waiting:  %s", wait)
	}
	f.lastWait = wait
}

func microTime(t time.Time) *metav1.MicroTime {
	if t.IsZero() {
		return nil
	}
	stamp := metav1.NewMicroTime(t)
	return &stamp
}
