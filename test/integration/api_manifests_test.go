package integration

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// settings is the one manifest of validRollout.
const settings = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: payments}, data: {mode: careful}}"

var _ = Describe("The manifests of a FleetRollout", func() {
	DescribeTable("are refused with component, kind, name and the fix", func(ctx SpecContext, r rule) {
		r.place = settings
		r.hold(ctx)
	},
		Entry("a component has a manifest", rule{
			accept: []string{settings},
			refuse: []string{""},
			says:   []string{"spec.template.components[0].manifests", "at least 1 item"},
		}),
		Entry("a manifest has an apiVersion", rule{
			accept: []string{"{apiVersion: apps/v1, kind: Deployment, metadata: {name: api}}"},
			refuse: []string{"{kind: ConfigMap, metadata: {name: settings}}"},
			says:   []string{"spec.template.components[0].manifests[0].apiVersion", "Required value"},
		}),
		Entry("a manifest has a kind", rule{
			accept: []string{"{apiVersion: example.com/v1, kind: Gadget, metadata: {name: api}, anything: [1, {a: b}]}"},
			refuse: []string{"{apiVersion: v1, metadata: {name: settings}}"},
			says:   []string{"spec.template.components[0].manifests[0].kind", "Required value"},
		}),
		Entry("a manifest has a name", rule{
			accept: []string{"{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}"},
			refuse: []string{
				"{apiVersion: v1, kind: ConfigMap}",
				"{apiVersion: v1, kind: ConfigMap, metadata: {namespace: payments}}",
				`{apiVersion: v1, kind: ConfigMap, metadata: {name: ""}}`,
				"{apiVersion: v1, kind: ConfigMap, metadata: {generateName: settings-}}",
				"{apiVersion: apps/v1, kind: DeploymentList, items: []}",
			},
			says: []string{"spec.template.components[0].manifests[0]", "metadata.name is missing", "give the object a fixed name"},
		}),
		Entry("the second manifest is checked as well", rule{
			accept: []string{settings + ", {apiVersion: v1, kind: ConfigMap, metadata: {name: more}}"},
			refuse: []string{settings + ", {apiVersion: v1, kind: ConfigMap, metadata: {}}"},
			says:   []string{"spec.template.components[0].manifests[1]", "metadata.name is missing"},
		}),
		Entry("a List is not an object", rule{
			accept: []string{"{apiVersion: v1, kind: Namespace, metadata: {name: payments}}, {apiVersion: v1, kind: ServiceAccount, metadata: {name: api, namespace: payments}}"},
			refuse: []string{
				"{apiVersion: v1, kind: List, items: [" + settings + "]}",
				"{apiVersion: v1, kind: List, metadata: {name: all}, items: []}",
			},
			says: []string{"spec.template.components[0].manifests[0]", "write its items here one by one"},
		}),
		Entry("a list of one kind is not an object, though a kind may end in List", rule{
			accept: []string{"{apiVersion: example.com/v1, kind: AllowList, metadata: {name: partners}, spec: {items: [a]}}"},
			refuse: []string{"{apiVersion: apps/v1, kind: DeploymentList, metadata: {name: all}, items: []}"},
			says:   []string{"spec.template.components", `component "api": DeploymentList "all" is a list`, "write its items in manifests one by one"},
		}),
		Entry("a Secret holds no data", rule{
			accept: []string{
				"{apiVersion: v1, kind: Secret, metadata: {name: token}, type: kubernetes.io/service-account-token}",
				"{apiVersion: example.com/v1, kind: Secret, metadata: {name: not-the-core-kind}, data: {a: b}}",
			},
			refuse: []string{
				"{apiVersion: v1, kind: Secret, metadata: {name: creds}, data: {password: czNjcjN0}}",
				"{apiVersion: v1, kind: Secret, metadata: {name: creds}, stringData: {password: s3cr3t}}",
				settings + ", {apiVersion: v1, kind: Secret, metadata: {name: creds}, immutable: true, stringData: {}}",
			},
			says: []string{"spec.template.components", `component "api": Secret "creds" holds data or stringData inline`, "a Secret that manifestsFrom names"},
		}),
		Entry("a Job does not expire", rule{
			accept: []string{
				"{apiVersion: batch/v1, kind: Job, metadata: {name: migrate}, spec: {backoffLimit: 1}}",
				"{apiVersion: batch/v1, kind: Job, metadata: {name: migrate}}",
				"{apiVersion: batch/v1, kind: CronJob, metadata: {name: nightly}, spec: {jobTemplate: {spec: {ttlSecondsAfterFinished: 60}}}}",
			},
			refuse: []string{
				"{apiVersion: batch/v1, kind: Job, metadata: {name: migrate}, spec: {ttlSecondsAfterFinished: 0}}",
				"{apiVersion: batch/v1, kind: Job, metadata: {name: migrate}, spec: {ttlSecondsAfterFinished: 3600}}",
			},
			says: []string{"spec.template.components", `component "api": Job "migrate" has spec.ttlSecondsAfterFinished`, "run it again", "remove the field"},
		}),
	)

	It("may be many: 500 in one component and 700 KiB in all fit the cost limits", func(ctx SpecContext) {
		rollout := rolloutFrom(validRollout)
		rollout.SetName("big")
		rollout.SetNamespace(newNamespace(ctx))
		manifests := make([]any, 500)
		for i := range manifests {
			manifests[i] = map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": map[string]any{"name": fmt.Sprintf("settings-%d", i), "namespace": "payments"},
				"data":     map[string]any{"text": strings.Repeat("x", 1350)},
			}
		}
		setManifests(rollout, manifests)
		raw, err := rollout.MarshalJSON()
		Expect(err).NotTo(HaveOccurred())
		Expect(len(raw)).To(BeNumerically(">", 700<<10))

		Expect(k8s.Create(ctx, rollout)).To(Succeed())
		By("keeping what is inside of them")
		var stored v1alpha1.FleetRollout
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(rollout), &stored)).To(Succeed())
		Expect(stored.Spec.Template.Components[0].Manifests).To(HaveLen(500))
		Expect(string(stored.Spec.Template.Components[0].Manifests[499].Raw)).To(ContainSubstring(strings.Repeat("x", 1350)))
		By("refusing one too many")
		tooMany := rolloutFrom(validRollout)
		setManifests(tooMany, append(manifests, manifests[0]))
		Expect(k8s.Create(ctx, tooMany, client.DryRunAll)).To(MatchError(ContainSubstring("at most 500 items")))
	})

	It("may be many in as many components, groups and steps as there can be", func(ctx SpecContext) {
		rollout := rolloutFrom(validRollout)
		var components, groups, placements, cumulative []any
		for i := range 20 {
			cumulative = append(cumulative, map[string]any{"clusters": fmt.Sprintf("%d%%", 5*(i+1))})
		}
		for i := range 32 {
			var manifests []any
			for j := range 200 {
				manifests = append(manifests, map[string]any{
					"apiVersion": "batch/v1", "kind": "Job", "spec": map[string]any{},
					"metadata": map[string]any{"name": fmt.Sprintf("job-%d-%d", i, j)},
				})
			}
			components = append(components, map[string]any{"name": fmt.Sprintf("component-%d", i), "manifests": manifests})
		}
		for i := range 16 {
			placements = append(placements, map[string]any{"name": fmt.Sprintf("placement-%d", i)})
			groups = append(groups, map[string]any{"name": fmt.Sprintf("group-%d", i), "clusterSelector": map[string]any{}, "steps": cumulative})
		}
		Expect(unstructured.SetNestedSlice(rollout.Object, components, "spec", "template", "components")).To(Succeed())
		Expect(unstructured.SetNestedSlice(rollout.Object, groups, "spec", "strategy", "groups")).To(Succeed())
		Expect(unstructured.SetNestedSlice(rollout.Object, placements, "spec", "placements")).To(Succeed())
		Expect(k8s.Create(ctx, rollout, client.DryRunAll)).To(Succeed())
	})
})

