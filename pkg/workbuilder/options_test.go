package workbuilder

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func TestExecutorIsOnEveryWork(t *testing.T) {
	content := payload("1.0.0", configMaps(200, "a", "b", "c")...)
	content.Delivery.Executor = &v1alpha1.Executor{ServiceAccount: v1alpha1.ExecutorServiceAccount{Namespace: "shop", Name: "deployer"}}
	set := works(t, render(t, request(t, 1, content)), v1alpha1.PhaseDrop)
	if len(set.Works) != 2 {
		t.Fatalf("%d works, want 2", len(set.Works))
	}
	want := &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
		Type:           workv1.ExecutorSubjectTypeServiceAccount,
		ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: "shop", Name: "deployer"},
	}}
	for _, work := range set.Works {
		if diff := cmp.Diff(want, work.Spec.Executor); diff != "" {
			t.Errorf("work %s (-want +got):\n%s", work.Name, diff)
		}
	}
}

// ignored maps single objects with a config of their own to the paths in it.
func ignored(t testing.TB, work *workv1.ManifestWork) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	sawAll := false
	for _, config := range work.Spec.ManifestConfigs {
		id := config.ResourceIdentifier
		if id.Name == "*" {
			sawAll = true
			continue
		}
		if sawAll {
			t.Errorf("the config of %s comes after those of all objects, and the work agent takes the first", id.Name)
		}
		apply := config.UpdateStrategy.ServerSideApply
		if apply.FieldManager != v1alpha1.FieldManager || len(apply.IgnoreFields) != 1 || apply.IgnoreFields[0].Condition != workv1.IgnoreFieldsConditionOnSpokePresent {
			t.Errorf("the config of %s is %+v", id.Name, apply)
			continue
		}
		found[id.Resource+" "+id.Namespace+"/"+id.Name] = apply.IgnoreFields[0].JSONPaths
	}
	return found
}

func TestIgnoredFieldsAreThoseOfSingleObjectsByName(t *testing.T) {
	content := payload("1.0.0", deploymentYAML, strings.ReplaceAll(deploymentYAML, "name: api,", "name: web,"), configMapYAML)
	content.Delivery.IgnoreFields = []v1alpha1.IgnoredFields{
		{Target: v1alpha1.ObjectTarget{Kind: "Deployment"}, JSONPaths: []string{".spec.replicas"}},
		{Target: v1alpha1.ObjectTarget{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}, JSONPaths: []string{".spec.paused", ".spec.replicas"}},
	}
	want := map[string][]string{
		"deployments shop/api": {".spec.replicas"},
		"deployments shop/web": {".spec.paused", ".spec.replicas"},
	}
	if diff := cmp.Diff(want, ignored(t, written(t, request(t, 1, content)))); diff != "" {
		t.Errorf("ignored (-want +got):\n%s", diff)
	}
}

// Case L4: what the autoscaler scales is not delivered in the first place, so the
// work agent goes on to repair the rest of the object.
func TestIgnoredReplicasOfAScaledWorkloadNeedNoConfig(t *testing.T) {
	content := payload("1.0.0", deploymentYAML, scalerYAML)
	content.Delivery.IgnoreFields = []v1alpha1.IgnoredFields{{Target: v1alpha1.ObjectTarget{Kind: "Deployment", Name: "api"}, JSONPaths: []string{".spec.replicas"}}}
	work := written(t, request(t, 1, content))
	if got := ignored(t, work); len(got) > 0 {
		t.Errorf("ignored %v", got)
	}
	if strings.Contains(string(work.Spec.Workload.Manifests[0].Raw), "replicas") {
		t.Errorf("replicas are delivered: %s", work.Spec.Workload.Manifests[0].Raw)
	}
	content.Delivery.IgnoreFields[0].JSONPaths = []string{".spec.replicas", ".spec.paused"}
	want := map[string][]string{"deployments shop/api": {".spec.paused"}}
	if diff := cmp.Diff(want, ignored(t, written(t, request(t, 1, content)))); diff != "" {
		t.Errorf("ignored (-want +got):\n%s", diff)
	}
}

// Case L4: a new image changes nothing about replicas, in any revision.
func TestScaledWorkloadIsReleasedFromItsFirstRevisionOn(t *testing.T) {
	first := written(t, request(t, 1, payload("1.0.0", deploymentYAML, scalerYAML)))
	second := written(t, request(t, 2, payload("1.1.0", strings.ReplaceAll(deploymentYAML, "api:1", "api:2"), scalerYAML)), first)
	before, after := must(Objects([]*workv1.ManifestWork{first}))[0], must(Objects([]*workv1.ManifestWork{second}))[0]
	for _, object := range []map[string]any{before.Object, after.Object} {
		if _, ok := object["spec"].(map[string]any)["replicas"]; ok {
			t.Errorf("replicas are delivered: %v", object["spec"])
		}
	}
}

