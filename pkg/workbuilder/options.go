package workbuilder

import (
	"cmp"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// everyName matches all objects of a resource in a manifest config. In orphan
// rules the work agent knows no such wildcard.
const everyName = "*"

// manifestConfigs says for each resource how the work agent applies it.
//
// It is server-side apply with one field manager from the first write on: a
// field that a revision leaves out then vanishes, which a strategy or manager
// changed later would prevent. CustomResourceDefinitions are updated instead,
// because the role of a klusterlet does not let it patch them.
//
// Single objects have a config of their own where they are placeholders, which
// are not applied, or where delivery.ignoreFields leaves fields of them to others.
// Nothing else is set: a condition rule of type Complete would freeze the work for
// ever.
func manifestConfigs(objects []*unstructured.Unstructured, names plurals, rendering Rendering) []workv1.ManifestConfigOption {
	var configs []workv1.ManifestConfigOption
	seen := map[schema.GroupKind]bool{}
	for _, object := range objects {
		kind := groupKindOf(object)
		config := func(namespace, name string, strategy *workv1.UpdateStrategy) {
			for _, resource := range names.candidates(kind) {
				configs = append(configs, workv1.ManifestConfigOption{
					ResourceIdentifier: workv1.ResourceIdentifier{
						Group: kind.Group, Resource: resource, Namespace: namespace, Name: name,
					},
					UpdateStrategy: strategy,
					// The API's default, spelled out so that what the hub stores is what
					// was written.
					FeedbackScrapeType: workv1.FeedbackPollType,
				})
			}
		}
		if isPlaceholder(object) {
			config(object.GetNamespace(), object.GetName(), &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly})
			continue
		}
		if paths := rendering.ignoredFields(object); len(paths) > 0 {
			strategy := updateStrategy(kind, rendering.delivery)
			// Not OnSpokeChange: it resets what others wrote with each revision.
			strategy.ServerSideApply.IgnoreFields = []workv1.IgnoreField{{
				Condition: workv1.IgnoreFieldsConditionOnSpokePresent, JSONPaths: paths,
			}}
			config(object.GetNamespace(), object.GetName(), strategy)
		}
		if !seen[kind] {
			seen[kind] = true
			config(everyName, everyName, updateStrategy(kind, rendering.delivery))
		}
	}
	// The work agent takes the first strategy that matches: single objects go first.
	slices.SortFunc(configs, func(a, b workv1.ManifestConfigOption) int {
		return cmp.Or(
			compareBools(a.ResourceIdentifier.Name == everyName, b.ResourceIdentifier.Name == everyName),
			compareIdentifiers(a.ResourceIdentifier, b.ResourceIdentifier),
		)
	})
	return slices.CompactFunc(configs, func(a, b workv1.ManifestConfigOption) bool {
		return a.ResourceIdentifier == b.ResourceIdentifier
	})
}

// ignoredFields are the paths of an object that delivery.ignoreFields leaves to
// others. spec.replicas of what an autoscaler scales is not among them: it is not
// delivered anyway, and the config would stop the work agent's repair of all else.
func (r Rendering) ignoredFields(object *unstructured.Unstructured) []string {
	if groupKindOf(object) == crdKind {
		return nil // Updated, not applied; refused when the content was frozen.
	}
	var paths []string
	for _, ignored := range r.delivery.IgnoreFields {
		if ignored.Target.Matches(v1alpha1.ReferenceOf(object)) {
			paths = append(paths, ignored.JSONPaths...)
		}
	}
	isReleased := isScalable(groupKindOf(object)) && r.scaled[keyOf(object)]
	paths = slices.DeleteFunc(paths, func(path string) bool { return isReleased && path == ".spec.replicas" })
	slices.Sort(paths)
	return slices.Compact(paths)
}

// executor is the identity whose rights the work agent asks for.
func executor(identity *v1alpha1.Executor) *workv1.ManifestWorkExecutor {
	if identity == nil {
		return nil
	}
	return &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
		Type: workv1.ExecutorSubjectTypeServiceAccount,
		ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{
			Namespace: identity.ServiceAccount.Namespace,
			Name:      identity.ServiceAccount.Name,
		},
	}}
}

