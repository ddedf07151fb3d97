package rollout

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// calendar tells when forward writes may happen. Windows and freezes are read
// live; rollback, evidence and deadlines do not look at it.
type calendar struct {
	windows []window
	// frozenUntil is when the freeze that holds now ends; zero without one.
	frozenUntil time.Time
	// freezesAt is when the next freeze begins; zero without one.
	freezesAt time.Time
	// unreadable says which window cannot be read. Until it is corrected nobody
	// is written: to ignore it would open what it was meant to shut.
	unreadable *v1alpha1.Cause
}

// window is a maintenance window as it stands now.
type window struct {
	selector labels.Selector
	open     bool
	// turns is when it closes if it is open, and when it opens otherwise.
	turns time.Time
}

// readCalendar reads the windows and freezes of a strategy for this moment.
func readCalendar(s v1alpha1.Strategy, now time.Time) calendar {
	c := calendar{frozenUntil: frozenUntil(s.Freezes, now)}
	for _, f := range s.Freezes {
		if f.From.After(now) && (c.freezesAt.IsZero() || f.From.Time.Before(c.freezesAt)) {
			c.freezesAt = f.From.Time
		}
	}
	for i := range s.Windows {
		w, err := readWindow(s.Windows[i], now)
		if err != nil {
			c.unreadable = &v1alpha1.Cause{
				Reason:  v1alpha1.ReasonInvalidSpec,
				Message: clip(fmt.Sprintf("spec.strategy.windows[%d] cannot be read: %v; no cluster goes forward until it is corrected", i, err)),
			}
			continue
		}
		c.windows = append(c.windows, w)
	}
	return c
}

func readWindow(spec v1alpha1.MaintenanceWindow, now time.Time) (window, error) {
	selector, err := metav1.LabelSelectorAsSelector(&spec.ClusterSelector)
	if err != nil {
		return window{}, fmt.Errorf("clusterSelector: %w", err)
	}
	zone, err := time.LoadLocation(spec.TimeZone) // UTC where none is named.
	if err != nil {
		return window{}, fmt.Errorf("timeZone %q: %w; use a name of the IANA time zone database, such as Europe/Berlin", spec.TimeZone, err)
	}
	start, err := time.Parse("15:04", spec.Start)
	if err != nil {
		return window{}, fmt.Errorf("start %q: must be a time of day such as 22:00", spec.Start)
	}
	w := window{selector: selector}
	length := time.Duration(spec.DurationSeconds) * time.Second
	w.open, w.turns = turn(openings(spec.Days, start, now.In(zone)), length, now)
	return w, nil
}

// openings are the moments around now at which a window opens, in order: as
// far back as the longest window lasts, and at least one that is to come.
func openings(days []v1alpha1.Weekday, start, now time.Time) []time.Time {
	const week = 7
	var list []time.Time
	for day := -week - 1; day <= week+1; day++ {
		at := clockTime(now.Year(), now.Month(), now.Day()+day, start.Hour(), start.Minute(), now.Location())
		if opensOn(days, time.Date(now.Year(), now.Month(), now.Day()+day, 12, 0, 0, 0, time.UTC).Weekday()) {
			list = append(list, at)
		}
	}
	return list
}

func opensOn(days []v1alpha1.Weekday, day time.Weekday) bool {
	return len(days) == 0 || slices.Contains(days, v1alpha1.Weekday(day.String()[:3]))
}

// clockTime is when the clocks of a place show a time of day. Where they are
// put forward over it, that is the moment of the change; where they show it
// twice, the first time.
func clockTime(year int, month time.Month, day, hour, minute int, zone *time.Location) time.Time {
	at := time.Date(year, month, day, hour, minute, 0, 0, zone)
	begins, ends := at.ZoneBounds()
	shown, wanted := at.Hour()*60+at.Minute(), hour*60+minute
	switch {
	case shown != wanted && !begins.IsZero() && at.Sub(begins) < 3*time.Hour:
		return begins
	case shown != wanted:
		return ends
	case begins.IsZero():
		return at
	}
	_, offset := at.Zone()
	_, before := begins.Add(-time.Second).Zone()
	if first := at.Add(time.Duration(offset-before) * time.Second); before > offset && first.Before(begins) {
		return first
	}
	return at
}

