package revision

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// SourceKind is the kind of an object that manifestsFrom names.
type SourceKind string

// The kinds of sources.
const (
	SourceConfigMap SourceKind = "ConfigMap"
	SourceSecret    SourceKind = "Secret"
)

// SourceName names a ConfigMap or Secret in the namespace of a rollout.
type SourceName struct {
	Kind SourceKind
	Name string
}

// String is such as "Secret creds".
func (n SourceName) String() string { return string(n.Kind) + " " + n.Name }

// Source is what a ConfigMap or Secret holds.
type Source struct {
	// Data by key.
	Data map[string][]byte
	// Binary are the keys of a ConfigMap's binaryData, which holds no manifests.
	Binary []string
}

// Sources are what Freeze needs beside the spec.
type Sources struct {
	// Found are the sources that exist.
	Found map[SourceName]Source
	// HashKey makes the hashes of content that comes from a Secret unguessable. It
	// is the same for all revisions of a rollout, and needed only where
	// NeedHashKey says so.
	HashKey []byte
}

// SourceNames are the sources that a template names, each once, in order.
func SourceNames(template v1alpha1.Template) []SourceName {
	names := map[SourceName]bool{}
	for _, component := range template.Components {
		for _, source := range component.ManifestsFrom {
			if name, _, ok := nameOf(source); ok {
				names[name] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(names), func(a, b SourceName) int { return strings.Compare(a.String(), b.String()) })
}

// NeedHashKey tells whether content of the template comes from a Secret.
func NeedHashKey(template v1alpha1.Template) bool {
	return slices.ContainsFunc(SourceNames(template), func(name SourceName) bool { return name.Kind == SourceSecret })
}

// nameOf returns the name and the key that a reference names; false if it names
// nothing, or two things.
func nameOf(source v1alpha1.ManifestSource) (SourceName, string, bool) {
	switch {
	case source.ConfigMap != nil && source.Secret == nil:
		return SourceName{SourceConfigMap, source.ConfigMap.Name}, source.ConfigMap.Key, true
	case source.Secret != nil && source.ConfigMap == nil:
		return SourceName{SourceSecret, source.Secret.Name}, source.Secret.Key, true
	}
	return SourceName{}, "", false
}

// MissingSourceError tells that sources, or their keys, do not exist. It goes by
// itself once they do.
type MissingSourceError struct {
	// Missing by field; each names the source and the fix.
	Missing field.ErrorList
}

// Error is bounded as that of an InvalidError.
func (e *MissingSourceError) Error() string { return (&InvalidError{Problems: e.Missing}).Error() }

// origin is where a manifest was written.
type origin string

const (
	inTemplate  origin = ""
	inConfigMap        = origin(SourceConfigMap)
	inSecret           = origin(SourceSecret)
)

// readSources reads all documents of the sources of a component, in the order in
// which they are named, keys in alphabetical order. It adds what does not exist to
// missing.
func (s Sources) readSources(path *field.Path, references []v1alpha1.ManifestSource, missing *field.ErrorList) ([]manifest, field.ErrorList) {
	var manifests []manifest
	var problems field.ErrorList
	for i, reference := range references {
		path := path.Index(i)
		name, key, ok := nameOf(reference)
		if !ok {
			problems = append(problems, field.Invalid(path, "", "give exactly one of configMap and secret"))
			continue
		}
		source, found := s.Found[name]
		if !found {
			*missing = append(*missing, notFound(path, name.String(), "it does not exist in the namespace of the rollout; create it, or correct the name"))
			continue
		}
		texts, found := source.texts(key)
		if !found {
			problem := notFound(path, fmt.Sprintf("%s, key %s", name, key), fmt.Sprintf("the key does not exist; it has %s", listed(slices.Sorted(maps.Keys(source.Data)))))
			if slices.Contains(source.Binary, key) {
				problems = append(problems, field.Invalid(path, fmt.Sprintf("%s, key %s", name, key), "binaryData cannot hold manifests; put the text into data"))
			} else {
				*missing = append(*missing, problem)
			}
			continue
		}
		if key == "" && len(source.Binary) > 0 {
			problems = append(problems, field.Invalid(path, fmt.Sprintf("%s, key %s", name, source.Binary[0]), "binaryData cannot hold manifests; put the text into data, or name the key to be read"))
		}
		before := len(manifests)
		for _, key := range slices.Sorted(maps.Keys(texts)) {
			read, found := readDocuments(path, name, key, texts[key])
			manifests = append(manifests, read...)
			problems = append(problems, found...)
		}
		if len(manifests) == before && len(problems) == 0 {
			problems = append(problems, field.Invalid(path, name.String(), "it holds no manifest; write at least one, or remove it from manifestsFrom"))
		}
	}
	return manifests, problems
}

// texts are the values to be read: that of one key, or of all where none is named.
func (s Source) texts(key string) (map[string][]byte, bool) {
	if key == "" {
		return s.Data, true
	}
	text, ok := s.Data[key]
	return map[string][]byte{key: text}, ok
}

// notFound is field.NotFound with words.
func notFound(path *field.Path, value, fix string) *field.Error {
	problem := field.NotFound(path, value)
	problem.Detail = fix
	return problem
}

func listed(keys []string) string {
	if len(keys) == 0 {
		return "none"
	}
	const most = 5
	more := ""
	if len(keys) > most {
		more = fmt.Sprintf(" and %d more", len(keys)-most)
		keys = keys[:most]
	}
	return strings.Join(keys, ", ") + more
}

// readDocuments reads the YAML documents of one key. Empty ones, as those of
// nothing but comments, do not count as manifests but as documents.
func readDocuments(path *field.Path, name SourceName, key string, text []byte) ([]manifest, field.ErrorList) {
	var manifests []manifest
	var problems field.ErrorList
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for number := 1; ; number++ {
		path := path.Key(fmt.Sprintf("%s, key %s, document %d", name, key, number))
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return manifests, problems
		}
		if err == nil {
			document, err = yaml.YAMLToJSONStrict(document)
		}
		if err != nil {
			problems = append(problems, notYAML(path, name, err))
			if document == nil {
				return manifests, problems
			}
			continue
		}
		if string(document) == "null" {
			continue
		}
		m, found := readManifest(path, runtime.RawExtension{Raw: document}, origin(name.Kind))
		if len(found) == 0 {
			manifests = append(manifests, m)
		}
		if name.Kind == SourceSecret {
			found = withoutValues(path, found)
		}
		problems = append(problems, found...)
	}
}

// mergeStringData writes the stringData of a Secret into its data, as the API
// server does. Server-side apply would not: a key that a later revision leaves out
// of stringData stays in data for ever.
func mergeStringData(object *unstructured.Unstructured) {
	if object.GroupVersionKind().GroupKind() != (schema.GroupKind{Kind: "Secret"}) {
		return
	}
	plain, _, _ := unstructured.NestedStringMap(object.Object, "stringData")
	unstructured.RemoveNestedField(object.Object, "stringData")
	if len(plain) == 0 {
		return
	}
	data, _, _ := unstructured.NestedMap(object.Object, "data")
	if data == nil {
		data = map[string]any{}
	}
	for key, value := range plain {
		data[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	object.Object["data"] = data
}

var lineOfError = regexp.MustCompile(`line \d+`)

// notYAML says why a document cannot be parsed. The parser's words may quote
// it, so of a Secret only the line is told.
func notYAML(path *field.Path, name SourceName, err error) *field.Error {
	if name.Kind == SourceConfigMap {
		return field.Invalid(path, "", fmt.Sprintf("it is not YAML: %v", err))
	}
	where := "its text is not shown"
	if line := lineOfError.FindString(err.Error()); line != "" {
		where = fmt.Sprintf("look at %s of the document; its text is not shown", line)
	}
	return field.Invalid(path, "", "it is not YAML: "+where)
}

// withoutValues takes everything out of problems that may quote a Secret: values,
// keys of maps, and the words of decoders.
func withoutValues(document *field.Path, problems field.ErrorList) field.ErrorList {
	for _, problem := range problems {
		prefix := document.String()
		inside, _, _ := strings.Cut(strings.TrimPrefix(problem.Field, prefix), "[")
		problem.Field = prefix + inside
		problem.BadValue = ""
		switch problem.Type {
		case field.ErrorTypeRequired, field.ErrorTypeTooLong:
		default:
			problem.Detail = "the value is not valid, and not shown because it comes from a Secret; check the document with kubectl apply --dry-run=server"
		}
	}
	return problems
}
