package placement

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// The reasons of the condition PlacementSatisfied as OCM's placement controller
// v1.2.0 writes them (its function newSatisfiedCondition). OCM exports no
// constants for them.
const (
	reasonNoBindings       = "NoManagedClusterSetBindings"
	reasonNoIntersection   = "NoIntersection"
	reasonAllSetsEmpty     = "AllManagedClusterSetsEmpty"
	reasonNotAllScheduled  = "NotAllDecisionsScheduled"
	fixBindings            = "create a ManagedClusterSetBinding for a ManagedClusterSet that has clusters in this namespace"
	waitForPlacementWriter = "waiting for OCM's placement controller to finish writing"
)

// Decisions are the members that the decisions of some Placements name.
type Decisions struct {
	// Complete tells that the decisions of every Placement were read
	// completely. Only then does the absence of a cluster mean anything.
	Complete bool

	// Cause says why the decisions are not complete, with a reason of the
	// condition PlacementResolved; zero if they are.
	Cause v1alpha1.Cause

	// Clusters are the names that were read, ascending, each once. If the
	// decisions are not complete, others may be missing.
	Clusters []string

	// Placements as they were resolved, in the order of their references; empty
	// unless complete.
	Placements []v1alpha1.ResolvedPlacement
}

// Read reads the decisions of the named Placements of a namespace. A Placement
// that does not exist, or whose decisions are not complete, is told by
// Decisions.Cause; an error is returned only if a read itself failed.
//
// The reader may be a cache. Placement and pages come from separate reads, so
// even complete decisions can name a wrong member for a moment; whoever removes
// a cluster because of them reads again, later and uncached (law 4).
func Read(ctx context.Context, reader client.Reader, namespace string, refs []v1alpha1.PlacementReference) (Decisions, error) {
	union := sets.New[string]()
	result := Decisions{Complete: true}

	for _, ref := range refs {
		var placement clusterv1beta1.Placement
		key := types.NamespacedName{Namespace: namespace, Name: ref.Name}
		if err := reader.Get(ctx, key, &placement); apierrors.IsNotFound(err) {
			result.incomplete(notFound(namespace, ref.Name))
			continue
		} else if err != nil {
			return Decisions{}, fmt.Errorf("read placement %q: %w", key, err)
		}

		var pages clusterv1beta1.PlacementDecisionList
		if err := reader.List(ctx, &pages, client.InNamespace(namespace),
			client.MatchingLabels{clusterv1beta1.PlacementLabel: ref.Name}, client.UnsafeDisableDeepCopy); err != nil {
			return Decisions{}, fmt.Errorf("list decisions of placement %q: %w", key, err)
		}

		names := clustersOf(pages.Items)
		union = union.Union(names)
		if cause := whyIncomplete(&placement, pages.Items, names); cause != nil {
			result.incomplete(*cause)
			continue
		}
		result.Placements = append(result.Placements, v1alpha1.ResolvedPlacement{
			Name:             ref.Name,
			Generation:       placement.Generation,
			SelectedClusters: int32(names.Len()),
		})
	}

	result.Clusters = sets.List(union)
	if !result.Complete {
		result.Placements = nil
	}
	return result, nil
}

// incomplete keeps the first cause: the references have a fixed order, so that
// the same trouble always gives the same words.
func (d *Decisions) incomplete(cause v1alpha1.Cause) {
	if d.Complete {
		d.Complete = false
		d.Cause = cause
	}
}

func clustersOf(pages []clusterv1beta1.PlacementDecision) sets.Set[string] {
	names := sets.New[string]()
	for i := range pages {
		for _, decision := range pages[i].Status.Decisions {
			names.Insert(decision.ClusterName)
		}
	}
	return names
}

