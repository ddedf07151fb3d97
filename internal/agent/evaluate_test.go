package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

const newHash = "sha256:new"

// parse reads an object in YAML and stamps it with newHash.
func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("parse %s: %v", text, err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		t.Fatalf("parse %s: %v", text, err)
	}
	object.SetAnnotations(map[string]string{v1alpha1.AnnotationContentHash: newHash})
	return object
}

func referenceTo(o *unstructured.Unstructured) v1alpha1.ObjectReference {
	gvk := o.GroupVersionKind()
	return v1alpha1.ObjectReference{
		Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: o.GetNamespace(), Name: o.GetName(),
	}
}

func seen(o *unstructured.Unstructured) Sight {
	return Sight{Access: AccessReadable, Meta: o, Full: o}
}

// deliveryOf is a delivery that renders to the given objects, all at newHash.
func deliveryOf(references ...v1alpha1.ObjectReference) *v1alpha1.RolloutDelivery {
	d := &v1alpha1.RolloutDelivery{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: "platform-payments", UID: "u1"}}
	d.Spec.Rollout = v1alpha1.RolloutReference{Namespace: "platform", Name: "payments"}
	d.Spec.Revision.Digest = "sha256:r2"
	d.Spec.Delivery = 7
	d.Status.Rendered = &v1alpha1.Rendered{Delivery: 7, Digest: "sha256:r2"}
	for _, reference := range references {
		d.Status.Rendered.Objects = append(d.Status.Rendered.Objects,
			v1alpha1.RenderedObject{ObjectReference: reference, Hash: newHash})
	}
	return d
}

// evaluateOne evaluates a delivery of one object.
func evaluateOne(t *testing.T, reference v1alpha1.ObjectReference, sight Sight) v1alpha1.AgentReport {
	t.Helper()
	report, known := evaluateAll([]v1alpha1.ObjectReference{reference}, func(v1alpha1.ObjectReference) Sight { return sight })
	if !known {
		t.Fatalf("the delivery was not evaluated")
	}
	return report
}

// evaluateAll evaluates a delivery of objects without a health policy.
func evaluateAll(references []v1alpha1.ObjectReference, look Look) (v1alpha1.AgentReport, bool) {
	found, known := evaluate(deliveryOf(references...), look, rules{})
	return found.report, known
}

func TestWhatTheAgentSeesOfAnObject(t *testing.T) {
	config := v1alpha1.ObjectReference{Version: "v1", Kind: "ConfigMap", Namespace: "payments", Name: "api"}
	secret := v1alpha1.ObjectReference{Version: "v1", Kind: "Secret", Namespace: "payments", Name: "api"}
	deployment := v1alpha1.ObjectReference{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "payments", Name: "api"}
	with := func(hash string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: "api", Annotations: map[string]string{v1alpha1.AnnotationContentHash: hash}}}
	}
	leaving := with(newHash)
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	cases := []struct {
		name   string
		object v1alpha1.ObjectReference
		sight  Sight
		want   v1alpha1.Health
		text   string
	}{
		{"an object that is missing is progressing", config, Sight{Access: AccessReadable},
			v1alpha1.HealthProgressing, "ConfigMap payments/api: not there yet"},
		{"D1: an object with an earlier stamp never vouches for new content", config,
			Sight{Access: AccessReadable, Meta: with("sha256:old")},
			v1alpha1.HealthProgressing, "ConfigMap payments/api: still at earlier content"},
		{"an object without a stamp does not either", config, Sight{Access: AccessReadable, Meta: &metav1.PartialObjectMetadata{}},
			v1alpha1.HealthProgressing, "ConfigMap payments/api: still at earlier content"},
		{"an object at its content is healthy", config, Sight{Access: AccessReadable, Meta: with(newHash)},
			v1alpha1.HealthHealthy, "all objects are healthy (1)"},
		{"an object that is being deleted is progressing", config, Sight{Access: AccessReadable, Meta: leaving},
			v1alpha1.HealthProgressing, "ConfigMap payments/api: being deleted"},
		{"a Secret is taken as applied, and named", secret, Sight{Access: AccessForbidden},
			v1alpha1.HealthHealthy, "all objects are healthy (1); Secret payments/api is not readable by the agent: taken as applied"},
		{"a Deployment that the agent may not read is not taken as healthy", deployment, Sight{Access: AccessForbidden, Problem: "deployments.apps"},
			v1alpha1.HealthProgressing, `Deployment payments/api: the agent may not read apps/v1 Deployment: grant get, list and watch of deployments.apps with a ClusterRole labelled rollout.open-cluster-management.io/aggregate-to-agent: "true"`},
		{"a Deployment of which only the metadata is known is not healthy", deployment, Sight{Access: AccessReadable, Meta: with(newHash)},
			v1alpha1.HealthProgressing, "Deployment payments/api: its status has not been read yet"},
		{"a kind that the cluster does not serve is progressing", config, Sight{Access: AccessNotServed},
			v1alpha1.HealthProgressing, "ConfigMap payments/api: the cluster does not serve v1 ConfigMap"},
		{"a kind that cannot be read is progressing, with the reason", config, Sight{Access: AccessBroken, Problem: "conversion failed"},
			v1alpha1.HealthProgressing, "ConfigMap payments/api: cannot be read: conversion failed"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			report := evaluateOne(t, c.object, c.sight)
			if report.Health != c.want || report.Text != c.text {
				t.Errorf("got %s %q, want %s %q", report.Health, report.Text, c.want, c.text)
			}
		})
	}
}

