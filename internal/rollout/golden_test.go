package rollout

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden traces anew instead of comparing them")

// The traces under testdata read like the log of a rollout: what a person did,
// what the planner wrote and told, and what it waited for. Renew them with
//
//	go test ./internal/rollout -run TestTrace -update
func TestTraceOfWholeRollouts(t *testing.T) {
	stories := map[string]func(*fleet){
		"canary-then-waves":           canaryThenWaves,
		"failure-in-the-second-wave":  failureInTheSecondWave,
		"lost-canary":                 lostCanary,
		"superseded-during-the-soak":  supersededDuringTheSoak,
		"paused-in-the-middle":        pausedInTheMiddle,
		"first-run-fails":             firstRunFails,
		"reverted-to-stable":          revertedToStable,
		"unreachable-before-its-turn": unreachableBeforeItsTurn,
		"approval":                    approvalAndPromote,
		"window":                      windowAndFreeze,
		"abort-then-retry":            abortThenRetry,
		"rolled-back-by-a-person":     rolledBackByAPerson,
	}
	for name, play := range stories {
		t.Run(name, func(t *testing.T) {
			f := storyFleet(t)
			play(f)
			f.logf("ready:    %v, %s: %s", f.last.Outcome.Ready, f.last.Outcome.Cause.Reason, f.last.Outcome.Cause.Message)
			compareGolden(t, filepath.Join("testdata", name+".txt"), f.log.String())
		})
	}
}

func compareGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s differs (-want +got); renew it with -update if the change is meant:\n%s", path, diff)
	}
}

// storyFleet is one canary and ten production clusters on 1.0.0.
func storyFleet(t *testing.T) *fleet {
	f := newFleet(t,
		groupNamed("canary", step("100%", 60)),
		groupNamed("production", step("10%", 30), step("30%", 30), step("100%", 0)))
	f.strategy.ProgressDeadlineSeconds = secs(120)
	f.policy.UnhealthySeconds = secs(30)
	f.add("canary", 1)
	f.add("production", 10)
	f.deploy("1.0.0")
	f.runFor(time.Minute)
	f.start = f.now
	f.log = &strings.Builder{}
	return f
}

func canaryThenWaves(f *fleet) {
	f.push("1.1.0", healthyAfter(4*time.Second))
	f.runUntilPhase(v1alpha1.RunSucceeded)
	f.runFor(time.Second)
}

func failureInTheSecondWave(f *fleet) {
	f.policy.MaxConcurrent = share("2")
	f.push("1.2.0", failsOn("production-2"))
	f.runUntilPhase(v1alpha1.RunFailed)
	f.runUntil("rolled back", func() bool { return f.rollbacks[0].FinishedAt != nil })
	f.runFor(time.Second)
}

func lostCanary(f *fleet) {
	f.push("1.1.0", healthyAfter(4*time.Second))
	f.runFor(20 * time.Second)
	f.cluster("canary-1").lose()
	f.runUntil("the canary is lost", func() bool { return f.waitsFor(v1alpha1.ReasonClusterUnavailable) })
	f.runFor(40 * time.Second)
	f.cluster("canary-1").comeUp()
	f.runUntilPhase(v1alpha1.RunSucceeded)
	f.runFor(time.Second)
}

func supersededDuringTheSoak(f *fleet) {
	f.push("1.1.0", healthyAfter(4*time.Second))
	f.runFor(40 * time.Second)
	f.push("1.1.1", healthyAfter(4*time.Second))
	f.runUntilPhase(v1alpha1.RunSucceeded)
	f.runFor(time.Second)
}

func pausedInTheMiddle(f *fleet) {
	f.push("1.1.0", healthyAfter(4*time.Second))
	f.runUntil("production is walked", func() bool { return f.run.Group == "production" })
	f.runFor(3 * time.Second)
	f.setPaused(true)
	f.runFor(3 * time.Minute)
	f.setPaused(false)
	f.runUntilPhase(v1alpha1.RunSucceeded)
	f.runFor(time.Second)
}

func firstRunFails(f *fleet) {
	f.stable, f.run, f.rollbacks, f.revisions, f.current = nil, nil, nil, nil, ""
	for _, c := range f.clusters {
		c.delivery = nil
		c.written, c.applied, c.report = v1alpha1.Proof{}, v1alpha1.Proof{}, v1alpha1.AgentReport{}
	}
	f.push("0.1.0", alwaysHealth(v1alpha1.HealthDegraded))
	f.runUntilPhase(v1alpha1.RunFailed)
	f.runFor(time.Second)
	f.push("0.1.1", healthyAfter(4*time.Second))
	f.runUntilPhase(v1alpha1.RunSucceeded)
	f.runFor(time.Second)
}

