package rollout

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// A history of a failing seed is played again with
//
//	go test ./internal/rollout -run TestSimulationObeysTheLaws -sim.seed=42
//
// or with FLEET_ROLLOUT_SIM_SEED=42, and shown with -v.
var (
	simRounds = flag.Int("sim.rounds", 150, "how many random histories to play")
	simFirst  = flag.Uint64("sim.first", 1, "the seed of the first history; the others count on from it")
	simSeed   = flag.Uint64("sim.seed", 0, "play the one history of this seed")
)

func TestSimulationObeysTheLaws(t *testing.T) {
	seed := *simSeed
	if text := os.Getenv("FLEET_ROLLOUT_SIM_SEED"); seed == 0 && text != "" {
		parsed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("FLEET_ROLLOUT_SIM_SEED: %v", err)
		}
		seed = parsed
	}
	if seed != 0 {
		playHistory(t, seed)
		return
	}
	outcomes := map[v1alpha1.RunPhase]int{}
	plans := 0
	for seed := range uint64(*simRounds) {
		h := playHistory(t, *simFirst+seed)
		if h.f.run != nil {
			outcomes[h.f.run.Phase]++
		}
		plans += h.laws.plans
	}
	t.Logf("%d histories, %d plans, last runs: %v", *simRounds, plans, outcomes)
}

// history is one random history of a rollout.
type history struct {
	f      *fleet
	laws   *lawful
	random *rand.Rand
}

func playHistory(t *testing.T, seed uint64) *history {
	defer func() {
		if t.Failed() {
			fmt.Printf("simulation failed; play it again with -sim.seed=%d\n", seed)
		}
	}()
	h := newHistory(t, seed)
	for range 250 + h.random.IntN(250) {
		h.disturb()
		h.pass()
	}
	h.comeToRest()
	h.mustHaveEnded()
	if h.random.IntN(3) == 0 {
		h.mustBeDeletable()
	}
	return h
}

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{random: rand.New(rand.NewPCG(seed, 7))}
	f := newFleet(t)
	h.f, h.laws = f, newLawful(f, h.random)
	f.log = &strings.Builder{}
	f.check = h.laws.check
	f.strategy = h.randomStrategy()
	f.policy = v1alpha1.RollbackPolicy{UnhealthySeconds: secs(int32(20 + h.random.IntN(60)))}
	if h.random.IntN(4) == 0 {
		f.policy.Mode = v1alpha1.RollbackManual
	}
	if h.random.IntN(2) == 0 {
		f.policy.MaxConcurrent = share(pick(h.random, "1", "2", "50%"))
	}
	f.policy.Verification.TimeoutSeconds = secs(60)
	for _, g := range []string{"canary", "gray", "production", "other"} {
		f.add(g, h.random.IntN(4))
	}
	tolerated := h.random.IntN(2) == 0
	for _, c := range f.clusters {
		c.tolerated = tolerated
		c.applyDelay = time.Duration(h.random.IntN(8)) * time.Second
	}
	f.push("1.0.0", healthyAfter(3*time.Second))
	return h
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func (h *history) randomStrategy() v1alpha1.Strategy {
	s := v1alpha1.Strategy{ProgressDeadlineSeconds: secs(int32(40 + h.random.IntN(100)))}
	for _, name := range []string{"canary", "gray", "production"} {
		if h.random.IntN(6) == 0 {
			continue
		}
		g := groupNamed(name)
		for _, at := range []string{"10%", "1", "50%"} {
			if h.random.IntN(3) == 0 {
				g.Steps = append(g.Steps, step(at, int32(h.random.IntN(3)*20)))
			}
		}
		g.Steps = append(g.Steps, step("100%", int32(h.random.IntN(3)*20)))
		if h.random.IntN(2) == 0 {
			g.MaxConcurrent = share(pick(h.random, "1", "2", "50%"))
			g.MinSuccessSeconds = int32(h.random.IntN(2) * 10)
		}
		s.Groups = append(s.Groups, g)
	}
	if len(s.Groups) == 0 {
		s.Groups = append(s.Groups, groupNamed("canary"))
	}
	if h.random.IntN(2) == 0 {
		s.FailureBudget = &v1alpha1.FailureBudget{Clusters: intstr.FromInt32(int32(h.random.IntN(4)))}
	}
	h.addGates(&s)
	return s
}

// pass lets some time go by; between two plans that nothing separates but
// time, the planner must have asked to be woken for every change.
func (h *history) pass() {
	f := h.f
	d := pick(h.random, 200*time.Millisecond, time.Second, time.Second, 3*time.Second, 7*time.Second, 20*time.Second)
	f.now = f.now.Add(d)
	f.actClusters()
	h.checkWake()
	f.settle()
}

