package revision

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// Case M1, second half, and law 21: refused before anything is written.
func TestLaw21WhatCannotBeDeliveredIsRefusedWithSizeAndLimit(t *testing.T) {
	configMap := func(name, text string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: shop}, data: {text: %s}}", name, text)
	}
	many := func(count int, each func(i int) string) []string {
		var documents []string
		for i := range count {
			documents = append(documents, each(i))
		}
		return documents
	}
	noise := make([]byte, 300<<10)
	random := rand.New(rand.NewSource(1))
	cases := map[string]struct {
		documents []string
		parts     []string
	}{
		"one object over the limit of a work": {
			[]string{configMap("big", strings.Repeat("x", 600<<10))},
			[]string{"ConfigMap shop/big", fmt.Sprint(600<<10 + 102 + deliveryOverheadBytes), "512000"},
		},
		"more than all works may hold": {
			many(9, func(i int) string { return configMap(fmt.Sprintf("m%d", i), strings.Repeat("x", 490<<10)) }),
			[]string{"spec.template.components", "4194304", "another FleetRollout"},
		},
		"content that does not compress": {
			many(4, func(i int) string {
				random.Read(noise)
				return configMap(fmt.Sprintf("m%d", i), base64.StdEncoding.EncodeToString(noise))
			}),
			[]string{"spec.template", "compressed", "1048576"},
		},
		"names that the record has no room for": {
			many(1300, func(i int) string { return configMap(fmt.Sprintf("m%d-%s", i, strings.Repeat("n", 240)), "x") }),
			[]string{"spec.template.components", "1300 objects", "524288"},
		},
		"too many objects": {
			many(2001, func(i int) string { return configMap(fmt.Sprintf("m%d", i), "x") }),
			[]string{"spec.template.components", "2000"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Freeze(specOf(t, c.documents...))
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range c.parts {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%.400q does not say %q", err, part)
				}
			}
		})
	}
}

// The largest records that Freeze lets pass, one content replacing another, must
// stay below what etcd takes (1.5 MiB), with room for the rest of the status.
func TestRecordOfTheLargestContentFitsTheHub(t *testing.T) {
	var status v1alpha1.RolloutDeliveryStatus
	status.Rendered = &v1alpha1.Rendered{}
	var all totals
	for i := 0; all.record < MaxRecordBytes; i++ {
		reference := v1alpha1.ObjectReference{Version: "v1", Kind: "ConfigMap", Namespace: strings.Repeat("n", 63), Name: fmt.Sprintf("%s%d", strings.Repeat("m", 240), i)}
		all.add(manifest{reference: reference})
		status.Rendered.Objects = append(status.Rendered.Objects, v1alpha1.RenderedObject{ObjectReference: reference, Hash: v1alpha1.HashOf(nil), Part: 9})
		status.Dropping = append(status.Dropping, reference)
		if len(status.Kept) < 500 {
			status.Kept = append(status.Kept, reference)
		}
	}
	raw, err := json.Marshal(v1alpha1.RolloutDelivery{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Status: status})
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > 5<<18 {
		t.Errorf("a RolloutDelivery of %d objects has %d bytes", len(status.Rendered.Objects), len(raw))
	}
}

func TestDeliveryOptionsThatWouldDoNothingOrHarmAreRefused(t *testing.T) {
	ignoring := func(target v1alpha1.ObjectTarget, paths ...string) v1alpha1.DeliveryOptions {
		return v1alpha1.DeliveryOptions{IgnoreFields: []v1alpha1.IgnoredFields{{Target: target, JSONPaths: paths}}}
	}
	api := v1alpha1.ObjectTarget{Kind: "Deployment", Name: "api"}
	account := func(namespace, name string) v1alpha1.DeliveryOptions {
		return v1alpha1.DeliveryOptions{Executor: &v1alpha1.Executor{ServiceAccount: v1alpha1.ExecutorServiceAccount{Namespace: namespace, Name: name}}}
	}
	const target, path = "spec.delivery.ignoreFields[0].target", "spec.delivery.ignoreFields[0].jsonPaths[0]"
	cases := map[string]struct {
		options v1alpha1.DeliveryOptions
		want    []string
	}{
		"fields of an object":             {ignoring(api, ".spec.replicas", ".spec.template.spec.containers[?(@.name=='api')].image", ".data.color"), nil},
		"a target without object":         {ignoring(v1alpha1.ObjectTarget{Kind: "Deployment", Name: "web"}, ".spec.replicas"), []string{target}},
		"a definition, which is updated":  {ignoring(v1alpha1.ObjectTarget{Group: "apiextensions.k8s.io"}, ".spec.scope"), []string{target}},
		"the name":                        {ignoring(api, ".metadata.name"), []string{path}},
		"the annotations, and our stamp":  {ignoring(api, ".metadata.annotations"), []string{path}},
		"a whole list entry":              {ignoring(api, ".spec.template.spec.containers[0]"), []string{path}},
		"a key with dots":                 {ignoring(api, ".metadata.annotations['a.b/c']"), []string{path}},
		"a filter that does not parse":    {ignoring(api, ".spec.template.spec.containers[?(@.name==].image"), []string{path}},
		"everything":                      {ignoring(api, "."), []string{path}},
		"an executor":                     {account("shop", "deployer"), nil},
		"an executor that cannot be":      {account("Shop", "De ployer"), []string{"spec.delivery.executor.serviceAccount.namespace", "spec.delivery.executor.serviceAccount.name"}},
		"adoption of what is not in here": {v1alpha1.DeliveryOptions{Adopt: []v1alpha1.ObjectTarget{{Kind: "Ingress"}}}, nil},
	}
	crdDocument := "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: data.example.com}, spec: {group: example.com, names: {kind: Datum, plural: data}, scope: Namespaced, versions: []}}"
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			spec := specOf(t, deploymentYAML, crdDocument)
			spec.Delivery = c.options
			if diff := cmp.Diff(c.want, fields(t, spec)); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

// Law 19: what a revision was frozen as before there were these options must be
// recognised as the same content.
func TestDeliveryOptionsArePartOfTheDigestAndOldDigestsStay(t *testing.T) {
	plain := specOf(t, deploymentYAML, configMapYAML)
	const digestBefore = "sha256:5a24f487a96fa0405e2ba7c8cb419859287756ffab102df1fea7ccd5049a98ab"
	if got := freeze(t, plain).Digest; got != digestBefore {
		t.Errorf("the digest of content without options has become %s", got)
	}
	seen := map[string]string{digestBefore: "nothing"}
	for name, options := range map[string]v1alpha1.DeliveryOptions{
		"executor":     {Executor: &v1alpha1.Executor{ServiceAccount: v1alpha1.ExecutorServiceAccount{Namespace: "shop", Name: "deployer"}}},
		"ignoreFields": {IgnoreFields: []v1alpha1.IgnoredFields{{Target: v1alpha1.ObjectTarget{Kind: "Deployment"}, JSONPaths: []string{".spec.replicas"}}}},
		"adopt":        {Adopt: []v1alpha1.ObjectTarget{{Kind: "Deployment"}}},
	} {
		spec := *plain.DeepCopy()
		spec.Delivery = options
		digest := freeze(t, spec).Digest
		if other, ok := seen[digest]; ok {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[digest] = name
	}
}
