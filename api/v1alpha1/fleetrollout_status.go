package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// FleetRolloutStatus is what the manager observed and decided. It does not
// grow with the fleet: the truth of each cluster is on its RolloutDelivery.
type FleetRolloutStatus struct {
	// observedGeneration is the generation of the spec that this status is
	// about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready, Progressing, Stalled, PlacementResolved, RolledBack.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// placements as they were last resolved completely.
	// +optional
	// +listType=map
	// +listMapKey=name
	Placements []ResolvedPlacement `json:"placements,omitempty"`

	// currentRevision is the revision of the present template.
	// +optional
	CurrentRevision *RevisionReference `json:"currentRevision,omitempty"`

	// stableRevision is the revision of the last run that Succeeded.
	// +optional
	StableRevision *RevisionReference `json:"stableRevision,omitempty"`

	// run is the going run, or the last one that ended.
	// +optional
	Run *Run `json:"run,omitempty"`

	// removalConfirmation is a person's word that the clusters may be removed
	// although no cluster is selected any more. It is void once one is.
	// +optional
	RemovalConfirmation *Order `json:"removalConfirmation,omitempty"`

	// handledActions are the UIDs of RolloutActions whose effect is in this
	// status and whose own status does not say so yet.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	HandledActions []types.UID `json:"handledActions,omitempty"`

	// clusters counts the selected clusters by what they are in.
	// +optional
	Clusters ClusterCounts `json:"clusters,omitzero"`

	// problems names at most 20 clusters that hold something up. How many
	// there are in all is in clusters.
	// +optional
	// +listType=map
	// +listMapKey=cluster
	// +kubebuilder:validation:MaxItems=20
	Problems []Problem `json:"problems,omitempty"`

	// rollbacks are the newest rollback records, at most 20; an open one is
	// never trimmed.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=20
	Rollbacks []RollbackRecord `json:"rollbacks,omitempty"`
}

// ResolvedPlacement is a Placement as its decisions were last read completely.
type ResolvedPlacement struct {
	// name of the Placement.
	// +required
	Name string `json:"name"`

	// generation of the Placement whose decisions were read.
	// +required
	Generation int64 `json:"generation"`

	// changedAt is when a change of its generation was seen last. The decisions
	// follow such a change a moment later.
	// +optional
	ChangedAt *metav1.MicroTime `json:"changedAt,omitempty"`

	// selectedClusters is how many clusters its decisions named.
	// +required
	SelectedClusters int32 `json:"selectedClusters"`
}

// RevisionReference names a revision.
type RevisionReference struct {
	// name of the RolloutRevision.
	// +required
	Name string `json:"name"`

	// number counts the revisions of a rollout, from 1.
	// +required
	Number int64 `json:"number"`

	// version is the SemVer version.
	// +required
	Version string `json:"version"`

	// digest of the content.
	// +required
	Digest string `json:"digest"`
}

// RunPhase is the phase of a run.
// +kubebuilder:validation:Enum=Progressing;Halted;Succeeded;Failed;Superseded
type RunPhase string

// The phases of a run.
const (
	// RunProgressing walks through its groups.
	RunProgressing RunPhase = "Progressing"
	// RunHalted spent its budget with rollback mode Manual and waits for a
	// person. Halted is latched: recovery does not end it.
	RunHalted RunPhase = "Halted"
	// RunSucceeded left its last step with every admitted cluster proven.
	RunSucceeded RunPhase = "Succeeded"
	// RunFailed ended without success.
	RunFailed RunPhase = "Failed"
	// RunSuperseded ended because a newer revision took its place.
	RunSuperseded RunPhase = "Superseded"
)

