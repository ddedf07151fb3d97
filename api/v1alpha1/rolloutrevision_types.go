package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RolloutRevision is one immutable content of a FleetRollout: its template and
// delivery options, named by digest and SemVer version. The payload lies
// compressed in a Secret of the same name and namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=frr,categories=ocm
// +kubebuilder:printcolumn:name="Rollout",type=string,JSONPath=`.spec.rollout`
// +kubebuilder:printcolumn:name="Number",type=integer,JSONPath=`.spec.number`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Verdict",type=string,JSONPath=`.status.verdict`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RolloutRevision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the frozen content.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a RolloutRevision is immutable; change the FleetRollout to make a new revision"
	Spec RolloutRevisionSpec `json:"spec"`

	// status is written by the manager alone.
	// +optional
	Status RolloutRevisionStatus `json:"status,omitempty"`
}

// RolloutRevisionList is a list of RolloutRevisions.
// +kubebuilder:object:root=true
type RolloutRevisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RolloutRevision `json:"items"`
}

// RolloutRevisionSpec is the frozen content of a revision.
type RolloutRevisionSpec struct {
	// rollout is the name of the FleetRollout, in the same namespace.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Rollout string `json:"rollout"`

	// number counts the revisions of the rollout, from 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	Number int64 `json:"number"`

	// version is the SemVer version of the content.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version"`

	// digest is the SHA-256 of the canonical content, "sha256:" and 64 hex
	// digits.
	// +required
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest"`

	// inventory lists the objects of the content.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2000
	Inventory []InventoryEntry `json:"inventory"`
}

// ObjectReference names an object on a managed cluster.
type ObjectReference struct {
	// group of the API; empty for the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`

	// version of the API.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version"`

	// kind of the object.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// namespace of the object; empty for cluster-scoped objects.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// InventoryEntry is one object of a revision.
type InventoryEntry struct {
	ObjectReference `json:",inline"`

	// hash of the object's canonical content.
	// +required
	// +kubebuilder:validation:MaxLength=80
	Hash string `json:"hash"`

	// component that the object belongs to.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Component string `json:"component"`
}

// Verdict is what became of a revision.
// +kubebuilder:validation:Enum=Candidate;Succeeded;Failed;Superseded
type Verdict string

// The verdicts.
const (
	// VerdictCandidate: no run of it has ended yet.
	VerdictCandidate Verdict = "Candidate"
	// VerdictSucceeded: a run of it Succeeded. Only a rollback ordered by a
	// person takes that away.
	VerdictSucceeded Verdict = "Succeeded"
	// VerdictFailed: its last run Failed. It is not tried again by itself.
	VerdictFailed Verdict = "Failed"
	// VerdictSuperseded: a newer revision ended its run.
	VerdictSuperseded Verdict = "Superseded"
)

// RolloutRevisionStatus is what became of a revision.
type RolloutRevisionStatus struct {
	// verdict. Absent means Candidate.
	// +optional
	Verdict Verdict `json:"verdict,omitempty"`

	// reason of the verdict.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// message for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// decidedAt is when the verdict was last changed.
	// +optional
	DecidedAt *metav1.MicroTime `json:"decidedAt,omitempty"`

	// attempts is how many runs of this revision have started.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
}

// RevisionPayload is the content that a revision freezes, as it lies in the
// payload Secret. It is what the digest covers.
type RevisionPayload struct {
	// Version is the SemVer version.
	Version string `json:"version"`
	// Template is the content; what manifestsFrom named is among its manifests.
	Template Template `json:"template"`
	// Requires says what a cluster must offer.
	Requires Requirements `json:"requires,omitzero"`
	// Overrides change the content for the clusters that they select.
	Overrides []Override `json:"overrides,omitempty"`
	// Delivery says how it is applied and removed.
	Delivery DeliveryOptions `json:"delivery,omitzero"`
	// HashKey is there if some of the content comes from a Secret. It makes every
	// hash of the content one that cannot be guessed: without it, whoever may read
	// the hash of a password could try passwords until one fits. It is secret.
	HashKey []byte `json:"hashKey,omitempty"`
	// Health says what counts as proof.
	Health HealthPolicy `json:"health,omitzero"`
}
