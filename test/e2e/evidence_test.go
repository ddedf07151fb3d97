package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/test/product"
)

// evidenceName is the rollout of this file, and the namespace of its objects.
const evidenceName = "evidence"

// endpoint answers in the place of the Service evidence/api: the lab has no
// Service network.
var endpoint endpointServer

type endpointServer struct{ status atomic.Int32 }

// listen starts to answer with 200, and returns the arguments by which agents
// find it.
func (e *endpointServer) listen() []string {
	e.status.Store(http.StatusOK)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(e.status.Load()))
	}))
	DeferCleanup(server.Close)
	return []string{"--endpoint-address", evidenceName + "/api:80=" + server.Listener.Addr().String()}
}

// evidenceRollout is the example with objects of its own, for all clusters at
// once.
func evidenceRollout(version, tag string) *v1alpha1.FleetRollout {
	GinkgoHelper()
	rollout, err := product.ReadExample()
	Expect(err).NotTo(HaveOccurred())
	Expect(product.SetRelease(rollout, version, tag)).To(Succeed())
	Expect(product.EditManifests(rollout, func(object *unstructured.Unstructured) error {
		if object.GetKind() == "Namespace" {
			object.SetName(evidenceName)
		} else {
			object.SetNamespace(evidenceName)
		}
		return nil
	})).To(Succeed())
	rollout.Name = evidenceName
	rollout.Spec.Strategy.Groups = []v1alpha1.Group{{Name: "all", ClusterSelector: metav1.LabelSelector{}}}
	rollout.Spec.Health.Endpoints = []v1alpha1.EndpointCheck{{
		Service: v1alpha1.ServiceEndpoint{Namespace: evidenceName, Name: "api", Port: 80}, MaxLatencyMilliseconds: ptr.To[int32](30000),
	}}
	rollout.Spec.Health.Signals.MinPodStartSuccessPercent = ptr.To[int32](60)
	return rollout
}

