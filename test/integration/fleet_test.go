package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// fleet is a namespace of its own with one Placement, its clusters and one
// rollout, so that specs do not meet.
type fleet struct {
	*player
	namespace string
	clusters  []string
}

const (
	placementName = "fleet"
	rolloutName   = "app"
)

// newFleet creates clusters named <prefix>-<suffix> with the labels given by
// suffix, and a Placement that selects them all.
func newFleet(ctx context.Context, prefix string, labels map[string]map[string]string) *fleet {
	GinkgoHelper()
	return newFleetOn(ctx, k8s, prefix, labels)
}

// newFleetOn is newFleet on another hub than the suite's.
func newFleetOn(ctx context.Context, hub client.Client, prefix string, labels map[string]map[string]string) *fleet {
	GinkgoHelper()
	f := &fleet{player: play(hub), namespace: prefix}
	f.fill(ctx, labels)
	return f
}

// fill makes what newFleet promises.
func (f *fleet) fill(ctx context.Context, labels map[string]map[string]string) {
	GinkgoHelper()
	Expect(f.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}})).To(Succeed())
	for _, suffix := range sortedKeys(labels) {
		f.join(ctx, f.name(suffix), labels[suffix])
		f.clusters = append(f.clusters, f.name(suffix))
	}
	f.place(ctx, placementName, f.clusters...)
}

// place creates a Placement in the fleet's namespace that selects the clusters.
func (f *fleet) place(ctx context.Context, placementName string, clusters ...string) {
	GinkgoHelper()
	Expect(f.client.Create(ctx, &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: placementName}})).To(Succeed())
	f.decideFor(ctx, placementName, clusters...)
}

// name is the whole name of a cluster of the fleet.
func (f *fleet) name(suffix string) string { return f.namespace + "-" + suffix }

// decide plays the placement controller: pages of at most 100 decisions, then
// the count.
func (f *fleet) decide(ctx context.Context, clusters ...string) {
	GinkgoHelper()
	f.decideFor(ctx, placementName, clusters...)
}

// decideFor is decide for any Placement of the fleet's namespace.
func (f *fleet) decideFor(ctx context.Context, placementName string, clusters ...string) {
	GinkgoHelper()
	clusters = slices.Sorted(slices.Values(clusters))
	var pages []string
	for start := 0; start == 0 || start < len(clusters); start += 100 {
		page := clusters[start:min(start+100, len(clusters))]
		pages = append(pages, f.decidePage(ctx, placementName, len(pages)+1, page))
	}
	Eventually(func() error {
		placement := &clusterv1beta1.Placement{}
		if err := f.client.Get(ctx, client.ObjectKey{Namespace: f.namespace, Name: placementName}, placement); err != nil {
			return err
		}
		placement.Status.NumberOfSelectedClusters = int32(len(clusters))
		placement.Status.DecisionGroups = []clusterv1beta1.DecisionGroupStatus{{
			DecisionGroupIndex: 0, Decisions: pages, ClustersCount: int32(len(clusters)),
		}}
		satisfied := metav1.Condition{Type: clusterv1beta1.PlacementConditionSatisfied, Status: metav1.ConditionTrue, Reason: "AllDecisionsScheduled"}
		if len(clusters) == 0 {
			satisfied.Status, satisfied.Reason = metav1.ConditionFalse, "NoManagedClusterMatched"
		}
		meta.SetStatusCondition(&placement.Status.Conditions, satisfied)
		return f.client.Status().Update(ctx, placement)
	}).WithContext(ctx).Should(Succeed())
}

