package observe

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/revision"
	"open-cluster-management.io/fleet-rollout/internal/rollout"
)

// restoreRecords makes the RolloutRevisions again that somebody deleted although
// the rollout depends on them: that of the stable revision, and that of the going
// run. Their payload Secret holds all that it takes. It returns those that cannot
// be restored, as revisions with a problem.
func (o *Observer) restoreRecords(ctx context.Context, fro *v1alpha1.FleetRollout, retained *[]v1alpha1.RolloutRevision) ([]rollout.Revision, error) {
	if fro.DeletionTimestamp != nil {
		return nil, nil
	}
	var needed []v1alpha1.RevisionReference
	if stable := fro.Status.StableRevision; stable != nil {
		needed = append(needed, *stable)
	}
	if run := fro.Status.Run; run != nil && run.EndedAt == nil {
		needed = append(needed, run.Revision)
	}
	var lost []rollout.Revision
	for _, reference := range needed {
		if revision.FindByDigest(*retained, reference.Digest) != nil {
			continue
		}
		record, problem, err := o.restoreRecord(ctx, fro, reference)
		if err != nil {
			return nil, err
		}
		if problem == "" {
			*retained = append(*retained, *record)
			continue
		}
		lost = append(lost, rollout.Revision{
			RevisionReference: reference,
			Verdict:           v1alpha1.VerdictCandidate,
			Problem: revisionMissing("RolloutRevision %s/%s, the record of revision %d (version %s), was deleted and cannot be made again: %s",
				fro.Namespace, reference.Name, reference.Number, reference.Version, problem),
		})
	}
	return lost, nil
}

// restoreRecord makes one record again, or says why it cannot, and the fix.
func (o *Observer) restoreRecord(ctx context.Context, fro *v1alpha1.FleetRollout, reference v1alpha1.RevisionReference) (*v1alpha1.RolloutRevision, string, error) {
	present, err := o.listRevisions(ctx, o.Live, fro)
	if err != nil {
		return nil, "", err
	}
	if record := revision.FindByDigest(present, reference.Digest); record != nil {
		return record, "", nil
	}
	key := types.NamespacedName{Namespace: fro.Namespace, Name: reference.Name}
	var secret corev1.Secret
	err = o.Live.Get(ctx, key, &secret)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Sprintf("its content, Secret %s, does not exist either; restore both from a backup, or bring another revision to success", key), nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read payload secret %s: %w", key, err)
	}
	if !metav1.IsControlledBy(&secret, fro) {
		return nil, fmt.Sprintf("Secret %s is not of this FleetRollout; restore the right one, or bring another revision to success", key), nil
	}
	payload, err := revision.DecodePayload(secret.Data[revision.PayloadKey], reference.Digest)
	if err != nil {
		return nil, fmt.Sprintf("Secret %s does not hold its content: %v", key, err), nil
	}
	frozen, err := revision.Thaw(payload, reference.Digest)
	if err != nil {
		return nil, fmt.Sprintf("Secret %s holds something else: %v", key, err), nil
	}
	record, _, err := revision.New(fro, reference.Number, frozen)
	if err != nil {
		return nil, err.Error(), nil
	}
	err = o.Client.Create(ctx, record)
	switch {
	case err == nil:
		o.Revisions.Remember(record)
		return record, "", nil
	case isRefusal(err), apierrors.IsAlreadyExists(err):
		return nil, fmt.Sprintf("the hub refuses it, and it is tried again: %v", err), nil
	}
	return nil, "", fmt.Errorf("create revision %s: %w", key, err)
}
