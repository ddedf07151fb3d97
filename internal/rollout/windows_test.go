package rollout

import (
	"testing"
	"time"
	_ "time/tzdata"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func moment(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func hours(zone, start string, length time.Duration, days ...v1alpha1.Weekday) v1alpha1.MaintenanceWindow {
	return v1alpha1.MaintenanceWindow{TimeZone: zone, Start: start, DurationSeconds: int32(length / time.Second), Days: days}
}

func TestAWindowOpensAndClosesByTheClocksOfItsZone(t *testing.T) {
	const berlin = "Europe/Berlin"
	cases := []struct {
		name   string
		window v1alpha1.MaintenanceWindow
		now    string
		open   bool
		turns  string
	}{
		{"before it opens", hours(berlin, "22:00", time.Hour), "2026-03-02T20:59:59Z", false, "2026-03-02T21:00:00Z"},
		{"at its opening", hours(berlin, "22:00", time.Hour), "2026-03-02T21:00:00Z", true, "2026-03-02T22:00:00Z"},
		{"at its closing", hours(berlin, "22:00", time.Hour), "2026-03-02T22:00:00Z", false, "2026-03-03T21:00:00Z"},
		{"without a zone it is UTC", hours("", "22:00", time.Hour), "2026-03-02T22:30:00Z", true, "2026-03-02T23:00:00Z"},
		{"past midnight the opening day counts", hours(berlin, "22:00", 4*time.Hour, "Mon"), "2026-03-03T00:30:00Z", true, "2026-03-03T01:00:00Z"},
		{"on the evening after it is shut", hours(berlin, "22:00", 4*time.Hour, "Mon"), "2026-03-03T21:30:00Z", false, "2026-03-09T21:00:00Z"},
		{"the day is that of the zone", hours("Asia/Tokyo", "06:00", time.Hour, "Tue"), "2026-03-02T21:30:00Z", true, "2026-03-02T22:00:00Z"},
		{"in summer it opens an hour earlier in UTC", hours(berlin, "22:00", time.Hour), "2026-07-01T20:00:00Z", true, "2026-07-01T21:00:00Z"},
		{"a start that the clocks skip is the moment of the change", hours(berlin, "02:30", time.Hour, "Sun"), "2026-03-29T00:59:59Z", false, "2026-03-29T01:00:00Z"},
		{"and it stays open for its whole length", hours(berlin, "02:30", time.Hour, "Sun"), "2026-03-29T01:59:59Z", true, "2026-03-29T02:00:00Z"},
		{"a start that the clocks show twice is the first", hours(berlin, "02:30", time.Hour, "Sun"), "2026-10-25T00:30:00Z", true, "2026-10-25T01:30:00Z"},
		{"and not the second", hours(berlin, "02:30", time.Hour, "Sun"), "2026-10-25T01:30:00Z", false, "2026-11-01T01:30:00Z"},
		{"over the change its length is that of a clock in the hand", hours(berlin, "22:00", 8*time.Hour, "Sat"), "2026-03-29T04:59:59Z", true, "2026-03-29T05:00:00Z"},
		{"a change of 30 minutes", hours("Australia/Lord_Howe", "01:45", time.Hour, "Sun"), "2026-04-04T14:45:00Z", true, "2026-04-04T15:45:00Z"},
		{"openings that overlap unite", hours("", "00:00", 36*time.Hour, "Mon", "Tue"), "2026-03-02T01:00:00Z", true, "2026-03-04T12:00:00Z"},
		{"a week is the longest", hours("", "12:00", 168*time.Hour, "Mon"), "2026-03-02T11:00:00Z", true, "2026-03-16T12:00:00Z"},
		{"a day that the zone never had", hours("Pacific/Apia", "10:00", time.Hour), "2011-12-29T21:30:00Z", false, "2011-12-30T20:00:00Z"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w, err := readWindow(c.window, moment(t, c.now))
			if err != nil {
				t.Fatal(err)
			}
			if w.open != c.open || !w.turns.Equal(moment(t, c.turns)) {
				t.Errorf("open %v until %s, want %v until %s", w.open, w.turns.UTC().Format(time.RFC3339), c.open, c.turns)
			}
		})
	}
}

// Whatever the zone does to its clocks, going from turn to turn meets every
// change of open and shut.
func TestAWindowChangesOnlyAtTheTurnsThatItAnnounces(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca"} {
		for _, start := range []string{"00:00", "02:30"} {
			spec := hours(zone, start, 3*time.Hour, "Sat", "Sun")
			now := moment(t, "2026-02-15T00:00:00Z")
			last, err := readWindow(spec, now)
			if err != nil {
				t.Fatal(err)
			}
			for range 75 * 24 * 2 {
				now = now.Add(30 * time.Minute)
				w, _ := readWindow(spec, now)
				if w.open != last.open && now.Before(last.turns) || w.open == last.open && !w.turns.Equal(last.turns) && now.Before(last.turns) {
					t.Fatalf("%s %s at %s: open %v, though %v was announced until %s", zone, start, now, w.open, last.open, last.turns)
				}
				last = w
			}
		}
	}
}

func TestAWindowThatCannotBeReadShutsEverybodyOutAndIsNamed(t *testing.T) {
	f := newFleet(t, groupNamed("all"))
	f.strategy.Windows = []v1alpha1.MaintenanceWindow{hours("", "00:00", 24*time.Hour), hours("Europe/Berlim", "22:00", time.Hour)}
	f.add("all", 1)
	f.push("1.0.0", healthyAfter(time.Second))
	f.runFor(time.Minute)
	if o := f.last.Outcome; f.run != nil || o.Cause.Reason != v1alpha1.ReasonInvalidSpec || len(f.last.Writes) != 0 {
		t.Fatalf("outcome %+v", o)
	}
	f.strategy.Windows[1].TimeZone, f.dirty = "Europe/Berlin", true
	f.strategy.Windows[1].ClusterSelector = metav1.LabelSelector{MatchLabels: map[string]string{"group": "other"}}
	f.runUntilPhase(v1alpha1.RunSucceeded)
}

