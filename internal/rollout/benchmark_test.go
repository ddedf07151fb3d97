package rollout

import (
	"fmt"
	"testing"
	"time"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// BenchmarkNext plans for a fleet in the middle of a run: half of it is
// proven on the run's revision, a step soaks, and nothing is to be written.
func BenchmarkNext(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		s, now := soakingFleet(b, n)
		b.Run(fmt.Sprintf("soaking/clusters=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Next(s, now)
			}
		})
		failing := s
		failing.Clusters = append([]Cluster(nil), s.Clusters...)
		for i := range failing.Clusters {
			c := &failing.Clusters[i]
			if c.Delivery.Spec.Run == s.Run.Number {
				d := *c.Delivery
				d.Status.FailedAt, d.Status.HealthySince, d.Status.State = microTime(now), nil, v1alpha1.StateFailed
				c.Delivery = &d
				break
			}
		}
		b.Run(fmt.Sprintf("rollback/clusters=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if p := Next(failing, now); p.Run.Phase != v1alpha1.RunFailed {
					b.Fatal(p.Run.Phase)
				}
			}
		})
	}
}

func soakingFleet(tb testing.TB, n int) (Snapshot, time.Time) {
	f := newFleet(tb, groupNamed("canary"), groupNamed("gray"), groupNamed("production", step("30%", 600), step("100%", 0)))
	f.add("canary", n/10)
	f.add("gray", n/5)
	f.add("production", n-n/10-n/5)
	f.strategy.ProgressDeadlineSeconds = secs(3600)
	for i, version := range []string{"1.0.0", "1.1.0"} {
		f.push(version, healthyAfter(0))
		for f.tick(0); f.run.Number != int64(i+1) || f.run.Phase != v1alpha1.RunSucceeded; f.tick(20 * time.Second) {
			if i == 1 && f.waitsFor(v1alpha1.ReasonSoaking) {
				return f.snapshot(), f.now
			}
			if f.now.Sub(f.start) > 2*time.Hour {
				tb.Fatalf("the fleet does not get there: %s", mustJSON(f.run))
			}
		}
	}
	tb.Fatal("the second run did not soak")
	return Snapshot{}, time.Time{}
}