// whyIncomplete returns why the decisions of a Placement must not be believed
// to be all of them, or nil if they may (law 4).
func whyIncomplete(placement *clusterv1beta1.Placement, pages []clusterv1beta1.PlacementDecision, names sets.Set[string]) *v1alpha1.Cause {
	if placement.DeletionTimestamp != nil {
		cause := notFound(placement.Namespace, placement.Name)
		cause.Message = fmt.Sprintf("Placement %q is being deleted; create it again, or name another in spec.placements", placement.Name)
		return &cause
	}

	if c := meta.FindStatusCondition(placement.Status.Conditions, clusterv1beta1.PlacementConditionMisconfigured); c != nil && c.Status == metav1.ConditionTrue {
		return misconfigured("OCM says that Placement %q is misconfigured: %s; correct the Placement", placement.Name, c.Message)
	}

	satisfied := meta.FindStatusCondition(placement.Status.Conditions, clusterv1beta1.PlacementConditionSatisfied)
	if satisfied == nil {
		return unfinished("Placement %q has no decisions yet; %s", placement.Name, waitForPlacementWriter)
	}
	// OCM v1.2.0 leaves observedGeneration out; where it is given, it counts.
	if satisfied.ObservedGeneration != 0 && satisfied.ObservedGeneration != placement.Generation {
		return unfinished("the decisions of Placement %q are about its generation %d, and it is at generation %d; %s",
			placement.Name, satisfied.ObservedGeneration, placement.Generation, waitForPlacementWriter)
	}
	switch satisfied.Reason {
	case reasonNoBindings, reasonNoIntersection, reasonAllSetsEmpty:
		return misconfigured("Placement %q has no cluster to choose from: %s (%s); %s", placement.Name, satisfied.Message, satisfied.Reason, fixBindings)
	case reasonNotAllScheduled:
		// Without any decision OCM gives this reason only when its scheduler
		// failed; a Placement that matches nothing gets another one.
		if placement.Status.NumberOfSelectedClusters == 0 {
			return unfinished("OCM could not schedule Placement %q: %s", placement.Name, satisfied.Message)
		}
	}
	return whyPagesDiffer(placement, pages, names)
}

// whyPagesDiffer compares the pages that were read with what the Placement says
// it has written.
func whyPagesDiffer(placement *clusterv1beta1.Placement, pages []clusterv1beta1.PlacementDecision, names sets.Set[string]) *v1alpha1.Cause {
	written := sets.New[string]()
	for _, group := range placement.Status.DecisionGroups {
		written.Insert(group.Decisions...)
	}
	read := sets.New[string]()
	for i := range pages {
		read.Insert(pages[i].Name)
		if owner := metav1.GetControllerOf(&pages[i]); owner != nil && owner.UID != placement.UID {
			return unfinished("decision page %q belongs to an earlier Placement %q; %s", pages[i].Name, placement.Name, waitForPlacementWriter)
		}
	}
	if !read.Equal(written) {
		return unfinished("Placement %q names %d decision pages, and %d were read%s: %s",
			placement.Name, written.Len(), read.Len(), firstDifference(written, read), waitForPlacementWriter)
	}
	if want := int(placement.Status.NumberOfSelectedClusters); names.Len() != want {
		return unfinished("Placement %q selected %d clusters, and its decision pages name %d; %s",
			placement.Name, want, names.Len(), waitForPlacementWriter)
	}
	return nil
}

func firstDifference(written, read sets.Set[string]) string {
	first := sets.List(written.SymmetricDifference(read))[0]
	if written.Has(first) {
		return fmt.Sprintf("; %q is missing", first)
	}
	return fmt.Sprintf("; %q is not named", first)
}

func notFound(namespace, name string) v1alpha1.Cause {
	return v1alpha1.Cause{
		Reason:  v1alpha1.ReasonPlacementNotFound,
		Message: fmt.Sprintf("Placement %q does not exist in namespace %q; create it, or correct spec.placements", name, namespace),
	}
}

func misconfigured(format string, args ...any) *v1alpha1.Cause {
	return &v1alpha1.Cause{Reason: v1alpha1.ReasonPlacementMisconfigured, Message: fmt.Sprintf(format, args...)}
}

func unfinished(format string, args ...any) *v1alpha1.Cause {
	return &v1alpha1.Cause{Reason: v1alpha1.ReasonDecisionsIncomplete, Message: fmt.Sprintf(format, args...)}
}
