package revision

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

const (
	// SecretType is the type of the Secret that holds a payload.
	SecretType corev1.SecretType = v1alpha1.GroupName + "/payload"
	// PayloadKey is the key of the payload in the Secret's data.
	PayloadKey = "payload"

	// HashKeyType is the type of the Secret that holds a rollout's hash key.
	HashKeyType corev1.SecretType = v1alpha1.GroupName + "/hash-key"
	// HashKeyKey is the key of the hash key in the Secret's data.
	HashKeyKey = "key"
)

// Name is the name of a revision and of its payload Secret: the rollout's, a
// dash, and ten hex digits of the digest. Where that exceeds 63 characters the
// rollout's name is cut, and six digits of its hash keep it apart from others
// that begin alike.
func Name(rollout, digest string) string {
	const digestLength = 10
	suffix := strings.TrimPrefix(digest, "sha256:")
	if len(suffix) > digestLength {
		suffix = suffix[:digestLength]
	}
	return bounded(rollout, "-"+suffix)
}

// HashKeyName is the name of the Secret with a rollout's hash key, made as that
// of a revision.
func HashKeyName(rollout string) string { return bounded(rollout, "-hash-key") }

func bounded(rollout, suffix string) string {
	const maxLength = 63
	if len(rollout)+len(suffix) > maxLength {
		sum := sha256.Sum256([]byte(rollout))
		suffix = "-" + hex.EncodeToString(sum[:3]) + suffix
		rollout = strings.TrimRight(rollout[:maxLength-len(suffix)], "-.")
	}
	return rollout + suffix
}

// New builds the record of a revision and the Secret with its payload. Both
// belong to the FleetRollout and go with it. Create the Secret first: a record
// without payload is of no use.
func New(rollout *v1alpha1.FleetRollout, number int64, frozen Frozen) (*v1alpha1.RolloutRevision, *corev1.Secret, error) {
	data, err := EncodePayload(frozen.Payload)
	if err != nil {
		return nil, nil, err
	}
	meta := ownedBy(rollout, Name(rollout.Name, frozen.Digest))
	record := &v1alpha1.RolloutRevision{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "RolloutRevision"},
		ObjectMeta: *meta.DeepCopy(),
		Spec: v1alpha1.RolloutRevisionSpec{
			Rollout:   rollout.Name,
			Number:    number,
			Version:   frozen.Payload.Version,
			Digest:    frozen.Digest,
			Inventory: frozen.Inventory,
		},
	}
	return record, newSecret(meta, SecretType, map[string][]byte{PayloadKey: data}), nil
}

// NewHashKey builds the Secret with a rollout's hash key. It goes with the
// FleetRollout.
func NewHashKey(rollout *v1alpha1.FleetRollout, key []byte) *corev1.Secret {
	return newSecret(ownedBy(rollout, HashKeyName(rollout.Name)), HashKeyType, map[string][]byte{HashKeyKey: key})
}

func ownedBy(rollout *v1alpha1.FleetRollout, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: rollout.Namespace,
		Name:      name,
		Labels: map[string]string{
			v1alpha1.LabelRolloutNamespace: rollout.Namespace,
			v1alpha1.LabelRolloutName:      rollout.Name,
			v1alpha1.LabelRolloutUID:       string(rollout.UID),
		},
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(rollout, v1alpha1.GroupVersion.WithKind("FleetRollout")),
		},
	}
}

func newSecret(meta metav1.ObjectMeta, secretType corev1.SecretType, data map[string][]byte) *corev1.Secret {
	immutable := true
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta,
		Immutable:  &immutable,
		Type:       secretType,
		Data:       data,
	}
}

// Load reads the payload of a revision from its Secret. It returns an error if
// the Secret lacks it, or holds another content than the record's digest says.
func Load(record *v1alpha1.RolloutRevision, secret *corev1.Secret) (v1alpha1.RevisionPayload, error) {
	return DecodePayload(secret.Data[PayloadKey], record.Spec.Digest)
}

// Reference names a revision.
func Reference(record *v1alpha1.RolloutRevision) v1alpha1.RevisionReference {
	return v1alpha1.RevisionReference{
		Name:    record.Name,
		Number:  record.Spec.Number,
		Version: record.Spec.Version,
		Digest:  record.Spec.Digest,
	}
}
