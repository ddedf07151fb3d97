package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// FleetRollout describes what to run on a fleet of managed clusters and how
// carefully to change it. The hub admits one cluster after the other to a new
// revision, waits for proof of health, and puts the retained stable revision
// back when the proof fails.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=fro,categories=ocm
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Stable",type=string,JSONPath=`.status.stableRevision.version`
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.status.run.group`
// +kubebuilder:printcolumn:name="Updated",type=string,JSONPath=`.status.clusters.progress`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name: must be at most 63 characters, because it becomes a label value; choose a shorter name"
type FleetRollout struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired content and the strategy that brings it out.
	// +required
	Spec FleetRolloutSpec `json:"spec"`

	// status is written by the manager alone.
	// +optional
	Status FleetRolloutStatus `json:"status,omitempty"`
}

// FleetRolloutList is a list of FleetRollouts.
// +kubebuilder:object:root=true
type FleetRolloutList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FleetRollout `json:"items"`
}

// FleetRolloutSpec is the desired content and the strategy that brings it out.
type FleetRolloutSpec struct {
	// version is the SemVer version that people and dashboards talk about. It
	// is part of the content: a changed version is a new revision.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[1-9][0-9]*)\\\\.(0|[1-9][0-9]*)\\\\.(0|[1-9][0-9]*)(-((0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)(\\\\.(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*))?(\\\\+([0-9a-zA-Z-]+(\\\\.[0-9a-zA-Z-]+)*))?$')",messageExpression="'\"' + self + '\" is not a SemVer version; write MAJOR.MINOR.PATCH without a leading v, such as 1.4.0 or 1.5.0-rc.1'"
	Version string `json:"version"`

	// placements names the OCM Placements of this namespace whose decisions
	// select the managed clusters. A cluster selected by two counts once.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.name == p.name))",message="a Placement is named twice; name each one once"
	Placements []PlacementReference `json:"placements"`

	// paused stops joins and forward writes. Evidence counts on, and automatic
	// rollback stays armed.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// template is the content that every selected cluster shall run.
	// +required
	Template Template `json:"template"`

	// requires says what a cluster must offer. One that does not is Blocked.
	// +optional
	Requires Requirements `json:"requires,omitzero"`

	// overrides change the content for the clusters that they select, in order;
	// the later wins.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Overrides []Override `json:"overrides,omitempty"`

	// delivery says how the content is applied and removed on the clusters.
	// +optional
	Delivery DeliveryOptions `json:"delivery,omitzero"`

	// health says what counts as proof.
	// +optional
	Health HealthPolicy `json:"health,omitzero"`

	// strategy says which clusters get a new revision, in which order, and
	// what must hold before the next ones do.
	// +required
	Strategy Strategy `json:"strategy"`

	// rollback says what happens when the failure budget is spent.
	// +optional
	Rollback RollbackPolicy `json:"rollback,omitzero"`

	// history says how many revisions are retained.
	// +optional
	History HistoryPolicy `json:"history,omitzero"`
}

// PlacementReference names an OCM Placement in the namespace of the rollout.
type PlacementReference struct {
	// name of the Placement.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Template is the content of a revision.
type Template struct {
	// components are the named parts of the content.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(c, self.exists_one(d, d.name == c.name))",message="two components have the same name; rename one, or join their manifests"
	Components []Component `json:"components"`
}

// Component is a named list of Kubernetes objects.
//
// +kubebuilder:validation:XValidation:rule="has(self.manifests) || has(self.manifestsFrom)",message="the component is empty; give it manifests or manifestsFrom"
type Component struct {
	// name of the component, unique within the template.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// manifests are plain Kubernetes objects. Each needs apiVersion, kind and
	// metadata.name. A Secret with data or stringData is refused: whoever may
	// read FleetRollouts could read it. A Job with ttlSecondsAfterFinished is
	// refused: the work agent would run it again after its time.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=500
	// +kubebuilder:validation:items:XEmbeddedResource
	// +kubebuilder:validation:items:XPreserveUnknownFields
	// +kubebuilder:validation:items:XValidation:rule="self.kind != 'List'",message="kind List is a list, not an object; write its items here one by one"
	// +kubebuilder:validation:items:XValidation:rule="self.kind == 'List' || (has(self.metadata) && has(self.metadata.name) && self.metadata.name != '')",message="metadata.name is missing; give the object a fixed name (generateName is not enough), and write the items of a list one by one"
	Manifests []runtime.RawExtension `json:"manifests,omitempty"`

	// manifestsFrom names ConfigMaps and Secrets in the namespace of the rollout
	// that hold more manifests, as multi-document YAML. A changed source is a new
	// revision. Unlike in manifests, Secrets with data may be in a source that is
	// a Secret.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	ManifestsFrom []ManifestSource `json:"manifestsFrom,omitempty"`
}

// ManifestSource names an object that holds manifests.
//
// +kubebuilder:validation:XValidation:rule="has(self.configMap) != has(self.secret)",message="give exactly one of configMap and secret"
type ManifestSource struct {
	// configMap that holds the manifests.
	// +optional
	ConfigMap *SourceReference `json:"configMap,omitempty"`

	// secret that holds the manifests.
	// +optional
	Secret *SourceReference `json:"secret,omitempty"`
}

// SourceReference names a ConfigMap or Secret in the namespace of the rollout.
type SourceReference struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// key whose value is read. Defaults to all keys, in alphabetical order.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// Requirements say what a cluster must offer.
type Requirements struct {
	// apis that the cluster must serve. They are looked up before the first
	// work that adds objects is written; a cluster without one is Blocked until it
	// serves it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	APIs []RequiredAPI `json:"apis,omitempty"`
}

// RequiredAPI names a kind at a version of the API.
type RequiredAPI struct {
	// group of the API; empty for the core group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`

	// version of the API.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version"`

	// kind that must be served.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
}

