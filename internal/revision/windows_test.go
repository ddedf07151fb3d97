package revision

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func TestWindowsThatNoClockCanTellAreRefusedByField(t *testing.T) {
	cases := map[string]struct {
		change func(*v1alpha1.MaintenanceWindow)
		want   []string
	}{
		"as it should be":    {func(*v1alpha1.MaintenanceWindow) {}, nil},
		"no zone is UTC":     {func(w *v1alpha1.MaintenanceWindow) { w.TimeZone = "" }, nil},
		"no days are all":    {func(w *v1alpha1.MaintenanceWindow) { w.Days = nil }, nil},
		"a whole week":       {func(w *v1alpha1.MaintenanceWindow) { w.DurationSeconds = 604800 }, nil},
		"a zone of nowhere":  {func(w *v1alpha1.MaintenanceWindow) { w.TimeZone = "Europe/Atlantis" }, []string{"timeZone"}},
		"the manager's zone": {func(w *v1alpha1.MaintenanceWindow) { w.TimeZone = "Local" }, []string{"timeZone"}},
		"a path":             {func(w *v1alpha1.MaintenanceWindow) { w.TimeZone = "../etc/localtime" }, []string{"timeZone"}},
		"an offset":          {func(w *v1alpha1.MaintenanceWindow) { w.TimeZone = "+02:00" }, []string{"timeZone"}},
		"one digit":          {func(w *v1alpha1.MaintenanceWindow) { w.Start = "9:00" }, []string{"start"}},
		"the end of the day": {func(w *v1alpha1.MaintenanceWindow) { w.Start = "24:00" }, []string{"start"}},
		"no start":           {func(w *v1alpha1.MaintenanceWindow) { w.Start = "" }, []string{"start"}},
		"no time":            {func(w *v1alpha1.MaintenanceWindow) { w.DurationSeconds = 0 }, []string{"durationSeconds"}},
		"more than a week":   {func(w *v1alpha1.MaintenanceWindow) { w.DurationSeconds = 604801 }, []string{"durationSeconds"}},
		"a long name":        {func(w *v1alpha1.MaintenanceWindow) { w.Days = []v1alpha1.Weekday{"Mon", "Tuesday"} }, []string{"days[1]"}},
		"a day twice":        {func(w *v1alpha1.MaintenanceWindow) { w.Days = []v1alpha1.Weekday{"Mon", "Tue", "Mon"} }, []string{"days[2]"}},
		"a selector that is none": {func(w *v1alpha1.MaintenanceWindow) {
			w.ClusterSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}
		}, []string{"clusterSelector"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			window := v1alpha1.MaintenanceWindow{TimeZone: "Europe/Berlin", Days: []v1alpha1.Weekday{"Mon", "Sun"}, Start: "22:00", DurationSeconds: 14400}
			spec := specOf(t, configMapYAML)
			spec.Strategy.Windows = []v1alpha1.MaintenanceWindow{window, window}
			c.change(&spec.Strategy.Windows[1])
			var want []string
			for _, name := range c.want {
				want = append(want, "spec.strategy.windows[1]."+name)
			}
			if diff := cmp.Diff(want, fields(t, spec)); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFreezeEndsAfterItBegins(t *testing.T) {
	at := func(day int) metav1.Time { return metav1.NewTime(time.Date(2026, 12, day, 0, 0, 0, 0, time.UTC)) }
	spec := specOf(t, configMapYAML)
	spec.Strategy.Freezes = []v1alpha1.Freeze{{From: at(20), To: at(21)}, {From: at(21), To: at(20)}, {From: at(22), To: at(22)}}
	want := []string{"spec.strategy.freezes[1].to", "spec.strategy.freezes[2].to"}
	if diff := cmp.Diff(want, fields(t, spec)); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}
