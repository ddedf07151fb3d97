package rollout

import (
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// The arithmetic of law 1. A value that admission would have refused counts as
// the most careful one: a share of none, one at a time, a budget of none.

// stepTarget is how many clusters of a group of the given size a step admits:
// a percentage rounds up, a number is capped at the group.
func stepTarget(step v1alpha1.Step, size int) int {
	n, isPercent, ok := number(step.Clusters)
	if !ok {
		return 0
	}
	if isPercent {
		n = (n*size + 99) / 100
	}
	return min(n, size)
}

// concurrency is how many of the given clusters may change at the same time: a
// percentage rounds down, and it is at least 1.
func concurrency(bound intstr.IntOrString, size int) int {
	n, isPercent, _ := number(bound)
	if isPercent {
		n = n * size / 100
	}
	return max(n, 1)
}

// budget is how many of the given clusters may fail: a percentage rounds down,
// and an absent budget allows none.
func budget(b *v1alpha1.FailureBudget, size int) int {
	if b == nil {
		return 0
	}
	n, isPercent, _ := number(b.Clusters)
	if isPercent {
		n = n * size / 100
	}
	return n
}

// number reads a number, or a percentage up to 100.
func number(v intstr.IntOrString) (n int, isPercent, ok bool) {
	if v.Type == intstr.Int {
		return max(int(v.IntVal), 0), false, v.IntVal >= 0
	}
	digits, isPercent := strings.CutSuffix(v.StrVal, "%")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || !isPercent {
		return 0, false, false
	}
	return min(n, 100), true, true
}

func bounded32(n int64) int32 {
	return int32(min(max(n, 0), math.MaxInt32))
}
