// Package rollout decides. Next looks at a Snapshot of a rollout and its
// clusters and returns the Plan for this moment. It has no client, clock,
// logger or randomness; the same snapshot and time give the same plan.
//
// # Algorithm
//
// Next recomputes everything from what is persisted; it knows no "previous
// call". It works on copies of the facts, in this order:
//
//  1. The run. A template that changed ends the going run at once and starts
//     the next one, or, set back to the stable revision, none.
//  2. The clusters. Each is sorted into its group and gets its standing:
//     admitted to the run, proven, failed, excused from being waited for.
//  3. Failures. Deadlines are applied and the budget is compared; over budget
//     the run ends and a rollback record is opened, or the run halts.
//  4. The walk. The step being walked admits clusters up to its target, waits
//     for their proof, soaks, and is left; the next step follows in the same
//     call until one has something to wait for.
//  5. Leaving, rollback, joining. What a cluster shall have is the first that
//     applies of: admitted to the run, covered by an open rollback record,
//     unhealthy on a superseded revision, nothing yet, what it has.
//  6. The account: waiting, counts, judgements, verdicts, events, and when time
//     alone changes any of it.
//
// # Invariants
//
//   - A cluster belongs to the run if its delivery says so, not because of the
//     labels or the order of lists: the admitted set never shrinks by an edit.
//   - A step never admits more clusters than its target, fixed at its start.
//   - No forward write while paused, halted or deleting, nor while the
//     placement decisions are incomplete.
//   - A later group gets nothing before every step of an earlier one is left.
//   - Only the stable revision is ever put back.
//   - A plan whose facts are persisted and whose writes are done is followed by
//     a plan without writes.
//
// The cursor of a run is in its status: before the first step StepStartedAt is
// unset; while a step is walked Group and Step name it; when every group is
// left and only the end of the run is missing, Group is empty and StepStartedAt
// set. A run that is left by all its clusters before its end begins again.
package rollout
