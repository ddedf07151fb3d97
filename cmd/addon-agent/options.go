package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"open-cluster-management.io/fleet-rollout/internal/agent"
)

// kubeconfigPoll is how often the file of the hub's kubeconfig is looked at.
// Renewed certificates beside it are read again by the client; this is for a
// new address or a new CA of the hub.
const kubeconfigPoll = 15 * time.Second

// options are the flags.
type options struct {
	clusterName   string
	hubKubeconfig string
	kubeconfig    string
	fastLease     time.Duration
	slowLease     time.Duration
	healthAddress string

	metricsAddress    string
	endpointInterval  time.Duration
	endpointAddresses map[string]string
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.clusterName, "cluster-name", "",
		"name of the ManagedCluster that this agent runs on (required)")
	flags.StringVar(&o.hubKubeconfig, "hub-kubeconfig", "",
		"kubeconfig that OCM's registration agent wrote for this addon; waited for if it does not exist yet (required)")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "",
		"kubeconfig of the managed cluster; empty for the service account of the pod")
	flags.DurationVar(&o.fastLease, "lease-fast", agent.DefaultFastLease,
		"interval of the Lease while a delivery is fresh; the hub takes the agent for dead after three")
	flags.DurationVar(&o.slowLease, "lease-slow", agent.DefaultSlowLease,
		"interval of the Lease otherwise")
	flags.StringVar(&o.healthAddress, "health-address", "",
		"address that answers /healthz, as in :8081; empty for none")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", "",
		"address that answers /metrics without authentication, as in 127.0.0.1:8080; empty for none")
	flags.DurationVar(&o.endpointInterval, "endpoint-interval", agent.DefaultEndpointInterval,
		"how often each endpoint of a health policy is probed, give or take a fifth")
	flags.StringToStringVar(&o.endpointAddresses, "endpoint-address", nil,
		"dial another address in the place of a Service, as namespace/name:port=host:port; may be repeated. For clusters without a Service network")
}

// validate returns all that is wrong with the flags.
func (o *options) validate() error {
	var errs []error
	if o.clusterName == "" {
		errs = append(errs, errors.New("--cluster-name is empty: give the name of the ManagedCluster"))
	}
	if o.hubKubeconfig == "" {
		errs = append(errs, errors.New("--hub-kubeconfig is empty: give the file from the secret fleet-rollout-hub-kubeconfig"))
	}
	for name, value := range map[string]time.Duration{
		"--lease-fast": o.fastLease, "--lease-slow": o.slowLease, "--endpoint-interval": o.endpointInterval,
	} {
		if value <= 0 {
			errs = append(errs, fmt.Errorf("%s is %s: give a positive duration", name, value))
		}
	}
	if o.fastLease > o.slowLease {
		errs = append(errs, fmt.Errorf("--lease-fast %s is longer than --lease-slow %s: shorten it", o.fastLease, o.slowLease))
	}
	return errors.Join(errs...)
}

// Run runs the agent until the context ends. It starts anew when the hub's
// kubeconfig changes.
func (o *options) Run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	managed, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("configuration of the managed cluster (--kubeconfig %q): %w", o.kubeconfig, err)
	}
	if err := o.serveHealth(ctx); err != nil {
		return err
	}
	metrics, err := o.serveMetrics(ctx)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		content, err := o.awaitKubeconfig(ctx, nil)
		if err != nil {
			return nil //nolint:nilerr // The end of the context is how the agent is stopped.
		}
		if err := o.runWith(ctx, agent.Options{Managed: managed, Metrics: metrics}, content); err != nil {
			return err
		}
	}
	return nil
}

// runWith runs the agent until the context ends or the kubeconfig is no longer
// the given one. It completes the agent's options.
func (o *options) runWith(ctx context.Context, with agent.Options, kubeconfig []byte) error {
	// Read by path and not from the content, because the certificate's files
	// are named relative to it.
	hub, err := clientcmd.BuildConfigFromFlags("", o.hubKubeconfig)
	if err != nil {
		return fmt.Errorf("configuration of the hub (--hub-kubeconfig %q): %w", o.hubKubeconfig, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		if _, err := o.awaitKubeconfig(ctx, kubeconfig); err == nil {
			klog.InfoS("The kubeconfig of the hub has changed: starting anew", "file", o.hubKubeconfig)
			cancel()
		}
	}()
	with.ClusterName, with.Hub = o.clusterName, hub
	with.FastLease, with.SlowLease = o.fastLease, o.slowLease
	with.EndpointInterval, with.EndpointAddresses = o.endpointInterval, o.endpointAddresses
	return with.Run(ctx)
}

// awaitKubeconfig waits until the file exists and differs from what is known.
// It returns an error only when the context has ended.
func (o *options) awaitKubeconfig(ctx context.Context, known []byte) ([]byte, error) {
	ticker := time.NewTicker(kubeconfigPoll)
	defer ticker.Stop()
	for {
		content, err := os.ReadFile(o.hubKubeconfig)
		switch {
		case err != nil && known == nil:
			klog.InfoS("Waiting for the kubeconfig of the hub, which OCM's registration agent writes", "err", err)
		case err == nil && len(content) > 0 && !bytes.Equal(content, known):
			return content, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ticker.C:
		}
	}
}

// serveHealth answers /healthz until the context ends.
func (o *options) serveHealth(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	if err := serve(ctx, o.healthAddress, mux); err != nil {
		return fmt.Errorf("--health-address: %w", err)
	}
	return nil
}

// serveMetrics makes the metrics, and answers /metrics until the context ends.
func (o *options) serveMetrics(ctx context.Context) (*agent.Metrics, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics, err := agent.NewMetrics(registry)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	if err := serve(ctx, o.metricsAddress, mux); err != nil {
		return nil, fmt.Errorf("--metrics-bind-address: %w", err)
	}
	return metrics, nil
}

// serve answers on an address until the context ends; an empty address means
// not at all.
func serve(ctx context.Context, address string, handler http.Handler) error {
	if address == "" {
		return nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %q: %w", address, err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			klog.ErrorS(err, "Server ended", "address", address)
		}
	}()
	return nil
}
