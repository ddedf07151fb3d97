package integration

import (
	"context"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/test/lab"
)

// ownHub is a hub beside the suite's, for specs that need managers of their
// own: two managers that do not know each other would both move a fleet.
type ownHub struct {
	*lab.ControlPlane
	client client.WithWatch
	binary string
}

// newOwnHub starts a hub without a manager; it ends with the container.
func newOwnHub(ctx context.Context) *ownHub {
	GinkgoHelper()
	controlPlane, err := lab.StartControlPlane(ctx, lab.ControlPlaneOptions{Log: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(controlPlane.Stop()).To(Succeed()) })
	Expect(controlPlane.InstallCRDs(ctx, ocmCRDs(ctx)...)).To(Succeed())
	Expect(controlPlane.InstallCRDs(ctx, filepath.Join(manifestsFolder, "crds", "*.yaml"))).To(Succeed())
	bin, err := lab.BuildProduct(ctx, GinkgoWriter, "./cmd/manager")
	Expect(err).NotTo(HaveOccurred())
	h := &ownHub{ControlPlane: controlPlane, binary: filepath.Join(bin, "manager")}
	h.client, err = client.NewWithWatch(controlPlane.RESTConfig(), client.Options{Scheme: k8s.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return h
}

// proxiedManager is a manager whose writes are seen.
type proxiedManager struct {
	*lab.Process
	proxy *writeProxy
}

// startManager starts a manager behind a proxy; it ends with the spec.
func (h *ownHub) startManager(ctx context.Context, name string, flags ...string) *proxiedManager {
	GinkgoHelper()
	proxy := newWriteProxy(h.RESTConfig())
	process, err := h.RunProcess(ctx, lab.ProcessSpec{
		Name: name,
		Path: h.binary,
		Args: slices.Concat([]string{
			"--kubeconfig", proxy.kubeconfig,
			"--addon-manager=false",
			"--metrics-bind-address", "0",
			"--health-probe-bind-address", "0",
		}, flags),
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(process.Kill()).To(Succeed()) })
	return &proxiedManager{Process: process, proxy: proxy}
}

// dieAndLive kills the manager and starts it again.
func (m *proxiedManager) dieAndLive(ctx context.Context) {
	defer GinkgoRecover()
	Expect(m.Kill()).To(Succeed())
	m.proxy.life.Add(1)
	Expect(m.Start(ctx)).To(Succeed())
}

// story is what the specs with managers of their own play: a release on two
// groups, then one that fails in the second group and is taken back. The second
// one adds an object, so that the way back has both phases.
type story struct{ *fleet }

func newStory(ctx context.Context, h *ownHub, prefix string) story {
	GinkgoHelper()
	s := story{newFleetOn(ctx, h.client, prefix, labelled(map[string]int{"canary": 1, "prod": 1}))}
	s.set(func(c *playedCluster) { c.health = healthOf("2.0.0", v1alpha1.HealthFailed) }, s.name("prod1"))
	return s
}

func (s story) begin(ctx context.Context) {
	GinkgoHelper()
	Expect(s.client.Create(ctx, s.rollout(group("canary", step("100%", 1)), group("prod")))).To(Succeed())
}

func (s story) releaseBadVersion(ctx context.Context) {
	GinkgoHelper()
	s.edit(ctx, func(r *v1alpha1.FleetRollout) {
		r.Spec.Version = "2.0.0"
		r.Spec.Template = template("2.0.0")
		more := manifest(map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "more", "namespace": "default"},
		})
		r.Spec.Template.Components[0].Manifests = append(r.Spec.Template.Components[0].Manifests, more)
	})
}

// play plays the story to its end.
func (s story) play(ctx context.Context) {
	GinkgoHelper()
	s.begin(ctx)
	s.succeeds(ctx, "1.0.0")
	s.releaseBadVersion(ctx)
	s.rollsBack(ctx, "2.0.0", "1.0.0")
}

// outcome is what must not depend on what happens to managers.
type outcome struct {
	Clusters  map[string]clusterOutcome
	Revisions map[string]revisionOutcome
	Stable    string
	Runs      int64
	Attempt   int32
	Phase     v1alpha1.RunPhase
	Ready     string
	Rollbacks []rollbackOutcome
}

type revisionOutcome struct {
	Number   int64
	Verdict  v1alpha1.Verdict
	Reason   string
	Attempts int32
}

type rollbackOutcome struct {
	From     []string
	To       string
	Trigger  v1alpha1.RollbackTrigger
	Result   v1alpha1.RollbackResult
	Restored int32
}

type clusterOutcome struct {
	Version  string
	Delivery int64
	// WorkGeneration counts the contents that the ManifestWork has had.
	WorkGeneration int64
	State          v1alpha1.DeliveryState
}

func (s story) outcome(ctx context.Context) outcome {
	GinkgoHelper()
	r := s.get(ctx)
	o := outcome{
		Clusters:  map[string]clusterOutcome{},
		Revisions: map[string]revisionOutcome{},
		Stable:    r.Status.StableRevision.Version,
		Runs:      r.Status.Run.Number,
		Attempt:   r.Status.Run.Attempt,
		Phase:     r.Status.Run.Phase,
		Ready:     ready(r),
	}
	for _, record := range r.Status.Rollbacks {
		back := rollbackOutcome{To: record.To.Version, Trigger: record.Trigger, Result: record.Result, Restored: record.Restored}
		for _, from := range record.From {
			back.From = append(back.From, from.Version)
		}
		o.Rollbacks = append(o.Rollbacks, back)
	}
	var revisions v1alpha1.RolloutRevisionList
	Expect(s.client.List(ctx, &revisions, client.InNamespace(s.namespace))).To(Succeed())
	for _, revision := range revisions.Items {
		o.Revisions[revision.Spec.Version] = revisionOutcome{
			Number: revision.Spec.Number, Verdict: revision.Status.Verdict,
			Reason: revision.Status.Reason, Attempts: revision.Status.Attempts,
		}
	}
	for _, suffix := range []string{"canary1", "prod1"} {
		d := s.delivery(ctx, suffix)
		o.Clusters[suffix] = clusterOutcome{
			Version: d.Spec.Revision.Version, Delivery: d.Spec.Delivery,
			WorkGeneration: s.work(ctx, suffix).Generation, State: d.Status.State,
		}
	}
	return o
}

// wipe removes what the story left, without a manager.
func (s story) wipe(ctx context.Context) {
	GinkgoHelper()
	s.stop()
	Expect(s.client.Delete(ctx, s.get(ctx))).To(Succeed())
	s.edit(ctx, func(r *v1alpha1.FleetRollout) { r.Finalizers = nil })
	for _, cluster := range s.clusters {
		Expect(s.client.DeleteAllOf(ctx, &v1alpha1.RolloutDelivery{}, client.InNamespace(cluster))).To(Succeed())
		Expect(s.client.DeleteAllOf(ctx, &workv1.ManifestWork{}, client.InNamespace(cluster))).To(Succeed())
		noFinalizers := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: v1alpha1.WorkName(s.namespace, rolloutName, 0)}}
		Expect(client.IgnoreNotFound(s.client.Patch(ctx, work, noFinalizers))).To(Succeed())
	}
	Expect(s.client.DeleteAllOf(ctx, &v1alpha1.RolloutRevision{}, client.InNamespace(s.namespace))).To(Succeed())
}
