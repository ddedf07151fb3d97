package v1alpha1

import (
	"encoding/json"
	"fmt"
	"strings"
)

// AddonName is the name of the addon: of its ClusterManagementAddOn, and of
// the ManagedClusterAddOn in the namespace of each cluster.
const AddonName = "fleet-rollout"

// AgentLeaseName is the name of the Lease in the namespace of each cluster
// that the agent renews.
const AgentLeaseName = "fleet-rollout-agent"

// MaxReportBytes bounds the message of the agent's condition.
const MaxReportBytes = 8 << 10

// Health is the health of an object, or of a whole delivery, as the agent sees
// it. It is also the reason of the agent's condition.
// +kubebuilder:validation:Enum=Healthy;Progressing;Degraded;Failed;Suspended
type Health string

// The healths, from a closed set.
const (
	// HealthHealthy: the object is at its delivered content and healthy.
	HealthHealthy Health = "Healthy"
	// HealthProgressing: not there yet, or still at earlier content.
	HealthProgressing Health = "Progressing"
	// HealthDegraded: unhealthy; it may recover by itself.
	HealthDegraded Health = "Degraded"
	// HealthFailed: terminally failed; it will not recover by itself.
	HealthFailed Health = "Failed"
	// HealthSuspended: stopped on purpose; neither success nor failure.
	HealthSuspended Health = "Suspended"
)

// AgentReport is the message of the condition that the agent on a managed
// cluster sets on its own ManagedClusterAddOn, one per rollout, as JSON. It
// echoes digest and delivery number: without both it proves nothing.
type AgentReport struct {
	// Digest of the revision that was evaluated.
	Digest string `json:"digest"`
	// Delivery number that was evaluated.
	Delivery int64 `json:"delivery"`
	// Health of the delivery: the worst of its objects.
	Health Health `json:"health"`
	// Text is one line for people.
	Text string `json:"text,omitempty"`
	// Objects counts the evaluated objects.
	Objects int32 `json:"objects"`
	// Unhealthy names the objects that are not healthy, the worst first.
	Unhealthy []ObjectHealth `json:"unhealthy,omitempty"`
	// Truncated tells that something was cut to keep the message in bounds.
	Truncated bool `json:"truncated,omitempty"`
	// Suspended names objects that are suspended on purpose and hold nothing up.
	Suspended []ObjectReference `json:"suspended,omitempty"`
	// Endpoints as they were probed last, in the order of the health policy.
	Endpoints []EndpointHealth `json:"endpoints,omitempty"`
	// Drift names objects of which another field manager has taken fields.
	Drift []ObjectDrift `json:"drift,omitempty"`
	// Preflight answers the phase Preflight of the delivery. While it is set,
	// Health is Progressing.
	Preflight *Preflight `json:"preflight,omitempty"`
	// CompletedJobs names the delivered Jobs ("namespace/name") that completed.
	CompletedJobs []string `json:"completedJobs,omitempty"`
}

// Encode writes the report as the condition's message, at most MaxReportBytes
// long. What does not fit is cut from the end, and Truncated says so: first the
// text beyond MaxMessageLength bytes, then unhealthy, drifted, suspended and
// existing objects, and completed jobs last, because a job that the hub has not
// heard of may be run again. A preflight whose existing objects were cut is no
// permission to write: the hub would take over what it was not told of.
// It returns an error if the digest alone is too long.
func (r AgentReport) Encode() (string, error) {
	if len(r.Text) > MaxMessageLength {
		r.Text = strings.ToValidUTF8(r.Text[:MaxMessageLength], "")
		r.Truncated = true
	}
	for {
		raw, err := json.Marshal(r)
		switch {
		case err != nil:
			return "", fmt.Errorf("encode agent report: %w", err)
		case len(raw) <= MaxReportBytes:
			return string(raw), nil
		case len(r.Unhealthy) > 0:
			r.Unhealthy = r.Unhealthy[:len(r.Unhealthy)/2]
		case len(r.Drift) > 0:
			r.Drift = r.Drift[:len(r.Drift)/2]
		case len(r.Suspended) > 0:
			r.Suspended = r.Suspended[:len(r.Suspended)/2]
		case r.Preflight != nil && len(r.Preflight.Existing) > 0:
			cut := *r.Preflight
			// In small steps: these names cannot be asked for again.
			cut.Existing = cut.Existing[:len(cut.Existing)-(len(cut.Existing)+15)/16]
			r.Preflight = &cut
		case len(r.CompletedJobs) > 0:
			r.CompletedJobs = r.CompletedJobs[:len(r.CompletedJobs)/2]
		default:
			return "", fmt.Errorf("encode agent report: digest and text take %d bytes, more than %d", len(raw), MaxReportBytes)
		}
		r.Truncated = true
	}
}

// DecodeAgentReport reads a report from a condition's message. It returns an
// error if the message is not JSON, lacks digest or delivery number, or has a
// health that this API does not know: none of them proves anything.
func DecodeAgentReport(message string) (AgentReport, error) {
	var r AgentReport
	if err := json.Unmarshal([]byte(message), &r); err != nil {
		return AgentReport{}, fmt.Errorf("decode agent report: %w", err)
	}
	if r.Digest == "" || r.Delivery < 1 {
		return AgentReport{}, fmt.Errorf("decode agent report: digest %q or delivery number %d is missing or wrong", r.Digest, r.Delivery)
	}
	if !r.Health.isKnown() {
		return AgentReport{}, fmt.Errorf("decode agent report: unknown health %q; is the agent of another release?", r.Health)
	}
	return r, nil
}

func (h Health) isKnown() bool {
	switch h {
	case HealthHealthy, HealthProgressing, HealthDegraded, HealthFailed, HealthSuspended:
		return true
	}
	return false
}