// checkWake: without a change, and before RecheckAfter, a plan does nothing.
func (h *history) checkWake() {
	f := h.f
	if f.waitsFor(v1alpha1.ReasonWaitingForRenewal) {
		return // A renewal is a change of the snapshot, and nobody announces it.
	}
	if f.dirty || f.last.Run == nil || f.last.RecheckAfter > 0 && !f.now.Before(f.lastAt.Add(f.last.RecheckAfter)) {
		return
	}
	p := Next(f.snapshot(), f.now)
	if n := len(p.Writes) + len(p.Removals) + len(p.Absences) + len(p.Failures) + len(p.Forget) + len(p.Events); n > 0 || p.ConfirmRemovals != f.last.ConfirmRemovals {
		f.t.Fatalf("RecheckAfter was %s at %s, and time alone changed the plan at %s: %s\n%s", f.last.RecheckAfter, f.lastAt.Sub(f.start), f.now.Sub(f.start), mustJSON(p), f.tail())
	}
}

// disturb does one random thing, most of the time nothing.
func (h *history) disturb() {
	f, r := h.f, h.random
	if r.IntN(4) != 0 {
		return
	}
	f.dirty = true
	switch r.IntN(30) {
	case 0, 1:
		h.pushRandom()
	case 2:
		f.setTemplate(pick(r, f.revisions...))
	case 3:
		if f.stable != nil {
			f.setTemplate(f.revision(f.stable.Digest))
		}
	case 4:
		f.paused = !f.paused
		f.logf("spec:     paused %v", f.paused)
	case 5:
		f.incomplete = !f.incomplete
		f.logf("membership: incomplete %v", f.incomplete)
	case 6, 7:
		h.withCluster(func(c *fakeCluster) { c.lose() })
	case 8, 9:
		h.withCluster(func(c *fakeCluster) { c.comeUp() })
	case 10:
		h.withCluster(func(c *fakeCluster) {
			c.set(c.connected, !c.agentUp)
			f.logf("cluster:  %s agent %v", c.name, c.agentUp)
		})
	case 11:
		h.join()
	case 12:
		h.withCluster(func(c *fakeCluster) { c.wanted = !c.wanted; f.logf("cluster:  %s wanted %v", c.name, c.wanted) })
	case 13:
		h.withCluster(func(c *fakeCluster) {
			c.labels = map[string]string{"group": pick(r, "canary", "gray", "production", "other")}
			f.logf("cluster:  %s relabelled %s", c.name, c.labels["group"])
		})
	case 14:
		h.withCluster(func(c *fakeCluster) {
			if c.exists && r.IntN(2) == 0 {
				c.deleting = true
			} else if c.deleting {
				c.exists = false
			}
		})
	case 15:
		f.restart()
	case 16:
		f.outage(pick(r, 10*time.Second, time.Minute, 10*time.Minute))
	case 17, 18:
		f.crashAfter = r.IntN(12)
	case 19, 20:
		h.withCluster(func(c *fakeCluster) {
			c.override = pick(r, "", v1alpha1.HealthDegraded, v1alpha1.HealthFailed, v1alpha1.HealthSuspended, v1alpha1.HealthProgressing)
			f.logf("cluster:  %s health %q", c.name, c.override)
		})
	case 21:
		h.withCluster(func(c *fakeCluster) {
			c.heldByOther = !c.heldByOther
			f.logf("cluster:  %s held %v", c.name, c.heldByOther)
		})
	case 22:
		f.strategy = h.randomStrategy()
	case 23:
		f.selectsNothing = !f.selectsNothing
		if !f.selectsNothing {
			f.generation = 1
		}
		f.logf("placement: selects nothing %v", f.selectsNothing)
	case 24, 25, 26, 27, 28:
		h.orderRandom()
	case 29:
		h.withCluster(func(c *fakeCluster) {
			version, reason := pick(r, f.revisions...).Version, pick(r, v1alpha1.ReasonHeldByOther, v1alpha1.ReasonTooLarge, v1alpha1.ReasonForeignObject)
			c.refuses = map[string]string{version: reason}
			f.logf("cluster:  %s refuses %s, %s", c.name, version, reason)
		})
	}
}

func (h *history) withCluster(do func(*fakeCluster)) {
	if len(h.f.clusters) > 0 {
		do(pick(h.random, h.f.clusters...))
	}
}

func (h *history) join() {
	if len(h.f.clusters) < 14 {
		c := h.f.add(pick(h.random, "canary", "gray", "production", "other"), 1)[0]
		if h.random.IntN(4) == 0 {
			c.addon, c.seen = false, false
		}
		h.f.logf("cluster:  %s joined", c.name)
	}
}

func (h *history) pushRandom() {
	r := h.random
	version := fmt.Sprintf("1.%d.0", len(h.f.revisions))
	delay := time.Duration(r.IntN(20)) * time.Second
	var b behaviour
	switch r.IntN(8) {
	case 0:
		b = alwaysHealth(v1alpha1.HealthDegraded)
	case 1:
		b = alwaysHealth(v1alpha1.HealthFailed)
	case 2:
		b = healthyAfter(150 * time.Second)
	case 3:
		b = func(_ *fakeCluster, since time.Duration) v1alpha1.Health {
			if since/(15*time.Second)%2 == 1 {
				return v1alpha1.HealthDegraded
			}
			return v1alpha1.HealthHealthy
		}
	case 4:
		b = func(c *fakeCluster, since time.Duration) v1alpha1.Health {
			if len(c.name)%2 == 0 {
				return v1alpha1.HealthFailed
			}
			return healthyAfter(delay)(c, since)
		}
	default:
		b = healthyAfter(delay)
	}
	h.f.push(version, b)
}

