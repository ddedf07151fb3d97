package delivery

import (
	"fmt"
	"regexp"
	"strings"

	workv1 "open-cluster-management.io/api/work/v1"
)

const (
	// maxRefusal is how many bytes of the work agent's own words are shown.
	maxRefusal = 200
	// workRoleLabel marks the ClusterRoles of a managed cluster whose rules the work
	// agent gets beside its own, which are those of the role "admin".
	workRoleLabel = "open-cluster-management.io/aggregate-to-work: \"true\""
)

// The words of the work agent and of the API server behind it. The first is in
// OCM's pkg/work/spoke/auth, the others are Kubernetes'.
const (
	wordsOfExecutor   = "not allowed to apply the resource"
	wordsOfConflict   = "Apply failed with"
	wordsOfEscalation = "is attempting to grant RBAC permissions not currently held"
	wordsOfNoKind     = "the server doesn't have a resource type"
	wordsOfNoMatch    = "no matches for kind"
)

// forbidden is how the API server says that a right is missing.
var forbidden = regexp.MustCompile(`cannot (\w+) resource "([^"]+)" in API group "([^"]*)"(?: in the namespace "([^"]+)")?`)

// explain adds to the work agent's refusal of an object what a person can do about
// it, and when the work agent tries again: a deadline must leave room for that. What
// matters most comes first, because lists of clusters show only the beginning.
func explain(resource workv1.ManifestResourceMeta, message string, executor *workv1.ManifestWorkExecutor) string {
	said := cut(strings.TrimPrefix(message, "Failed to apply manifest: "), maxRefusal)
	if right := missingRight(resource, message, executor); right != "" {
		return fmt.Sprintf("%s (%s)", right, said)
	}
	if fix := remedy(message); fix != "" {
		return said + ": " + fix
	}
	return message
}

// missingRight says which right an object needs; empty if it was refused for
// something else.
func missingRight(resource workv1.ManifestResourceMeta, message string, executor *workv1.ManifestWorkExecutor) string {
	if strings.Contains(message, wordsOfExecutor) && executor != nil && executor.Subject.ServiceAccount != nil {
		account := executor.Subject.ServiceAccount
		return fmt.Sprintf("grant ServiceAccount %s/%s on the cluster create, update, patch, get and delete of %s%s; the work agent asks again each minute",
			account.Namespace, account.Name, resourceName(resource.Group, resource.Resource), inNamespace(resource.Namespace))
	}
	missing := forbidden.FindStringSubmatch(message)
	if missing == nil {
		return ""
	}
	verb, name, group, namespace := missing[1], missing[2], missing[3], missing[4]
	return fmt.Sprintf("the work agent lacks %s of %s%s; create a ClusterRole on the cluster labelled %s with apiGroups [%q], resources [%q], verbs [get, list, watch, create, update, patch, delete]",
		verb, resourceName(group, name), inNamespace(namespace), workRoleLabel, group, name)
}

// remedy says what to do about refusals of other kinds; empty if nobody knows.
func remedy(message string) string {
	switch {
	case strings.Contains(message, wordsOfEscalation):
		return fmt.Sprintf("who applies a role must hold its rules; grant them with a ClusterRole on the cluster labelled %s", workRoleLabel)
	case strings.Contains(message, wordsOfConflict):
		return "take the field out of the content or set delivery.conflicts to Force; the work agent tries again within 4 to 6 minutes"
	case strings.Contains(message, wordsOfNoKind), strings.Contains(message, wordsOfNoMatch):
		return "the cluster does not serve its API; deliver its CustomResourceDefinition with it, or name the API in spec.requires; the work agent tries again with growing delay"
	}
	return ""
}

func resourceName(group, resource string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace
}
