package placement_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/pkg/placement"
)

const namespace = "platform"

// decided returns a Placement and its pages as OCM's placement controller
// leaves them: pages of at most 100 clusters, named in its status.
func decided(name string, clusters ...string) (*clusterv1beta1.Placement, []*clusterv1beta1.PlacementDecision) {
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(name + "-uid"), Generation: 3,
	}}
	p.Status.NumberOfSelectedClusters = int32(len(clusters))
	p.Status.Conditions = []metav1.Condition{
		{Type: clusterv1beta1.PlacementConditionMisconfigured, Status: metav1.ConditionFalse, Reason: "Succeedconfigured"},
		{Type: clusterv1beta1.PlacementConditionSatisfied, Status: metav1.ConditionTrue, Reason: "AllDecisionsScheduled"},
	}
	var pages []*clusterv1beta1.PlacementDecision
	for number := 1; len(clusters) > 0 || number == 1; number++ {
		size := min(100, len(clusters))
		pages = append(pages, page(p, number, clusters[:size]...))
		clusters = clusters[size:]
	}
	group := clusterv1beta1.DecisionGroupStatus{}
	for _, one := range pages {
		group.Decisions = append(group.Decisions, one.Name)
	}
	p.Status.DecisionGroups = []clusterv1beta1.DecisionGroupStatus{group}
	return p, pages
}

func page(p *clusterv1beta1.Placement, number int, clusters ...string) *clusterv1beta1.PlacementDecision {
	result := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Namespace,
		Name:      fmt.Sprintf("%s-decision-%d", p.Name, number),
		Labels:    map[string]string{clusterv1beta1.PlacementLabel: p.Name},
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(p, clusterv1beta1.SchemeGroupVersion.WithKind("Placement")),
		},
	}}
	for _, cluster := range clusters {
		result.Status.Decisions = append(result.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: cluster})
	}
	return result
}

func satisfied(p *clusterv1beta1.Placement) *metav1.Condition { return &p.Status.Conditions[1] }

func read(t *testing.T, objects []client.Object, names ...string) placement.Decisions {
	t.Helper()
	decisions, err := placement.Read(context.Background(), reader(t, objects...), namespace, references(names...))
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	return decisions
}

