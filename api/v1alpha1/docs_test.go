package v1alpha1

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func TestTheReferenceNamesEveryReasonAndCondition(t *testing.T) {
	reference := readReference(t)
	file, err := parser.ParseFile(token.NewFileSet(), "conditions.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(node ast.Node) bool {
		literal, isLiteral := node.(*ast.BasicLit)
		if !isLiteral {
			return true
		}
		found++
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(reference, "`"+value+"`") {
			t.Errorf("docs/api.md does not explain `%s`", value)
		}
		return true
	})
	if found == 0 {
		t.Error("no constant was found in conditions.go")
	}
}

func TestTheReferenceNamesEveryFieldOfTheCRDs(t *testing.T) {
	words := map[string]bool{}
	for _, word := range regexp.MustCompile(`[A-Za-z]+`).FindAllString(readReference(t), -1) {
		words[word] = true
	}
	files, err := filepath.Glob("../../manifests/crds/*.yaml")
	if err != nil || len(files) != 4 {
		t.Fatalf("got CRDs %v and error %v, want four files", files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
			t.Fatal(err)
		}
		for _, path := range fieldPaths(crd.Spec.Names.Kind, *crd.Spec.Versions[0].Schema.OpenAPIV3Schema) {
			if name := path[strings.LastIndex(path, ".")+1:]; !words[name] {
				t.Errorf("docs/api.md does not name %s", path)
			}
		}
	}
}

// fieldPaths lists the fields below a schema, but for those that Kubernetes
// defines: conditions and label selectors.
func fieldPaths(path string, schema apiextensionsv1.JSONSchemaProps) []string {
	if schema.Items != nil && schema.Items.Schema != nil {
		return fieldPaths(path, *schema.Items.Schema)
	}
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		child := path + "." + name
		paths = append(paths, child)
		if name != "conditions" && name != "clusterSelector" {
			paths = append(paths, fieldPaths(child, schema.Properties[name])...)
		}
	}
	return paths
}

func readReference(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