// Run is one attempt to move the fleet to a revision. What a restarted manager
// needs of it is here; nothing is in memory alone.
type Run struct {
	// number counts the runs of the rollout, from 1. Deliveries carry it.
	// +required
	Number int64 `json:"number"`

	// revision that the run brings out.
	// +required
	Revision RevisionReference `json:"revision"`

	// attempt counts the runs of this revision, from 1.
	// +required
	Attempt int32 `json:"attempt"`

	// phase of the run.
	// +required
	Phase RunPhase `json:"phase"`

	// startedAt is when the run started.
	// +required
	StartedAt metav1.MicroTime `json:"startedAt"`

	// endedAt is when the run Succeeded, Failed or was Superseded.
	// +optional
	EndedAt *metav1.MicroTime `json:"endedAt,omitempty"`

	// pausedAt is since when the run is paused.
	// +optional
	PausedAt *metav1.MicroTime `json:"pausedAt,omitempty"`

	// pausedMilliseconds is how long the run was paused before pausedAt. Times in
	// which no manager was watching are part of it: nobody fails for them.
	// +optional
	PausedMilliseconds int64 `json:"pausedMilliseconds,omitempty"`

	// unwatchedUntil is the end of the last time in which no manager was watching
	// that pausedMilliseconds contains.
	// +optional
	UnwatchedUntil *metav1.MicroTime `json:"unwatchedUntil,omitempty"`

	// frozenGroups are the groups and steps of the strategy as they were when
	// the run started. Budgets, pause and rollback policy are read live.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=17
	FrozenGroups []Group `json:"frozenGroups,omitempty"`

	// group that is being walked; empty once the run has ended.
	// +optional
	Group string `json:"group,omitempty"`

	// step of the group that is being walked, from 1; 0 once the run has ended.
	// +optional
	Step int32 `json:"step,omitempty"`

	// stepTarget is how many clusters of the group the step admits, fixed when
	// the step starts.
	// +optional
	StepTarget *int32 `json:"stepTarget,omitempty"`

	// stepStartedAt is when the step started.
	// +optional
	StepStartedAt *metav1.MicroTime `json:"stepStartedAt,omitempty"`

	// soakStartedAt is when the step's whole share had been written and
	// proven; unset while it is not.
	// +optional
	SoakStartedAt *metav1.MicroTime `json:"soakStartedAt,omitempty"`

	// approvals are the decisions of people about steps of this run.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +listMapKey=step
	// +kubebuilder:validation:MaxItems=340
	Approvals []Approval `json:"approvals,omitempty"`

	// pauseOrder is the last Pause of a person that no Resume has ended.
	// +optional
	PauseOrder *Order `json:"pauseOrder,omitempty"`

	// promotion lets the present step be left without soak, or without
	// evidence. It is void once the step was left.
	// +optional
	Promotion *Order `json:"promotion,omitempty"`

	// haltCause says why the run was halted or failed.
	// +optional
	HaltCause *Cause `json:"haltCause,omitempty"`

	// waitingFor names what the run waits for now.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	WaitingFor []Waiting `json:"waitingFor,omitempty"`

	// groups counts the clusters of each group.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=17
	Groups []GroupCounts `json:"groups,omitempty"`
}

// Order is who ordered something, when, with which RolloutAction.
type Order struct {
	// action is the name of the RolloutAction.
	// +required
	Action string `json:"action"`

	// actor is the user name of its author.
	// +required
	Actor string `json:"actor"`

	// at is when it took effect.
	// +required
	At metav1.MicroTime `json:"at"`

	// reason in the author's words.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Reason string `json:"reason,omitempty"`
}

// Approval is the last decision of a person about one step of a run.
type Approval struct {
	// group of the step.
	// +required
	Group string `json:"group"`

	// step of the group, from 1.
	// +required
	Step int32 `json:"step"`

	// decision about the step.
	// +required
	Decision ApprovalDecision `json:"decision"`

	Order `json:",inline"`
}

// ApprovalDecision is what a person decided about a step.
// +kubebuilder:validation:Enum=Approved;Rejected
type ApprovalDecision string

// The decisions.
const (
	// StepApproved opens the gate of the step.
	StepApproved ApprovalDecision = "Approved"
	// StepRejected shuts it until a later approval.
	StepRejected ApprovalDecision = "Rejected"
)

// Cause is why something happened, for programs and for people.
type Cause struct {
	// reason is a constant of this API.
	// +required
	Reason string `json:"reason"`

	// message is one sentence for people.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`
}

// Waiting is one thing that a run waits for.
type Waiting struct {
	// reason is a constant of this API, such as Soaking or WaitingForEvidence.
	// +required
	Reason string `json:"reason"`

	// message is one sentence for people: what is waited for, and what ends it.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`

	// cluster that is waited for, where it is one.
	// +optional
	Cluster string `json:"cluster,omitempty"`

	// since when.
	// +optional
	Since *metav1.MicroTime `json:"since,omitempty"`

	// until when at the latest, where that is known.
	// +optional
	Until *metav1.MicroTime `json:"until,omitempty"`
}

// GroupCounts counts the clusters of one group of the run.
type GroupCounts struct {
	// name of the group.
	// +required
	Name string `json:"name"`
	// selected clusters of the group.
	Selected int32 `json:"selected"`
	// updated clusters: written with the run's revision, and applied.
	Updated int32 `json:"updated"`
	// healthy clusters: proven on the run's revision.
	Healthy int32 `json:"healthy"`
	// failed clusters that count against the budget.
	Failed int32 `json:"failed"`
	// unreachable clusters.
	Unreachable int32 `json:"unreachable"`
}

