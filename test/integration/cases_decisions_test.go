package integration

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// soaks waits until the run of a version soaks, and returns since when.
func (f *fleet) soaks(ctx context.Context, version string) time.Time {
	GinkgoHelper()
	var since time.Time
	Eventually(func(g Gomega) {
		r := f.get(ctx)
		g.Expect(r.Status.Run).NotTo(BeNil())
		g.Expect(r.Status.Run.Revision.Version).To(Equal(version))
		g.Expect(r.Status.Run.SoakStartedAt).NotTo(BeNil(), describe(r))
		since = r.Status.Run.SoakStartedAt.Time
	}).WithContext(ctx).Should(Succeed())
	return since
}

var _ = Describe("Deciding", func() {
	It("does not finish a soak on the word of an agent that fell silent (D3)", func(ctx SpecContext) {
		f := newFleet(ctx, "lost", labelled(map[string]int{"canary": 1, "prod": 1}))
		Expect(k8s.Create(ctx, f.rollout(group("canary", step("100%", 4)), group("prod")))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		f.release(ctx, "2.0.0")
		f.soaks(ctx, "2.0.0")
		// The soak would be over before the Lease is.
		f.set(func(c *playedCluster) { c.silent = true }, f.name("canary1"))
		Consistently(func() []string { return f.versions(ctx, "prod1") }, 8*time.Second).WithContext(ctx).Should(Equal([]string{"1.0.0"}))
		Expect(f.delivery(ctx, "canary1").Status.State).To(Equal(v1alpha1.StateUnreachable), "three intervals of two seconds have passed")
		r := f.get(ctx)
		Expect(r.Status.Clusters.Unreachable).To(BeEquivalentTo(1), describe(r))
		Expect(describe(r)).To(ContainSubstring(f.name("canary1")))

		f.set(func(c *playedCluster) { c.silent = false }, f.name("canary1"))
		again := f.soaks(ctx, "2.0.0")
		f.succeeds(ctx, "2.0.0")
		Expect(f.delivery(ctx, "prod1").Status.WrittenAt.Time).To(BeTemporally(">=", again.Add(4*time.Second)), "the soak is served anew")
	})

	It("gives the fix to the broken clusters at once, whatever maxConcurrent says (G7)", func(ctx SpecContext) {
		f := newFleet(ctx, "fix", labelled(map[string]int{"all": 5}))
		g := group("all")
		g.MaxConcurrent = ptr.To(intstr.FromInt32(1))
		r := f.rollout(g)
		r.Spec.Rollback.Mode = v1alpha1.RollbackManual
		r.Spec.Strategy.FailureBudget = &v1alpha1.FailureBudget{Clusters: intstr.FromInt32(1)}
		Expect(k8s.Create(ctx, r)).To(Succeed())
		f.succeeds(ctx, "1.0.0")

		health := func(version string) v1alpha1.Health {
			return map[string]v1alpha1.Health{
				"1.0.0": v1alpha1.HealthHealthy, "2.0.0": v1alpha1.HealthFailed, "3.0.0": v1alpha1.HealthProgressing,
			}[version]
		}
		f.set(func(c *playedCluster) { c.health = health }, f.clusters...)
		f.release(ctx, "2.0.0")
		Eventually(func(g Gomega) {
			r := f.get(ctx)
			g.Expect(r.Status.Run.Phase).To(Equal(v1alpha1.RunHalted), describe(r))
		}).WithContext(ctx).Should(Succeed())
		all := []string{"all1", "all2", "all3", "all4", "all5"}
		Expect(f.versions(ctx, all...)).To(Equal([]string{"2.0.0", "2.0.0", "1.0.0", "1.0.0", "1.0.0"}))

		f.release(ctx, "3.0.0")
		fixing := []string{"3.0.0", "3.0.0", "1.0.0", "1.0.0", "1.0.0"}
		Eventually(func() []string { return f.versions(ctx, all...) }).WithContext(ctx).Should(Equal(fixing))
		Consistently(func() []string { return f.versions(ctx, all...) }, 2*time.Second).WithContext(ctx).
			Should(Equal(fixing), "the healthy ones wait until the broken ones are well")
		f.set(func(c *playedCluster) { c.health = alwaysHealthy }, f.clusters...)
		f.succeeds(ctx, "3.0.0")
	})

	It("charges no paused time to the deadline, and goes on where it was (I3)", func(ctx SpecContext) {
		f := newFleet(ctx, "patience", labelled(map[string]int{"canary": 1, "prod": 1}))
		r := f.rollout(group("canary"), group("prod"))
		r.Spec.Strategy.ProgressDeadlineSeconds = ptr.To[int32](5)
		Expect(k8s.Create(ctx, r)).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		f.set(func(c *playedCluster) { c.health = healthOf("2.0.0", v1alpha1.HealthProgressing) }, f.name("canary1"))
		f.release(ctx, "2.0.0")
		Eventually(func() v1alpha1.DeliveryState { return f.delivery(ctx, "canary1").Status.State }).
			WithContext(ctx).Should(Equal(v1alpha1.StateProgressing))
		f.edit(ctx, func(r *v1alpha1.FleetRollout) { r.Spec.Paused = true })
		Eventually(func() string { return ready(f.get(ctx)) }).WithContext(ctx).Should(Equal(v1alpha1.ReasonPaused))

		paused := f.get(ctx)
		Consistently(func(g Gomega) {
			r := f.get(ctx)
			g.Expect(r.Status.Run.Phase).To(Equal(v1alpha1.RunProgressing))
			g.Expect(r.Status.Conditions).To(Equal(paused.Status.Conditions), "conditions flap while paused")
		}, 9*time.Second).WithContext(ctx).Should(Succeed())
		f.edit(ctx, func(r *v1alpha1.FleetRollout) { r.Spec.Paused = false })
		Eventually(func() string { return ready(f.get(ctx)) }).WithContext(ctx).ShouldNot(Equal(v1alpha1.ReasonPaused))
		r = f.get(ctx)
		Expect(r.Status.Run.Phase).To(Equal(v1alpha1.RunProgressing), describe(r))
		Expect(r.Status.Run.Group).To(Equal("canary"))
		Expect(r.Status.Run.Step).To(BeEquivalentTo(1))
		f.set(func(c *playedCluster) { c.health = alwaysHealthy }, f.name("canary1"))
		f.succeeds(ctx, "2.0.0")
	})

	It("proceeds by itself once what it refers to, or what was wrong, is mended (K2)", func(ctx SpecContext) {
		f := newFleet(ctx, "mend", labelled(map[string]int{"canary": 1}))
		r := f.rollout(group("canary"))
		r.Spec.Placements[0].Name = "later"
		twice := &r.Spec.Template.Components[0]
		twice.Manifests = append(twice.Manifests, twice.Manifests[0])
		Expect(k8s.Create(ctx, r)).To(Succeed())
		Eventually(func(g Gomega) {
			r := f.get(ctx)
			g.Expect(ready(r)).To(Equal(v1alpha1.ReasonInvalidSpec), describe(r))
		}).WithContext(ctx).Should(Succeed())
		f.edit(ctx, func(r *v1alpha1.FleetRollout) { r.Spec.Template = template("1.0.0") })
		Eventually(func(g Gomega) {
			r := f.get(ctx)
			g.Expect(ready(r)).To(Equal(v1alpha1.ReasonPlacementNotFound), describe(r))
		}).WithContext(ctx).Should(Succeed())

		// From here on nobody touches the rollout.
		generation := f.get(ctx).Generation
		f.place(ctx, "later", f.clusters...)
		f.succeeds(ctx, "1.0.0")
		Expect(f.get(ctx).Generation).To(Equal(generation))
	})

	It("leaves nothing of a run in the status when the template is set back (K6)", func(ctx SpecContext) {
		f := newFleet(ctx, "revert", labelled(map[string]int{"all": 3}))
		r := f.rollout(group("all", step("34%", 0), step("100%", 0)))
		Expect(k8s.Create(ctx, r)).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		f.set(func(c *playedCluster) { c.health = healthOf("2.0.0", v1alpha1.HealthProgressing) }, f.name("all3"))
		f.release(ctx, "2.0.0")
		Eventually(func() int32 { return f.get(ctx).Status.Run.Step }).WithContext(ctx).Should(BeEquivalentTo(2))
		f.edit(ctx, func(r *v1alpha1.FleetRollout) { r.Spec.Paused = true })
		Eventually(func(g Gomega) {
			run := f.get(ctx).Status.Run
			g.Expect(run.PausedAt).NotTo(BeNil())
			g.Expect(run.Step).To(BeEquivalentTo(2))
		}).WithContext(ctx).Should(Succeed())

		f.release(ctx, "1.0.0")
		Eventually(func() []string { return f.versions(ctx, "all1", "all2", "all3") }).
			WithContext(ctx).Should(HaveEach("1.0.0"), "no pause holds a way back")
		f.edit(ctx, func(r *v1alpha1.FleetRollout) { r.Spec.Paused = false })
		f.succeeds(ctx, "1.0.0")
		r = f.get(ctx)
		run := r.Status.Run
		Expect(run.Phase).To(Equal(v1alpha1.RunSuperseded), describe(r))
		Expect(run.Group).To(BeEmpty())
		Expect(run.Step).To(BeZero())
		Expect(run.StepTarget).To(BeNil())
		Expect(run.StepStartedAt).To(BeNil())
		Expect(run.SoakStartedAt).To(BeNil())
		Expect(run.PausedAt).To(BeNil())
		Expect(run.PauseOrder).To(BeNil())
		Expect(run.Promotion).To(BeNil())
		Expect(run.WaitingFor).To(BeEmpty())
		Expect(r.Status.Problems).To(BeEmpty())
		Expect(f.verdict(ctx, "2.0.0")).To(Equal(v1alpha1.VerdictSuperseded))
	})

	It("never drops what every revision holds, however fast they come (C4)", func(ctx SpecContext) {
		f := newFleet(ctx, "edits", labelled(map[string]int{"all": 3}))
		r := f.rollout(group("all"))
		r.Spec.History.Limit = ptr.To[int32](3)
		content := func(edit int) v1alpha1.Template {
			t := template(fmt.Sprintf("1.0.%d", edit))
			for _, name := range []string{"a", "b"} {
				d := deployment(name)
				d["metadata"] = map[string]any{"name": name, "namespace": "default"}
				t.Components[0].Manifests = append(t.Components[0].Manifests, manifest(d))
			}
			return t
		}
		r.Spec.Version, r.Spec.Template = "1.0.0", content(0)
		Expect(k8s.Create(ctx, r)).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		uids := map[string]types.UID{}
		for _, suffix := range []string{"all1", "all2", "all3"} {
			uids[suffix] = f.work(ctx, suffix).UID
		}
		contents := watchWorks(ctx, f)

		const edits = 20
		began := time.Now()
		for i := 1; i <= edits; i++ {
			f.edit(ctx, func(r *v1alpha1.FleetRollout) {
				r.Spec.Version, r.Spec.Template = fmt.Sprintf("1.0.%d", i), content(i)
			})
			due := began.Add(time.Duration(i) * 500 * time.Millisecond)
			Eventually(time.Now).WithContext(ctx).Should(BeTemporally(">=", due))
		}
		last := fmt.Sprintf("1.0.%d", edits)
		f.succeeds(ctx, last)
		for suffix, uid := range uids {
			work := f.work(ctx, suffix)
			Expect(work.UID).To(Equal(uid))
			Expect(namesIn(work)).To(ConsistOf("ConfigMap app", "Deployment a", "Deployment b"))
			Expect(string(work.Spec.Workload.Manifests[0].Raw)).To(ContainSubstring(last))
		}
		seen := contents()
		Expect(len(seen)).To(BeNumerically(">", len(uids)), "the works have not changed")
		Expect(seen).To(HaveEach(ContainElements("ConfigMap app", "Deployment a", "Deployment b")))
		Eventually(func(g Gomega) {
			var revisions v1alpha1.RolloutRevisionList
			g.Expect(k8s.List(ctx, &revisions, client.InNamespace(f.namespace))).To(Succeed())
			var payloads corev1.SecretList
			g.Expect(k8s.List(ctx, &payloads, client.InNamespace(f.namespace))).To(Succeed())
			g.Expect(len(revisions.Items)).To(BeNumerically("<=", 3+1), "three beside the stable one")
			g.Expect(payloads.Items).To(HaveLen(len(revisions.Items)))
		}).WithContext(ctx).Should(Succeed())
	})
})

// watchWorks follows the works of a fleet. The function that it returns tells
// every content they had since.
func watchWorks(ctx context.Context, f *fleet) func() [][]string {
	GinkgoHelper()
	watching, err := client.NewWithWatch(restConfig, client.Options{Scheme: k8s.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return watchAll(ctx, watching, &workv1.ManifestWorkList{}, func(work *workv1.ManifestWork) ([]string, bool) {
		return namesIn(*work), true
	}, client.MatchingLabels{v1alpha1.LabelRolloutNamespace: f.namespace})
}

// namesIn are kind and name of each object of a work.
func namesIn(work workv1.ManifestWork) []string {
	GinkgoHelper()
	var names []string
	for _, m := range work.Spec.Workload.Manifests {
		object := objectFrom(string(m.Raw))
		names = append(names, object.GetKind()+" "+object.GetName())
	}
	return names
}
