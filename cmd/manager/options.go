package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"open-cluster-management.io/fleet-rollout/internal/controller"
	"open-cluster-management.io/fleet-rollout/internal/liveness"
	"open-cluster-management.io/fleet-rollout/internal/version"
	"open-cluster-management.io/fleet-rollout/pkg/addon"
)

// Options of the manager, as its flags set them.
type Options struct {
	// Kubeconfig of the hub. Empty: the service account of the pod, or else
	// what KUBECONFIG or the home directory holds.
	Kubeconfig string

	// LeaderElection of several replicas.
	LeaderElection LeaderElectionOptions

	// MetricsBindAddress and HealthProbeBindAddress are host:port; "0" serves
	// nothing.
	MetricsBindAddress     string
	HealthProbeBindAddress string

	// AgentImage is the container image of the agent on managed clusters.
	AgentImage string
	// AddonManager tells whether the addon manager runs.
	AddonManager bool

	// RolloutConcurrency and DeliveryConcurrency are how many rollouts, and how
	// many deliveries, are worked on at the same time.
	RolloutConcurrency  int
	DeliveryConcurrency int

	// QPS and Burst bound the requests per second to the hub's API server.
	QPS   float32
	Burst int

	// ShutdownTimeout is how long the work at hand may take to finish.
	ShutdownTimeout time.Duration

	// Verbosity of the log, from 0.
	Verbosity int
}

// LeaderElectionOptions say how the replicas agree on a leader.
type LeaderElectionOptions struct {
	Enabled   bool
	Namespace string
	ID        string

	// LeaseDuration is how long the others wait for a leader that is silent,
	// RenewDeadline how long the leader tries to renew, RetryPeriod how often.
	LeaseDuration time.Duration
	RenewDeadline time.Duration
	RetryPeriod   time.Duration
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{
		LeaderElection: LeaderElectionOptions{
			Enabled:       true,
			ID:            "fleet-rollout-manager",
			LeaseDuration: 15 * time.Second,
			RenewDeadline: 10 * time.Second,
			RetryPeriod:   2 * time.Second,
		},
		MetricsBindAddress:     ":8080",
		HealthProbeBindAddress: ":8081",
		AddonManager:           true,
		RolloutConcurrency:     4,
		DeliveryConcurrency:    8,
		QPS:                    500,
		Burst:                  1000,
		ShutdownTimeout:        20 * time.Second,
		Verbosity:              1,
	}
}

// AddFlags defines the flags that set the options.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig,
		"path to the kubeconfig of the hub; empty uses the pod's service account, or else KUBECONFIG and ~/.kube/config")
	flags.StringVar(&o.AgentImage, "agent-image", o.AgentImage,
		"container image of the addon agent that managed clusters run (required with --addon-manager)")
	flags.BoolVar(&o.AddonManager, "addon-manager", o.AddonManager,
		"register the addon agent of clusters where the addon is enabled, and deploy it there")

	flags.BoolVar(&o.LeaderElection.Enabled, "leader-elect", o.LeaderElection.Enabled,
		"let one of several replicas work, and another one take over when it is gone")
	flags.StringVar(&o.LeaderElection.Namespace, "leader-elect-namespace", o.LeaderElection.Namespace,
		"namespace of the leader's Lease; empty uses the pod's own (required outside a pod)")
	flags.StringVar(&o.LeaderElection.ID, "leader-elect-id", o.LeaderElection.ID,
		"name of the leader's Lease")
	flags.DurationVar(&o.LeaderElection.LeaseDuration, "leader-elect-lease-duration", o.LeaderElection.LeaseDuration,
		"how long the other replicas wait for a leader that does not renew its Lease")
	flags.DurationVar(&o.LeaderElection.RenewDeadline, "leader-elect-renew-deadline", o.LeaderElection.RenewDeadline,
		"how long the leader tries to renew its Lease before it stops")
	flags.DurationVar(&o.LeaderElection.RetryPeriod, "leader-elect-retry-period", o.LeaderElection.RetryPeriod,
		"how often the Lease is tried")

	flags.StringVar(&o.MetricsBindAddress, "metrics-bind-address", o.MetricsBindAddress,
		"host:port that serves /metrics; 0 serves none")
	flags.StringVar(&o.HealthProbeBindAddress, "health-probe-bind-address", o.HealthProbeBindAddress,
		"host:port that serves /healthz and /readyz; 0 serves none")

	flags.IntVar(&o.RolloutConcurrency, "concurrency", o.RolloutConcurrency,
		"how many rollouts are worked on at the same time")
	flags.IntVar(&o.DeliveryConcurrency, "delivery-concurrency", o.DeliveryConcurrency,
		"how many deliveries (one rollout on one cluster) are worked on at the same time")
	flags.Float32Var(&o.QPS, "kube-api-qps", o.QPS, "requests per second to the hub's API server")
	flags.IntVar(&o.Burst, "kube-api-burst", o.Burst, "requests to the hub's API server that may come at once")
	flags.DurationVar(&o.ShutdownTimeout, "shutdown-timeout", o.ShutdownTimeout,
		"how long the work at hand may take to finish after SIGTERM")
	flags.IntVarP(&o.Verbosity, "v", "v", o.Verbosity, "verbosity of the log: 0 errors and decisions, higher tells more")
}

