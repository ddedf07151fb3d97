package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// shippedStages stand for the files of kwok's module.
var shippedStages = map[string]string{
	"node/fast/node-initialize.yaml":                           "Node",
	"node/heartbeat-with-lease/node-heartbeat-with-lease.yaml": "Node",
	"pod/fast/pod-ready.yaml":                                  "Pod",
	"pod/fast/pod-complete.yaml":                               "Pod",
	"pod/fast/pod-delete.yaml":                                 "Pod",
}

func fakeKwokModule(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for file, kind := range shippedStages {
		path := filepath.Join(dir, "kustomize", "stage", file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		content := `apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: ` + name + `}
spec:
  resourceRef: {apiGroup: v1, kind: ` + kind + `}
  selector:
    matchExpressions:
    - {key: .shipped, operator: In, values: [` + name + `]}
  next: {statusTemplate: "shipped: ` + name + `"}
`
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestKwokConfigNarrowsTheShippedStages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kwok.yaml")
	if err := writeKwokConfig(path, fakeKwokModule(t)); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	broken := `[.spec.containers[].image | contains("broken")] | any`
	slow := `[.spec.containers[].image | contains("slow")] | any`
	fail := `[.spec.containers[].image | contains("fail")] | any`
	want := map[string][]string{
		"node-initialize":           {".shipped In node-initialize"},
		"node-heartbeat-with-lease": {".shipped In node-heartbeat-with-lease"},
		"pod-delete":                {".shipped In pod-delete"},
		"pod-ready":                 {".shipped In pod-ready", broken + " NotIn true", slow + " NotIn true"},
		"pod-ready-slow":            {".shipped In pod-ready", broken + " NotIn true", slow + " In true"},
		"pod-image-pull-back-off":   {".shipped In pod-ready", broken + " In true", ".status.containerStatuses[]?.state.waiting.reason NotIn ImagePullBackOff"},
		"pod-complete":              {".shipped In pod-complete", fail + " NotIn true"},
		"pod-fail":                  {".shipped In pod-complete", fail + " In true"},
	}
	got := map[string][]string{}
	delays := map[string]int{}
	templates := map[string]string{}
	for document := range strings.SplitSeq(string(content), "---\n") {
		var s struct {
			Metadata struct{ Name string }
			Spec     struct {
				Selector struct {
					MatchExpressions []struct {
						Key, Operator string
						Values        []string
					}
				}
				Delay struct{ DurationMilliseconds int }
				Next  struct{ StatusTemplate string }
			}
		}
		if err := yaml.Unmarshal([]byte(document), &s); err != nil {
			t.Fatal(err)
		}
		for _, e := range s.Spec.Selector.MatchExpressions {
			got[s.Metadata.Name] = append(got[s.Metadata.Name], e.Key+" "+e.Operator+" "+strings.Join(e.Values, ","))
		}
		delays[s.Metadata.Name] = s.Spec.Delay.DurationMilliseconds
		templates[s.Metadata.Name] = s.Spec.Next.StatusTemplate
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("selectors (-want +got):\n%s", diff)
	}
	if delays["pod-ready-slow"] != 10_000 || delays["pod-ready"] != 0 {
		t.Errorf("delays %v: only slow pods are late", delays)
	}
	for name, part := range map[string]string{
		"pod-ready":               "shipped: pod-ready",
		"pod-ready-slow":          "shipped: pod-ready",
		"pod-complete":            "shipped: pod-complete",
		"pod-fail":                "phase: Failed",
		"pod-image-pull-back-off": "reason: ImagePullBackOff",
	} {
		if !strings.Contains(templates[name], part) {
			t.Errorf("the status template of %s lacks %q: %s", name, part, templates[name])
		}
	}
}

func TestKwokConfigNamesAMissingStage(t *testing.T) {
	err := writeKwokConfig(filepath.Join(t.TempDir(), "kwok.yaml"), t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "node-initialize.yaml") {
		t.Errorf("got error %v, want one that names the file", err)
	}
}
