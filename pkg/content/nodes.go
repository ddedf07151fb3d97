package content

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// toNode turns a JSON value into the tree of nodes that kyaml works on. Every
// scalar carries its type, so that no text is ever guessed at: "no" stays a
// string, whatever YAML thinks of it.
func toNode(value any) (*yaml.Node, error) {
	switch typed := value.(type) {
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: yaml.NodeTagNull, Value: "null"}, nil
	case string:
		return stringNode(typed), nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: yaml.NodeTagBool, Value: strconv.FormatBool(typed)}, nil
	case int64:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: yaml.NodeTagInt, Value: strconv.FormatInt(typed, 10)}, nil
	case float64:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: yaml.NodeTagFloat, Value: strconv.FormatFloat(typed, 'g', -1, 64)}, nil
	case map[string]any:
		node := &yaml.Node{Kind: yaml.MappingNode, Tag: yaml.NodeTagMap, Content: make([]*yaml.Node, 0, 2*len(typed))}
		for _, key := range sortedKeys(typed) {
			inner, err := toNode(typed[key])
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, stringNode(key), inner)
		}
		return node, nil
	case []any:
		node := &yaml.Node{Kind: yaml.SequenceNode, Tag: yaml.NodeTagSeq, Content: make([]*yaml.Node, 0, len(typed))}
		for _, item := range typed {
			inner, err := toNode(item)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, inner)
		}
		return node, nil
	}
	return nil, fmt.Errorf("a value of type %T is not JSON", value)
}

func stringNode(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: yaml.NodeTagString, Value: text, Style: yaml.DoubleQuotedStyle}
}

// fromNode turns a tree of nodes back into a JSON value. Fields that are null
// are left out: a merge patch sets one to null in order to remove it.
func fromNode(node *yaml.Node) (any, error) {
	switch node.Kind {
	case yaml.DocumentNode:
		if len(node.Content) == 1 {
			return fromNode(node.Content[0])
		}
	case yaml.MappingNode:
		out := make(map[string]any, len(node.Content)/2)
		for i := 0; i+1 < len(node.Content); i += 2 {
			value, err := fromNode(node.Content[i+1])
			if err != nil {
				return nil, err
			}
			if value != nil {
				out[node.Content[i].Value] = value
			}
		}
		return out, nil
	case yaml.SequenceNode:
		out := make([]any, 0, len(node.Content))
		for _, item := range node.Content {
			value, err := fromNode(item)
			if err != nil {
				return nil, err
			}
			out = append(out, value)
		}
		return out, nil
	case yaml.ScalarNode:
		// Where kyaml adds a merge key by itself it gives it no type.
		switch node.ShortTag() {
		case yaml.NodeTagString:
			return node.Value, nil
		case yaml.NodeTagNull:
			return nil, nil
		case yaml.NodeTagBool:
			return strconv.ParseBool(node.Value)
		case yaml.NodeTagInt:
			return strconv.ParseInt(node.Value, 10, 64)
		case yaml.NodeTagFloat:
			return strconv.ParseFloat(node.Value, 64)
		}
	}
	return nil, fmt.Errorf("a YAML node of kind %d and tag %q is not JSON", node.Kind, node.Tag)
}

func sortedKeys(object map[string]any) []string {
	return slices.Sorted(maps.Keys(object))
}
