package revision

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// startLayout is how a window's start is written.
const startLayout = "15:04"

// maxWindowSeconds is a week: a longer window would open again before it closes.
const maxWindowSeconds = 7 * 24 * 60 * 60

// checkTimes finds maintenance windows and freezes that never let anything
// through, or whose words mean nothing: a time zone that no database knows, a
// selector that does not parse, a start that is no time of day.
func checkTimes(path *field.Path, strategy v1alpha1.Strategy) field.ErrorList {
	var problems field.ErrorList
	for i, window := range strategy.Windows {
		problems = append(problems, checkWindow(path.Child("windows").Index(i), window)...)
	}
	for i, freeze := range strategy.Freezes {
		if !freeze.From.Before(&freeze.To) {
			problems = append(problems, field.Invalid(path.Child("freezes").Index(i).Child("to"), freeze.To.Format(time.RFC3339),
				fmt.Sprintf("it is not later than from, %s; swap the two, or remove the freeze", freeze.From.Format(time.RFC3339))))
		}
	}
	return problems
}

func checkWindow(at *field.Path, window v1alpha1.MaintenanceWindow) field.ErrorList {
	var problems field.ErrorList
	if _, err := metav1.LabelSelectorAsSelector(&window.ClusterSelector); err != nil {
		problems = append(problems, field.Invalid(at.Child("clusterSelector"), metav1.FormatLabelSelector(&window.ClusterSelector),
			fmt.Sprintf("it is not a label selector (%v); write matchLabels or matchExpressions", err)))
	}
	if !isTimeZone(window.TimeZone) {
		problems = append(problems, field.Invalid(at.Child("timeZone"), window.TimeZone,
			"no time zone of the IANA database has this name; write one such as Europe/Berlin or UTC"))
	}
	if _, err := time.Parse(startLayout, window.Start); err != nil || len(window.Start) != len(startLayout) {
		problems = append(problems, field.Invalid(at.Child("start"), window.Start, "it is no time of day; write HH:MM from 00:00 to 23:59"))
	}
	if window.DurationSeconds <= 0 || window.DurationSeconds > maxWindowSeconds {
		problems = append(problems, field.Invalid(at.Child("durationSeconds"), window.DurationSeconds,
			fmt.Sprintf("write how many seconds the window stays open, from 60 to %d", maxWindowSeconds)))
	}
	seen := map[v1alpha1.Weekday]bool{}
	for i, day := range window.Days {
		switch {
		case !isWeekday(day):
			problems = append(problems, field.Invalid(at.Child("days").Index(i), string(day), "it is no day of the week; write Mon, Tue, Wed, Thu, Fri, Sat or Sun"))
		case seen[day]:
			problems = append(problems, duplicate(at.Child("days").Index(i), string(day), "name each day once"))
		}
		seen[day] = true
	}
	return problems
}

// isTimeZone tells whether a name is in the IANA time zone database. Empty is
// UTC; "Local" is known to Go alone, and is where the manager happens to run.
func isTimeZone(name string) bool {
	if name == "Local" {
		return false
	}
	_, err := time.LoadLocation(name)
	return err == nil
}

func isWeekday(day v1alpha1.Weekday) bool {
	for weekday := time.Sunday; weekday <= time.Saturday; weekday++ {
		if weekday.String()[:3] == string(day) {
			return true
		}
	}
	return false
}
