// Package observe reads everything that a decision about a rollout may depend
// on, and freezes the template into a revision. What it returns is a
// rollout.Snapshot: the planner itself reads nothing.
package observe

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/liveness"
	"open-cluster-management.io/fleet-rollout/internal/rollout"
	"open-cluster-management.io/fleet-rollout/pkg/placement"
)

// DeliveryNameField is the field index of RolloutDeliveries by name. All
// deliveries of a rollout have the same name, each in the namespace of its
// cluster. Whoever sets up the cache registers it with IndexDeliveryName.
const DeliveryNameField = "metadata.name"

// IndexDeliveryName extracts the value of DeliveryNameField.
func IndexDeliveryName(object client.Object) []string { return []string{object.GetName()} }

// Observer reads for the rollout controller. It is safe for concurrent use by
// reconciles of different rollouts.
type Observer struct {
	// Client reads from the cache and creates revisions.
	Client client.Client

	// Live reads from the API server itself.
	Live client.Reader

	// Sources reads the metadata of the ConfigMaps and Secrets that manifestsFrom
	// names, best from a cache of nothing but metadata. NewObserver sets it to Live.
	Sources client.Reader

	// Liveness of the agents; fed by the delivery controller's watches.
	Liveness *liveness.Tracker

	// Deliveries, Revisions and Actions that this process wrote lately.
	Deliveries *OwnWrites[*v1alpha1.RolloutDelivery]
	Revisions  *OwnWrites[*v1alpha1.RolloutRevision]
	Actions    *OwnWrites[*v1alpha1.RolloutAction]

	frozen   memo[types.UID, frozenTemplate]
	payloads memo[types.NamespacedName, checkedPayload]
}

// NewObserver returns an Observer that has seen nothing yet.
func NewObserver(c client.Client, live client.Reader, tracker *liveness.Tracker, clock clock.PassiveClock) *Observer {
	return &Observer{
		Client:     c,
		Live:       live,
		Sources:    live,
		Liveness:   tracker,
		Deliveries: NewOwnWrites[*v1alpha1.RolloutDelivery](clock),
		Revisions:  NewOwnWrites[*v1alpha1.RolloutRevision](clock),
		Actions:    NewOwnWrites[*v1alpha1.RolloutAction](clock),
	}
}

// Observation is a Snapshot and the objects that it was made of, for the
// writes that follow. The objects may be shared with the cache: copy before
// changing one.
type Observation struct {
	Snapshot rollout.Snapshot

	// Deliveries of the rollout by cluster.
	Deliveries map[string]*v1alpha1.RolloutDelivery

	// Revisions of the rollout by name.
	Revisions map[string]*v1alpha1.RolloutRevision

	// Actions that name the rollout.
	Actions Actions

	// FreezeRefused tells that the API server, not the template, is why there
	// is no current revision: it is worth another try without any change.
	FreezeRefused bool
}

// Observe reads the state of a rollout. If the content of its template is new,
// the RolloutRevision and its payload are created first. An error means that
// nothing may be decided; what is merely missing, incomplete or refused is part
// of the Snapshot.
func (o *Observer) Observe(ctx context.Context, fro *v1alpha1.FleetRollout) (Observation, error) {
	observation := Observation{Snapshot: rollout.Snapshot{
		Namespace:  fro.Namespace,
		Name:       fro.Name,
		Generation: fro.Generation,
		Paused:     fro.Spec.Paused,
		Deleting:   fro.DeletionTimestamp != nil,
		OnDelete:   fro.Spec.Delivery.OnDeleteOrDefault(),
		Strategy:   fro.Spec.Strategy,
		Rollback:   fro.Spec.Rollback,
		Run:        fro.Status.Run,
		Rollbacks:  fro.Status.Rollbacks,
		Stable:     fro.Status.StableRevision,

		RemovalConfirmation: fro.Status.RemovalConfirmation,
		HandledActions:      fro.Status.HandledActions,
	}}
	observation.Snapshot.UnwatchedFrom, observation.Snapshot.UnwatchedUntil = o.Liveness.Unwatched()
	decisions := o.decisions(ctx, o.Client, fro)
	observation.Snapshot.Membership = rollout.Membership{
		Complete:       decisions.Complete,
		Cause:          decisions.Cause,
		Placements:     decisions.Placements,
		LastPlacements: fro.Status.Placements,
	}

	deliveries, foreign, err := o.readDeliveries(ctx, fro, decisions.Clusters)
	if err != nil {
		return Observation{}, err
	}
	observation.Deliveries = deliveries

	if err := o.readRevisions(ctx, fro, &observation); err != nil {
		return Observation{}, err
	}

	if err := o.readActions(ctx, fro, &observation); err != nil {
		return Observation{}, err
	}

	observation.Snapshot.Clusters, err = o.readClusters(ctx, clusterReads{
		selected: decisions.Clusters,
		own:      deliveries,
		foreign:  foreign,
	})
	if err != nil {
		return Observation{}, err
	}
	return observation, nil
}