// DeliveryOptions say how the content is applied and removed on the clusters.
type DeliveryOptions struct {
	// conflicts says what happens when a field of ours is owned by another
	// field manager on the cluster: Force takes it over, Fail reports the
	// conflict and applies nothing of that object. Defaults to Force.
	// +optional
	Conflicts ConflictPolicy `json:"conflicts,omitempty"`

	// onDelete says what happens to the delivered objects when the rollout is
	// deleted or a cluster leaves it: Delete removes them (never CRDs,
	// Namespaces, PersistentVolumeClaims or PersistentVolumes), Orphan leaves
	// them. Defaults to Delete.
	// +optional
	OnDelete DeletePolicy `json:"onDelete,omitempty"`

	// ignoreFields are left to whoever writes them on the cluster once the objects
	// exist. The work agent then no longer repairs any drift of these objects.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	IgnoreFields []IgnoredFields `json:"ignoreFields,omitempty"`

	// executor is the identity on the clusters whose rights are asked for before
	// an object is applied. By default nobody's are.
	// +optional
	Executor *Executor `json:"executor,omitempty"`

	// adopt are objects that may be taken over where they exist already. Any other
	// object that exists without being ours is reported; it is applied, and it
	// stays when the rollout leaves the cluster.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Adopt []ObjectTarget `json:"adopt,omitempty"`
}

// IgnoredFields are fields of objects that others write.
type IgnoredFields struct {
	// target of the fields.
	// +required
	Target ObjectTarget `json:"target"`

	// jsonPaths of the fields, such as .spec.replicas.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:Pattern=`^\.`
	JSONPaths []string `json:"jsonPaths"`
}

// Executor is an identity on the clusters.
type Executor struct {
	// serviceAccount on the clusters.
	// +required
	ServiceAccount ExecutorServiceAccount `json:"serviceAccount"`
}

