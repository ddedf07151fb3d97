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
	report, known := evaluate(deliveryOf(reference), func(v1alpha1.ObjectReference) Sight { return sight })
	if !known {
		t.Fatalf("the delivery was not evaluated")
	}
	return report
}

func TestHealthOfJudgedKinds(t *testing.T) {
	const (
		deploymentHead = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api, namespace: payments, generation: 3}\n"
		statefulHead   = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db, namespace: payments, generation: 3}\n"
		daemonHead     = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: log, namespace: payments, generation: 3}\n"
		jobHead        = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate, namespace: payments}\n"
		crdHead        = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.com}\n"
	)
	complete := "{type: Progressing, status: 'True', reason: NewReplicaSetAvailable}"
	available := "{type: Available, status: 'True'}"
	cases := []struct {
		name    string
		object  string
		want    v1alpha1.Health
		message string
	}{
		{"E1: a Deployment whose updated replicas are all unavailable is progressing", deploymentHead + `
spec: {replicas: 2, progressDeadlineSeconds: 600}
status: {observedGeneration: 3, replicas: 2, updatedReplicas: 2, unavailableReplicas: 2,
  conditions: [{type: Progressing, status: 'True', reason: ReplicaSetUpdated}, {type: Available, status: 'False'}]}`,
			v1alpha1.HealthProgressing, "0 of 2 replicas available"},
		{"E1: it has failed at once when its own deadline is over", deploymentHead + `
spec: {replicas: 2, progressDeadlineSeconds: 600}
status: {observedGeneration: 3, replicas: 2, updatedReplicas: 2, unavailableReplicas: 2,
  conditions: [{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded, message: timed out}]}`,
			v1alpha1.HealthFailed, "progress deadline exceeded, 0 of 2 replicas available"},
		{"a complete Deployment is healthy", deploymentHead + `
spec: {replicas: 2, progressDeadlineSeconds: 600}
status: {observedGeneration: 3, replicas: 2, updatedReplicas: 2, readyReplicas: 2, availableReplicas: 2,
  conditions: [` + complete + `, ` + available + `]}`, v1alpha1.HealthHealthy, ""},
		{"D1: a Deployment whose controller has not seen its generation is progressing whatever the status says", deploymentHead + `
spec: {replicas: 2, progressDeadlineSeconds: 600}
status: {observedGeneration: 2, replicas: 2, updatedReplicas: 2, readyReplicas: 2, availableReplicas: 2,
  conditions: [` + complete + `, ` + available + `]}`, v1alpha1.HealthProgressing, unseen},
		{"a Deployment without any status is progressing, even with no replicas", deploymentHead + `
spec: {replicas: 0}`, v1alpha1.HealthProgressing, unseen},
		{"a Deployment that was complete and lost a replica is degraded", deploymentHead + `
spec: {replicas: 4, progressDeadlineSeconds: 600}
status: {observedGeneration: 3, replicas: 4, updatedReplicas: 4, readyReplicas: 3, availableReplicas: 3,
  conditions: [` + complete + `, ` + available + `]}`, v1alpha1.HealthDegraded, "3 of 4 replicas available"},
		{"a Deployment in the middle of its update is progressing", deploymentHead + `
spec: {replicas: 4, progressDeadlineSeconds: 600}
status: {observedGeneration: 3, replicas: 5, updatedReplicas: 2, readyReplicas: 4, availableReplicas: 4,
  conditions: [{type: Progressing, status: 'True', reason: ReplicaSetUpdated}, ` + available + `]}`,
			v1alpha1.HealthProgressing, "2 of 4 replicas updated, 4 available"},
		{"a paused Deployment is suspended", deploymentHead + `
spec: {replicas: 1, paused: true}
status: {observedGeneration: 3}`, v1alpha1.HealthSuspended, "paused"},

		{"a StatefulSet with all pods ready and updated is healthy", statefulHead + `
spec: {replicas: 2, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0}}}
status: {observedGeneration: 3, replicas: 2, readyReplicas: 2, currentReplicas: 2, updatedReplicas: 2}`,
			v1alpha1.HealthHealthy, ""},
		{"a StatefulSet with an old pod is progressing", statefulHead + `
spec: {replicas: 2, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0}}}
status: {observedGeneration: 3, replicas: 2, readyReplicas: 2, currentReplicas: 1, updatedReplicas: 1}`,
			v1alpha1.HealthProgressing, "updated: 1/2"},
		{"a StatefulSet with OnDelete is progressing while a pod is not ready", statefulHead + `
spec: {replicas: 2, updateStrategy: {type: OnDelete}}
status: {observedGeneration: 3, replicas: 2, readyReplicas: 1}`,
			v1alpha1.HealthProgressing, "1 of 2 replicas ready"},
		{"a StatefulSet with minReadySeconds waits for availability", statefulHead + `
spec: {replicas: 2, minReadySeconds: 30, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0}}}
status: {observedGeneration: 3, replicas: 2, readyReplicas: 2, availableReplicas: 1, currentReplicas: 2, updatedReplicas: 2}`,
			v1alpha1.HealthProgressing, "1 of 2 replicas ready"},
		{"a StatefulSet without any status is progressing, even with no replicas", statefulHead + `
spec: {replicas: 0}`, v1alpha1.HealthProgressing, unseen},

		{"a DaemonSet with all pods updated and available is healthy", daemonHead + `
spec: {updateStrategy: {type: RollingUpdate}}
status: {observedGeneration: 3, desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 2, numberReady: 2}`,
			v1alpha1.HealthHealthy, ""},
		{"a DaemonSet with an old pod is progressing", daemonHead + `
spec: {updateStrategy: {type: RollingUpdate}}
status: {observedGeneration: 3, desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: 1, numberAvailable: 2, numberReady: 2}`,
			v1alpha1.HealthProgressing, "1 of 2 pods updated"},
		{"a DaemonSet with OnDelete does not wait for somebody to delete pods", daemonHead + `
spec: {updateStrategy: {type: OnDelete}}
status: {observedGeneration: 3, desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: 0, numberAvailable: 2, numberReady: 2}`,
			v1alpha1.HealthHealthy, ""},
		{"a DaemonSet with OnDelete needs its pods available", daemonHead + `
spec: {updateStrategy: {type: OnDelete}}
status: {observedGeneration: 3, desiredNumberScheduled: 2, currentNumberScheduled: 2, numberAvailable: 1, numberReady: 1}`,
			v1alpha1.HealthProgressing, "1 of 2 pods available"},
		{"a DaemonSet that no node wants is healthy", daemonHead + `
spec: {updateStrategy: {type: RollingUpdate}}
status: {observedGeneration: 3, desiredNumberScheduled: 0, currentNumberScheduled: 0, numberAvailable: 0}`,
			v1alpha1.HealthHealthy, ""},

		{"E3: a Job that was just applied is progressing", jobHead, v1alpha1.HealthProgressing,
			"not completed: 0 active, 0 succeeded, 0 failed"},
		{"E3: a Job that runs is progressing", jobHead + `status: {active: 1, startTime: "2026-01-01T00:00:00Z"}`,
			v1alpha1.HealthProgressing, "not completed: 1 active, 0 succeeded, 0 failed"},
		{"E3: a Job that completed is healthy", jobHead + `status: {succeeded: 1, conditions: [{type: Complete, status: 'True'}]}`,
			v1alpha1.HealthHealthy, ""},
		{"E3: a Job that failed has failed at once", jobHead +
			`status: {failed: 7, conditions: [{type: Failed, status: 'True', reason: BackoffLimitExceeded, message: too often}]}`,
			v1alpha1.HealthFailed, "failed: BackoffLimitExceeded: too often"},
		{"E3: a suspended Job is suspended", jobHead + `spec: {suspend: true}
status: {conditions: [{type: Suspended, status: 'True'}]}`, v1alpha1.HealthSuspended, "suspended"},

		{"E5: a definition without conditions is progressing", crdHead, v1alpha1.HealthProgressing, "Install in progress"},
		{"E5: a definition that is being installed is progressing", crdHead +
			`status: {conditions: [{type: NamesAccepted, status: 'True'}, {type: Established, status: 'False', reason: Installing}]}`,
			v1alpha1.HealthProgressing, "Install in progress"},
		{"E5: an established definition is healthy", crdHead +
			`status: {conditions: [{type: NamesAccepted, status: 'True'}, {type: Established, status: 'True'}]}`,
			v1alpha1.HealthHealthy, ""},
		{"E5: a definition whose names are taken has failed", crdHead +
			`status: {conditions: [{type: NamesAccepted, status: 'False', reason: Conflict, message: taken}]}`,
			v1alpha1.HealthFailed, "failed: taken"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			object := parse(t, c.object)
			report := evaluateOne(t, referenceTo(object), seen(object))
			got := v1alpha1.ObjectHealth{Health: v1alpha1.HealthHealthy}
			if len(report.Unhealthy) > 0 {
				got = report.Unhealthy[0]
			}
			if got.Health != c.want || got.Message != c.message {
				t.Errorf("got %s %q, want %s %q", got.Health, got.Message, c.want, c.message)
			}
			if report.Health != c.want {
				t.Errorf("the delivery is %s, want %s", report.Health, c.want)
			}
		})
	}
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

	got, known := evaluate(deliveryOf(references...), func(r v1alpha1.ObjectReference) Sight { return sights[r] })

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
	report, _ := evaluate(deliveryOf(referenceTo(suspended), missing), func(r v1alpha1.ObjectReference) Sight {
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
	if _, known := evaluate(deliveryOf(config), func(v1alpha1.ObjectReference) Sight {
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
