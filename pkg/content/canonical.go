package content

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// maxVariables is how many different variables the overrides of a revision may
// use, so that what a cluster got can be recorded.
const maxVariables = 128

// CanonicalOverrides finds what is wrong with overrides of a template's objects
// whatever the cluster, and returns them in their canonical form: patches are
// canonical JSON, so that the way they are laid out does not count. Whether a
// path exists, and a cluster has a value, shows only when the content is made
// for a cluster, and then blocks that cluster alone.
func CanonicalOverrides(path *field.Path, overrides []v1alpha1.Override, objects []*unstructured.Unstructured) ([]v1alpha1.Override, field.ErrorList) {
	check := overridesCheck{objects: objects, overrides: overrides, variables: map[Variable]bool{}}
	var canonical []v1alpha1.Override
	names := map[string]bool{}
	for i, override := range overrides {
		at := path.Index(i)
		switch {
		case override.Name == "":
			check.add(field.Required(at.Child("name"), "give the override a name"))
		case names[override.Name]:
			duplicate := field.Duplicate(at.Child("name"), override.Name)
			duplicate.Detail = "give each override a name of its own"
			check.add(duplicate)
		}
		names[override.Name] = true
		canonical = append(canonical, check.override(at, override))
	}
	if len(check.variables) > maxVariables {
		check.add(field.TooMany(path, len(check.variables), maxVariables))
	}
	return canonical, check.problems
}

// overridesCheck gathers what is wrong with overrides.
type overridesCheck struct {
	objects   []*unstructured.Unstructured
	overrides []v1alpha1.Override
	variables map[Variable]bool
	problems  field.ErrorList
}

func (c *overridesCheck) add(problem *field.Error) { c.problems = append(c.problems, problem) }

func (c *overridesCheck) override(at *field.Path, override v1alpha1.Override) v1alpha1.Override {
	canonical := *override.DeepCopy()
	if len(override.Patches)+len(override.Images)+len(override.Exclude) == 0 {
		c.add(field.Required(at, fmt.Sprintf("override %q changes nothing; give it patches, images or exclude", override.Name)))
	}
	c.selectors(at, override)
	for i, target := range override.Exclude {
		c.target(at.Child("exclude").Index(i), target)
	}
	for i, source := range override.Patches {
		canonical.Patches[i].Patch = c.patch(at.Child("patches").Index(i), source)
	}
	for i, image := range override.Images {
		c.image(at.Child("images").Index(i), image)
	}
	return canonical
}

func (c *overridesCheck) selectors(at *field.Path, override v1alpha1.Override) {
	if _, err := metav1.LabelSelectorAsSelector(&override.ClusterSelector); err != nil {
		c.add(field.Invalid(at.Child("clusterSelector"), metav1.FormatLabelSelector(&override.ClusterSelector),
			fmt.Sprintf("it is not a label selector (%v); write matchLabels or matchExpressions", err)))
	}
	if override.ClaimSelector == nil {
		return
	}
	for i, requirement := range override.ClaimSelector.MatchExpressions {
		at := at.Child("claimSelector", "matchExpressions").Index(i)
		switch requirement.Operator {
		case metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn:
			if len(requirement.Values) == 0 {
				c.add(field.Required(at.Child("values"), fmt.Sprintf("%s compares with values; write at least one", requirement.Operator)))
			}
		case metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist:
			if len(requirement.Values) > 0 {
				c.add(field.Invalid(at.Child("values"), strings.Join(requirement.Values, ", "), fmt.Sprintf("%s takes no values; remove them", requirement.Operator)))
			}
		default:
			c.add(field.Invalid(at.Child("operator"), string(requirement.Operator), "write In, NotIn, Exists or DoesNotExist"))
		}
		if requirement.Key == "" {
			c.add(field.Required(at.Child("key"), "write the name of a claim"))
		}
	}
}

// target returns the objects of the template that a target selects, and misses
// them if there are none.
func (c *overridesCheck) target(at *field.Path, target v1alpha1.ObjectTarget) []*unstructured.Unstructured {
	if target == (v1alpha1.ObjectTarget{}) {
		c.add(field.Required(at, "the target names nothing and would match every object; give it at least a kind"))
		return nil
	}
	var matched []*unstructured.Unstructured
	for _, object := range c.objects {
		if target.Matches(v1alpha1.ReferenceOf(object)) {
			matched = append(matched, object)
		}
	}
	if len(matched) == 0 {
		c.add(field.Invalid(at, strings.TrimPrefix(describeTarget(target), "patch of "), "the target matches no object of the template; write group, kind, namespace and name as they are there"))
	}
	return matched
}

func (c *overridesCheck) patch(at *field.Path, source v1alpha1.Patch) string {
	targets := c.target(at.Child("target"), source.Target)
	at = at.Child("patch")
	shown := excerpt(source.Patch)
	if slices.ContainsFunc(targets, func(object *unstructured.Unstructured) bool { return kindOf(object) == secretKind }) {
		shown = "of a Secret"
	}
	canonical, err := canonicalPatch(source.Patch)
	if err != nil {
		c.add(field.Invalid(at, shown, err.Error()))
		return source.Patch
	}
	read, err := parsePatch(canonical)
	if err == nil {
		err = read.check(c.variables)
	}
	if err != nil {
		c.add(field.Invalid(at, shown, err.Error()))
		return canonical
	}
	for _, object := range targets {
		if err := read.checkFor(object); err != nil {
			c.add(field.Invalid(at, shown, v1alpha1.Describe(object)+", "+err.Error()))
			break
		}
	}
	return canonical
}