// Validate returns every option that cannot be, with the flag and the fix.
func (o *Options) Validate() error {
	var problems []error
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }

	if o.AddonManager && o.AgentImage == "" {
		refuse("--agent-image is empty: name the image of the addon agent, or set --addon-manager=false")
	}
	if o.RolloutConcurrency < 1 {
		refuse("--concurrency is %d: set at least 1", o.RolloutConcurrency)
	}
	if o.DeliveryConcurrency < 1 {
		refuse("--delivery-concurrency is %d: set at least 1", o.DeliveryConcurrency)
	}
	if o.QPS <= 0 {
		refuse("--kube-api-qps is %v: set a number above 0", o.QPS)
	}
	if o.Burst < 1 {
		refuse("--kube-api-burst is %d: set at least 1", o.Burst)
	}
	if election := o.LeaderElection; election.Enabled {
		if election.ID == "" {
			refuse("--leader-elect-id is empty: name the Lease, or set --leader-elect=false")
		}
		if election.RetryPeriod <= 0 || election.RenewDeadline <= election.RetryPeriod || election.LeaseDuration <= election.RenewDeadline {
			refuse("--leader-elect-lease-duration %s, --leader-elect-renew-deadline %s and --leader-elect-retry-period %s: each must be longer than the next, and the last above 0",
				election.LeaseDuration, election.RenewDeadline, election.RetryPeriod)
		}
	}
	return errors.Join(problems...)
}

// Run runs the manager until the context ends. It returns an error if it cannot
// start, or if it lost the leadership.
func (o *Options) Run(ctx context.Context) error {
	if err := o.Validate(); err != nil {
		return err
	}
	if err := setUpLog(o.Verbosity); err != nil {
		return err
	}
	config, err := o.restConfig()
	if err != nil {
		return fmt.Errorf("read the kubeconfig of the hub: %w", err)
	}
	mgr, err := o.newManager(config)
	if err != nil {
		return fmt.Errorf("set up the manager: %w", err)
	}
	klog.InfoS("Starting", "version", version.String(), "hub", config.Host)
	return mgr.Start(ctx)
}

func (o *Options) newManager(config *rest.Config) (ctrl.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	hubClock := clock.RealClock{}
	tracker := liveness.NewTracker(hubClock)
	options := o.managerOptions(scheme)
	if o.LeaderElection.Enabled {
		fence := &leaseFence{name: o.LeaderElection.ID, maxAge: o.LeaderElection.RenewDeadline, clock: hubClock}
		fence.guard(config)
		if options.LeaderElectionResourceLockInterface, err = o.newLock(config, scheme, tracker.ObserveAbsence); err != nil {
			return nil, err
		}
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, err
	}
	if err := addProbes(mgr); err != nil {
		return nil, err
	}

	if err := (&controller.DeliveryReconciler{
		Client:                  mgr.GetClient(),
		Reader:                  mgr.GetAPIReader(),
		Liveness:                tracker,
		Clock:                   hubClock,
		Recorder:                mgr.GetEventRecorderFor("fleet-rollout"),
		MaxConcurrentReconciles: o.DeliveryConcurrency,
	}).SetupWithManager(mgr); err != nil {
		return nil, fmt.Errorf("delivery controller: %w", err)
	}
	if err := (&controller.RolloutReconciler{
		Client:                  mgr.GetClient(),
		Reader:                  mgr.GetAPIReader(),
		Liveness:                tracker,
		Clock:                   hubClock,
		Recorder:                mgr.GetEventRecorderFor("fleet-rollout"),
		MaxConcurrentReconciles: o.RolloutConcurrency,
	}).SetupWithManager(mgr); err != nil {
		return nil, fmt.Errorf("rollout controller: %w", err)
	}
	if o.AddonManager {
		if err := mgr.Add(addon.NewRunnable(config, addon.Options{Image: o.AgentImage})); err != nil {
			return nil, fmt.Errorf("addon manager: %w", err)
		}
	}
	return mgr, nil
}

// restConfig loads the way to the hub, as kubectl does.
func (o *Options) restConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = o.QPS, o.Burst
	config.UserAgent = "fleet-rollout-manager/" + version.String()
	return config, nil
}

// setUpLog lets controller-runtime and the addon framework write one log.
func setUpLog(verbosity int) error {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Set("v", strconv.Itoa(verbosity)); err != nil {
		return fmt.Errorf("set the log's verbosity: %w", err)
	}
	ctrl.SetLogger(klog.Background())
	return nil
}
