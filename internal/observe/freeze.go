package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
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

// frozenTemplate is the template of one generation with its sources at certain
// versions, frozen, or why it could not be, and how it compares to the contents
// that it may replace.
type frozenTemplate struct {
	generation int64
	sources    string
	frozen     revision.Frozen
	problem    *v1alpha1.Cause
	// findings by the digest that was compared with; empty if it may follow.
	findings map[string]string
}

// freezeResult is the revision of a template, or why there is none.
type freezeResult struct {
	revision *v1alpha1.RolloutRevision
	refusal  *v1alpha1.Cause
	// byServer tells that the API server refused what the template allows.
	byServer bool
}

// freezeTemplate returns the revision of the present template, or why there is
// none. A revision that does not exist yet is created, its payload first: a
// crash in between leaves a Secret that the next attempt takes up.
func (o *Observer) freezeTemplate(ctx context.Context, fro *v1alpha1.FleetRollout, in freezeInput) (freezeResult, error) {
	template, err := o.frozenTemplate(ctx, fro)
	if err != nil {
		// What runs must not be left alone because a source cannot be read: rollbacks
		// and deadlines go on (law 4), and it is tried again.
		return freezeResult{byServer: true, refusal: sourceMissing(fmt.Sprintf("manifestsFrom: %v", err))}, nil
	}
	if template.problem != nil {
		return freezeResult{refusal: template.problem}, nil
	}
	if refusal, err := o.whyNotAfter(ctx, fro, template, in); err != nil || refusal != nil {
		return freezeResult{refusal: refusal}, err
	}

	existing := revision.FindByDigest(in.retained, template.frozen.Digest)
	if existing == nil {
		return o.createRevision(ctx, fro, template.frozen)
	}
	secret, err := o.readPayload(ctx, existing)
	if err != nil || secret != nil {
		return freezeResult{revision: existing}, err
	}
	// The template still says what the lost payload held. If it cannot be put
	// back, that is told as a problem of the revision.
	_, payload, err := revision.New(fro, existing.Spec.Number, template.frozen)
	if err != nil {
		return freezeResult{revision: existing}, nil
	}
	_, err = o.createPayload(ctx, fro, payload)
	return freezeResult{revision: existing}, err
}

