package revision

import (
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// CheckStrategy finds what is wrong with a strategy: no groups, a name twice or
// reserved, selectors that do not parse, shares out of bounds or falling, and
// windows and freezes that no clock can tell.
// Whether a number and a percentage fall depends on the size of the group, so
// those are compared when a run is planned, not here.
func CheckStrategy(path *field.Path, strategy v1alpha1.Strategy) field.ErrorList {
	var problems field.ErrorList
	if len(strategy.Groups) == 0 {
		problems = append(problems, field.Required(path.Child("groups"), "write at least one group; one with an empty clusterSelector has every cluster"))
	}
	problems = append(problems, checkBudget(path.Child("failureBudget"), strategy.FailureBudget)...)
	names := map[string]bool{}
	for i, group := range strategy.Groups {
		at := path.Child("groups").Index(i)
		switch {
		case group.Name == "":
			problems = append(problems, field.Required(at.Child("name"), "give the group a name"))
		case group.Name == v1alpha1.UnmatchedGroup:
			problems = append(problems, field.Invalid(at.Child("name"), group.Name, "the name is reserved for clusters that no group selects; choose another one"))
		case names[group.Name]:
			problems = append(problems, duplicate(at.Child("name"), group.Name, "give each group a name of its own"))
		}
		names[group.Name] = true
		if _, err := metav1.LabelSelectorAsSelector(&group.ClusterSelector); err != nil {
			problems = append(problems, field.Invalid(at.Child("clusterSelector"), metav1.FormatLabelSelector(&group.ClusterSelector), fmt.Sprintf("it is not a label selector (%v); write matchLabels or matchExpressions", err)))
		}
		problems = append(problems, checkAtLeastOne(at.Child("maxConcurrent"), group.MaxConcurrent)...)
		problems = append(problems, checkBudget(at.Child("failureBudget"), group.FailureBudget)...)
		problems = append(problems, CheckSteps(at.Child("steps"), group.Steps)...)
	}
	return append(problems, checkTimes(path, strategy)...)
}

// CheckSteps finds shares of one group's steps that are malformed or fall, and a
// last step that is not 100%. Percentages are compared with percentages and
// numbers with numbers.
func CheckSteps(path *field.Path, steps []v1alpha1.Step) field.ErrorList {
	var problems field.ErrorList
	before := map[intstr.Type]int{}
	for i, step := range steps {
		at := path.Index(i).Child("clusters")
		share, problem := ParseShare(at, step.Clusters)
		if problem != nil {
			problems = append(problems, problem)
			continue
		}
		if last, ok := before[step.Clusters.Type]; ok && share < last {
			problems = append(problems, field.Invalid(at, step.Clusters.String(), fmt.Sprintf("shares are cumulative and never fall; an earlier step has %s already, write at least that", format(last, step.Clusters.Type))))
			continue
		}
		before[step.Clusters.Type] = share
	}
	if n := len(steps); n > 0 && steps[n-1].Clusters != intstr.FromString("100%") {
		problems = append(problems, field.Invalid(path.Index(n-1).Child("clusters"), steps[n-1].Clusters.String(), "the last step of a group must have clusters: 100%; add such a step, or change this one"))
	}
	return problems
}

// ParseShare reads a number of clusters, at least 0, or a percentage from 0% to
// 100%, and returns the number or the percent. Which it was is value.Type.
func ParseShare(path *field.Path, value intstr.IntOrString) (int, *field.Error) {
	const fix = "write a number of at least 0, or a percentage from 0% to 100%"
	if value.Type == intstr.Int {
		if value.IntVal < 0 {
			return 0, field.Invalid(path, value.IntVal, fix)
		}
		return int(value.IntVal), nil
	}
	digits, isPercent := strings.CutSuffix(value.StrVal, "%")
	percent, err := strconv.Atoi(digits)
	if !isPercent || err != nil || percent < 0 || percent > 100 || strconv.Itoa(percent) != digits {
		return 0, field.Invalid(path, value.StrVal, fix)
	}
	return percent, nil
}

func checkAtLeastOne(path *field.Path, value *intstr.IntOrString) field.ErrorList {
	if value == nil {
		return nil
	}
	if share, problem := ParseShare(path, *value); problem != nil || share == 0 {
		return field.ErrorList{field.Invalid(path, value.String(), "write a number of at least 1, or a percentage from 1% to 100%")}
	}
	return nil
}

func checkBudget(path *field.Path, budget *v1alpha1.FailureBudget) field.ErrorList {
	if budget == nil {
		return nil
	}
	_, problem := ParseShare(path.Child("clusters"), budget.Clusters)
	return appendIf(nil, problem)
}

func checkRollback(path *field.Path, policy v1alpha1.RollbackPolicy) field.ErrorList {
	return checkAtLeastOne(path.Child("maxConcurrent"), policy.MaxConcurrent)
}

func format(share int, kind intstr.Type) string {
	if kind == intstr.String {
		return strconv.Itoa(share) + "%"
	}
	return strconv.Itoa(share)
}
