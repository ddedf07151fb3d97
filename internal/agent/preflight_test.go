package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	testclock "k8s.io/utils/clock/testing"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// serving is the discovery of a cluster: the kinds and resources by group and
// version, and how often it was asked.
type serving struct {
	kinds map[string]map[string]string
	err   error
	asked int
}

func (s *serving) ServerResourcesForGroupVersion(gv string) (*metav1.APIResourceList, error) {
	s.asked++
	if s.err != nil {
		return nil, s.err
	}
	kinds, found := s.kinds[gv]
	if !found {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, gv)
	}
	list := &metav1.APIResourceList{GroupVersion: gv}
	for kind, resource := range kinds {
		list.APIResources = append(list.APIResources,
			metav1.APIResource{Kind: kind, Name: resource}, metav1.APIResource{Kind: "Scale", Name: resource + "/scale"})
	}
	return list, nil
}

// preflightFixture is a cluster that serves Deployments, ConfigMaps and
// Secrets, and a delivery in its preflight.
type preflightFixture struct {
	served     *serving
	objects    *metadatafake.FakeMetadataClient
	preflights *preflights
	delivery   *v1alpha1.RolloutDelivery
	marked     []string
}

var (
	apiDeployment = v1alpha1.ObjectReference{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "payments", Name: "api"}
	apiSecret     = v1alpha1.ObjectReference{Version: "v1", Kind: "Secret", Namespace: "payments", Name: "api"}
	thing         = v1alpha1.ObjectReference{Group: "example.com", Version: "v1", Kind: "Thing", Namespace: "payments", Name: "api"}
	thingCRD      = v1alpha1.ObjectReference{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "things.example.com"}
)

func newPreflightFixture(t *testing.T, existing []runtime.Object, content ...v1alpha1.ObjectReference) *preflightFixture {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	f := &preflightFixture{
		served: &serving{kinds: map[string]map[string]string{
			"apps/v1":                 {"Deployment": "deployments"},
			"v1":                      {"ConfigMap": "configmaps", "Secret": "secrets"},
			"apiextensions.k8s.io/v1": {"CustomResourceDefinition": "customresourcedefinitions"},
		}},
		objects:  metadatafake.NewSimpleMetadataClient(scheme, existing...),
		delivery: deliveryOf(content...),
	}
	f.delivery.Status.Phase = v1alpha1.PhasePreflight
	f.preflights = newPreflights(f.served, f.objects, testclock.NewFakeClock(time.Unix(0, 0)),
		func(names ...string) { f.marked = append(f.marked, names...) })
	return f
}

// objectOf is the metadata of an object, with the rollout's labels or not.
func objectOf(ref v1alpha1.ObjectReference, labels map[string]string) runtime.Object {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, Labels: labels}}
	o.SetGroupVersionKind(kindOf(ref))
	return o
}

func oursOf(namespace, name string) map[string]string {
	return map[string]string{v1alpha1.LabelRolloutNamespace: namespace, v1alpha1.LabelRolloutName: name}
}

// answer asks, lets the cluster be looked at, and asks again.
func (f *preflightFixture) answer(t *testing.T) v1alpha1.AgentReport {
	t.Helper()
	if _, known := f.preflights.report(f.delivery); known {
		t.Fatal("the answer was known before the cluster was looked at")
	}
	f.preflights.round(t.Context(), inquiry.isNew)
	report, known := f.preflights.report(f.delivery)
	if !known {
		t.Fatal("the cluster was looked at, and there is no answer")
	}
	return report
}

func TestAPreflightNamesWhatExistsAndIsNotOurs(t *testing.T) {
	other := configRef
	other.Name = "other"
	namesake := configRef
	namesake.Name = "namesake"
	f := newPreflightFixture(t, []runtime.Object{
		objectOf(apiDeployment, oursOf("platform", "payments")),
		objectOf(configRef, nil),
		objectOf(other, oursOf("platform", "another-rollout")),
		objectOf(namesake, oursOf("another-namespace", "payments")),
		objectOf(apiSecret, nil),
	}, apiDeployment, configRef, apiSecret, other, namesake)
	report := f.answer(t)
	want := &v1alpha1.Preflight{Delivery: 7, Existing: []v1alpha1.ObjectReference{configRef, other, namesake}}
	if diff := cmp.Diff(want, report.Preflight); diff != "" {
		t.Errorf("preflight (-want +got):\n%s", diff)
	}
	if report.Health != v1alpha1.HealthProgressing || report.Digest != "sha256:r2" || report.Delivery != 7 {
		t.Errorf("got %+v, want a progressing report on this delivery", report)
	}
	if !strings.Contains(report.Text, "ConfigMap payments/api and 2 more") {
		t.Errorf("the text is %q", report.Text)
	}
	for _, action := range f.objects.Actions() {
		if action.GetResource().Resource == "secrets" {
			t.Errorf("a Secret was asked for: %v", action)
		}
	}
	if diff := cmp.Diff([]string{f.delivery.Name}, f.marked); diff != "" {
		t.Errorf("who is to be reported (-want +got):\n%s", diff)
	}
}

