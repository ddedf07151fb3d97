package revision

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/pkg/content"
)

// The bounds of the parts of a reference in a RolloutRevision, in characters.
const (
	maxKindLength = 63
	maxNameLength = 253
)

// checkIdentity finds what keeps a manifest from being an object at all.
func checkIdentity(at *field.Path, plain map[string]any) field.ErrorList {
	var problems field.ErrorList
	kind, problem := requiredString(at.Child("kind"), plain["kind"], "such as Deployment")
	problems = appendIf(problems, problem)
	apiVersion, problem := requiredString(at.Child("apiVersion"), plain["apiVersion"], "such as apps/v1")
	problems = appendIf(problems, problem)
	if problem == nil {
		version, err := schema.ParseGroupVersion(apiVersion)
		if err != nil || version.Version == "" {
			problems = append(problems, field.Invalid(at.Child("apiVersion"), apiVersion, "write GROUP/VERSION, such as apps/v1, or v1 for the core group"))
		}
	}
	if len(kind) > maxKindLength {
		problems = append(problems, field.TooLong(at.Child("kind"), kind, maxKindLength))
	}
	if items, ok := plain["items"].([]any); kind == "List" || (ok && strings.HasSuffix(kind, "List")) {
		return append(problems, field.Invalid(at.Child("kind"), kind, fmt.Sprintf("a list cannot be delivered; write its %d items as manifests of their own", len(items))))
	}
	metadata, ok := plain["metadata"].(map[string]any)
	if !ok {
		return append(problems, field.Required(at.Child("metadata"), "write metadata with a name"))
	}
	return append(problems, checkMetadata(at.Child("metadata"), metadata)...)
}

func checkMetadata(at *field.Path, metadata map[string]any) field.ErrorList {
	var problems field.ErrorList
	if generated, ok := metadata["generateName"]; ok && generated != "" {
		problems = append(problems, field.Invalid(at.Child("generateName"), generated, "a delivered object needs a name that stays; write metadata.name instead"))
	} else if name, problem := requiredString(at.Child("name"), metadata["name"], "the same on every cluster"); problem != nil {
		problems = append(problems, problem)
	} else if len(name) > maxNameLength {
		problems = append(problems, field.TooLong(at.Child("name"), name, maxNameLength))
	} else {
		for _, reason := range path.IsValidPathSegmentName(name) {
			problems = append(problems, field.Invalid(at.Child("name"), name, reason))
		}
	}
	if value, ok := metadata["namespace"]; ok && value != nil {
		namespace, isString := value.(string)
		if !isString {
			problems = append(problems, field.Invalid(at.Child("namespace"), value, "write a string"))
		} else if namespace != "" {
			for _, reason := range validation.IsDNS1123Label(namespace) {
				problems = append(problems, field.Invalid(at.Child("namespace"), namespace, reason))
			}
		}
	}
	for _, name := range []string{"labels", "annotations"} {
		problems = append(problems, content.CheckStrings(at.Child(name), metadata[name])...)
	}
	return problems
}

// checkKind finds what is wrong with an object of its kind.
func checkKind(at *field.Path, object *unstructured.Unstructured, from origin) field.ErrorList {
	if object.GroupVersionKind().GroupKind() == secretKind && from != inSecret {
		if problems := checkSecret(at, object); len(problems) > 0 {
			return problems
		}
	}
	return content.Check(at, object)
}

// checkSecret refuses a Secret that carries something, without showing it.
func checkSecret(at *field.Path, object *unstructured.Unstructured) field.ErrorList {
	var problems field.ErrorList
	for _, name := range []string{"data", "stringData"} {
		if data, ok := object.Object[name].(map[string]any); ok && len(data) > 0 {
			problems = append(problems, field.Forbidden(at.Child(name),
				fmt.Sprintf("%s must not carry its data inline, where whoever may read FleetRollouts could read it; move the manifest into a Secret, and name that in manifestsFrom", v1alpha1.Describe(object))))
		}
	}
	return problems
}

// requiredString reads a string that must be there.
func requiredString(at *field.Path, value any, example string) (string, *field.Error) {
	text, ok := value.(string)
	switch {
	case value == nil || (ok && text == ""):
		return "", field.Required(at, "write a string, "+example)
	case !ok:
		return "", field.Invalid(at, value, "write a string, "+example)
	}
	return text, nil
}

func appendIf(problems field.ErrorList, problem *field.Error) field.ErrorList {
	if problem == nil {
		return problems
	}
	return append(problems, problem)
}
