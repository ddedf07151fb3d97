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
)

// Name is the name of a revision and of its payload Secret: the rollout's, a
// dash, and ten hex digits of the digest. Where that exceeds 63 characters the
// rollout's name is cut, and six digits of its hash keep it apart from others
// that begin alike.
func Name(rollout, digest string) string {
	const maxLength, digestLength = 63, 10
	suffix := strings.TrimPrefix(digest, "sha256:")
	if len(suffix) > digestLength {
		suffix = suffix[:digestLength]
	}
	suffix = "-" + suffix
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
	meta := metav1.ObjectMeta{
		Namespace: rollout.Namespace,
		Name:      Name(rollout.Name, frozen.Digest),
		Labels: map[string]string{
			v1alpha1.LabelRolloutNamespace: rollout.Namespace,
			v1alpha1.LabelRolloutName:      rollout.Name,
			v1alpha1.LabelRolloutUID:       string(rollout.UID),
		},
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(rollout, v1alpha1.GroupVersion.WithKind("FleetRollout")),
		},
	}
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
	immutable := true
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta,
		Immutable:  &immutable,
		Type:       SecretType,
		Data:       map[string][]byte{PayloadKey: data},
	}
	return record, secret, nil
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
