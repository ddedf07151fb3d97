package integration

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// validAction is signed by nobody in particular; see signed.
const validAction = `
apiVersion: rollout.open-cluster-management.io/v1alpha1
kind: RolloutAction
metadata: {name: approve-production-1, namespace: default}
spec:
  rollout: payments
  verb: Approve
  revision: "sha256:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"
  attempt: 1
  group: production
  step: 1
  actor: somebody
  reason: the canaries look good
`

const (
	approverRole = "open-cluster-management:fleet-rollout:approver"
	operatorRole = "open-cluster-management:fleet-rollout:operator"
)

// clientOf is the client of somebody else, by impersonation.
func clientOf(user string, groups ...string) client.Client {
	GinkgoHelper()
	config := rest.CopyConfig(restConfig)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	c, err := client.New(config, client.Options{Scheme: k8s.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return client.WithFieldValidation(c, metav1.FieldValidationStrict)
}

// bind gives a user a ClusterRole in one namespace.
func bind(ctx SpecContext, namespace, user, role string) {
	GinkgoHelper()
	Expect(k8s.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "people-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})).To(Succeed())
}

// signed is an action with an actor.
func signed(action *unstructured.Unstructured, actor string) *unstructured.Unstructured {
	GinkgoHelper()
	action = action.DeepCopy()
	Expect(unstructured.SetNestedField(action.Object, actor, "spec", "actor")).To(Succeed())
	return action
}

// actionIn is validAction of an actor in a namespace, after pieces of its text
// were replaced.
func actionIn(namespace, actor string, replacements ...string) *unstructured.Unstructured {
	GinkgoHelper()
	action := signed(objectFrom(strings.NewReplacer(replacements...).Replace(validAction)), actor)
	action.SetNamespace(namespace)
	return action
}

var _ = Describe("A RolloutAction is refused with the field and the fix, and accepted once it is right", func() {
	DescribeTable("its fields", func(ctx SpecContext, r rule) {
		admin := clientOf("somebody", "system:masters")
		Expect(strings.Count(validAction, r.place)).To(Equal(1), "%q must be found once in the valid action", r.place)
		for _, text := range r.accept {
			action := objectFrom(strings.Replace(validAction, r.place, text, 1))
			Expect(admin.Create(ctx, action, client.DryRunAll)).To(Succeed(), text)
		}
		Expect(r.refuse).NotTo(BeEmpty())
		for _, text := range r.refuse {
			err := admin.Create(ctx, objectFrom(strings.Replace(validAction, r.place, text, 1)), client.DryRunAll)
			Expect(err).To(MatchError(apierrors.IsInvalid, "IsInvalid"), text)
			for _, words := range r.says {
				Expect(err).To(MatchError(ContainSubstring(words)), text)
			}
		}
	},
		Entry("the verb is an order that there is", rule{
			place:  "verb: Approve",
			accept: []string{"verb: Reject", "verb: Promote"},
			refuse: []string{"verb: approve", "verb: Delete", `verb: ""`},
			says:   []string{"spec.verb", "supported values", "ConfirmRemoval"},
		}),
		Entry("approving is about one step of one group", rule{
			place:  "  group: production\n  step: 1\n",
			accept: []string{"  group: production\n  step: 20\n"},
			refuse: []string{"", "  group: production\n", "  step: 1\n"},
			says:   []string{"Approve and Reject are about one step of one group; name both"},
		}),
		Entry("a step has a group, a group a step", rule{
			place:  "  verb: Approve\n",
			accept: []string{"  verb: Promote\n"},
			refuse: []string{"  verb: Pause\n", "  verb: Resume\n", "  verb: Abort\n", "  verb: Rollback\n", "  verb: Retry\n", "  verb: ConfirmRemoval\n"},
			says:   []string{"spec.group", "only Approve, Reject and Promote are about a step; remove spec.group and spec.step"},
		}),
		Entry("promoting names a whole step or none", rule{
			place:  "verb: Approve\n  revision: \"sha256:" + strings.Repeat("0a", 32) + "\"\n  attempt: 1\n  group: production\n  step: 1\n",
			accept: []string{"verb: Promote\n  revision: \"" + digest + "\"\n  attempt: 1\n"},
			refuse: []string{
				"verb: Promote\n  revision: \"" + digest + "\"\n  attempt: 1\n  group: production\n",
				"verb: Promote\n  revision: \"" + digest + "\"\n  attempt: 1\n  step: 2\n",
			},
			says: []string{"spec.group and spec.step: name both or none"},
		}),
		Entry("only a rollback has a target", rule{
			place:  "verb: Approve\n  revision: \"sha256:" + strings.Repeat("0a", 32) + "\"\n  attempt: 1\n  group: production\n  step: 1\n",
			accept: []string{"verb: Rollback\n  revision: \"" + digest + "\"\n  attempt: 1\n  toRevision: 3\n"},
			refuse: []string{"verb: Abort\n  revision: \"" + digest + "\"\n  attempt: 1\n  toRevision: 3\n"},
			says:   []string{"spec.toRevision: only Rollback has a target; remove it"},
		}),
		Entry("the revision is a digest", rule{
			place:  "sha256:" + strings.Repeat("0a", 32),
			accept: []string{"sha256:" + strings.Repeat("f9", 32)},
			refuse: []string{"payments-0a0a0a0a0a", "sha256:0a"},
			says:   []string{"spec.revision", "should match"},
		}),
		Entry("attempts count from 1", rule{
			place:  "attempt: 1",
			accept: []string{"attempt: 7"},
			refuse: []string{"attempt: 0"},
			says:   []string{"spec.attempt", "greater than or equal to 1"},
		}),
		Entry("a group has at most 20 steps", rule{
			place:  "step: 1",
			accept: []string{"step: 20"},
			refuse: []string{"step: 21"},
			says:   []string{"spec.step", "less than or equal to 20"},
		}),
		Entry("the reason fits a line or two", rule{
			place:  "the canaries look good",
			accept: []string{strings.Repeat("x", 512)},
			refuse: []string{strings.Repeat("x", 513)},
			says:   []string{"spec.reason", "512"},
		}),
	)

	It("is immutable, but for its metadata", func(ctx SpecContext) {
		action := actionIn(newNamespace(ctx), "somebody")
		Expect(clientOf("somebody", "system:masters").Create(ctx, action)).To(Succeed())
		Expect(edit(ctx, action, func(a *unstructured.Unstructured) { a.SetLabels(map[string]string{"ticket": "1234"}) })).To(Succeed())
		for field, value := range map[string]any{"verb": "Reject", "actor": "somebody else", "group": "canary", "reason": "on second thought", "attempt": int64(2)} {
			err := edit(ctx, action, func(a *unstructured.Unstructured) {
				Expect(unstructured.SetNestedField(a.Object, value, "spec", field)).To(Succeed())
			})
			Expect(err).To(MatchError(apierrors.IsInvalid, "IsInvalid"), field)
			Expect(err).To(MatchError(ContainSubstring("a RolloutAction is immutable; create another one")), field)
		}
	})
})

var _ = Describe("Who may give an order", func() {
	const approver, operator, stranger = "ann@example.com", "ben@example.com", "cleo@example.com"

	It("is decided by the right to create the subresource named like the verb", func(ctx SpecContext) {
		namespace, elsewhere := newNamespace(ctx), newNamespace(ctx)
		bind(ctx, namespace, approver, approverRole)
		bind(ctx, namespace, operator, operatorRole)
		bind(ctx, elsewhere, approver, operatorRole)
		about := func(verb v1alpha1.Verb) []string {
			if verb == v1alpha1.VerbApprove || verb == v1alpha1.VerbReject {
				return []string{"verb: Approve", "verb: " + string(verb)}
			}
			return []string{"verb: Approve", "verb: " + string(verb), "  group: production\n  step: 1\n", ""}
		}
		may := map[v1alpha1.Verb]string{
			v1alpha1.VerbApprove: approver, v1alpha1.VerbReject: approver,
			v1alpha1.VerbPause: operator, v1alpha1.VerbResume: operator, v1alpha1.VerbPromote: operator, v1alpha1.VerbAbort: operator,
			v1alpha1.VerbRollback: operator, v1alpha1.VerbRetry: operator, v1alpha1.VerbConfirmRemoval: operator,
		}
		Eventually(ctx, func() error {
			return clientOf(operator).Create(ctx, actionIn(namespace, operator, about(v1alpha1.VerbAbort)...), client.DryRunAll)
		}).Should(Succeed(), "the binding is not in force")
		for verb, who := range may {
			for _, user := range []string{approver, operator} {
				err := clientOf(user).Create(ctx, actionIn(namespace, user, about(verb)...), client.DryRunAll)
				if user == who {
					Expect(err).NotTo(HaveOccurred(), "%s by %s", verb, user)
					continue
				}
				Expect(err).To(MatchError(apierrors.IsForbidden, "IsForbidden"), "%s by %s", verb, user)
				Expect(err).To(MatchError(And(
					ContainSubstring(user), ContainSubstring("may not order "+string(verb)),
					ContainSubstring(namespace+"/payments"), ContainSubstring("resources: [fleetrollouts/"+strings.ToLower(string(verb))+"]"),
					ContainSubstring("resourceNames: [payments]"), ContainSubstring("verbs: [create]"),
				)))
			}
		}

		By("asking for the namespace of the action, not for one where the right is held")
		Expect(clientOf(approver).Create(ctx, actionIn(elsewhere, approver), client.DryRunAll)).To(MatchError(ContainSubstring("may not order Approve")))
		By("letting RBAC refuse those who may write no action at all")
		Expect(clientOf(stranger).Create(ctx, actionIn(namespace, stranger), client.DryRunAll)).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
	})

	It("may be given for one rollout by its name", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		Expect(k8s.Create(ctx, &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "approver-of-payments"},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"rolloutactions"}, Verbs: []string{"create"}},
				{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"fleetrollouts/approve"}, ResourceNames: []string{"payments"}, Verbs: []string{"create"}},
			},
		})).To(Succeed())
		Expect(k8s.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "approver-of-payments"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "approver-of-payments"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "payments-leads"}},
		})).To(Succeed())
		lead := clientOf(stranger, "payments-leads")
		Eventually(ctx, func() error {
			return lead.Create(ctx, actionIn(namespace, stranger), client.DryRunAll)
		}).Should(Succeed())
		err := lead.Create(ctx, actionIn(namespace, stranger, "rollout: payments", "rollout: orders"), client.DryRunAll)
		Expect(err).To(MatchError(And(ContainSubstring("may not order Approve"), ContainSubstring("resourceNames: [orders]"))))
	})

	It("signs with the own name, whatever the rights", func(ctx SpecContext) {
		for _, c := range []client.Client{clientOf(operator, "system:masters"), k8s} {
			err := c.Create(ctx, actionIn("default", approver), client.DryRunAll)
			Expect(err).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
			Expect(err).To(MatchError(And(ContainSubstring(`spec.actor: "`+approver+`" is not you`), ContainSubstring("Approve"), ContainSubstring("default/payments"))))
		}
	})
})