var _ = Describe("What the agent of a real cluster sees", Ordered, func() {
	delivery := func(ctx context.Context, g Gomega) *v1alpha1.RolloutDelivery {
		d := &v1alpha1.RolloutDelivery{}
		g.Expect(hub.Get(ctx, client.ObjectKey{Namespace: "c1", Name: v1alpha1.DeliveryName(product.ExampleNamespace, evidenceName)}, d)).To(Succeed())
		return d
	}
	eventually := func(ctx context.Context, matches func(Gomega, *v1alpha1.RolloutDelivery)) {
		GinkgoHelper()
		Eventually(func(g Gomega) { matches(g, delivery(ctx, g)) }).WithContext(ctx).Should(Succeed())
	}
	isIn := func(state v1alpha1.DeliveryState) func(Gomega, *v1alpha1.RolloutDelivery) {
		return func(g Gomega, d *v1alpha1.RolloutDelivery) {
			g.Expect(d.Status.Delivery).To(Equal(d.Spec.Delivery))
			g.Expect(d.Status.State).To(Equal(state), d.Status.Reason+": "+d.Status.Message)
		}
	}
	update := func(ctx context.Context, rollout *v1alpha1.FleetRollout) {
		GinkgoHelper()
		Eventually(func() error { return applyRollout(ctx, rollout) }).WithContext(ctx).Should(Succeed())
	}
	runs := func(ctx context.Context, g Gomega) *appsv1.Deployment {
		deployment := &appsv1.Deployment{}
		g.Expect(managedClient("c1").Get(ctx, client.ObjectKey{Namespace: evidenceName, Name: "api"}, deployment)).To(Succeed())
		return deployment
	}
	wasScaled := func(g Gomega, d *v1alpha1.RolloutDelivery) {
		g.Expect(d.Status.Drift).To(ConsistOf(v1alpha1.ObjectDrift{
			ObjectReference: v1alpha1.ObjectReference{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: evidenceName, Name: "api"},
			Manager:         "engineer", Paths: []string{".spec.replicas"},
		}))
		isIn(v1alpha1.StateHealthy)(g, d)
	}

	AfterAll(func(ctx SpecContext) {
		rollout := &v1alpha1.FleetRollout{ObjectMeta: metav1.ObjectMeta{Namespace: product.ExampleNamespace, Name: evidenceName}}
		Expect(client.IgnoreNotFound(hub.Delete(ctx, rollout))).To(Succeed())
		Eventually(func() error {
			return client.IgnoreNotFound(hub.Get(ctx, client.ObjectKeyFromObject(rollout), rollout))
		}).WithContext(ctx).Should(Succeed())
	})

	It("is told to the hub before anything is written over", func(ctx SpecContext) {
		cluster := managedClient("c1")
		Expect(cluster.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: evidenceName}})).To(Succeed())
		Expect(cluster.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: evidenceName, Name: "api"}})).To(Succeed())
		Expect(hub.Create(ctx, evidenceRollout("1.0.0", "1.0.0"))).To(Succeed())
		eventually(ctx, isIn(v1alpha1.StateHealthy))
		eventually(ctx, func(g Gomega, d *v1alpha1.RolloutDelivery) {
			g.Expect(d.Status.Preflight).NotTo(BeNil())
			g.Expect(d.Status.Preflight.Existing).To(ConsistOf(
				v1alpha1.ObjectReference{Version: "v1", Kind: "Namespace", Name: evidenceName},
				v1alpha1.ObjectReference{Version: "v1", Kind: "ConfigMap", Namespace: evidenceName, Name: "api"},
			))
			g.Expect(d.Status.Preflight.Unserved).To(BeEmpty())
		})
	})

	It("holds what endpoints answer", func(ctx SpecContext) {
		endpoint.status.Store(http.StatusServiceUnavailable)
		eventually(ctx, isIn(v1alpha1.StateDegraded))
		eventually(ctx, func(g Gomega, d *v1alpha1.RolloutDelivery) {
			g.Expect(d.Status.Endpoints).To(HaveLen(1))
			g.Expect(d.Status.Endpoints[0].Endpoint).To(Equal(evidenceName + "/api:80"))
			g.Expect(d.Status.Endpoints[0].Message).To(Equal("status 503"))
		})
		endpoint.status.Store(http.StatusOK)
		eventually(ctx, isIn(v1alpha1.StateHealthy))
	})

	It("holds what somebody took by hand, also after the agent was killed, until it is ours again", func(ctx SpecContext) {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":3},"metadata":{"annotations":{"team":"a"}}}`))
		Expect(managedClient("c1").Patch(ctx, runs(ctx, Default), patch, client.FieldOwner("engineer"))).To(Succeed())
		eventually(ctx, wasScaled)

		agent := theProd.Agents["c1"]
		Expect(agent.Kill()).To(Succeed())
		Expect(agent.Start(ctx)).To(Succeed())
		Consistently(func(g Gomega) { wasScaled(g, delivery(ctx, g)) }, "10s").WithContext(ctx).Should(Succeed())

		update(ctx, evidenceRollout("1.1.0", "1.1.0"))
		eventually(ctx, func(g Gomega, d *v1alpha1.RolloutDelivery) {
			g.Expect(d.Spec.Revision.Version).To(Equal("1.1.0"))
			isIn(v1alpha1.StateHealthy)(g, d)
			g.Expect(d.Status.Drift).To(BeEmpty())
		})
		Expect(runs(ctx, Default).Annotations).To(HaveKeyWithValue("team", "a"))
		Expect(*runs(ctx, Default).Spec.Replicas).To(BeEquivalentTo(2))
	})

	It("holds that pods do not start, before the Deployment gives up", func(ctx SpecContext) {
		update(ctx, evidenceRollout("1.2.0", "broken"))
		eventually(ctx, func(g Gomega, d *v1alpha1.RolloutDelivery) {
			g.Expect(d.Spec.Revision.Version).To(Equal("1.2.0"))
			g.Expect(d.Status.State).To(Equal(v1alpha1.StateDegraded), d.Status.Message)
			g.Expect(d.Status.Message).To(ContainSubstring("new pods did not start, such as " + evidenceName + "/api-"))
		})
		eventually(ctx, func(g Gomega, d *v1alpha1.RolloutDelivery) {
			g.Expect(d.Spec.Revision.Version).To(Equal("1.1.0"))
			isIn(v1alpha1.StateHealthy)(g, d)
		})
	})
})
