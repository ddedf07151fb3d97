package v1alpha1

import "time"

// HealthPolicy says what counts as proof that a cluster runs the content
// healthily, beside the rules of the built-in kinds. It is part of the revision
// (law 19): going back restores the proof that the stable revision passed.
type HealthPolicy struct {
	// settleSeconds is how old new content must be before the health of an object
	// without observedGeneration is believed. Defaults to 5.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	SettleSeconds *int32 `json:"settleSeconds,omitempty"`

	// checks judge objects by CEL expressions, in place of the built-in rule of
	// their kind.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Checks []HealthCheck `json:"checks,omitempty"`

	// endpoints are probed from inside the cluster.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Endpoints []EndpointCheck `json:"endpoints,omitempty"`

	// signals are bounds on what is measured on each cluster. Outside of one a
	// cluster is Degraded.
	// +optional
	Signals HealthSignals `json:"signals,omitzero"`
}

// DefaultSettleSeconds is the default of health.settleSeconds.
const DefaultSettleSeconds = 5

// Settle returns the least age of new content whose health is believed although
// its kind has no observedGeneration.
func (h HealthPolicy) Settle() time.Duration {
	return seconds(h.SettleSeconds, DefaultSettleSeconds)
}

// HealthCheck judges the objects that it targets by expressions in CEL, with the
// Kubernetes libraries. The variable "object" is the live object. An expression
// that fails, as on a field that is not there yet, is not true.
type HealthCheck struct {
	// target of the check. The first check that targets an object judges it.
	// +required
	Target ObjectTarget `json:"target"`

	// healthy is true once the object is healthy; until then it is Progressing.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Healthy string `json:"healthy"`

	// failed is true if the object has failed and will not recover by itself. It
	// comes before healthy.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Failed string `json:"failed,omitempty"`

	// message is a string that says what is wrong while the object is not healthy.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
}

// EndpointCheck probes a Service from inside the cluster.
//
// +kubebuilder:validation:XValidation:rule="!has(self.service.path) || !has(self.scheme) || self.scheme != 'TCP'",message="path: a TCP probe has none; use scheme HTTP or HTTPS"
type EndpointCheck struct {
	// service to be probed.
	// +required
	Service ServiceEndpoint `json:"service"`

	// scheme of the probe. HTTP and HTTPS ask with GET and take a status from 200 to
	// 399 as success; the certificate of HTTPS is not verified, as in a kubelet's
	// probes. TCP opens a connection. Defaults to HTTP.
	// +optional
	Scheme EndpointScheme `json:"scheme,omitempty"`

	// timeoutSeconds after which a probe has failed. Defaults to 3.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// maxLatencyMilliseconds is how long an answer may take. Above it the cluster is
	// Degraded. No bound by default.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60000
	MaxLatencyMilliseconds *int32 `json:"maxLatencyMilliseconds,omitempty"`
}

// EndpointScheme is how an endpoint is probed.
// +kubebuilder:validation:Enum=HTTP;HTTPS;TCP
type EndpointScheme string

// The schemes.
const (
	EndpointHTTP  EndpointScheme = "HTTP"
	EndpointHTTPS EndpointScheme = "HTTPS"
	EndpointTCP   EndpointScheme = "TCP"
)

// ServiceEndpoint names a port of a Service.
type ServiceEndpoint struct {
	// namespace of the Service.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// name of the Service.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// port number of the Service.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// path that is asked for. Defaults to /.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/`
	Path string `json:"path,omitempty"`
}

// DefaultEndpointTimeoutSeconds is the default of an endpoint's timeoutSeconds.
const DefaultEndpointTimeoutSeconds = 3

// SchemeOrDefault returns the scheme, HTTP where none is given.
func (e EndpointCheck) SchemeOrDefault() EndpointScheme {
	if e.Scheme == "" {
		return EndpointHTTP
	}
	return e.Scheme
}

// Timeout returns when a probe has failed.
func (e EndpointCheck) Timeout() time.Duration {
	return seconds(e.TimeoutSeconds, DefaultEndpointTimeoutSeconds)
}

// HealthSignals are bounds on what is measured on each cluster.
type HealthSignals struct {
	// minPodStartSuccessPercent is how many of the pods of the delivered workloads
	// that were created since the content arrived must have started, of those that
	// started or failed to.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MinPodStartSuccessPercent *int32 `json:"minPodStartSuccessPercent,omitempty"`

	// maxSyncLatencySeconds is how long it may take from the write on the hub until
	// the content is applied on the cluster, on the hub's clock.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	MaxSyncLatencySeconds *int32 `json:"maxSyncLatencySeconds,omitempty"`
}
