package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Labels and annotations of Fleet Rollout.
const (
	// LabelRolloutNamespace and LabelRolloutName are on every RolloutDelivery,
	// ManifestWork, RolloutRevision and payload Secret of a rollout.
	LabelRolloutNamespace = GroupName + "/rollout-namespace"
	// LabelRolloutName is the name of the FleetRollout.
	LabelRolloutName = GroupName + "/rollout-name"
	// LabelRolloutUID is the UID of the FleetRollout. An object in a cluster
	// namespace is ours only if it carries the right one.
	LabelRolloutUID = GroupName + "/rollout-uid"
	// AnnotationContentHash is on every delivered object: the hash of its
	// content as delivered. It is how the agent tells old content from new.
	AnnotationContentHash = GroupName + "/content-hash"
	// AnnotationDelivery is on every ManifestWork: the delivery number that
	// wrote it.
	AnnotationDelivery = GroupName + "/delivery"
	// AnnotationPhase is on every ManifestWork: the write phase, Add or Drop.
	AnnotationPhase = GroupName + "/phase"
	// AnnotationWorkHash is on every ManifestWork: the hash of the spec that
	// was written, by which an unchanged work is recognised.
	AnnotationWorkHash = GroupName + "/work-hash"
	// AnnotationPlaceholder is in ManifestWorks alone, on manifests that stand for
	// objects which the work still lists and no longer applies.
	AnnotationPlaceholder = GroupName + "/placeholder"
	// Finalizer is on FleetRollouts, and on no object in a cluster namespace.
	Finalizer = GroupName + "/cleanup"
	// FieldManager is the manager of server-side apply on the managed clusters,
	// for ever: fields written by another manager would stay behind on rollback.
	FieldManager = "work-agent-fleet-rollout"
)

const (
	maxNameLength = 63
	hashLength    = 10
)

// DeliveryName is the name of the RolloutDelivery of a rollout in the
// namespace of any cluster: deterministic, and at most 63 characters.
func DeliveryName(namespace, name string) string {
	return BoundedName(maxNameLength, namespace, name)
}

// WorkName is the name of the ManifestWork that carries the given part of a
// rollout's content: deterministic, and at most 63 characters.
func WorkName(namespace, name string, part int32) string {
	suffix := fmt.Sprintf("-%02d", part)
	return BoundedName(maxNameLength-len(suffix), namespace, name) + suffix
}

// ConditionType is the type of the agent's condition on its
// ManagedClusterAddOn for a rollout: GroupName, a slash, and at most 63
// characters.
func ConditionType(namespace, name string) string {
	const max = 63
	if plain := namespace + "." + name; len(plain) <= max {
		return GroupName + "/" + plain
	}
	return GroupName + "/" + BoundedName(max, namespace, name)
}

// BoundedName joins namespace and name into a DNS label of at most max
// characters. A hash keeps different pairs apart even where the readable part
// is cut or ambiguous.
func BoundedName(max int, namespace, name string) string {
	sum := sha256.Sum256([]byte(namespace + "/" + name))
	hash := hex.EncodeToString(sum[:])[:hashLength]
	readable := dnsLabel(namespace + "-" + name)
	if room := max - hashLength - 1; len(readable) > room {
		readable = readable[:room]
	}
	for len(readable) > 0 && readable[len(readable)-1] == '-' {
		readable = readable[:len(readable)-1]
	}
	return readable + "-" + hash
}

// dnsLabel replaces the dots that names of subdomains may hold.
func dnsLabel(s string) string {
	out := []byte(s)
	for i, c := range out {
		if c == '.' {
			out[i] = '-'
		}
	}
	return string(out)
}
