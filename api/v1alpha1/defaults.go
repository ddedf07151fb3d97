package v1alpha1

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// The defaults of the API, in the unit of their field.
const (
	DefaultProgressDeadlineSeconds    = 600
	DefaultUnhealthySeconds           = 120
	DefaultVerificationTimeoutSeconds = 600
	DefaultHistoryLimit               = 10
	UnmatchedGroup                    = "unmatched"
	MaxProblems                       = 20
	MaxRollbackRecords                = 20
	MaxWaiting                        = 10
	MaxMessageLength                  = 1024
	MaxUnhealthyObjects               = 10
)

// ConflictsOrDefault returns the conflict policy, Force where none is given.
func (d DeliveryOptions) ConflictsOrDefault() ConflictPolicy {
	if d.Conflicts == "" {
		return ConflictForce
	}
	return d.Conflicts
}

// OnDeleteOrDefault returns the delete policy, Delete where none is given.
func (d DeliveryOptions) OnDeleteOrDefault() DeletePolicy {
	if d.OnDelete == "" {
		return DeletePolicyDelete
	}
	return d.OnDelete
}

// ProgressDeadline returns the progress deadline.
func (s Strategy) ProgressDeadline() time.Duration {
	return seconds(s.ProgressDeadlineSeconds, DefaultProgressDeadlineSeconds)
}

// UnmatchedOrDefault returns the policy for clusters that no group selects,
// Last where none is given.
func (s Strategy) UnmatchedOrDefault() UnmatchedPolicy {
	if s.Unmatched == "" {
		return UnmatchedLast
	}
	return s.Unmatched
}

// StepsOrDefault returns the steps, or the one step of 100 %.
func (g Group) StepsOrDefault() []Step {
	if len(g.Steps) == 0 {
		return []Step{{Clusters: intstr.FromString("100%")}}
	}
	return g.Steps
}

// MaxConcurrentOrDefault returns the bound, or 100 %.
func (g Group) MaxConcurrentOrDefault() intstr.IntOrString {
	return orAll(g.MaxConcurrent)
}

// ModeOrDefault returns the mode, Automatic where none is given.
func (r RollbackPolicy) ModeOrDefault() RollbackMode {
	if r.Mode == "" {
		return RollbackAutomatic
	}
	return r.Mode
}

// Unhealthy returns how long a proven cluster may be unhealthy.
func (r RollbackPolicy) Unhealthy() time.Duration {
	return seconds(r.UnhealthySeconds, DefaultUnhealthySeconds)
}

// MaxConcurrentOrDefault returns the bound, or 100 %.
func (r RollbackPolicy) MaxConcurrentOrDefault() intstr.IntOrString {
	return orAll(r.MaxConcurrent)
}

// Timeout returns how long one cluster may take to prove the restored revision.
func (v RollbackVerification) Timeout() time.Duration {
	return seconds(v.TimeoutSeconds, DefaultVerificationTimeoutSeconds)
}

// LimitOrDefault returns how many revisions are kept.
func (h HistoryPolicy) LimitOrDefault() int {
	if h.Limit == nil {
		return DefaultHistoryLimit
	}
	return int(*h.Limit)
}

func seconds(value *int32, otherwise int32) time.Duration {
	if value != nil {
		otherwise = *value
	}
	return time.Duration(otherwise) * time.Second
}

func orAll(value *intstr.IntOrString) intstr.IntOrString {
	if value == nil {
		return intstr.FromString("100%")
	}
	return *value
}
