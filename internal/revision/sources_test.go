package revision

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// canary stands for what must never be seen.
const canary = "c4n4ry"

var hashKey = []byte("0123456789abcdef0123456789abcdef")

func secretYAML(password string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: creds, namespace: shop}, stringData: {password: %q}}", password)
}

func fromConfigMap(name, key string) v1alpha1.ManifestSource {
	return v1alpha1.ManifestSource{ConfigMap: &v1alpha1.SourceReference{Name: name, Key: key}}
}

func fromSecret(name, key string) v1alpha1.ManifestSource {
	return v1alpha1.ManifestSource{Secret: &v1alpha1.SourceReference{Name: name, Key: key}}
}

// sourced is a spec with nothing but sources.
func sourced(t testing.TB, references ...v1alpha1.ManifestSource) v1alpha1.FleetRolloutSpec {
	spec := specOf(t)
	spec.Template.Components[0].ManifestsFrom = references
	return spec
}

func texts(pairs ...string) Source {
	source := Source{Data: map[string][]byte{}}
	for i := 0; i < len(pairs); i += 2 {
		source.Data[pairs[i]] = []byte(pairs[i+1])
	}
	return source
}

func sourcesOf(pairs ...any) Sources {
	sources := Sources{Found: map[SourceName]Source{}, HashKey: hashKey}
	for i := 0; i < len(pairs); i += 2 {
		sources.Found[pairs[i].(SourceName)] = pairs[i+1].(Source)
	}
	return sources
}

var (
	base  = SourceName{SourceConfigMap, "base"}
	creds = SourceName{SourceSecret, "creds"}
)

func TestSourcesGiveTheSameRevisionAsTheirManifestsInline(t *testing.T) {
	inline := freeze(t, specOf(t, deploymentYAML, configMapYAML))
	for name, source := range map[string]Source{
		"one key with two documents": texts("a.yaml", "# nothing but words\n---\n"+deploymentYAML+"\n---\n"+configMapYAML+"\n---\n"),
		"two keys":                   texts("b", deploymentYAML, "a", configMapYAML),
		"two keys, the other order":  texts("a", deploymentYAML, "b", configMapYAML),
	} {
		frozen, err := FreezeWith(sourced(t, fromConfigMap("base", "")), sourcesOf(base, source))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if frozen.Digest != inline.Digest {
			t.Errorf("%s: another digest than inline", name)
		}
		if len(frozen.Payload.Template.Components[0].ManifestsFrom) > 0 || len(frozen.Payload.HashKey) > 0 {
			t.Errorf("%s: the payload is not resolved: %+v", name, frozen.Payload)
		}
	}
	one, err := FreezeWith(sourced(t, fromConfigMap("base", "a")), sourcesOf(base, texts("a", configMapYAML, "b", "this is not read: [")))
	if err != nil || len(one.Inventory) != 1 {
		t.Errorf("one key gives %v, %v", one.Inventory, err)
	}
}

func TestASecretWithDataComesFromASecretAlone(t *testing.T) {
	frozen, err := FreezeWith(sourced(t, fromSecret("creds", "")), sourcesOf(creds, texts("a", secretYAML(canary))))
	if err != nil {
		t.Fatal(err)
	}
	// A key left out of stringData later would stay in data for ever.
	want := fmt.Sprintf(`{"apiVersion":"v1","data":{"password":%q},"kind":"Secret","metadata":{"name":"creds","namespace":"shop"}}`,
		base64.StdEncoding.EncodeToString([]byte(canary)))
	if diff := cmp.Diff(want, string(frozen.Payload.Template.Components[0].Manifests[0].Raw)); diff != "" {
		t.Errorf("the payload (-want +got):\n%s", diff)
	}
	_, err = FreezeWith(sourced(t, fromConfigMap("base", "")), sourcesOf(base, texts("a", secretYAML(canary))))
	if err == nil || !strings.Contains(err.Error(), "must not carry its data inline") || strings.Contains(err.Error(), canary) {
		t.Errorf("from a ConfigMap: %v", err)
	}
}