func (f *fleet) decidePage(ctx context.Context, placementName string, number int, clusters []string) string {
	GinkgoHelper()
	decision := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
		Namespace: f.namespace,
		Name:      fmt.Sprintf("%s-decision-%d", placementName, number),
		Labels: map[string]string{
			clusterv1beta1.PlacementLabel:          placementName,
			clusterv1beta1.DecisionGroupIndexLabel: "0",
		},
	}}
	Expect(client.IgnoreAlreadyExists(f.client.Create(ctx, decision))).To(Succeed())
	Eventually(func() error {
		if err := f.client.Get(ctx, client.ObjectKeyFromObject(decision), decision); err != nil {
			return err
		}
		decision.Status.Decisions = []clusterv1beta1.ClusterDecision{}
		for _, c := range clusters {
			decision.Status.Decisions = append(decision.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: c})
		}
		return f.client.Status().Update(ctx, decision)
	}).WithContext(ctx).Should(Succeed())
	return decision.Name
}

// group builds a group that selects clusters by the label group=name.
func group(name string, steps ...v1alpha1.Step) v1alpha1.Group {
	return v1alpha1.Group{
		Name:            name,
		ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"group": name}},
		Steps:           steps,
	}
}

func step(clusters string, soakSeconds int32) v1alpha1.Step {
	return v1alpha1.Step{Clusters: intstr.Parse(clusters), SoakSeconds: soakSeconds}
}

// labelled gives n clusters the label group=name; their suffixes are
// name-prefix letters and numbers such as "canary1".
func labelled(counts map[string]int) map[string]map[string]string {
	labels := map[string]map[string]string{}
	for name, n := range counts {
		for i := range n {
			labels[fmt.Sprintf("%s%d", name, i+1)] = map[string]string{"group": name}
		}
	}
	return labels
}

// rollout builds a rollout in the first version, with short time constants.
func (f *fleet) rollout(groups ...v1alpha1.Group) *v1alpha1.FleetRollout {
	return &v1alpha1.FleetRollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: rolloutName},
		Spec: v1alpha1.FleetRolloutSpec{
			Version:    "1.0.0",
			Placements: []v1alpha1.PlacementReference{{Name: placementName}},
			Template:   template("1.0.0"),
			Strategy: v1alpha1.Strategy{
				Groups:                  groups,
				ProgressDeadlineSeconds: ptr.To[int32](60),
			},
			Rollback: v1alpha1.RollbackPolicy{UnhealthySeconds: ptr.To[int32](20)},
		},
	}
}

func template(version string) v1alpha1.Template {
	return v1alpha1.Template{Components: []v1alpha1.Component{{
		Name: "app",
		Manifests: []runtime.RawExtension{
			manifest(map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": map[string]any{"name": "app", "namespace": "default"},
				"data":     map[string]any{"version": version},
			}),
		},
	}}}
}

func manifest(object map[string]any) runtime.RawExtension {
	GinkgoHelper()
	raw, err := json.Marshal(object)
	Expect(err).NotTo(HaveOccurred())
	return runtime.RawExtension{Raw: raw}
}

// release sets the rollout to a version.
func (f *fleet) release(ctx context.Context, version string) {
	GinkgoHelper()
	f.edit(ctx, func(r *v1alpha1.FleetRollout) {
		r.Spec.Version = version
		r.Spec.Template = template(version)
	})
}

func (f *fleet) edit(ctx context.Context, change func(*v1alpha1.FleetRollout)) {
	GinkgoHelper()
	Eventually(func() error {
		r := f.get(ctx)
		change(r)
		return f.client.Update(ctx, r)
	}).WithContext(ctx).Should(Succeed())
}

func (f *fleet) get(ctx context.Context) *v1alpha1.FleetRollout {
	GinkgoHelper()
	r := &v1alpha1.FleetRollout{}
	Expect(f.client.Get(ctx, client.ObjectKey{Namespace: f.namespace, Name: rolloutName}, r)).To(Succeed())
	return r
}

// delivery returns the delivery of a cluster; its zero value if there is none.
func (f *fleet) delivery(ctx context.Context, suffix string) v1alpha1.RolloutDelivery {
	GinkgoHelper()
	d := v1alpha1.RolloutDelivery{}
	key := client.ObjectKey{Namespace: f.name(suffix), Name: v1alpha1.DeliveryName(f.namespace, rolloutName)}
	Expect(client.IgnoreNotFound(f.client.Get(ctx, key, &d))).To(Succeed())
	return d
}