// ClusterCounts counts the selected clusters by what they are in. Updated and
// healthy are about the run's revision.
type ClusterCounts struct {
	// selected clusters in all.
	Selected int32 `json:"selected"`
	// updated clusters: the run's revision has been applied.
	Updated int32 `json:"updated"`
	// healthy clusters: proven on what they shall have now.
	Healthy int32 `json:"healthy"`
	// progressing clusters: written, and not yet proven.
	Progressing int32 `json:"progressing"`
	// degraded clusters: unhealthy, and not yet failed.
	Degraded int32 `json:"degraded"`
	// failed clusters.
	Failed int32 `json:"failed"`
	// unreachable clusters: not Available, or their agent is silent.
	Unreachable int32 `json:"unreachable"`
	// blocked clusters: not written until somebody fixes what their problem says.
	Blocked int32 `json:"blocked"`
	// progress is updated and selected as people read them, such as "2/3".
	// +optional
	Progress string `json:"progress,omitempty"`
}

// Problem names a cluster that holds something up.
type Problem struct {
	// cluster is the name of the ManagedCluster.
	// +required
	Cluster string `json:"cluster"`

	// reason is a constant of this API.
	// +required
	Reason string `json:"reason"`

	// message says what is wrong and what to do.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`
}

// RollbackTrigger says what started a rollback.
// +kubebuilder:validation:Enum=BudgetSpent;Reverted;Aborted;Requested
type RollbackTrigger string

// The rollback triggers.
const (
	// TriggerBudgetSpent means more clusters failed than the budget allows.
	TriggerBudgetSpent RollbackTrigger = "BudgetSpent"
	// TriggerReverted means the template was set back to the stable revision.
	TriggerReverted RollbackTrigger = "Reverted"
	// TriggerAborted means a person aborted the run.
	TriggerAborted RollbackTrigger = "Aborted"
	// TriggerRequested means a person ordered the rollback.
	TriggerRequested RollbackTrigger = "Requested"
)

// RollbackScope says which clusters go back.
// +kubebuilder:validation:Enum=All
type RollbackScope string

// RollbackScopeAll means every cluster on one of the record's revisions.
const RollbackScopeAll RollbackScope = "All"

// RollbackResult is how a rollback stands.
// +kubebuilder:validation:Enum=InProgress;Incomplete;Complete;Superseded
type RollbackResult string

// The results of a rollback.
const (
	// RollbackInProgress: clusters are still going back.
	RollbackInProgress RollbackResult = "InProgress"
	// RollbackIncomplete: some clusters did not prove the target in time, or
	// cannot be reached. They are named as problems; the record stays open.
	RollbackIncomplete RollbackResult = "Incomplete"
	// RollbackComplete: every covered cluster has proven the target.
	RollbackComplete RollbackResult = "Complete"
	// RollbackSuperseded: a newer run admitted every cluster that was left.
	RollbackSuperseded RollbackResult = "Superseded"
)

// RollbackRecord is one decision to go back, and what came of it.
type RollbackRecord struct {
	// id numbers the records of a rollout, from 1.
	// +required
	ID int64 `json:"id"`

	// from are the revisions that are left: the failed one, and all
	// superseded revisions that are not stable. The newest 10 are named; the
	// record covers whatever the deliveries of its run and of earlier runs
	// hold, other than the target.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	From []RevisionReference `json:"from"`

	// to is the revision that is put back.
	// +required
	To RevisionReference `json:"to"`

	// run is the number of the run that was given up. The record covers only
	// deliveries of that run and of earlier ones.
	// +required
	Run int64 `json:"run"`

	// trigger says what started the rollback.
	// +required
	Trigger RollbackTrigger `json:"trigger"`

	// actor is the policy or the person that decided.
	// +required
	Actor string `json:"actor"`

	// action is the name of the RolloutAction that ordered it, where a person did.
	// +optional
	Action string `json:"action,omitempty"`

	// cause in words.
	// +required
	Cause Cause `json:"cause"`

	// scope says which clusters go back.
	// +required
	Scope RollbackScope `json:"scope"`

	// startedAt is when it was decided.
	// +required
	StartedAt metav1.MicroTime `json:"startedAt"`

	// finishedAt is when the result became Complete or Superseded.
	// +optional
	FinishedAt *metav1.MicroTime `json:"finishedAt,omitempty"`

	// result so far.
	// +required
	Result RollbackResult `json:"result"`

	// clusters is how many clusters the record covered when it started.
	// +required
	Clusters int32 `json:"clusters"`

	// restored is how many of them have proven the target.
	// +optional
	Restored int32 `json:"restored,omitempty"`
}
