package revision

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

func policyOfEverything() v1alpha1.HealthPolicy {
	return v1alpha1.HealthPolicy{
		SettleSeconds: ptr.To[int32](7),
		Checks:        []v1alpha1.HealthCheck{{Target: v1alpha1.ObjectTarget{Kind: "Widget"}, Healthy: "object.status.up"}},
		Endpoints:     []v1alpha1.EndpointCheck{{Service: v1alpha1.ServiceEndpoint{Namespace: "shop", Name: "api", Port: 80}}},
		Signals:       v1alpha1.HealthSignals{MinPodStartSuccessPercent: ptr.To[int32](95)},
	}
}

func TestLaw19TheDigestCoversTheHealthPolicy(t *testing.T) {
	spec := specOf(t, deploymentYAML)
	without := freeze(t, spec).Digest
	spec.Health = policyOfEverything()
	with := freeze(t, spec)
	if diff := cmp.Diff(policyOfEverything(), with.Payload.Health); diff != "" {
		t.Errorf("the payload's policy (-want +got):\n%s", diff)
	}
	seen := map[string]string{without: "no policy", with.Digest: "the policy"}
	for name, change := range map[string]func(*v1alpha1.HealthPolicy){
		"settleSeconds": func(h *v1alpha1.HealthPolicy) { h.SettleSeconds = ptr.To[int32](8) },
		"a check":       func(h *v1alpha1.HealthPolicy) { h.Checks[0].Healthy = "object.status.ready" },
		"an endpoint":   func(h *v1alpha1.HealthPolicy) { h.Endpoints[0].Service.Port = 81 },
		"a signal":      func(h *v1alpha1.HealthPolicy) { h.Signals.MinPodStartSuccessPercent = ptr.To[int32](90) },
	} {
		spec.Health = policyOfEverything()
		change(&spec.Health)
		digest := freeze(t, spec).Digest
		if other, found := seen[digest]; found {
			t.Errorf("changing %s leaves the digest of %s", name, other)
		}
		seen[digest] = name
	}
}

func TestSayingTheDefaultsOfTheHealthPolicyIsTheSameContent(t *testing.T) {
	spec := specOf(t, deploymentYAML)
	want := freeze(t, spec).Digest
	spec.Health = v1alpha1.HealthPolicy{
		SettleSeconds: ptr.To[int32](v1alpha1.DefaultSettleSeconds),
		Checks:        []v1alpha1.HealthCheck{}, Endpoints: []v1alpha1.EndpointCheck{},
	}
	if got := freeze(t, spec).Digest; got != want {
		t.Errorf("got %s, want that of no policy, %s", got, want)
	}

	spec.Health = policyOfEverything()
	want = freeze(t, spec).Digest
	endpoint := &spec.Health.Endpoints[0]
	endpoint.Scheme, endpoint.Service.Path, endpoint.TimeoutSeconds = v1alpha1.EndpointHTTP, "/", ptr.To[int32](v1alpha1.DefaultEndpointTimeoutSeconds)
	if got := freeze(t, spec).Digest; got != want {
		t.Errorf("an endpoint with its defaults: got %s, want %s", got, want)
	}
	if endpoint.Scheme != v1alpha1.EndpointHTTP {
		t.Error("the spec itself was changed")
	}
}

func TestChecksAreRefusedByField(t *testing.T) {
	for name, c := range map[string]struct {
		check v1alpha1.HealthCheck
		want  []string
	}{
		"good":                           {v1alpha1.HealthCheck{Target: v1alpha1.ObjectTarget{Kind: "Widget"}, Healthy: "object.status.up"}, nil},
		"no CEL":                         {v1alpha1.HealthCheck{Target: v1alpha1.ObjectTarget{Kind: "Widget"}, Healthy: "object..up"}, []string{"spec.health.checks[0].healthy"}},
		"failed is no bool":              {v1alpha1.HealthCheck{Target: v1alpha1.ObjectTarget{Kind: "Widget"}, Healthy: "true", Failed: "1"}, []string{"spec.health.checks[0].failed"}},
		"words are no text":              {v1alpha1.HealthCheck{Target: v1alpha1.ObjectTarget{Kind: "Widget"}, Healthy: "true", Message: "1"}, []string{"spec.health.checks[0].message"}},
		"a Secret":                       {v1alpha1.HealthCheck{Target: v1alpha1.ObjectTarget{Kind: "Secret"}, Healthy: "has(object.data)"}, []string{"spec.health.checks[0].target.kind"}},
		"a kind Secret of another group": {v1alpha1.HealthCheck{Target: v1alpha1.ObjectTarget{Group: "example.com", Kind: "Secret"}, Healthy: "true"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			spec := specOf(t, deploymentYAML)
			spec.Health.Checks = []v1alpha1.HealthCheck{c.check}
			if diff := cmp.Diff(c.want, fields(t, spec)); diff != "" {
				t.Errorf("refused fields (-want +got):\n%s", diff)
			}
		})
	}
}
