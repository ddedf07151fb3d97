package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// column is one column of a table, as "kubectl get" prints it. Wide columns
// are printed with -o wide only.
type column struct {
	Name  string
	Value any
	Wide  bool
}

// firstRow asks the API server for a table of the resource, as kubectl does.
func firstRow(ctx context.Context, namespace, resource string) ([]column, error) {
	hubDiscovery, err := discovery.NewDiscoveryClientForConfig(restConfig)
	if err != nil {
		return nil, err
	}
	raw, err := hubDiscovery.RESTClient().Get().
		AbsPath("/apis", v1alpha1.GroupVersion.String(), "namespaces", namespace, resource).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
		Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil {
		return nil, err
	}
	if len(table.Rows) != 1 {
		return nil, fmt.Errorf("%d rows, want 1", len(table.Rows))
	}
	columns := make([]column, len(table.ColumnDefinitions))
	for i, definition := range table.ColumnDefinitions {
		columns[i] = column{Name: definition.Name, Value: table.Rows[0].Cells[i], Wide: definition.Priority > 0}
	}
	return columns, nil
}

// expectRow sets a status and expects the table that comes of it. It tries
// again when a manager, if one runs, wrote its own status in between.
func expectRow[T client.Object](ctx SpecContext, object T, resource string, setStatus func(T), row ...any) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) ([]column, error) {
		if err := editStatus(ctx, object, setStatus); err != nil {
			return nil, err
		}
		return firstRow(ctx, object.GetNamespace(), resource)
	}).Should(HaveExactElements(row...))
}

