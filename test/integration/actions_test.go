package integration

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// person gives the orders of these specs: an approver and an operator in one.
const person = "pat@example.com"

// staffed is newFleet with a person who may give orders there.
func staffed(ctx SpecContext, prefix string, counts map[string]int) *fleet {
	GinkgoHelper()
	f := newFleet(ctx, prefix, labelled(counts))
	bind(ctx, f.namespace, person, approverRole)
	bind(ctx, f.namespace, person, operatorRole)
	return f
}

// order creates a RolloutAction about the run that the person sees now.
func (f *fleet) order(ctx SpecContext, verb v1alpha1.Verb, changes ...func(*v1alpha1.RolloutActionSpec)) *v1alpha1.RolloutAction {
	GinkgoHelper()
	run := f.get(ctx).Status.Run
	Expect(run).NotTo(BeNil(), "the rollout has no run yet")
	action := &v1alpha1.RolloutAction{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, GenerateName: strings.ToLower(string(verb)) + "-"},
		Spec: v1alpha1.RolloutActionSpec{
			Rollout: rolloutName, Verb: verb, Revision: run.Revision.Digest, Attempt: run.Attempt, Actor: person, Reason: "played",
		},
	}
	for _, change := range changes {
		change(&action.Spec)
	}
	pat := clientOf(person)
	Eventually(ctx, func() error { return pat.Create(ctx, action) }).WithTimeout(10 * time.Second).Should(Succeed())
	return action
}

func ofStep(group string, step int32) func(*v1alpha1.RolloutActionSpec) {
	return func(s *v1alpha1.RolloutActionSpec) { s.Group, s.Step = group, step }
}

// answers waits until conditions of an action are as given, each as
// "Type=Status/Reason", and returns what they say.
func answers(ctx SpecContext, action *v1alpha1.RolloutAction, want ...string) string {
	GinkgoHelper()
	var said string
	Eventually(ctx, func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(action), action)).To(Succeed())
		var got []string
		said = ""
		for _, c := range action.Status.Conditions {
			got = append(got, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
			said += c.Message + "\n"
			g.Expect(c.ObservedGeneration).To(Equal(action.Generation))
		}
		g.Expect(got).To(Equal(want), said)
	}).WithTimeout(30 * time.Second).Should(Succeed())
	return said
}

// says waits until Ready has a reason, and returns the rollout.
func (f *fleet) says(ctx SpecContext, reason string) *v1alpha1.FleetRollout {
	GinkgoHelper()
	var r *v1alpha1.FleetRollout
	Eventually(ctx, func(g Gomega) {
		r = f.get(ctx)
		g.Expect(r.Status.ObservedGeneration).To(Equal(r.Generation))
		g.Expect(ready(r)).To(Equal(reason), describe(r))
	}).WithTimeout(30 * time.Second).Should(Succeed())
	return r
}

func approvedStep(clusters string) v1alpha1.Step {
	s := step(clusters, 0)
	s.Approval = v1alpha1.ApprovalRequired
	return s
}

