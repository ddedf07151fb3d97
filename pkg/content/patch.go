package content

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/kustomize/kyaml/yaml/merge2"
	sigsyaml "sigs.k8s.io/yaml"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// MaxPatchBytes is how large one patch may be once it is written as JSON, with
// what YAML aliases stand for.
const MaxPatchBytes = 128 << 10

// maxPatchedBytes is how large an object may grow while it is patched, far above
// what can be delivered: operations that copy can double it each time.
const maxPatchedBytes = 4 << 20

// patch is a patch that has been read. Exactly one of its fields is set.
type patch struct {
	// merge is a strategic merge patch; a JSON merge patch for kinds of which
	// no merge keys are known.
	merge map[string]any
	// operations are those of a JSON 6902 patch.
	operations []operation
}

// operation is one operation of a JSON 6902 patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from,omitempty"`
	Value any    `json:"value,omitempty"`
	// hasValue tells a value of null from none.
	hasValue bool
}

// canonicalPatch reads a patch as people write it, in YAML or JSON, and returns
// it as canonical JSON, so that only what it says is part of the revision.
func canonicalPatch(text string) (string, error) {
	document, err := onlyDocument(text)
	if err != nil {
		return "", err
	}
	raw, err := sigsyaml.YAMLToJSONStrict(document)
	if err != nil {
		return "", fmt.Errorf("it is neither YAML nor JSON (%w); write an object or a list of operations", err)
	}
	var value any
	if err := utiljson.Unmarshal(raw, &value); err != nil {
		return "", fmt.Errorf("it is not JSON: %w", err)
	}
	switch typed := value.(type) {
	case map[string]any:
		if len(typed) == 0 {
			return "", errors.New("it is an empty object and changes nothing; write what shall change, or remove the patch")
		}
	case []any:
		if len(typed) == 0 {
			return "", errors.New("it is an empty list and changes nothing; write an operation, or remove the patch")
		}
	default:
		return "", errors.New("it is neither an object nor a list; write an object for a merge patch, or a list of operations for a JSON 6902 patch")
	}
	canonical, err := v1alpha1.CanonicalJSON(value)
	if err != nil {
		return "", err
	}
	if len(canonical) > MaxPatchBytes {
		return "", fmt.Errorf("it is %d bytes as JSON, over the limit of %d; split it into several patches", len(canonical), MaxPatchBytes)
	}
	return string(canonical), nil
}

// onlyDocument returns the YAML document of a text that has one.
func onlyDocument(text string) ([]byte, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	var only []byte
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("it is not YAML: %w", err)
		}
		if isBlank(document) {
			continue
		}
		if only != nil {
			return nil, errors.New("it holds several YAML documents; write each of them as a patch of its own")
		}
		only = document
	}
	if only == nil {
		return nil, errors.New("it is empty; write what shall change, or remove the patch")
	}
	return only, nil
}

// isBlank tells whether a YAML document holds comments and white space alone.
func isBlank(document []byte) bool {
	for line := range bytes.Lines(document) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) {
			return false
		}
	}
	return true
}

// parsePatch reads a patch in its canonical form. The error says what is wrong
// with an operation, by its index.
func parsePatch(canonical string) (patch, error) {
	var value any
	if err := utiljson.Unmarshal([]byte(canonical), &value); err != nil {
		return patch{}, fmt.Errorf("read the patch: %w", err)
	}
	switch typed := value.(type) {
	case map[string]any:
		return patch{merge: typed}, nil
	case []any:
		operations := make([]operation, 0, len(typed))
		for i, item := range typed {
			read, err := readOperation(item)
			if err != nil {
				return patch{}, fmt.Errorf("operation %d: %w", i, err)
			}
			operations = append(operations, read)
		}
		return patch{operations: operations}, nil
	}
	return patch{}, errors.New("the patch is neither an object nor a list")
}

func readOperation(item any) (operation, error) {
	fields, ok := item.(map[string]any)
	if !ok {
		return operation{}, errors.New("it is no object; write op, path and value")
	}
	for _, name := range sortedKeys(fields) {
		if !slices.Contains([]string{"op", "path", "from", "value"}, name) {
			return operation{}, fmt.Errorf("an operation has no field %q; there are op, path, from and value", name)
		}
	}
	var read operation
	read.Op, _ = fields["op"].(string)
	read.Path, _ = fields["path"].(string)
	read.From, _ = fields["from"].(string)
	read.Value, read.hasValue = fields["value"]
	needsValue, needsFrom := false, false
	switch read.Op {
	case "add", "replace", "test":
		needsValue = true
	case "move", "copy":
		needsFrom = true
	case "remove":
	default:
		return operation{}, fmt.Errorf("op is %q; write add, remove, replace, move, copy or test", read.Op)
	}
	if !strings.HasPrefix(read.Path, "/") {
		return operation{}, fmt.Errorf("path is %q; write the path of a field, such as /spec/replicas", read.Path)
	}
	if needsFrom && !strings.HasPrefix(read.From, "/") {
		return operation{}, fmt.Errorf("from is %q; write the path of the field that is to be taken", read.From)
	}
	if strings.HasSuffix(read.Path, "/") || strings.HasSuffix(read.From, "/") {
		return operation{}, fmt.Errorf("path %s ends with a slash; write the path of a field, such as /spec/replicas", excerpt(read.Path))
	}
	if !needsFrom && read.From != "" {
		return operation{}, fmt.Errorf("%s takes no from; remove it", read.Op)
	}
	if needsValue && !read.hasValue {
		return operation{}, fmt.Errorf("%s of %s has no value; write one", read.Op, read.Path)
	}
	if strings.Contains(read.Path+read.From, variableStart) {
		return operation{}, fmt.Errorf("path %s holds a variable; variables stand in values only", excerpt(read.Path))
	}
	return read, nil
}