// comeToRest ends all trouble but what is left on purpose, and lets time pass.
func (h *history) comeToRest() {
	f := h.f
	f.paused, f.incomplete, f.selectsNothing, f.generation, f.crashAfter, f.dirty = false, false, false, 1, -1, true
	f.strategy.Windows, f.strategy.Freezes = nil, nil
	for _, c := range f.clusters {
		if c.override == v1alpha1.HealthSuspended {
			c.override = ""
		}
		if h.random.IntN(4) != 0 {
			c.comeUp()
			c.heldByOther, c.addon, c.refuses = false, true, nil
			c.set(true, true)
		}
	}
	f.logf("----- everything calms down")
	quiet := f.now
	for end := f.now.Add(6 * time.Hour); f.now.Before(end) && f.now.Sub(quiet) < 15*time.Minute; {
		f.now = f.now.Add(5 * time.Second)
		f.actClusters()
		h.help()
		if f.dirty || f.last.RecheckAfter > 0 {
			quiet = f.now
		}
		f.settle()
	}
}

// mustHaveEnded: a history ends, or waits for somebody who is named.
func (h *history) mustHaveEnded() {
	f := h.f
	f.logf("end: %s", mustJSON(f.last.Outcome))
	h.ordersMustBeAnswered()
	if f.run == nil && f.last.Outcome.Cause.Reason == v1alpha1.ReasonUnmatched {
		return
	}
	if f.run == nil {
		f.t.Fatalf("no run ever started\n%s", f.tail())
	}
	if f.run.Phase == v1alpha1.RunProgressing {
		named := []string{v1alpha1.ReasonNoEvidence, v1alpha1.ReasonNoClusters, reasonSuspended}
		if !slices.ContainsFunc(f.run.WaitingFor, func(w v1alpha1.Waiting) bool { return slices.Contains(named, w.Reason) }) {
			f.t.Fatalf("run %d does not end: %s\n%s", f.run.Number, mustJSON(f.run.WaitingFor), f.tail())
		}
	}
	for _, r := range f.rollbacks {
		withRun := r.Trigger == v1alpha1.TriggerRequested && f.run.Number > r.Run && (f.run.Phase == v1alpha1.RunProgressing || f.run.Phase == v1alpha1.RunHalted)
		if r.Result == v1alpha1.RollbackInProgress && !withRun {
			f.t.Fatalf("rollback %d does not end: %s\n%s", r.ID, mustJSON(r), f.tail())
		}
	}
	for _, c := range f.clusters {
		h.mustHaveConverged(c)
	}
}

// mustHaveConverged: a reachable, selected, unblocked cluster has what it shall
// have, or somebody says why not.
func (h *history) mustHaveConverged(c *fakeCluster) {
	f := h.f
	if !f.isSelected(c) || c.deleting || c.heldByOther || c.refuses != nil || c.unreachable() != nil || h.isUnmatched(c) || f.stable == nil || f.run.Phase == v1alpha1.RunHalted || f.run.Phase == v1alpha1.RunProgressing {
		return
	}
	manual := f.policy.ModeOrDefault() == v1alpha1.RollbackManual && f.run.Phase == v1alpha1.RunFailed
	to := fallback(f.last)
	if c.delivery == nil || (c.delivery.Spec.Revision.Digest != to.Digest && !manual) {
		f.t.Fatalf("cluster %s does not have the stable revision %s: %s\n%s", c.name, to.Version, mustJSON(c.delivery), f.tail())
	}
}

// isUnmatched tells that a cluster is named as left out by strategy.unmatched.
func (h *history) isUnmatched(c *fakeCluster) bool {
	cause := h.f.judgement(c.name).Cause
	return cause != nil && cause.Reason == v1alpha1.ReasonUnmatched
}

// mustBeDeletable: a deleted rollout leaves nothing but what is on unreachable
// clusters, and that goes with their ManagedCluster.
func (h *history) mustBeDeletable() {
	f := h.f
	f.deleting, f.dirty = true, true
	f.runFor(30 * time.Second)
	for _, c := range f.clusters {
		if c.delivery == nil {
			continue
		}
		if c.unreachable() == nil && !c.deleting {
			f.t.Fatalf("cluster %s is reachable and not cleaned: %s\n%s", c.name, mustJSON(c.delivery), f.tail())
		}
		c.exists, f.dirty = false, true
	}
	f.runFor(time.Second)
	for _, c := range f.clusters {
		if c.delivery != nil {
			f.t.Fatalf("cluster %s is gone and its delivery is not\n%s", c.name, f.tail())
		}
	}
}

// tail is the end of the fleet's log.
func (f *fleet) tail() string {
	if f.log == nil {
		return ""
	}
	lines := strings.Split(f.log.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-80):], "\n")
}