func reader(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clusterv1beta1.Install(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func references(names ...string) []v1alpha1.PlacementReference {
	var refs []v1alpha1.PlacementReference
	for _, name := range names {
		refs = append(refs, v1alpha1.PlacementReference{Name: name})
	}
	return refs
}

func objectsOf(p *clusterv1beta1.Placement, pages []*clusterv1beta1.PlacementDecision) []client.Object {
	objects := []client.Object{p}
	for _, one := range pages {
		objects = append(objects, one)
	}
	return objects
}

func fleet(from, to int) []string {
	var names []string
	for i := from; i <= to; i++ {
		names = append(names, fmt.Sprintf("c%04d", i))
	}
	return names
}

func TestDecisionsAreCompleteOnlyIfEverythingAgrees(t *testing.T) {
	type pages = []*clusterv1beta1.PlacementDecision
	cases := []struct {
		name     string
		clusters []string
		change   func(p *clusterv1beta1.Placement, pages pages) pages
		reason   string // empty: complete
		says     string // a part of the message
	}{
		{name: "all agree", clusters: fleet(1, 3)},
		{
			name:     "several decision groups",
			clusters: fleet(1, 150),
			change: func(p *clusterv1beta1.Placement, all pages) pages {
				p.Status.DecisionGroups = []clusterv1beta1.DecisionGroupStatus{
					{DecisionGroupIndex: 0, Decisions: []string{all[0].Name}},
					{DecisionGroupIndex: 1, Decisions: []string{all[1].Name}},
				}
				return all
			},
		},
		{
			name: "nothing matches the predicates",
			change: func(p *clusterv1beta1.Placement, all pages) pages {
				*satisfied(p) = metav1.Condition{Type: clusterv1beta1.PlacementConditionSatisfied, Status: metav1.ConditionFalse, Reason: "NoManagedClusterMatched"}
				return all
			},
		},
		{
			name:     "fewer clusters than numberOfClusters asks for",
			clusters: fleet(1, 3),
			change: func(p *clusterv1beta1.Placement, all pages) pages {
				satisfied(p).Status, satisfied(p).Reason = metav1.ConditionFalse, "NotAllDecisionsScheduled"
				return all
			},
		},
		{
			name:     "the condition is about the present generation",
			clusters: fleet(1, 1),
			change: func(p *clusterv1beta1.Placement, all pages) pages {
				satisfied(p).ObservedGeneration = 3
				return all
			},
		},
		{
			name:     "the condition is about an earlier generation",
			clusters: fleet(1, 1),
			change: func(p *clusterv1beta1.Placement, all pages) pages {
				satisfied(p).ObservedGeneration = 2
				return all
			},
			reason: v1alpha1.ReasonDecisionsIncomplete, says: "generation 2",
		},
		{
			name:     "PlacementSatisfied is missing",
			clusters: fleet(1, 1),
			change: func(p *clusterv1beta1.Placement, all pages) pages {
				p.Status.Conditions = p.Status.Conditions[:1]
				return all
			},
			reason: v1alpha1.ReasonDecisionsIncomplete, says: "no decisions yet",
		},
		{
			name:     "misconfigured",
			clusters: fleet(1, 1),
			change: func(p *clusterv1beta1.Placement, all pages) pages {
				p.Status.Conditions[0].Status = metav1.ConditionTrue
				p.Status.Conditions[0].Message = "bad CEL"
				return all
			},
			reason: v1alpha1.ReasonPlacementMisconfigured, says: "bad CEL",
		},
		{
			name: "no set is bound to the namespace",
			change: func(p *clusterv1beta1.Placement, all pages) pages {
				satisfied(p).Reason = "NoManagedClusterSetBindings"
				return all
			},
			reason: v1alpha1.ReasonPlacementMisconfigured, says: "ManagedClusterSetBinding",
		},
		{
			name: "none of its sets is bound",
			change: func(p *clusterv1beta1.Placement, all pages) pages {
				satisfied(p).Reason = "NoIntersection"
				return all
			},
			reason: v1alpha1.ReasonPlacementMisconfigured, says: "NoIntersection",
		},
		{
			name: "all its sets are empty",
			change: func(p *clusterv1beta1.Placement, all pages) pages {
				satisfied(p).Reason = "AllManagedClusterSetsEmpty"
				return all
			},
			reason: v1alpha1.ReasonPlacementMisconfigured, says: "AllManagedClusterSetsEmpty",
		},
		{
			name: "the scheduler failed and wrote zero decisions",
			change: func(p *clusterv1beta1.Placement, all pages) pages {
				satisfied(p).Reason, satisfied(p).Message = "NotAllDecisionsScheduled", "balance: no decisions"
				return all
			},
			reason: v1alpha1.ReasonDecisionsIncomplete, says: "balance: no decisions",
		},
		{
			name:     "a page is missing",
			clusters: fleet(1, 250),
			change:   func(_ *clusterv1beta1.Placement, all pages) pages { return all[:2] },
			reason:   v1alpha1.ReasonDecisionsIncomplete, says: `"fleet-decision-3" is missing`,
		},
		{
			name:     "a page is not named",
			clusters: fleet(1, 2),
			change: func(p *clusterv1beta1.Placement, all pages) pages {
				return append(all, page(p, 2))
			},
			reason: v1alpha1.ReasonDecisionsIncomplete, says: `"fleet-decision-2" is not named`,
		},
		{
			name:     "a page lost a cluster",
			clusters: fleet(1, 250),
			change: func(_ *clusterv1beta1.Placement, all pages) pages {
				all[1].Status.Decisions = all[1].Status.Decisions[1:]
				return all
			},
			reason: v1alpha1.ReasonDecisionsIncomplete, says: "selected 250 clusters, and its decision pages name 249",
		},
		{
			name:     "a cluster is on two pages while another is on none",
			clusters: fleet(1, 150),
			change: func(_ *clusterv1beta1.Placement, all pages) pages {
				all[1].Status.Decisions[0].ClusterName = all[0].Status.Decisions[0].ClusterName
				return all
			},
			reason: v1alpha1.ReasonDecisionsIncomplete, says: "name 149",
		},
		{
			name:     "a page was left by an earlier Placement of that name",
			clusters: fleet(1, 1),
			change: func(_ *clusterv1beta1.Placement, all pages) pages {
				all[0].OwnerReferences[0].UID = "earlier"
				return all
			},
			reason: v1alpha1.ReasonDecisionsIncomplete, says: "earlier Placement",
		},
		{
			name:     "pages without an owner, as another scheduler writes them",
			clusters: fleet(1, 1),
			change: func(_ *clusterv1beta1.Placement, all pages) pages {
				all[0].OwnerReferences = nil
				return all
			},
		},
		{
			name:     "the Placement is being deleted",
			clusters: fleet(1, 1),
			change: func(p *clusterv1beta1.Placement, all pages) pages {
				at := metav1.Now()
				p.DeletionTimestamp, p.Finalizers = &at, []string{"test/hold"}
				return all
			},
			reason: v1alpha1.ReasonPlacementNotFound, says: "being deleted",
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			p, pages := decided("fleet", tc.clusters...)
			if tc.change != nil {
				pages = tc.change(p, pages)
			}
			got := read(t, objectsOf(p, pages), "fleet")

			if got.Complete != (tc.reason == "") || got.Cause.Reason != tc.reason {
				t.Fatalf("complete %v, cause %+v; want reason %q", got.Complete, got.Cause, tc.reason)
			}
			if !strings.Contains(got.Cause.Message, tc.says) {
				t.Errorf("message %q does not say %q", got.Cause.Message, tc.says)
			}
			if !got.Complete {
				if got.Placements != nil {
					t.Errorf("incomplete decisions resolve placements: %v", got.Placements)
				}
				return
			}
			if diff := cmp.Diff(tc.clusters, got.Clusters); len(tc.clusters) > 0 && diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
			want := []v1alpha1.ResolvedPlacement{{Name: "fleet", Generation: 3, SelectedClusters: int32(len(tc.clusters))}}
			if diff := cmp.Diff(want, got.Placements); diff != "" {
				t.Errorf("placements (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPlacementThatDoesNotExistIsNamedWithTheFix(t *testing.T) {
	p, pages := decided("fleet", "c1")
	got := read(t, objectsOf(p, pages), "fleet", "edge")
	want := placement.Decisions{
		Cause: v1alpha1.Cause{
			Reason:  v1alpha1.ReasonPlacementNotFound,
			Message: `Placement "edge" does not exist in namespace "platform"; create it, or correct spec.placements`,
		},
		Clusters: []string{"c1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

func TestAClusterOfTwoPlacementsCountsOnce(t *testing.T) {
	one, onePages := decided("fleet", "c1", "c2")
	two, twoPages := decided("edge", "c2", "c3")
	got := read(t, append(objectsOf(one, onePages), objectsOf(two, twoPages)...), "fleet", "edge")
	want := placement.Decisions{
		Complete: true,
		Clusters: []string{"c1", "c2", "c3"},
		Placements: []v1alpha1.ResolvedPlacement{
			{Name: "fleet", Generation: 3, SelectedClusters: 2},
			{Name: "edge", Generation: 3, SelectedClusters: 2},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

// Case M3: 250 clusters, and later 1,100, come in pages of 100. While a page is
// deleted and made again nothing may be concluded, and afterwards the members
// are the same whatever page they are on.
func TestPagingNeitherLosesNorDoublesAClusterM3(t *testing.T) {
	for _, size := range []int{250, 1100} {
		t.Run(fmt.Sprintf("%d clusters", size), func(t *testing.T) {
			ctx := context.Background()
			names := fleet(1, size)
			p, pages := decided("fleet", names...)
			c := reader(t, objectsOf(p, pages)...)
			readNow := func() placement.Decisions {
				decisions, err := placement.Read(ctx, c, namespace, references("fleet"))
				if err != nil {
					t.Fatal(err)
				}
				return decisions
			}
			before := readNow()
			if !before.Complete || len(before.Clusters) != size {
				t.Fatalf("complete %v with %d clusters: %v", before.Complete, len(before.Clusters), before.Cause)
			}

			if err := c.Delete(ctx, pages[1]); err != nil {
				t.Fatal(err)
			}
			if during := readNow(); during.Complete {
				t.Error("decisions are complete without a page")
			}

			again := page(p, 2)
			again.Status.Decisions, pages[0].Status.Decisions = pages[0].Status.Decisions, pages[1].Status.Decisions
			if err := c.Create(ctx, again); err != nil {
				t.Fatal(err)
			}
			if half := readNow(); half.Complete {
				t.Error("decisions are complete while a page repeats the members of another")
			}
			if err := c.Update(ctx, pages[0]); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, readNow()); diff != "" {
				t.Errorf("members changed with their pages (-before +after):\n%s", diff)
			}
		})
	}
}

func TestAReadThatFailsIsAnError(t *testing.T) {
	p, pages := decided("fleet", "c1")
	broken := errors.New("etcd is away")
	for name, funcs := range map[string]interceptor.Funcs{
		"of the Placement": {Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return broken
		}},
		"of its pages": {List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return broken
		}},
	} {
		t.Run(name, func(t *testing.T) {
			failing := interceptor.NewClient(reader(t, objectsOf(p, pages)...), funcs)
			got, err := placement.Read(context.Background(), failing, namespace, references("fleet"))
			if !errors.Is(err, broken) || got.Complete {
				t.Errorf("complete %v, error %v", got.Complete, err)
			}
		})
	}
}
