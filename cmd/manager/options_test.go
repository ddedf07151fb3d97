package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestEveryImpossibleOptionIsRefusedWithItsFlag(t *testing.T) {
	cases := []struct {
		name string
		args []string
		want []string // parts of the error; none: accepted
	}{
		{"an agent image is all that is needed", []string{"--agent-image=agent:v1"}, nil},
		{"without the addon manager no image is needed", []string{"--addon-manager=false"}, nil},
		{"no agent image", nil, []string{"--agent-image is empty", "--addon-manager=false"}},
		{"no concurrency", []string{"--agent-image=a", "--concurrency=0", "--delivery-concurrency=-1"}, []string{"--concurrency is 0", "--delivery-concurrency is -1"}},
		{"no requests", []string{"--agent-image=a", "--kube-api-qps=0", "--kube-api-burst=0"}, []string{"--kube-api-qps is 0", "--kube-api-burst is 0"}},
		{"a deadline longer than the lease", []string{"--agent-image=a", "--leader-elect-renew-deadline=20s"}, []string{"--leader-elect-lease-duration 15s", "--leader-elect-renew-deadline 20s"}},
		{"a Lease without a name", []string{"--agent-image=a", "--leader-elect-id="}, []string{"--leader-elect-id is empty"}},
		{"times of an election that is off", []string{"--agent-image=a", "--leader-elect=false", "--leader-elect-renew-deadline=20s"}, nil},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			options := NewOptions()
			flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
			options.AddFlags(flags)
			if err := flags.Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			err := options.Validate()
			if (err != nil) != (tc.want != nil) {
				t.Fatalf("error %v", err)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}

func TestFlagsSetTheirOptions(t *testing.T) {
	options := NewOptions()
	flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	options.AddFlags(flags)
	err := flags.Parse([]string{
		"--kubeconfig=k", "--agent-image=i", "--addon-manager=false",
		"--leader-elect=false", "--leader-elect-namespace=n", "--leader-elect-id=id",
		"--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=1s",
		"--metrics-bind-address=m", "--health-probe-bind-address=h",
		"--concurrency=11", "--delivery-concurrency=12", "--kube-api-qps=13", "--kube-api-burst=14",
		"--shutdown-timeout=15s", "-v=16",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &Options{
		Kubeconfig: "k", AgentImage: "i",
		LeaderElection: LeaderElectionOptions{
			Namespace: "n", ID: "id", LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: time.Second,
		},
		MetricsBindAddress: "m", HealthProbeBindAddress: "h",
		RolloutConcurrency: 11, DeliveryConcurrency: 12, QPS: 13, Burst: 14,
		ShutdownTimeout: 15 * time.Second, Verbosity: 16,
	}
	if diff := cmp.Diff(want, options); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}

func TestRunRefusesBeforeItConnects(t *testing.T) {
	options := NewOptions()
	options.Kubeconfig = "/does/not/exist"
	if err := options.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "--agent-image") {
		t.Errorf("error %v", err)
	}
	options.AgentImage = "agent:v1"
	if err := options.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "kubeconfig of the hub") {
		t.Errorf("error %v", err)
	}
}

func TestHelpNamesEveryFlag(t *testing.T) {
	command := newCommand()
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetArgs([]string{"--help"})
	if err := command.Execute(); err != nil {
		t.Fatal(err)
	}
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		if flag.Usage == "" || !strings.Contains(out.String(), "--"+flag.Name) {
			t.Errorf("help does not explain --%s", flag.Name)
		}
	})
}

func TestTheSchemeKnowsEveryCachedKind(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	for object := range cacheOptions().ByObject {
		if _, _, err := scheme.ObjectKinds(object); err != nil {
			t.Errorf("%T: %v", object, err)
		}
	}
}
