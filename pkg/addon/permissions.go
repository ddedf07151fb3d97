package addon

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"open-cluster-management.io/addon-framework/pkg/agent"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// accessName is the name of the Role and of the RoleBinding in the namespace
// of each cluster.
const accessName = "open-cluster-management:fleet-rollout:agent"

// verifiedFor is how long the access of a cluster is taken as it was last
// found. The framework calls for each condition that the agent writes; without
// this, each would cost three reads. What somebody deletes is back after this
// time and the framework's next resync (ten minutes at most).
const verifiedFor = 5 * time.Minute

// permissions gives the agent of a cluster what it needs on the hub, and
// nothing else: a Role in the cluster's namespace for the one group that only
// this cluster's agent is in, and the Lease that the agent renews, so that it
// needs no right to create one.
type permissions struct {
	// ctx of the addon manager: the framework's callback has none.
	ctx   context.Context
	kube  kubernetes.Interface
	clock clock.PassiveClock

	mu       sync.Mutex
	verified map[string]verification
}

// verification is when the access of a cluster was last found as it must be.
// The UID belongs to it because the objects are owned by the addon.
type verification struct {
	addon types.UID
	at    time.Time
}

func newPermissions(ctx context.Context, kube kubernetes.Interface, clock clock.PassiveClock) *permissions {
	return &permissions{ctx: ctx, kube: kube, clock: clock, verified: map[string]verification{}}
}