// compareBools orders what holds after what does not.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func updateStrategy(kind schema.GroupKind, delivery v1alpha1.DeliveryOptions) *workv1.UpdateStrategy {
	if kind == crdKind {
		return &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeUpdate}
	}
	return &workv1.UpdateStrategy{
		Type: workv1.UpdateStrategyTypeServerSideApply,
		ServerSideApply: &workv1.ServerSideApplyConfig{
			FieldManager: v1alpha1.FieldManager,
			Force:        delivery.ConflictsOrDefault() == v1alpha1.ConflictForce,
		},
	}
}

// orphanRules lists, by exact name, every object that stays whatever happens to
// its work: the work agent takes its owner reference off while the object is still
// listed, and only then does it survive being dropped, or the removal of the work.
// A rule that came together with the drop would be too late, so the rule is there
// from the first write on.
type orphanRules struct {
	builder builder
	rules   []workv1.OrphaningRule
}

func (r *orphanRules) add(object *unstructured.Unstructured) {
	if !r.builder.isHeld(object) {
		return
	}
	kind := groupKindOf(object)
	for _, resource := range r.builder.names.candidates(kind) {
		r.rules = append(r.rules, workv1.OrphaningRule{
			Group: kind.Group, Resource: resource, Namespace: object.GetNamespace(), Name: object.GetName(),
		})
	}
}

// carryOn keeps the rules of the same delivery's earlier phase, so that the phase
// Drop looks the same before and after it is written. Those of earlier deliveries
// have done their work.
func (r *orphanRules) carryOn(work *workv1.ManifestWork) {
	if work.Annotations[v1alpha1.AnnotationDelivery] != strconv.FormatInt(r.builder.rendering.Rendered.Delivery, 10) {
		return
	}
	if option := work.Spec.DeleteOption; option != nil && option.SelectivelyOrphan != nil {
		r.rules = append(r.rules, option.SelectivelyOrphan.OrphaningRules...)
	}
}

func (r *orphanRules) sorted() []workv1.OrphaningRule {
	slices.SortFunc(r.rules, func(a, b workv1.OrphaningRule) int {
		return compareIdentifiers(workv1.ResourceIdentifier(a), workv1.ResourceIdentifier(b))
	})
	return slices.Compact(r.rules)
}

func deleteOption(rules []workv1.OrphaningRule) *workv1.DeleteOption {
	if len(rules) == 0 {
		return &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeForeground}
	}
	return &workv1.DeleteOption{
		PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan,
		SelectivelyOrphan: &workv1.SelectivelyOrphan{OrphaningRules: rules},
	}
}

// Orphaned returns a copy of a work after whose deletion every object stays on
// the cluster (delivery.onDelete: Orphan). The work agent takes the owner
// references off when it applies the copy: delete the work only once it reports
// Applied=True at the generation of this write.
func Orphaned(work *workv1.ManifestWork) (*workv1.ManifestWork, error) {
	orphaned := work.DeepCopy()
	orphaned.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}
	for i, config := range orphaned.Spec.ManifestConfigs {
		if strategy := config.UpdateStrategy; strategy != nil && strategy.Type == workv1.UpdateStrategyTypeReadOnly {
			// What a placeholder stands for keeps its owner otherwise. Of an object
			// that exists, CreateOnly changes the owner alone.
			orphaned.Spec.ManifestConfigs[i].UpdateStrategy = &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeCreateOnly}
		}
	}
	hash, err := SpecHash(orphaned.Spec)
	if err != nil {
		return nil, err
	}
	if orphaned.Annotations == nil {
		orphaned.Annotations = map[string]string{}
	}
	orphaned.Annotations[v1alpha1.AnnotationWorkHash] = hash
	return orphaned, nil
}

func compareIdentifiers(a, b workv1.ResourceIdentifier) int {
	return cmp.Or(
		cmp.Compare(a.Group, b.Group),
		cmp.Compare(a.Resource, b.Resource),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
	)
}