// image checks an image override. One that no container of the template uses is
// refused as a slip of the pen, unless an override may bring it in.
func (c *overridesCheck) image(at *field.Path, image v1alpha1.ImageOverride) {
	if !imageName.MatchString(image.Name) {
		c.add(field.Invalid(at.Child("name"), image.Name, "it names no image; write the name as the content has it, without tag and digest"))
		return
	}
	if image.NewTag != "" && image.Digest != "" {
		c.add(field.Invalid(at, image.Name, "newTag and digest exclude each other; give one of them"))
	}
	sample := image
	for _, text := range []*string{&sample.NewName, &sample.NewTag} {
		expanded, err := expand(*text, func(variable Variable) (string, error) {
			c.variables[variable] = true
			return "x", nil
		})
		if err != nil {
			c.add(field.Invalid(at, *text, err.Error()))
			return
		}
		*text = expanded
	}
	if err := checkImage(sample); err != nil {
		c.add(field.Invalid(at, image.Name, err.Error()))
		return
	}
	if !c.mayUse(image.Name) {
		c.add(field.Invalid(at.Child("name"), image.Name, "no container of the template uses this image; write the name as it is there, without tag and digest"))
	}
}

func (c *overridesCheck) mayUse(name string) bool {
	for _, object := range c.objects {
		for _, container := range containersOf(object) {
			if usesImage(container["image"].(string), name) {
				return true
			}
		}
	}
	for _, override := range c.overrides {
		for _, source := range override.Patches {
			if strings.Contains(source.Patch, name) || strings.Contains(source.Patch, variableStart) {
				return true
			}
		}
		for _, image := range override.Images {
			if image.NewName == name || strings.Contains(image.NewName, variableStart) {
				return true
			}
		}
	}
	return false
}

// check finds what is wrong with a patch whatever it is applied to, and gathers
// the variables that it uses.
func (p patch) check(variables map[Variable]bool) error {
	collect := func(variable Variable) (string, error) {
		variables[variable] = true
		return "", nil
	}
	if p.merge == nil {
		for i, operation := range p.operations {
			if _, err := expandAll(operation.Value, collect); err != nil {
				return fmt.Errorf("operation %d: %w", i, err)
			}
		}
		return nil
	}
	if _, ok := p.merge["$patch"]; ok {
		return errors.New("$patch at the top would replace or delete the whole object; use exclude to leave an object out")
	}
	if err := checkKeys(p.merge, false); err != nil {
		return err
	}
	_, err := expandAll(p.merge, collect)
	return err
}

// checkKeys finds variables where they would decide what a patch does, not which
// values it brings: in the names of fields, and in directives such as $patch.
func checkKeys(value any, directive bool) error {
	switch typed := value.(type) {
	case string:
		if directive && strings.Contains(typed, variableStart) {
			return errors.New("a directive cannot be a variable; write it out")
		}
	case map[string]any:
		for _, key := range sortedKeys(typed) {
			if strings.Contains(key, variableStart+"cluster.") {
				return fmt.Errorf("the name of field %s holds a variable; variables stand in values only", quote(key))
			}
			if err := checkKeys(typed[key], directive || strings.HasPrefix(key, "$")); err != nil {
				return atField(err, key)
			}
		}
	case []any:
		for i, item := range typed {
			if err := checkKeys(item, directive); err != nil {
				return atField(err, fmt.Sprint(i))
			}
		}
	}
	return nil
}

// checkFor finds what a patch must not do to an object, as far as that shows
// without applying it.
func (p patch) checkFor(object *unstructured.Unstructured) error {
	if p.merge != nil {
		return p.checkMerge(object)
	}
	kind := kindOf(object)
	for _, operation := range p.operations {
		if operation.Op == "test" {
			continue
		}
		for _, identity := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}} {
			if leads(operation.Path, identity...) || (operation.Op == "move" && leads(operation.From, identity...)) {
				return fmt.Errorf("%s of %s: an override must not change which object this is; remove the operation", operation.Op, operation.Path)
			}
		}
		if kind == secretKind {
			for _, name := range []string{"data", "stringData"} {
				if leads(operation.Path, name) || (operation.From != "" && leads(operation.From, name)) {
					return fmt.Errorf("%s of %s: %w", operation.Op, operation.Path, errSecretData)
				}
			}
		}
		if kind == jobKind && operation.Op != "remove" && strings.Join(tokens(operation.Path), "/") == "spec/ttlSecondsAfterFinished" {
			return fmt.Errorf("%s of %s: %w", operation.Op, operation.Path, errJobTTL)
		}
	}
	return nil
}

var errJobTTL = errors.New("the work agent would run the Job again after this time; remove it")

func (p patch) checkMerge(object *unstructured.Unstructured) error {
	for _, identity := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}} {
		wanted, given, err := unstructured.NestedFieldNoCopy(p.merge, identity...)
		present, _, _ := unstructured.NestedString(object.Object, identity...)
		if err != nil || (given && wanted != present) {
			return fmt.Errorf("/%s: an override must not change which object this is; leave the field out", strings.Join(identity, "/"))
		}
	}
	switch kindOf(object) {
	case secretKind:
		for _, name := range []string{"data", "stringData"} {
			if _, given := p.merge[name]; given {
				return fmt.Errorf("/%s: %w", name, errSecretData)
			}
		}
	case jobKind:
		if ttl, _, _ := unstructured.NestedFieldNoCopy(p.merge, "spec", "ttlSecondsAfterFinished"); ttl != nil {
			return fmt.Errorf("/spec/ttlSecondsAfterFinished: %w", errJobTTL)
		}
	}
	return nil
}
