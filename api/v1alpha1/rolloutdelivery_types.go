package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RolloutDelivery is one FleetRollout on one managed cluster: what the cluster
// shall have, what it has, and since when. It lives in the namespace of the
// managed cluster. Its spec is intent, written by the rollout controller; its
// status is observation, written by the delivery controller. The agent on the
// cluster reads it from the hub.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=frd,categories=ocm
// +kubebuilder:printcolumn:name="Rollout",type=string,JSONPath=`.spec.rollout.name`
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.spec.revision.number`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.revision.version`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.stateSince`
// +kubebuilder:printcolumn:name="Group",type=string,priority=1,JSONPath=`.spec.group`
// +kubebuilder:printcolumn:name="Worst Object",type=string,priority=1,JSONPath=`.status.worstObject`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
type RolloutDelivery struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the cluster shall have.
	// +required
	Spec RolloutDeliverySpec `json:"spec"`

	// status is what the cluster has.
	// +optional
	Status RolloutDeliveryStatus `json:"status,omitempty"`
}

// RolloutDeliveryList is a list of RolloutDeliveries.
// +kubebuilder:object:root=true
type RolloutDeliveryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RolloutDelivery `json:"items"`
}

// RolloutReference names the FleetRollout of a delivery.
type RolloutReference struct {
	// namespace of the FleetRollout.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// name of the FleetRollout.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// uid of the FleetRollout.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	UID types.UID `json:"uid"`
}

// Direction says whether a delivery goes to a new revision or back.
// +kubebuilder:validation:Enum=Forward;Rollback
type Direction string

// The directions.
const (
	// DirectionForward brings a run's revision, or the stable one to a cluster
	// that joined.
	DirectionForward Direction = "Forward"
	// DirectionRollback puts the target of a rollback back.
	DirectionRollback Direction = "Rollback"
)

// RolloutDeliverySpec is what the cluster shall have. Every change of intent
// increments delivery, so that evidence of an earlier intent can be told apart.
type RolloutDeliverySpec struct {
	// rollout that the delivery belongs to.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a delivery belongs to one rollout for ever; delete it, and the manager makes the one that is due"
	Rollout RolloutReference `json:"rollout"`

	// revision that the cluster shall have.
	// +required
	Revision RevisionReference `json:"revision"`

	// delivery counts the writes of intent to this cluster, from 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:XValidation:rule="self >= oldSelf",message="the delivery number never falls, or evidence of an earlier intent would count as proof of this one; write a higher number"
	Delivery int64 `json:"delivery"`

	// run is the number of the rollout's run that was the latest when this
	// was written.
	// +required
	Run int64 `json:"run"`

	// attempt of that run.
	// +required
	Attempt int32 `json:"attempt"`

	// group of the cluster when this was written. It does not follow later
	// label changes.
	// +optional
	Group string `json:"group,omitempty"`

	// step of the group when this was written, from 1; 0 outside a run.
	// +optional
	Step int32 `json:"step,omitempty"`

	// direction says whether the cluster goes forward or back.
	// +required
	Direction Direction `json:"direction"`

	// unreachableAtWrite tells that the cluster could not be reached when this
	// was written: it is not waited for, and its deadline starts at its return.
	// +optional
	UnreachableAtWrite bool `json:"unreachableAtWrite,omitempty"`

	// rollback is the id of the rollback record that wrote this, with direction
	// Rollback.
	// +optional
	Rollback int64 `json:"rollback,omitempty"`

	// fastLeaseSeconds is how long from the write the agent renews its Lease
	// every 20 seconds instead of every 60: the soaks and deadlines left.
	// +optional
	FastLeaseSeconds int32 `json:"fastLeaseSeconds,omitempty"`

	// absentSince is since when the cluster, though Available and untainted,
	// has been missing from complete placement decisions.
	// +optional
	AbsentSince *metav1.MicroTime `json:"absentSince,omitempty"`

	// failure is recorded once the planner counts this delivery as failed in
	// its run. It stays until the next delivery: within a run a failure never
	// heals, though the sums of the step that showed it are gone.
	// +optional
	Failure *Cause `json:"failure,omitempty"`

	// removal orders the works to be removed, after which the delivery itself
	// goes: Delete removes the objects from the cluster, Orphan leaves them.
	// +optional
	Removal DeletePolicy `json:"removal,omitempty"`
}

// DeliveryState is the state of one rollout on one cluster.
// +kubebuilder:validation:Enum=Pending;Applying;Progressing;Healthy;Degraded;Failed;Unreachable;Blocked;Removing;Removed
type DeliveryState string

// The states of a delivery.
const (
	// StatePending: the intent is not yet written to a ManifestWork.
	StatePending DeliveryState = "Pending"
	// StateApplying: the ManifestWork is written, and not yet applied at its
	// present generation.
	StateApplying DeliveryState = "Applying"
	// StateProgressing: applied, and not yet proven healthy.
	StateProgressing DeliveryState = "Progressing"
	// StateHealthy: proven by evidence that carries digest and delivery number.
	StateHealthy DeliveryState = "Healthy"
	// StateDegraded: applied and reported unhealthy, or proven before and now
	// unhealthy; it may still recover.
	StateDegraded DeliveryState = "Degraded"
	// StateFailed: reported terminally failed. A later recovery does not undo
	// failedAt of this delivery.
	StateFailed DeliveryState = "Failed"
	// StateUnreachable: the ManagedCluster is not Available, or the agent's
	// Lease is not renewed.
	StateUnreachable DeliveryState = "Unreachable"
	// StateBlocked: nothing is written until somebody fixes what the message says.
	StateBlocked DeliveryState = "Blocked"
	// StateRemoving: the works are being removed.
	StateRemoving DeliveryState = "Removing"
	// StateRemoved: no work is left.
	StateRemoved DeliveryState = "Removed"
)

// RolloutDeliveryStatus is what the cluster has. All times are the hub's clock.
type RolloutDeliveryStatus struct {
	// state of the delivery.
	// +optional
	State DeliveryState `json:"state,omitempty"`

	// reason of the state, a constant of this API.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// message says for people what holds and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// stateSince is when state was last changed.
	// +optional
	StateSince *metav1.Time `json:"stateSince,omitempty"`

	// delivery that the times below are about: the spec's delivery that was
	// last rendered.
	// +optional
	Delivery int64 `json:"delivery,omitempty"`

	// rendered is recorded before the works are written, so that a later
	// render of the same delivery gives the same bytes.
	// +optional
	Rendered *Rendered `json:"rendered,omitempty"`

	// phase of the two writes that replace content: Add writes new and old
	// objects together, Drop the new ones alone.
	// +optional
	Phase WritePhase `json:"phase,omitempty"`

	// dropping are the objects of the earlier content that the phase Add still
	// carries and the phase Drop leaves out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2000
	Dropping []ObjectReference `json:"dropping,omitempty"`

	// applied is the intent that the work agent applied last.
	// +optional
	Applied *Proof `json:"applied,omitempty"`

	// proven is the intent that was proven healthy last.
	// +optional
	Proven *Proof `json:"proven,omitempty"`

	// writtenAt is when the works of this delivery were written first.
	// +optional
	WrittenAt *metav1.MicroTime `json:"writtenAt,omitempty"`

	// appliedAt is when the works of this delivery were applied first.
	// +optional
	AppliedAt *metav1.MicroTime `json:"appliedAt,omitempty"`

	// provenAt is when this delivery was proven healthy first; never cleared.
	// +optional
	ProvenAt *metav1.MicroTime `json:"provenAt,omitempty"`

	// healthySince is since when this delivery is proven healthy without a gap.
	// +optional
	HealthySince *metav1.MicroTime `json:"healthySince,omitempty"`

	// unhealthySince is since when the cluster is unhealthy on this delivery.
	// +optional
	UnhealthySince *metav1.MicroTime `json:"unhealthySince,omitempty"`

	// lostSince is since when the cluster is unreachable.
	// +optional
	LostSince *metav1.MicroTime `json:"lostSince,omitempty"`

	// returnedAt is when a cluster that was unreachable at the write returned
	// first.
	// +optional
	ReturnedAt *metav1.MicroTime `json:"returnedAt,omitempty"`

	// failedAt is when the agent reported a terminal failure of this delivery
	// first.
	// +optional
	FailedAt *metav1.MicroTime `json:"failedAt,omitempty"`

	// failure is the first terminal failure of this delivery.
	// +optional
	Failure *Cause `json:"failure,omitempty"`

	// clock holds how long the run had been paused at the moments that
	// deadlines are measured from, so that paused time can be left out.
	// +optional
	Clock DeliveryClock `json:"clock,omitzero"`

	// completedJobs are Jobs of earlier and present content that completed
	// here. A rollback does not deliver them again.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	CompletedJobs []CompletedJob `json:"completedJobs,omitempty"`

	// kept are objects that are no longer in the content and were left on the
	// cluster, because deleting them would destroy data.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Kept []ObjectReference `json:"kept,omitempty"`

	// preflight is what the agent found before the first work that adds objects
	// was written.
	// +optional
	Preflight *Preflight `json:"preflight,omitempty"`

	// unadopted are objects of ours that existed before, and that delivery.adopt
	// does not name. They stay when the rollout leaves the cluster.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2000
	Unadopted []ObjectReference `json:"unadopted,omitempty"`

	// drift are at most 10 objects of which another field manager has taken
	// fields of ours. Nothing of ours corrects it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Drift []ObjectDrift `json:"drift,omitempty"`

	// intentDrift says what the cluster's labels and claims of today would
	// change: it arrives with the next run. Empty if nothing.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	IntentDrift string `json:"intentDrift,omitempty"`

	// endpoints as they were probed last, in the order of health.endpoints.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Endpoints []EndpointHealth `json:"endpoints,omitempty"`

	// suspendedObjects are at most 10 objects that are suspended on purpose and
	// hold nothing up, such as a CronJob.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	SuspendedObjects []ObjectReference `json:"suspendedObjects,omitempty"`

	// worstObject is the first of unhealthyObjects, such as "Deployment
	// shop/api (Degraded)".
	// +optional
	// +kubebuilder:validation:MaxLength=400
	WorstObject string `json:"worstObject,omitempty"`

	// unhealthyObjects are at most 10 objects that are not healthy.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	UnhealthyObjects []ObjectHealth `json:"unhealthyObjects,omitempty"`
}

// WritePhase is the phase of the two writes that replace content, or of what
// comes before them.
// +kubebuilder:validation:Enum=Preflight;Add;Drop
type WritePhase string

// The phases.
const (
	// PhasePreflight writes nothing yet: the agent looks whether the objects that
	// are to be added exist already, and whether their APIs are served.
	PhasePreflight WritePhase = "Preflight"
	// PhaseAdd writes new and old objects together.
	PhaseAdd WritePhase = "Add"
	// PhaseDrop writes the new objects alone.
	PhaseDrop WritePhase = "Drop"
)

// Rendered is what one delivery renders to.
type Rendered struct {
	// delivery that was rendered.
	// +required
	Delivery int64 `json:"delivery"`

	// digest of its revision.
	// +required
	Digest string `json:"digest"`

	// revision that was rendered, for finding its payload again.
	// +required
	Revision string `json:"revision"`

	// attempt that was rendered; it is part of the names of Jobs.
	// +required
	Attempt int32 `json:"attempt"`

	// works are the names of the ManifestWorks, in order of their parts.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Works []string `json:"works,omitempty"`

	// overrides that matched the cluster, by name, in order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Overrides []string `json:"overrides,omitempty"`

	// variables of the overrides and the values that they had.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Variables []ResolvedVariable `json:"variables,omitempty"`

	// health is what counts as proof of this content.
	// +optional
	Health HealthPolicy `json:"health,omitzero"`

	// requires are the APIs that the cluster must serve.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Requires []RequiredAPI `json:"requires,omitempty"`

	// objects as delivered, in order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2000
	Objects []RenderedObject `json:"objects,omitempty"`
}

// RenderedObject is one object as delivered to a cluster.
type RenderedObject struct {
	ObjectReference `json:",inline"`

	// hash of the content as delivered; the object carries it in the
	// annotation AnnotationContentHash.
	// +required
	Hash string `json:"hash"`

	// part is the index of the work that carries the object, from 0.
	// +optional
	Part int32 `json:"part,omitempty"`
}

// Proof names an intent.
type Proof struct {
	// digest of the revision.
	// +required
	Digest string `json:"digest"`

	// delivery number.
	// +required
	Delivery int64 `json:"delivery"`
}

// DeliveryClock is the arithmetic of deadlines. Paused times are the run's
// paused milliseconds in all at that moment.
type DeliveryClock struct {
	// run whose paused time is meant; the sums of another run do not count.
	// +optional
	Run int64 `json:"run,omitempty"`

	// pausedAtWriteMilliseconds: the run's paused time at writtenAt.
	// +optional
	PausedAtWriteMilliseconds int64 `json:"pausedAtWriteMilliseconds,omitempty"`

	// pausedAtReturnMilliseconds: the run's paused time at returnedAt.
	// +optional
	PausedAtReturnMilliseconds int64 `json:"pausedAtReturnMilliseconds,omitempty"`

	// pausedAtLossMilliseconds: the run's paused time at lostSince.
	// +optional
	PausedAtLossMilliseconds int64 `json:"pausedAtLossMilliseconds,omitempty"`

	// stepStartedAt is the start of the run's step that the two sums below
	// belong to. Sums of an earlier step do not count.
	// +optional
	StepStartedAt *metav1.MicroTime `json:"stepStartedAt,omitempty"`

	// unhealthyMilliseconds is how long the cluster was unhealthy within the
	// step before unhealthySince.
	// +optional
	UnhealthyMilliseconds int64 `json:"unhealthyMilliseconds,omitempty"`

	// lostMilliseconds is how long the cluster was lost within the step
	// before lostSince, without paused time.
	// +optional
	LostMilliseconds int64 `json:"lostMilliseconds,omitempty"`

	// lostSinceWriteMilliseconds is how long the cluster was lost since the
	// write before lostSince, without paused time; the progress deadline of
	// the write does not count it, because lost time has its own deadline.
	// +optional
	LostSinceWriteMilliseconds int64 `json:"lostSinceWriteMilliseconds,omitempty"`

	// suspendedSince is since when the content is suspended; unset while it is
	// not.
	// +optional
	SuspendedSince *metav1.MicroTime `json:"suspendedSince,omitempty"`

	// pausedAtSuspensionMilliseconds: the run's paused time at suspendedSince.
	// +optional
	PausedAtSuspensionMilliseconds int64 `json:"pausedAtSuspensionMilliseconds,omitempty"`

	// suspendedMilliseconds is how long the content was suspended since the
	// write before suspendedSince, without paused time; what is suspended has no
	// deadline, so the progress deadline of the write does not count it.
	// +optional
	SuspendedMilliseconds int64 `json:"suspendedMilliseconds,omitempty"`
}

// CompletedJob is a Job that completed on the cluster.
type CompletedJob struct {
	// namespace of the Job.
	// +required
	Namespace string `json:"namespace"`

	// name of the Job in the template.
	// +required
	Name string `json:"name"`

	// hash of the Job's content in the template.
	// +required
	Hash string `json:"hash"`
}

// ObjectHealth is an object and what is wrong with it.
type ObjectHealth struct {
	ObjectReference `json:",inline"`

	// health of the object.
	// +required
	Health Health `json:"health"`

	// message says what is wrong.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// Preflight is what the agent found on the cluster before the work that adds
// objects was written.
type Preflight struct {
	// delivery that it is about.
	// +required
	Delivery int64 `json:"delivery"`

	// answeredAt is when the hub took the answer and went on to write. The agent
	// leaves it out.
	// +optional
	AnsweredAt *metav1.MicroTime `json:"answeredAt,omitempty"`

	// existing are objects to be added that exist already and are not stamped as
	// this rollout's. Secrets are never among them: the agent cannot see them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Existing []ObjectReference `json:"existing,omitempty"`

	// unserved are APIs that the content or spec.requires names, the cluster does
	// not serve, and no CustomResourceDefinition of the content brings.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Unserved []RequiredAPI `json:"unserved,omitempty"`
}

// ObjectDrift is an object of which another field manager has taken fields of
// ours.
type ObjectDrift struct {
	ObjectReference `json:",inline"`

	// manager that has taken them, as managedFields names it; "unknown" if they were
	// removed, because then nobody owns them.
	// +required
	// +kubebuilder:validation:MaxLength=256
	Manager string `json:"manager"`

	// paths of the fields, at most 5.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MaxLength=256
	Paths []string `json:"paths,omitempty"`
}

// EndpointHealth is how an endpoint was probed last.
type EndpointHealth struct {
	// endpoint as "namespace/name:port".
	// +required
	// +kubebuilder:validation:MaxLength=140
	Endpoint string `json:"endpoint"`

	// health of the endpoint.
	// +required
	Health Health `json:"health"`

	// latencyMilliseconds of the answer by which the health changed last; absent if
	// there was none. The present latency is in the agent's metrics.
	// +optional
	LatencyMilliseconds *int32 `json:"latencyMilliseconds,omitempty"`

	// message says what is wrong.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}