func TestAPreflightNamesAPIsThatAreNotServed(t *testing.T) {
	required := v1alpha1.RequiredAPI{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "Gateway"}
	cases := []struct {
		name    string
		content []v1alpha1.ObjectReference
		want    []v1alpha1.RequiredAPI
	}{
		{"what is required and what the content needs", []v1alpha1.ObjectReference{apiDeployment, thing},
			[]v1alpha1.RequiredAPI{required, {Group: "example.com", Version: "v1", Kind: "Thing"}}},
		{"but not what the content brings", []v1alpha1.ObjectReference{thingCRD, thing}, []v1alpha1.RequiredAPI{required}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newPreflightFixture(t, nil, c.content...)
			f.delivery.Status.Rendered.Requires = []v1alpha1.RequiredAPI{required, {Group: "apps", Version: "v1", Kind: "Deployment"}}
			if diff := cmp.Diff(c.want, f.answer(t).Preflight.Unserved); diff != "" {
				t.Errorf("unserved (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPreflightIsRepeatedUntilTheHubGoesOn(t *testing.T) {
	f := newPreflightFixture(t, nil, thing)
	if got := f.answer(t).Preflight.Unserved; len(got) != 1 {
		t.Fatalf("unserved are %v, want the Thing", got)
	}
	f.served.kinds["example.com/v1"] = map[string]string{"Thing": "things"}
	f.preflights.round(t.Context(), inquiry.isAny)
	report, _ := f.preflights.report(f.delivery)
	if len(report.Preflight.Unserved) != 0 {
		t.Errorf("unserved are %v, though the API is served by now", report.Preflight.Unserved)
	}
	f.preflights.forget(f.delivery.Name)
	f.served.asked = 0
	f.preflights.round(t.Context(), inquiry.isAny)
	if f.served.asked != 0 {
		t.Errorf("the cluster is asked %d times, though no delivery waits", f.served.asked)
	}
}

func TestAPreflightSaysNothingWhileTheClusterDoesNotAnswer(t *testing.T) {
	f := newPreflightFixture(t, nil, apiDeployment)
	f.served.err = errors.New("connection refused")
	f.preflights.report(f.delivery)
	f.preflights.round(t.Context(), inquiry.isNew)
	if report, known := f.preflights.report(f.delivery); known {
		t.Errorf("got %+v of a cluster that does not answer", report)
	}
}

func TestAPreflightOfAnEarlierDeliveryIsNoAnswer(t *testing.T) {
	f := newPreflightFixture(t, nil, apiDeployment)
	f.answer(t)
	f.delivery = f.delivery.DeepCopy()
	f.delivery.Spec.Delivery, f.delivery.Status.Rendered.Delivery = 8, 8
	if got := f.answer(t); got.Preflight.Delivery != 8 {
		t.Errorf("the answer is about delivery %d", got.Preflight.Delivery)
	}
}

func TestAPreflightSaysWhatItMayNotRead(t *testing.T) {
	f := newPreflightFixture(t, nil, apiDeployment)
	f.objects.PrependReactor("get", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "api", errors.New("no"))
	})
	if got := f.answer(t).Text; !strings.Contains(got, "cannot tell what exists of deployments.apps: grant get") {
		t.Errorf("the text is %q", got)
	}
}

func TestAPreflightThatDoesNotFitSaysSo(t *testing.T) {
	var existing []v1alpha1.ObjectReference
	for i := range maxExisting {
		ref := configRef
		ref.Name = fmt.Sprintf("config-%03d", i)
		existing = append(existing, ref)
	}
	message, err := v1alpha1.AgentReport{
		Digest: "sha256:r2", Delivery: 7, Health: v1alpha1.HealthProgressing,
		Preflight: &v1alpha1.Preflight{Delivery: 7, Existing: existing},
	}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	report, err := v1alpha1.DecodeAgentReport(message)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(report.Preflight.Existing); !report.Truncated || n < 60 || n == maxExisting {
		t.Errorf("truncated %v with %d existing objects", report.Truncated, n)
	}
	if len(existing) != maxExisting || existing[maxExisting-1].Name == "" {
		t.Error("the report's own list was changed")
	}
}
