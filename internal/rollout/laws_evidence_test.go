package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func TestLaw5OnlyProofOfThisVeryDeliveryCounts(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 0)), groupNamed("production"))
	f.add("canary", 1)
	f.add("production", 1)
	f.deploy("1.0.0")
	f.push("1.1.0", alwaysHealth(v1alpha1.HealthProgressing))
	f.runFor(2 * time.Second)
	c := f.cluster("canary-1")
	healthy := microTime(f.now.Add(-time.Hour))
	good := v1alpha1.Proof{Digest: c.delivery.Spec.Revision.Digest, Delivery: c.delivery.Spec.Delivery}
	for name, change := range map[string]func(*v1alpha1.RolloutDeliveryStatus){
		"status is about an earlier delivery": func(s *v1alpha1.RolloutDeliveryStatus) { s.Delivery-- },
		"the proof has an earlier number":     func(s *v1alpha1.RolloutDeliveryStatus) { s.Proven.Delivery-- },
		"the proof has another digest":        func(s *v1alpha1.RolloutDeliveryStatus) { s.Proven.Digest = "sha256:other" },
		"there is no proof":                   func(s *v1alpha1.RolloutDeliveryStatus) { s.Proven = nil },
		"it is not healthy now":               func(s *v1alpha1.RolloutDeliveryStatus) { s.HealthySince = nil },
	} {
		s := f.snapshot()
		for i := range s.Clusters {
			if s.Clusters[i].Name == "canary-1" {
				st, proof := &s.Clusters[i].Delivery.Status, good
				st.State, st.HealthySince, st.ProvenAt, st.Proven = v1alpha1.StateHealthy, healthy, healthy, &proof
				change(st)
			}
		}
		if p := Next(s, f.now); p.Run.Group != "canary" || len(p.Writes) != 0 {
			t.Errorf("%s, and the canary step is left: %s", name, mustJSON(p.Writes))
		}
	}
}

func TestLaw6TheSoakStartsWhenTheWholeShareIsProvenAndALossOfProofResetsIt(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 60)), groupNamed("production"))
	f.add("canary", 2)
	f.add("production", 1)
	f.deploy("1.0.0")
	f.push("1.1.0", healthyAfter(time.Second))
	f.runUntil("soaking", func() bool { return f.waitsFor(v1alpha1.ReasonSoaking) })
	begun := f.run.SoakStartedAt.Time
	f.restart()
	f.runFor(40 * time.Second)
	if !f.run.SoakStartedAt.Time.Equal(begun) {
		t.Error("a restart reset the soak")
	}
	f.cluster("canary-2").override = v1alpha1.HealthDegraded
	f.runFor(5 * time.Second)
	if f.run.SoakStartedAt != nil || !f.waitsFor(v1alpha1.ReasonWaitingForEvidence) {
		t.Errorf("a loss of proof does not reset the soak: %s", mustJSON(f.run))
	}
	f.cluster("canary-2").override = ""
	again := f.now.Add(time.Second)
	f.runUntil("production", func() bool { return f.run.Group == "production" || f.run.Group == "" })
	if f.now.Sub(again) < 60*time.Second {
		t.Errorf("the soak after the loss took only %s", f.now.Sub(again))
	}
}

func TestLaw6AFlapBetweenTwoLooksRestartsTheSoak(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 60)), groupNamed("production"))
	f.add("canary", 1)
	f.add("production", 1)
	f.deploy("1.0.0")
	f.push("1.1.0", healthyAfter(time.Second))
	f.runUntil("soaking", func() bool { return f.waitsFor(v1alpha1.ReasonSoaking) })
	f.now = f.now.Add(50 * time.Second)
	f.cluster("canary-1").delivery.Status.HealthySince = microTime(f.now)
	p := Next(f.snapshot(), f.now.Add(20*time.Second))
	if p.Run.Group != "canary" || !p.Run.SoakStartedAt.Time.Equal(f.now) {
		t.Errorf("the soak did not start again at the regained proof: %s", mustJSON(p.Run))
	}
	if want := 40 * time.Second; p.RecheckAfter != want {
		t.Errorf("RecheckAfter is %s, want the end of the soak in %s", p.RecheckAfter, want)
	}
}