func TestUnadoptedObjectIsOrphanedByNameInEveryWorkThatListsIt(t *testing.T) {
	cluster := &stage{t: t}
	unadopted := []v1alpha1.ObjectReference{
		{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "d"},
		{Group: "gateway.example.com", Version: "v1", Kind: "Gateway", Namespace: "shop", Name: "x"},
	}
	deliver := func(number int64, content v1alpha1.RevisionPayload) (add, drop WorkSet) {
		delivery := request(t, number, content)
		delivery.Unadopted = unadopted
		return cluster.phase(delivery, v1alpha1.PhaseAdd), cluster.phase(delivery, v1alpha1.PhaseDrop)
	}
	const gateway = "{apiVersion: gateway.example.com/v1, kind: Gateway, metadata: {name: x, namespace: shop}}"
	deliver(1, payload("1.0.0", append(configMaps(100, "a", "b", "c", "d"), gateway)...))
	orphans := func(work *workv1.ManifestWork) string {
		var names []string
		if option := work.Spec.DeleteOption; option.SelectivelyOrphan != nil {
			for _, rule := range option.SelectivelyOrphan.OrphaningRules {
				names = append(names, rule.Resource+" "+rule.Namespace+"/"+rule.Name)
			}
		}
		return strings.Join(names, ", ")
	}
	// The hub does not know the plural of a kind that is not built in.
	const gateways = "gatewaies shop/x, gateway shop/x, gatewayes shop/x, gateways shop/x"
	if got := orphans(cluster.present[0]); got != "configmaps shop/d, "+gateways {
		t.Errorf("orphaned are %s", got)
	}
	add, drop := deliver(2, payload("2.0.0", configMaps(130, "a", "b", "c", "d")...))
	if got := orphans(add.Works[0]); got != "configmaps shop/d, "+gateways {
		t.Errorf("phase Add: the part that lists it for the last time orphans %s", got)
	}
	if got := orphans(add.Works[1]); got != "configmaps shop/d" {
		t.Errorf("phase Add: the new part orphans %s", got)
	}
	if len(add.Kept) != 1 || add.Kept[0].Kind != "Gateway" || len(add.Dropped) > 0 {
		t.Errorf("kept %v, dropped %v", add.Kept, add.Dropped)
	}
	if got := orphans(drop.Works[1]); got != "configmaps shop/d" {
		t.Errorf("phase Drop: the new part orphans %s", got)
	}
}

// A placeholder does not take its object's owner off, so an orphaned work must not
// have any left.
func TestOrphanedWorkReleasesWhatItOnlyLists(t *testing.T) {
	cluster := &stage{t: t}
	cluster.deliver(request(t, 1, payload("1.0.0", configMaps(100, "a", "b", "c", "d")...)))
	cluster.phase(request(t, 2, payload("2.0.0", configMaps(130, "a", "b", "c", "d")...)), v1alpha1.PhaseAdd)
	orphaned := must(Orphaned(cluster.present[0]))
	if got := orphaned.Spec.ManifestConfigs[0]; got.ResourceIdentifier.Name != "d" || got.UpdateStrategy.Type != workv1.UpdateStrategyTypeCreateOnly {
		t.Errorf("the first config is %+v", got)
	}
	if got := cluster.present[0].Spec.ManifestConfigs[0].UpdateStrategy.Type; got != workv1.UpdateStrategyTypeReadOnly {
		t.Errorf("the given work was changed to %s", got)
	}
}

// Case H9: an order that the cluster cannot apply in one go is put right.
func TestNamespaceAndDefinitionComeBeforeWhatNeedsThemWhateverTheTemplatesOrder(t *testing.T) {
	work := written(t, request(t, 1, payload("1.0.0", customYAML, deploymentYAML, crdYAML, namespaceYAML)))
	if diff := cmp.Diff("Namespace/shop CustomResourceDefinition/data.example.com Deployment/api Datum/one", carriedBy(t, work)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// Case H10: what the server fills in is neither delivered nor blanked.
func TestFieldsThatTheServerFillsInAreNotDelivered(t *testing.T) {
	const service = "{apiVersion: v1, kind: Service, metadata: {name: api, namespace: shop}, spec: {ports: [{port: 80}]}}"
	first := written(t, request(t, 1, payload("1.0.0", service, claimYAML)))
	second := written(t, request(t, 2, payload("1.1.0", strings.Replace(service, "80", "81", 1), claimYAML)), first)
	back := request(t, 3, payload("1.0.0", service, claimYAML))
	back.Spec.Direction = v1alpha1.DirectionRollback
	for _, work := range []*workv1.ManifestWork{first, second, written(t, back, second)} {
		for _, manifest := range work.Spec.Workload.Manifests {
			for _, field := range []string{"clusterIP", "volumeName", "storageClassName", "null"} {
				if strings.Contains(string(manifest.Raw), field) {
					t.Errorf("%s is delivered in %s", field, manifest.Raw)
				}
			}
		}
	}
}

// Each of these would stop a work from ever changing again, or a cluster from being
// detached.
func TestNothingIsEmittedThatFreezesWorksOrBlocksDetaching(t *testing.T) {
	cluster := &stage{t: t}
	content := payload("1.0.0", append(configMaps(100, "a", "b", "c", "d"), deploymentYAML, jobYAML, crdYAML, customYAML)...)
	content.Delivery.IgnoreFields = []v1alpha1.IgnoredFields{{Target: v1alpha1.ObjectTarget{Kind: "Deployment"}, JSONPaths: []string{".spec.replicas"}}}
	cluster.deliver(request(t, 1, content))
	cluster.phase(request(t, 2, payload("2.0.0", configMaps(130, "a", "b", "c", "d")...)), v1alpha1.PhaseAdd)
	for _, work := range cluster.present {
		if len(work.Finalizers)+len(work.OwnerReferences) > 0 || len(work.Spec.Workload.Manifests) == 0 {
			t.Errorf("work %s has finalizers, owners or no manifest", work.Name)
		}
		for _, config := range work.Spec.ManifestConfigs {
			if len(config.ConditionRules) > 0 {
				t.Errorf("work %s has condition rules", work.Name)
			}
		}
	}
}
