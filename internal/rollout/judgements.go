package rollout

import (
	"fmt"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// judgements says what each cluster counts as, in order of name.
func (d *decision) judgements() []Judgement {
	list := make([]Judgement, 0, len(d.members))
	for i := range d.members {
		m := &d.members[i]
		j := Judgement{
			Cluster: m.Name,
			Group:   d.groups[m.group].Name,
			Member:  m.belongs,
			Healthy: m.proven && !m.planned,
			State:   d.stateOf(m),
		}
		if d.run != nil && m.hasWork() && !m.planned {
			j.Updated = m.isUpdated(d.run.Revision.Digest)
		}
		j.Cause = d.troubleOf(m, j.State)
		list = append(list, j)
	}
	return list
}

// holds tells that a digest is what the cluster shall have.
func (m *member) holds(digest string) bool {
	return m.spec != nil && m.spec.Revision.Digest == digest
}

// stateOf is the state that a cluster counts in.
func (d *decision) stateOf(m *member) v1alpha1.DeliveryState {
	switch {
	case m.leaves:
		return v1alpha1.StateRemoving
	case m.spec != nil && m.spec.Removal != "" && !m.returns():
		return v1alpha1.StateRemoving
	case m.admitted && m.failure != nil:
		return v1alpha1.StateFailed
	case m.blocked != nil, m.noGroup != nil && m.record < 0:
		return v1alpha1.StateBlocked
	case m.unreachable:
		return v1alpha1.StateUnreachable
	case m.planned, !m.fresh, m.status.State == "":
		return v1alpha1.StatePending
	case m.status.State == v1alpha1.StateHealthy && !m.proven:
		return v1alpha1.StateProgressing
	}
	return m.status.State
}

// troubleOf names what is wrong with a cluster and what to do; nil if nothing
// is.
func (d *decision) troubleOf(m *member, state v1alpha1.DeliveryState) *v1alpha1.Cause {
	switch {
	case m.Deleting:
		return &v1alpha1.Cause{Reason: v1alpha1.ReasonClusterDeleting, Message: "its ManagedCluster is being deleted; it gets no writes"}
	case state == v1alpha1.StateRemoving:
		return d.removalTrouble(m)
	case m.failure != nil:
		return m.failure
	case m.late != nil:
		return m.late
	case m.blocked != nil:
		return m.blocked
	case m.noGroup != nil && m.record < 0:
		return m.noGroup
	case m.unreachable:
		return unreachableCause(m)
	case d.held == nil && m.absentSince != nil:
		return &v1alpha1.Cause{Reason: v1alpha1.ReasonLeaving,
			Message: fmt.Sprintf("no placement selects it since %s; it is removed once that has been so for %s", m.absentSince.UTC().Format("15:04:05Z"), stableAbsence)}
	case d.held != nil && m.absentSince != nil:
		return d.held
	case m.shut != nil && !m.planned:
		return m.shut
	case m.planned || !m.fresh:
		return nil
	}
	return m.deliveryTrouble()
}

// deliveryTrouble is what the delivery itself says, where that is more than
// being on its way.
func (m *member) deliveryTrouble() *v1alpha1.Cause {
	s := m.status
	isTrouble := s.State == v1alpha1.StateDegraded || s.State == v1alpha1.StateFailed || s.State == v1alpha1.StateUnreachable || m.suspended()
	switch s.Reason {
	case v1alpha1.ReasonAgentMissing, v1alpha1.ReasonApplyFailed, v1alpha1.ReasonWriteRefused, v1alpha1.ReasonForeignObject, v1alpha1.ReasonTooLarge:
		isTrouble = true
	}
	if !isTrouble {
		return nil
	}
	reason := s.Reason
	if reason == "" {
		reason = string(s.State)
	}
	return &v1alpha1.Cause{Reason: reason, Message: clip(s.Message)}
}

// removalTrouble names the blocker of a removal.
func (d *decision) removalTrouble(m *member) *v1alpha1.Cause {
	if m.unreachable {
		return &v1alpha1.Cause{Reason: v1alpha1.ReasonRemoving,
			Message: clip(fmt.Sprintf("its works cannot be removed while it cannot be reached: %s. It goes on when the cluster returns; if it is gone for good: kubectl delete managedcluster %s", unreachableCause(m).Message, m.Name))}
	}
	return &v1alpha1.Cause{Reason: v1alpha1.ReasonRemoving, Message: "its works are being removed"}
}
