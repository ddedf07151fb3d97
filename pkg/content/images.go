package content

import (
	"errors"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/filters/imagetag"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// What an image may be made of, as the distribution specification has it; names
// are checked loosely, because registries differ.
var (
	imageTag    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	imageName   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]*$`)
	imageDigest = regexp.MustCompile(`^[a-z0-9]+([+._-][a-z0-9]+)*:[0-9a-fA-F]{32,}$`)
)

// The fields that hold containers, wherever they are in an object.
var containerFields = map[string]bool{"containers": true, "initContainers": true, "ephemeralContainers": true}

// containersOf returns the containers of an object that name an image. The kind
// does not matter, so that those of custom resources are found too; only in a
// CustomResourceDefinition such fields mean something else.
func containersOf(object *unstructured.Unstructured) []map[string]any {
	if object.GetKind() == "CustomResourceDefinition" {
		return nil
	}
	var found []map[string]any
	collectContainers(object.Object, &found)
	return found
}

func collectContainers(value any, found *[]map[string]any) {
	switch typed := value.(type) {
	case map[string]any:
		for _, key := range sortedKeys(typed) {
			if list, ok := typed[key].([]any); ok && containerFields[key] {
				for _, item := range list {
					container, _ := item.(map[string]any)
					if _, ok := container["image"].(string); ok {
						*found = append(*found, container)
					}
				}
			}
			collectContainers(typed[key], found)
		}
	case []any:
		for _, item := range typed {
			collectContainers(item, found)
		}
	}
}

// replaceImage lets Kustomize's transformer replace an image in a container, and
// tells whether it is the one that is replaced. Kustomize reads the name as a
// pattern; ours are whole names.
func replaceImage(container map[string]any, image v1alpha1.ImageOverride) (bool, error) {
	before, _ := container["image"].(string)
	field := stringNode(before)
	node := yaml.NewRNode(&yaml.Node{Kind: yaml.MappingNode, Tag: yaml.NodeTagMap, Content: []*yaml.Node{stringNode("image"), field}})
	_, err := imagetag.Filter{
		ImageTag: types.Image{Name: regexp.QuoteMeta(image.Name), NewName: image.NewName, NewTag: image.NewTag, Digest: image.Digest},
		FsSlice:  types.FsSlice{{Path: "image"}},
	}.Filter([]*yaml.RNode{node})
	if err != nil {
		return false, err
	}
	value, err := node.GetString("image")
	if err != nil {
		return false, err
	}
	if value != before {
		container["image"] = value
		return true, nil
	}
	return usesImage(before, image.Name), nil
}

// usesImage tells whether an image, with or without tag and digest, has a name.
func usesImage(image, name string) bool {
	rest, ok := cutName(image, name)
	return ok && (rest == "" || rest[0] == ':' || rest[0] == '@')
}

func cutName(image, name string) (string, bool) {
	if len(image) < len(name) || image[:len(name)] != name {
		return "", false
	}
	return image[len(name):], true
}

// expandImage puts the values of a cluster into an image override.
func expandImage(image v1alpha1.ImageOverride, replace func(Variable) (string, error)) (v1alpha1.ImageOverride, error) {
	var err error
	if image.NewName, err = expand(image.NewName, replace); err != nil {
		return image, err
	}
	if image.NewTag, err = expand(image.NewTag, replace); err != nil {
		return image, err
	}
	return image, checkImage(image)
}

// checkImage finds what no image can be called, which a cluster would learn only
// when it pulls it.
func checkImage(image v1alpha1.ImageOverride) error {
	switch {
	case image.NewName == "" && image.NewTag == "" && image.Digest == "":
		return errors.New("nothing is left to replace it by; give it a newName, newTag or digest that is not empty")
	case image.NewName != "" && !imageName.MatchString(image.NewName):
		return fmt.Errorf("newName is %s, which names no image; write one such as registry.example.com/shop/api, without tag and digest", quote(image.NewName))
	case image.NewTag != "" && !imageTag.MatchString(image.NewTag):
		return fmt.Errorf("newTag is %s, which is no tag; write letters, digits, dots, dashes and underscores, at most 128", quote(image.NewTag))
	case image.Digest != "" && !imageDigest.MatchString(image.Digest):
		return fmt.Errorf("digest is %s, which is no digest; write one such as sha256: and 64 hex digits", quote(image.Digest))
	}
	return nil
}