// ExecutorServiceAccount names a ServiceAccount on the clusters.
type ExecutorServiceAccount struct {
	// namespace of the ServiceAccount.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// name of the ServiceAccount.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ConflictPolicy says what happens on a field conflict of server-side apply.
// +kubebuilder:validation:Enum=Force;Fail
type ConflictPolicy string

// The conflict policies.
const (
	// ConflictForce takes the field over.
	ConflictForce ConflictPolicy = "Force"
	// ConflictFail reports the conflict and leaves the object as it is.
	ConflictFail ConflictPolicy = "Fail"
)

// DeletePolicy says what happens to delivered objects on removal.
// +kubebuilder:validation:Enum=Delete;Orphan
type DeletePolicy string

// The delete policies.
const (
	// DeletePolicyDelete removes the delivered objects.
	DeletePolicyDelete DeletePolicy = "Delete"
	// DeletePolicyOrphan leaves the delivered objects on the cluster.
	DeletePolicyOrphan DeletePolicy = "Orphan"
)

// Strategy says which clusters get a new revision, in which order, and what
// must hold before the next ones do.
type Strategy struct {
	// groups are walked in order. A cluster is in the first group whose
	// selector matches its ManagedCluster labels; clusters that no group
	// selects form a final implicit group named "unmatched".
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(g, self.exists_one(h, h.name == g.name))",message="two groups have the same name; rename one"
	// +kubebuilder:validation:XValidation:rule="self.all(g, g.name != 'unmatched')",message="the group name \"unmatched\" is reserved for clusters that no group selects; choose another name"
	Groups []Group `json:"groups"`

	// unmatched says what happens to selected clusters that no group selects:
	// Last makes them a final implicit group named "unmatched", Block starts no
	// run as long as there is one. Defaults to Last.
	// +optional
	Unmatched UnmatchedPolicy `json:"unmatched,omitempty"`

	// windows are the hours in which forward writes may happen. The windows that
	// select a cluster unite; a cluster that none selects is always open.
	// Rollback is exempt.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Windows []MaintenanceWindow `json:"windows,omitempty"`

	// freezes are times in which no forward write happens anywhere. Rollback is
	// exempt.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Freezes []Freeze `json:"freezes,omitempty"`

	// progressDeadlineSeconds is how long a cluster may take from the write of
	// its new content until it is proven healthy. Paused time does not count.
	// Defaults to 600.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// failureBudget is how many clusters of the whole fleet may fail before
	// the run ends. Defaults to none.
	// +optional
	FailureBudget *FailureBudget `json:"failureBudget,omitempty"`
}

// UnmatchedPolicy says what happens to clusters that no group selects.
// +kubebuilder:validation:Enum=Last;Block
type UnmatchedPolicy string

// The policies for clusters that no group selects.
const (
	// UnmatchedLast makes them a final implicit group.
	UnmatchedLast UnmatchedPolicy = "Last"
	// UnmatchedBlock starts no run as long as there is one.
	UnmatchedBlock UnmatchedPolicy = "Block"
)

// MaintenanceWindow is a weekly time in which forward writes may happen.
type MaintenanceWindow struct {
	// clusterSelector selects ManagedClusters by label. An empty selector
	// matches every cluster.
	// +required
	ClusterSelector metav1.LabelSelector `json:"clusterSelector"`

	// timeZone is a name of the IANA time zone database, such as Europe/Berlin.
	// Defaults to UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`

	// days on which the window opens. Defaults to every day.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=7
	Days []Weekday `json:"days,omitempty"`

	// start is the time of day at which the window opens, as HH:MM.
	// +required
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	Start string `json:"start"`

	// durationSeconds is how long the window stays open; it may pass midnight.
	// +required
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=604800
	DurationSeconds int32 `json:"durationSeconds"`
}

// Weekday is a day of the week.
// +kubebuilder:validation:Enum=Mon;Tue;Wed;Thu;Fri;Sat;Sun
type Weekday string

// Freeze is a time in which no forward write happens.
// +kubebuilder:validation:XValidation:rule="timestamp(self.from) < timestamp(self.to)",message="to: must be later than from"
type Freeze struct {
	// from when.
	// +required
	From metav1.Time `json:"from"`

	// to when.
	// +required
	To metav1.Time `json:"to"`
}

// Group is a set of clusters that share a label selector.
type Group struct {
	// name of the group, unique within the strategy.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// clusterSelector selects ManagedClusters by label. An empty selector
	// matches every cluster.
	// +required
	ClusterSelector metav1.LabelSelector `json:"clusterSelector"`

	// maxConcurrent is how many clusters of the group may be changing at the
	// same time: a number, or a percentage of the group, rounded down but at
	// least 1. Defaults to 100%.
	// +optional
	// +kubebuilder:validation:XIntOrString
	MaxConcurrent *intstr.IntOrString `json:"maxConcurrent,omitempty"`

	// failureBudget of this group, beside the one of the whole fleet.
	// +optional
	FailureBudget *FailureBudget `json:"failureBudget,omitempty"`

	// minSuccessSeconds is how long a cluster must have been proven healthy
	// before its place of maxConcurrent is free for the next. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=604800
	MinSuccessSeconds int32 `json:"minSuccessSeconds,omitempty"`

	// steps are cumulative shares of the group; shares never fall, and the
	// last one is 100%. Defaults to one step of 100% without soak.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self[self.size()-1].clusters == '100%'",message="the last step must have clusters: 100%, or part of the group would never be updated; add such a step"
	Steps []Step `json:"steps,omitempty"`
}

// Step is a cumulative share of a group with its own gates.
type Step struct {
	// clusters is how many clusters of the group have the new revision when
	// the step is written: a number, or a percentage that rounds up. 0 admits
	// none and waits for a person.
	// +required
	// +kubebuilder:validation:XIntOrString
	Clusters intstr.IntOrString `json:"clusters"`

	// approval says whether a person must approve the step before it is written.
	// It is asked for only if the step admits a cluster. Defaults to NotRequired.
	// +optional
	Approval ApprovalPolicy `json:"approval,omitempty"`

	// soakSeconds is how long every cluster of the step must stay proven
	// healthy before the step is left. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	SoakSeconds int32 `json:"soakSeconds,omitempty"`
}

// ApprovalPolicy says whether a person must approve a step.
// +kubebuilder:validation:Enum=NotRequired;Required
type ApprovalPolicy string

// The approval policies.
const (
	// ApprovalNotRequired asks nobody.
	ApprovalNotRequired ApprovalPolicy = "NotRequired"
	// ApprovalRequired waits for a RolloutAction with verb Approve.
	ApprovalRequired ApprovalPolicy = "Required"
)

// FailureBudget bounds how many clusters may fail.
type FailureBudget struct {
	// clusters that may fail: a number, or a percentage that rounds down.
	// +required
	// +kubebuilder:validation:XIntOrString
	Clusters intstr.IntOrString `json:"clusters"`
}

// RollbackPolicy says what happens when the failure budget is spent.
type RollbackPolicy struct {
	// mode Automatic puts the stable revision back at once; Manual halts and
	// waits for a person. Defaults to Automatic.
	// +optional
	Mode RollbackMode `json:"mode,omitempty"`

	// unhealthySeconds is how long a cluster that was proven healthy may be
	// unhealthy before it counts as failed. Defaults to 120.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=604800
	UnhealthySeconds *int32 `json:"unhealthySeconds,omitempty"`

	// maxConcurrent is how many of the clusters going back may be changing at
	// the same time: a number, or a percentage of them, rounded down but at
	// least 1. Defaults to 100%.
	// +optional
	// +kubebuilder:validation:XIntOrString
	MaxConcurrent *intstr.IntOrString `json:"maxConcurrent,omitempty"`

	// verification of the clusters that went back.
	// +optional
	Verification RollbackVerification `json:"verification,omitzero"`
}

// RollbackMode says who decides to go back.
// +kubebuilder:validation:Enum=Automatic;Manual
type RollbackMode string

// The rollback modes.
const (
	// RollbackAutomatic goes back by itself.
	RollbackAutomatic RollbackMode = "Automatic"
	// RollbackManual halts and waits for a person.
	RollbackManual RollbackMode = "Manual"
)

// RollbackVerification says how a rollback is verified.
type RollbackVerification struct {
	// timeoutSeconds is how long one cluster may take to prove the restored
	// revision before it is named and the next goes. Defaults to 600.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// HistoryPolicy says how many revisions are retained.
type HistoryPolicy struct {
	// limit is how many revisions are kept beside the stable one and any that
	// is still in use. Defaults to 10.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Limit *int32 `json:"limit,omitempty"`
}
