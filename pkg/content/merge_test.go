package content

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"
)

// Objects whose text YAML could take for something else, and what order means
// something in.
const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: api
  namespace: shop
  annotations: {a: "yes", b: "0x10", c: "1_000", d: "null", e: "~", f: "2020-01-01", g: "1e3", h: "- x", i: "# no comment", j: " lead", k: "tab\tand\nnewline", l: "012", m: ".inf", n: ""}
spec:
  replicas: 2
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec:
      initContainers:
      - {name: first, image: "a:1"}
      - {name: second, image: "b:1"}
      - {name: third, image: "c:1"}
      containers:
      - name: api
        image: api:1
        args: ["--on", "yes", "1"]
        ports: [{containerPort: 80, name: http}, {containerPort: 443, protocol: TCP}]
        env: [{name: A, value: "1"}, {name: B, value: "$(A)"}, {name: C, value: "$(B)"}]
        volumeMounts: [{name: data, mountPath: /data}]
        resources: {limits: {cpu: "1"}}
      - {name: sidecar, image: "s:1"}
      volumes: [{name: data, emptyDir: {}}]
      tolerations: [{key: a, operator: Exists}]
`

func jsonOf(t *testing.T, text string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var value map[string]any
	if err := utiljson.Unmarshal(raw, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func merge(t *testing.T, object, change string) map[string]any {
	t.Helper()
	canonical, err := canonicalPatch(change)
	if err != nil {
		t.Fatal(err)
	}
	read, err := parsePatch(canonical)
	if err != nil {
		t.Fatal(err)
	}
	merged := &unstructured.Unstructured{Object: jsonOf(t, object)}
	if err := read.apply(merged, newValues(Cluster{Name: "c1"}, nil).of); err != nil {
		t.Fatal(err)
	}
	return merged.Object
}

// What kubectl makes of a strategic merge patch is what people expect of one.
func TestAStrategicMergePatchDoesWhatKubectlDoes(t *testing.T) {
	for name, c := range map[string]struct {
		object, change string
		typed          any
	}{
		"a plain value":                     {deployment, `spec: {replicas: 5}`, appsv1.Deployment{}},
		"nothing new":                       {deployment, `spec: {replicas: 2}`, appsv1.Deployment{}},
		"the image of a middle container":   {deployment, `spec: {template: {spec: {initContainers: [{name: second, image: "b:2"}]}}}`, appsv1.Deployment{}},
		"an environment variable":           {deployment, `spec: {template: {spec: {containers: [{name: api, env: [{name: B, value: "x"}]}]}}}`, appsv1.Deployment{}},
		"a container less":                  {deployment, `spec: {template: {spec: {containers: [{name: sidecar, $patch: delete}]}}}`, appsv1.Deployment{}},
		"a list replaced":                   {deployment, `spec: {template: {spec: {tolerations: [{key: b, operator: Exists}]}}}`, appsv1.Deployment{}},
		"arguments replaced":                {deployment, `spec: {template: {spec: {containers: [{name: api, args: ["no"]}]}}}`, appsv1.Deployment{}},
		"a field removed":                   {deployment, `spec: {replicas: null}`, appsv1.Deployment{}},
		"a field removed that is not there": {deployment, `spec: {paused: null}`, appsv1.Deployment{}},
		"a map removed":                     {deployment, `spec: {template: {spec: {containers: [{name: api, resources: null}]}}}`, appsv1.Deployment{}},
		"a map replaced":                    {deployment, `spec: {template: {spec: {containers: [{name: api, resources: {$patch: replace, requests: {cpu: "2"}}}]}}}`, appsv1.Deployment{}},
		"an annotation":                     {deployment, `metadata: {annotations: {x: "no"}}`, appsv1.Deployment{}},
		"a volume of another kind":          {deployment, `spec: {template: {spec: {volumes: [{name: data, emptyDir: null, hostPath: {path: /x}}]}}}`, appsv1.Deployment{}},
		"an empty map added":                {deployment, `spec: {template: {spec: {securityContext: {}}}}`, appsv1.Deployment{}},
		"a port": {`{apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop}, spec: {ports: [{port: 80, name: http}, {port: 443, name: https}]}}`,
			`spec: {ports: [{port: 443, nodePort: 30000}]}`, corev1.Service{}},
	} {
		object, err := json.Marshal(jsonOf(t, c.object))
		if err != nil {
			t.Fatal(err)
		}
		change, err := json.Marshal(jsonOf(t, c.change))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := strategicpatch.StrategicMergePatch(object, change, c.typed)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(jsonOf(t, string(raw)), merge(t, c.object, c.change)); diff != "" {
			t.Errorf("%s (-kubectl +ours):\n%s", name, diff)
		}
	}
}

func TestWhatAPatchAddsToAListComesAfterWhatIsThere(t *testing.T) {
	merged := merge(t, deployment, `spec: {template: {spec: {initContainers: [{name: zero, image: "z:1"}, {name: second, image: "b:2"}]}}}`)
	var names []any
	list, _, err := unstructured.NestedSlice(merged, "spec", "template", "spec", "initContainers")
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range list {
		names = append(names, item.(map[string]any)["name"])
	}
	if diff := cmp.Diff([]any{"first", "second", "third", "zero"}, names); diff != "" {
		t.Error(diff)
	}
}

// For custom resources the rule is RFC 7396; what it allows beyond ours is that
// a field changes its form.
func FuzzMergeOfACustomResource(f *testing.F) {
	f.Add(`{"spec": {"a": 1, "b": {"c": [1, 2]}, "d": "x"}}`, `{"spec": {"a": null, "b": {"c": [3]}, "e": {"f": null, "g": 1}}}`)
	f.Add(`{"spec": {"a": "null", "b": "yes", "c": 1.5, "d": true, "e": [], "f": {}}}`, `{"spec": {"b": "0x1", "g": [{"name": "a"}]}}`)
	f.Add(`{"spec": {"list": [{"name": "a", "v": 1}]}}`, `{"spec": {"list": [{"name": "a", "w": 2}]}}`)
	f.Fuzz(func(t *testing.T, object, change string) {
		var before, patched map[string]any
		if utiljson.Unmarshal([]byte(object), &before) != nil || utiljson.Unmarshal([]byte(change), &patched) != nil ||
			before == nil || len(patched) == 0 || isSpecial(patched) || isSpecial(before) || hasNull(before) {
			t.Skip()
		}
		before["apiVersion"], before["kind"], before["metadata"] = "example.com/v1", "Thing", map[string]any{"name": "x"}
		delete(patched, "metadata")
		delete(patched, "kind")
		delete(patched, "apiVersion")
		if checkForm(patched, before) != nil {
			t.Skip()
		}
		merged := &unstructured.Unstructured{Object: before}
		object1, _ := json.Marshal(before)
		change1, _ := json.Marshal(patched)
		want, err := jsonpatch.MergePatch(object1, change1)
		if err != nil {
			t.Skip(err)
		}
		if err := (patch{merge: patched}).apply(merged, nil); err != nil {
			t.Fatal(err)
		}
		var wanted map[string]any
		if err := utiljson.Unmarshal(want, &wanted); err != nil {
			t.Skip(err)
		}
		if diff := cmp.Diff(wanted, merged.Object); diff != "" {
			t.Errorf("%s\n%s\n(-RFC 7396 +ours):\n%s", object1, change1, diff)
		}
	})
}

// isSpecial tells of what kyaml means something else by: directives, objects in
// objects, and names that are empty, which it refuses.
func isSpecial(value any) bool {
	return contains(value, func(key string, inner any) bool {
		text, isText := inner.(string)
		return key == "" || strings.HasPrefix(key, "$") || key == "apiVersion" || key == "kind" || isText && len(text) > 1 && text[0] == '$'
	})
}

func hasNull(value any) bool {
	return contains(value, func(_ string, inner any) bool { return inner == nil })
}

func contains(value any, is func(string, any) bool) bool {
	switch typed := value.(type) {
	case map[string]any:
		for key, inner := range typed {
			if is(key, inner) || contains(inner, is) {
				return true
			}
		}
	case []any:
		for _, inner := range typed {
			if is("item", inner) || contains(inner, is) {
				return true
			}
		}
	}
	return false
}

// Deliveries are rendered side by side, and kyaml loads its schema on first use.
func TestContentIsMadeForManyClustersAtOnce(t *testing.T) {
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			merged := merge(t, deployment, `spec: {template: {spec: {containers: [{name: api, image: "api:2"}]}}}`)
			if containers, _, err := unstructured.NestedSlice(merged, "spec", "template", "spec", "containers"); err != nil || len(containers) != 2 {
				t.Errorf("%d containers, %v", len(containers), err)
			}
		})
	}
	group.Wait()
}