func TestLaw6ASoakEndsOnlyWithASignOfLifeNearItsEnd(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 60)), groupNamed("production"))
	f.add("canary", 1)
	f.add("production", 1)
	f.deploy("1.0.0")
	f.push("1.1.0", healthyAfter(time.Second))
	f.runUntil("soaking", func() bool { return f.waitsFor(v1alpha1.ReasonSoaking) })
	end := f.run.SoakStartedAt.Add(60 * time.Second)
	for _, c := range []struct {
		name string
		seen time.Time
		left bool
	}{
		{"not seen since the manager started", time.Time{}, false},
		{"seen before the last interval", end.Add(-leaseInterval - time.Second), false},
		{"seen at the beginning of the last interval", end.Add(-leaseInterval), true},
		{"seen after the end", end.Add(time.Second), true},
	} {
		s := f.snapshot()
		for i := range s.Clusters {
			s.Clusters[i].LastSeenAt = c.seen
		}
		p := Next(s, end)
		if left := p.Run.Group != "canary"; left != c.left {
			t.Errorf("%s: the step is left: %v", c.name, left)
		}
		if !c.left && (p.Run.WaitingFor[0].Reason != v1alpha1.ReasonWaitingForRenewal || p.RecheckAfter <= 0 || p.RecheckAfter > 10*time.Second) {
			t.Errorf("%s: waits for %s, looks again after %s", c.name, mustJSON(p.Run.WaitingFor), p.RecheckAfter)
		}
	}
}

func TestLaw6AStepWithoutAnyEvidenceIsNotLeft(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 0)), groupNamed("production"))
	c := f.add("canary", 1)[0]
	c.tolerated = true
	f.add("production", 1)
	f.deploy("1.0.0")
	c.lose()
	f.runFor(2 * time.Minute)
	r := f.push("1.1.0", healthyAfter(time.Second))
	f.runFor(30 * time.Minute)
	if diff := cmp.Diff([]string{"canary-1"}, f.holding(r)); diff != "" || !f.waitsFor(v1alpha1.ReasonNoEvidence) {
		t.Errorf("waits for %s; %s", mustJSON(f.run.WaitingFor), diff)
	}
	c.comeUp()
	f.runUntilPhase(v1alpha1.RunSucceeded)
}

func TestLaw7DeadlinesCountFromTheWriteAndLeaveOutPausedTime(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.strategy.ProgressDeadlineSeconds = secs(60)
	f.add("production", 1)
	f.push("1.0.0", alwaysHealth(v1alpha1.HealthProgressing))
	f.tick(0)
	f.runFor(20 * time.Second)
	f.setPaused(true)
	f.runFor(180 * time.Second)
	if f.last.RecheckAfter != 0 {
		t.Errorf("while paused no deadline comes nearer, yet RecheckAfter is %s", f.last.RecheckAfter)
	}
	f.setPaused(false)
	f.runFor(38 * time.Second)
	if f.run.Phase != v1alpha1.RunProgressing {
		t.Fatalf("paused time was counted: %s", f.run.Phase)
	}
	f.runFor(4 * time.Second)
	if f.run.Phase != v1alpha1.RunFailed {
		t.Fatalf("the deadline did not end the run: %s", f.run.Phase)
	}
	if got := f.cluster("production-1").delivery.Spec.Failure; got == nil || got.Reason != v1alpha1.ReasonDeadlineExceeded {
		t.Errorf("recorded failure: %s", mustJSON(got))
	}
}

func TestLaw7UnhealthySecondsAddUpWithinAStep(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 600)))
	f.policy.UnhealthySeconds = secs(30)
	f.add("canary", 1)
	f.push("1.0.0", func(_ *fakeCluster, since time.Duration) v1alpha1.Health {
		if since/(10*time.Second)%2 == 1 {
			return v1alpha1.HealthDegraded
		}
		return v1alpha1.HealthHealthy
	})
	f.runUntilPhase(v1alpha1.RunFailed)
	if since := f.now.Sub(f.start); since < 55*time.Second || since > 65*time.Second {
		t.Errorf("10 s of every 20 s unhealthy, 30 s allowed: failed after %s, want about a minute", since)
	}
	if !strings.Contains(f.run.HaltCause.Message, v1alpha1.ReasonUnhealthyTooLong) {
		t.Errorf("cause: %+v", f.run.HaltCause)
	}
}

func TestLaw7ALateProofHealsNothing(t *testing.T) {
	f := newFleet(t, groupNamed("production", step("50%", 0), step("100%", 30)))
	f.strategy.ProgressDeadlineSeconds = secs(30)
	f.strategy.FailureBudget = failureBudget("1")
	f.add("production", 2)
	f.push("1.0.0", func(c *fakeCluster, since time.Duration) v1alpha1.Health {
		if c.name == "production-1" {
			return healthyAfter(45*time.Second)(c, since)
		}
		return healthyAfter(time.Second)(c, since)
	})
	f.runUntilPhase(v1alpha1.RunSucceeded)
	if f.now.Sub(f.start) < 45*time.Second {
		t.Fatalf("it succeeded after %s", f.now.Sub(f.start))
	}
	if got := f.cluster("production-1").delivery.Spec.Failure; got == nil || got.Reason != v1alpha1.ReasonDeadlineExceeded {
		t.Errorf("recorded failure: %s", mustJSON(got))
	}
}

