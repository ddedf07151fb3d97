package content

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// OverrideError tells why the content cannot be made for a cluster.
type OverrideError struct {
	// Cluster that it was to be made for.
	Cluster string
	// Override by name.
	Override string
	// Subject is the object, patch target or image that it is about.
	Subject string
	// Path of the field in the object, as a JSON pointer; empty if it is about
	// the whole.
	Path string
	// Problem says what is wrong, and what to do.
	Problem string
}

func (e *OverrideError) Error() string {
	subject := e.Subject
	if e.Path != "" {
		subject += ", " + e.Path
	}
	return fmt.Sprintf("override %q cannot be applied for cluster %s: %s: %s", e.Override, e.Cluster, subject, e.Problem)
}

// Overlay makes the content for one cluster: of each override that matches it,
// in order, first the exclusions, then the patches, then the images. It returns
// the objects that the cluster gets, in their order, and what is to be recorded.
// Objects that are changed are cleaned and checked like those of the template.
//
// With a recorded resolution its overrides and values are used, whatever the
// cluster's labels and claims are by now. The objects may be changed in place.
// What keeps the content from being made is an *OverrideError.
func Overlay(objects []*unstructured.Unstructured, overrides []v1alpha1.Override, cluster Cluster, recorded *Resolution) ([]*unstructured.Unstructured, Resolution, error) {
	if len(overrides) == 0 {
		return objects, Resolution{}, nil
	}
	var resolved Resolution
	values := newValues(cluster, nil)
	if recorded != nil {
		resolved.Overrides = slices.Clone(recorded.Overrides)
		values = newValues(cluster, recorded.Variables)
	} else {
		names, err := Select(overrides, cluster)
		if err != nil {
			return nil, Resolution{}, err
		}
		resolved.Overrides = names
	}
	for _, override := range overrides {
		if !slices.Contains(resolved.Overrides, override.Name) {
			continue
		}
		one := overlay{cluster: cluster.Name, override: override, values: values}
		var err error
		if objects, err = one.apply(objects); err != nil {
			return nil, Resolution{}, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values.used)) {
		resolved.Variables = append(resolved.Variables, v1alpha1.ResolvedVariable{Name: name, Value: values.used[name]})
	}
	return objects, resolved, nil
}

// overlay is one override on its way into the content of a cluster.
type overlay struct {
	cluster  string
	override v1alpha1.Override
	values   *values
	// before are the objects that it changes, as they were.
	before map[*unstructured.Unstructured]*unstructured.Unstructured
}

func (o *overlay) apply(objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	o.before = map[*unstructured.Unstructured]*unstructured.Unstructured{}
	objects = slices.DeleteFunc(slices.Clone(objects), func(object *unstructured.Unstructured) bool {
		return slices.ContainsFunc(o.override.Exclude, func(target v1alpha1.ObjectTarget) bool {
			return target.Matches(v1alpha1.ReferenceOf(object))
		})
	})
	for i, source := range o.override.Patches {
		if err := o.applyPatch(i, source, objects); err != nil {
			return nil, err
		}
	}
	for _, image := range o.override.Images {
		if err := o.applyImage(image, objects); err != nil {
			return nil, err
		}
	}
	for _, object := range objects {
		if before, changed := o.before[object]; changed {
			if err := o.finish(before, object); err != nil {
				return nil, err
			}
		}
	}
	return objects, nil
}

func (o *overlay) applyPatch(index int, source v1alpha1.Patch, objects []*unstructured.Unstructured) error {
	read, err := parsePatch(source.Patch)
	if err != nil {
		return o.failed(fmt.Sprintf("patch %d", index), err)
	}
	matched := false
	for _, object := range objects {
		if !source.Target.Matches(v1alpha1.ReferenceOf(object)) {
			continue
		}
		matched = true
		o.remember(object)
		if err := read.apply(object, o.values.of); err != nil {
			return o.failed(v1alpha1.Describe(object), err)
		}
		// Of one object the next patch must find what it is to find.
		if err := sameIdentity(o.before[object], object); err != nil {
			return o.failed(v1alpha1.Describe(o.before[object]), err)
		}
	}
	if !matched {
		return o.failed(describeTarget(source.Target), errors.New("the target matches no object of this cluster's content; correct it, or let this override come before the one that excludes the object"))
	}
	return nil
}