// windowFleet is five clusters, of which night-1 and night-2 have a window from
// 22:00 to 23:00 UTC; the fleet's clock begins at 09:00.
func windowFleet(t *testing.T) *fleet {
	f := newFleet(t, groupNamed("day"), groupNamed("night", step("1", 0), step("100%", 0)))
	f.add("day", 3)
	f.add("night", 2)
	f.deploy("1.0.0")
	f.strategy.Windows = []v1alpha1.MaintenanceWindow{hours("", "22:00", time.Hour)}
	f.strategy.Windows[0].ClusterSelector.MatchLabels = map[string]string{"group": "night"}
	return f
}

func TestForwardWritesWaitForTheWindowOfEachCluster(t *testing.T) {
	f := windowFleet(t)
	r := f.push("1.1.0", healthyAfter(time.Second))
	f.runFor(time.Minute)
	if got := f.holding(r); len(got) != 3 {
		t.Fatalf("outside the window %v have it", got)
	}
	w := f.waiting(v1alpha1.ReasonOutsideWindow)
	opens := fleetEpoch.Add(13 * time.Hour)
	if w.Until == nil || !w.Until.Time.Equal(opens) || f.last.RecheckAfter != opens.Sub(f.lastAt) {
		t.Errorf("it waits %s, and wakes after %s", mustJSON(w), f.last.RecheckAfter)
	}
	if j := f.judgement("night-1"); j.Cause == nil || j.Cause.Reason != v1alpha1.ReasonOutsideWindow {
		t.Errorf("night-1: %+v", j)
	}
	f.sleepUntil(opens.Add(-time.Second))
	if got := f.holding(r); len(got) != 3 {
		t.Fatalf("a second before the window %v have it", got)
	}
	f.runFor(time.Minute)
	if f.run.Phase != v1alpha1.RunSucceeded {
		t.Errorf("in the window: %s", mustJSON(f.run))
	}
}

func TestRollbackIsExemptFromWindowsAndFreezes(t *testing.T) {
	f := windowFleet(t)
	f.strategy.Windows[0].ClusterSelector.MatchLabels = nil
	f.now = fleetEpoch.Add(13*time.Hour + 59*time.Minute + 50*time.Second)
	r := f.push("1.1.0", failsOn("day-2"))
	f.tick(0)
	f.strategy.Freezes = []v1alpha1.Freeze{{From: metav1.NewTime(f.now.Add(time.Second)), To: metav1.NewTime(f.now.Add(100 * time.Hour))}}
	f.runUntilPhase(v1alpha1.RunFailed)
	f.runFor(30 * time.Second)
	if got := f.holding(r); len(got) != 0 || f.now.Hour() == 22 {
		t.Errorf("the rollback waits for the window: %v", got)
	}
}

func TestAFreezeHoldsEverybodyAlsoInsideAWindow(t *testing.T) {
	f := windowFleet(t)
	ends := f.now.Add(time.Hour)
	f.strategy.Freezes = []v1alpha1.Freeze{
		{From: metav1.NewTime(f.now), To: metav1.NewTime(f.now.Add(30 * time.Minute))},
		{From: metav1.NewTime(f.now.Add(20 * time.Minute)), To: metav1.NewTime(ends)},
	}
	r := f.push("1.1.0", healthyAfter(time.Second))
	f.tick(0)
	if w := f.waiting(v1alpha1.ReasonFrozen); w.Until == nil || !w.Until.Time.Equal(ends) || len(f.holding(r)) != 0 {
		t.Errorf("it waits for %s", mustJSON(w))
	}
	f.sleepUntil(ends)
	f.runFor(time.Second)
	if got := f.holding(r); len(got) != 3 {
		t.Errorf("after the freeze %v have it", got)
	}
}

func TestAJoiningClusterWaitsForItsWindowToo(t *testing.T) {
	f := windowFleet(t)
	f.add("night", 1)
	f.runFor(time.Minute)
	j := f.judgement("night-3")
	if f.cluster("night-3").delivery != nil || j.Cause == nil || j.Cause.Reason != v1alpha1.ReasonOutsideWindow || f.last.Outcome.Ready {
		t.Fatalf("written outside its window, or unnamed: %+v", j)
	}
	f.sleepUntil(fleetEpoch.Add(13 * time.Hour))
	f.runFor(time.Minute)
	if !f.last.Outcome.Ready {
		t.Errorf("in the window: %+v", f.last.Outcome)
	}
}

func TestWindowsOfOneClusterUniteAndNoneMeansOpen(t *testing.T) {
	c := readCalendar(v1alpha1.Strategy{Windows: []v1alpha1.MaintenanceWindow{
		{ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, Start: "10:00", DurationSeconds: 3600},
		{ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, Start: "09:00", DurationSeconds: 1800},
		{ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "c"}}, Start: "15:00", DurationSeconds: 1800},
	}}, fleetEpoch)
	if why, turns := c.shut(map[string]string{"a": "b"}); why != nil || !turns.Equal(fleetEpoch.Add(30*time.Minute)) {
		t.Errorf("in one of two windows: %v until %s", why, turns)
	}
	if why, turns := c.shut(map[string]string{"a": "c"}); why == nil || !turns.Equal(fleetEpoch.Add(6*time.Hour)) {
		t.Errorf("outside its window: %v until %s", why, turns)
	}
	if why, turns := c.shut(nil); why != nil || !turns.IsZero() {
		t.Errorf("without a window: %v until %s", why, turns)
	}
}