// work returns the ManifestWork of a cluster; its zero value if there is none.
func (f *fleet) work(ctx context.Context, suffix string) workv1.ManifestWork {
	GinkgoHelper()
	w := workv1.ManifestWork{}
	key := client.ObjectKey{Namespace: f.name(suffix), Name: v1alpha1.WorkName(f.namespace, rolloutName, 0)}
	Expect(client.IgnoreNotFound(f.client.Get(ctx, key, &w))).To(Succeed())
	return w
}

// versions returns the version that each cluster's delivery asks for.
func (f *fleet) versions(ctx context.Context, suffixes ...string) []string {
	GinkgoHelper()
	out := make([]string, len(suffixes))
	for i, s := range suffixes {
		out[i] = f.delivery(ctx, s).Spec.Revision.Version
	}
	return out
}

// verdict of the revision of a version.
func (f *fleet) verdict(ctx context.Context, version string) v1alpha1.Verdict {
	GinkgoHelper()
	var list v1alpha1.RolloutRevisionList
	Expect(f.client.List(ctx, &list, client.InNamespace(f.namespace))).To(Succeed())
	for _, r := range list.Items {
		if r.Spec.Version == version {
			return r.Status.Verdict
		}
	}
	return ""
}

// succeeds waits until a version is stable and the rollout Ready.
func (f *fleet) succeeds(ctx context.Context, version string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		r := f.get(ctx)
		g.Expect(r.Status.ObservedGeneration).To(Equal(r.Generation))
		g.Expect(r.Status.StableRevision).NotTo(BeNil(), describe(r))
		g.Expect(r.Status.StableRevision.Version).To(Equal(version), describe(r))
		g.Expect(meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionReady)).To(BeTrue(), describe(r))
	}).WithContext(ctx).Should(Succeed())
}

// rollsBack waits until the run of a version has failed and the fleet is back.
func (f *fleet) rollsBack(ctx context.Context, bad, target string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		r := f.get(ctx)
		g.Expect(r.Status.Run).NotTo(BeNil())
		g.Expect(r.Status.Run.Revision.Version).To(Equal(bad), describe(r))
		g.Expect(r.Status.Run.Phase).To(Equal(v1alpha1.RunFailed), describe(r))
		g.Expect(r.Status.Rollbacks).NotTo(BeEmpty(), describe(r))
		last := r.Status.Rollbacks[len(r.Status.Rollbacks)-1]
		g.Expect(last.To.Version).To(Equal(target))
		g.Expect(last.Result).To(Equal(v1alpha1.RollbackComplete), describe(r))
	}).WithContext(ctx).Should(Succeed())
}

// ready returns the reason of the Ready condition.
func ready(r *v1alpha1.FleetRollout) string {
	if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return c.Reason
	}
	return ""
}

func describe(r *v1alpha1.FleetRollout) string {
	text := ""
	for _, c := range r.Status.Conditions {
		text += fmt.Sprintf("%s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
	}
	if run := r.Status.Run; run != nil {
		text += fmt.Sprintf("run %d %s group %q step %d\n", run.Number, run.Phase, run.Group, run.Step)
		for _, w := range run.WaitingFor {
			text += "waits for: " + w.Message + "\n"
		}
	}
	for _, p := range r.Status.Problems {
		text += fmt.Sprintf("problem: %s %s: %s\n", p.Cluster, p.Reason, p.Message)
	}
	return text
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// after returns a time in the status plus seconds.
func after(t *metav1.MicroTime, seconds int) time.Time {
	GinkgoHelper()
	Expect(t).NotTo(BeNil())
	return t.Add(time.Duration(seconds) * time.Second)
}
