// Package delivery brings one rollout to one managed cluster and judges how it
// fares there.
//
// Apply writes: it records what a delivery renders to in the delivery's status,
// then writes the ManifestWorks, in two phases where content is dropped. Each
// step begins with a look at what is there, so that a manager that is killed
// between two of them goes on where the other stopped, and one with nothing to
// change writes nothing.
//
// Judge reads: it turns the works as the hub has them, the agent's report and
// signs of life into the delivery's new status. It is pure and knows the time
// from its Observation alone.
package delivery
