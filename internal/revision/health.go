package revision

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/health"
)

// checkHealth refuses checks that the agents could not evaluate.
func checkHealth(path *field.Path, policy v1alpha1.HealthPolicy) field.ErrorList {
	path = path.Child("checks")
	_, problems := health.Compile(policy.Checks, path)
	for i, check := range policy.Checks {
		if check.Target.Group == "" && check.Target.Kind == secretKind.Kind {
			problems = append(problems, field.Invalid(path.Index(i).Child("target", "kind"), check.Target.Kind,
				"no agent reads Secrets, so that none can judge one; remove the check, or judge what uses the Secret"))
		}
	}
	return problems
}

// canonicalHealth is a health policy without what is the default anyhow: saying so
// or not is the same content, and has the digest of content that came before the
// field.
func canonicalHealth(policy v1alpha1.HealthPolicy) v1alpha1.HealthPolicy {
	out := *policy.DeepCopy()
	out.SettleSeconds = unlessDefault(out.SettleSeconds, v1alpha1.DefaultSettleSeconds)
	if len(out.Checks) == 0 {
		out.Checks = nil
	}
	if len(out.Endpoints) == 0 {
		out.Endpoints = nil
	}
	for i := range out.Endpoints {
		endpoint := &out.Endpoints[i]
		if endpoint.Scheme == v1alpha1.EndpointHTTP {
			endpoint.Scheme = ""
		}
		if endpoint.Service.Path == "/" {
			endpoint.Service.Path = ""
		}
		endpoint.TimeoutSeconds = unlessDefault(endpoint.TimeoutSeconds, v1alpha1.DefaultEndpointTimeoutSeconds)
	}
	return out
}

func unlessDefault(value *int32, preset int32) *int32 {
	if value != nil && *value == preset {
		return nil
	}
	return value
}
