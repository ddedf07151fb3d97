package health

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

func namespace(s Subject) Verdict {
	if text(s.Object, "status", "phase") == "Terminating" {
		return progressing("being deleted")
	}
	return healthy()
}

// service is unhealthy while it selects pods and none of them is ready, and while
// a load balancer is promised and not there. A Service that selects no pod at
// all is healthy: its workload may be scaled to zero on purpose.
func service(s Subject) Verdict {
	if verdict := byLibrary(s); verdict.Health != healthy().Health {
		return verdict
	}
	if s.Endpoints != nil && s.Endpoints.Total > 0 && s.Endpoints.Ready == 0 && selectsPods(s.Object) {
		return progressing("none of its %d endpoints is ready", s.Endpoints.Total)
	}
	return healthy()
}

func selectsPods(service *unstructured.Unstructured) bool {
	selector, _, _ := unstructured.NestedStringMap(service.Object, "spec", "selector")
	return len(selector) > 0 && text(service, "spec", "type") != "ExternalName"
}

// claim is healthy once it is bound. One whose class waits for the first pod that
// uses it cannot be bound before.
func claim(s Subject) Verdict {
	switch phase := text(s.Object, "status", "phase"); {
	case phase == "Bound":
		return healthy()
	case phase == "Lost":
		return failed("its PersistentVolume is lost")
	case s.WaitsForConsumer:
		return healthy()
	}
	return progressing("not bound to a volume yet")
}

// autoscaler is unhealthy while it cannot scale its target. That it has no
// metrics is not its fault, and a target at zero replicas is meant to rest.
func autoscaler(s Subject) Verdict {
	c := condition(s.Object, "AbleToScale")
	switch {
	case c == nil:
		return progressing("its controller has not looked at its target yet")
	case c["status"] == "False":
		return progressing("%s", told(c))
	}
	return healthy()
}

func disruptionBudget(s Subject) Verdict {
	o := s.Object
	if !isSeen(o) {
		return progressing(unseen)
	}
	current, desired := number(o, 0, "status", "currentHealthy"), number(o, 0, "status", "desiredHealthy")
	if expected := number(o, 0, "status", "expectedPods"); expected > 0 && current < desired {
		return progressing("%d of the %d pods that must be healthy are", current, desired)
	}
	return healthy()
}

func apiService(s Subject) Verdict {
	if verdict, found := byCondition(s.Object, "Available"); found {
		return verdict
	}
	return progressing("it is not known yet whether it is available")
}
