package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// rolloutsIn returns the FleetRollouts in a file of YAML documents, or in the
// YAML blocks of a Markdown file.
func rolloutsIn(file string) []*unstructured.Unstructured {
	GinkgoHelper()
	var rollouts []*unstructured.Unstructured
	for _, document := range documentsOf(file, "FleetRollout") {
		rollouts = append(rollouts, rolloutFrom(document))
	}
	return rollouts
}

// documentsOf returns the YAML documents of a kind in such a file.
func documentsOf(file, kind string) []string {
	GinkgoHelper()
	text, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	documents := strings.Split(string(text), "\n---\n")
	if filepath.Ext(file) == ".md" {
		documents = nil
		for _, block := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
			documents = append(documents, block[1])
		}
	}
	return slices.DeleteFunc(documents, func(document string) bool {
		return !strings.Contains(document, "kind: "+kind+"\n")
	})
}

var _ = Describe("What people copy from us", func() {
	DescribeTable("is accepted by the API server", func(ctx SpecContext, pattern string) {
		files, err := filepath.Glob(filepath.Join("..", "..", pattern))
		Expect(err).NotTo(HaveOccurred())
		var rollouts []*unstructured.Unstructured
		for _, file := range files {
			rollouts = slices.Concat(rollouts, rolloutsIn(file))
		}
		Expect(rollouts).NotTo(BeEmpty())
		namespace := newNamespace(ctx)
		for _, rollout := range rollouts {
			rollout.SetNamespace(namespace)
			Expect(k8s.Create(ctx, rollout, client.DryRunAll)).To(Succeed())
		}
	},
		Entry("the reference", "docs/api.md"),
		Entry("the README", "README.md"),
		Entry("the examples", "examples/*/*.yaml"),
	)

	It("is an order that its actor may give", func(ctx SpecContext) {
		documents := documentsOf(filepath.Join("..", "..", "docs", "api.md"), "RolloutAction")
		Expect(documents).NotTo(BeEmpty())
		namespace := newNamespace(ctx)
		for _, document := range documents {
			action := objectFrom(document)
			action.SetNamespace(namespace)
			actor, _, err := unstructured.NestedString(action.Object, "spec", "actor")
			Expect(err).NotTo(HaveOccurred())
			Expect(clientOf(actor, "system:masters").Create(ctx, action, client.DryRunAll)).To(Succeed())
		}
	})
})