func TestLaw7AProofAfterADeadlineThatNobodySawPassIsAFailure(t *testing.T) {
	f := newFleet(t, groupNamed("production", step("100%", 60)))
	f.strategy.ProgressDeadlineSeconds = secs(30)
	f.add("production", 1)
	f.push("1.0.0", healthyAfter(0))
	f.runUntil("soaking", func() bool { return f.waitsFor(v1alpha1.ReasonSoaking) })
	f.now = f.now.Add(40 * time.Second)
	s := f.snapshot()
	st := &s.Clusters[0].Delivery.Status
	st.ProvenAt, st.HealthySince = microTime(st.WrittenAt.Add(31*time.Second)), microTime(st.WrittenAt.Add(31*time.Second))
	if p := Next(s, f.now); p.Run.Phase != v1alpha1.RunFailed {
		t.Errorf("the run is %s", p.Run.Phase)
	}
}

func TestLaw7ASuspendedObjectHoldsItsStepWithoutDeadline(t *testing.T) {
	f := newFleet(t, groupNamed("canary"), groupNamed("production"))
	f.add("canary", 1)
	f.add("production", 1)
	r := f.push("1.0.0", func(c *fakeCluster, _ time.Duration) v1alpha1.Health { return v1alpha1.HealthSuspended })
	f.runFor(2 * time.Hour)
	if f.run.Phase != v1alpha1.RunProgressing || len(f.holding(r)) != 1 || f.run.WaitingFor[0].Reason != "Suspended" || f.run.WaitingFor[0].Cluster != "canary-1" {
		t.Errorf("%s, %v, waits for %s", f.run.Phase, f.holding(r), mustJSON(f.run.WaitingFor))
	}
}

func TestLaw7WhatWasSuspendedForLongHasItsWholeDeadlineOnceItGoesOn(t *testing.T) {
	suspended := true
	behave := func(c *fakeCluster, _ time.Duration) v1alpha1.Health {
		switch {
		case suspended:
			return v1alpha1.HealthSuspended
		case c.name == "production-2":
			return v1alpha1.HealthProgressing
		}
		return v1alpha1.HealthHealthy
	}
	f := newFleet(t, groupNamed("production"))
	f.strategy.ProgressDeadlineSeconds = secs(60)
	f.add("production", 1)
	f.push("1.0.0", behave)
	f.runFor(10 * time.Minute)
	suspended = false
	f.dirty = true
	f.runUntilPhase(v1alpha1.RunSucceeded)

	// The deadline still stands: what was not used of it is left, and no more.
	suspended = true
	f.add("production", 1)
	f.push("1.1.0", behave)
	f.runFor(10 * time.Minute)
	suspended = false
	f.dirty = true
	f.runFor(30 * time.Second)
	if f.run.Phase != v1alpha1.RunProgressing {
		t.Fatalf("half a deadline after it goes on the run is %s: %+v", f.run.Phase, f.run.HaltCause)
	}
	f.runFor(time.Minute)
	if f.run.Phase != v1alpha1.RunFailed {
		t.Errorf("a deadline and a half after it goes on the run is %s", f.run.Phase)
	}
}

func TestLaw7AFailureOfAnEarlierStepStillCountsInALaterOne(t *testing.T) {
	f := newFleet(t, groupNamed("canary", step("100%", 5)), groupNamed("production", step("1", 300), step("100%", 0)))
	f.strategy.ProgressDeadlineSeconds = secs(60)
	f.strategy.FailureBudget = failureBudget("1")
	f.add("canary", 2)
	f.add("production", 3)
	f.deployQuickly("1.0.0")
	f.push("1.1.0", failsOn("production-1"))
	f.tick(0)
	f.runFor(3 * time.Second)
	lost := f.cluster("canary-1")
	lost.lose()
	f.runUntil("it failed", func() bool { return lost.delivery.Spec.Failure != nil })
	lost.comeUp()
	f.runUntilPhase(v1alpha1.RunFailed)
	if f.run.HaltCause.Reason != v1alpha1.ReasonBudgetSpent || !strings.Contains(f.run.HaltCause.Message, "canary-1 (LostTooLong: lost for longer") {
		t.Errorf("the returned canary was forgiven: %s", mustJSON(f.run.HaltCause))
	}
}

