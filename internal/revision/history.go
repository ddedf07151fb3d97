package revision

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// Trim returns the names of the revisions that may be deleted, oldest first.
// Those named in keep stay whatever the limit: the stable and the current
// revision, those that deliveries hold, and the targets of open rollbacks. Of
// the others the newest stay, as many as limit says.
func Trim(revisions []v1alpha1.RolloutRevision, keep sets.Set[string], limit int) []string {
	var spare []v1alpha1.RolloutRevision
	for _, record := range revisions {
		if !keep.Has(record.Name) && record.DeletionTimestamp.IsZero() {
			spare = append(spare, record)
		}
	}
	slices.SortFunc(spare, func(a, b v1alpha1.RolloutRevision) int {
		return cmp.Or(cmp.Compare(a.Spec.Number, b.Spec.Number), cmp.Compare(a.Name, b.Name))
	})
	var names []string
	for _, record := range spare[:max(0, len(spare)-max(0, limit))] {
		names = append(names, record.Name)
	}
	return names
}

// NextNumber is the number of the next revision: one more than the highest, 1
// for the first.
func NextNumber(revisions []v1alpha1.RolloutRevision) int64 {
	var highest int64
	for _, record := range revisions {
		highest = max(highest, record.Spec.Number)
	}
	return highest + 1
}

// FindByDigest returns the revision with that content, or nil.
func FindByDigest(revisions []v1alpha1.RolloutRevision, digest string) *v1alpha1.RolloutRevision {
	for i := range revisions {
		if revisions[i].Spec.Digest == digest {
			return &revisions[i]
		}
	}
	return nil
}