var _ = Describe("The audit trail", func() {
	It("is deleted from by nobody but the manager, nor owned by anybody", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		root := clientOf("root", "system:masters")
		action := actionIn(namespace, "root")
		Expect(root.Create(ctx, action)).To(Succeed())
		Expect(root.Delete(ctx, action)).To(MatchError(And(
			ContainSubstring(`user "root" may not delete RolloutActions`), ContainSubstring("they are the audit trail"))))
		Expect(root.DeleteAllOf(ctx, &v1alpha1.RolloutAction{}, client.InNamespace(namespace))).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
		Expect(edit(ctx, action, func(a *unstructured.Unstructured) {
			a.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "gone", UID: "1"}})
		})).To(MatchError(ContainSubstring("a RolloutAction is owned by nobody")))

		account := clientOf("system:serviceaccount:"+managerNamespace+":"+managerAccount, "system:serviceaccounts")
		Expect(account.Delete(ctx, action)).To(Succeed())
	})

	It("goes with its namespace", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		action := actionIn(namespace, "root")
		Expect(clientOf("root", "system:masters").Create(ctx, action)).To(Succeed())
		Expect(k8s.Delete(ctx, objectFrom("{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}"))).To(Succeed())
		Eventually(ctx, func(ctx SpecContext) error {
			return k8s.Get(ctx, client.ObjectKeyFromObject(action), action)
		}).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
	}, SpecTimeout(2*time.Minute))
})