func TestLaw7TheDeadlineOfTheWriteStandsStillWhileTheClusterIsLost(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.strategy.ProgressDeadlineSeconds = secs(100)
	c := f.add("production", 1)[0]
	f.push("1.0.0", healthyAfter(200*time.Second))
	f.tick(0)
	f.runFor(5 * time.Second)
	c.lose()
	f.runUntil("it is lost", func() bool { return c.delivery.Status.LostSince != nil })
	f.runFor(60 * time.Second)
	c.comeUp()
	f.tick(0)
	lost := milliseconds(c.delivery.Status.Clock.LostSinceWriteMilliseconds)
	if lost < time.Minute {
		t.Fatalf("lost for %s", lost)
	}
	failsAt := c.delivery.Status.WrittenAt.Add(100*time.Second + lost)
	f.runFor(failsAt.Sub(f.now) - time.Second)
	if f.run.Phase != v1alpha1.RunProgressing {
		t.Fatalf("lost time was charged to the deadline of the write: %s", mustJSON(f.run.HaltCause))
	}
	f.runFor(2 * time.Second)
	if f.run.Phase != v1alpha1.RunFailed {
		t.Errorf("the deadline passed and the run is %s", f.run.Phase)
	}
}

func TestLaw7NobodyFailsWhileNoManagerIsWatching(t *testing.T) {
	for name, away := range map[string]struct {
		version func(*fleet)
		behaves behaviour
	}{
		"a cluster that becomes healthy meanwhile": {behaves: healthyAfter(5 * time.Second)},
		"a cluster that is lost meanwhile and returns": {
			behaves: healthyAfter(5 * time.Second),
			version: func(f *fleet) { f.cluster("production-1").lose() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, groupNamed("production"))
			f.add("production", 3)
			f.deploy("1.0.0")
			r := f.push("1.1.0", away.behaves)
			f.runUntil("written", func() bool {
				return len(f.holding(r)) == 3 && f.cluster("production-1").delivery.Status.WrittenAt != nil
			})
			if away.version != nil {
				away.version(f)
				f.runFor(3 * leaseInterval)
			}
			f.outage(15 * time.Minute)
			if away.version != nil {
				f.cluster("production-1").comeUp()
			}
			f.runUntil("ended", func() bool { return f.run.Phase != v1alpha1.RunProgressing })
			if f.run.Phase != v1alpha1.RunSucceeded {
				t.Errorf("the run is %s: %s", f.run.Phase, f.run.HaltCause.Message)
			}
			if f.run.UnwatchedUntil == nil || f.run.PausedMilliseconds < (15*time.Minute).Milliseconds() {
				t.Errorf("15 minutes without a manager are recorded as %d ms, until %v", f.run.PausedMilliseconds, f.run.UnwatchedUntil)
			}
			paused := f.run.PausedMilliseconds
			f.dirty = true
			f.settle()
			if f.run.PausedMilliseconds != paused {
				t.Errorf("the outage is added twice: %d ms, then %d", paused, f.run.PausedMilliseconds)
			}
		})
	}
}

func TestLaw7AProofThatANewManagerSeesLateIsNotLate(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.add("production", 1)
	f.deploy("1.0.0")
	f.push("1.1.0", healthyAfter(9*time.Minute+50*time.Second))
	f.runUntil("written", func() bool { return len(f.holding(f.revisions[1])) == 1 })
	f.runFor(9*time.Minute + 40*time.Second)
	f.outage(15 * time.Minute)
	// The hub hears of the health only half a minute after the manager is back.
	c := f.cluster("production-1")
	c.set(c.connected, false)
	for range 40 {
		f.now = f.now.Add(time.Second)
	}
	c.set(c.connected, true)
	f.dirty = true
	f.runFor(5 * time.Minute)
	if f.run.Phase != v1alpha1.RunSucceeded {
		t.Errorf("the run is %s: %+v", f.run.Phase, f.run.HaltCause)
	}
}

func TestLaw7AClusterThatDoesNothingStillFailsAfterAnOutage(t *testing.T) {
	f := newFleet(t, groupNamed("production"))
	f.add("production", 3)
	f.deploy("1.0.0")
	r := f.push("1.1.0", alwaysHealth(v1alpha1.HealthProgressing))
	f.runUntil("written", func() bool { return len(f.holding(r)) == 3 })
	f.outage(15 * time.Minute)
	f.runUntil("ended", func() bool { return f.run.Phase != v1alpha1.RunProgressing })
	if f.run.Phase != v1alpha1.RunFailed {
		t.Errorf("the run is %s", f.run.Phase)
	}
}
