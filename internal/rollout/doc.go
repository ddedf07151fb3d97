// Package rollout decides. Next looks at a Snapshot of a rollout and its
// clusters and returns the Plan for this moment. It has no client, clock,
// logger or randomness; the same snapshot and time give the same plan.
package rollout