func (o *overlay) applyImage(image v1alpha1.ImageOverride, objects []*unstructured.Unstructured) error {
	subject := fmt.Sprintf("image %s", image.Name)
	expanded, err := expandImage(image, o.values.of)
	if err != nil {
		return o.failed(subject, err)
	}
	used := false
	for _, object := range objects {
		for _, container := range containersOf(object) {
			if !usesImage(container["image"].(string), image.Name) {
				continue
			}
			o.remember(object)
			replaced, err := replaceImage(container, expanded)
			if err != nil {
				return o.failed(v1alpha1.Describe(object), err)
			}
			used = used || replaced
		}
	}
	if !used {
		return o.failed(subject, errors.New("no container of this cluster's content uses it; write the name as the content has it there, without tag and digest"))
	}
	return nil
}

// remember keeps an object as it is before the override changes it.
func (o *overlay) remember(object *unstructured.Unstructured) {
	if o.before[object] == nil {
		o.before[object] = object.DeepCopy()
	}
}

// finish cleans and checks an object that the override has changed.
func (o *overlay) finish(before, object *unstructured.Unstructured) error {
	Clean(object)
	if problems := Check(nil, object); len(problems) > 0 {
		problem := problems[0]
		path := ""
		if problem.Field != "<nil>" {
			path = "/" + strings.ReplaceAll(problem.Field, ".", "/")
		}
		return o.failed(v1alpha1.Describe(object), &fieldError{path, errors.New(problem.Detail)})
	}
	if err := checkTopLevel(before, object); err != nil {
		return o.failed(v1alpha1.Describe(object), err)
	}
	return nil
}

func (o *overlay) failed(subject string, err error) error {
	path, cause := pathOf(err)
	problem := cause.Error()
	var missing *missingValueError
	if errors.As(err, &missing) {
		problem += "; " + missing.variable.fix(o.cluster)
	}
	return &OverrideError{Cluster: o.cluster, Override: o.override.Name, Subject: subject, Path: path, Problem: problem}
}

// fix says how a cluster comes by a value.
func (v Variable) fix(cluster string) string {
	if v.source == "labels" {
		return fmt.Sprintf("set it with: kubectl label managedcluster %s %s=VALUE", cluster, v.key)
	}
	return fmt.Sprintf("create a ClusterClaim %s on the cluster, or select only clusters that have one", v.key)
}

// sameIdentity finds what an override must not change.
func sameIdentity(before, after *unstructured.Unstructured) error {
	for _, field := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}} {
		was, _, _ := unstructured.NestedString(before.Object, field...)
		is, _, err := unstructured.NestedString(after.Object, field...)
		if err != nil || was != is {
			return &fieldError{"/" + strings.Join(field, "/"), errors.New("an override must not change which object this is; leave the field out, or exclude the object and deliver the other one with a rollout of its own")}
		}
	}
	if kindOf(before) != secretKind {
		return nil
	}
	for _, name := range []string{"data", "stringData"} {
		if !reflect.DeepEqual(before.Object[name], after.Object[name]) {
			return &fieldError{"/" + name, errSecretData}
		}
	}
	return nil
}

var errSecretData = errors.New("an override must not change the data of a Secret, where whoever may read FleetRollouts could read it; keep one Secret per kind of cluster in a source of manifestsFrom, and exclude the others")

// checkTopLevel finds a field beside spec and the like that the kind does not
// have. The API server would refuse it once it is there, and other kinds that
// the same patch targets may well have it.
func checkTopLevel(before, after *unstructured.Unstructured) error {
	typed, err := clientscheme.Scheme.New(after.GroupVersionKind())
	if err != nil {
		return nil
	}
	known := jsonFields(reflect.TypeOf(typed).Elem())
	for _, name := range sortedKeys(after.Object) {
		if _, had := before.Object[name]; !had && !known[name] {
			return &fieldError{"/" + name, fmt.Errorf("a %s has no such field; correct the patch, or its target", after.GetKind())}
		}
	}
	return nil
}

// jsonFields are the names of a struct's fields in JSON.
func jsonFields(of reflect.Type) map[string]bool {
	names := map[string]bool{}
	for i := range of.NumField() {
		field := of.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && (field.Anonymous || options == "inline") && field.Type.Kind() == reflect.Struct {
			maps.Copy(names, jsonFields(field.Type))
		} else if name != "" {
			names[name] = true
		}
	}
	return names
}

func describeTarget(target v1alpha1.ObjectTarget) string {
	var parts []string
	for _, part := range []struct{ name, value string }{
		{"group", target.Group}, {"kind", target.Kind}, {"namespace", target.Namespace}, {"name", target.Name},
	} {
		if part.value != "" {
			parts = append(parts, part.name+" "+part.value)
		}
	}
	return "patch of " + strings.Join(parts, ", ")
}
