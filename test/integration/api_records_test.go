package integration

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

var digest = "sha256:" + strings.Repeat("0a", 32)

func newRevision(namespace, name string) *v1alpha1.RolloutRevision {
	return &v1alpha1.RolloutRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.RolloutRevisionSpec{
			Rollout: "payments", Number: 3, Version: "1.4.0", Digest: digest,
			Inventory: []v1alpha1.InventoryEntry{{
				ObjectReference: v1alpha1.ObjectReference{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "payments", Name: "api"},
				Hash:            "sha256:1", Component: "api",
			}},
		},
	}
}

func newDelivery(namespace, name string) *v1alpha1.RolloutDelivery {
	return &v1alpha1.RolloutDelivery{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.RolloutDeliverySpec{
			Rollout:  v1alpha1.RolloutReference{Namespace: "platform", Name: "payments", UID: "7f1c"},
			Revision: v1alpha1.RevisionReference{Name: "payments-0a0a0a0a0a", Number: 3, Version: "1.4.0", Digest: digest},
			Delivery: 7, Run: 3, Attempt: 1, Group: "canary", Step: 1, Direction: v1alpha1.DirectionForward,
		},
	}
}

var _ = Describe("A RolloutRevision", func() {
	It("is immutable, but for its verdict and its metadata", func(ctx SpecContext) {
		revision := newRevision(newNamespace(ctx), "payments-1")
		Expect(k8s.Create(ctx, revision)).To(Succeed())
		Expect(edit(ctx, revision, func(r *v1alpha1.RolloutRevision) {
			r.Labels = map[string]string{v1alpha1.LabelRolloutName: "payments"}
		})).To(Succeed())
		Expect(editStatus(ctx, revision, func(r *v1alpha1.RolloutRevision) {
			r.Status = v1alpha1.RolloutRevisionStatus{Verdict: v1alpha1.VerdictFailed, Reason: v1alpha1.ReasonBudgetSpent}
		})).To(Succeed())

		for what, change := range map[string]func(*v1alpha1.RolloutRevision){
			"version":   func(r *v1alpha1.RolloutRevision) { r.Spec.Version = "1.4.1" },
			"digest":    func(r *v1alpha1.RolloutRevision) { r.Spec.Digest = "sha256:" + strings.Repeat("0b", 32) },
			"inventory": func(r *v1alpha1.RolloutRevision) { r.Spec.Inventory[0].Hash = "sha256:2" },
		} {
			err := edit(ctx, revision, change)
			Expect(err).To(MatchError(apierrors.IsInvalid, "IsInvalid"), what)
			Expect(err).To(MatchError(ContainSubstring("a RolloutRevision is immutable; change the FleetRollout to make a new revision")), what)
		}
	})

	DescribeTable("has well-formed fields", func(ctx SpecContext, change func(*v1alpha1.RolloutRevision), field, fix string) {
		revision := newRevision("default", "payments-1")
		Expect(k8s.Create(ctx, revision.DeepCopy(), client.DryRunAll)).To(Succeed())
		change(revision)
		err := k8s.Create(ctx, revision, client.DryRunAll)
		Expect(err).To(MatchError(apierrors.IsInvalid, "IsInvalid"))
		Expect(err).To(MatchError(And(ContainSubstring(field), ContainSubstring(fix))))
	},
		Entry("the number counts from 1", func(r *v1alpha1.RolloutRevision) { r.Spec.Number = 0 }, "spec.number", "greater than or equal to 1"),
		Entry("the digest is a SHA-256", func(r *v1alpha1.RolloutRevision) { r.Spec.Digest = "sha256:short" }, "spec.digest", "sha256:[0-9a-f]{64}"),
	)

	It("has a verdict of a closed set", func(ctx SpecContext) {
		revision := newRevision(newNamespace(ctx), "payments-1")
		Expect(k8s.Create(ctx, revision)).To(Succeed())
		for _, verdict := range []v1alpha1.Verdict{v1alpha1.VerdictCandidate, v1alpha1.VerdictSucceeded, v1alpha1.VerdictFailed, v1alpha1.VerdictSuperseded} {
			Expect(editStatus(ctx, revision, func(r *v1alpha1.RolloutRevision) { r.Status.Verdict = verdict })).To(Succeed())
		}
		Expect(editStatus(ctx, revision, func(r *v1alpha1.RolloutRevision) { r.Status.Verdict = "Fine" })).To(MatchError(ContainSubstring(`status.verdict: Unsupported value: "Fine"`)))
	})
})

