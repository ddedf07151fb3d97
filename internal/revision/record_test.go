package revision

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func TestPayloadSurvivesItsSecretByteForByte(t *testing.T) {
	frozen := freeze(t, specOf(t, deploymentYAML, "{apiVersion: v1, kind: ConfigMap, metadata: {name: html, namespace: shop}, data: {page: '<b>&amp;</b>'}}"))
	first, err := EncodePayload(frozen.Payload)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := DecodePayload(first, frozen.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(frozen.Payload, decoded); diff != "" {
		t.Errorf("payload (-frozen +decoded):\n%s", diff)
	}
	second, err := EncodePayload(decoded)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Errorf("the same payload was encoded to other bytes")
	}
}

func compressed(t *testing.T, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	if _, err := writer.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestDamagedPayloadIsRefused(t *testing.T) {
	frozen := freeze(t, specOf(t, deploymentYAML))
	good, err := EncodePayload(frozen.Payload)
	if err != nil {
		t.Fatal(err)
	}
	other, err := EncodePayload(freeze(t, specOf(t, configMapYAML)).Payload)
	if err != nil {
		t.Fatal(err)
	}
	notJSON := []byte("no JSON")
	cases := map[string]struct {
		data         []byte
		digest, says string
	}{
		"missing":            {nil, frozen.Digest, "decompress"},
		"cut off":            {good[:len(good)/2], frozen.Digest, "decompress"},
		"of another digest":  {other, frozen.Digest, "restore the Secret"},
		"not a payload":      {compressed(t, notJSON), v1alpha1.HashOf(notJSON), "decode"},
		"larger than memory": {compressed(t, make([]byte, MaxPayloadBytes+1)), frozen.Digest, "exceeds 8388608 bytes"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := DecodePayload(c.data, c.digest)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that says %q", err, c.says)
			}
		})
	}
}

func TestRecordAndSecretBelongToTheRollout(t *testing.T) {
	rollout := &v1alpha1.FleetRollout{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "payments", UID: "uid-1"}}
	frozen := freeze(t, specOf(t, deploymentYAML))
	record, secret, err := New(rollout, 4, frozen)
	if err != nil {
		t.Fatal(err)
	}
	if record.Name != secret.Name || record.Namespace != "platform" || secret.Namespace != "platform" {
		t.Errorf("record %s/%s, Secret %s/%s", record.Namespace, record.Name, secret.Namespace, secret.Name)
	}
	if record.Name != "payments-"+strings.TrimPrefix(frozen.Digest, "sha256:")[:10] {
		t.Errorf("name %s", record.Name)
	}
	for _, owner := range [][]metav1.OwnerReference{record.OwnerReferences, secret.OwnerReferences} {
		if len(owner) != 1 || owner[0].UID != "uid-1" || owner[0].Kind != "FleetRollout" || owner[0].Controller == nil || !*owner[0].Controller {
			t.Errorf("owner %+v", owner)
		}
	}
	want := map[string]string{v1alpha1.LabelRolloutNamespace: "platform", v1alpha1.LabelRolloutName: "payments", v1alpha1.LabelRolloutUID: "uid-1"}
	if diff := cmp.Diff(want, record.Labels); diff != "" {
		t.Errorf("labels of the record (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, secret.Labels); diff != "" {
		t.Errorf("labels of the Secret (-want +got):\n%s", diff)
	}
	if secret.Immutable == nil || !*secret.Immutable || secret.Type != corev1.SecretType("rollout.open-cluster-management.io/payload") {
		t.Errorf("Secret immutable %v, type %s", secret.Immutable, secret.Type)
	}
	payload, err := Load(record, secret)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(frozen.Payload, payload); diff != "" {
		t.Errorf("payload (-frozen +loaded):\n%s", diff)
	}
	if diff := cmp.Diff(v1alpha1.RevisionReference{Name: record.Name, Number: 4, Version: "1.0.0", Digest: frozen.Digest}, Reference(record)); diff != "" {
		t.Errorf("reference (-want +got):\n%s", diff)
	}
}

func TestNamesOfRevisionsAreBoundedAndApart(t *testing.T) {
	const digest = "sha256:0123456789abcdef"
	long := strings.Repeat("a", 62)
	first, second := Name(long+"x", digest), Name(long+"y", digest)
	if len(first) > 63 || len(second) > 63 {
		t.Errorf("names of %d and %d characters", len(first), len(second))
	}
	if first == second {
		t.Errorf("two rollouts share the revision name %s", first)
	}
	if !strings.HasSuffix(first, "-0123456789") {
		t.Errorf("name %s does not end in the digest", first)
	}
}

func history(count int) []v1alpha1.RolloutRevision {
	var revisions []v1alpha1.RolloutRevision
	for i := count; i >= 1; i-- {
		name := "r" + string(rune('0'+i))
		revisions = append(revisions, v1alpha1.RolloutRevision{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.RolloutRevisionSpec{Number: int64(i), Digest: "sha256:" + name},
		})
	}
	return revisions
}

func TestTrimDeletesTheOldestSpareRevisions(t *testing.T) {
	going := history(5)
	now := metav1.Now()
	going[4].DeletionTimestamp = &now
	cases := map[string]struct {
		revisions []v1alpha1.RolloutRevision
		keep      sets.Set[string]
		limit     int
		want      []string
	}{
		"fewer than the limit":         {history(3), nil, 3, nil},
		"the oldest go":                {history(5), nil, 3, []string{"r1", "r2"}},
		"those in use stay, uncounted": {history(5), sets.New("r1", "r5"), 2, []string{"r2"}},
		"one being deleted is no more": {going, nil, 4, nil},
		"limit of nothing":             {history(2), sets.New("r2"), 0, []string{"r1"}},
		"nothing":                      {nil, nil, 0, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Trim(c.revisions, c.keep, c.limit)); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNumbersCountUpAndRevisionsAreFoundByContent(t *testing.T) {
	if got := NextNumber(nil); got != 1 {
		t.Errorf("first number %d, want 1", got)
	}
	revisions := history(3)
	if got := NextNumber(revisions); got != 4 {
		t.Errorf("next number %d, want 4", got)
	}
	if got := FindByDigest(revisions, "sha256:r2"); got == nil || got.Name != "r2" {
		t.Errorf("found %v, want r2", got)
	}
	if got := FindByDigest(revisions, "sha256:r9"); got != nil {
		t.Errorf("found %v, want nothing", got)
	}
}
