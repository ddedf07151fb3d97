package workbuilder

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func TestJobNameIsBoundedAndTellsRevisionAndAttempt(t *testing.T) {
	const digest = "sha256:abcdef0123456789"
	long := strings.Repeat("very-long-", 6) + "name"
	cases := map[string]struct{ got, want string }{
		"short name":            {JobName("migrate", digest, 1), "migrate-abcdef1"},
		"second attempt":        {JobName("migrate", digest, 2), "migrate-abcdef2"},
		"attempt of two digits": {JobName("migrate", digest, 12), "migrate-abcdef12"},
	}
	for name, c := range cases {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", name, c.got, c.want)
		}
	}
	cut := JobName(long, digest, 1)
	if len(cut) > 63 || !strings.HasSuffix(cut, "-abcdef1") {
		t.Errorf("long name: %q has %d characters", cut, len(cut))
	}
	if other := JobName(long+"-2", digest, 1); other == cut {
		t.Errorf("two long names become one: %s", cut)
	}
}

// H3, the hub's half: each revision and attempt has a Job of its own, so that no
// Job ever changes; going back does not run a finished one again.
func TestRollbackOmitsTheJobThatCompletedHere(t *testing.T) {
	r1, r2 := payload("1.0.0", jobYAML, configMapYAML), payload("2.0.0", strings.ReplaceAll(jobYAML, "migrate:1", "migrate:2"), configMapYAML)

	first := render(t, request(t, 1, r1))
	delivered := find(t, first.Objects, "Job").GetName()
	completed := first.Completed([]string{"shop/" + delivered, "shop/stranger"})
	if len(completed) != 1 || completed[0].Name != "migrate" || completed[0].Namespace != "shop" {
		t.Fatalf("completed Jobs %v, want shop/migrate of the template", completed)
	}

	forward := request(t, 2, r2)
	forward.CompletedJobs = completed
	second := render(t, forward)
	if name := find(t, second.Objects, "Job").GetName(); name == delivered {
		t.Errorf("two revisions share the Job %s", name)
	}

	back := request(t, 3, r1)
	back.Spec.Direction = v1alpha1.DirectionRollback
	back.CompletedJobs = completed
	restored := render(t, back)
	if diff := cmp.Diff("ConfigMap/settings", names(restored.Objects)); diff != "" {
		t.Errorf("objects of the rollback (-want +got):\n%s", diff)
	}
	want := []DeliveredJob{{Job: completed[0]}}
	if diff := cmp.Diff(want, restored.Jobs); diff != "" {
		t.Errorf("Jobs of the rollback (-want +got):\n%s", diff)
	}
}

func TestJobRunsAgainWhereItsContentOrDirectionIsAnother(t *testing.T) {
	r1 := payload("1.0.0", jobYAML)
	completed := render(t, request(t, 1, r1)).Jobs[0].Job

	forward := request(t, 2, r1)
	forward.Spec.Attempt = 2
	forward.CompletedJobs = []v1alpha1.CompletedJob{completed}
	if got := render(t, forward).Objects; len(got) != 1 {
		t.Errorf("a new attempt delivers %q, want the Job", names(got))
	}

	back := request(t, 3, payload("1.0.1", strings.ReplaceAll(jobYAML, "migrate:1", "migrate:9")))
	back.Spec.Direction = v1alpha1.DirectionRollback
	back.CompletedJobs = []v1alpha1.CompletedJob{completed}
	if got := render(t, back).Objects; len(got) != 1 {
		t.Errorf("a Job of other content is not delivered: %q", names(got))
	}
}
