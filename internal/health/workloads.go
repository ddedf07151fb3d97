package health

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// deadlineExceeded is the reason of a Deployment's condition Progressing when
// its own progressDeadlineSeconds are over.
const deadlineExceeded = "ProgressDeadlineExceeded"

func deployment(s Subject) Verdict {
	o := s.Object
	if !isSeen(o) {
		return progressing(unseen)
	}
	if flag(o, "spec", "paused") {
		return suspended("paused")
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
		return progressing("status cannot be understood: %v", err)
	case result.Status == status.CurrentStatus:
		return healthy()
	case result.Status == status.FailedStatus && s.Inherited:
		// Going back to a ReplicaSet that still has its pods, the Deployment
		// controller keeps the verdict on the content that is being left until
		// it sees the first progress.
		return progressing("%s", message)
	case result.Status == status.FailedStatus:
		return failed("progress deadline exceeded, %s", message)
	case condition(o, "Progressing")["reason"] == "NewReplicaSetAvailable":
		// It was complete before, and is not now.
		return degraded(message)
	}
	return progressing("%s", message)
}

func statefulSet(s Subject) Verdict {
	o := s.Object
	if !isSeen(o) {
		return progressing(unseen)
	}
	wanted, ready := number(o, 1, "spec", "replicas"), number(o, 0, "status", "readyReplicas")
	if number(o, 0, "spec", "minReadySeconds") > 0 {
		ready = number(o, 0, "status", "availableReplicas")
	}
	if ready < wanted {
		return progressing("%s", withComplaint(fmt.Sprintf("%d of %d replicas ready", ready, wanted), s.Complaint))
	}
	// With OnDelete a person decides when a pod gets the new content, and the
	// library asks for nothing: then ready pods are all that can be asked for.
	return byLibrary(s)
}

func daemonSet(s Subject) Verdict {
	o := s.Object
	if !isSeen(o) {
		return progressing(unseen)
	}
	wanted := number(o, 0, "status", "desiredNumberScheduled")
	available := number(o, 0, "status", "numberAvailable")
	updated := number(o, 0, "status", "updatedNumberScheduled")
	switch {
	case available < wanted:
		return progressing("%s", withComplaint(fmt.Sprintf("%d of %d pods available", available, wanted), s.Complaint))
	case text(o, "spec", "updateStrategy", "type") == "OnDelete":
		// The library would wait for pods that nobody is going to replace.
		return healthy()
	case updated < wanted:
		return progressing("%s", withComplaint(fmt.Sprintf("%d of %d pods updated", updated, wanted), s.Complaint))
	}
	return byLibrary(s)
}

func replicaSet(s Subject) Verdict {
	o := s.Object
	if !isSeen(o) {
		return progressing(unseen)
	}
	wanted, available := number(o, 1, "spec", "replicas"), number(o, 0, "status", "availableReplicas")
	if available < wanted {
		message := fmt.Sprintf("%d of %d replicas available", available, wanted)
		if failure := condition(o, "ReplicaFailure"); failure["status"] == "True" {
			message += fmt.Sprintf(": %v", failure["message"])
		}
		return progressing("%s", withComplaint(message, s.Complaint))
	}
	return byLibrary(s)
}

// pod is healthy once it is ready, or done. It has failed for good in phase Failed
// alone: a container that crashes is started again, and a node that fits may come.
func pod(s Subject) Verdict {
	o := s.Object
	if observed := number(o, o.GetGeneration(), "status", "observedGeneration"); observed < o.GetGeneration() {
		return progressing(unseen)
	}
	switch text(o, "status", "phase") {
	case "Failed":
		return failed("%s", phrase(o, "failed"))
	case "Succeeded":
		return healthy()
	}
	if isTrue(o, "Ready") {
		return healthy()
	}
	if c := condition(o, "PodScheduled"); c["status"] == "False" {
		return progressing("%s", told(c))
	}
	for _, list := range []string{"initContainerStatuses", "containerStatuses"} {
		for _, container := range conditions(o, "status", list) {
			reason, _, _ := unstructured.NestedString(container, "state", "waiting", "reason")
			if reason != "" && reason != "ContainerCreating" && reason != "PodInitializing" {
				return progressing("container %v waits: %s", container["name"], reason)
			}
		}
	}
	return progressing("not ready")
}

// job is healthy only when it has completed: a Job that runs has proved
// nothing. Failed is final, for Kubernetes too.
func job(s Subject) Verdict {
	o := s.Object
	switch {
	case isTrue(o, "Complete"):
		return healthy()
	case isTrue(o, "Failed"):
		c := condition(o, "Failed")
		return failed("%s", withComplaint(fmt.Sprintf("failed: %v: %v", c["reason"], c["message"]), s.Complaint))
	case flag(o, "spec", "suspend"):
		return suspended("suspended")
	}
	return progressing("%s", withComplaint(fmt.Sprintf("not completed: %d active, %d succeeded, %d failed",
		number(o, 0, "status", "active"), number(o, 0, "status", "succeeded"), number(o, 0, "status", "failed")), s.Complaint))
}

// cronJob is healthy because it exists: it proves nothing before its hour. One
// that is suspended holds nothing up (case E8).
func cronJob(s Subject) Verdict {
	return Verdict{Health: v1alpha1.HealthHealthy, Suspended: flag(s.Object, "spec", "suspend")}
}

// ProgressVerdict identifies a Deployment's verdict that its deadline is over;
// it is empty if there is none. Two objects with the same verdict hold the same
// words from the same moment.
func ProgressVerdict(o *unstructured.Unstructured) string {
	c := condition(o, "Progressing")
	if c["reason"] != deadlineExceeded {
		return ""
	}
	return fmt.Sprint(c["lastUpdateTime"], c["lastTransitionTime"], c["message"])
}
