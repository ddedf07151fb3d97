package observe

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/revision"
)

const canary = "c4n4ry"

// sourced is a rollout whose content comes from a ConfigMap and a Secret.
func sourced() *v1alpha1.FleetRollout {
	fro := newRollout("1.0.0", "inline")
	fro.Spec.Template.Components[0].ManifestsFrom = []v1alpha1.ManifestSource{
		{ConfigMap: &v1alpha1.SourceReference{Name: "base", Key: "app.yaml"}},
		{Secret: &v1alpha1.SourceReference{Name: "creds"}},
	}
	return fro
}

func baseSource(content string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "base"}, Data: map[string]string{
		"app.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: more, namespace: shop}, data: {key: v" + content + "}}"}}
}

func credsSource(password string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "creds"}, Data: map[string][]byte{
		"creds.yaml": []byte("{apiVersion: v1, kind: Secret, metadata: {name: creds, namespace: shop}, stringData: {password: " + password + "}}")}}
}

func (h *hub) update(object client.Object) {
	h.t.Helper()
	if err := h.client.Update(context.Background(), object); err != nil {
		h.t.Fatal(err)
	}
}

func TestAMissingSourceIsNamedAndFoundOnceItExists(t *testing.T) { // case K2
	h := newHub(t, placementOf()...)
	h.create(baseSource("1"))
	fro := sourced()
	for range 2 {
		snapshot := h.observe(fro).Snapshot
		if snapshot.Current != nil || snapshot.InvalidSpec == nil || snapshot.InvalidSpec.Reason != v1alpha1.ReasonSourceMissing ||
			!strings.Contains(snapshot.InvalidSpec.Message, "Secret creds") {
			t.Fatalf("current %v, cause %+v", snapshot.Current, snapshot.InvalidSpec)
		}
	}
	h.create(credsSource(canary))
	observation := h.observe(fro)
	if current := observation.Snapshot.Current; current == nil || len(observation.Revisions[current.Name].Spec.Inventory) != 3 {
		t.Errorf("current %+v, cause %+v", current, observation.Snapshot.InvalidSpec)
	}
}

func TestAChangedSourceIsANewRevisionAndAnUnchangedOneIsNotReadAgain(t *testing.T) { // law 19
	h := newHub(t, placementOf()...)
	base, creds := baseSource("1"), credsSource(canary)
	h.create(base, creds)
	reads := 0
	h.observer.Live = interceptor.NewClient(h.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if key.Name == "base" || key.Name == "creds" {
				reads++
			}
			return c.Get(ctx, key, object, opts...)
		},
	})
	fro := sourced()
	numbers := []int64{}
	look := func() {
		t.Helper()
		current := h.observe(fro).Snapshot.Current
		if current == nil {
			t.Fatal("no current revision")
		}
		numbers = append(numbers, current.Number)
	}
	look()
	look()
	if reads != 2 {
		t.Errorf("%d reads of two sources that stay the same", reads)
	}
	base.Data["app.yaml"] = strings.Replace(base.Data["app.yaml"], "key: v1", "key: v2", 1)
	h.update(base)
	look()
	creds.Data = credsSource("other").Data
	h.update(creds)
	look()
	creds.Data = credsSource(canary).Data
	creds.Labels = map[string]string{"touched": "true"}
	h.update(creds)
	look()
	if want := []int64{1, 1, 2, 3, 2}; !slices.Equal(numbers, want) {
		t.Errorf("revisions %v, want %v", numbers, want)
	}
}

func TestASourceThatCannotBeReadStopsNothingElse(t *testing.T) { // law 4
	h := newHub(t, placementOf()...)
	h.create(baseSource("1"), credsSource(canary))
	fro := sourced()
	stable := h.observe(fro).Snapshot.Current
	h.observer.Sources = interceptor.NewClient(h.client, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("the hub is away")
		},
	})
	observation := h.observe(fro)
	if cause := observation.Snapshot.InvalidSpec; cause == nil || cause.Reason != v1alpha1.ReasonSourceMissing || !observation.FreezeRefused {
		t.Errorf("cause %+v, tried again: %t", cause, observation.FreezeRefused)
	}
	if len(observation.Snapshot.Revisions) != 1 || observation.Snapshot.Revisions[0].Digest != stable.Digest {
		t.Errorf("revisions %+v", observation.Snapshot.Revisions)
	}
}

func TestARestartFindsTheSameHashKey(t *testing.T) {
	h := newHub(t, placementOf()...)
	h.create(baseSource("1"), credsSource(canary))
	fro := sourced()
	first := h.observe(fro).Snapshot.Current
	h.forgetAll()
	h.creations = nil
	if again := h.observe(fro).Snapshot.Current; again == nil || again.Digest != first.Digest || len(h.creations) > 0 {
		t.Errorf("after a restart: %+v, created %q, %+v", again, h.creations, h.observe(fro).Snapshot.InvalidSpec)
	}
	key := h.secret(revision.HashKeyName(fro.Name))
	if !metav1.IsControlledBy(key, fro) || len(key.Data[revision.HashKeyKey]) != hashKeyBytes {
		t.Errorf("hash key %+v", key)
	}

	// Somebody else's Secret of that name is not taken.
	key.OwnerReferences = nil
	h.update(key)
	h.forgetAll()
	if observation := h.observe(fro); observation.Snapshot.InvalidSpec == nil || !strings.Contains(observation.Snapshot.InvalidSpec.Message, "is not the hash key") {
		t.Errorf("cause %+v", observation.Snapshot.InvalidSpec)
	}
}

func TestNothingButSecretsHoldsWhatASecretHeld(t *testing.T) {
	h := newHub(t, placementOf()...)
	h.create(baseSource("1"), credsSource(canary))
	fro := sourced()
	observation := h.observe(fro)
	encoded := base64.StdEncoding.EncodeToString([]byte(canary))
	seen := map[string]any{"snapshot": observation.Snapshot, "revisions": observation.Revisions}
	for name, value := range seen {
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), canary) || strings.Contains(string(raw), encoded) {
			t.Errorf("the %s shows it: %s", name, raw)
		}
	}
	inventory := observation.Revisions[observation.Snapshot.Current.Name].Spec.Inventory
	guess, err := v1alpha1.ContentHash(map[string]any{"apiVersion": "v1", "kind": "Secret",
		"metadata": map[string]any{"name": "creds", "namespace": "shop"}, "data": map[string]any{"password": encoded}})
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(inventory, func(entry v1alpha1.InventoryEntry) bool { return entry.Hash == guess }) {
		t.Error("the inventory confirms a guessed password")
	}
}
