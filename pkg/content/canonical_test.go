package content

import (
	"fmt"
	"strings"
	"testing"
)

func TestLaw19AnOverrideThatCanNeverBeRightIsRefusedWithTheRevision(t *testing.T) {
	patch := func(target, text string) string {
		return fmt.Sprintf("patches: [{target: {%s}, patch: %q}]", target, text)
	}
	const at = "spec.overrides[0]"
	for name, c := range map[string]struct{ override, field, says string }{
		"another name":                     {patch("kind: ConfigMap", `{"metadata": {"name": "other"}}`), at + ".patches[0].patch", "must not change which object"},
		"another name by an operation":     {patch("kind: ConfigMap", `[{"op": "replace", "path": "/metadata/name", "value": "other"}]`), at + ".patches[0].patch", "must not change which object"},
		"all metadata":                     {patch("kind: ConfigMap", `[{"op": "replace", "path": "/metadata", "value": {}}]`), at + ".patches[0].patch", "must not change which object"},
		"the name moved away":              {patch("kind: ConfigMap", `[{"op": "move", "from": "/metadata/name", "path": "/data/b"}]`), at + ".patches[0].patch", "must not change which object"},
		"another kind":                     {patch("kind: ConfigMap", `{"kind": "Secret"}`), at + ".patches[0].patch", "must not change which object"},
		"an object deleted by a patch":     {patch("kind: ConfigMap", `{"$patch": "delete"}`), at + ".patches[0].patch", "use exclude"},
		"a label that decides a deletion":  {patch("kind: Deployment", `{"spec": {"template": {"spec": {"containers": [{"name": "api", "$patch": "${cluster.labels['x']}"}]}}}}`), at + ".patches[0].patch", "directive"},
		"a field named by a label":         {patch("kind: ConfigMap", `{"data": {"${cluster.name}": "x"}}`), at + ".patches[0].patch", "name of field"},
		"a path made by a label":           {patch("kind: ConfigMap", `[{"op": "add", "path": "/data/${cluster.name}", "value": "x"}]`), at + ".patches[0].patch", "values only"},
		"data of a Secret copied out":      {patch("kind: Secret", `[{"op": "copy", "from": "/data/password", "path": "/metadata/labels/x"}]`), at + ".patches[0].patch", "data of a Secret"},
		"a Job that expires":               {patch("kind: Job", `{"spec": {"ttlSecondsAfterFinished": 5}}`), at + ".patches[0].patch", "run the Job again"},
		"a Job that expires by operation":  {patch("kind: Job", `[{"op": "add", "path": "/spec/ttlSecondsAfterFinished", "value": 5}]`), at + ".patches[0].patch", "run the Job again"},
		"two documents":                    {patch("kind: ConfigMap", "data: {a: x}\n---\ndata: {b: x}\n"), at + ".patches[0].patch", "several YAML documents"},
		"a key twice":                      {patch("kind: ConfigMap", "data: {a: x, a: y}"), at + ".patches[0].patch", "neither YAML nor JSON"},
		"a misspelt field of an operation": {patch("kind: ConfigMap", `[{"op": "add", "path": "/data/a", "vaule": "x"}]`), at + ".patches[0].patch", "no field"},
		"a variable without an end":        {patch("kind: ConfigMap", `{"data": {"a": "${cluster.name"}}`), at + ".patches[0].patch", "does not end"},
		"an image misspelt":                {`images: [{name: registry.example.com/shop/ap, newTag: "2"}]`, at + ".images[0].name", "no container of the template"},
		"an image that is called nothing":  {`images: [{name: "registry.example.com/shop/api:1", newTag: "2"}]`, at + ".images[0].name", "without tag"},
		"a target of nothing":              {"exclude: [{}]", at + ".exclude[0]", "names nothing"},
		"nothing":                          {"", at, "changes nothing"},
		"values that Exists ignores":       {"exclude: [{kind: Job}]\n  claimSelector: {matchExpressions: [{key: a, operator: In, values: [x]}, {key: b, operator: Exists, values: [y]}]}", at + ".claimSelector.matchExpressions[1].values", "takes no values"},
		"In without values":                {"exclude: [{kind: Job}]\n  claimSelector: {matchExpressions: [{key: a, operator: In}]}", at + ".claimSelector.matchExpressions[0].values", "at least one"},
		"no label selector":                {"exclude: [{kind: Job}]\n  clusterSelector: {matchExpressions: [{key: a, operator: In}]}", at + ".clusterSelector", "not a label selector"},
	} {
		selector := ""
		if !strings.Contains(c.override, "clusterSelector") {
			selector = "\n  clusterSelector: {}"
		}
		_, problems := overridesOf(t, "- name: eu"+selector+"\n  "+c.override)
		if len(problems) != 1 || problems[0].Field != c.field || !strings.Contains(problems[0].Error(), c.says) {
			t.Errorf("%s: got %v", name, problems)
		}
	}
}

func TestARefusalOfAPatchOfASecretDoesNotShowIt(t *testing.T) {
	for _, text := range []string{`{"stringData": {"password": "hunter2"}}`, `{"stringData": {"password": "hunter2"}`, `[{"op": "add", "path": "/data/x", "value": "hunter2"}]`} {
		_, problems := overridesOf(t, fmt.Sprintf("- name: eu\n  clusterSelector: {}\n  patches: [{target: {namespace: shop}, patch: %q}]", text))
		if len(problems) == 0 || strings.Contains(problems.ToAggregate().Error(), "hunter2") {
			t.Errorf("got %v", problems)
		}
	}
}

func TestOverridesUseNoMoreVariablesThanCanBeRecorded(t *testing.T) {
	var data []string
	for i := range 129 {
		data = append(data, fmt.Sprintf("k%d: \"${cluster.labels['k%d']}\"", i, i))
	}
	_, problems := overridesOf(t, fmt.Sprintf("- name: eu\n  clusterSelector: {}\n  patches: [{target: {kind: ConfigMap}, patch: %q}]", "data: {"+strings.Join(data, ", ")+"}"))
	if len(problems) != 1 || problems[0].Field != "spec.overrides" {
		t.Errorf("got %v", problems)
	}
}
