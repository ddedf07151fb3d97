package main

import (
	"fmt"
	"strings"
	"time"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// soakGrain is how often the soak left is printed.
const soakGrain = 5 * time.Second

// progress renders what a person wants to know of a going rollout: which
// group and step, who is healthy, what it waits for. The soak left is told apart,
// because it changes all the time.
func progress(rollout *v1alpha1.FleetRollout, deliveries []v1alpha1.RolloutDelivery) string {
	var out strings.Builder
	fmt.Fprintln(&out, headline(rollout))
	for _, d := range deliveries {
		fmt.Fprintf(&out, "    %-10s %-12s version %-7s %-12s %s\n",
			d.Namespace, "("+d.Spec.Group+")", d.Spec.Revision.Version, orDash(string(d.Status.State)), detail(d.Status))
	}
	if run := rollout.Status.Run; run != nil {
		for _, w := range run.WaitingFor {
			fmt.Fprintf(&out, "    waits for %s%s\n", prefixed(w.Cluster), w.Message)
		}
	}
	return out.String()
}

func prefixed(cluster string) string {
	if cluster == "" {
		return ""
	}
	return cluster + ": "
}

// soaking renders the soak left, in steps of soakGrain; empty outside a soak.
func soaking(rollout *v1alpha1.FleetRollout, now time.Time) string {
	left, soaks := soakLeft(rollout.Status.Run, now)
	if !soaks {
		return ""
	}
	grains := (left + soakGrain - time.Second) / soakGrain
	return fmt.Sprintf("    soak: %s left\n", max(grains, 1)*soakGrain)
}

func headline(rollout *v1alpha1.FleetRollout) string {
	parts := []string{fmt.Sprintf("%s %s", rollout.Name, rollout.Spec.Version)}
	run := rollout.Status.Run
	switch {
	case run == nil:
		parts = append(parts, "not started")
	case run.Group == "":
		parts = append(parts, fmt.Sprintf("run %d %s", run.Number, run.Phase))
	default:
		parts = append(parts, fmt.Sprintf("run %d, group %s, step %d of %d", run.Number, run.Group, run.Step, stepsOf(run)))
	}
	parts = append(parts, "updated "+orDash(rollout.Status.Clusters.Progress))
	if open := openRollback(rollout); open != nil {
		parts = append(parts, fmt.Sprintf("ROLLING BACK to %s", open.To.Version))
	}
	return strings.Join(parts, " | ")
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

func detail(status v1alpha1.RolloutDeliveryStatus) string {
	if status.State == v1alpha1.StateHealthy {
		return ""
	}
	if status.Message != "" {
		return firstLine(status.Message, 110)
	}
	return status.Reason
}

func firstLine(s string, limit int) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > limit {
		return s[:limit] + "…"
	}
	return s
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
