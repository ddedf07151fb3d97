package agent

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

const (
	shopService = "apiVersion: v1\nkind: Service\nmetadata: {name: api, namespace: shop}\nspec: {clusterIP: 10.0.0.1, selector: {app: api}}"
	shopWorkers = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api, namespace: shop, generation: 1}\n" +
		"spec: {replicas: 0, template: {metadata: {labels: {app: api}}}}\n" +
		"status: {observedGeneration: 1, conditions: [{type: Progressing, status: 'True', reason: NewReplicaSetAvailable}, {type: Available, status: 'True'}]}"
)

// serviceWatches are watches of Services and EndpointSlices that are given what
// they see by hand.
func serviceWatches(t *testing.T, objects ...*unstructured.Unstructured) *watches {
	t.Helper()
	clock := testclock.NewFakeClock(time.Unix(0, 0))
	w := newWatches(clients{}, clock)
	for _, object := range objects {
		kind := object.GroupVersionKind()
		if w.kinds[kind] == nil {
			w.kinds[kind] = newKindWatch(kind, everything, clients{}, clock, silent{})
			w.kinds[kind].setAccess(AccessReadable, "")
		}
		w.kinds[kind].put(object)
	}
	if w.kinds[sliceKind] == nil {
		w.kinds[sliceKind] = newKindWatch(sliceKind, everything, clients{}, clock, silent{})
		w.kinds[sliceKind].setAccess(AccessReadable, "")
	}
	return w
}

func slice(t *testing.T, service, endpoints string) *unstructured.Unstructured {
	t.Helper()
	o := parse(t, "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: "+service+"-x, namespace: shop}\nendpoints: "+endpoints)
	o.SetLabels(map[string]string{serviceNameLabel: service})
	return o
}

func TestAServiceIsJudgedByItsEndpoints(t *testing.T) {
	for _, c := range []struct {
		name    string
		beside  []*unstructured.Unstructured
		content []string
		want    v1alpha1.Health
		message string
	}{
		{"an endpoint is ready", []*unstructured.Unstructured{slice(t, "api", "[{conditions: {ready: false}}, {conditions: {ready: true}}]")}, nil, v1alpha1.HealthHealthy, ""},
		{"one that does not say counts as ready", []*unstructured.Unstructured{slice(t, "api", "[{addresses: [10.1.0.1]}]")}, nil, v1alpha1.HealthHealthy, ""},
		{"none is ready", []*unstructured.Unstructured{slice(t, "api", "[{conditions: {ready: false}}]")}, nil, v1alpha1.HealthProgressing, "none of its 1 endpoints is ready"},
		{"another Service's are not its own", []*unstructured.Unstructured{slice(t, "db", "[{conditions: {ready: true}}]")}, nil, v1alpha1.HealthProgressing, "it has no endpoints: no pod that it selects has an address"},
		{"its workload rests", nil, []string{shopWorkers}, v1alpha1.HealthHealthy, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			service := parse(t, shopService)
			objects := append([]*unstructured.Unstructured{service}, c.beside...)
			content := []v1alpha1.ObjectReference{referenceTo(service)}
			for _, text := range c.content {
				object := parse(t, text)
				objects, content = append(objects, object), append(content, referenceTo(object))
			}
			found, known := evaluate(deliveryOf(content...), serviceWatches(t, objects...).see, rules{})
			if !known || found.report.Health != c.want {
				t.Fatalf("got %s, %s", found.report.Health, found.report.Text)
			}
			if c.message != "" && found.report.Unhealthy[0].Message != c.message {
				t.Errorf("got %q, want %q", found.report.Unhealthy[0].Message, c.message)
			}
		})
	}
}

func TestAServiceWhoseEndpointsCannotBeReadIsNotHealthy(t *testing.T) {
	service := parse(t, shopService)
	w := serviceWatches(t, service)
	slices := w.kinds[sliceKind]

	slices.setAccess(AccessSettling, "")
	if _, known := evaluate(deliveryOf(referenceTo(service)), w.see, rules{}); known {
		t.Error("it was judged before its endpoints were read")
	}
	slices.setAccess(AccessForbidden, "endpointslices.discovery.k8s.io")
	found, known := evaluate(deliveryOf(referenceTo(service)), w.see, rules{})
	if !known || found.report.Health != v1alpha1.HealthProgressing || !strings.Contains(found.report.Text, "get, list and watch of endpointslices.discovery.k8s.io") {
		t.Errorf("got %s, %s", found.report.Health, found.report.Text)
	}
}

func TestAChangeOfEndpointSlicesConcernsServices(t *testing.T) {
	service := parse(t, shopService)
	if got := concerns(referenceTo(slice(t, "api", "[]")), slice(t, "api", "[]")); got != referenceTo(service) {
		t.Errorf("an EndpointSlice concerns %v", got)
	}
	for kind, want := range map[schema.GroupVersionKind]schema.GroupVersionKind{sliceKind: serviceKind, serviceKind: serviceKind, kindOf(configRef): kindOf(configRef)} {
		if got := judgedBy(kind); got != want {
			t.Errorf("access to %s concerns %s", kind, got)
		}
	}
}

func TestWhatIsLargeAndNotJudgedIsNotKept(t *testing.T) {
	definition := parse(t, "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.com}\nspec: {group: example.com, versions: [{name: v1, schema: {}}]}")
	definition.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}", v1alpha1.AnnotationContentHash: newHash})
	kind := definition.GroupVersionKind()
	for extent, want := range map[extent]bool{extentOf(kind): false, everything: true} {
		w := newKindWatch(kind, extent, clients{}, testclock.NewFakeClock(time.Unix(0, 0)), silent{})
		kept, err := w.slim(definition.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		object := kept.(*unstructured.Unstructured)
		if _, found, _ := unstructured.NestedSlice(object.Object, "spec", "versions"); found != want {
			t.Errorf("%s: the versions are kept: %v", extent, found)
		}
		if len(object.GetAnnotations()) != 1 || stamp(object) != newHash {
			t.Errorf("%s: the annotations are %v", extent, object.GetAnnotations())
		}
	}
}
