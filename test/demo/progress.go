package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// soakGrain is how often the soak left is printed.
const soakGrain = 5 * time.Second

// narrator tells what changes: a line appears when it is news, so that a person
// can read along, and read the whole later like a log.
type narrator struct {
	out  io.Writer
	told map[string]string
}

func newNarrator(out io.Writer) *narrator { return &narrator{out: out, told: map[string]string{}} }

// tell prints the lines that differ from what was last told under their key.
func (n *narrator) tell(rollout *v1alpha1.FleetRollout, deliveries []v1alpha1.RolloutDelivery, now time.Time) {
	n.line(now, "", headline(rollout))
	for _, d := range deliveries {
		n.line(now, d.Namespace, cluster(d))
	}
	n.line(now, "waits", waits(rollout))
	n.line(now, "soak", soaking(rollout, now))
}

func (n *narrator) line(now time.Time, key, text string) {
	if text == n.told[key] {
		return
	}
	n.told[key] = text
	if text != "" {
		fmt.Fprintf(n.out, "%s  %s\n", now.Format("15:04:05"), text)
	}
}

func cluster(d v1alpha1.RolloutDelivery) string {
	state := d.Status.State
	if d.Status.Delivery < d.Spec.Delivery {
		state = v1alpha1.StatePending // What is recorded is about an earlier order.
	}
	line := fmt.Sprintf("   %-4s %-12s %-6s %-12s", d.Namespace, d.Spec.Group, d.Spec.Revision.Version, state)
	if state == v1alpha1.StatePending || state == v1alpha1.StateHealthy {
		return line
	}
	return line + " " + d.Status.Message
}

func waits(rollout *v1alpha1.FleetRollout) string {
	if rollout.Status.Run == nil {
		return ""
	}
	var lines []string
	for _, w := range rollout.Status.Run.WaitingFor {
		switch {
		case w.Reason == v1alpha1.ReasonSoaking:
			// The soak has a line of its own.
		case w.Cluster != "":
			lines = append(lines, w.Cluster+" ("+w.Reason+")")
		default:
			lines = append(lines, w.Message)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return "   waiting for " + strings.Join(lines, ", ")
}

// soaking renders the soak left, in steps of soakGrain; empty outside a soak.
func soaking(rollout *v1alpha1.FleetRollout, now time.Time) string {
	left, soaks := soakLeft(rollout.Status.Run, now)
	if !soaks {
		return ""
	}
	grains := (left + soakGrain - time.Second) / soakGrain
	return fmt.Sprintf("   soak: %s left", max(grains, 1)*soakGrain)
}

func headline(rollout *v1alpha1.FleetRollout) string {
	run := rollout.Status.Run
	if run == nil {
		return fmt.Sprintf("%s %s: not started", rollout.Name, rollout.Spec.Version)
	}
	text := fmt.Sprintf("%s: run %d brings %s out", rollout.Name, run.Number, run.Revision.Version)
	if run.Group == "" {
		text += ": " + string(run.Phase)
	} else {
		text += fmt.Sprintf(": group %s, step %d of %d", run.Group, run.Step, stepsOf(run))
	}
	text += ", updated " + orDash(rollout.Status.Clusters.Progress)
	if open := openRollback(rollout); open != nil {
		text += fmt.Sprintf("; ROLLING BACK to %s, because %s", open.To.Version, open.Cause.Message)
	}
	return text
}

func stepsOf(run *v1alpha1.Run) int {
	for _, g := range run.FrozenGroups {
		if g.Name == run.Group {
			return len(g.StepsOrDefault())
		}
	}
	return 1
}

func soakLeft(run *v1alpha1.Run, now time.Time) (time.Duration, bool) {
	if run == nil || run.SoakStartedAt == nil || run.Step == 0 {
		return 0, false
	}
	for _, g := range run.FrozenGroups {
		steps := g.StepsOrDefault()
		if g.Name != run.Group || int(run.Step) > len(steps) {
			continue
		}
		soak := time.Duration(steps[run.Step-1].SoakSeconds) * time.Second
		left := run.SoakStartedAt.Add(soak).Sub(now)
		return max(left, 0), soak > 0
	}
	return 0, false
}

func openRollback(rollout *v1alpha1.FleetRollout) *v1alpha1.RollbackRecord {
	for i := range rollout.Status.Rollbacks {
		if r := &rollout.Status.Rollbacks[i]; r.FinishedAt == nil {
			return r
		}
	}
	return nil
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
