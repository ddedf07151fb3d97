package v1alpha1

// The condition types of a FleetRollout. Each has one writer, and its reasons
// are the constants below it.
const (
	// ConditionReady is the summary: True while every selected cluster is
	// proven on the revision it shall have, and that is the template's. Its
	// reason is ReasonSucceeded, or the reason of what is in the way.
	ConditionReady = "Ready"

	// ConditionProgressing is True while a run or a rollback goes on.
	ConditionProgressing = "Progressing"

	// ConditionStalled is present, and True, only while nothing goes on
	// without somebody acting.
	ConditionStalled = "Stalled"

	// ConditionPlacementResolved is True while the decisions of every
	// placement were read completely.
	ConditionPlacementResolved = "PlacementResolved"

	// ConditionRolledBack is present once a rollback has started: Unknown
	// while it goes on, True when every covered cluster has proven the target,
	// False while it is incomplete.
	ConditionRolledBack = "RolledBack"
)

// The reasons of Ready, Progressing and Stalled, and of what a run waits for.
const (
	// ReasonSucceeded surfaces when the last run Succeeded.
	ReasonSucceeded = "Succeeded"
	// ReasonProgressing surfaces while a step is being written.
	ReasonProgressing = "Progressing"
	// ReasonSoaking surfaces while a step soaks.
	ReasonSoaking = "Soaking"
	// ReasonWaitingForEvidence surfaces while written clusters are not proven.
	ReasonWaitingForEvidence = "WaitingForEvidence"
	// ReasonWaitingForRenewal surfaces when a soak is served and an agent has
	// not been seen alive near its end.
	ReasonWaitingForRenewal = "WaitingForRenewal"
	// ReasonNoEvidence surfaces when no admitted cluster of a step is proven,
	// nor counted failed.
	ReasonNoEvidence = "NoEvidence"
	// ReasonShareReached surfaces when a step admits no cluster, and somebody
	// must let the run go on.
	ReasonShareReached = "ShareReached"
	// ReasonMaxConcurrent surfaces while clusters wait for a place.
	ReasonMaxConcurrent = "MaxConcurrent"
	// ReasonPaused surfaces while the rollout is paused.
	ReasonPaused = "Paused"
	// ReasonHalted surfaces when the budget is spent with mode Manual.
	ReasonHalted = "Halted"
	// ReasonBudgetSpent surfaces when more clusters failed than the budget allows.
	ReasonBudgetSpent = "BudgetSpent"
	// ReasonRollingBack surfaces while a rollback goes on.
	ReasonRollingBack = "RollingBack"
	// ReasonRolledBack surfaces when a rollback is complete: the template's
	// revision is known to be bad, and the fleet is on the stable one.
	ReasonRolledBack = "RolledBack"
	// ReasonRollbackIncomplete surfaces when clusters did not prove the target
	// in time, or cannot be reached.
	ReasonRollbackIncomplete = "RollbackIncomplete"
	// ReasonNoRollbackTarget surfaces when a run failed and no revision ever
	// succeeded. Workloads are left alone.
	ReasonNoRollbackTarget = "NoRollbackTarget"
	// ReasonKnownBad surfaces when the template holds a revision that failed
	// before. Only a changed template starts a new run.
	ReasonKnownBad = "KnownBad"
	// ReasonNoClusterProven surfaces when a run reached its end and proved no
	// cluster.
	ReasonNoClusterProven = "NoClusterProven"
	// ReasonSuperseded surfaces when a newer revision took the place of a run.
	ReasonSuperseded = "Superseded"
	// ReasonReverted surfaces when the template was set back to the stable revision.
	ReasonReverted = "Reverted"
	// ReasonInvalidSpec surfaces when the spec cannot be frozen into a revision.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonRevisionMissing surfaces when the payload of a needed revision is
	// gone or does not match its digest.
	ReasonRevisionMissing = "RevisionMissing"
	// ReasonClustersNotReady surfaces when the run Succeeded and some clusters
	// are not, or no longer, healthy.
	ReasonClustersNotReady = "ClustersNotReady"
	// ReasonWaitingForApproval surfaces while a step waits for somebody to
	// approve it.
	ReasonWaitingForApproval = "WaitingForApproval"
	// ReasonRejected surfaces while a step is shut because somebody rejected it.
	ReasonRejected = "Rejected"
	// ReasonOutsideWindow surfaces while clusters wait for their maintenance
	// window to open.
	ReasonOutsideWindow = "OutsideWindow"
	// ReasonFrozen surfaces while a freeze holds forward writes back.
	ReasonFrozen = "Frozen"
	// ReasonAborted surfaces when somebody aborted the run.
	ReasonAborted = "Aborted"
	// ReasonRollbackRequested surfaces when somebody ordered a rollback.
	ReasonRollbackRequested = "RollbackRequested"
	// ReasonUnmatched surfaces when strategy.unmatched is Block and no group
	// selects some clusters.
	ReasonUnmatched = "Unmatched"
	// ReasonDeleting surfaces while the rollout is being deleted.
	ReasonDeleting = "Deleting"
)

