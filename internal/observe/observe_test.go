package observe

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/rollout"
)

func TestClustersAreThoseSelectedAndThoseDeliveredTo(t *testing.T) {
	h := newHub(t, append(placementOf("c2", "c1"), cluster("c1"), cluster("c2"), cluster("c3"), cluster("c4"))...)
	fro := newRollout("1.0.0", "one")
	left := deliveryTo(fro, "c3")
	elsewhere := deliveryTo(newRollout("1.0.0", "one"), "c4")
	elsewhere.Name = "another-rollout"
	h.create(left, deliveryTo(fro, "c1"), elsewhere)

	observation := h.observe(fro)
	var got []string
	for _, c := range observation.Snapshot.Clusters {
		line := c.Name
		if c.Selected {
			line += " selected"
		}
		if c.Delivery != nil {
			line += " delivered"
		}
		got = append(got, line)
	}
	if diff := cmp.Diff([]string{"c1 selected delivered", "c2 selected", "c3 delivered"}, got); diff != "" {
		t.Errorf("clusters (-want +got):\n%s", diff)
	}
	if len(observation.Deliveries) != 2 {
		t.Errorf("%d deliveries", len(observation.Deliveries))
	}
	if got := observation.Snapshot.Clusters[0].Labels; got["name"] != "c1" {
		t.Errorf("labels %v", got)
	}
}

