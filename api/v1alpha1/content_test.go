package v1alpha1

import (
	"encoding/json"
	"testing"
)

func TestCanonicalJSONHasOneFormOnly(t *testing.T) {
	const want = `{"a":1,"b":{"c":"<&>","d":[1.5,null,true]}}`
	for _, raw := range []string{
		`{"a":1,"b":{"c":"<&>","d":[1.5,null,true]}}`,
		`{ "b": {"d": [1.50, null, true], "c": "\u003c&>"}, "a": 1.0 }`,
	} {
		got, err := CanonicalJSON(json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s became %s, want %s", raw, got, want)
		}
	}
}

func TestHashOfAnObjectIsThatOfItsJSON(t *testing.T) {
	content := map[string]any{"replicas": int64(3), "name": "api", "ratio": 2.0}
	fromObject, err := ContentHash(content)
	if err != nil {
		t.Fatal(err)
	}
	fromJSON, err := ContentHash(json.RawMessage(`{"ratio": 2, "replicas": 3, "name": "api"}`))
	if err != nil {
		t.Fatal(err)
	}
	if fromObject != fromJSON {
		t.Errorf("object %s, JSON %s", fromObject, fromJSON)
	}
}

func TestWhatIsNotJSONHasNoHash(t *testing.T) {
	if _, err := ContentHash(json.RawMessage(`{"a":`)); err == nil {
		t.Error("no error")
	}
}
