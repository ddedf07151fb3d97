// Package revision freezes the content of a FleetRollout into revisions, finds
// what a change of revision must not do, and retains the history. It has no
// client and no clock.
package revision