// frozenTemplate freezes the template, unless that was done already with the
// sources as they are.
func (o *Observer) frozenTemplate(ctx context.Context, fro *v1alpha1.FleetRollout) (frozenTemplate, error) {
	versions, err := o.sourceVersions(ctx, fro)
	if err != nil {
		return frozenTemplate{}, err
	}
	template, ok := o.frozen.get(fro.UID)
	if ok && template.generation == fro.Generation && template.sources == versions {
		return template, nil
	}
	template = frozenTemplate{generation: fro.Generation, sources: versions, findings: map[string]string{}}
	sources, err := o.readSources(ctx, fro)
	if err != nil {
		return frozenTemplate{}, err
	}
	template.frozen, err = revision.FreezeWith(fro.Spec, sources)
	var missing *revision.MissingSourceError
	switch {
	case errors.As(err, &missing):
		template.problem = sourceMissing(err.Error())
	case err != nil:
		template.problem = invalidSpec(err.Error())
	}
	o.frozen.put(fro.UID, template)
	return template, nil
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
		found, err := o.compare(ctx, template, *reference, revision.FindByDigest(in.retained, reference.Digest))
		if err != nil {
			return nil, err
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

// compare says why the template cannot follow a revision; nothing if it can. A
// content that is lost cannot be compared with, and is told as a problem of its
// revision.
func (o *Observer) compare(ctx context.Context, template frozenTemplate, reference v1alpha1.RevisionReference, record *v1alpha1.RolloutRevision) (string, error) {
	if found, ok := template.findings[reference.Digest]; ok || record == nil {
		return found, nil
	}
	secret, err := o.readPayload(ctx, record)
	if err != nil || secret == nil {
		return "", err
	}
	previous, err := revision.Load(record, secret)
	if err != nil {
		return "", nil
	}
	found := describeFindings(reference, slices.Concat(
		revision.ImmutableChanges(previous, template.frozen.Payload),
		revision.CRDVersionFindings(previous, template.frozen.Payload)))
	template.findings[reference.Digest] = found
	return found, nil
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
func (o *Observer) createRevision(ctx context.Context, fro *v1alpha1.FleetRollout, frozen revision.Frozen) (freezeResult, error) {
	present, err := o.listRevisions(ctx, o.Live, fro)
	if err != nil {
		return freezeResult{}, err
	}
	if existing := revision.FindByDigest(present, frozen.Digest); existing != nil {
		return freezeResult{revision: existing}, nil
	}
	record, payload, err := revision.New(fro, numberOf(fro, present, frozen.Digest), frozen)
	if err != nil {
		return freezeResult{refusal: invalidSpec(err.Error())}, nil
	}
	if refusal, err := o.createPayload(ctx, fro, payload); err != nil || refusal != nil {
		return freezeResult{refusal: refusal, byServer: true}, err
	}

	err = o.Client.Create(ctx, record)
	switch {
	case err == nil:
		o.Revisions.Remember(record)
		return freezeResult{revision: record}, nil
	case apierrors.IsAlreadyExists(err):
		return o.takeUpRevision(ctx, fro, record)
	case isRefusal(err):
		return freezeResult{refusal: refusedByServer("RolloutRevision", err), byServer: true}, nil
	}
	return freezeResult{}, fmt.Errorf("create revision %s/%s: %w", record.Namespace, record.Name, err)
}

// numberOf is the number for a content that has no record. One that was given
// out is never given to another content, though its record may have been deleted
// by hand: deliveries and rollback records go on naming it. A content whose
// record is made again keeps its number.
func numberOf(fro *v1alpha1.FleetRollout, present []v1alpha1.RolloutRevision, digest string) int64 {
	next := revision.NextNumber(present)
	given := func(reference *v1alpha1.RevisionReference) int64 {
		if reference == nil {
			return 0
		}
		next = max(next, reference.Number+1)
		if reference.Digest == digest {
			return reference.Number
		}
		return 0
	}
	known := max(given(fro.Status.CurrentRevision), given(fro.Status.StableRevision))
	if run := fro.Status.Run; run != nil {
		known = max(known, given(&run.Revision))
	}
	for i := range fro.Status.Rollbacks {
		record := &fro.Status.Rollbacks[i]
		known = max(known, given(&record.To))
		for j := range record.From {
			known = max(known, given(&record.From[j]))
		}
	}
	if known > 0 {
		return known
	}
	return next
}

// createPayload creates the payload Secret of a revision, unless it is there. It
// returns why the API server does not take it.
func (o *Observer) createPayload(ctx context.Context, fro *v1alpha1.FleetRollout, payload *corev1.Secret) (*v1alpha1.Cause, error) {
	err := o.Client.Create(ctx, payload)
	if err == nil {
		return nil, nil
	}
	if isRefusal(err) {
		return refusedByServer("Secret", err), nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create payload secret %s/%s: %w", payload.Namespace, payload.Name, err)
	}
	var existing corev1.Secret
	if err := o.Live.Get(ctx, client.ObjectKeyFromObject(payload), &existing); err != nil {
		return nil, fmt.Errorf("read payload secret %s/%s: %w", payload.Namespace, payload.Name, err)
	}
	if !metav1.IsControlledBy(&existing, fro) {
		return nameTaken("Secret", payload), nil
	}
	return nil, nil
}

// takeUpRevision returns the record that stands in the way of ours: it is ours if
// another leader created it a moment ago.
func (o *Observer) takeUpRevision(ctx context.Context, fro *v1alpha1.FleetRollout, record *v1alpha1.RolloutRevision) (freezeResult, error) {
	var existing v1alpha1.RolloutRevision
	if err := o.Live.Get(ctx, client.ObjectKeyFromObject(record), &existing); err != nil {
		return freezeResult{}, fmt.Errorf("read revision %s/%s: %w", record.Namespace, record.Name, err)
	}
	if metav1.IsControlledBy(&existing, fro) && existing.Spec.Digest == record.Spec.Digest && existing.DeletionTimestamp == nil {
		return freezeResult{revision: &existing}, nil
	}
	return freezeResult{refusal: nameTaken("RolloutRevision", record), byServer: true}, nil
}

// isRefusal tells that the API server understood a creation and does not want
// it: the object is too large, a quota is used up, a policy says no. The running
// revision goes on as it was.
func isRefusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

func refusedByServer(kind string, err error) *v1alpha1.Cause {
	return invalidSpec(fmt.Sprintf("the hub refuses the %s that would keep this revision, and it is tried again: %v", kind, err))
}

func nameTaken(kind string, object client.Object) *v1alpha1.Cause {
	return invalidSpec(fmt.Sprintf("%s %s/%s exists and is not of this FleetRollout; if an earlier one of the same name left it, it is about to be collected, otherwise delete it",
		kind, object.GetNamespace(), object.GetName()))
}

func sourceMissing(message string) *v1alpha1.Cause {
	return &v1alpha1.Cause{Reason: v1alpha1.ReasonSourceMissing, Message: message}
}

func invalidSpec(message string) *v1alpha1.Cause {
	return &v1alpha1.Cause{Reason: v1alpha1.ReasonInvalidSpec, Message: message}
}