func TestHashesOfSecretContentCannotBeGuessed(t *testing.T) {
	freezeWithKey := func(key []byte) Frozen {
		sources := sourcesOf(creds, texts("a", secretYAML(canary)))
		sources.HashKey = key
		frozen, err := FreezeWith(sourced(t, fromSecret("creds", "")), sources)
		if err != nil {
			t.Fatal(err)
		}
		return frozen
	}
	frozen, again := freezeWithKey(hashKey), freezeWithKey(hashKey)
	if diff := cmp.Diff(frozen, again); diff != "" {
		t.Errorf("the same content with the same key differs:\n%s", diff)
	}
	raw := frozen.Payload.Template.Components[0].Manifests[0].Raw
	if frozen.Inventory[0].Hash == v1alpha1.HashOf(raw) {
		t.Error("whoever reads the inventory can try passwords")
	}
	other := freezeWithKey([]byte("another key, which is just as long"))
	if frozen.Digest == other.Digest || frozen.Inventory[0].Hash == other.Inventory[0].Hash {
		t.Error("the key makes no difference to digest and hash")
	}
	if _, err := FreezeWith(sourced(t, fromSecret("creds", "")), Sources{Found: map[SourceName]Source{creds: texts("a", secretYAML(canary))}}); err == nil {
		t.Error("without a key it is frozen all the same")
	}
}

func TestWhatIsMissingIsNamedAndIsNotInvalid(t *testing.T) { // case K2
	for name, test := range map[string]struct {
		reference v1alpha1.ManifestSource
		sources   Sources
		words     []string
	}{
		"a ConfigMap": {fromConfigMap("base", ""), sourcesOf(), []string{"spec.template.components[0].manifestsFrom[0]", "ConfigMap base", "create it"}},
		"a Secret":    {fromSecret("creds", "k"), sourcesOf(), []string{"Secret creds"}},
		"a key":       {fromConfigMap("base", "b"), sourcesOf(base, texts("a", configMapYAML)), []string{"ConfigMap base, key b", "it has a"}},
	} {
		_, err := FreezeWith(sourced(t, test.reference), test.sources)
		var missing *MissingSourceError
		if !errors.As(err, &missing) {
			t.Errorf("%s: error %v", name, err)
			continue
		}
		for _, word := range test.words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q does not say %q", name, err, word)
			}
		}
	}
}

func TestProblemsOfSourcesNameObjectKeyDocumentAndField(t *testing.T) {
	binary := texts()
	binary.Binary = []string{"b"}
	for name, test := range map[string]struct {
		source Source
		words  []string
	}{
		"a field":          {texts("a", configMapYAML+"\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {}}"), []string{"manifestsFrom[0][ConfigMap base, key a, document 2].metadata.name"}},
		"a type":           {texts("a", strings.Replace(deploymentYAML, "3", "three", 1)), []string{"document 1", "Deployment shop/api", "replicas"}},
		"no YAML":          {texts("a", "a: [1"), []string{"key a, document 1", "not YAML"}},
		"a key twice":      {texts("a", "kind: A\nkind: B\n"), []string{"document 1", "kind"}},
		"no object":        {texts("a", "- 1\n"), []string{"document 1", "not an object"}},
		"a list":           {texts("a", "{apiVersion: v1, kind: List, items: [{}, {}]}"), []string{"document 1", "2 items"}},
		"nothing":          {texts("a", "# words\n"), []string{"ConfigMap base", "holds no manifest"}},
		"binary data":      {binary, []string{"ConfigMap base, key b", "binaryData"}},
		"an object twice":  {texts("a", configMapYAML, "b", configMapYAML), []string{"key b, document 1", "key a, document 1"}},
		"no namespace":     {texts("a", "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}"), []string{"document 1", "namespace"}},
		"an expiring Job":  {texts("a", "{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: shop}, spec: {ttlSecondsAfterFinished: 1}}"), []string{"document 1", "ttlSecondsAfterFinished"}},
		"an alias in love": {texts("a", "a: &a [*a]\n"), []string{"document 1"}},
	} {
		_, err := FreezeWith(sourced(t, fromConfigMap("base", "")), sourcesOf(base, test.source))
		var invalid *InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("%s: error %v", name, err)
			continue
		}
		for _, word := range test.words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q does not say %q", name, err, word)
			}
		}
	}
}

