package revision

import (
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/jsonpath"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// checkDelivery finds delivery options that would do nothing, or harm: an executor
// that is no ServiceAccount, and ignored fields that no object has.
func checkDelivery(path *field.Path, options v1alpha1.DeliveryOptions, template contents) field.ErrorList {
	problems := checkExecutor(path.Child("executor", "serviceAccount"), options.Executor)
	for i, ignored := range options.IgnoreFields {
		at := path.Child("ignoreFields").Index(i)
		problems = append(problems, checkIgnoredTarget(at.Child("target"), ignored.Target, template)...)
		for j, jsonPath := range ignored.JSONPaths {
			problems = appendIf(problems, checkIgnoredPath(at.Child("jsonPaths").Index(j), jsonPath))
		}
	}
	return problems
}

func checkExecutor(path *field.Path, executor *v1alpha1.Executor) field.ErrorList {
	if executor == nil {
		return nil
	}
	var problems field.ErrorList
	account := executor.ServiceAccount
	for _, reason := range validation.IsDNS1123Label(account.Namespace) {
		problems = append(problems, field.Invalid(path.Child("namespace"), account.Namespace, reason))
	}
	for _, reason := range validation.IsDNS1123Subdomain(account.Name) {
		problems = append(problems, field.Invalid(path.Child("name"), account.Name, reason))
	}
	return problems
}

// checkIgnoredTarget refuses a target that no object of the template matches, and
// one that matches what is not applied server-side.
func checkIgnoredTarget(path *field.Path, target v1alpha1.ObjectTarget, template contents) field.ErrorList {
	matches := 0
	for _, part := range template.components {
		for _, m := range part.manifests {
			if !target.Matches(m.reference) {
				continue
			}
			matches++
			if m.object.GroupVersionKind().GroupKind() == crdKind {
				return field.ErrorList{field.Invalid(path, v1alpha1.Describe(m.object),
					"fields of a CustomResourceDefinition cannot be ignored, because it is updated as a whole; name another kind in the target")}
			}
		}
	}
	if matches == 0 {
		return field.ErrorList{field.Invalid(path, describeTarget(target), "no object of the template matches the target; correct it, or remove the entry")}
	}
	return nil
}

func describeTarget(target v1alpha1.ObjectTarget) string {
	text := ""
	for _, item := range []struct{ name, value string }{
		{"group", target.Group}, {"kind", target.Kind}, {"namespace", target.Namespace}, {"name", target.Name},
	} {
		if item.value != "" {
			text += fmt.Sprintf(" %s %s", item.name, item.value)
		}
	}
	if text == "" {
		return text
	}
	return text[1:]
}

// ignorable is a path whose last step is a plain field: the work agent takes that
// out of the map that the steps before lead to, and splits steps at dots.
var ignorable = regexp.MustCompile(`^(\.[A-Za-z_][-A-Za-z0-9_]*(\[[^]]*\])?)*\.[A-Za-z_][-A-Za-z0-9_]*$`)

// identity are the fields without which the work agent cannot apply an object, or
// the agent not tell which content it has.
var identity = []string{".apiVersion", ".kind", ".metadata", ".metadata.name", ".metadata.namespace", ".metadata.labels", ".metadata.annotations"}

func checkIgnoredPath(path *field.Path, jsonPath string) *field.Error {
	switch {
	case slices.Contains(identity, jsonPath):
		return field.Invalid(path, jsonPath, "the object could no longer be applied, or not be told from its earlier content; name a field below spec or data")
	case !ignorable.MatchString(jsonPath):
		return field.Invalid(path, jsonPath, "write steps that begin with a dot and end in a plain field, such as .spec.replicas or .spec.template.spec.containers[?(@.name=='app')].image")
	}
	if err := jsonpath.New("ignoreFields").Parse("{" + jsonPath + "}"); err != nil {
		return field.Invalid(path, jsonPath, fmt.Sprintf("it is no JSON path (%v); write one such as .spec.replicas", err))
	}
	return nil
}
