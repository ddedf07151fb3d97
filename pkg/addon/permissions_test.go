package addon

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func cluster(name string) *clusterv1.ManagedCluster {
	return &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func addonOf(cluster string, uid types.UID) *addonv1alpha1.ManagedClusterAddOn {
	return &addonv1alpha1.ManagedClusterAddOn{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: v1alpha1.AddonName, UID: uid},
	}
}

// hub is a hub's API with the permissions that are made on it.
type hub struct {
	kube        *fake.Clientset
	clock       *testclock.FakeClock
	permissions *permissions
}

func newHub() *hub {
	kube, clock := fake.NewClientset(), testclock.NewFakeClock(time.Unix(0, 0))
	return &hub{kube: kube, clock: clock, permissions: newPermissions(context.Background(), kube, clock)}
}

func (h *hub) ensure(t *testing.T, cluster *clusterv1.ManagedCluster, addon *addonv1alpha1.ManagedClusterAddOn) {
	t.Helper()
	if err := h.permissions.ensure(cluster, addon); err != nil {
		t.Fatalf("ensure permissions: %v", err)
	}
}

// writes are the requests since the last call that change something.
func (h *hub) writes() []string {
	var writes []string
	for _, action := range h.kube.Actions() {
		if !slices.Contains([]string{"get", "list", "watch"}, action.GetVerb()) {
			writes = append(writes, action.GetVerb()+" "+action.GetResource().Resource)
		}
	}
	h.kube.ClearActions()
	return writes
}

func TestTheAgentMayDoOnTheHubExactlyThis(t *testing.T) {
	h := newHub()
	h.ensure(t, cluster("c1"), addonOf("c1", "u1"))

	role, err := h.kube.RbacV1().Roles("c1").Get(t.Context(), accessName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{"rollout.open-cluster-management.io"}, Resources: []string{"rolloutdeliveries"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"addon.open-cluster-management.io"}, Resources: []string{"managedclusteraddons"}, ResourceNames: []string{"fleet-rollout"}, Verbs: []string{"get"}},
		{APIGroups: []string{"addon.open-cluster-management.io"}, Resources: []string{"managedclusteraddons/status"}, ResourceNames: []string{"fleet-rollout"}, Verbs: []string{"patch"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{"fleet-rollout-agent"}, Verbs: []string{"get", "update", "patch"}},
	}
	if diff := cmp.Diff(want, role.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}

	binding, err := h.kube.RbacV1().RoleBindings("c1").Get(t.Context(), accessName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantSubjects := []rbacv1.Subject{{
		APIGroup: "rbac.authorization.k8s.io", Kind: "Group",
		Name: "system:open-cluster-management:cluster:c1:addon:fleet-rollout",
	}}
	if diff := cmp.Diff(wantSubjects, binding.Subjects); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
	if binding.RoleRef.Kind != "Role" || binding.RoleRef.Name != accessName {
		t.Errorf("the binding is to %v", binding.RoleRef)
	}

	lease, err := h.kube.CoordinationV1().Leases("c1").Get(t.Context(), "fleet-rollout-agent", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if lease.Spec.RenewTime != nil {
		t.Errorf("the hub must not renew the Lease in the agent's place")
	}
	for _, owners := range [][]metav1.OwnerReference{role.OwnerReferences, binding.OwnerReferences, lease.OwnerReferences} {
		if len(owners) != 1 || owners[0].UID != "u1" {
			t.Errorf("owners are %v: the access would outlive the addon", owners)
		}
	}
}

func TestPermissionsAreNotReadAgainForEachConditionThatTheAgentWrites(t *testing.T) {
	h := newHub()
	h.ensure(t, cluster("c1"), addonOf("c1", "u1"))
	h.kube.ClearActions()
	h.ensure(t, cluster("c1"), addonOf("c1", "u1"))
	if actions := h.kube.Actions(); len(actions) != 0 {
		t.Errorf("got %d requests, want none", len(actions))
	}
}

func TestUnchangedPermissionsAreNotWritten(t *testing.T) {
	h := newHub()
	h.ensure(t, cluster("c1"), addonOf("c1", "u1"))
	h.kube.ClearActions()
	h.clock.Step(verifiedFor)
	h.ensure(t, cluster("c1"), addonOf("c1", "u1"))
	if len(h.kube.Actions()) == 0 {
		t.Errorf("the permissions were not even read again")
	}
	if writes := h.writes(); writes != nil {
		t.Errorf("got writes %v, want none", writes)
	}
}

func TestPermissionsThatSomebodyChangedAreRepaired(t *testing.T) {
	h := newHub()
	h.ensure(t, cluster("c1"), addonOf("c1", "u1"))
	role, err := h.kube.RbacV1().Roles("c1").Get(t.Context(), accessName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	if _, err := h.kube.RbacV1().Roles("c1").Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := agentRoleBinding("c1", addonOf("c1", "u1"))
	binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}
	if _, err := h.kube.RbacV1().RoleBindings("c1").Update(t.Context(), binding, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.writes()
	h.clock.Step(verifiedFor)
	h.ensure(t, cluster("c1"), addonOf("c1", "u1"))
	if diff := cmp.Diff([]string{"update roles", "delete rolebindings", "create rolebindings"}, h.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestAnAddonThatWasMadeAnewOwnsTheAccessAndTheLeaseKeepsItsContent(t *testing.T) {
	h := newHub()
	h.ensure(t, cluster("c1"), addonOf("c1", "u1"))
	lease, err := h.kube.CoordinationV1().Leases("c1").Get(t.Context(), v1alpha1.AgentLeaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lease.Spec.LeaseDurationSeconds = ptr.To[int32](60)
	if _, err := h.kube.CoordinationV1().Leases("c1").Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}

	h.ensure(t, cluster("c1"), addonOf("c1", "u2"))

	lease, err = h.kube.CoordinationV1().Leases("c1").Get(t.Context(), v1alpha1.AgentLeaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if lease.OwnerReferences[0].UID != "u2" || ptr.Deref(lease.Spec.LeaseDurationSeconds, 0) != 60 {
		t.Errorf("owner %v, duration %v", lease.OwnerReferences, lease.Spec.LeaseDurationSeconds)
	}
}

func TestAFailureIsNotTakenForVerified(t *testing.T) {
	h := newHub()
	refuse := true
	h.kube.PrependReactor("create", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		if refuse {
			return true, nil, context.DeadlineExceeded
		}
		return false, nil, nil
	})
	if err := h.permissions.ensure(cluster("c1"), addonOf("c1", "u1")); err == nil {
		t.Fatal("no error")
	}
	refuse = false
	h.writes()
	h.ensure(t, cluster("c1"), addonOf("c1", "u1"))
	if diff := cmp.Diff([]string{"create leases"}, h.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}