func TestWhatAClusterIs(t *testing.T) {
	proven := &v1alpha1.Proof{Digest: "sha256:1", Delivery: 1}
	cases := []struct {
		name     string
		cluster  func(c *clusterv1.ManagedCluster) // nil: it does not exist
		noLease  bool
		delivery func(d *v1alpha1.RolloutDelivery) // nil: none
		after    time.Duration                     // without a renewed Lease
		want     rollout.Cluster                   // the fields below
		says     string
	}{
		{
			name:    "available with a live agent",
			cluster: func(*clusterv1.ManagedCluster) {},
			want:    rollout.Cluster{Exists: true, Available: true, AgentLive: true},
		},
		{
			name: "not available",
			cluster: func(c *clusterv1.ManagedCluster) {
				c.Status.Conditions[0].Status = metav1.ConditionUnknown
				c.Spec.Taints = []clusterv1.Taint{{Key: clusterv1.ManagedClusterTaintUnreachable, Effect: clusterv1.TaintEffectNoSelect}}
			},
			want: rollout.Cluster{Exists: true, Tainted: true, AgentLive: true, Unreachable: &v1alpha1.Cause{Reason: v1alpha1.ReasonClusterUnavailable}},
			says: "is not Available",
		},
		{
			name: "a taint of its owner says nothing about reaching it",
			cluster: func(c *clusterv1.ManagedCluster) {
				c.Spec.Taints = []clusterv1.Taint{{Key: "gpu", Effect: clusterv1.TaintEffectNoSelect}}
			},
			want: rollout.Cluster{Exists: true, Available: true, AgentLive: true},
		},
		{
			name: "being deleted",
			cluster: func(c *clusterv1.ManagedCluster) {
				at := metav1.NewTime(noon)
				c.DeletionTimestamp, c.Finalizers = &at, []string{"test/hold"}
			},
			want: rollout.Cluster{Exists: true, Deleting: true, Available: true, AgentLive: true},
		},
		{
			name:     "gone",
			delivery: func(*v1alpha1.RolloutDelivery) {},
			want:     rollout.Cluster{AgentLive: true, Unreachable: &v1alpha1.Cause{Reason: v1alpha1.ReasonClusterUnavailable}},
			says:     "does not exist",
		},
		{
			name:    "an agent that was never seen is not lost",
			cluster: func(*clusterv1.ManagedCluster) {},
			noLease: true,
			want:    rollout.Cluster{Exists: true, Available: true, AgentLive: true},
		},
		{
			name:     "an agent that has proven something and is gone is lost",
			cluster:  func(*clusterv1.ManagedCluster) {},
			noLease:  true,
			delivery: func(d *v1alpha1.RolloutDelivery) { d.Status.Proven = proven },
			want:     rollout.Cluster{Exists: true, Available: true, Unreachable: &v1alpha1.Cause{Reason: v1alpha1.ReasonAgentSilent}},
			says:     "fleet-rollout-agent",
		},
		{
			name:    "after a start the Lease counts until three intervals have passed",
			cluster: func(*clusterv1.ManagedCluster) {},
			after:   3*time.Minute - time.Second,
			want:    rollout.Cluster{Exists: true, Available: true, AgentLive: true},
		},
		{
			name:    "three intervals without a renewal",
			cluster: func(*clusterv1.ManagedCluster) {},
			after:   3 * time.Minute,
			want:    rollout.Cluster{Exists: true, Available: true, Unreachable: &v1alpha1.Cause{Reason: v1alpha1.ReasonAgentSilent}},
			says:    "every 60 seconds",
		},
		{
			name:     "reported degraded",
			cluster:  func(*clusterv1.ManagedCluster) {},
			delivery: func(d *v1alpha1.RolloutDelivery) { d.Status.State = v1alpha1.StateDegraded },
			want:     rollout.Cluster{Exists: true, Available: true, AgentLive: true, UnhealthyNow: true},
		},
		{
			name:     "blocked by what the delivery found is the planner's to judge",
			cluster:  func(*clusterv1.ManagedCluster) {},
			delivery: func(d *v1alpha1.RolloutDelivery) { d.Status.State = v1alpha1.StateBlocked },
			want:     rollout.Cluster{Exists: true, Available: true, AgentLive: true},
		},
		{
			name:     "an object of our name that is not ours",
			cluster:  func(*clusterv1.ManagedCluster) {},
			delivery: func(d *v1alpha1.RolloutDelivery) { d.Spec.Rollout.UID = "other" },
			want:     rollout.Cluster{Exists: true, Available: true, AgentLive: true, Blocked: &v1alpha1.Cause{Reason: v1alpha1.ReasonForeignObject}},
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			fro := newRollout("1.0.0", "one")
			h := newHub(t, placementOf("c1")...)
			if tc.cluster != nil {
				c := cluster("c1")
				tc.cluster(c)
				h.createWithDeletion(c)
			}
			if !tc.noLease {
				h.create(lease("c1"))
			}
			if tc.delivery != nil {
				d := deliveryTo(fro, "c1")
				tc.delivery(d)
				h.create(d)
			}
			h.observe(fro)
			h.clock.SetTime(noon.Add(tc.after))
			got := h.observe(fro).Snapshot.Clusters[0]

			if got.Unreachable != nil && !strings.Contains(got.Unreachable.Message, tc.says) {
				t.Errorf("message %q does not say %q", got.Unreachable.Message, tc.says)
			}
			for _, cause := range []*v1alpha1.Cause{got.Unreachable, got.Blocked} {
				if cause != nil {
					cause.Message = ""
				}
			}
			want := tc.want
			want.Name, want.Selected = "c1", true
			got.Labels, got.Delivery, got.LeaseInterval = nil, nil, 0
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("cluster (-want +got):\n%s", diff)
			}
		})
	}
}

// createWithDeletion creates an object that may be being deleted.
func (h *hub) createWithDeletion(object client.Object) {
	h.t.Helper()
	deleting := object.GetDeletionTimestamp() != nil
	object.SetDeletionTimestamp(nil)
	h.create(object)
	if deleting {
		h.delete(object)
	}
}

func TestADecisionReadThatFailsIsOnlyIncomplete(t *testing.T) {
	h := newHub(t, cluster("c1"))
	fro := newRollout("1.0.0", "one")
	h.create(deliveryTo(fro, "c1"))
	h.observer.Client = interceptor.NewClient(h.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if _, ok := object.(*clusterv1beta1.Placement); ok {
				return errors.New("etcd is away")
			}
			return c.Get(ctx, key, object, opts...)
		},
	})
	got := h.observe(fro).Snapshot
	if got.Membership.Complete || !strings.Contains(got.Membership.Cause.Message, "etcd is away") {
		t.Errorf("membership %+v", got.Membership)
	}
	if len(got.Clusters) != 1 || got.Clusters[0].Delivery == nil {
		t.Errorf("clusters %+v; want the one with a delivery", got.Clusters)
	}
}