// The reasons of a write of intent to a cluster, beside RollingBack.
const (
	// ReasonAdmitted surfaces when a step admits a cluster to the run.
	ReasonAdmitted = "Admitted"
	// ReasonJoined surfaces when a cluster that has nothing of the rollout yet
	// gets the stable revision.
	ReasonJoined = "Joined"
	// ReasonCaughtUp surfaces when a cluster that missed a run, because it was
	// blocked or not selected then, gets the stable revision.
	ReasonCaughtUp = "CaughtUp"
	// ReasonSupersededUnhealthy surfaces when a cluster goes back because it is
	// unhealthy on a superseded revision and its turn has not come.
	ReasonSupersededUnhealthy = "SupersededUnhealthy"
)

// The reasons of PlacementResolved. They also appear in Ready.
const (
	// ReasonResolved surfaces when all decisions were read completely.
	ReasonResolved = "Resolved"
	// ReasonPlacementNotFound surfaces when a named Placement does not exist.
	ReasonPlacementNotFound = "PlacementNotFound"
	// ReasonDecisionsIncomplete surfaces when the decisions of a Placement are
	// not, or not yet, complete.
	ReasonDecisionsIncomplete = "DecisionsIncomplete"
	// ReasonPlacementMisconfigured surfaces when OCM says that a Placement is
	// misconfigured, or has no bound or intersecting ManagedClusterSet.
	ReasonPlacementMisconfigured = "PlacementMisconfigured"
	// ReasonNoClusters surfaces when the decisions are complete and empty.
	ReasonNoClusters = "NoClusters"
)