// ConfirmMembership reads the decisions again, past the cache, and returns the
// Snapshot with Membership.RemovalConfirmed set if they name the same clusters.
// Otherwise the Snapshot is returned as it was: the cache will follow.
func (o *Observer) ConfirmMembership(ctx context.Context, fro *v1alpha1.FleetRollout, snapshot rollout.Snapshot) rollout.Snapshot {
	decisions := o.decisions(ctx, o.Live, fro)
	if !decisions.Complete || !snapshot.Membership.Complete {
		return snapshot
	}
	selected := 0
	live := make(map[string]bool, len(decisions.Clusters))
	for _, name := range decisions.Clusters {
		live[name] = true
	}
	for i := range snapshot.Clusters {
		if !snapshot.Clusters[i].Selected {
			continue
		}
		selected++
		if !live[snapshot.Clusters[i].Name] {
			return snapshot
		}
	}
	snapshot.Membership.RemovalConfirmed = selected == len(live)
	return snapshot
}

// Forget drops what is remembered of a rollout that is gone.
func (o *Observer) Forget(uid types.UID) { o.frozen.forget(uid) }

// ForgetRevision drops what is remembered of a revision that was trimmed.
func (o *Observer) ForgetRevision(key types.NamespacedName) {
	o.Revisions.Forget(key)
	o.payloads.forget(key)
}

// decisions reads the placement decisions. A read that failed stops joins,
// removals and forward writes like an incomplete one; it must not stop evidence,
// deadlines and rollbacks (law 4), so it is no error here.
func (o *Observer) decisions(ctx context.Context, reader client.Reader, fro *v1alpha1.FleetRollout) placement.Decisions {
	decisions, err := placement.Read(ctx, reader, fro.Namespace, fro.Spec.Placements)
	if err != nil {
		return placement.Decisions{Cause: v1alpha1.Cause{
			Reason:  v1alpha1.ReasonDecisionsIncomplete,
			Message: fmt.Sprintf("the placement decisions could not be read: %v", err),
		}}
	}
	return decisions
}

// readDeliveries returns the deliveries of the rollout by cluster, and the
// objects of the same name that are not ours (law 20).
func (o *Observer) readDeliveries(ctx context.Context, fro *v1alpha1.FleetRollout, selected []string) (own, foreign map[string]*v1alpha1.RolloutDelivery, err error) {
	name := v1alpha1.DeliveryName(fro.Namespace, fro.Name)
	var list v1alpha1.RolloutDeliveryList
	if err := o.Client.List(ctx, &list, client.MatchingFields{DeliveryNameField: name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list deliveries of rollout %s/%s: %w", fro.Namespace, fro.Name, err)
	}

	own = make(map[string]*v1alpha1.RolloutDelivery, len(list.Items))
	foreign = map[string]*v1alpha1.RolloutDelivery{}
	for i := range list.Items {
		delivery := o.Deliveries.Newer(&list.Items[i])
		if IsOwnDelivery(fro, delivery) {
			own[delivery.Namespace] = delivery
		} else {
			foreign[delivery.Namespace] = delivery
		}
	}
	for _, cluster := range selected {
		if own[cluster] != nil || foreign[cluster] != nil {
			continue
		}
		if delivery, ok := o.Deliveries.Missing(types.NamespacedName{Namespace: cluster, Name: name}); ok && IsOwnDelivery(fro, delivery) {
			own[cluster] = delivery
		}
	}
	return own, foreign, nil
}

// IsOwnDelivery tells whether a RolloutDelivery belongs to the rollout: by its
// labels and by its UID, so that one left over from an earlier rollout of that
// name is not taken for ours.
func IsOwnDelivery(fro *v1alpha1.FleetRollout, delivery *v1alpha1.RolloutDelivery) bool {
	return delivery.Labels[v1alpha1.LabelRolloutNamespace] == fro.Namespace &&
		delivery.Labels[v1alpha1.LabelRolloutName] == fro.Name &&
		delivery.Labels[v1alpha1.LabelRolloutUID] == string(fro.UID) &&
		delivery.Spec.Rollout.UID == fro.UID
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