// turn tells whether one of the openings holds now, and when that ends, or
// else when the next one comes. Openings that overlap unite.
func turn(openings []time.Time, length time.Duration, now time.Time) (bool, time.Time) {
	var closes time.Time
	for _, opens := range openings {
		switch {
		case opens.After(now) && closes.IsZero():
			return false, opens
		case opens.After(now) && opens.After(closes):
			return true, closes
		case opens.Add(length).After(now):
			closes = opens.Add(length)
		}
	}
	return !closes.IsZero(), closes
}

// frozenUntil is when the freeze that holds now ends, with those that follow
// it without a gap; zero if none holds.
func frozenUntil(freezes []v1alpha1.Freeze, now time.Time) time.Time {
	var until time.Time
	at := now
	for range freezes {
		for _, f := range freezes {
			if !f.From.After(at) && f.To.After(at) {
				at, until = f.To.Time, f.To.Time
			}
		}
	}
	return until
}

// shut says why a cluster with the given labels may not be written forward
// now, with until when at the latest that stays so; nil if it may. The windows
// that select it unite, and without one it is always open. The second result is
// when time changes the answer next; zero if it never does.
func (c *calendar) shut(set map[string]string) (*v1alpha1.Cause, time.Time) {
	if c.unreadable != nil {
		return c.unreadable, time.Time{}
	}
	if !c.frozenUntil.IsZero() {
		return &v1alpha1.Cause{
			Reason:  v1alpha1.ReasonFrozen,
			Message: fmt.Sprintf("spec.strategy.freezes holds forward writes until %s; rollback is exempt. To write earlier, change the freeze", inWords(c.frozenUntil)),
		}, c.frozenUntil
	}
	selected, open := false, false
	var opens, closes time.Time
	for i := range c.windows {
		w := &c.windows[i]
		switch {
		case !w.selector.Matches(labels.Set(set)):
			continue
		case w.open:
			open, closes = true, later(closes, w.turns)
		case !w.turns.IsZero() && (opens.IsZero() || w.turns.Before(opens)):
			opens = w.turns
		}
		selected = true
	}
	if open || !selected {
		return nil, sooner(closes, c.freezesAt)
	}
	return &v1alpha1.Cause{
		Reason:  v1alpha1.ReasonOutsideWindow,
		Message: fmt.Sprintf("its maintenance window opens at %s; rollback is exempt. To write earlier, change spec.strategy.windows", inWords(opens)),
	}, opens
}

// sooner is the earlier of two moments, of which zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

func inWords(t time.Time) string { return t.UTC().Format("Mon 2006-01-02 15:04:05Z") }

// isShut tells that the calendar keeps a cluster from going forward, notes why,
// and wakes at the next turn.
func (d *decision) isShut(m *member) bool {
	if len(d.in.Strategy.Windows)+len(d.in.Strategy.Freezes) == 0 {
		return false
	}
	if d.calendar == nil {
		c := readCalendar(d.in.Strategy, d.now)
		d.calendar = &c
	}
	var turns time.Time
	m.shut, turns = d.calendar.shut(m.Labels)
	d.wake(turns)
	if m.shut != nil {
		m.shutUntil = turns
	}
	return m.shut != nil
}

// waitForWindows says that clusters of a group wait for their hours.
func (d *decision) waitForWindows(g *group, shut []*member) {
	if len(shut) == 0 {
		return
	}
	var names nameList
	until, cause := time.Time{}, shut[0].shut
	for _, m := range shut {
		names.add(m.Name)
		until = sooner(until, m.shutUntil)
	}
	w := v1alpha1.Waiting{Reason: cause.Reason, Until: stampOf(until)}
	switch cause.Reason {
	case v1alpha1.ReasonOutsideWindow:
		w.Message = fmt.Sprintf("%s of group %q wait for their maintenance window (%s); the next one opens at %s. To write earlier, change spec.strategy.windows", clusters(len(shut)), g.Name, names.String(), inWords(until))
	default:
		w.Message = fmt.Sprintf("%s of group %q wait (%s): %s", clusters(len(shut)), g.Name, names.String(), cause.Message)
	}
	d.waitFor(w)
}

// unreadableWindow names the first window that cannot be read; nil if all can.
func (d *decision) unreadableWindow() *v1alpha1.Cause {
	if len(d.in.Strategy.Windows) == 0 {
		return nil
	}
	c := readCalendar(d.in.Strategy, d.now)
	return c.unreadable
}