var _ = Describe("A person", func() {
	It("opens a gate by approving, shuts it by rejecting, and may approve before it is asked", func(ctx SpecContext) {
		f := staffed(ctx, "approve", map[string]int{"canary": 1, "prod": 2})
		Expect(k8s.Create(ctx, f.rollout(group("canary"), group("prod", approvedStep("50%"), approvedStep("100%"))))).To(Succeed())
		r := f.says(ctx, v1alpha1.ReasonWaitingForApproval)
		Expect(r.Status.Run.WaitingFor[0].Reason).To(Equal(v1alpha1.ReasonWaitingForApproval))
		Expect(r.Status.Run.WaitingFor[0].Since).NotTo(BeNil())
		Expect(r.Status.Run.WaitingFor[0].Message).To(And(ContainSubstring("RolloutAction"), ContainSubstring("Approve"), ContainSubstring("prod"), ContainSubstring(r.Status.Run.Revision.Digest)))
		Expect(f.versions(ctx, "canary1", "prod1", "prod2")).To(Equal([]string{"1.0.0", "", ""}))

		rejected := f.order(ctx, v1alpha1.VerbReject, ofStep("prod", 1))
		answers(ctx, rejected, "Accepted=True/Accepted", "Complete=True/Done")
		r = f.says(ctx, v1alpha1.ReasonRejected)
		Expect(describe(r)).To(ContainSubstring(person))
		Expect(r.Status.Run.Approvals).To(HaveLen(1))
		Expect(r.Status.Run.Approvals[0]).To(And(HaveField("Decision", v1alpha1.StepRejected), HaveField("Action", rejected.Name), HaveField("Actor", person), HaveField("Reason", "played")))

		By("saying of an order about something else that it is void")
		another := f.order(ctx, v1alpha1.VerbApprove, ofStep("prod", 1), func(s *v1alpha1.RolloutActionSpec) { s.Attempt = 2 })
		Expect(answers(ctx, another, "Accepted=False/Void")).To(ContainSubstring("attempt 1"))
		another = f.order(ctx, v1alpha1.VerbApprove, ofStep("prod", 1), func(s *v1alpha1.RolloutActionSpec) { s.Revision = digest })
		Expect(answers(ctx, another, "Accepted=False/Void")).To(ContainSubstring(r.Status.Run.Revision.Digest))
		answers(ctx, f.order(ctx, v1alpha1.VerbApprove, ofStep("prod", 3)), "Accepted=False/Void")
		answers(ctx, f.order(ctx, v1alpha1.VerbApprove, ofStep("edge", 1)), "Accepted=False/Void")

		By("approving the second step before the first, twice")
		answers(ctx, f.order(ctx, v1alpha1.VerbApprove, ofStep("prod", 2)), "Accepted=True/Accepted", "Complete=True/Done")
		answers(ctx, f.order(ctx, v1alpha1.VerbApprove, ofStep("prod", 2)), "Accepted=True/NoEffect", "Complete=True/NoEffect")
		Consistently(ctx, func() []string { return f.versions(ctx, "prod1", "prod2") }, time.Second).Should(Equal([]string{"", ""}))

		answers(ctx, f.order(ctx, v1alpha1.VerbApprove, ofStep("prod", 1)), "Accepted=True/Accepted", "Complete=True/Done")
		f.succeeds(ctx, "1.0.0")
		Eventually(ctx, func() any { return f.get(ctx).Status.HandledActions }).WithTimeout(10 * time.Second).Should(BeEmpty())
	}, SpecTimeout(2*time.Minute))

	It("pauses and resumes, but never past spec.paused", func(ctx SpecContext) {
		f := staffed(ctx, "pause", map[string]int{"canary": 1, "prod": 1})
		Expect(k8s.Create(ctx, f.rollout(group("canary", step("100%", 2)), group("prod")))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		f.release(ctx, "2.0.0")
		Eventually(ctx, func() []string { return f.versions(ctx, "canary1") }).WithTimeout(30 * time.Second).Should(Equal([]string{"2.0.0"}))
		answers(ctx, f.order(ctx, v1alpha1.VerbPause), "Accepted=True/Accepted", "Complete=True/Done")
		r := f.says(ctx, v1alpha1.ReasonPaused)
		Expect(r.Status.Run.PauseOrder).To(HaveField("Actor", person))
		Expect(describe(r)).To(ContainSubstring(person))
		Consistently(ctx, func() []string { return f.versions(ctx, "prod1") }, 3*time.Second).Should(Equal([]string{"1.0.0"}))

		f.edit(ctx, func(r *v1alpha1.FleetRollout) { r.Spec.Paused = true })
		By("ending the person's pause, which leaves the one of the spec")
		Expect(answers(ctx, f.order(ctx, v1alpha1.VerbResume), "Accepted=True/Accepted", "Complete=True/Done")).To(ContainSubstring("spec.paused"))
		Expect(answers(ctx, f.order(ctx, v1alpha1.VerbResume), "Accepted=True/NoEffect", "Complete=True/NoEffect")).To(ContainSubstring("spec.paused"))
		Consistently(ctx, func() []string { return f.versions(ctx, "prod1") }, time.Second).Should(Equal([]string{"1.0.0"}))
		Expect(f.says(ctx, v1alpha1.ReasonPaused).Status.Run.PauseOrder).To(BeNil())
		f.edit(ctx, func(r *v1alpha1.FleetRollout) { r.Spec.Paused = false })
		f.succeeds(ctx, "2.0.0")

		By("resuming where only a person has paused")
		f.release(ctx, "3.0.0")
		Eventually(ctx, func() []string { return f.versions(ctx, "canary1") }).WithTimeout(30 * time.Second).Should(Equal([]string{"3.0.0"}))
		f.order(ctx, v1alpha1.VerbPause)
		f.says(ctx, v1alpha1.ReasonPaused)
		f.order(ctx, v1alpha1.VerbResume)
		f.succeeds(ctx, "3.0.0")
	}, SpecTimeout(2*time.Minute))

	It("ends a soak by promoting", func(ctx SpecContext) {
		f := staffed(ctx, "promote", map[string]int{"canary": 1, "prod": 1})
		Expect(k8s.Create(ctx, f.rollout(group("canary", step("100%", 3600)), group("prod")))).To(Succeed())
		f.says(ctx, v1alpha1.ReasonSoaking)
		elsewhere := f.order(ctx, v1alpha1.VerbPromote, ofStep("prod", 1))
		answers(ctx, elsewhere, "Accepted=False/Void")
		Expect(f.versions(ctx, "prod1")).To(Equal([]string{""}))
		promoted := f.order(ctx, v1alpha1.VerbPromote, ofStep("canary", 1))
		f.succeeds(ctx, "1.0.0")
		answers(ctx, promoted, "Accepted=True/Accepted", "Complete=True/Done")
	}, SpecTimeout(2*time.Minute))

	It("aborts a run in any mode, and no approval after that has any effect (J1); with nothing running there is nothing to abort (J3)", func(ctx SpecContext) {
		f := staffed(ctx, "abort", map[string]int{"canary": 1, "prod": 1})
		r := f.rollout(group("canary"), group("prod", approvedStep("100%")))
		r.Spec.Rollback.Mode = v1alpha1.RollbackManual
		Expect(k8s.Create(ctx, r)).To(Succeed())
		f.says(ctx, v1alpha1.ReasonWaitingForApproval)
		f.order(ctx, v1alpha1.VerbApprove, ofStep("prod", 1))
		f.succeeds(ctx, "1.0.0")
		f.release(ctx, "2.0.0")
		Eventually(ctx, func() []string { return f.versions(ctx, "canary1") }).WithTimeout(30 * time.Second).Should(Equal([]string{"2.0.0"}))
		f.says(ctx, v1alpha1.ReasonWaitingForApproval)

		aborted := f.order(ctx, v1alpha1.VerbAbort)
		f.rollsBack(ctx, "2.0.0", "1.0.0")
		answers(ctx, aborted, "Accepted=True/Accepted", "Complete=True/Done")
		now := f.get(ctx)
		Expect(now.Status.Run.HaltCause).To(HaveField("Reason", v1alpha1.ReasonAborted))
		record := now.Status.Rollbacks[len(now.Status.Rollbacks)-1]
		Expect(record).To(And(HaveField("Trigger", v1alpha1.TriggerAborted), HaveField("Actor", person), HaveField("Scope", v1alpha1.RollbackScopeAll)))
		Expect(record.Cause.Message).To(ContainSubstring(person))
		Expect(f.verdict(ctx, "2.0.0")).To(Equal(v1alpha1.VerdictFailed))

		late := f.order(ctx, v1alpha1.VerbApprove, ofStep("prod", 1))
		answers(ctx, late, "Accepted=False/Void")
		before := f.get(ctx)
		works := []int64{f.work(ctx, "canary1").Generation, f.work(ctx, "prod1").Generation}
		again := f.order(ctx, v1alpha1.VerbAbort)
		Expect(answers(ctx, again, "Accepted=True/NoEffect", "Complete=True/NoEffect")).To(ContainSubstring("nothing to abort"))
		Consistently(ctx, func(g Gomega) {
			g.Expect(f.versions(ctx, "canary1", "prod1")).To(Equal([]string{"1.0.0", "1.0.0"}))
			g.Expect([]int64{f.work(ctx, "canary1").Generation, f.work(ctx, "prod1").Generation}).To(Equal(works))
			g.Expect(f.get(ctx).Status.Run).To(Equal(before.Status.Run))
			g.Expect(f.get(ctx).Status.Rollbacks).To(Equal(before.Status.Rollbacks))
		}, 2*time.Second).Should(Succeed())
	}, SpecTimeout(2*time.Minute))

	It("puts an older revision back on the whole fleet, which is then stable", func(ctx SpecContext) {
		f := staffed(ctx, "older", map[string]int{"all": 2})
		Expect(k8s.Create(ctx, f.rollout(group("all")))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		for _, version := range []string{"2.0.0", "3.0.0"} {
			f.release(ctx, version)
			f.succeeds(ctx, version)
		}
		to := func(number int64) func(*v1alpha1.RolloutActionSpec) {
			return func(s *v1alpha1.RolloutActionSpec) { s.ToRevision = ptr.To(number) }
		}
		Expect(answers(ctx, f.order(ctx, v1alpha1.VerbRollback, to(7)), "Accepted=False/TargetNotAllowed")).To(ContainSubstring("7"))

		ordered := f.order(ctx, v1alpha1.VerbRollback, to(1))
		Eventually(ctx, func(g Gomega) {
			r := f.get(ctx)
			g.Expect(r.Status.StableRevision.Version).To(Equal("1.0.0"), describe(r))
			g.Expect(f.versions(ctx, "all1", "all2")).To(Equal([]string{"1.0.0", "1.0.0"}))
			g.Expect(f.verdict(ctx, "3.0.0")).To(Equal(v1alpha1.VerdictFailed))
		}).WithTimeout(30 * time.Second).Should(Succeed())
		answers(ctx, ordered, "Accepted=True/Accepted", "Complete=True/Done")
		record := f.get(ctx).Status.Rollbacks[0]
		Expect(record).To(And(HaveField("Trigger", v1alpha1.TriggerRequested), HaveField("Actor", person), HaveField("Result", v1alpha1.RollbackComplete)))

		Consistently(ctx, func() []string { return f.versions(ctx, "all1", "all2") }, 2*time.Second).Should(Equal([]string{"1.0.0", "1.0.0"}), "the template is not tried again")
		Expect(ready(f.get(ctx))).NotTo(Equal(v1alpha1.ReasonSucceeded))
		f.release(ctx, "4.0.0")
		f.succeeds(ctx, "4.0.0")
	}, SpecTimeout(2*time.Minute))

	It("retries a failed revision, which nothing else does (G5)", func(ctx SpecContext) {
		f := staffed(ctx, "retry", map[string]int{"canary": 1, "prod": 1})
		Expect(k8s.Create(ctx, f.rollout(group("canary"), group("prod")))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		answers(ctx, f.order(ctx, v1alpha1.VerbRetry), "Accepted=False/NotRetryable")

		f.set(func(c *playedCluster) { c.health = healthOf("2.0.0", v1alpha1.HealthFailed) }, f.clusters...)
		f.release(ctx, "2.0.0")
		f.rollsBack(ctx, "2.0.0", "1.0.0")
		f.set(func(c *playedCluster) { c.health = alwaysHealthy }, f.clusters...)
		f.edit(ctx, func(r *v1alpha1.FleetRollout) { r.Spec.History.Limit = ptr.To[int32](5) })
		run := f.get(ctx).Status.Run.Number
		Consistently(ctx, func() int64 { return f.get(ctx).Status.Run.Number }, 2*time.Second).Should(Equal(run), "an unrelated edit is no reason to try again")

		deliveries := f.delivery(ctx, "canary1").Spec.Delivery
		answers(ctx, f.order(ctx, v1alpha1.VerbRetry), "Accepted=True/Accepted", "Complete=True/Done")
		f.succeeds(ctx, "2.0.0")
		Expect(f.get(ctx).Status.Run).To(And(HaveField("Attempt", int32(2)), HaveField("Number", run+1)))
		Expect(f.delivery(ctx, "canary1").Spec.Delivery).To(Equal(deliveries + 1))
		Expect(f.verdict(ctx, "2.0.0")).To(Equal(v1alpha1.VerdictSucceeded))
	}, SpecTimeout(2*time.Minute))

	It("lets the last clusters go once that is confirmed", Label("slow"), func(ctx SpecContext) {
		f := staffed(ctx, "empty", map[string]int{"all": 2})
		Expect(k8s.Create(ctx, f.rollout(group("all")))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		f.decide(ctx)
		f.isHeld(ctx)
		confirmed := f.order(ctx, v1alpha1.VerbConfirmRemoval)
		answers(ctx, confirmed, "Accepted=True/Accepted")
		Expect(f.get(ctx).Status.RemovalConfirmation).To(HaveField("Actor", person))
		Expect(f.work(ctx, "all1").Name).NotTo(BeEmpty(), "their absence must be stable first")
		Eventually(ctx, func(g Gomega) {
			for _, cluster := range f.clusters {
				var works workv1.ManifestWorkList
				g.Expect(k8s.List(ctx, &works, client.InNamespace(cluster))).To(Succeed())
				g.Expect(works.Items).To(BeEmpty())
			}
		}).WithTimeout(3 * time.Minute).Should(Succeed())
		answers(ctx, confirmed, "Accepted=True/Accepted", "Complete=True/Done")
		Expect(f.get(ctx).Status.RemovalConfirmation).To(BeNil())
	}, SpecTimeout(4*time.Minute))

	It("confirms a removal once, not one that comes later", func(ctx SpecContext) {
		f := staffed(ctx, "emptied", map[string]int{"all": 2})
		Expect(k8s.Create(ctx, f.rollout(group("all")))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		f.decide(ctx)
		f.isHeld(ctx)
		confirmed := f.order(ctx, v1alpha1.VerbConfirmRemoval)
		answers(ctx, confirmed, "Accepted=True/Accepted")

		f.decide(ctx, f.name("all1"))
		Eventually(ctx, func() []v1alpha1.ResolvedPlacement { return f.get(ctx).Status.Placements }).WithTimeout(30 * time.Second).
			Should(ConsistOf(HaveField("SelectedClusters", int32(1))))
		f.decide(ctx)
		answers(ctx, confirmed, "Accepted=True/Accepted", "Complete=False/Overtaken")
		Expect(f.get(ctx).Status.RemovalConfirmation).To(BeNil())
		Expect([]string{f.work(ctx, "all1").Name, f.work(ctx, "all2").Name}).NotTo(ContainElement(""))
	}, SpecTimeout(2*time.Minute))

	It("promotes a run out of a step that admits nobody", func(ctx SpecContext) {
		f := staffed(ctx, "sharing", map[string]int{"all": 2})
		Expect(k8s.Create(ctx, f.rollout(group("all", step("0%", 0), step("100%", 0))))).To(Succeed())
		Eventually(ctx, func() string { return ready(f.get(ctx)) }).WithTimeout(30 * time.Second).Should(Equal(v1alpha1.ReasonShareReached))
		promoted := f.order(ctx, v1alpha1.VerbPromote, ofStep("all", 1))
		answers(ctx, promoted, "Accepted=True/Accepted", "Complete=True/Done")
		f.succeeds(ctx, "1.0.0")
	}, SpecTimeout(2*time.Minute))

	It("is told that a retry must wait for the rollback that goes on", func(ctx SpecContext) {
		f := staffed(ctx, "open", map[string]int{"canary": 1, "prod": 1})
		Expect(k8s.Create(ctx, f.rollout(group("canary"), group("prod")))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		// It fails on the way forward, and does not get ready on the way back.
		f.set(func(c *playedCluster) {
			c.health = func(version string) v1alpha1.Health {
				if version == "1.0.0" {
					return v1alpha1.HealthProgressing
				}
				return v1alpha1.HealthFailed
			}
		}, f.clusters...)
		f.release(ctx, "2.0.0")
		Eventually(ctx, func() string { return ready(f.get(ctx)) }).WithTimeout(30 * time.Second).Should(Equal(v1alpha1.ReasonRollingBack))
		answers(ctx, f.order(ctx, v1alpha1.VerbRetry), "Accepted=False/RollbackOpen")
		f.set(func(c *playedCluster) { c.health = alwaysHealthy }, f.clusters...)
		f.rollsBack(ctx, "2.0.0", "1.0.0")
		answers(ctx, f.order(ctx, v1alpha1.VerbRetry), "Accepted=True/Accepted", "Complete=True/Done")
		f.succeeds(ctx, "2.0.0")
	}, SpecTimeout(2*time.Minute))
})

// isHeld waits until the rollout says that its placements select nothing, and
// holds the removal that this would mean.
func (f *fleet) isHeld(ctx SpecContext) {
	GinkgoHelper()
	Eventually(ctx, func() string {
		return meta.FindStatusCondition(f.get(ctx).Status.Conditions, v1alpha1.ConditionPlacementResolved).Reason
	}).WithTimeout(30 * time.Second).Should(Equal(v1alpha1.ReasonNoClusters))
}

var _ = Describe("An order", func() {
	It("about a rollout that does not exist is refused, and does not come to life with it", func(ctx SpecContext) {
		f := staffed(ctx, "orphan", map[string]int{"all": 1})
		early := &v1alpha1.RolloutAction{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "early"},
			Spec:       v1alpha1.RolloutActionSpec{Rollout: rolloutName, Verb: v1alpha1.VerbPause, Revision: digest, Attempt: 1, Actor: person},
		}
		pat := clientOf(person)
		Eventually(ctx, func() error { return pat.Create(ctx, early) }).WithTimeout(10 * time.Second).Should(Succeed())
		Expect(answers(ctx, early, "Accepted=False/RolloutNotFound")).To(ContainSubstring(f.namespace + "/" + rolloutName))
		Expect(k8s.Create(ctx, f.rollout(group("all")))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		answers(ctx, early, "Accepted=False/RolloutNotFound")
	}, SpecTimeout(time.Minute))

	It("is kept when it is done, the newest hundred of a rollout, and when the rollout is gone", func(ctx SpecContext) {
		f := staffed(ctx, "trail", map[string]int{"all": 1})
		Expect(k8s.Create(ctx, f.rollout(group("all")))).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		const surplus = 3
		first := f.order(ctx, v1alpha1.VerbAbort)
		answers(ctx, first, "Accepted=True/NoEffect", "Complete=True/NoEffect")
		// Within a second, actions are in the order of their names.
		Eventually(ctx, time.Now).WithTimeout(10 * time.Second).Should(BeTemporally(">", first.CreationTimestamp.Add(time.Second)))
		var last *v1alpha1.RolloutAction
		for range v1alpha1.MaxFinishedActions + surplus - 1 {
			last = f.order(ctx, v1alpha1.VerbAbort)
		}
		trail := func(g Gomega) []v1alpha1.RolloutAction {
			var list v1alpha1.RolloutActionList
			g.Expect(k8s.List(ctx, &list, client.InNamespace(f.namespace))).To(Succeed())
			return list.Items
		}
		Eventually(ctx, trail).WithTimeout(30 * time.Second).Should(HaveLen(v1alpha1.MaxFinishedActions))
		answers(ctx, last, "Accepted=True/NoEffect", "Complete=True/NoEffect")
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(first), first)).NotTo(Succeed(), "the oldest goes first")

		Expect(k8s.Delete(ctx, f.get(ctx))).To(Succeed())
		key := client.ObjectKey{Namespace: f.namespace, Name: rolloutName}
		Eventually(ctx, func() error { return k8s.Get(ctx, key, &v1alpha1.FleetRollout{}) }).WithTimeout(30 * time.Second).ShouldNot(Succeed())
		Consistently(ctx, trail, time.Second).Should(HaveLen(v1alpha1.MaxFinishedActions))
	}, SpecTimeout(2*time.Minute))
})

var _ = Describe("Time", func() {
	It("holds forward writes outside of windows and in freezes, and says until when", func(ctx SpecContext) {
		f := newFleet(ctx, "window", labelled(map[string]int{"all": 1}))
		r := f.rollout(group("all"))
		opens := time.Now().UTC().Add(3 * time.Hour)
		r.Spec.Strategy.Windows = []v1alpha1.MaintenanceWindow{{Start: opens.Format("15:04"), DurationSeconds: 600}}
		Expect(k8s.Create(ctx, r)).To(Succeed())
		held := f.says(ctx, v1alpha1.ReasonOutsideWindow)
		Expect(held.Status.Run.WaitingFor[0].Until.Time).To(BeTemporally("~", opens, time.Minute))
		Expect(f.versions(ctx, "all1")).To(Equal([]string{""}))

		until := metav1.NewTime(time.Now().Add(time.Hour).Truncate(time.Second))
		f.edit(ctx, func(r *v1alpha1.FleetRollout) {
			r.Spec.Strategy.Windows = nil
			r.Spec.Strategy.Freezes = []v1alpha1.Freeze{{From: metav1.NewTime(time.Now().Add(-time.Hour)), To: until}}
		})
		frozen := f.says(ctx, v1alpha1.ReasonFrozen)
		Expect(frozen.Status.Run.WaitingFor[0].Until.Time).To(BeTemporally("~", until.Time, time.Second))
		Expect(f.versions(ctx, "all1")).To(Equal([]string{""}))

		f.edit(ctx, func(r *v1alpha1.FleetRollout) {
			r.Spec.Strategy.Freezes = nil
			r.Spec.Strategy.Windows = []v1alpha1.MaintenanceWindow{{TimeZone: "Europe/Atlantis", Start: "00:00", DurationSeconds: 86400}}
		})
		refused := f.says(ctx, v1alpha1.ReasonInvalidSpec)
		Expect(describe(refused)).To(And(ContainSubstring("spec.strategy.windows[0].timeZone"), ContainSubstring("Europe/Atlantis")))

		f.edit(ctx, func(r *v1alpha1.FleetRollout) { r.Spec.Strategy.Windows[0].TimeZone = "Asia/Kathmandu" })
		f.succeeds(ctx, "1.0.0")
	}, SpecTimeout(2*time.Minute))
})

var _ = Describe("Clusters of no group", func() {
	It("let no run start where the strategy blocks them, until they are labelled (B3)", func(ctx SpecContext) {
		f := newFleet(ctx, "ungrouped", labelled(map[string]int{"all": 1, "odd": 1}))
		r := f.rollout(group("all"))
		r.Spec.Strategy.Unmatched = v1alpha1.UnmatchedBlock
		Expect(k8s.Create(ctx, r)).To(Succeed())
		blocked := f.says(ctx, v1alpha1.ReasonUnmatched)
		Expect(meta.FindStatusCondition(blocked.Status.Conditions, v1alpha1.ConditionReady).Message).To(And(ContainSubstring("1 "), ContainSubstring(f.name("odd1"))))
		Expect(f.versions(ctx, "all1", "odd1")).To(Equal([]string{"", ""}))

		cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: f.name("odd1")}}
		Expect(edit(ctx, cluster, func(c *clusterv1.ManagedCluster) { c.Labels = map[string]string{"group": "all"} })).To(Succeed())
		f.succeeds(ctx, "1.0.0")
		Expect(f.versions(ctx, "all1", "odd1")).To(Equal([]string{"1.0.0", "1.0.0"}))
	}, SpecTimeout(time.Minute))
})
