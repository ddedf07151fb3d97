// Command manager is the hub side of Fleet Rollout: the rollout controller, the
// delivery controller and the addon manager, behind one leader election.
package main

import (
	"fmt"
	"os"
	// Maintenance windows name time zones, and the image has no database of them.
	_ "time/tzdata"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"open-cluster-management.io/fleet-rollout/internal/version"
)

func main() {
	if err := newCommand().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintf(os.Stderr, "manager: %v\n", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	options := NewOptions()
	command := &cobra.Command{
		Use:   "manager",
		Short: "Roll revisions out across the managed clusters of an OCM hub, and back when they fail",
		Long: `manager runs on the hub of Open Cluster Management. It reads FleetRollouts,
admits one managed cluster after the other to a new revision, waits for proof
of health, and puts the stable revision back when the proof fails.

Several replicas may run; one of them leads. SIGTERM stops it gracefully: the
work at hand is finished and the leadership given up.`,
		Version:       version.String(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			return options.Run(command.Context())
		},
	}
	options.AddFlags(command.Flags())
	command.Flags().SortFlags = false
	command.SetVersionTemplate("{{.Version}}\n")
	return command
}
