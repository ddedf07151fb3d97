package rollout

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestSimulationARestartChangesNothing plays the same rollout with and without
// managers that die and come back: the same clusters get the same deliveries,
// and the run ends the same way.
func TestSimulationARestartChangesNothing(t *testing.T) {
	for seed := range uint64(20) {
		plain, restarted := playWithRestarts(t, seed, 0), playWithRestarts(t, seed, 4)
		if plain != restarted {
			t.Fatalf("seed %d: without restarts\n%s\nwith restarts\n%s", seed, plain, restarted)
		}
	}
}

// playWithRestarts plays two runs, the second of them broken for some seeds,
// and restarts the manager about every so many seconds; some of the restarts
// interrupt the carrying out of a plan.
func playWithRestarts(t *testing.T, seed uint64, every int) string {
	r, crashes := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
	f := newFleet(t, groupNamed("canary", step("100%", 20)), groupNamed("production", step("10%", 20), step("50%", 0), step("100%", 20)))
	f.policy.MaxConcurrent = share("2")
	f.strategy.Groups[1].MaxConcurrent = share("2")
	f.add("canary", 2)
	f.add("production", 7)
	f.deploy("1.0.0")
	broken := fmt.Sprintf("production-%d", r.IntN(12))
	f.push("1.1.0", failsOn(broken))
	for range 600 {
		if every > 0 && crashes.IntN(every) == 0 {
			if f.crashAfter = crashes.IntN(6); crashes.IntN(2) == 0 {
				f.restart()
			}
		}
		f.tick(time.Second)
	}
	end := fmt.Sprintf("%s %s\n", f.run.Phase, f.stable.Version)
	for _, record := range f.rollbacks {
		end += fmt.Sprintf("rollback %d %s %d/%d\n", record.ID, record.Result, record.Restored, record.Clusters)
	}
	for _, c := range f.clusters {
		end += fmt.Sprintf("%s %s delivery %d\n", c.name, c.delivery.Spec.Revision.Version, c.delivery.Spec.Delivery)
	}
	return end
}
