package revision

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/pkg/content"
)

// contents is a template that has been read, cleaned and checked.
type contents struct {
	components []component
}

type component struct {
	name      string
	manifests []manifest
}

type manifest struct {
	path      *field.Path
	reference v1alpha1.ObjectReference
	object    *unstructured.Unstructured
	raw       []byte
}

// readTemplate reads all manifests, those of sources among them. What it returns
// is complete only if there are no problems and nothing is missing.
func readTemplate(path *field.Path, template v1alpha1.Template, sources Sources) (read contents, missing, problems field.ErrorList) {
	path = path.Child("components")
	if len(template.Components) == 0 {
		return contents{}, nil, field.ErrorList{field.Required(path, "write at least one component with one manifest")}
	}
	names := map[string]bool{}
	for i, source := range template.Components {
		path := path.Index(i)
		if names[source.Name] {
			problems = append(problems, duplicate(path.Child("name"), source.Name, "give each component a name of its own"))
		}
		names[source.Name] = true
		if len(source.Manifests)+len(source.ManifestsFrom) == 0 {
			problems = append(problems, field.Required(path.Child("manifests"), fmt.Sprintf("component %q has no manifest; write one, or remove the component", source.Name)))
		}
		part := component{name: source.Name}
		for j, extension := range source.Manifests {
			m, found := readManifest(path.Child("manifests").Index(j), extension, inTemplate)
			problems = append(problems, found...)
			if len(found) == 0 {
				part.manifests = append(part.manifests, m)
			}
		}
		fromSources, found := sources.readSources(path.Child("manifestsFrom"), source.ManifestsFrom, &missing)
		part.manifests = append(part.manifests, fromSources...)
		problems = append(problems, found...)
		read.components = append(read.components, part)
	}
	problems = append(problems, read.checkScopes()...)
	problems = append(problems, read.checkTogether(path)...)
	return read, missing, problems
}

// readManifest decodes, cleans and checks one manifest by itself.
func readManifest(path *field.Path, extension runtime.RawExtension, from origin) (manifest, field.ErrorList) {
	raw := extension.Raw
	if raw == nil && extension.Object != nil {
		encoded, err := json.Marshal(extension.Object)
		if err != nil {
			return manifest{}, field.ErrorList{field.Invalid(path, "", fmt.Sprintf("it cannot be written as JSON: %v", err))}
		}
		raw = encoded
	}
	var plain map[string]any
	if err := decode(raw, &plain); err != nil || plain == nil {
		return manifest{}, field.ErrorList{field.Invalid(path, excerpt(raw), "it is not an object; write a Kubernetes object with apiVersion, kind and metadata.name")}
	}
	if problems := checkIdentity(path, plain); len(problems) > 0 {
		return manifest{}, problems
	}
	object := &unstructured.Unstructured{Object: plain}
	content.Clean(object)
	problems := checkKind(path, object, from)
	if len(problems) == 0 && from == inSecret {
		mergeStringData(object)
	}

	canonical, err := v1alpha1.CanonicalJSON(object.Object)
	if err != nil {
		return manifest{}, append(problems, field.Invalid(path, v1alpha1.Describe(object), err.Error()))
	}
	m := manifest{path: path, reference: v1alpha1.ReferenceOf(object), object: object, raw: canonical}
	return m, appendIf(problems, checkObjectSize(path, m))
}

// checkTogether finds what is wrong only with all manifests together: the same
// object twice, too many objects, and too many bytes.
func (c contents) checkTogether(path *field.Path) field.ErrorList {
	var problems field.ErrorList
	type identity struct{ group, kind, namespace, name string }
	first := map[identity]*field.Path{}
	var all totals
	for _, part := range c.components {
		for _, m := range part.manifests {
			all.add(m)
			r := m.reference
			id := identity{r.Group, r.Kind, r.Namespace, r.Name}
			if at, ok := first[id]; ok {
				problems = append(problems, duplicate(m.path, v1alpha1.Describe(m.object), fmt.Sprintf("it is at %s already; remove one of the two", at)))
				continue
			}
			first[id] = m.path
		}
	}
	return append(problems, all.check(path)...)
}

// duplicate is field.Duplicate with words.
func duplicate(path *field.Path, value any, fix string) *field.Error {
	problem := field.Duplicate(path, value)
	problem.Detail = fix
	return problem
}

// excerpt is the beginning of a value for an error. Only values that are no
// objects come here, so that nothing secret is shown.
func excerpt(raw []byte) string {
	const maxBytes = 40
	if len(raw) > maxBytes {
		return string(raw[:maxBytes]) + "…"
	}
	return string(raw)
}

// objects of all components.
func (c contents) objects() []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for _, part := range c.components {
		for _, m := range part.manifests {
			objects = append(objects, m.object)
		}
	}
	return objects
}