// TestNoErrorQuotesASecret puts a canary wherever an error might quote it.
func TestNoErrorQuotesASecret(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte(canary))
	for _, document := range []string{
		canary,
		"- " + canary,
		"a: [" + canary,
		"a: " + canary + "\na: " + canary,
		canary + ": *" + canary,
		"\t" + canary,
		"{apiVersion: " + canary + "/a/b, kind: Secret, metadata: {name: creds, namespace: shop}}",
		"{apiVersion: v1, kind: [" + canary + "], metadata: {name: creds, namespace: shop}}",
		"{apiVersion: v1, kind: Secret, metadata: {name: " + canary + "/x, namespace: shop}}",
		"{apiVersion: v1, kind: Secret, metadata: {name: creds, namespace: [" + canary + "]}}",
		"{apiVersion: v1, kind: Secret, metadata: {name: creds, namespace: " + canary + "_}}",
		"{apiVersion: v1, kind: Secret, metadata: {name: creds, namespace: shop, labels: {" + canary + ": 1}}}",
		"{apiVersion: v1, kind: Secret, metadata: {name: creds, namespace: shop, annotations: " + canary + "}}",
		"{apiVersion: v1, kind: Secret, metadata: {name: creds, namespace: shop, generateName: " + canary + "}}",
		"{apiVersion: v1, kind: Secret, metadata: {name: creds, namespace: shop}, data: {password: " + canary + "}}",
		"{apiVersion: v1, kind: Secret, metadata: {name: creds, namespace: shop}, data: " + encoded + "}",
		"{apiVersion: v1, kind: Secret, metadata: {name: creds, namespace: shop, creationTimestamp: " + canary + "}, type: [" + canary + "]}",
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: api, namespace: shop}, spec: {replicas: " + canary + "}}",
		"{apiVersion: batch/v1, kind: Job, metadata: {name: api, namespace: shop}, spec: {ttlSecondsAfterFinished: " + canary + "}}",
		"{apiVersion: v1, kind: Pod, metadata: {name: api, namespace: shop}, spec: {containers: [{name: a, resources: {limits: {cpu: " + canary + "}}}]}}",
	} {
		_, err := FreezeWith(sourced(t, fromSecret("creds", "")), sourcesOf(creds, texts("a", document)))
		if err == nil {
			t.Errorf("%s is accepted", document)
			continue
		}
		if strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), encoded) {
			t.Errorf("%s is quoted: %v", document, err)
		}
		if !strings.Contains(err.Error(), "Secret creds, key a, document 1") {
			t.Errorf("%v does not name the document", err)
		}
	}
	payload := func(document string) v1alpha1.RevisionPayload {
		frozen, err := FreezeWith(sourced(t, fromSecret("creds", "")), sourcesOf(creds, texts("a", document)))
		if err != nil {
			t.Fatal(err)
		}
		return frozen.Payload
	}
	for _, documents := range [][2]string{
		{deploymentYAML, strings.ReplaceAll(deploymentYAML, "app: api", "app: "+canary)},
		{strings.TrimSuffix(secretYAML("a"), "}") + ", immutable: true}", strings.TrimSuffix(secretYAML(canary), "}") + ", immutable: true}"},
	} {
		findings := ImmutableChanges(payload(documents[0]), payload(documents[1]))
		if len(findings) == 0 {
			t.Errorf("no finding between %v", documents)
		}
		for _, finding := range findings {
			if strings.Contains(finding.Message, canary) || !strings.Contains(finding.Message, "shop/") {
				t.Errorf("finding %q", finding.Message)
			}
		}
	}
}
