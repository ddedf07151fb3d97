package revision

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/pkg/content"
)

// Frozen is the content of a FleetRollout at one moment.
type Frozen struct {
	// Payload is the content in its canonical form: server-written fields are
	// gone, defaults of delivery are written out, and components and manifests
	// are sorted, because their order means nothing.
	Payload v1alpha1.RevisionPayload

	// Digest of the payload, "sha256:" and 64 hex digits (law 19). Equal content
	// has an equal digest, in whatever order it was written.
	Digest string

	// Inventory of the objects, in the order of the payload.
	Inventory []v1alpha1.InventoryEntry
}

// Freeze is FreezeWith for a spec without manifestsFrom.
func Freeze(spec v1alpha1.FleetRolloutSpec) (Frozen, error) {
	return FreezeWith(spec, Sources{})
}

// FreezeWith makes a revision's content out of a spec and the sources that
// SourceNames names. It returns an *InvalidError that holds everything that is
// wrong with the spec and the sources, by field, or else a *MissingSourceError
// if sources do not exist.
func FreezeWith(spec v1alpha1.FleetRolloutSpec, sources Sources) (Frozen, error) {
	path := field.NewPath("spec")
	problems := checkVersion(path.Child("version"), spec.Version)
	problems = append(problems, checkPlacements(path.Child("placements"), spec.Placements)...)
	problems = append(problems, CheckStrategy(path.Child("strategy"), spec.Strategy)...)
	problems = append(problems, checkRollback(path.Child("rollback"), spec.Rollback)...)

	problems = append(problems, checkHealth(path.Child("health"), spec.Health)...)

	read, missing, found := readTemplate(path.Child("template"), spec.Template, sources)
	problems = append(problems, found...)
	var overrides []v1alpha1.Override
	if len(missing) == 0 {
		problems = append(problems, checkDelivery(path.Child("delivery"), spec.Delivery, read)...)
		overrides, found = content.CanonicalOverrides(path.Child("overrides"), spec.Overrides, read.objects())
		problems = append(problems, found...)
	}
	switch {
	case len(problems) > 0:
		return Frozen{}, &InvalidError{Problems: problems}
	case len(missing) > 0:
		return Frozen{}, &MissingSourceError{Missing: missing}
	}
	spec.Overrides = overrides
	return read.freeze(spec, sources.HashKey)
}

// freeze writes the canonical payload of a template that has no problems.
func (c contents) freeze(spec v1alpha1.FleetRolloutSpec, hashKey []byte) (Frozen, error) {
	slices.SortStableFunc(c.components, func(a, b component) int { return cmp.Compare(a.name, b.name) })
	frozen := Frozen{Payload: v1alpha1.RevisionPayload{
		Version:   spec.Version,
		Requires:  *spec.Requires.DeepCopy(),
		Overrides: spec.Overrides,
		Delivery:  *spec.Delivery.DeepCopy(),
		Health:    canonicalHealth(spec.Health),
	}}
	frozen.Payload.Delivery.Conflicts = spec.Delivery.ConflictsOrDefault()
	frozen.Payload.Delivery.OnDelete = spec.Delivery.OnDeleteOrDefault()
	if NeedHashKey(spec.Template) {
		if len(hashKey) == 0 {
			return Frozen{}, errors.New("freeze content that comes from a Secret: there is no key for its hashes")
		}
		frozen.Payload.HashKey = hashKey
	}
	for _, part := range c.components {
		slices.SortStableFunc(part.manifests, func(a, b manifest) int { return compareReferences(a.reference, b.reference) })
		out := v1alpha1.Component{Name: part.name}
		for _, m := range part.manifests {
			out.Manifests = append(out.Manifests, runtime.RawExtension{Raw: m.raw})
			frozen.Inventory = append(frozen.Inventory, entryOf(frozen.Payload, part.name, m.reference, m.raw))
		}
		frozen.Payload.Template.Components = append(frozen.Payload.Template.Components, out)
	}
	raw, err := v1alpha1.CanonicalJSON(frozen.Payload)
	if err != nil {
		return Frozen{}, fmt.Errorf("freeze version %s: %w", spec.Version, err)
	}
	if err := checkStored(field.NewPath("spec", "template"), raw, frozen.Payload); err != nil {
		return Frozen{}, err
	}
	frozen.Digest = v1alpha1.HashOf(raw)
	return frozen, nil
}

func entryOf(payload v1alpha1.RevisionPayload, component string, reference v1alpha1.ObjectReference, raw []byte) v1alpha1.InventoryEntry {
	return v1alpha1.InventoryEntry{ObjectReference: reference, Hash: payload.HashOf(raw), Component: component}
}

// Thaw makes a Frozen again out of the payload that it was stored as, for a record
// that was lost. DecodePayload has verified the digest. It returns an error if a
// manifest is not an object.
func Thaw(payload v1alpha1.RevisionPayload, digest string) (Frozen, error) {
	thawed := Frozen{Payload: payload, Digest: digest}
	for _, component := range payload.Template.Components {
		for i, manifest := range component.Manifests {
			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON(manifest.Raw); err != nil {
				return Frozen{}, fmt.Errorf("read manifest %d of component %q: %w", i, component.Name, err)
			}
			thawed.Inventory = append(thawed.Inventory, entryOf(payload, component.Name, v1alpha1.ReferenceOf(object), manifest.Raw))
		}
	}
	return thawed, nil
}

func checkVersion(path *field.Path, version string) field.ErrorList {
	const maxLength = 63
	if _, err := semver.StrictNewVersion(version); err != nil {
		return field.ErrorList{field.Invalid(path, version, fmt.Sprintf("it is not a SemVer version (%v); write MAJOR.MINOR.PATCH, such as 1.4.0", err))}
	}
	if len(version) > maxLength {
		return field.ErrorList{field.Invalid(path, version, fmt.Sprintf("it has %d characters; write at most %d", len(version), maxLength))}
	}
	return nil
}

func checkPlacements(path *field.Path, placements []v1alpha1.PlacementReference) field.ErrorList {
	if len(placements) == 0 {
		return field.ErrorList{field.Required(path, "name at least one Placement of the rollout's namespace")}
	}
	return nil
}

// compareReferences orders references by group, kind, namespace and name.
func compareReferences(a, b v1alpha1.ObjectReference) int {
	return cmp.Or(
		cmp.Compare(a.Group, b.Group),
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
	)
}

// InvalidError tells everything that is wrong with a spec. The FleetRollout goes
// on with the revision it has.
type InvalidError struct {
	// Problems by field; each names the value and the fix.
	Problems field.ErrorList
}

// Error names the first problems, in at most about 900 bytes so that it fits a
// condition's message, and says how many more there are.
func (e *InvalidError) Error() string {
	const maxBytes, roomForCount = 900, 40
	var out strings.Builder
	for i, problem := range e.Problems {
		text := problem.Error()
		if i > 0 && out.Len()+len(text) > maxBytes-roomForCount {
			fmt.Fprintf(&out, "; and %d more problems", len(e.Problems)-i)
			return out.String()
		}
		if len(text) > maxBytes-roomForCount {
			text = strings.ToValidUTF8(text[:maxBytes-roomForCount], "") + "…"
		}
		if i > 0 {
			out.WriteString("; ")
		}
		out.WriteString(text)
	}
	return out.String()
}