func revertedToStable(f *fleet) {
	f.push("1.1.0", healthyAfter(4*time.Second))
	f.runUntil("production is walked", func() bool { return f.run.Group == "production" })
	f.runFor(10 * time.Second)
	f.setTemplate(f.revision(f.stable.Digest))
	f.runUntil("rolled back", func() bool { return len(f.rollbacks) > 0 && f.rollbacks[0].FinishedAt != nil })
	f.runFor(time.Second)
}

func unreachableBeforeItsTurn(f *fleet) {
	f.cluster("production-3").lose()
	f.runFor(2 * time.Minute)
	f.push("1.1.0", healthyAfter(4*time.Second))
	f.runUntilPhase(v1alpha1.RunSucceeded)
	f.runFor(time.Minute)
	f.logf("ready:    %v, %s: %s", f.last.Outcome.Ready, f.last.Outcome.Cause.Reason, f.last.Outcome.Cause.Message)
	f.cluster("production-3").comeUp()
	f.runFor(time.Minute)
}

// approvalAndPromote: production needs an approval; somebody rejects it first,
// and approves it later. The soak of its first step is cut short.
func approvalAndPromote(f *fleet) {
	f.strategy.Groups[1].Steps[0].Approval = v1alpha1.ApprovalRequired
	f.push("1.1.0", healthyAfter(4*time.Second))
	f.runUntil("an approval is asked for", func() bool { return f.waitsFor(v1alpha1.ReasonWaitingForApproval) })
	f.runFor(10 * time.Minute)
	f.obeyNow(v1alpha1.VerbReject, stepOf("production", 1), saying("the change board meets at ten"))
	f.runFor(10 * time.Minute)
	f.obeyNow(v1alpha1.VerbApprove, stepOf("production", 1))
	f.runUntil("soaking", func() bool { return f.waitsFor(v1alpha1.ReasonSoaking) })
	f.obeyNow(v1alpha1.VerbPromote, stepOf("production", 1))
	f.runUntilPhase(v1alpha1.RunSucceeded)
	f.runFor(time.Second)
}

// windowAndFreeze: production may change from 10:00 to 10:01 in Lisbon, and a
// freeze holds the canary until shortly before.
func windowAndFreeze(f *fleet) {
	w := hours("Europe/Lisbon", "10:00", time.Minute)
	w.ClusterSelector.MatchLabels = map[string]string{"group": "production"}
	f.strategy.Windows = []v1alpha1.MaintenanceWindow{w}
	f.strategy.Freezes = []v1alpha1.Freeze{{From: metav1.NewTime(f.now.Add(-time.Hour)), To: metav1.NewTime(fleetEpoch.Add(30 * time.Minute))}}
	f.push("1.1.0", healthyAfter(4*time.Second))
	f.sleepUntil(fleetEpoch.Add(50 * time.Minute))
	f.runUntil("the window is shut again", func() bool { return f.now.After(fleetEpoch.Add(61*time.Minute + 10*time.Second)) })
	f.sleepUntil(fleetEpoch.Add(25*time.Hour - time.Second))
	f.runUntilPhase(v1alpha1.RunSucceeded)
	f.runFor(time.Second)
}

func abortThenRetry(f *fleet) {
	f.push("1.1.0", healthyAfter(4*time.Second))
	f.runUntil("production is walked", func() bool { return f.run.Group == "production" })
	f.runFor(3 * time.Second)
	f.obeyNow(v1alpha1.VerbAbort, saying("the error rate climbs"))
	f.obeyNow(v1alpha1.VerbRetry)
	f.runFor(time.Minute)
	f.obeyNow(v1alpha1.VerbRetry, saying("it was the network"))
	f.runUntilPhase(v1alpha1.RunSucceeded)
	f.runFor(time.Second)
}

func rolledBackByAPerson(f *fleet) {
	f.push("1.1.0", healthyAfter(4*time.Second))
	f.runUntilPhase(v1alpha1.RunSucceeded)
	f.runFor(time.Hour)
	f.obeyNow(v1alpha1.VerbRollback, saying("customers see old prices"))
	f.runUntil("rolled back", func() bool { return f.rollbacks[0].FinishedAt != nil })
	f.runFor(time.Second)
	f.logf("ready:    %v, %s: %s", f.last.Outcome.Ready, f.last.Outcome.Cause.Reason, f.last.Outcome.Cause.Message)
	f.setTemplate(f.revision(f.stable.Digest))
	f.runFor(time.Second)
}

func saying(words string) func(*v1alpha1.RolloutActionSpec) {
	return func(s *v1alpha1.RolloutActionSpec) { s.Reason = words }
}

func (f *fleet) setPaused(paused bool) {
	f.paused, f.dirty = paused, true
	f.logf("spec:     paused %v", paused)
}
