package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RolloutAction is one order of a person to a rollout: approve a step, abort,
// roll back. It is written once and never changed; what became of it is in its
// status. Kept actions are the audit trail.
//
// Who may give which order is decided by RBAC: creating an action needs the
// right to "create" the subresource of FleetRollouts that is named like the
// verb in lower case, such as fleetrollouts/approve, for that rollout.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=fra,categories=ocm
// +kubebuilder:printcolumn:name="Rollout",type=string,JSONPath=`.spec.rollout`
// +kubebuilder:printcolumn:name="Verb",type=string,JSONPath=`.spec.verb`
// +kubebuilder:printcolumn:name="Actor",type=string,JSONPath=`.spec.actor`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Complete",type=string,JSONPath=`.status.conditions[?(@.type=="Complete")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Accepted")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RolloutAction struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the order.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec: a RolloutAction is immutable; create another one"
	Spec RolloutActionSpec `json:"spec"`

	// status is written by the manager alone.
	// +optional
	Status RolloutActionStatus `json:"status,omitempty"`
}

// RolloutActionList is a list of RolloutActions.
// +kubebuilder:object:root=true
type RolloutActionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RolloutAction `json:"items"`
}

// MaxFinishedActions is how many finished RolloutActions of one FleetRollout are
// kept as its audit trail. The manager deletes older ones; nobody else may
// delete any.
const MaxFinishedActions = 100

// Verb is an order.
// +kubebuilder:validation:Enum=Approve;Reject;Pause;Resume;Promote;Abort;Rollback;Retry;ConfirmRemoval
type Verb string

// The verbs.
const (
	// VerbApprove opens the approval gate of one step of one group.
	VerbApprove Verb = "Approve"
	// VerbReject shuts it until a later Approve.
	VerbReject Verb = "Reject"
	// VerbPause stops joins and forward writes of the run.
	VerbPause Verb = "Pause"
	// VerbResume ends a Pause; it never overrides spec.paused.
	VerbResume Verb = "Resume"
	// VerbPromote ends the soak of the present step, or its wait with reason
	// NoEvidence or ShareReached; never approval, health or budget.
	VerbPromote Verb = "Promote"
	// VerbAbort fails the run and rolls every cluster of it back, in any mode.
	VerbAbort Verb = "Abort"
	// VerbRollback puts an earlier revision back on the whole fleet.
	VerbRollback Verb = "Rollback"
	// VerbRetry starts a new attempt of the template's failed or halted
	// revision, from the first group.
	VerbRetry Verb = "Retry"
	// VerbConfirmRemoval lets the last clusters of a rollout be removed, which
	// complete but empty placement decisions alone do not.
	VerbConfirmRemoval Verb = "ConfirmRemoval"
)

// RolloutActionSpec is an order, about what its author saw.
// +kubebuilder:validation:XValidation:rule="!(self.verb in ['Approve', 'Reject']) || (has(self.group) && has(self.step))",message="spec.group and spec.step: Approve and Reject are about one step of one group; name both"
// +kubebuilder:validation:XValidation:rule="has(self.group) == has(self.step)",message="spec.group and spec.step: name both or none"
// +kubebuilder:validation:XValidation:rule="!has(self.group) || self.verb in ['Approve', 'Reject', 'Promote']",message="spec.group: only Approve, Reject and Promote are about a step; remove spec.group and spec.step"
// +kubebuilder:validation:XValidation:rule="!has(self.toRevision) || self.verb == 'Rollback'",message="spec.toRevision: only Rollback has a target; remove it"
type RolloutActionSpec struct {
	// rollout is the name of the FleetRollout, in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Rollout string `json:"rollout"`

	// verb is the order.
	// +required
	Verb Verb `json:"verb"`

	// revision is the digest of the run's revision that the author saw. The
	// order is void for any other.
	// +required
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Revision string `json:"revision"`

	// attempt of that revision that the author saw. The order is void for any
	// other.
	// +required
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt"`

	// group that the order is about: required for Approve and Reject, and
	// optional for Promote, which then is void once that step was left.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Group string `json:"group,omitempty"`

	// step of the group, from 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20
	Step int32 `json:"step,omitempty"`

	// toRevision is the number of the revision that a Rollback puts back; the
	// stable one where none is given, or while a run is going. It must have Succeeded once.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ToRevision *int64 `json:"toRevision,omitempty"`

	// actor is the user name of the author. It must be the one who creates the
	// action, which a ValidatingAdmissionPolicy proves.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Actor string `json:"actor"`

	// reason in the author's words.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Reason string `json:"reason,omitempty"`
}

// RolloutActionStatus is what became of an order.
type RolloutActionStatus struct {
	// conditions: Accepted and Complete.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