// The reasons of a delivery's state and of problems.
const (
	// ReasonWritePending surfaces before the ManifestWork is written.
	ReasonWritePending = "WritePending"
	// ReasonWriteRefused surfaces when the hub refuses the ManifestWork.
	ReasonWriteRefused = "WriteRefused"
	// ReasonApplying surfaces while the work agent has not applied the work's
	// present generation.
	ReasonApplying = "Applying"
	// ReasonSyncLate surfaces when the work agent has not applied the content
	// within health.signals.maxSyncLatencySeconds of its write.
	ReasonSyncLate = "SyncLate"
	// ReasonApplyFailed surfaces when the work agent reports that an object
	// could not be applied. It retries by itself.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonPreflight surfaces while the agent looks at the cluster before the
	// first work that adds objects is written.
	ReasonPreflight = "Preflight"
	// ReasonAPINotServed surfaces when the cluster does not serve an API of
	// spec.requires, or one that the content needs.
	ReasonAPINotServed = "APINotServed"
	// ReasonOverrideFailed surfaces when the content cannot be made for a cluster:
	// a variable has no value there, or a patch does not fit.
	ReasonOverrideFailed = "OverrideFailed"
	// ReasonSourceMissing surfaces when a ConfigMap or Secret of manifestsFrom, or
	// its key, does not exist.
	ReasonSourceMissing = "SourceMissing"
	// ReasonDropping surfaces while objects of the earlier content are dropped.
	ReasonDropping = "Dropping"
	// ReasonAwaitingReport surfaces while the agent has not reported on this
	// delivery.
	ReasonAwaitingReport = "AwaitingReport"
	// ReasonAgentMissing surfaces when the addon is not enabled on the cluster,
	// or its agent never renewed its Lease.
	ReasonAgentMissing = "AgentMissing"
	// ReasonAgentSilent surfaces when the agent stopped to renew its Lease.
	ReasonAgentSilent = "AgentSilent"
	// ReasonClusterUnavailable surfaces when the ManagedCluster is not Available.
	ReasonClusterUnavailable = "ClusterUnavailable"
	// ReasonDeadlineExceeded surfaces when a cluster was not proven in time.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonUnhealthyTooLong surfaces when a proven cluster was unhealthy longer
	// than rollback.unhealthySeconds.
	ReasonUnhealthyTooLong = "UnhealthyTooLong"
	// ReasonLostTooLong surfaces when a cluster was lost longer than the
	// progress deadline.
	ReasonLostTooLong = "LostTooLong"
	// ReasonHeldByOther surfaces when another rollout holds an object.
	ReasonHeldByOther = "HeldByOther"
	// ReasonForeignObject surfaces when an object of our name in a cluster
	// namespace is not ours.
	ReasonForeignObject = "ForeignObject"
	// ReasonTooLarge surfaces when the content exceeds the ManifestWork limit.
	ReasonTooLarge = "TooLarge"
	// ReasonLeaving surfaces while a cluster left the decisions and is not yet removed.
	ReasonLeaving = "Leaving"
	// ReasonClusterDeleting surfaces while the ManagedCluster is being deleted.
	ReasonClusterDeleting = "ClusterDeleting"
	// ReasonRemoving surfaces while the works are removed.
	ReasonRemoving = "Removing"
)

// The condition types of a RolloutAction.
const (
	// ConditionAccepted tells whether the order is carried out: True once its
	// effect is stored in the rollout, False if it is void.
	ConditionAccepted = "Accepted"
	// ConditionComplete tells whether what was ordered is done. It is there only
	// for an accepted order.
	ConditionComplete = "Complete"
)

// The reasons of Accepted and Complete.
const (
	// ReasonAccepted surfaces when the order has taken effect.
	ReasonAccepted = "Accepted"
	// ReasonNoEffect surfaces when the order changes nothing, because what it
	// asks for is so already: an approved step is approved again, a rollout with
	// nothing running is aborted.
	ReasonNoEffect = "NoEffect"
	// ReasonVoid surfaces when the order names a revision, attempt, group or
	// step that is not, or no longer, the present one.
	ReasonVoid = "Void"
	// ReasonRolloutNotFound surfaces when there is no such FleetRollout.
	ReasonRolloutNotFound = "RolloutNotFound"
	// ReasonTargetNotAllowed surfaces when a Rollback names a revision that
	// cannot be gone back to: unknown, never succeeded, or its payload missing.
	ReasonTargetNotAllowed = "TargetNotAllowed"
	// ReasonRollbackOpen surfaces when a Retry is refused because a rollback
	// still goes on.
	ReasonRollbackOpen = "RollbackOpen"
	// ReasonNotRetryable surfaces when a Retry finds a revision that neither
	// failed nor is halted.
	ReasonNotRetryable = "NotRetryable"
	// ReasonDone surfaces when what was ordered is done.
	ReasonDone = "Done"
	// ReasonOvertaken surfaces when something else ended what was ordered, such
	// as a newer revision.
	ReasonOvertaken = "Overtaken"
)
