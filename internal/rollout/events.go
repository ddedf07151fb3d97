package rollout

import "fmt"

// The reasons of events. Each is about something that has happened: it is
// derived from a difference between the persisted facts and those of the plan,
// so a restart does not tell it again.
const (
	EventRunStarted         = "RunStarted"
	EventStepStarted        = "StepStarted"
	EventRunPaused          = "RunPaused"
	EventRunResumed         = "RunResumed"
	EventRunHalted          = "RunHalted"
	EventRunFailed          = "RunFailed"
	EventRunSucceeded       = "RunSucceeded"
	EventRunSuperseded      = "RunSuperseded"
	EventClusterFailed      = "ClusterFailed"
	EventBudgetSpent        = "BudgetSpent"
	EventNoRollbackTarget   = "NoRollbackTarget"
	EventRollbackStarted    = "RollbackStarted"
	EventRollbackComplete   = "RollbackComplete"
	EventRollbackIncomplete = "RollbackIncomplete"
	EventRollbackSuperseded = "RollbackSuperseded"
	EventClustersRemoved    = "ClustersRemoved"
	EventActionAccepted     = "ActionAccepted"
	EventActionRefused      = "ActionRefused"
	EventStableSet          = "StableSet"
)

// singleFailures is how many failures of one plan are told one by one.
const singleFailures = 5

func (d *decision) note(reason, message string) {
	d.plan.Events = append(d.plan.Events, Event{Reason: reason, Message: clip(message)})
}

func (d *decision) warn(reason, message string) {
	d.plan.Events = append(d.plan.Events, Event{Warning: true, Reason: reason, Message: clip(message)})
}

// tellFailures tells who counts as failed from now on.
func (d *decision) tellFailures() {
	var more nameList
	told := 0
	for i := range d.members {
		m := &d.members[i]
		if !m.admitted || m.failure == nil || m.spec.Failure != nil {
			continue
		}
		if told++; told <= singleFailures {
			d.warn(EventClusterFailed, fmt.Sprintf("cluster %q failed: %s: %s", m.Name, m.failure.Reason, m.failure.Message))
		} else {
			more.add(m.Name)
		}
	}
	if more.count > 0 {
		d.warn(EventClusterFailed, fmt.Sprintf("%s more failed: %s", clusters(more.count), more.String()))
	}
}

// recordFailures marks on the deliveries who counts as failed from now on. A
// cluster that this plan writes anew loses the mark with its old intent.
func (d *decision) recordFailures() {
	for i := range d.members {
		m := &d.members[i]
		if m.admitted && !m.planned && m.failure != nil && m.spec.Failure == nil {
			d.plan.Failures = append(d.plan.Failures, Failure{Cluster: m.Name, Cause: *m.failure})
		}
	}
}

// recordRemovals tells who is removed.
func (d *decision) recordRemovals() {
	var names nameList
	for i := range d.plan.Removals {
		names.add(d.plan.Removals[i].Cluster)
	}
	if names.count > 0 {
		d.note(EventClustersRemoved, fmt.Sprintf("removing from %s: %s; %s", clusters(names.count), names.String(), d.plan.Removals[0].Cause.Message))
	}
}
