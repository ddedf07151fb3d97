package status

import (
	"cmp"
	"fmt"
	"slices"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// counters counts the members by what they are in. A cluster counts in one of
// healthy, progressing, degraded, failed, unreachable and blocked, or in none
// while it waits for its turn.
func counters(in Input) v1alpha1.ClusterCounts {
	written := make(map[string]bool, len(in.Snapshot.Clusters))
	for i := range in.Snapshot.Clusters {
		written[in.Snapshot.Clusters[i].Name] = in.Snapshot.Clusters[i].Delivery != nil
	}

	var counts v1alpha1.ClusterCounts
	for _, judgement := range in.Plan.Judgements {
		if !judgement.Member {
			continue
		}
		counts.Selected++
		if judgement.Updated {
			counts.Updated++
		}
		switch state := judgement.State; {
		case state == v1alpha1.StateFailed:
			counts.Failed++
		case state == v1alpha1.StateBlocked:
			counts.Blocked++
		case state == v1alpha1.StateUnreachable:
			counts.Unreachable++
		case state == v1alpha1.StateDegraded:
			counts.Degraded++
		case judgement.Healthy:
			counts.Healthy++
		case written[judgement.Cluster]:
			counts.Progressing++
		}
	}
	counts.Progress = fmt.Sprintf("%d/%d", counts.Updated, counts.Selected)
	return counts
}

// problems names the clusters that hold something up, the worst first and then
// by name, at most MaxProblems. A refused write comes before what is otherwise
// known of its cluster: it is what keeps the intent from arriving.
func problems(in Input) []v1alpha1.Problem {
	type ranked struct {
		v1alpha1.Problem
		rank int
	}
	var all []ranked
	named := map[string]bool{}
	for cluster, cause := range in.Refusals {
		named[cluster] = true
		all = append(all, ranked{problem(cluster, cause), rankOf(v1alpha1.StateFailed)})
	}
	for _, judgement := range in.Plan.Judgements {
		if judgement.Cause == nil || named[judgement.Cluster] {
			continue
		}
		all = append(all, ranked{problem(judgement.Cluster, *judgement.Cause), rankOf(judgement.State)})
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.Cluster, b.Cluster))
	})

	var result []v1alpha1.Problem
	for _, p := range all[:min(len(all), v1alpha1.MaxProblems)] {
		result = append(result, p.Problem)
	}
	return result
}

func problem(cluster string, cause v1alpha1.Cause) v1alpha1.Problem {
	return v1alpha1.Problem{Cluster: cluster, Reason: cause.Reason, Message: Bounded(cause.Message)}
}

// rankOf orders problems by how much they ask for a person.
func rankOf(state v1alpha1.DeliveryState) int {
	switch state {
	case v1alpha1.StateFailed:
		return 0
	case v1alpha1.StateBlocked:
		return 1
	case v1alpha1.StateDegraded:
		return 2
	case v1alpha1.StateUnreachable:
		return 3
	default:
		return 4
	}
}
