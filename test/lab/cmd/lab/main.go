// Command lab runs a hub with managed clusters on this machine, made of real
// Kubernetes and Open Cluster Management processes, until it is told to stop.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"open-cluster-management.io/fleet-rollout/test/lab"
)

func main() {
	os.Exit(run())
}

func run() int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	return 0
}

func newCommand() *cobra.Command {
	var dir string
	root := &cobra.Command{
		Use:           "lab",
		Short:         "Run a hub with managed clusters on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) (err error) {
			if dir == "" {
				dir, err = lab.DefaultDir()
			}
			return err
		},
	}
	root.PersistentFlags().StringVar(&dir, "dir", "", "folder of the lab (default: lab/default in the cache folder)")
	root.AddCommand(newUp(&dir), newDown(&dir), newStatus(&dir), newKubeconfig(&dir), newBuild())
	return root
}

type upOptions struct {
	number   int
	clusters []string
	// restricted is nil when the flag was not given: then it is the first cluster.
	restricted   []string
	leaseSeconds int32
	replicaSet   bool
}

func newUp(dir *string) *cobra.Command {
	o := upOptions{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a hub and managed clusters, and leave them running",
		Example: `  lab up --clusters 3
  lab up --cluster c1:env=staging --cluster eu1:tier=production,region=eu`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			specs, err := o.specs()
			if err != nil {
				return err
			}
			return o.up(cmd.Context(), cmd.OutOrStdout(), *dir, specs)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.number, "clusters", 3, "number of managed clusters c1, c2, …: staging, gray, then production")
	flags.StringArrayVar(&o.clusters, "cluster", nil, "managed cluster as name[:label=value,…]; may be repeated, replaces --clusters")
	flags.StringSliceVar(&o.restricted, "restricted", nil, "clusters whose work agent has only the rights of a real klusterlet (default: the first)")
	flags.Int32Var(&o.leaseSeconds, "lease-seconds", 10, "lease duration of the clusters; the hub notices a loss after five times as long")
	flags.BoolVar(&o.replicaSet, "manifestworkreplicaset", false, "turn on OCM's ManifestWorkReplicaSet controller")
	return cmd
}

func (o upOptions) specs() ([]lab.ClusterSpec, error) {
	var specs []lab.ClusterSpec
	for _, text := range o.clusters {
		spec, err := lab.ParseClusterSpec(text)
		if err != nil {
			return nil, err
		}
		specs = append(specs, spec)
	}
	if len(specs) == 0 {
		specs = lab.DefaultClusters(o.number)
	}
	restricted := o.restricted
	if restricted == nil && len(specs) > 0 {
		restricted = []string{specs[0].Name}
	}
	for _, name := range restricted {
		if !slices.ContainsFunc(specs, func(s lab.ClusterSpec) bool { return s.Name == name }) {
			return nil, fmt.Errorf("--restricted names cluster %q, which is not among the clusters", name)
		}
	}
	for i := range specs {
		specs[i].LeaseDurationSeconds = o.leaseSeconds
		specs[i].RestrictedWorkAgent = slices.Contains(restricted, specs[i].Name)
	}
	return specs, nil
}

func (o upOptions) up(ctx context.Context, out io.Writer, dir string, specs []lab.ClusterSpec) error {
	begin := time.Now()
	l, err := lab.Start(ctx, lab.Options{
		Dir:                    dir,
		Clusters:               specs,
		Detached:               true,
		ManifestWorkReplicaSet: o.replicaSet,
		Log:                    out,
	})
	if errors.Is(err, lab.ErrRunning) {
		return fmt.Errorf("%w; see 'lab status', end it with 'lab down'", err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nThe lab is up after %s.\n\n", time.Since(begin).Round(time.Second))
	return printHelp(ctx, out, l)
}

func printHelp(ctx context.Context, out io.Writer, l *lab.Lab) error {
	bin, err := lab.Build(ctx, out, "kubectl")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Look around:\n")
	fmt.Fprintf(out, "  export PATH=%s:$PATH\n", bin)
	fmt.Fprintf(out, "  export KUBECONFIG=%s          # the hub\n", l.Hub().KubeconfigPath())
	fmt.Fprintf(out, "  kubectl get managedclusters --show-labels\n")
	for _, c := range l.Clusters() {
		fmt.Fprintf(out, "  kubectl --kubeconfig %s get pods -A\n", c.KubeconfigPath())
	}
	fmt.Fprintf(out, "  ls %s\n\nEnd it with 'lab down'.\n", l.LogDir())
	return nil
}

func newDown(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "End every process of the lab, also after a crash; the logs stay",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := lab.Remove(*dir)
			if errors.Is(err, fs.ErrNotExist) {
				fmt.Fprintf(cmd.OutOrStdout(), "No lab in %s.\n", *dir)
				return nil
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "The lab is down.")
			return nil
		},
	}
}

func newStatus(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the lab's processes; fails if one of them has ended",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := lab.Attach(*dir)
			if err != nil {
				return err
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "PROCESS\tPID\tSTATE\tMEMORY\tLOG")
			var total int64
			stopped := 0
			for _, p := range l.Processes() {
				state, memory := p.State(), p.MemoryBytes()
				if state == "stopped" {
					stopped++
				}
				total += memory
				fmt.Fprintf(table, "%s\t%d\t%s\t%d MiB\t%s\n", p.ID(), p.PID(), state, memory>>20, p.LogPath())
			}
			fmt.Fprintf(table, "all\t\t\t%d MiB\n", total>>20)
			if err := table.Flush(); err != nil {
				return err
			}
			if stopped > 0 {
				return fmt.Errorf("%d of the lab's processes do not run", stopped)
			}
			return nil
		},
	}
}

func newKubeconfig(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:     "kubeconfig NAME",
		Short:   "Print the path of a cluster's kubeconfig",
		Example: `  export KUBECONFIG=$(lab kubeconfig hub)`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := lab.Attach(*dir)
			if err != nil {
				return err
			}
			if args[0] == lab.HubName {
				fmt.Fprintln(cmd.OutOrStdout(), l.Hub().KubeconfigPath())
				return nil
			}
			cluster := l.Cluster(args[0])
			if cluster == nil {
				return fmt.Errorf("the lab has no cluster %q", args[0])
			}
			fmt.Fprintln(cmd.OutOrStdout(), cluster.KubeconfigPath())
			return nil
		},
	}
}

func newBuild() *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Build the lab's binaries and print their folder",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			bin, err := lab.Build(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), bin)
			return nil
		},
	}
}
