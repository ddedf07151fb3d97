package workbuilder

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func TestWorkIsNamedLabelledAndAnnotatedForTheRollout(t *testing.T) {
	work := written(t, request(t, 7, payload("1.0.0", configMapYAML)))
	if work.Namespace != "c1" || work.Name != v1alpha1.WorkName("platform", "payments", 0) || len(work.Name) > 63 {
		t.Errorf("work %s/%s", work.Namespace, work.Name)
	}
	wantLabels := map[string]string{
		v1alpha1.LabelRolloutNamespace: "platform",
		v1alpha1.LabelRolloutName:      "payments",
		v1alpha1.LabelRolloutUID:       "uid-1",
	}
	if diff := cmp.Diff(wantLabels, work.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	hash, err := SpecHash(work.Spec)
	if err != nil {
		t.Fatal(err)
	}
	wantAnnotations := map[string]string{
		v1alpha1.AnnotationDelivery: "7",
		v1alpha1.AnnotationPhase:    "Drop",
		v1alpha1.AnnotationWorkHash: hash,
	}
	if diff := cmp.Diff(wantAnnotations, work.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if work.Spec.Executor != nil || len(work.OwnerReferences) > 0 || len(work.Finalizers) > 0 {
		t.Errorf("the work has an executor, an owner or a finalizer")
	}
}

func TestEveryResourceIsAppliedServerSideByOneManagerForEver(t *testing.T) {
	for _, policy := range []v1alpha1.ConflictPolicy{"", v1alpha1.ConflictForce, v1alpha1.ConflictFail} {
		content := payload("1.0.0", deploymentYAML, configMapYAML, crdYAML, customYAML, namespaceYAML)
		content.Delivery.Conflicts = policy
		work := written(t, request(t, 1, content))
		got := map[string]string{}
		for _, config := range work.Spec.ManifestConfigs {
			id := config.ResourceIdentifier
			if id.Name != "*" || id.Namespace != "*" {
				t.Errorf("config of %s is about %s/%s alone", id.Resource, id.Namespace, id.Name)
			}
			if len(config.ConditionRules)+len(config.FeedbackRules) > 0 {
				t.Errorf("config of %s has rules", id.Resource)
			}
			strategy := string(config.UpdateStrategy.Type)
			if apply := config.UpdateStrategy.ServerSideApply; apply != nil {
				strategy = fmt.Sprintf("%s by %s, force %t, ignoring %d", strategy, apply.FieldManager, apply.Force, len(apply.IgnoreFields))
			}
			got[id.Group+"/"+id.Resource] = strategy
		}
		apply := fmt.Sprintf("ServerSideApply by work-agent-fleet-rollout, force %t, ignoring 0", policy != v1alpha1.ConflictFail)
		want := map[string]string{
			"/namespaces":      apply,
			"/configmaps":      apply,
			"apps/deployments": apply,
			"example.com/data": apply,
			"apiextensions.k8s.io/customresourcedefinitions": "Update",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("conflicts %q: configs (-want +got):\n%s", policy, diff)
		}
	}
}

func TestObjectsOfEarlierContentAreDroppedInASecondWrite(t *testing.T) {
	first := written(t, request(t, 1, payload("1.0.0", namespaceYAML, configMapYAML, claimYAML, deploymentYAML)))
	next := render(t, request(t, 2, payload("2.0.0", namespaceYAML, strings.ReplaceAll(deploymentYAML, "api:1", "api:2"))))

	add := works(t, next, v1alpha1.PhaseAdd, first)
	if diff := cmp.Diff("Namespace/shop ConfigMap/settings PersistentVolumeClaim/data Deployment/api", carriedBy(t, add.Works[0])); diff != "" {
		t.Errorf("phase Add carries (-want +got):\n%s", diff)
	}
	if !strings.Contains(string(add.Works[0].Spec.Workload.Manifests[3].Raw), "api:2") {
		t.Errorf("phase Add carries the Deployment in its old content")
	}
	wantDropped := []v1alpha1.ObjectReference{{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "settings"}}
	wantKept := []v1alpha1.ObjectReference{{Version: "v1", Kind: "PersistentVolumeClaim", Namespace: "shop", Name: "data"}}
	drop := works(t, next, v1alpha1.PhaseDrop, add.Works...)
	for phase, set := range map[string]WorkSet{"Add": add, "Drop": drop} {
		if diff := cmp.Diff(wantDropped, set.Dropped); diff != "" {
			t.Errorf("phase %s drops (-want +got):\n%s", phase, diff)
		}
		if diff := cmp.Diff(wantKept, set.Kept); diff != "" {
			t.Errorf("phase %s keeps (-want +got):\n%s", phase, diff)
		}
		if !set.LeavesOut() {
			t.Errorf("phase %s says that nothing is left out", phase)
		}
	}
	if diff := cmp.Diff("Namespace/shop Deployment/api", carriedBy(t, drop.Works[0])); diff != "" {
		t.Errorf("phase Drop carries (-want +got):\n%s", diff)
	}
}

func TestOldObjectKeepsItsContentWhileItIsStillCarried(t *testing.T) {
	first := written(t, request(t, 1, payload("1.0.0", configMapYAML, deploymentYAML)))
	add := works(t, render(t, request(t, 2, payload("2.0.0", deploymentYAML))), v1alpha1.PhaseAdd, first).Works[0]
	if diff := cmp.Diff(string(first.Spec.Workload.Manifests[0].Raw), string(add.Spec.Workload.Manifests[0].Raw)); diff != "" {
		t.Errorf("the ConfigMap (-first +add):\n%s", diff)
	}
}

func TestOneWriteIsEnoughWhereNothingIsLeftOut(t *testing.T) {
	first := written(t, request(t, 1, payload("1.0.0", deploymentYAML)))
	grown := render(t, request(t, 2, payload("2.0.0", deploymentYAML, configMapYAML)))
	if works(t, grown, v1alpha1.PhaseAdd, first).LeavesOut() {
		t.Errorf("content that only grows leaves something out")
	}
	moved := render(t, request(t, 2, payload("2.0.0", strings.Replace(deploymentYAML, "apps/v1", "apps/v1beta2", 1))))
	if works(t, moved, v1alpha1.PhaseAdd, first).LeavesOut() {
		t.Errorf("another API version of the same object leaves the object out")
	}
}

func TestDataIsOrphanedFromItsFirstWriteOn(t *testing.T) {
	work := written(t, request(t, 1, payload("1.0.0", namespaceYAML, crdYAML, claimYAML, volumeYAML, configMapYAML)))
	want := &workv1.DeleteOption{
		PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan,
		SelectivelyOrphan: &workv1.SelectivelyOrphan{OrphaningRules: []workv1.OrphaningRule{
			{Resource: "namespaces", Name: "shop"},
			{Resource: "persistentvolumeclaims", Namespace: "shop", Name: "data"},
			{Resource: "persistentvolumes", Name: "disk"},
			{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: "data.example.com"},
		}},
	}
	if diff := cmp.Diff(want, work.Spec.DeleteOption); diff != "" {
		t.Errorf("deleteOption (-want +got):\n%s", diff)
	}
}

func TestKeptObjectIsOrphanedThroughBothPhasesAndForgottenAfterwards(t *testing.T) {
	first := written(t, request(t, 1, payload("1.0.0", claimYAML, configMapYAML)))
	next := render(t, request(t, 2, payload("2.0.0", configMapYAML)))
	add := works(t, next, v1alpha1.PhaseAdd, first).Works[0]
	drop := works(t, next, v1alpha1.PhaseDrop, add).Works[0]
	rule := []workv1.OrphaningRule{{Resource: "persistentvolumeclaims", Namespace: "shop", Name: "data"}}
	for phase, work := range map[string]*workv1.ManifestWork{"Add": add, "Drop": drop} {
		if work.Spec.DeleteOption.SelectivelyOrphan == nil {
			t.Fatalf("phase %s has no orphan rule", phase)
		}
		if diff := cmp.Diff(rule, work.Spec.DeleteOption.SelectivelyOrphan.OrphaningRules); diff != "" {
			t.Errorf("phase %s: rules (-want +got):\n%s", phase, diff)
		}
	}
	later := written(t, request(t, 3, payload("3.0.0", strings.Replace(configMapYAML, "hello", "bye", 1))), drop)
	if later.Spec.DeleteOption.SelectivelyOrphan != nil {
		t.Errorf("the next delivery still has the rule, and so on for ever")
	}
}

func TestWritingTheSamePhaseAgainGivesTheSameBytes(t *testing.T) {
	first := written(t, request(t, 1, payload("1.0.0", namespaceYAML, claimYAML, configMapYAML, jobYAML)))
	next := request(t, 2, payload("2.0.0", namespaceYAML, deploymentYAML))
	next.Present = []*workv1.ManifestWork{first}
	add := works(t, render(t, next), v1alpha1.PhaseAdd, first).Works[0]
	next.Present = []*workv1.ManifestWork{add}
	if diff := cmp.Diff(add, works(t, render(t, next), v1alpha1.PhaseAdd, add).Works[0]); diff != "" {
		t.Errorf("phase Add, written twice (-first +second):\n%s", diff)
	}
	drop := works(t, render(t, next), v1alpha1.PhaseDrop, add).Works[0]
	next.Present = []*workv1.ManifestWork{drop}
	if diff := cmp.Diff(drop, works(t, render(t, next), v1alpha1.PhaseDrop, drop).Works[0]); diff != "" {
		t.Errorf("phase Drop, written twice (-first +second):\n%s", diff)
	}
}

func TestNoWorkIsBetterThanAnEmptyOne(t *testing.T) {
	r1 := payload("1.0.0", jobYAML)
	first := written(t, request(t, 1, r1))
	back := request(t, 3, r1)
	back.Spec.Direction = v1alpha1.DirectionRollback
	back.CompletedJobs = []v1alpha1.CompletedJob{render(t, request(t, 1, r1)).Jobs[0].Job}
	rendering := render(t, back)
	if len(rendering.Rendered.Works) > 0 {
		t.Errorf("works %v are recorded for nothing", rendering.Rendered.Works)
	}
	set := works(t, rendering, v1alpha1.PhaseDrop, first)
	if len(set.Works) != 0 || len(set.Dropped) != 1 {
		t.Errorf("%d works and %d dropped objects, want 0 and 1", len(set.Works), len(set.Dropped))
	}
}

func TestUnknownPhaseIsRefused(t *testing.T) {
	if _, err := Works(render(t, request(t, 1, payload("1.0.0", configMapYAML))), "", nil); err == nil {
		t.Error("no error")
	}
}

func TestOrphanedWorkLeavesEverything(t *testing.T) {
	work := written(t, request(t, 1, payload("1.0.0", namespaceYAML, configMapYAML)))
	before := work.DeepCopy()
	orphaned, err := Orphaned(work)
	if err != nil {
		t.Fatal(err)
	}
	if got := orphaned.Spec.DeleteOption; got.PropagationPolicy != workv1.DeletePropagationPolicyTypeOrphan || got.SelectivelyOrphan != nil {
		t.Errorf("deleteOption %+v", got)
	}
	if orphaned.Annotations[v1alpha1.AnnotationWorkHash] == work.Annotations[v1alpha1.AnnotationWorkHash] {
		t.Errorf("the work hash did not change with the spec")
	}
	if diff := cmp.Diff(before, work); diff != "" {
		t.Errorf("the given work was changed:\n%s", diff)
	}
}

func TestResourceNamesOfKinds(t *testing.T) {
	rendering := func(manifests ...string) []string {
		var resources []string
		for _, config := range written(t, request(t, 1, payload("1.0.0", manifests...))).Spec.ManifestConfigs {
			if id := config.ResourceIdentifier; id.Group != crdGroup {
				resources = append(resources, id.Resource)
			}
		}
		return resources
	}
	object := func(apiVersion, kind string) string {
		return fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: x, namespace: shop}}", apiVersion, kind)
	}
	cases := map[string]struct {
		manifests []string
		want      []string
	}{
		"plain":                           {[]string{object("v1", "Service")}, []string{"services"}},
		"kind that is its own plural":     {[]string{object("v1", "Endpoints")}, []string{"endpoints"}},
		"ending in y":                     {[]string{object("networking.k8s.io/v1", "NetworkPolicy")}, []string{"networkpolicies"}},
		"ending in ss":                    {[]string{object("networking.k8s.io/v1", "Ingress")}, []string{"ingresses"}},
		"custom kind with its definition": {[]string{crdYAML, customYAML}, []string{"data"}},
		"custom kind without: every usual spelling": {[]string{object("gateway.networking.k8s.io/v1", "Gateway")}, []string{"gatewaies", "gateway", "gatewayes", "gateways"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, rendering(c.manifests...)); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
		})
	}
}
