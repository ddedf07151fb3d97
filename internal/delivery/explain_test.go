package delivery

import (
	"strings"
	"testing"

	workv1 "open-cluster-management.io/api/work/v1"
)

func TestARefusalNamesWhatAPersonCanDo(t *testing.T) {
	executor := &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
		Type:           workv1.ExecutorSubjectTypeServiceAccount,
		ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: "shop", Name: "deployer"},
	}}
	widget := workv1.ManifestResourceMeta{Group: "example.com", Version: "v1", Kind: "Widget", Resource: "widgets", Namespace: "shop", Name: "one"}
	cases := map[string]struct {
		message  string
		executor *workv1.ManifestWorkExecutor
		parts    []string
	}{
		"an executor without rights": {
			"Failed to apply manifest: not allowed to apply the resource example.com widgets, shop one, will try again in 1m0s", executor,
			[]string{"ServiceAccount shop/deployer", "create, update, patch, get and delete of widgets.example.com in namespace shop", "each minute"},
		},
		"a klusterlet without rights": {
			`Failed to apply manifest: widgets.example.com "one" is forbidden: User "system:serviceaccount:open-cluster-management-agent:klusterlet-work-sa" cannot patch resource "widgets" in API group "example.com" in the namespace "shop"`, nil,
			[]string{"lacks patch of widgets.example.com in namespace shop", `open-cluster-management.io/aggregate-to-work: "true"`, `apiGroups ["example.com"]`, `resources ["widgets"]`},
		},
		"rights for a cluster-scoped kind of the core group": {
			`Failed to apply manifest: persistentvolumes "disk" is forbidden: User "x" cannot create resource "persistentvolumes" in API group "" at the cluster scope`, nil,
			[]string{"lacks create of persistentvolumes;", `apiGroups [""]`},
		},
		"a role with more rights than its author": {
			`Failed to apply manifest: roles.rbac.authorization.k8s.io "r" is forbidden: user "x" (groups=["y"]) is attempting to grant RBAC permissions not currently held: {APIGroups:["example.com"]}`, nil,
			[]string{"must hold its rules", "aggregate-to-work"},
		},
		"a conflict": {
			`Failed to apply manifest: Apply failed with 1 conflict: conflict with "kubectl" using apps/v1: .spec.replicas`, nil,
			[]string{".spec.replicas", "delivery.conflicts", "4 to 6 minutes"},
		},
		"an API that is not there": {
			`Failed to apply manifest: the server doesn't have a resource type "Widget"`, nil,
			[]string{"CustomResourceDefinition", "spec.requires", "growing delay"},
		},
		"anything else": {"Failed to apply manifest: the webhook says no", nil, []string{"the webhook says no"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := explain(widget, c.message, c.executor)
			for _, part := range c.parts {
				if !strings.Contains(got, part) {
					t.Errorf("%q does not say %q", got, part)
				}
			}
			long := explain(widget, c.message+strings.Repeat(" and so on", 100), c.executor)
			if name != "anything else" && len(long) > maxObjectMessage {
				t.Errorf("%d bytes, and the end with the fix would be cut", len(long))
			}
		})
	}
}
