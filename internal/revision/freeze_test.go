package revision

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// D5, the hub's half: a template pasted from a live object freezes to the same
// content as the one its author once wrote.
func TestPastedLiveObjectsFreezeToTheirAuthorsIntent(t *testing.T) {
	cases := map[string]struct{ pasted, intent string }{
		"Deployment": {`
apiVersion: apps/v1
kind: Deployment
metadata:
  name: api
  namespace: shop
  uid: 0e1c
  resourceVersion: "4711"
  generation: 7
  creationTimestamp: "2026-01-01T00:00:00Z"
  deletionTimestamp: "2026-01-02T00:00:00Z"
  deletionGracePeriodSeconds: 30
  selfLink: /apis/apps/v1/namespaces/shop/deployments/api
  managedFields: [{manager: kubectl, operation: Update}]
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: gone, uid: 77}]
  finalizers: [foregroundDeletion, example.com/mine]
  annotations:
    deployment.kubernetes.io/revision: "3"
    kubectl.kubernetes.io/last-applied-configuration: "{}"
    rollout.open-cluster-management.io/content-hash: "sha256:old"
    team: shop
spec:
  replicas: 3
  selector: {matchLabels: {app: api}}
  template:
    metadata: {creationTimestamp: null, labels: {app: api}}
    spec: {containers: [{name: api, image: "registry/api:1"}]}
status: {readyReplicas: 3}
`, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: shop, finalizers: [example.com/mine], annotations: {team: shop}}
spec:
  replicas: 3
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec: {containers: [{name: api, image: "registry/api:1"}]}
`},
		"Job": {`
apiVersion: batch/v1
kind: Job
metadata:
  name: migrate
  namespace: shop
  labels: {batch.kubernetes.io/controller-uid: 0e1c, controller-uid: 0e1c, job-name: migrate, batch.kubernetes.io/job-name: migrate}
spec:
  selector: {matchLabels: {batch.kubernetes.io/controller-uid: 0e1c}}
  template:
    metadata: {labels: {app: migrate, controller-uid: 0e1c, job-name: migrate}}
    spec: {restartPolicy: Never, containers: [{name: migrate, image: "registry/migrate:1"}]}
`, `
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, namespace: shop}
spec:
  template:
    metadata: {labels: {app: migrate}}
    spec: {restartPolicy: Never, containers: [{name: migrate, image: "registry/migrate:1"}]}
`},
		"PersistentVolumeClaim": {`
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
  namespace: shop
  finalizers: [kubernetes.io/pvc-protection]
  annotations: {pv.kubernetes.io/bind-completed: "yes", pv.kubernetes.io/bound-by-controller: "yes"}
spec: {volumeName: pvc-0e1c, accessModes: [ReadWriteOnce]}
status: {phase: Bound}
`, "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: shop}, spec: {accessModes: [ReadWriteOnce]}}"},
		"PersistentVolumeClaim whose author chose the volume": {
			"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: shop, annotations: {pv.kubernetes.io/bind-completed: \"yes\"}}, spec: {volumeName: disk}}",
			"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: shop}, spec: {volumeName: disk}}",
		},
		"Service": {
			"{apiVersion: v1, kind: Service, metadata: {name: api, namespace: shop, uid: 0e1c}, spec: {clusterIP: 10.96.0.9, clusterIPs: [10.96.0.9], ports: [{port: 80}]}, status: {loadBalancer: {}}}",
			"{apiVersion: v1, kind: Service, metadata: {name: api, namespace: shop}, spec: {ports: [{port: 80}]}}",
		},
		"Service that is headless": {
			"{apiVersion: v1, kind: Service, metadata: {name: api, namespace: shop, uid: 0e1c}, spec: {clusterIP: None, clusterIPs: [None]}}",
			"{apiVersion: v1, kind: Service, metadata: {name: api, namespace: shop}, spec: {clusterIP: None, clusterIPs: [None]}}",
		},
		"PersistentVolume": {
			"{apiVersion: v1, kind: PersistentVolume, metadata: {name: disk, finalizers: [kubernetes.io/pv-protection]}, spec: {claimRef: {namespace: shop, name: data, uid: 0e1c, resourceVersion: \"7\"}}}",
			"{apiVersion: v1, kind: PersistentVolume, metadata: {name: disk}, spec: {claimRef: {namespace: shop, name: data}}}",
		},
		"Namespace": {
			"{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {kubernetes.io/metadata.name: shop}}, spec: {finalizers: [kubernetes]}, status: {phase: Active}}",
			"{apiVersion: v1, kind: Namespace, metadata: {name: shop}, spec: {}}",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pasted, intent := freeze(t, specOf(t, c.pasted)), freeze(t, specOf(t, c.intent))
			got, want := pasted.Payload.Template.Components[0].Manifests[0].Raw, intent.Payload.Template.Components[0].Manifests[0].Raw
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("content (-intent +pasted):\n%s", diff)
			}
			if pasted.Digest != intent.Digest {
				t.Errorf("digests differ")
			}
		})
	}
}

func TestJobThatSelectsItsPodsByHandKeepsItsSelector(t *testing.T) {
	frozen := freeze(t, specOf(t, `
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, namespace: shop}
spec: {manualSelector: true, selector: {matchLabels: {job-name: mine}}, template: {metadata: {labels: {job-name: mine}}, spec: {restartPolicy: Never, containers: []}}}
`))
	if raw := string(frozen.Payload.Template.Components[0].Manifests[0].Raw); strings.Count(raw, `"job-name":"mine"`) != 2 {
		t.Errorf("the selector or its label is gone: %s", raw)
	}
}

func TestDigestDoesNotDependOnHowContentIsWritten(t *testing.T) {
	want := freeze(t, specOf(t, deploymentYAML, configMapYAML)).Digest
	cases := map[string]func(*v1alpha1.FleetRolloutSpec){
		"manifests in another order": func(s *v1alpha1.FleetRolloutSpec) {
			s.Template.Components[0].Manifests = manifests(t, configMapYAML, deploymentYAML)
		},
		"defaults written out": func(s *v1alpha1.FleetRolloutSpec) {
			s.Delivery = v1alpha1.DeliveryOptions{Conflicts: v1alpha1.ConflictForce, OnDelete: v1alpha1.DeletePolicyDelete}
		},
		"white space and keys in another order": func(s *v1alpha1.FleetRolloutSpec) {
			s.Template.Components[0].Manifests[1].Raw = []byte(`{ "metadata": {"namespace":"shop", "name":"settings"}, "data": {"greeting": "hello"},
				"kind": "ConfigMap", "apiVersion": "v1" }`)
		},
		"a whole number with a fraction of nothing": func(s *v1alpha1.FleetRolloutSpec) {
			s.Template.Components[0].Manifests[0].Raw = []byte(strings.Replace(string(s.Template.Components[0].Manifests[0].Raw), `"replicas":3`, `"replicas":3.0`, 1))
		},
		"another strategy": func(s *v1alpha1.FleetRolloutSpec) { s.Strategy.Groups[0].Name = "everybody" },
		"paused":           func(s *v1alpha1.FleetRolloutSpec) { s.Paused = true },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			spec := specOf(t, deploymentYAML, configMapYAML)
			change(&spec)
			if got := freeze(t, spec).Digest; got != want {
				t.Errorf("digest %s, want %s", got, want)
			}
		})
	}
}

func TestDigestCoversVersionTemplateAndDelivery(t *testing.T) {
	seen := map[string]string{freeze(t, specOf(t, deploymentYAML)).Digest: "the first"}
	for name, change := range map[string]func(*v1alpha1.FleetRolloutSpec){
		"version": func(s *v1alpha1.FleetRolloutSpec) { s.Version = "1.0.1" },
		"image": func(s *v1alpha1.FleetRolloutSpec) {
			s.Template.Components[0].Manifests = manifests(t, strings.Replace(deploymentYAML, "api:1", "api:2", 1))
		},
		"component": func(s *v1alpha1.FleetRolloutSpec) { s.Template.Components[0].Name = "other" },
		"conflicts": func(s *v1alpha1.FleetRolloutSpec) { s.Delivery.Conflicts = v1alpha1.ConflictFail },
		"onDelete":  func(s *v1alpha1.FleetRolloutSpec) { s.Delivery.OnDelete = v1alpha1.DeletePolicyOrphan },
	} {
		spec := specOf(t, deploymentYAML)
		change(&spec)
		digest := freeze(t, spec).Digest
		if other, ok := seen[digest]; ok {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[digest] = name
	}
}

func TestDigestIsStableUnderShuffledKeys(t *testing.T) {
	var plain map[string]any
	if err := yaml.Unmarshal([]byte(deploymentYAML), &plain); err != nil {
		t.Fatal(err)
	}
	want := freeze(t, specOf(t, deploymentYAML)).Digest
	for seed := range int64(100) {
		spec := specOf(t)
		spec.Template.Components[0].Manifests = []runtime.RawExtension{{Raw: shuffledJSON(rand.New(rand.NewSource(seed)), plain)}}
		if got := freeze(t, spec).Digest; got != want {
			t.Fatalf("seed %d: digest %s, want %s", seed, got, want)
		}
	}
}

// shuffledJSON writes a value with its keys in random order.
func shuffledJSON(random *rand.Rand, value any) []byte {
	switch typed := value.(type) {
	case map[string]any:
		var parts []string
		for key, inner := range typed {
			parts = append(parts, fmt.Sprintf("%q: %s", key, shuffledJSON(random, inner)))
		}
		random.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		return []byte("{" + strings.Join(parts, ", ") + "}")
	case []any:
		var parts []string
		for _, inner := range typed {
			parts = append(parts, string(shuffledJSON(random, inner)))
		}
		return []byte("[" + strings.Join(parts, ", ") + "]")
	case string:
		return []byte(fmt.Sprintf("%q", typed))
	default:
		return []byte(fmt.Sprint(typed))
	}
}

func TestInventoryListsEveryObjectWithItsComponentAndHash(t *testing.T) {
	spec := specOf(t, deploymentYAML)
	spec.Template.Components = append(spec.Template.Components, v1alpha1.Component{Name: "config", Manifests: manifests(t, configMapYAML)})
	frozen := freeze(t, spec)
	if len(frozen.Inventory) != 2 {
		t.Fatalf("inventory %v", frozen.Inventory)
	}
	for i, entry := range frozen.Inventory {
		component := frozen.Payload.Template.Components[i]
		if entry.Component != component.Name || entry.Hash != v1alpha1.HashOf(component.Manifests[0].Raw) {
			t.Errorf("entry %v does not match component %s", entry, component.Name)
		}
	}
	want := v1alpha1.ObjectReference{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "api"}
	if diff := cmp.Diff(want, frozen.Inventory[1].ObjectReference); diff != "" {
		t.Errorf("reference (-want +got):\n%s", diff)
	}
}

func TestFreezeLeavesTheSpecAsItWas(t *testing.T) {
	spec := specOf(t, strings.Replace(deploymentYAML, "namespace: shop", "namespace: shop, uid: x", 1), configMapYAML)
	before := spec.DeepCopy()
	freeze(t, spec)
	if diff := cmp.Diff(before, &spec); diff != "" {
		t.Errorf("spec (-before +after):\n%s", diff)
	}
}

// FuzzFreeze feeds manifests that nobody wrote on purpose: whatever they are,
// Freeze must not panic, what it freezes must freeze to itself, and the payload
// must survive its Secret.
func FuzzFreeze(f *testing.F) {
	for _, seed := range []string{deploymentYAML, configMapYAML, "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: n}}"} {
		raw, err := yaml.YAMLToJSON([]byte(seed))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"apiVersion":"v1","kind":"X","metadata":{"name":"x","labels":{"a":1},"finalizers":7,"annotations":null}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		spec := specOf(t)
		spec.Template.Components[0].Manifests = []runtime.RawExtension{{Raw: raw}}
		frozen, err := Freeze(spec)
		if err != nil {
			return
		}
		spec.Template = frozen.Payload.Template
		again, err := Freeze(spec)
		if err != nil || again.Digest != frozen.Digest {
			t.Fatalf("frozen content does not freeze to itself: %v", err)
		}
		data, err := EncodePayload(frozen.Payload)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := DecodePayload(data, frozen.Digest)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(frozen.Payload, decoded); diff != "" {
			t.Errorf("payload (-frozen +decoded):\n%s", diff)
		}
	})
}

func TestAPayloadThawsToWhatItWasFrozenFrom(t *testing.T) {
	frozen := freeze(t, specOf(t,
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: shop}\ndata: {a: \"1\"}"))
	data, err := EncodePayload(frozen.Payload)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := DecodePayload(data, frozen.Digest)
	if err != nil {
		t.Fatal(err)
	}
	thawed, err := Thaw(payload, frozen.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(frozen.Inventory, thawed.Inventory); diff != "" || thawed.Digest != frozen.Digest {
		t.Errorf("inventory (-frozen +thawed):\n%s", diff)
	}
}
