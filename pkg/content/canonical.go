package content

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// CanonicalOverrides checks overrides against the objects of the template and
// returns them in the form that a revision keeps: patches as canonical JSON, so
// that comments and the order of keys make no revision. What a cluster's values
// may still make wrong shows when its content is made.
func CanonicalOverrides(path *field.Path, overrides []v1alpha1.Override, objects []v1alpha1.ObjectReference) ([]v1alpha1.Override, field.ErrorList) {
	var problems field.ErrorList
	var canonical []v1alpha1.Override
	names := map[string]bool{}
	for i := range overrides {
		at := path.Index(i)
		override := *overrides[i].DeepCopy()
		if names[override.Name] {
			problems = append(problems, field.Duplicate(at.Child("name"), override.Name))
		}
		names[override.Name] = true
		problems = append(problems, checkSelectors(at, override)...)
		for j, target := range override.Exclude {
			problems = append(problems, checkTarget(at.Child("exclude").Index(j), target, objects)...)
		}
		for j := range override.Patches {
			problems = append(problems, canonicalise(at.Child("patches").Index(j), &override.Patches[j], objects)...)
		}
		for j, image := range override.Images {
			problems = append(problems, checkImageText(at.Child("images").Index(j), image)...)
		}
		canonical = append(canonical, override)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return canonical, nil
}

func checkSelectors(at *field.Path, override v1alpha1.Override) field.ErrorList {
	var problems field.ErrorList
	if _, err := metav1.LabelSelectorAsSelector(&override.ClusterSelector); err != nil {
		problems = append(problems, field.Invalid(at.Child("clusterSelector"), override.ClusterSelector, err.Error()))
	}
	if _, err := matchesClaims(override.ClaimSelector, nil); err != nil {
		problems = append(problems, field.Invalid(at.Child("claimSelector"), override.Name, err.Error()))
	}
	return problems
}

// checkTarget finds a target that no object of the template matches: it would
// match none for any cluster, and is a mistake.
func checkTarget(at *field.Path, target v1alpha1.ObjectTarget, objects []v1alpha1.ObjectReference) field.ErrorList {
	if slices.ContainsFunc(objects, target.Matches) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, describeTarget(target), "it matches no object of the template; correct it")}
}

func canonicalise(at *field.Path, patch *v1alpha1.Patch, objects []v1alpha1.ObjectReference) field.ErrorList {
	problems := checkTarget(at.Child("target"), patch.Target, objects)
	refuse := func(err error) field.ErrorList {
		return append(problems, field.Invalid(at.Child("patch"), excerpt(patch.Patch), err.Error()))
	}
	canonical, err := canonicalPatch(patch.Patch)
	if err != nil {
		return refuse(err)
	}
	read, err := parsePatch(canonical)
	if err != nil {
		return refuse(err)
	}
	if err := read.check(); err != nil {
		return refuse(err)
	}
	if slices.ContainsFunc(objects, func(o v1alpha1.ObjectReference) bool {
		return o.Group == secretKind.Group && o.Kind == secretKind.Kind && patch.Target.Matches(o)
	}) && read.touchesSecretData() {
		return refuse(errSecretData)
	}
	patch.Patch = canonical
	return problems
}

// check reads the variables of a patch.
func (p patch) check() error {
	anything := func(Variable) (string, error) { return "", nil }
	if p.merge != nil {
		_, err := expandAll(p.merge, anything)
		return err
	}
	for i, operation := range p.operations {
		if _, err := expandAll(operation.Value, anything); err != nil {
			return fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return nil
}

// touchesSecretData tells whether a patch changes what a Secret holds.
func (p patch) touchesSecretData() bool {
	for _, name := range []string{"data", "stringData"} {
		if _, ok := p.merge[name]; ok {
			return true
		}
		for _, operation := range p.operations {
			if leads(operation.Path, name) {
				return true
			}
		}
	}
	return false
}

// checkImageText finds what is wrong with an image override whatever the values
// of its variables are.
func checkImageText(at *field.Path, image v1alpha1.ImageOverride) field.ErrorList {
	expanded, err := expandImage(image, func(Variable) (string, error) { return "x", nil })
	if err == nil {
		err = checkImage(expanded)
	}
	if err == nil && image.NewTag != "" && image.Digest != "" {
		err = errors.New("newTag and digest exclude each other; give one of them")
	}
	if err != nil {
		return field.ErrorList{field.Invalid(at, image.Name, err.Error())}
	}
	return nil
}