// ensure implements agent.PermissionConfigFunc. It writes only what is missing
// or differs.
func (p *permissions) ensure(cluster *clusterv1.ManagedCluster, addon *addonv1alpha1.ManagedClusterAddOn) error {
	if p.isVerified(cluster.Name, addon.UID) {
		return nil
	}
	if err := p.ensureRole(cluster.Name, addon); err != nil {
		return fmt.Errorf("role of the agent of cluster %q: %w", cluster.Name, err)
	}
	if err := p.ensureBinding(cluster.Name, addon); err != nil {
		return fmt.Errorf("role binding of the agent of cluster %q: %w", cluster.Name, err)
	}
	if err := p.ensureLease(cluster.Name, addon); err != nil {
		return fmt.Errorf("lease of the agent of cluster %q: %w", cluster.Name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.verified[cluster.Name] = verification{addon: addon.UID, at: p.clock.Now()}
	return nil
}

func (p *permissions) isVerified(cluster string, addon types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, known := p.verified[cluster]
	return known && last.addon == addon && p.clock.Since(last.at) < verifiedFor
}

func (p *permissions) ensureRole(cluster string, addon *addonv1alpha1.ManagedClusterAddOn) error {
	roles, wanted := p.kube.RbacV1().Roles(cluster), agentRole(cluster, addon)
	found, err := roles.Get(p.ctx, wanted.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = roles.Create(p.ctx, wanted, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(found.Rules, wanted.Rules) &&
		equality.Semantic.DeepEqual(found.OwnerReferences, wanted.OwnerReferences) {
		return nil
	}
	found = found.DeepCopy()
	found.Rules, found.OwnerReferences = wanted.Rules, wanted.OwnerReferences
	_, err = roles.Update(p.ctx, found, metav1.UpdateOptions{})
	return err
}

func (p *permissions) ensureBinding(cluster string, addon *addonv1alpha1.ManagedClusterAddOn) error {
	bindings, wanted := p.kube.RbacV1().RoleBindings(cluster), agentRoleBinding(cluster, addon)
	found, err := bindings.Get(p.ctx, wanted.Name, metav1.GetOptions{})
	if err == nil && !equality.Semantic.DeepEqual(found.RoleRef, wanted.RoleRef) {
		// A binding cannot change the role it refers to.
		if err := bindings.Delete(p.ctx, wanted.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		_, err = bindings.Create(p.ctx, wanted, metav1.CreateOptions{})
		return err
	}
	if apierrors.IsNotFound(err) {
		_, err = bindings.Create(p.ctx, wanted, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(found.Subjects, wanted.Subjects) &&
		equality.Semantic.DeepEqual(found.OwnerReferences, wanted.OwnerReferences) {
		return nil
	}
	found = found.DeepCopy()
	found.Subjects, found.OwnerReferences = wanted.Subjects, wanted.OwnerReferences
	_, err = bindings.Update(p.ctx, found, metav1.UpdateOptions{})
	return err
}

// ensureLease creates the Lease empty and leaves the content of an existing one
// alone: it is the agent's. A Lease of an addon that is gone is about to be
// collected with it; it is made this addon's, or the agent would lose it.
func (p *permissions) ensureLease(cluster string, addon *addonv1alpha1.ManagedClusterAddOn) error {
	leases, wanted := p.kube.CoordinationV1().Leases(cluster), agentLease(cluster, addon)
	found, err := leases.Get(p.ctx, wanted.Name, metav1.GetOptions{})
	if err == nil && equality.Semantic.DeepEqual(found.OwnerReferences, wanted.OwnerReferences) {
		return nil
	}
	if err == nil {
		found = found.DeepCopy()
		found.OwnerReferences = wanted.OwnerReferences
		_, err = leases.Update(p.ctx, found, metav1.UpdateOptions{})
		return err
	}
	if !apierrors.IsNotFound(err) {
		return err
	}
	_, err = leases.Create(p.ctx, wanted, metav1.CreateOptions{})
	return err
}

// agentRole is what the agent may do on the hub. Kubernetes cannot restrict
// list and watch of all objects of a namespace by name, so deliveries are
// restricted by the namespace; all else is restricted to one name.
func agentRole(cluster string, addon *addonv1alpha1.ManagedClusterAddOn) *rbacv1.Role {
	return &rbacv1.Role{
		ObjectMeta: accessMeta(accessName, cluster, addon),
		Rules: []rbacv1.PolicyRule{
			{
				APIGroups: []string{v1alpha1.GroupName},
				Resources: []string{"rolloutdeliveries"},
				Verbs:     []string{"get", "list", "watch"},
			},
			{
				APIGroups:     []string{addonv1alpha1.GroupName},
				Resources:     []string{"managedclusteraddons"},
				ResourceNames: []string{v1alpha1.AddonName},
				Verbs:         []string{"get"},
			},
			{
				APIGroups:     []string{addonv1alpha1.GroupName},
				Resources:     []string{"managedclusteraddons/status"},
				ResourceNames: []string{v1alpha1.AddonName},
				Verbs:         []string{"patch"},
			},
			{
				APIGroups:     []string{coordinationv1.GroupName},
				Resources:     []string{"leases"},
				ResourceNames: []string{v1alpha1.AgentLeaseName},
				Verbs:         []string{"get", "update", "patch"},
			},
		},
	}
}

// agentRoleBinding binds to the group of this cluster's agent alone. The
// certificate holds two more groups, of this addon on all clusters and
// system:authenticated; a right given to them here would be given to others.
func agentRoleBinding(cluster string, addon *addonv1alpha1.ManagedClusterAddOn) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: accessMeta(accessName, cluster, addon),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: accessName},
		Subjects: []rbacv1.Subject{{
			APIGroup: rbacv1.GroupName,
			Kind:     rbacv1.GroupKind,
			Name:     agent.DefaultGroups(cluster, v1alpha1.AddonName)[0],
		}},
	}
}

func agentLease(cluster string, addon *addonv1alpha1.ManagedClusterAddOn) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: accessMeta(v1alpha1.AgentLeaseName, cluster, addon)}
}

// accessMeta lets the objects go when the addon is disabled.
func accessMeta(name, cluster string, addon *addonv1alpha1.ManagedClusterAddOn) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:      name,
		Namespace: cluster,
		Labels:    map[string]string{addonv1alpha1.AddonLabelKey: v1alpha1.AddonName},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: addonv1alpha1.GroupVersion.String(),
			Kind:       "ManagedClusterAddOn",
			Name:       addon.Name,
			UID:        addon.UID,
		}},
	}
}
