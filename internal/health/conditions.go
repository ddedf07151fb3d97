package health

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

const unseen = "its controller has not seen the present generation"

// byLibrary takes the verdict of kstatus as it is.
func byLibrary(s Subject) Verdict {
	result, err := status.Compute(s.Object)
	switch {
	case err != nil:
		return progressing("status cannot be understood: %v", err)
	case result.Status == status.CurrentStatus:
		return healthy()
	case result.Status == status.FailedStatus:
		return failed("failed: %s", result.Message)
	}
	return progressing("%s", withComplaint(result.Message, s.Complaint))
}

// byConditions judges a kind that has no rule of its own: by what kstatus knows
// of the conventions (observedGeneration, Ready, Reconciling, Stalled), and by
// Available. An object without such conditions is healthy because it exists.
func byConditions(s Subject) Verdict {
	// kstatus takes conditions as they are, whatever generation they are about.
	for _, conditionType := range []string{"Stalled", "Reconciling", "Ready", "Available"} {
		if isOutdated(s.Object, condition(s.Object, conditionType)) {
			return progressing(unseen)
		}
	}
	if verdict := byLibrary(s); !verdict.isHealthy() {
		return verdict
	}
	if verdict, _ := byCondition(s.Object, "Ready", "Available"); verdict.Health != "" {
		return verdict
	}
	return healthy()
}

// byCondition judges by those of the conditions that the object has. It returns
// false if it has none of them.
func byCondition(o *unstructured.Unstructured, types ...string) (Verdict, bool) {
	var verdict Verdict
	for _, conditionType := range types {
		c := condition(o, conditionType)
		switch {
		case c == nil:
			continue
		case isOutdated(o, c):
			return progressing(unseen), true
		case c["status"] != "True":
			return progressing("%s", told(c)), true
		}
		verdict = healthy()
	}
	return verdict, verdict.Health != ""
}

// told is a condition in words.
func told(c map[string]any) string {
	text := fmt.Sprintf("%v is %v", c["type"], c["status"])
	if reason, ok := c["reason"].(string); ok && reason != "" {
		text += ": " + reason
	}
	if message, ok := c["message"].(string); ok && message != "" {
		text += ": " + message
	}
	return text
}

// isOutdated tells that a condition says that it is about an earlier generation.
func isOutdated(o *unstructured.Unstructured, c map[string]any) bool {
	observed, found, err := unstructured.NestedInt64(c, "observedGeneration")
	return err == nil && found && observed < o.GetGeneration()
}

// hasObserved tells whether an object's status says which generation it is about.
func hasObserved(o *unstructured.Unstructured) bool {
	_, found, err := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return err == nil && found
}

// isSeen tells whether the controller of an object has written its status about
// the present generation. A status that was never written has not seen any.
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

func text(o *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(o.Object, path...)
	return value
}

func flag(o *unstructured.Unstructured, path ...string) bool {
	value, _, _ := unstructured.NestedBool(o.Object, path...)
	return value
}

// conditions of an object, without a copy.
func conditions(o *unstructured.Unstructured, path ...string) []map[string]any {
	if len(path) == 0 {
		path = []string{"status", "conditions"}
	}
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...)
	list, _ := value.([]any)
	var found []map[string]any
	for _, item := range list {
		if c, ok := item.(map[string]any); ok {
			found = append(found, c)
		}
	}
	return found
}

// condition is nil if the object has no condition of the type.
func condition(o *unstructured.Unstructured, conditionType string) map[string]any {
	for _, c := range conditions(o) {
		if c["type"] == conditionType {
			return c
		}
	}
	return nil
}

func isTrue(o *unstructured.Unstructured, conditionType string) bool {
	return condition(o, conditionType)["status"] == "True"
}

func withComplaint(message, complaint string) string {
	if complaint == "" {
		return message
	}
	return message + ": " + complaint
}