// apply changes an object in place. Errors have the path that they are about.
func (p patch) apply(object *unstructured.Unstructured, replace func(Variable) (string, error)) error {
	if p.merge != nil {
		return p.applyMerge(object, replace)
	}
	return p.applyOperations(object, replace)
}

// applyMerge merges as Kustomize does, but for the order of lists: what is in
// the list already stays where it is and what is new comes after it, since init
// containers run, and variables refer to each other, in order.
func (p patch) applyMerge(object *unstructured.Unstructured, replace func(Variable) (string, error)) error {
	expanded, err := expandAll(p.merge, replace)
	if err != nil {
		return err
	}
	change, _ := expanded.(map[string]any)
	if err := checkForm(change, object.Object); err != nil {
		return err
	}
	from, err := toNode(change)
	if err != nil {
		return err
	}
	into, err := toNode(object.Object)
	if err != nil {
		return err
	}
	merged, err := merge2.Merge(yaml.NewRNode(from), yaml.NewRNode(into), yaml.MergeOptions{
		ListIncreaseDirection: yaml.MergeOptionsListAppend,
	})
	if err != nil {
		return fmt.Errorf("it cannot be merged: %s", excerpt(err.Error()))
	}
	if merged == nil {
		return errors.New("nothing is left of the object; use exclude to leave it out")
	}
	result, err := fromNode(merged.YNode())
	if err != nil {
		return err
	}
	content, ok := result.(map[string]any)
	if !ok {
		return errors.New("nothing is left of the object; use exclude to leave it out")
	}
	object.Object = content
	return nil
}

// checkForm finds where a merge patch has an object, a list or a plain value and
// the object it changes has another of the three.
func checkForm(change, present map[string]any) error {
	for _, key := range sortedKeys(change) {
		before, ok := present[key]
		if !ok || before == nil || change[key] == nil {
			continue
		}
		from, to := formOf(before), formOf(change[key])
		if from != to {
			return atField(fmt.Errorf("the patch has %s where the object has %s; write %s, or replace the field by a JSON 6902 patch", to, from, from), key)
		}
		if inner, ok := change[key].(map[string]any); ok {
			if err := checkForm(inner, before.(map[string]any)); err != nil {
				return atField(err, key)
			}
		}
	}
	return nil
}

func formOf(value any) string {
	switch value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	}
	return "a plain value"
}

// applyOperations applies one operation after the other, so that an error names
// its path. The library is a later version of the one that Kustomize uses, which
// would let a replacement add a field that is not there.
func (p patch) applyOperations(object *unstructured.Unstructured, replace func(Variable) (string, error)) error {
	raw, err := json.Marshal(object.Object)
	if err != nil {
		return err
	}
	for i, operation := range p.operations {
		if operation.Value, err = expandAll(operation.Value, replace); err != nil {
			inner, cause := pathOf(err)
			return &fieldError{operation.Path + inner, cause}
		}
		raw, err = operation.apply(raw)
		if err != nil {
			return &fieldError{operation.Path, fmt.Errorf("operation %d, %s: %w", i, operation.Op, err)}
		}
	}
	var result map[string]any
	if err := utiljson.Unmarshal(raw, &result); err != nil || result == nil {
		return errors.New("nothing is left of the object; use exclude to leave it out")
	}
	object.Object = result
	return nil
}

func (o operation) apply(raw []byte) ([]byte, error) {
	encoded, err := o.encode()
	if err != nil {
		return nil, err
	}
	decoded, err := jsonpatch.DecodePatch(encoded)
	if err != nil {
		return nil, err
	}
	options := jsonpatch.NewApplyOptions()
	options.AccumulatedCopySizeLimit = maxPatchedBytes
	result, err := decoded.ApplyWithOptions(raw, options)
	switch {
	case errors.Is(err, jsonpatch.ErrMissing), errors.Is(err, jsonpatch.ErrInvalidIndex):
		return nil, errors.New("the path does not exist in the object; correct it, or add what leads to it first")
	case errors.Is(err, jsonpatch.ErrTestFailed):
		return nil, errors.New("the object has another value there; correct the patch, or the template")
	case err != nil:
		return nil, fmt.Errorf("it does not apply (%s); correct the path", excerpt(err.Error()))
	case len(result) > maxPatchedBytes:
		return nil, fmt.Errorf("the object would be %d bytes; make the patch smaller", len(result))
	}
	return result, nil
}

// encode writes the operation alone into a patch.
func (o operation) encode() ([]byte, error) {
	fields := map[string]any{"op": o.Op, "path": o.Path}
	if o.From != "" {
		fields["from"] = o.From
	}
	if o.hasValue {
		fields["value"] = o.Value
	}
	return json.Marshal([]any{fields})
}

// tokens splits a JSON pointer.
func tokens(pointer string) []string {
	parts := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, part := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
	}
	return parts
}

// leads tells whether a pointer is at a field, above it or below it.
func leads(pointer string, field ...string) bool {
	for i, token := range tokens(pointer) {
		if i == len(field) {
			return true
		}
		if token != field[i] {
			return false
		}
	}
	return true
}

// quote writes a text for a message, in at most about 60 bytes.
func quote(text string) string { return strconv.Quote(excerpt(text)) }
