// The addon agent of Fleet Rollout. It runs on a managed cluster, evaluates
// what rollouts delivered there, and reports to the hub.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"open-cluster-management.io/fleet-rollout/internal/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	klog.Flush()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "addon-agent:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "addon-agent --cluster-name NAME --hub-kubeconfig FILE",
		Short: "Reports to the hub whether what rollouts delivered to this cluster is healthy",
		Long: `The addon agent of Fleet Rollout runs on a managed cluster of Open Cluster
Management. It reads the RolloutDeliveries of its cluster from the hub, watches
the delivered objects on its cluster, and keeps one condition for each rollout
on its ManagedClusterAddOn. While it can vouch for these reports it renews the
Lease fleet-rollout-agent in the cluster's namespace on the hub.

It writes nothing on the managed cluster, and reads no Secret there.`,
		Example: `  # in a pod on the managed cluster
  addon-agent --cluster-name c1 --hub-kubeconfig /managed/hub-kubeconfig/kubeconfig

  # outside of it
  addon-agent --cluster-name c1 --hub-kubeconfig hub/kubeconfig --kubeconfig c1.kubeconfig`,
		Version:       version.String(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.Run(cmd.Context())
		},
	}
	o.addFlags(cmd.Flags())
	addLogFlags(cmd)
	return cmd
}

// addLogFlags adds -v, and sends the logs of all libraries to klog.
func addLogFlags(cmd *cobra.Command) {
	logs := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(logs)
	cmd.Flags().AddGoFlag(logs.Lookup("v"))
	ctrl.SetLogger(klog.Background())
}
