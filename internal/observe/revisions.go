package observe

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/revision"
	"open-cluster-management.io/fleet-rollout/internal/rollout"
)

// checkedPayload is what a payload Secret was found to hold.
type checkedPayload struct {
	uid             types.UID
	resourceVersion string
	digest          string
	problem         string
}

// readRevisions fills in the retained revisions, and the one of the present
// template.
func (o *Observer) readRevisions(ctx context.Context, fro *v1alpha1.FleetRollout, observation *Observation) error {
	retained, err := o.listRevisions(ctx, o.Client, fro)
	if err != nil {
		return err
	}
	for i := range retained {
		retained[i] = *o.Revisions.Newer(&retained[i])
	}

	snapshot := &observation.Snapshot
	var digest string
	if !snapshot.Deleting {
		result, err := o.freezeTemplate(ctx, fro, freezeInput{
			retained: retained,
			inUse:    digestsInUse(observation.Deliveries),
		})
		if err != nil {
			return err
		}
		snapshot.InvalidSpec, observation.FreezeRefused = result.refusal, result.byServer
		if current := result.revision; current != nil {
			digest = current.Spec.Digest
			if revision.FindByDigest(retained, digest) == nil {
				retained = append(retained, *current)
			}
		}
	}

	lost, err := o.restoreRecords(ctx, fro, &retained)
	if err != nil {
		return err
	}
	snapshot.Revisions = append(snapshot.Revisions, lost...)

	observation.Revisions = make(map[string]*v1alpha1.RolloutRevision, len(retained))
	for i := range retained {
		described, err := o.describe(ctx, &retained[i])
		if err != nil {
			return err
		}
		snapshot.Revisions = append(snapshot.Revisions, described)
		observation.Revisions[retained[i].Name] = &retained[i]
		if described.Digest == digest {
			snapshot.Current = &described
		}
	}
	return nil
}

// listRevisions returns the revisions of this very rollout; those that an
// earlier one of the same name left for the garbage collector are not its.
func (o *Observer) listRevisions(ctx context.Context, reader client.Reader, fro *v1alpha1.FleetRollout) ([]v1alpha1.RolloutRevision, error) {
	var list v1alpha1.RolloutRevisionList
	if err := reader.List(ctx, &list, client.InNamespace(fro.Namespace),
		client.MatchingLabels{v1alpha1.LabelRolloutName: fro.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list revisions of rollout %s/%s: %w", fro.Namespace, fro.Name, err)
	}
	own := list.Items[:0]
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], fro) && list.Items[i].DeletionTimestamp == nil {
			own = append(own, list.Items[i])
		}
	}
	return own, nil
}

// describe tells the planner about a revision.
func (o *Observer) describe(ctx context.Context, record *v1alpha1.RolloutRevision) (rollout.Revision, error) {
	described := rollout.Revision{
		RevisionReference: v1alpha1.RevisionReference{
			Name:    record.Name,
			Number:  record.Spec.Number,
			Version: record.Spec.Version,
			Digest:  record.Spec.Digest,
		},
		Verdict:  record.Status.Verdict,
		Attempts: record.Status.Attempts,
	}
	if described.Verdict == "" {
		described.Verdict = v1alpha1.VerdictCandidate
	}
	secret, err := o.readPayload(ctx, record)
	if err != nil {
		return rollout.Revision{}, err
	}
	described.Problem = o.payloadProblem(record, secret)
	return described, nil
}

// readPayload returns the payload Secret of a revision, or nil if it is gone.
// A Secret that was created a moment ago may be missing in the cache, so the
// API server has the last word on absence.
func (o *Observer) readPayload(ctx context.Context, record *v1alpha1.RolloutRevision) (*corev1.Secret, error) {
	key := client.ObjectKeyFromObject(record)
	for _, reader := range []client.Reader{o.Client, o.Live} {
		var secret corev1.Secret
		err := reader.Get(ctx, key, &secret, client.UnsafeDisableDeepCopy)
		if err == nil {
			return &secret, nil
		}
		if ignoreNotFound(err) != nil {
			return nil, fmt.Errorf("read payload secret %s: %w", key, err)
		}
	}
	return nil, nil
}

// payloadProblem checks that the payload is there and matches its digest. The
// check of unchanged bytes is remembered.
func (o *Observer) payloadProblem(record *v1alpha1.RolloutRevision, secret *corev1.Secret) *v1alpha1.Cause {
	key := client.ObjectKeyFromObject(record)
	if secret == nil {
		o.payloads.forget(key)
		return revisionMissing("Secret %s, the content of revision %d (version %s), does not exist; restore it, or change the template",
			key, record.Spec.Number, record.Spec.Version)
	}
	checked, ok := o.payloads.get(key)
	if !ok || checked.uid != secret.UID || checked.resourceVersion != secret.ResourceVersion || checked.digest != record.Spec.Digest {
		checked = checkedPayload{uid: secret.UID, resourceVersion: secret.ResourceVersion, digest: record.Spec.Digest}
		if _, err := revision.Load(record, secret); err != nil {
			checked.problem = err.Error()
		}
		o.payloads.put(key, checked)
	}
	if checked.problem == "" {
		return nil
	}
	return revisionMissing("Secret %s does not hold the content of revision %d (version %s): %s; delete it and restore the right one",
		key, record.Spec.Number, record.Spec.Version, checked.problem)
}

func revisionMissing(format string, args ...any) *v1alpha1.Cause {
	return &v1alpha1.Cause{Reason: v1alpha1.ReasonRevisionMissing, Message: fmt.Sprintf(format, args...)}
}

// digestsInUse are the contents that clusters have, or shall have.
func digestsInUse(deliveries map[string]*v1alpha1.RolloutDelivery) map[string]bool {
	inUse := map[string]bool{}
	for _, delivery := range deliveries {
		inUse[delivery.Spec.Revision.Digest] = true
		for _, proof := range []*v1alpha1.Proof{delivery.Status.Applied, delivery.Status.Proven} {
			if proof != nil {
				inUse[proof.Digest] = true
			}
		}
	}
	return inUse
}
