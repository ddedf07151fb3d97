package agent

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// silent is an observer that does not care.
type silent struct{}

func (silent) objectChanged(objectKey)             {}
func (silent) kindChanged(schema.GroupVersionKind) {}

// deploymentWith is a Deployment whose progress was judged at the given moment;
// empty for never.
func deploymentWith(t *testing.T, hash, timedOutAt string) *unstructured.Unstructured {
	t.Helper()
	object := parse(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api, namespace: payments, generation: 1}\nstatus: {observedGeneration: 1}")
	object.SetAnnotations(map[string]string{v1alpha1.AnnotationContentHash: hash})
	if timedOutAt != "" {
		conditions := []any{map[string]any{
			"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out", "lastUpdateTime": timedOutAt,
		}}
		if err := unstructured.SetNestedSlice(object.Object, conditions, "status", "conditions"); err != nil {
			t.Fatal(err)
		}
	}
	return object
}

func TestAVerdictIsInheritedUntilTheControllerJudgesAnew(t *testing.T) {
	cases := []struct {
		name  string
		steps [][2]string // hash and moment of the verdict, one after the other
		want  bool
	}{
		{"a verdict on the first content is its own", [][2]string{{"r1", "10:00"}}, false},
		{"a verdict that was there before the content changed is inherited", [][2]string{{"r2", "10:00"}, {"r1", "10:00"}}, true},
		{"it stays inherited while nothing changes but the replicas", [][2]string{{"r2", "10:00"}, {"r1", "10:00"}, {"r1", "10:00"}}, true},
		{"a new verdict is the content's own", [][2]string{{"r2", "10:00"}, {"r1", "10:00"}, {"r1", "10:05"}}, false},
		{"a verdict after progress is the content's own", [][2]string{{"r2", "10:00"}, {"r1", "10:00"}, {"r1", ""}, {"r1", "10:05"}}, false},
		{"earlier content without a verdict hands none on", [][2]string{{"r2", ""}, {"r1", "10:00"}}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			kind := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
			w := newKindWatch(kind, extentOf(kind), clients{}, testclock.NewFakeClock(time.Unix(0, 0)), silent{})
			w.setAccess(AccessReadable, "")
			for _, step := range c.steps {
				w.put(deploymentWith(t, step[0], step[1]))
			}
			if got := w.see("payments", "api").Inherited; got != c.want {
				t.Errorf("inherited: %v, want %v", got, c.want)
			}
		})
	}
}

func TestObjectsOfAKindThatMayNotBeReadAreNotShown(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	w := newKindWatch(kind, extentOf(kind), clients{}, testclock.NewFakeClock(time.Unix(0, 0)), silent{})
	w.setAccess(AccessReadable, "")
	w.put(deploymentWith(t, newHash, ""))
	if w.see("payments", "api").Meta == nil {
		t.Fatalf("the Deployment is not seen")
	}
	w.setAccess(AccessForbidden, "")
	if got := w.see("payments", "api"); got.Access != AccessForbidden || got.Meta != nil {
		t.Errorf("got %+v: what was seen before the right was taken away is old", got)
	}
}
