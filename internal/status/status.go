// Package status tells people and programs how a rollout stands. It turns a
// Snapshot and its Plan into FleetRollout.status, from scratch each time: what
// was written before only keeps the times of transitions. It has no client,
// clock or logger.
package status

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/rollout"
)

// Input is what a status is made of.
type Input struct {
	// Previous status, for the times of transitions.
	Previous v1alpha1.FleetRolloutStatus

	// Snapshot that was planned from.
	Snapshot rollout.Snapshot

	// Plan for it.
	Plan rollout.Plan

	// Refusals are clusters whose RolloutDelivery the API refused to write when
	// it was last tried, and why.
	Refusals map[string]v1alpha1.Cause

	// Now is the hub's clock.
	Now time.Time
}

// Project returns the status: the plan's facts as they are to be persisted, and
// the conditions, counters and problems that follow from them. The result
// shares no memory with the input.
func Project(in Input) v1alpha1.FleetRolloutStatus {
	status := facts(in)
	status.ObservedGeneration = in.Snapshot.Generation
	status.Clusters = counters(in)
	status.Problems = problems(in)
	status.Conditions = conditions(in)
	return status
}

// facts are the parts of the status that the planner reads again. Texts are
// bounded: one message too long would make the API refuse all of it.
func facts(in Input) v1alpha1.FleetRolloutStatus {
	status := v1alpha1.FleetRolloutStatus{
		Run:            in.Plan.Run.DeepCopy(),
		StableRevision: in.Plan.Stable.DeepCopy(),
		Placements:     append([]v1alpha1.ResolvedPlacement(nil), in.Plan.Placements...),

		RemovalConfirmation: in.Plan.RemovalConfirmation.DeepCopy(),
		HandledActions:      slices.Clone(in.Plan.HandledActions),
	}
	if current := in.Snapshot.Current; current != nil {
		status.CurrentRevision = current.RevisionReference.DeepCopy()
	} else if in.Snapshot.Deleting {
		// Nothing is frozen any more; what was current stays readable.
		status.CurrentRevision = in.Previous.CurrentRevision.DeepCopy()
	}
	for i := range in.Plan.Rollbacks {
		record := in.Plan.Rollbacks[i].DeepCopy()
		record.Cause.Message = Bounded(record.Cause.Message)
		status.Rollbacks = append(status.Rollbacks, *record)
	}
	if run := status.Run; run != nil {
		if run.HaltCause != nil {
			run.HaltCause.Message = Bounded(run.HaltCause.Message)
		}
		if len(run.WaitingFor) > v1alpha1.MaxWaiting {
			run.WaitingFor = run.WaitingFor[:v1alpha1.MaxWaiting]
		}
		for i := range run.WaitingFor {
			run.WaitingFor[i].Message = Bounded(run.WaitingFor[i].Message)
		}
	}
	return status
}

// SameFacts tells whether two statuses differ at most in what the planner never
// reads again: counters, problems, and the words of what is waited for. Such a
// difference may be written a moment later, together with the next one; a fact,
// or a condition's change of status, may not.
func SameFacts(a, b v1alpha1.FleetRolloutStatus) bool {
	return equal(withoutWords(a), withoutWords(b))
}

// Equal tells whether two statuses say the same.
func Equal(a, b v1alpha1.FleetRolloutStatus) bool { return equal(a, b) }

func withoutWords(status v1alpha1.FleetRolloutStatus) v1alpha1.FleetRolloutStatus {
	status.Clusters = v1alpha1.ClusterCounts{}
	status.Problems = nil
	status.Run = status.Run.DeepCopy()
	if status.Run != nil {
		status.Run.WaitingFor = nil
		status.Run.Groups = nil
	}
	rollbacks := status.Rollbacks
	status.Rollbacks = nil
	for _, record := range rollbacks {
		record.Restored = 0
		status.Rollbacks = append(status.Rollbacks, record)
	}
	conditions := status.Conditions
	status.Conditions = nil
	for _, condition := range conditions {
		status.Conditions = append(status.Conditions, metav1.Condition{Type: condition.Type, Status: condition.Status})
	}
	return status
}
