package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of all kinds of Fleet Rollout.
const GroupName = "rollout.open-cluster-management.io"

var (
	// GroupVersion is the group and version of the kinds in this package.
	GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

	// SchemeBuilder collects the functions that add the kinds to a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds the kinds of this package to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&FleetRollout{}, &FleetRolloutList{},
		&RolloutRevision{}, &RolloutRevisionList{},
		&RolloutDelivery{}, &RolloutDeliveryList{},
		&RolloutAction{}, &RolloutActionList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
