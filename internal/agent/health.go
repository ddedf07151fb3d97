package agent

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// rule judges an object that is at its delivered content.
type rule func(Sight) (v1alpha1.Health, string)

// ruleOf is the rule of a kind whose status is judged; of all others the
// existence is. The base is kstatus. Ours add what it leaves out: unseen
// generations of a status that was never written, pods that are updated by hand
// only, paused Deployments, and Jobs, which kstatus calls current while they
// still run.
func ruleOf(kind schema.GroupKind) (rule, bool) {
	switch kind {
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		return deployment, true
	case schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		return statefulSet, true
	case schema.GroupKind{Group: "apps", Kind: "DaemonSet"}:
		return daemonSet, true
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		return job, true
	case schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		return byLibrary, true
	}
	return nil, false
}

const unseen = "its controller has not seen the present generation"

// deadlineExceeded is the reason of a Deployment's condition Progressing when
// its own progressDeadlineSeconds are over.
const deadlineExceeded = "ProgressDeadlineExceeded"

func deployment(s Sight) (v1alpha1.Health, string) {
	o := s.Full
	if !isSeen(o) {
		return v1alpha1.HealthProgressing, unseen
	}
	if paused, _, _ := unstructured.NestedBool(o.Object, "spec", "paused"); paused {
		return v1alpha1.HealthSuspended, "paused"
	}
	wanted, available := number(o, 1, "spec", "replicas"), number(o, 0, "status", "availableReplicas")
	message := fmt.Sprintf("%d of %d replicas available", available, wanted)
	if updated := number(o, 0, "status", "updatedReplicas"); updated < wanted {
		message = fmt.Sprintf("%d of %d replicas updated, %d available", updated, wanted, available)
	}
	if failure := condition(o, "ReplicaFailure"); failure["status"] == "True" {
		message += fmt.Sprintf(": %v", failure["message"])
	}
	message = withComplaint(message, s.Complaint)

	result, err := status.Compute(o)
	switch {
	case err != nil:
		return v1alpha1.HealthProgressing, "status cannot be understood: " + err.Error()
	case result.Status == status.CurrentStatus:
		return v1alpha1.HealthHealthy, ""
	case result.Status == status.FailedStatus && s.Inherited:
		// Going back to a ReplicaSet that still has its pods, the Deployment
		// controller keeps the verdict on the content that is being left until
		// it sees the first progress.
		return v1alpha1.HealthProgressing, message
	case result.Status == status.FailedStatus:
		return v1alpha1.HealthFailed, "progress deadline exceeded, " + message
	case condition(o, "Progressing")["reason"] == "NewReplicaSetAvailable":
		// It was complete before, and is not now.
		return v1alpha1.HealthDegraded, message
	}
	return v1alpha1.HealthProgressing, message
}

func statefulSet(s Sight) (v1alpha1.Health, string) {
	o := s.Full
	if !isSeen(o) {
		return v1alpha1.HealthProgressing, unseen
	}
	wanted, ready := number(o, 1, "spec", "replicas"), number(o, 0, "status", "readyReplicas")
	if number(o, 0, "spec", "minReadySeconds") > 0 {
		ready = number(o, 0, "status", "availableReplicas")
	}
	if ready < wanted {
		return v1alpha1.HealthProgressing, withComplaint(fmt.Sprintf("%d of %d replicas ready", ready, wanted), s.Complaint)
	}
	// With OnDelete a person decides when a pod gets the new content, and the
	// library asks for nothing: then ready pods are all that can be asked for.
	return byLibrary(s)
}

func daemonSet(s Sight) (v1alpha1.Health, string) {
	o := s.Full
	if !isSeen(o) {
		return v1alpha1.HealthProgressing, unseen
	}
	wanted := number(o, 0, "status", "desiredNumberScheduled")
	available := number(o, 0, "status", "numberAvailable")
	updated := number(o, 0, "status", "updatedNumberScheduled")
	strategy, _, _ := unstructured.NestedString(o.Object, "spec", "updateStrategy", "type")
	switch {
	case available < wanted:
		return v1alpha1.HealthProgressing, withComplaint(fmt.Sprintf("%d of %d pods available", available, wanted), s.Complaint)
	case strategy == "OnDelete":
		// The library would wait for pods that nobody is going to replace.
		return v1alpha1.HealthHealthy, ""
	case updated < wanted:
		return v1alpha1.HealthProgressing, withComplaint(fmt.Sprintf("%d of %d pods updated", updated, wanted), s.Complaint)
	}
	return byLibrary(s)
}

// job is healthy only when it has completed: a Job that runs has proved
// nothing. Failed is final, for Kubernetes too.
func job(s Sight) (v1alpha1.Health, string) {
	o := s.Full
	if c := condition(o, "Complete"); c["status"] == "True" {
		return v1alpha1.HealthHealthy, ""
	}
	if c := condition(o, "Failed"); c["status"] == "True" {
		return v1alpha1.HealthFailed, withComplaint(fmt.Sprintf("failed: %v: %v", c["reason"], c["message"]), s.Complaint)
	}
	if suspended, _, _ := unstructured.NestedBool(o.Object, "spec", "suspend"); suspended {
		return v1alpha1.HealthSuspended, "suspended"
	}
	message := fmt.Sprintf("not completed: %d active, %d succeeded, %d failed",
		number(o, 0, "status", "active"), number(o, 0, "status", "succeeded"), number(o, 0, "status", "failed"))
	return v1alpha1.HealthProgressing, withComplaint(message, s.Complaint)
}

// byLibrary takes the verdict of kstatus as it is.
func byLibrary(s Sight) (v1alpha1.Health, string) {
	result, err := status.Compute(s.Full)
	if err != nil {
		return v1alpha1.HealthProgressing, "status cannot be understood: " + err.Error()
	}
	switch result.Status {
	case status.CurrentStatus:
		return v1alpha1.HealthHealthy, ""
	case status.FailedStatus:
		return v1alpha1.HealthFailed, "failed: " + result.Message
	default:
		return v1alpha1.HealthProgressing, withComplaint(result.Message, s.Complaint)
	}
}

// isSeen tells whether the controller of an object has written its status
// about the present generation. A status that was never written has not seen
// any.
func isSeen(o *unstructured.Unstructured) bool {
	observed, found, err := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return err == nil && found && observed >= o.GetGeneration()
}

func number(o *unstructured.Unstructured, absent int64, path ...string) int64 {
	n, found, err := unstructured.NestedInt64(o.Object, path...)
	if err != nil || !found {
		return absent
	}
	return n
}

// condition is empty if the object has no condition of the type.
func condition(o *unstructured.Unstructured, conditionType string) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == conditionType {
			return c
		}
	}
	return nil
}

// verdict identifies a Deployment's verdict that its deadline is over; it is
// empty if there is none. Two objects with the same verdict hold the same words
// from the same moment.
func verdict(o *unstructured.Unstructured) string {
	c := condition(o, "Progressing")
	if c["reason"] != deadlineExceeded {
		return ""
	}
	return fmt.Sprint(c["lastUpdateTime"], c["lastTransitionTime"], c["message"])
}

func withComplaint(message, complaint string) string {
	if complaint == "" {
		return message
	}
	return message + ": " + complaint
}