func TestAnyOtherReadThatFailsDecidesNothing(t *testing.T) {
	broken := errors.New("etcd is away")
	for name, fails := range map[string]func(object any) bool{
		"of deliveries": func(o any) bool { _, is := o.(*v1alpha1.RolloutDeliveryList); return is },
		"of revisions":  func(o any) bool { _, is := o.(*v1alpha1.RolloutRevisionList); return is },
		"of a cluster":  func(o any) bool { _, is := o.(*clusterv1.ManagedCluster); return is },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, append(placementOf("c1"), cluster("c1"))...)
			h.observer.Client = interceptor.NewClient(h.client, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
					if fails(object) {
						return broken
					}
					return c.Get(ctx, key, object, opts...)
				},
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if fails(list) {
						return broken
					}
					return c.List(ctx, list, opts...)
				},
			})
			if _, err := h.observer.Observe(context.Background(), newRollout("1.0.0", "one")); !errors.Is(err, broken) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestRemovalsAreConfirmedOnlyByTheSameMembers(t *testing.T) {
	cases := []struct {
		name string
		live []client.Object
		want bool
	}{
		{"the same", placementOf("c1", "c2"), true},
		{"in another order", placementOf("c2", "c1"), true},
		{"one more", placementOf("c1", "c2", "c3"), false},
		{"one less", placementOf("c1"), false},
		{"another one", placementOf("c1", "c3"), false},
		{"none", placementOf(), false},
		{"not complete", placementOf("c1", "c2")[:1], false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			h := newHub(t, append(placementOf("c1", "c2"), cluster("c1"), cluster("c2"), cluster("c3"))...)
			fro := newRollout("1.0.0", "one")
			snapshot := h.observe(fro).Snapshot
			h.observer.Live = newHub(t, tc.live...).client
			if got := h.observer.ConfirmMembership(context.Background(), fro, snapshot); got.Membership.RemovalConfirmed != tc.want {
				t.Errorf("confirmed %v, want %v", got.Membership.RemovalConfirmed, tc.want)
			}
		})
	}
}

func TestOwnWritesAreSeenUntilTheCacheShowsThem(t *testing.T) {
	at := func(version, uid string) *v1alpha1.RolloutDelivery {
		return &v1alpha1.RolloutDelivery{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: "d", ResourceVersion: version, UID: types.UID(uid)}}
	}
	key := types.NamespacedName{Namespace: "c1", Name: "d"}
	cases := []struct {
		name   string
		cached *v1alpha1.RolloutDelivery // nil: missing
		after  time.Duration
		want   string // resourceVersion
	}{
		{"the cache is behind", at("9", "a"), 0, "10"},
		{"the cache has caught up", at("10", "a"), 0, "10"},
		{"the cache is ahead", at("11", "a"), 0, "11"},
		{"another object of that name", at("9", "b"), 0, "9"},
		{"the cache lags too long", at("9", "a"), ownWriteLifetime + 1, "9"},
		{"versions are no numbers", at("abc", "a"), 0, "abc"},
		{"missing in the cache", nil, 0, "10"},
		{"missing in the cache for too long", nil, ownWriteLifetime + 1, ""},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(noon)
			writes := NewOwnWrites[*v1alpha1.RolloutDelivery](clock)
			writes.Remember(at("10", "a"))
			clock.SetTime(noon.Add(tc.after))
			got := ""
			if tc.cached != nil {
				got = writes.Newer(tc.cached).ResourceVersion
			} else if missing, ok := writes.Missing(key); ok {
				got = missing.ResourceVersion
			}
			if got != tc.want {
				t.Errorf("version %q, want %q", got, tc.want)
			}
		})
	}

	writes := NewOwnWrites[*v1alpha1.RolloutDelivery](clocktesting.NewFakePassiveClock(noon))
	writes.Remember(at("10", "a"))
	if !writes.Wrote(at("10", "a")) || writes.Wrote(at("11", "a")) || writes.Wrote(at("10", "b")) {
		t.Error("Wrote takes another's write for ours, or ours for another's")
	}
	writes.Forget(key)
	if _, ok := writes.Missing(key); ok {
		t.Error("remembered after Forget")
	}
}
