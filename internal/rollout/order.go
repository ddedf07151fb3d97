package rollout

import (
	"cmp"
	"slices"
	"strings"
)

// byTurn orders clusters within a group, and those going back (law 2): already
// on the wanted revision, then reachable before unreachable, then unhealthy
// now, because a fix must reach the broken first, then by name.
func byTurn(digest string) func(a, b *member) int {
	return func(a, b *member) int {
		if c := cmp.Compare(a.rank(digest), b.rank(digest)); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	}
}

func (m *member) rank(digest string) int {
	rank := 0
	if m.spec == nil || m.spec.Revision.Digest != digest {
		rank += 4
	}
	if m.unreachable {
		rank += 2
	}
	if !m.UnhealthyNow {
		rank++
	}
	return rank
}

// sortByTurn sorts clusters into their order; they come in by name, so a
// stable sort by rank alone would do as well.
func sortByTurn(members []*member, digest string) {
	slices.SortFunc(members, byTurn(digest))
}
