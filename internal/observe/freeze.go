package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/revision"
)

// freezeInput is what freezing a template depends on beside the template.
type freezeInput struct {
	// retained revisions of the rollout.
	retained []v1alpha1.RolloutRevision
	// inUse are the digests that clusters have, or shall have.
	inUse map[string]bool
}

// frozenTemplate is the template of one generation, frozen, or why it could not
// be, and how it compares to the contents that it may replace.
type frozenTemplate struct {
	generation int64
	frozen     revision.Frozen
	problem    string
	// findings by the digest that was compared with; empty if it may follow.
	findings map[string]string
}

// freezeTemplate returns the revision of the present template, or why there is
// none. A revision that does not exist yet is created, its payload first: a
// crash in between leaves a Secret that the next attempt takes up.
func (o *Observer) freezeTemplate(ctx context.Context, fro *v1alpha1.FleetRollout, in freezeInput) (*v1alpha1.RolloutRevision, *v1alpha1.Cause, error) {
	template, ok := o.frozen.get(fro.UID)
	if !ok || template.generation != fro.Generation {
		template = frozenTemplate{generation: fro.Generation, findings: map[string]string{}}
		frozen, err := revision.Freeze(fro.Spec)
		if err != nil {
			template.problem = err.Error()
		}
		template.frozen = frozen
		o.frozen.put(fro.UID, template)
	}
	if template.problem != "" {
		return nil, invalidSpec(template.problem), nil
	}

	refusal, err := o.whyNotAfter(ctx, fro, template, in)
	if err != nil || refusal != nil {
		return nil, refusal, err
	}
	existing := revision.FindByDigest(in.retained, template.frozen.Digest)
	if existing == nil {
		return o.createRevision(ctx, fro, template.frozen)
	}
	secret, err := o.readPayload(ctx, existing)
	if err != nil || secret != nil {
		return existing, nil, err
	}
	// The template still says what the lost payload held.
	refusal, err = o.createPayload(ctx, fro, existing.Spec.Number, template.frozen)
	return existing, refusal, err
}

// whyNotAfter compares the template with the contents that it would replace: no
// change may touch a field that the API calls immutable (law 23) or drop a
// version of a CRD (law 22). The revision of the going run and the stable one
// were compared when they came; going back to them is always possible.
func (o *Observer) whyNotAfter(ctx context.Context, fro *v1alpha1.FleetRollout, template frozenTemplate, in freezeInput) (*v1alpha1.Cause, error) {
	var replaced []*v1alpha1.RevisionReference
	if stable := fro.Status.StableRevision; stable != nil {
		replaced = append(replaced, stable)
	}
	if run := fro.Status.Run; run != nil && in.inUse[run.Revision.Digest] {
		replaced = append(replaced, &run.Revision)
	}
	for _, reference := range replaced {
		if reference.Digest == template.frozen.Digest {
			return nil, nil
		}
	}

	var findings []string
	for _, reference := range replaced {
		found, ok := template.findings[reference.Digest]
		if !ok {
			record := revision.FindByDigest(in.retained, reference.Digest)
			if record == nil {
				continue
			}
			secret, err := o.readPayload(ctx, record)
			if err != nil {
				return nil, err
			}
			if secret == nil {
				continue
			}
			previous, err := revision.Load(record, secret)
			if err != nil {
				// A payload that cannot be read is told as a problem of its revision.
				continue
			}
			found = describeFindings(*reference, slices.Concat(
				revision.ImmutableChanges(previous, template.frozen.Payload),
				revision.CRDVersionFindings(previous, template.frozen.Payload)))
			template.findings[reference.Digest] = found
		}
		if found != "" && !slices.Contains(findings, found) {
			findings = append(findings, found)
		}
	}
	if len(findings) == 0 {
		return nil, nil
	}
	return invalidSpec(strings.Join(findings, "; ")), nil
}

func describeFindings(reference v1alpha1.RevisionReference, findings []revision.Finding) string {
	if len(findings) == 0 {
		return ""
	}
	lines := make([]string, 0, len(findings))
	for _, finding := range findings {
		lines = append(lines, finding.Message)
	}
	return fmt.Sprintf("cannot follow version %s (revision %d): %s", reference.Version, reference.Number, strings.Join(lines, "; "))
}

// createRevision creates payload and revision. Numbers are taken from the API
// server, because the cache may not know the newest revision yet.
func (o *Observer) createRevision(ctx context.Context, fro *v1alpha1.FleetRollout, frozen revision.Frozen) (*v1alpha1.RolloutRevision, *v1alpha1.Cause, error) {
	present, err := o.listRevisions(ctx, o.Live, fro)
	if err != nil {
		return nil, nil, err
	}
	if existing := revision.FindByDigest(present, frozen.Digest); existing != nil {
		return existing, nil, nil
	}
	number := revision.NextNumber(present)
	if refusal, err := o.createPayload(ctx, fro, number, frozen); err != nil || refusal != nil {
		return nil, refusal, err
	}

	record, _, err := revision.New(fro, number, frozen)
	if err != nil {
		return nil, nil, err
	}
	err = o.Client.Create(ctx, record)
	if apierrors.IsAlreadyExists(err) {
		return nil, nameTaken("RolloutRevision", record), nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("create revision %s/%s: %w", record.Namespace, record.Name, err)
	}
	o.Revisions.Remember(record)
	return record, nil, nil
}

// createPayload creates the payload Secret of a revision, unless it is there.
func (o *Observer) createPayload(ctx context.Context, fro *v1alpha1.FleetRollout, number int64, frozen revision.Frozen) (*v1alpha1.Cause, error) {
	_, secret, err := revision.New(fro, number, frozen)
	if err != nil {
		return nil, err
	}
	err = o.Client.Create(ctx, secret)
	if err == nil {
		return nil, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create payload secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	existing := secret.DeepCopy()
	if err := o.Live.Get(ctx, client.ObjectKeyFromObject(secret), existing); err != nil {
		return nil, fmt.Errorf("read payload secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	if !metav1.IsControlledBy(existing, fro) {
		return nameTaken("Secret", secret), nil
	}
	return nil, nil
}

func nameTaken(kind string, object client.Object) *v1alpha1.Cause {
	return invalidSpec(fmt.Sprintf("%s %s/%s exists and is not of this FleetRollout; if an earlier one of the same name left it, it is about to be collected, otherwise delete it",
		kind, object.GetNamespace(), object.GetName()))
}

func invalidSpec(message string) *v1alpha1.Cause {
	return &v1alpha1.Cause{Reason: v1alpha1.ReasonInvalidSpec, Message: message}
}