var _ = Describe("kubectl get", func() {
	It("prints fleetrollouts", func(ctx SpecContext) {
		written := rolloutFrom(validRollout)
		written.SetNamespace(newNamespace(ctx))
		Expect(k8s.Create(ctx, written)).To(Succeed())
		rollout := &v1alpha1.FleetRollout{ObjectMeta: metav1.ObjectMeta{Namespace: written.GetNamespace(), Name: written.GetName()}}

		expectRow(ctx, rollout, "fleetrollouts", func(r *v1alpha1.FleetRollout) {
			r.Status = v1alpha1.FleetRolloutStatus{
				StableRevision: &v1alpha1.RevisionReference{Name: "payments-1", Number: 1, Version: "1.3.0", Digest: digest},
				Run: &v1alpha1.Run{
					Number: 2, Attempt: 1, Phase: v1alpha1.RunProgressing, StartedAt: metav1.NowMicro(), Group: "canary", Step: 1,
					Revision: v1alpha1.RevisionReference{Name: "payments-2", Number: 2, Version: "1.4.0", Digest: digest},
					// The implicit group may be frozen beside the others.
					FrozenGroups: append(r.Spec.Strategy.DeepCopy().Groups, v1alpha1.Group{Name: v1alpha1.UnmatchedGroup}),
				},
				Clusters: v1alpha1.ClusterCounts{Selected: 3, Updated: 1, Progress: "1/3"},
				Conditions: []metav1.Condition{{
					Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonSoaking,
					Message: "group canary soaks for 4m more", LastTransitionTime: metav1.Now(),
				}},
			}
		},
			column{Name: "Name", Value: "payments"},
			column{Name: "Version", Value: "1.4.0"},
			column{Name: "Stable", Value: "1.3.0"},
			column{Name: "Group", Value: "canary"},
			column{Name: "Updated", Value: "1/3"},
			column{Name: "Ready", Value: "False"},
			column{Name: "Reason", Value: "Soaking"},
			column{Name: "Message", Value: "group canary soaks for 4m more", Wide: true},
			HaveField("Name", "Age"),
		)
	})

	It("prints rolloutrevisions", func(ctx SpecContext) {
		revision := newRevision(newNamespace(ctx), "payments-0a0a0a0a0a")
		Expect(k8s.Create(ctx, revision)).To(Succeed())

		expectRow(ctx, revision, "rolloutrevisions", func(r *v1alpha1.RolloutRevision) {
			r.Status = v1alpha1.RolloutRevisionStatus{Verdict: v1alpha1.VerdictFailed, Reason: v1alpha1.ReasonBudgetSpent}
		},
			column{Name: "Name", Value: "payments-0a0a0a0a0a"},
			column{Name: "Rollout", Value: "payments"},
			column{Name: "Number", Value: float64(3)},
			column{Name: "Version", Value: "1.4.0"},
			column{Name: "Verdict", Value: "Failed"},
			column{Name: "Reason", Value: "BudgetSpent"},
			HaveField("Name", "Age"),
		)
	})

	It("prints rolloutactions", func(ctx SpecContext) {
		action := &v1alpha1.RolloutAction{
			ObjectMeta: metav1.ObjectMeta{Namespace: newNamespace(ctx), Name: "approve-production"},
			Spec: v1alpha1.RolloutActionSpec{
				Rollout: "payments", Verb: v1alpha1.VerbApprove, Revision: digest, Attempt: 1, Group: "production", Step: 1, Actor: "system:admin",
			},
		}
		Expect(clientOf("system:admin", "system:masters").Create(ctx, action)).To(Succeed())

		expectRow(ctx, action, "rolloutactions", func(a *v1alpha1.RolloutAction) {
			accepted := metav1.Condition{
				Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAccepted,
				Message: "step 1 of group production is approved", LastTransitionTime: metav1.Now(),
			}
			complete := accepted
			complete.Type, complete.Reason = v1alpha1.ConditionComplete, v1alpha1.ReasonDone
			a.Status.Conditions = []metav1.Condition{accepted, complete}
		},
			column{Name: "Name", Value: "approve-production"},
			column{Name: "Rollout", Value: "payments"},
			column{Name: "Verb", Value: "Approve"},
			column{Name: "Actor", Value: "system:admin"},
			column{Name: "Accepted", Value: "True"},
			column{Name: "Complete", Value: "True"},
			column{Name: "Reason", Value: "Accepted"},
			column{Name: "Message", Value: "step 1 of group production is approved", Wide: true},
			HaveField("Name", "Age"),
		)
	})

	It("prints rolloutdeliveries", func(ctx SpecContext) {
		delivery := newDelivery(newNamespace(ctx), "platform-payments-0a0a0a0a0a")
		Expect(k8s.Create(ctx, delivery)).To(Succeed())

		expectRow(ctx, delivery, "rolloutdeliveries", func(d *v1alpha1.RolloutDelivery) {
			d.Status = v1alpha1.RolloutDeliveryStatus{
				State: v1alpha1.StateDegraded, Reason: v1alpha1.ReasonApplyFailed, Message: "Deployment payments/api: forbidden",
				StateSince:  &metav1.Time{Time: time.Now().Add(-90 * time.Minute)},
				WorstObject: "Deployment payments/api (Degraded)",
			}
		},
			column{Name: "Name", Value: "platform-payments-0a0a0a0a0a"},
			column{Name: "Rollout", Value: "payments"},
			column{Name: "Revision", Value: float64(3)},
			column{Name: "Version", Value: "1.4.0"},
			column{Name: "State", Value: "Degraded"},
			column{Name: "Reason", Value: "ApplyFailed"},
			column{Name: "Since", Value: "90m"},
			column{Name: "Group", Value: "canary", Wide: true},
			column{Name: "Worst Object", Value: "Deployment payments/api (Degraded)", Wide: true},
			column{Name: "Message", Value: "Deployment payments/api: forbidden", Wide: true},
		)
	})
})

var _ = Describe("Discovery", func() {
	It("offers the kinds with their short names and in the category of OCM", func() {
		hubDiscovery, err := discovery.NewDiscoveryClientForConfig(restConfig)
		Expect(err).NotTo(HaveOccurred())
		resources, err := hubDiscovery.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
		Expect(err).NotTo(HaveOccurred())
		shortNames := map[string][]string{}
		kinds := runtime.NewScheme()
		Expect(v1alpha1.AddToScheme(kinds)).To(Succeed())
		for _, resource := range resources.APIResources {
			Expect(kinds.Recognizes(v1alpha1.GroupVersion.WithKind(resource.Kind))).To(BeTrue(), resource.Kind)
			Expect(resource.Namespaced).To(BeTrue(), resource.Name)
			shortNames[resource.Name] = resource.ShortNames
			if resource.ShortNames != nil {
				Expect(resource.Categories).To(ConsistOf("ocm"), resource.Name)
			}
		}
		Expect(shortNames).To(Equal(map[string][]string{
			"fleetrollouts":            {"fro"},
			"fleetrollouts/status":     nil,
			"rolloutrevisions":         {"frr"},
			"rolloutrevisions/status":  nil,
			"rolloutdeliveries":        {"frd"},
			"rolloutdeliveries/status": nil,
			"rolloutactions":           {"fra"},
			"rolloutactions/status":    nil,
		}))
	})
})