var _ = Describe("A RolloutDelivery", func() {
	It("counts its deliveries upward only", func(ctx SpecContext) {
		delivery := newDelivery(newNamespace(ctx), "payments")
		Expect(k8s.Create(ctx, delivery)).To(Succeed())
		count := func(number int64) func(*v1alpha1.RolloutDelivery) {
			return func(d *v1alpha1.RolloutDelivery) { d.Spec.Delivery = number }
		}
		Expect(edit(ctx, delivery, count(8))).To(Succeed())
		Expect(edit(ctx, delivery, func(d *v1alpha1.RolloutDelivery) { d.Spec.Step = 2 })).To(Succeed(), "the same number again")
		err := edit(ctx, delivery, count(7))
		Expect(err).To(MatchError(apierrors.IsInvalid, "IsInvalid"))
		Expect(err).To(MatchError(And(ContainSubstring("spec.delivery"), ContainSubstring("never falls"), ContainSubstring("write a higher number"))))
	})

	It("belongs to one rollout for ever, and may be deleted by anybody with the right", func(ctx SpecContext) {
		delivery := newDelivery(newNamespace(ctx), "payments")
		Expect(k8s.Create(ctx, delivery)).To(Succeed())
		for what, change := range map[string]func(*v1alpha1.RolloutDelivery){
			"uid":       func(d *v1alpha1.RolloutDelivery) { d.Spec.Rollout.UID = "another" },
			"name":      func(d *v1alpha1.RolloutDelivery) { d.Spec.Rollout.Name = "another" },
			"namespace": func(d *v1alpha1.RolloutDelivery) { d.Spec.Rollout.Namespace = "another" },
		} {
			err := edit(ctx, delivery, change)
			Expect(err).To(MatchError(apierrors.IsInvalid, "IsInvalid"), what)
			Expect(err).To(MatchError(And(ContainSubstring("spec.rollout"), ContainSubstring("belongs to one rollout for ever"))), what)
		}
		Expect(edit(ctx, delivery, func(d *v1alpha1.RolloutDelivery) { d.Spec.Revision.Name = "payments-0b0b0b0b0b" })).To(Succeed())
		Expect(k8s.Delete(ctx, delivery)).To(Succeed())
	})

	DescribeTable("has well-formed fields", func(ctx SpecContext, change func(*v1alpha1.RolloutDelivery), field, fix string) {
		delivery := newDelivery("default", "payments")
		Expect(k8s.Create(ctx, delivery.DeepCopy(), client.DryRunAll)).To(Succeed())
		change(delivery)
		err := k8s.Create(ctx, delivery, client.DryRunAll)
		Expect(err).To(MatchError(apierrors.IsInvalid, "IsInvalid"))
		Expect(err).To(MatchError(And(ContainSubstring(field), ContainSubstring(fix))))
	},
		Entry("the delivery number counts from 1", func(d *v1alpha1.RolloutDelivery) { d.Spec.Delivery = 0 }, "spec.delivery", "greater than or equal to 1"),
		Entry("the direction is known", func(d *v1alpha1.RolloutDelivery) { d.Spec.Direction = "Sideways" }, "spec.direction", `supported values: "Forward", "Rollback"`),
		Entry("the removal is known", func(d *v1alpha1.RolloutDelivery) { d.Spec.Removal = "Keep" }, "spec.removal", `supported values: "Delete", "Orphan"`),
		Entry("the rollout has a UID", func(d *v1alpha1.RolloutDelivery) { d.Spec.Rollout.UID = "" }, "spec.rollout.uid", "at least 1 char"),
		Entry("the rollout has a namespace", func(d *v1alpha1.RolloutDelivery) { d.Spec.Rollout.Namespace = "" }, "spec.rollout.namespace", "at least 1 char"),
		Entry("the rollout has a name", func(d *v1alpha1.RolloutDelivery) { d.Spec.Rollout.Name = "" }, "spec.rollout.name", "at least 1 char"),
	)

	It("goes back as well as forward, and is removed", func(ctx SpecContext) {
		delivery := newDelivery("default", "payments")
		delivery.Spec.Direction = v1alpha1.DirectionRollback
		delivery.Spec.Removal = v1alpha1.DeletePolicyOrphan
		Expect(k8s.Create(ctx, delivery, client.DryRunAll)).To(Succeed())
	})
})
