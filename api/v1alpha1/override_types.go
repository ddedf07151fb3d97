package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Override changes the content for the clusters that it selects, as a Kustomize
// overlay does. Overrides are part of the revision: a changed override goes
// through every gate (law 19). A cluster gets those that match its labels and
// claims when it is written; later changes of either write nothing, and show as
// drift of intent until the next run.
//
// +kubebuilder:validation:XValidation:rule="has(self.patches) || has(self.images) || has(self.exclude)",message="the override changes nothing; give it patches, images or exclude"
type Override struct {
	// name of the override, unique within the rollout.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// clusterSelector selects ManagedClusters by label. An empty selector
	// matches every cluster.
	// +required
	ClusterSelector metav1.LabelSelector `json:"clusterSelector"`

	// claimSelector further selects them by their cluster claims, as that of an
	// OCM Placement does.
	// +optional
	ClaimSelector *ClaimSelector `json:"claimSelector,omitempty"`

	// exclude are objects that the selected clusters do not get. It comes before
	// patches and images.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Exclude []ObjectTarget `json:"exclude,omitempty"`

	// patches of objects, applied in order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Patches []Patch `json:"patches,omitempty"`

	// images that are replaced in all containers of all objects, applied after
	// the patches.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Images []ImageOverride `json:"images,omitempty"`
}

// ClaimSelector selects ManagedClusters by their cluster claims.
type ClaimSelector struct {
	// matchExpressions must all hold; the key is the name of a claim.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	MatchExpressions []metav1.LabelSelectorRequirement `json:"matchExpressions"`
}

// ObjectTarget selects objects of the content. What is left out matches
// everything; names are whole names, not patterns.
//
// +kubebuilder:validation:XValidation:rule="has(self.group) || has(self.kind) || has(self.namespace) || has(self.name)",message="the target names nothing and would match every object; give it at least a kind"
type ObjectTarget struct {
	// group of the API. Leave it out to match every group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`

	// kind of the objects.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`

	// namespace of the objects.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// name of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// Matches tells whether the target selects an object.
func (t ObjectTarget) Matches(object ObjectReference) bool {
	return (t.Group == "" || t.Group == object.Group) &&
		(t.Kind == "" || t.Kind == object.Kind) &&
		(t.Namespace == "" || t.Namespace == object.Namespace) &&
		(t.Name == "" || t.Name == object.Name)
}

// Patch changes the objects that it targets.
type Patch struct {
	// target of the patch. A patch whose target matches no object is refused
	// for the cluster, by name, before anything is written to it.
	// +required
	Target ObjectTarget `json:"target"`

	// patch in YAML or JSON: a list is a JSON 6902 patch, an object a strategic
	// merge patch (a JSON merge patch for custom resources). In its strings
	// ${cluster.name}, ${cluster.labels['key']} and ${cluster.claims['key']} stand
	// for the values of the cluster; $${ is a literal ${.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Patch string `json:"patch"`
}

// ImageOverride replaces an image by name.
//
// +kubebuilder:validation:XValidation:rule="has(self.newName) || has(self.newTag) || has(self.digest)",message="the image override changes nothing; give it newName, newTag or digest"
// +kubebuilder:validation:XValidation:rule="!(has(self.newTag) && has(self.digest))",message="newTag and digest exclude each other; give one of them"
type ImageOverride struct {
	// name of the image without tag and digest, as it is in the content.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// newName replaces the name.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	NewName string `json:"newName,omitempty"`

	// newTag replaces the tag, or the digest.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	NewTag string `json:"newTag,omitempty"`

	// digest, such as sha256:…, replaces the tag.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Digest string `json:"digest,omitempty"`
}

// ResolvedVariable is a variable of an override and the value that it had when
// the cluster's content was rendered.
type ResolvedVariable struct {
	// name of the variable, such as cluster.labels['region'].
	// +required
	// +kubebuilder:validation:MaxLength=400
	Name string `json:"name"`

	// value it had.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	Value string `json:"value"`
}
