package delivery

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/pkg/content"
)

// intents remembers what a cluster's labels and claims would change of a delivery
// that is written, so that it is found out only when one of the two changes.
type intents struct {
	mu    sync.Mutex
	known map[types.NamespacedName]intent
	// overrides of revisions by digest, so that a fleet whose revisions have none
	// reads each payload once.
	overrides map[string][]v1alpha1.Override
}

// maxIntentRevisions is how many revisions' overrides are remembered.
const maxIntentRevisions = 1000

type intent struct {
	delivery int64
	facts    uint64
	drift    string
}

// withIntentDrift returns the status with what today's labels and claims of the
// cluster would change. Nothing is written for that: it arrives with the next run.
// Where the payload cannot be read it stays as it is recorded, because what the
// cluster is judged by must not wait for this.
func (a *Applier) withIntentDrift(ctx context.Context, task *Task) v1alpha1.RolloutDeliveryStatus {
	delivery := task.Delivery
	status := delivery.Status
	if !task.Cluster.Exists {
		return status
	}
	key := types.NamespacedName{Namespace: delivery.Namespace, Name: delivery.Name}
	facts := fingerprint(task.Cluster)
	a.intents.mu.Lock()
	known, found := a.intents.known[key]
	a.intents.mu.Unlock()
	if !found || known.delivery != delivery.Spec.Delivery || known.facts != facts {
		drift, err := a.intentDrift(ctx, task)
		if err != nil {
			return status
		}
		known = intent{delivery: delivery.Spec.Delivery, facts: facts, drift: drift}
		a.intents.mu.Lock()
		if a.intents.known == nil {
			a.intents.known = map[types.NamespacedName]intent{}
		}
		a.intents.known[key] = known
		a.intents.mu.Unlock()
	}
	status.IntentDrift = known.drift
	return status
}

// intentDrift says which overrides match the cluster now and did not when it was
// written, or the other way round, and which values differ. A payload that is gone
// says nothing.
func (a *Applier) intentDrift(ctx context.Context, task *Task) (string, error) {
	rendered := task.Delivery.Status.Rendered
	overrides, err := a.overridesOf(ctx, task.Delivery)
	var missing *missingPayloadError
	if errors.As(err, &missing) || (err == nil && len(overrides) == 0) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	cluster := content.Cluster{Name: task.Cluster.Name, Labels: task.Cluster.Labels, Claims: task.Cluster.Claims}
	now, err := content.Select(overrides, cluster)
	if err != nil {
		return "", nil // It could not have been rendered.
	}
	var changes []string
	for _, name := range now {
		if !slices.Contains(rendered.Overrides, name) {
			changes = append(changes, fmt.Sprintf("override %q matches now", name))
		}
	}
	for _, name := range rendered.Overrides {
		if !slices.Contains(now, name) {
			changes = append(changes, fmt.Sprintf("override %q matches no longer", name))
		}
	}
	changes = append(changes, content.ChangedVariables(rendered.Variables, cluster)...)
	if len(changes) == 0 {
		return "", nil
	}
	return cut("labels or claims have changed since this was written, and the next run brings it: "+strings.Join(changes, "; "), v1alpha1.MaxMessageLength), nil
}

// overridesOf are the overrides of the revision that a delivery carries.
func (a *Applier) overridesOf(ctx context.Context, delivery *v1alpha1.RolloutDelivery) ([]v1alpha1.Override, error) {
	digest := delivery.Spec.Revision.Digest
	a.intents.mu.Lock()
	overrides, known := a.intents.overrides[digest]
	a.intents.mu.Unlock()
	if known {
		return overrides, nil
	}
	payload, err := a.payloads.Get(ctx, delivery.Spec.Rollout.Namespace, delivery.Spec.Revision)
	if err != nil {
		return nil, err
	}
	a.intents.mu.Lock()
	defer a.intents.mu.Unlock()
	if a.intents.overrides == nil || len(a.intents.overrides) >= maxIntentRevisions {
		a.intents.overrides = map[string][]v1alpha1.Override{}
	}
	a.intents.overrides[digest] = payload.Overrides
	return payload.Overrides, nil
}

// Forget drops what is remembered of a delivery that is gone.
func (a *Applier) Forget(delivery types.NamespacedName) {
	a.intents.mu.Lock()
	defer a.intents.mu.Unlock()
	delete(a.intents.known, delivery)
}

// fingerprint tells labels and claims of a cluster apart.
func fingerprint(cluster Cluster) uint64 {
	sum := fnv.New64a()
	for _, facts := range []map[string]string{cluster.Labels, cluster.Claims} {
		for _, key := range slices.Sorted(maps.Keys(facts)) {
			_, _ = fmt.Fprintf(sum, "%q=%q,", key, facts[key])
		}
		_, _ = sum.Write([]byte{';'})
	}
	return sum.Sum64()
}