var _ = Describe("The admission policy of FleetRollouts", func() {
	It("leaves a rollout from before it manageable, and refuses a new spec that breaks it", func(ctx SpecContext) {
		rollout := rolloutFrom(validRollout)
		rollout.SetName(fromBeforePolicy.Name)
		Expect(edit(ctx, rollout, func(r *unstructured.Unstructured) {
			r.SetLabels(map[string]string{"team": "payments"})
			r.SetFinalizers([]string{"example.com/hold"})
		})).To(Succeed())
		Expect(edit(ctx, rollout, func(r *unstructured.Unstructured) {
			Expect(unstructured.SetNestedField(r.Object, true, "spec", "paused")).To(Succeed())
		})).To(MatchError(ContainSubstring("a Secret that manifestsFrom names")))

		Expect(k8s.Delete(ctx, rollout)).To(Succeed())
		Expect(edit(ctx, rollout, func(r *unstructured.Unstructured) { r.SetFinalizers(nil) })).To(Succeed())
		Eventually(ctx, func(ctx context.Context) error {
			return k8s.Get(ctx, fromBeforePolicy, rollout)
		}).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
	})
})

var _ = Describe("A field that the API does not know", func() {
	const misspelt = "strategy:\n    failureBugdet: {clusters: 3}"
	It("is refused with its path under strict validation, and pruned without", func(ctx SpecContext) {
		rollout := rolloutFrom(strings.Replace(validRollout, "strategy:", misspelt, 1))
		Expect(k8s.Create(ctx, rollout.DeepCopy(), client.DryRunAll)).To(
			MatchError(ContainSubstring(`unknown field "spec.strategy.failureBugdet"`)))

		lenient := client.WithFieldValidation(k8s, metav1.FieldValidationIgnore)
		Expect(lenient.Create(ctx, rollout, client.DryRunAll, client.FieldValidation(metav1.FieldValidationIgnore))).To(Succeed())
		_, found, err := unstructured.NestedFieldNoCopy(rollout.Object, "spec", "strategy", "failureBugdet")
		Expect(err).NotTo(HaveOccurred())
		Expect(found).To(BeFalse())
	})

	It("stays in a manifest, where it is not ours to judge", func(ctx SpecContext) {
		rollout := rolloutFrom(strings.Replace(validRollout, "mode: careful}", "mode: careful}, unheardOf: {a: [1, two]}", 1))
		Expect(k8s.Create(ctx, rollout, client.DryRunAll)).To(Succeed())
		components, _, err := unstructured.NestedSlice(rollout.Object, "spec", "template", "components")
		Expect(err).NotTo(HaveOccurred())
		object := components[0].(map[string]any)["manifests"].([]any)[0].(map[string]any)
		Expect(object).To(HaveKeyWithValue("unheardOf", map[string]any{"a": []any{int64(1), "two"}}))
	})
})

// setManifests replaces the manifests of the first component.
func setManifests(rollout *unstructured.Unstructured, manifests []any) {
	GinkgoHelper()
	component := map[string]any{"name": "api", "manifests": manifests}
	Expect(unstructured.SetNestedSlice(rollout.Object, []any{component}, "spec", "template", "components")).To(Succeed())
}
