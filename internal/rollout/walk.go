package rollout

import (
	"fmt"
	"time"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// walk leads the run through its groups and steps as far as it goes now.
func (d *decision) walk() {
	if !d.progressing() {
		return
	}
	if !d.mayGoForward() {
		d.keepSoak()
		d.waitForPermission()
		return
	}
	if d.walked() && d.admittedInAll() == 0 {
		d.run.StepStartedAt = nil // Everybody left: see endWalk.
	}
	if d.run.StepStartedAt == nil && !d.startGroup(0) {
		d.waitFor(v1alpha1.Waiting{Reason: v1alpha1.ReasonNoClusters, Message: "the placements select no cluster that could get the revision; the run begins with the first one that they select"})
		return
	}
	d.queueCandidates()
	// Each turn leaves a step or stops, so the number of steps bounds it.
	for range d.stepsInAll() {
		if d.walked() || !d.walkStep() {
			break
		}
		d.leaveStep()
	}
	d.admitIntoPassedGroups()
	if d.walked() {
		d.endWalk()
	}
}

// walked tells that every group is left and only the end of the run is missing.
func (d *decision) walked() bool {
	return d.run.Group == "" && d.run.StepStartedAt != nil
}

// position is the index of the group being walked; behind the last one once
// all are left, and before the first one as long as none has begun.
func (d *decision) position() int {
	switch {
	case d.run.StepStartedAt == nil:
		return -1
	case d.run.Group == "":
		return len(d.groups)
	default:
		return d.groupByName(d.run.Group)
	}
}

func (d *decision) admittedInAll() int {
	n := 0
	for i := range d.groups {
		n += d.groups[i].admitted
	}
	return n
}

func (d *decision) stepsInAll() int {
	n := 0
	for i := range d.groups {
		n += len(d.groups[i].steps)
	}
	return n
}

// queueCandidates lists who may be admitted, in order of their turn, and who
// occupies a place.
func (d *decision) queueCandidates() {
	for i := range d.groups {
		g := &d.groups[i]
		g.queue, g.occupied = nil, 0
		for _, m := range g.members {
			if m.admitted {
				if occupied, _ := d.occupies(m, g); occupied {
					g.occupied++
				}
			} else if m.admissible(d.run.Revision.Digest) {
				g.queue = append(g.queue, m)
			}
		}
		sortByTurn(g.queue, d.run.Revision.Digest)
	}
}

// walkStep admits what the step admits and tells whether it can be left.
func (d *decision) walkStep() bool {
	g := &d.groups[d.position()]
	if g.selectable == 0 {
		return true // Everybody left: an empty group is skipped with its gates.
	}
	target := d.stepTarget()
	if d.isGateShut(g, target-g.admitted) || d.admit(g, target-g.admitted) {
		d.run.SoakStartedAt = nil
		d.waitForEvidence(g)
		return false
	}
	if d.waitForEvidence(g) {
		d.run.SoakStartedAt = nil
		return false
	}
	if d.isPromoted() {
		return true
	}
	if target == 0 {
		d.waitFor(v1alpha1.Waiting{Reason: v1alpha1.ReasonShareReached, Since: d.run.StepStartedAt,
			Message: "the step admits no cluster and waits for somebody to let the run go on: " + d.hintPromote()})
		return false
	}
	if g.evidence == 0 {
		d.run.SoakStartedAt = nil
		d.waitForAnyEvidence(g)
		return false
	}
	return d.isSoaked(g)
}

func (d *decision) stepTarget() int {
	if d.run.StepTarget == nil {
		return 0
	}
	return int(*d.run.StepTarget)
}

// admit writes the run's revision to the next clusters of the queue, at most
// quota of them, as far as their windows are open and maxConcurrent has places.
// A cluster that is already unhealthy, or cannot be reached, needs no place. It
// tells whether some of the quota must wait, and says for what.
func (d *decision) admit(g *group, quota int) bool {
	quota = min(max(quota, 0), len(g.queue))
	free := concurrency(g.MaxConcurrentOrDefault(), len(g.members)) - g.occupied
	rest := g.queue[:0]
	var shut []*member
	waiting := 0
	for i, m := range g.queue {
		switch {
		case i >= quota:
			rest = append(rest, m)
			continue
		case d.isShut(m):
			shut, rest = append(shut, m), append(rest, m)
			continue
		case free <= 0 && !m.unreachable && !m.UnhealthyNow:
			waiting++
			rest = append(rest, m)
			continue
		}
		d.admitCluster(m, g)
		g.admitted++
		if !m.unreachable {
			g.occupied++
			free--
		}
	}
	g.queue = rest
	d.waitForWindows(g, shut)
	if waiting > 0 {
		d.waitForPlaces(g, waiting)
	}
	return waiting > 0 || len(shut) > 0
}

func (d *decision) admitCluster(m *member, g *group) {
	step := d.run.Step
	if d.run.Group != g.Name {
		step = int32(len(g.steps)) // A late joiner of a group already left.
	}
	if d.lease.group != g || d.lease.step != step {
		d.lease.group, d.lease.step, d.lease.left = g, step, d.timeLeft(g, step)
	}
	cause := v1alpha1.Cause{
		Reason:  v1alpha1.ReasonAdmitted,
		Message: fmt.Sprintf("step %d of group %q admits it to run %d", step, g.Name, d.run.Number),
	}
	d.write(m, intent{
		revision:  d.run.Revision,
		direction: v1alpha1.DirectionForward,
		group:     g.Name,
		step:      step,
		fastLease: d.lease.left,
	}, cause)
	m.admitted, m.proven, m.fresh, m.failure = true, false, false, nil
	m.excused, m.blocked = m.unreachable, m.Blocked
}

// admitIntoPassedGroups lets clusters in that joined a group after it was left
// (law 15).
func (d *decision) admitIntoPassedGroups() {
	for i := range d.groups[:max(0, d.position())] {
		g := &d.groups[i]
		d.admit(g, len(g.queue))
	}
}

// isSoaked keeps the soak clock of a step whose share is written and proven,
// and tells whether the soak is served.
func (d *decision) isSoaked(g *group) bool {
	d.runSoakClock(g)
	soak := time.Duration(g.steps[d.stepIndex(g)].SoakSeconds) * time.Second
	end := d.run.SoakStartedAt.Add(soak)
	if d.now.Before(end) {
		d.wake(end)
		until := *d.run.SoakStartedAt
		until.Time = end
		d.waitFor(v1alpha1.Waiting{Reason: v1alpha1.ReasonSoaking, Since: d.run.SoakStartedAt, Until: &until,
			Message: fmt.Sprintf("soaks for %s; every cluster must stay proven, and nobody has to act", soak)})
		return false
	}
	return !d.waitForRenewals(g, end)
}

// runSoakClock starts the soak now, or restarts it if a cluster lost its proof
// and regained it unseen.
func (d *decision) runSoakClock(g *group) {
	if d.run.SoakStartedAt == nil {
		d.run.SoakStartedAt = d.stampPointer()
		return
	}
	for _, m := range g.members {
		if !m.waitedFor() || !m.proven {
			continue
		}
		if since := m.status.HealthySince; since.After(d.run.SoakStartedAt.Time) && !since.After(d.now) {
			d.run.SoakStartedAt = since.DeepCopy()
		}
	}
}

// keepSoak is what goes on while the walk must not: evidence counts, so a soak
// begins, goes on or is reset as ever, but no step is left.
func (d *decision) keepSoak() {
	if d.position() < 0 || d.walked() {
		return
	}
	g := &d.groups[d.position()]
	shareIsOpen := false
	for _, m := range g.members {
		if m.waitedFor() && !m.proven {
			d.run.SoakStartedAt = nil
			return
		}
		shareIsOpen = shareIsOpen || m.admissible(d.run.Revision.Digest)
	}
	if d.run.SoakStartedAt == nil {
		// Incomplete decisions do not tell whether the share is written.
		written := d.in.Membership.Complete && (!shareIsOpen || g.admitted >= d.stepTarget())
		if !written || g.evidence == 0 || d.stepTarget() == 0 {
			return
		}
	}
	d.runSoakClock(g)
}

// leaveStep starts the next step of the group, or of the next group that has
// clusters; behind the last one the walk is over.
func (d *decision) leaveStep() {
	at := d.position()
	g := &d.groups[at]
	d.run.SoakStartedAt, d.run.Promotion = nil, nil
	if next := d.stepIndex(g) + 1; next < len(g.steps) && g.selectable > 0 {
		d.startStep(g, next)
		return
	}
	if !d.startGroup(at + 1) {
		d.run.Group, d.run.Step, d.run.StepTarget = "", 0, nil
	}
}

// startGroup starts the first step of the first group from the given one on
// that has clusters. It tells whether there is one.
func (d *decision) startGroup(from int) bool {
	for i := from; i < len(d.groups); i++ {
		if g := &d.groups[i]; g.selectable > 0 {
			d.startStep(g, 0)
			return true
		}
	}
	return false
}

// startStep fixes the step's target (law 1).
func (d *decision) startStep(g *group, index int) {
	target := bounded32(int64(stepTarget(g.steps[index], len(g.members))))
	d.run.Group, d.run.Step = g.Name, int32(index)+1
	d.run.StepTarget = &target
	d.run.StepStartedAt = d.stampPointer()
	d.note(EventStepStarted, fmt.Sprintf("run %d of %s: step %d of %d of group %q, %d of %s", d.run.Number, d.run.Revision.Version, d.run.Step, len(g.steps), g.Name, target, clusters(len(g.members))))
}

func (d *decision) stepIndex(g *group) int {
	return min(max(int(d.run.Step)-1, 0), len(g.steps)-1)
}

// endWalk ends the run once every cluster admitted anywhere is proven (law 9).
func (d *decision) endWalk() {
	open, admitted, proven := false, d.admittedInAll(), 0
	for i := range d.groups {
		g := &d.groups[i]
		if len(g.queue) > 0 {
			open = true
		}
		if d.waitForEvidence(g) {
			open = true
		}
		for _, m := range g.members {
			if m.admitted && m.proven && m.failure == nil {
				proven++
			}
		}
	}
	switch {
	case open:
	case admitted == 0:
		// Nobody is left who has shown anything, so whoever comes next has no
		// forerunner: the walk begins again, perhaps with a blocked cluster.
		if d.run.StepStartedAt = nil; d.startGroup(0) {
			d.walkStep()
			return
		}
		d.waitFor(v1alpha1.Waiting{Reason: v1alpha1.ReasonNoClusters, Message: "no cluster of the run is left; it begins again with the first one that the placements select"})
	case proven == 0:
		d.withdrawAdmissions()
		d.fail(v1alpha1.Cause{
			Reason:  v1alpha1.ReasonNoClusterProven,
			Message: fmt.Sprintf("every group was walked, and none of %s was proven healthy on %s", clusters(admitted), d.run.Revision.Version),
		})
	default:
		d.succeed()
	}
}

// withdrawAdmissions takes back what this plan was about to write for a run
// that turns out to have failed: clusters that cannot be reached, which nobody
// waits for.
func (d *decision) withdrawAdmissions() {
	d.plan.Writes = nil // Only the walk has written so far.
	for i := range d.members {
		if m := &d.members[i]; m.admitted && m.planned {
			m.planned, m.admitted, m.excused = false, false, false
			d.takeStanding(m)
		}
	}
}

// timeLeft is how long soaks and deadlines may still take from the given step
// to the end of the run; the agent renews its Lease faster for that long.
func (d *decision) timeLeft(from *group, step int32) time.Duration {
	var sum time.Duration
	counts := false
	for i := range d.groups {
		g := &d.groups[i]
		for s := range g.steps {
			counts = counts || (g.Name == from.Name && int32(s)+1 >= step)
			if counts && len(g.members) > 0 {
				sum += time.Duration(g.steps[s].SoakSeconds)*time.Second + d.in.Strategy.ProgressDeadline()
			}
		}
	}
	return sum
}