func TestAReportEchoesDigestAndDeliveryAndNamesTheWorstFirst(t *testing.T) {
	suspended := parse(t, "apiVersion: batch/v1\nkind: Job\nmetadata: {name: later, namespace: payments}\nspec: {suspend: true}")
	completed := parse(t, "apiVersion: batch/v1\nkind: Job\nmetadata: {name: done, namespace: payments}\nstatus: {conditions: [{type: Complete, status: 'True'}]}")
	failed := parse(t, "apiVersion: batch/v1\nkind: Job\nmetadata: {name: bad, namespace: payments}\nstatus: {conditions: [{type: Failed, status: 'True', reason: R, message: m}]}")
	sights := map[v1alpha1.ObjectReference]Sight{}
	var references []v1alpha1.ObjectReference
	for _, o := range []*unstructured.Unstructured{suspended, completed, failed} {
		references = append(references, referenceTo(o))
		sights[referenceTo(o)] = seen(o)
	}

	got, known := evaluateAll(references, func(r v1alpha1.ObjectReference) Sight { return sights[r] })

	want := v1alpha1.AgentReport{
		Digest: "sha256:r2", Delivery: 7, Health: v1alpha1.HealthFailed, Objects: 3,
		Text: "Job payments/bad: failed: R: m; 1 more of 3 objects are not healthy",
		Unhealthy: []v1alpha1.ObjectHealth{
			{ObjectReference: referenceTo(failed), Health: v1alpha1.HealthFailed, Message: "failed: R: m"},
			{ObjectReference: referenceTo(suspended), Health: v1alpha1.HealthSuspended, Message: "suspended"},
		},
		CompletedJobs: []string{"payments/done"},
	}
	if diff := cmp.Diff(want, got); diff != "" || !known {
		t.Errorf("known=%v, report (-want +got):\n%s", known, diff)
	}
}

func TestASuspendedJobDoesNotHideWhatHasADeadline(t *testing.T) {
	suspended := parse(t, "apiVersion: batch/v1\nkind: Job\nmetadata: {name: later, namespace: payments}\nspec: {suspend: true}")
	missing := v1alpha1.ObjectReference{Version: "v1", Kind: "ConfigMap", Namespace: "payments", Name: "api"}
	report, _ := evaluateAll([]v1alpha1.ObjectReference{referenceTo(suspended), missing}, func(r v1alpha1.ObjectReference) Sight {
		if r == missing {
			return Sight{Access: AccessReadable}
		}
		return seen(suspended)
	})
	if report.Health != v1alpha1.HealthProgressing {
		t.Errorf("got %s, want Progressing", report.Health)
	}
}

func TestNothingIsSaidBeforeAWatchIsComplete(t *testing.T) {
	config := v1alpha1.ObjectReference{Version: "v1", Kind: "ConfigMap", Namespace: "payments", Name: "api"}
	if _, known := evaluateAll([]v1alpha1.ObjectReference{config}, func(v1alpha1.ObjectReference) Sight {
		return Sight{Access: AccessSettling}
	}); known {
		t.Errorf("an unfinished watch was taken for knowledge")
	}
}

func TestOnlyTheRenderingOfThePresentIntentIsEvaluated(t *testing.T) {
	cases := []struct {
		name   string
		change func(*v1alpha1.RolloutDelivery)
		want   bool
	}{
		{"a rendering of the present delivery is", func(*v1alpha1.RolloutDelivery) {}, true},
		{"no rendering is not", func(d *v1alpha1.RolloutDelivery) { d.Status.Rendered = nil }, false},
		{"a rendering of an earlier delivery is not", func(d *v1alpha1.RolloutDelivery) { d.Spec.Delivery++ }, false},
		{"a rendering of another digest is not", func(d *v1alpha1.RolloutDelivery) { d.Spec.Revision.Digest = "sha256:r3" }, false},
		{"a delivery that is being removed is not", func(d *v1alpha1.RolloutDelivery) { d.Spec.Removal = v1alpha1.DeletePolicyDelete }, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := deliveryOf()
			c.change(d)
			if got := canEvaluate(d); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestAVerdictOnEarlierContentIsNotAFailure(t *testing.T) {
	object := parse(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: payments, generation: 3}
spec: {replicas: 1, progressDeadlineSeconds: 60}
status: {observedGeneration: 3, replicas: 2, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, unavailableReplicas: 1,
  conditions: [{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded, message: ReplicaSet api-bad has timed out}]}`)
	sight := seen(object)
	if got := evaluateOne(t, referenceTo(object), sight).Health; got != v1alpha1.HealthFailed {
		t.Errorf("its own verdict: got %s, want Failed", got)
	}
	sight.Inherited = true
	if got := evaluateOne(t, referenceTo(object), sight).Health; got != v1alpha1.HealthProgressing {
		t.Errorf("an inherited verdict: got %s, want Progressing", got)
	}
}

func TestMessagesAreBoundedAndOnOneLine(t *testing.T) {
	long := bounded("first\nline " + strings.Repeat("ä", 600))
	if len(long) > maxMessage || strings.Contains(long, "\n") || !strings.HasSuffix(long, "...") {
		t.Errorf("got %d bytes: %q", len(long), long)
	}
}
