package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// clip cuts a message to what the API takes, at a whole character.
func clip(message string) string {
	const mark = "..."
	if len(message) <= v1alpha1.MaxMessageLength {
		return message
	}
	cut := v1alpha1.MaxMessageLength - len(mark)
	for cut > 0 && !utf8.RuneStart(message[cut]) {
		cut--
	}
	return message[:cut] + mark
}

// short cuts what one of several clusters has to say, so that a message has
// room for the others.
func short(message string) string {
	const most = 200
	if len(message) <= most {
		return message
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(message[cut]) {
		cut--
	}
	return message[:cut] + "..."
}

// nameList names the first few of many.
type nameList struct {
	names [3]string
	count int
}

func (l *nameList) add(name string) {
	if l.count < len(l.names) {
		l.names[l.count] = name
	}
	l.count++
}

func (l *nameList) String() string {
	shown := strings.Join(l.names[:min(l.count, len(l.names))], ", ")
	if more := l.count - len(l.names); more > 0 {
		return fmt.Sprintf("%s and %d more", shown, more)
	}
	return shown
}

func clusters(n int) string {
	if n == 1 {
		return "1 cluster"
	}
	return fmt.Sprintf("%d clusters", n)
}

// allClusters begins a sentence about all clusters.
func allClusters(n int) string {
	if n == 1 {
		return "the one cluster is"
	}
	return fmt.Sprintf("all %d clusters are", n)
}

// waitFor adds one thing that the run waits for, as far as there is room.
func (d *decision) waitFor(w v1alpha1.Waiting) {
	if len(d.waiting) < v1alpha1.MaxWaiting {
		w.Message = clip(w.Message)
		d.waiting = append(d.waiting, w)
	}
}

// waitForPermission says what keeps the run from going forward at all.
func (d *decision) waitForPermission() {
	switch {
	case d.isPaused():
		d.waitForResume()
	case !d.in.Membership.Complete:
		cause := d.incompleteCause()
		d.waitFor(v1alpha1.Waiting{Reason: cause.Reason,
			Message: "no joins, removals or forward writes until the placement decisions can be read completely: " + cause.Message})
	}
}

// waitForPlaces says that clusters wait for maxConcurrent, and wakes when time
// frees a place.
func (d *decision) waitForPlaces(g *group, left int) {
	for _, m := range g.members {
		if m.admitted && !m.planned {
			if occupied, free := d.occupies(m, g); occupied && !free.IsZero() {
				d.wake(free)
			}
		}
	}
	bound := concurrency(g.MaxConcurrentOrDefault(), len(g.members))
	d.waitFor(v1alpha1.Waiting{Reason: v1alpha1.ReasonMaxConcurrent,
		Message: fmt.Sprintf("%s of group %q wait for a place: maxConcurrent lets %d change at the same time, until each has been proven for minSuccessSeconds (%d) or has failed; nobody has to act", clusters(left), g.Name, bound, g.MinSuccessSeconds)})
}

// waitForEvidence names the clusters whose proof is missing, and tells whether
// there are any.
func (d *decision) waitForEvidence(g *group) bool {
	missing := false
	for _, m := range g.members {
		if !m.waitedFor() || m.proven {
			continue
		}
		missing = true
		if len(d.waiting) >= v1alpha1.MaxWaiting {
			break
		}
		d.waitFor(d.missingProof(m))
	}
	return missing
}

// missingProof says what is missing of one cluster, and until when at the latest.
func (d *decision) missingProof(m *member) v1alpha1.Waiting {
	w := v1alpha1.Waiting{Reason: v1alpha1.ReasonWaitingForEvidence, Cluster: m.Name}
	switch {
	case m.planned:
		w.Message = "its revision is being written"
	case m.suspended():
		w.Reason, w.Message = reasonSuspended, "its content is suspended, which has no deadline; resume it on the cluster: "+m.status.Message
	case m.unreachable:
		cause := unreachableCause(m)
		w.Reason, w.Message = cause.Reason, "lost after it took the revision: "+cause.Message
		if m.fresh {
			w.Since = m.status.LostSince
		}
	case !m.fresh:
		w.Message = "its revision is about to be written to a ManifestWork"
	default:
		w.Message, w.Since = stateInWords(m.status), m.status.WrittenAt
		if m.status.ProvenAt == nil && m.status.WrittenAt != nil && d.run.PausedAt == nil && !m.spec.UnreachableAtWrite {
			_, pausedThen := d.deadlineOrigin(m)
			end := m.status.WrittenAt.Add(d.in.Strategy.ProgressDeadline() + d.paused(d.now) - pausedThen + uncounted(m))
			until := metav1.NewMicroTime(end)
			w.Until = &until
		}
	}
	return w
}

// waitForAnyEvidence says that nothing in the group has shown anything yet.
func (d *decision) waitForAnyEvidence(g *group) {
	var names nameList
	for _, m := range g.members {
		if m.admitted || (m.Selected && m.blocked != nil) {
			names.add(m.Name)
		}
	}
	d.waitFor(v1alpha1.Waiting{Reason: v1alpha1.ReasonNoEvidence,
		Message: fmt.Sprintf("no cluster of group %q has proven %s or failed with it yet, so the step is not left. Make one of these reachable, or fix what blocks it: %s. To go on without any evidence: %s", g.Name, d.run.Revision.Version, names.String(), d.hintPromote())})
}

// The bounds of how soon a missing sign of life is looked for again.
const (
	defaultLeaseInterval = 60 * time.Second
	shortestRenewalWait  = time.Second
	longestRenewalWait   = 5 * time.Second
)

// waitForRenewals names the clusters whose agent was not seen alive near the
// end of a soak that is otherwise served (law 6), and tells whether there are
// any. After a manager start that is every cluster until its next renewal.
func (d *decision) waitForRenewals(g *group, soakEnd time.Time) bool {
	missing := false
	for _, m := range g.members {
		if !m.waitedFor() {
			continue
		}
		interval := m.LeaseInterval
		if interval <= 0 {
			interval = defaultLeaseInterval
		}
		if !m.LastSeenAt.Before(soakEnd.Add(-interval)) {
			continue
		}
		missing = true
		d.wake(d.now.Add(min(max(interval/10, shortestRenewalWait), longestRenewalWait)))
		d.waitFor(v1alpha1.Waiting{Reason: v1alpha1.ReasonWaitingForRenewal, Cluster: m.Name,
			Message: fmt.Sprintf("the soak is served, and its agent's next renewal or report is awaited, at most %s", interval)})
	}
	return missing
}

// countGroups fills in the counts of the run's groups.
func (d *decision) countGroups() {
	if d.run == nil {
		return
	}
	d.run.Groups = make([]v1alpha1.GroupCounts, 0, len(d.groups))
	for i := range d.groups {
		g := &d.groups[i]
		c := &g.counts
		for _, m := range g.members {
			c.Selected++
			if m.unreachable {
				c.Unreachable++
			}
			if !m.admitted || m.planned {
				continue
			}
			if m.isUpdated(d.run.Revision.Digest) {
				c.Updated++
			}
			if m.failure != nil {
				c.Failed++
			} else if m.proven {
				c.Healthy++
			}
		}
		if g.Name != v1alpha1.UnmatchedGroup || c.Selected > 0 {
			d.run.Groups = append(d.run.Groups, *c)
		}
	}
}

// isUpdated tells that a revision has been applied with the present intent.
func (m *member) isUpdated(digest string) bool {
	return m.fresh && m.spec.Revision.Digest == digest && m.status.Applied != nil &&
		m.status.Applied.Digest == digest && m.status.Applied.Delivery == m.spec.Delivery
}

// sortWaiting puts what stands above a single cluster first.
func sortWaiting(w []v1alpha1.Waiting) {
	slices.SortStableFunc(w, func(a, b v1alpha1.Waiting) int {
		switch {
		case (a.Cluster == "") == (b.Cluster == ""):
			return 0
		case a.Cluster == "":
			return -1
		default:
			return 1
		}
	})
}
