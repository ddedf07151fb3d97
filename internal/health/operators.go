package health

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The kinds of the Operator Lifecycle Manager.

// clusterServiceVersion: OLM itself tries a failed version again, so that a
// failure is not final.
func clusterServiceVersion(s Subject) Verdict {
	o := s.Object
	phase := text(o, "status", "phase")
	switch phase {
	case "Succeeded":
		return healthy()
	case "Failed":
		return degraded(phrase(o, "failed"))
	case "":
		return progressing("OLM has not looked at it yet")
	}
	return progressing("%s", phrase(o, "in phase "+phase))
}

func subscription(s Subject) Verdict {
	o := s.Object
	for _, bad := range []string{"ResolutionFailed", "BundleUnpackFailed", "InstallPlanFailed", "CatalogSourcesUnhealthy"} {
		if isTrue(o, bad) {
			return degraded(told(condition(o, bad)))
		}
	}
	installed, wanted := text(o, "status", "installedCSV"), text(o, "spec", "startingCSV")
	isManual := text(o, "spec", "installPlanApproval") == "Manual"
	switch state := text(o, "status", "state"); {
	case installed == "" && isManual && state == "UpgradePending":
		return suspended("%s waits for the approval of its InstallPlan", orNone(text(o, "status", "currentCSV")))
	case installed == "":
		return progressing("nothing is installed yet")
	case state == "AtLatestKnown":
		return healthy()
	case isManual && (wanted == "" || wanted == installed):
		// A newer version exists, and somebody is to decide about it.
		return healthy()
	case isManual:
		return suspended("%s waits for the approval of its InstallPlan", wanted)
	default:
		return progressing("%s is installed, in state %s", installed, state)
	}
}

func installPlan(s Subject) Verdict {
	o := s.Object
	switch phase := text(o, "status", "phase"); phase {
	case "Complete":
		return healthy()
	case "Failed":
		return failed("%s", phrase(o, "failed"))
	case "RequiresApproval":
		return suspended("waits for somebody to approve it")
	case "":
		return progressing("OLM has not looked at it yet")
	default:
		return progressing("%s", phrase(o, "in phase "+phase))
	}
}

// clusterExtension: Progressing with reason Blocked needs somebody to change it.
func clusterExtension(s Subject) Verdict {
	o := s.Object
	moving, installed := condition(o, "Progressing"), condition(o, "Installed")
	switch {
	case moving == nil || installed == nil:
		return progressing("OLM has not looked at it yet")
	case isOutdated(o, moving) || isOutdated(o, installed):
		return progressing(unseen)
	case moving["reason"] == "Blocked":
		return failed("%s", told(moving))
	case installed["status"] != "True":
		return progressing("%s", told(installed))
	case moving["reason"] != "Succeeded":
		return progressing("%s", told(moving))
	}
	return healthy()
}

// The kinds of Cluster API, in the shapes of v1beta1 and v1beta2.

// pausedAnnotation stops the reconciliation of one object of Cluster API.
const pausedAnnotation = "cluster.x-k8s.io/paused"

// capi judges what all kinds of Cluster API have in common. Its message is empty
// if there is nothing to say.
func capi(o *unstructured.Unstructured) Verdict {
	_, isPaused := o.GetAnnotations()[pausedAnnotation]
	switch {
	case isPaused || flag(o, "spec", "paused"):
		return suspended("paused")
	case !isSeen(o):
		return progressing(unseen)
	case text(o, "status", "failureReason") != "" || text(o, "status", "phase") == "Failed":
		// Cluster API calls this terminal. v1beta2 has done away with it.
		return failed("%s", phrase(o, "failed"))
	}
	return Verdict{}
}

// capiCluster: with a topology, its version has arrived when the topology is
// reconciled and nothing is rolled out any more.
func capiCluster(s Subject) Verdict {
	o := s.Object
	if verdict := capi(o); verdict.Message != "" {
		return verdict
	}
	if c := condition(o, "TopologyReconciled"); c != nil && c["status"] != "True" {
		return progressing("%s", told(c))
	}
	return rolledOut(o)
}

func machineDeployment(s Subject) Verdict {
	o := s.Object
	if verdict := capi(o); verdict.Message != "" {
		return verdict
	}
	if verdict := machines(o); verdict.Message != "" {
		return verdict
	}
	return rolledOut(o)
}

func kubeadmControlPlane(s Subject) Verdict {
	o := s.Object
	if verdict := capi(o); verdict.Message != "" {
		return verdict
	}
	if wanted, now := text(o, "spec", "version"), text(o, "status", "version"); wanted != now {
		return progressing("Kubernetes %s is wanted, and the oldest machine has %s", wanted, orNone(now))
	}
	if verdict := machines(o); verdict.Message != "" {
		return verdict
	}
	return rolledOut(o)
}

// machines compares what is wanted with the machines that are up to date and
// ready; its message is empty if they are.
func machines(o *unstructured.Unstructured) Verdict {
	wanted := number(o, 1, "spec", "replicas")
	updated := number(o, number(o, 0, "status", "upToDateReplicas"), "status", "updatedReplicas")
	ready := number(o, 0, "status", "readyReplicas")
	switch {
	case updated < wanted:
		return progressing("%d of %d machines are up to date", updated, wanted)
	case ready < wanted:
		return progressing("%d of %d machines are ready", ready, wanted)
	case number(o, wanted, "status", "replicas") > wanted:
		return progressing("%d machines more than wanted are not gone yet", number(o, wanted, "status", "replicas")-wanted)
	}
	return Verdict{}
}

// rolledOut judges by the conditions of both versions: v1beta1 has Ready, v1beta2
// has Available and RollingOut. Objects that have one of each need both, because
// Available of v1beta1 only tells that a control plane was started once.
func rolledOut(o *unstructured.Unstructured) Verdict {
	if c := condition(o, "RollingOut"); c["status"] == "True" {
		return progressing("%s", told(c))
	}
	if verdict, found := byCondition(o, "Available", "Ready"); found {
		return verdict
	}
	return progressing("its controller has not said yet whether it is ready")
}

// phrase is what an object's status says in words.
func phrase(o *unstructured.Unstructured, what string) string {
	for _, path := range [][]string{{"status", "message"}, {"status", "failureMessage"}} {
		if message := text(o, path...); message != "" {
			return fmt.Sprintf("%s: %s", what, message)
		}
	}
	for _, path := range [][]string{{"status", "reason"}, {"status", "failureReason"}} {
		if reason := text(o, path...); reason != "" {
			return fmt.Sprintf("%s: %s", what, reason)
		}
	}
	return what
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
