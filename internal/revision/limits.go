package revision

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

const (
	// MaxObjectBytes is how large one object may be as it is delivered: what OCM
	// accepts in one ManifestWork (500 KiB). Content over it is split over several
	// works, an object cannot be (law 21).
	MaxObjectBytes = 500 << 10
	// MaxTotalBytes is how large all objects together may be as they are delivered
	// (4 MiB).
	MaxTotalBytes = 4 << 20
	// MaxObjects is how many objects a revision may have.
	MaxObjects = 2000
	// MaxRecordBytes is how large the list of the objects may be in the status of a
	// RolloutDelivery (512 KiB). While one content replaces another, both are
	// listed, and etcd takes 1.5 MiB.
	MaxRecordBytes = 512 << 10
	// MaxStoredBytes is how large a compressed payload may be: what the API accepts
	// in one Secret (1 MiB).
	MaxStoredBytes = corev1.MaxSecretSize

	// deliveryOverheadBytes is what delivering adds to an object at most: two
	// labels, the stamp, the suffix of a Job's name and the framing.
	deliveryOverheadBytes = 420
)

// checkObjectSize refuses an object that no ManifestWork can carry.
func checkObjectSize(path *field.Path, m manifest) *field.Error {
	size := len(m.raw) + deliveryOverheadBytes
	if size <= MaxObjectBytes {
		return nil
	}
	return field.Invalid(path, v1alpha1.Describe(m.object),
		fmt.Sprintf("it is %d bytes as delivered, over the ManifestWork limit of %d; make it smaller, because one object cannot be split over several ManifestWorks", size, MaxObjectBytes))
}

// totals adds up what a template has.
type totals struct {
	objects, bytes, record int
}

func (t *totals) add(m manifest) {
	t.objects++
	t.bytes += len(m.raw) + deliveryOverheadBytes
	// A Job's name gets a suffix of at most 18 characters.
	entry, _ := json.Marshal(v1alpha1.RenderedObject{ObjectReference: m.reference, Hash: v1alpha1.HashOf(nil), Part: 10})
	t.record += len(entry) + 20
}

// check refuses a template that is too large as a whole.
func (t totals) check(path *field.Path) field.ErrorList {
	const fix = "move part of them to another FleetRollout"
	var problems field.ErrorList
	if t.objects > MaxObjects {
		problems = append(problems, field.Invalid(path, t.objects, fmt.Sprintf("the template has more than %d objects; %s", MaxObjects, fix)))
	}
	if t.bytes > MaxTotalBytes {
		problems = append(problems, field.Invalid(path, t.bytes, fmt.Sprintf("the objects are %d bytes as delivered, over the limit of %d for one FleetRollout; %s", t.bytes, MaxTotalBytes, fix)))
	}
	if t.record > MaxRecordBytes {
		problems = append(problems, field.Invalid(path, t.record, fmt.Sprintf("the names of the %d objects are %d bytes, and a RolloutDelivery records at most %d; %s, or shorten their names", t.objects, t.record, MaxRecordBytes, fix)))
	}
	return problems
}

// checkStored refuses a payload that does not fit into its Secret. Raw is the
// payload as JSON.
func checkStored(path *field.Path, raw []byte, payload v1alpha1.RevisionPayload) error {
	// Compression never adds as much as this leaves.
	if len(raw) <= MaxStoredBytes*9/10 {
		return nil
	}
	data, err := EncodePayload(payload)
	if err != nil {
		return err
	}
	if len(data) <= MaxStoredBytes {
		return nil
	}
	return &InvalidError{Problems: field.ErrorList{field.Invalid(path, len(data),
		fmt.Sprintf("the content is %d bytes compressed, over the limit of %d of the Secret that retains it; move part of it to another FleetRollout", len(data), MaxStoredBytes))}}
}
