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
// Nothing else is set. A condition rule of type Complete would freeze the work
// for ever, and an ignored field would both reset what others wrote and stop the
// work agent's own repair of drift.
func manifestConfigs(objects []*unstructured.Unstructured, names plurals, delivery v1alpha1.DeliveryOptions) []workv1.ManifestConfigOption {
	var configs []workv1.ManifestConfigOption
	seen := map[schema.GroupKind]bool{}
	for _, object := range objects {
		kind := groupKindOf(object)
		if seen[kind] {
			continue
		}
		seen[kind] = true
		for _, resource := range names.candidates(kind) {
			configs = append(configs, workv1.ManifestConfigOption{
				ResourceIdentifier: workv1.ResourceIdentifier{
					Group: kind.Group, Resource: resource, Namespace: everyName, Name: everyName,
				},
				UpdateStrategy: updateStrategy(kind, delivery),
				// The API's default, spelled out so that what the hub stores is what
				// was written.
				FeedbackScrapeType: workv1.FeedbackPollType,
			})
		}
	}
	slices.SortFunc(configs, func(a, b workv1.ManifestConfigOption) int {
		return compareIdentifiers(a.ResourceIdentifier, b.ResourceIdentifier)
	})
	return slices.CompactFunc(configs, func(a, b workv1.ManifestConfigOption) bool {
		return a.ResourceIdentifier == b.ResourceIdentifier
	})
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

// orphanRules lists every protected object, by exact name: the work agent takes
// its owner reference off while the object is still listed, and only then does
// it survive being dropped, or the removal of the work. A rule that came together
// with the drop would be too late, so the rule is there from the first write on.
//
// Rules of the same delivery's earlier phase are carried on, so that the phase
// Drop looks the same before and after it is written. Those of earlier
// deliveries have done their work.
func orphanRules(rendering Rendering, objects []*unstructured.Unstructured, present []*workv1.ManifestWork) []workv1.OrphaningRule {
	var rules []workv1.OrphaningRule
	for _, object := range objects {
		kind := groupKindOf(object)
		if !isProtected(kind) {
			continue
		}
		rule := workv1.OrphaningRule{Group: kind.Group, Resource: protectedResource(kind), Name: object.GetName()}
		if kind == claimKind {
			rule.Namespace = object.GetNamespace()
		}
		rules = append(rules, rule)
	}
	for _, work := range present {
		if work.Annotations[v1alpha1.AnnotationDelivery] != strconv.FormatInt(rendering.Rendered.Delivery, 10) {
			continue
		}
		if option := work.Spec.DeleteOption; option != nil && option.SelectivelyOrphan != nil {
			rules = append(rules, option.SelectivelyOrphan.OrphaningRules...)
		}
	}
	slices.SortFunc(rules, func(a, b workv1.OrphaningRule) int {
		return compareIdentifiers(workv1.ResourceIdentifier(a), workv1.ResourceIdentifier(b))
	})
	return slices.Compact(rules)
}

func protectedResource(kind schema.GroupKind) string {
	return plurals{}.candidates(kind)[0]
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
