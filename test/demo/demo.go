package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/test/lab"
	"open-cluster-management.io/fleet-rollout/test/product"
)

const (
	setupTimeout   = 40 * time.Minute
	releaseTimeout = 6 * time.Minute
	refresh        = 250 * time.Millisecond
)

// demo is one run of the demonstration.
type demo struct {
	out  io.Writer
	keep bool
	// bin is the folder of the lab's binaries, kubectl among them.
	bin string

	lab     *lab.Lab
	product *product.Product
	hub     client.Client
}

func (d *demo) run(ctx context.Context) (err error) {
	begin := time.Now()
	d.title("1. Build what the lab needs")
	d.say("Real etcd, Kubernetes and OCM are built from their Go modules: 15 to 20 minutes the first time on two cores, seconds later.")
	setup, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	if d.bin, err = lab.Build(setup, d.out); err != nil {
		return err
	}

	d.title("2. A hub and three managed clusters")
	dir, err := d.dir()
	if err != nil {
		return err
	}
	if d.lab, err = lab.Start(setup, lab.Options{Dir: dir, Clusters: lab.DefaultClusters(3), Detached: d.keep, Log: d.out}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.finish(err)) }()

	d.title("3. Install Fleet Rollout and enable the addon")
	if d.product, err = product.Install(setup, product.Options{Lab: d.lab, Detached: d.keep, Log: d.out}); err != nil {
		return err
	}
	if d.hub, err = product.HubClient(d.lab); err != nil {
		return err
	}
	var names []string
	for _, c := range d.lab.Clusters() {
		names = append(names, c.Name())
	}
	if err := d.product.Enable(setup, names...); err != nil {
		return err
	}
	if err := d.product.ApplyFleet(setup); err != nil {
		return err
	}

	d.title("4. Version 1.0.0: the first release")
	if err := d.release(ctx, "1.0.0", "1.0.0", succeeded("1.0.0")); err != nil {
		return err
	}
	d.title("5. Version 1.1.0: a good release")
	if err := d.release(ctx, "1.1.0", "1.1.0", succeeded("1.1.0")); err != nil {
		return err
	}
	d.title("6. Version 1.2.0: a broken release, whose pods never start")
	watch, err := d.watchProduction(ctx)
	if err != nil {
		return err
	}
	if err := d.release(ctx, "1.2.0", "1.2.0-broken", rolledBack("1.2.0", "1.1.0")); err != nil {
		return err
	}

	d.title("7. Ask the clusters themselves")
	if err := d.verify(ctx, watch); err != nil {
		return err
	}
	if err := d.show(ctx); err != nil {
		return err
	}
	d.say("")
	d.say("took %s", time.Since(begin).Round(time.Second))
	return nil
}

// dir is DIR, or else a folder of its own, so that the demo and a lab of "make lab-up" do
// not meet. What a crashed demo left there is cleaned up by the next one.
func (d *demo) dir() (string, error) {
	if dir := os.Getenv("DIR"); dir != "" {
		return dir, nil
	}
	dir, err := lab.DefaultDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(dir), "demo"), nil
}

func (d *demo) finish(failure error) error {
	if failure != nil {
		d.say("The logs of every process are in %s", d.lab.LogDir())
	}
	if !d.keep {
		return d.lab.Stop()
	}
	d.say("\nThe lab is left running, until the next \"make demo\". To look around:")
	d.say("  export KUBECONFIG=%s PATH=%s:$PATH", d.lab.Hub().KubeconfigPath(), d.bin)
	d.say("  kubectl get fleetrollouts -A")
	d.say("  kubectl get rolloutdeliveries -A")
	d.say("  kubectl get rolloutrevisions -A")
	for _, c := range d.lab.Clusters() {
		d.say("  kubectl --kubeconfig %s get deployments -A     # cluster %s", c.KubeconfigPath(), c.Name())
	}
	d.say("To release another version, edit examples/payments/rollout.yaml and")
	d.say("  kubectl apply --server-side --field-manager=engineer -f examples/payments/rollout.yaml")
	d.say("Logs:      %s", d.lab.LogDir())
	d.say("To end it: go run ./test/lab/cmd/lab down --dir %s", d.lab.Dir())
	return nil
}

// release applies a version and follows it until done says so.
func (d *demo) release(ctx context.Context, version, tag string, done func(*v1alpha1.FleetRollout) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	if err := product.Release(ctx, d.hub, version, tag); err != nil {
		return err
	}
	ticker := time.NewTicker(refresh)
	defer ticker.Stop()
	narrator := newNarrator(d.out)
	for {
		rollout := &v1alpha1.FleetRollout{}
		if err := d.hub.Get(ctx, rolloutKey(), rollout); err != nil {
			return fmt.Errorf("while following version %s: %w", version, err)
		}
		deliveries, err := d.deliveries(ctx)
		if err != nil {
			return err
		}
		// Before that the status is about the release before.
		if rollout.Status.ObservedGeneration == rollout.Generation {
			narrator.tell(rollout, deliveries, time.Now())
			finished, err := done(rollout)
			if err != nil {
				return err
			}
			if finished {
				d.say("  => %s", readyMessage(rollout))
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("version %s did not come to its end within %s; last seen: %s", version, releaseTimeout, readyMessage(rollout))
		case <-ticker.C:
		}
	}
}

func succeeded(version string) func(*v1alpha1.FleetRollout) (bool, error) {
	return func(r *v1alpha1.FleetRollout) (bool, error) {
		if run := r.Status.Run; run != nil && run.Revision.Version == version && run.Phase == v1alpha1.RunFailed {
			return false, fmt.Errorf("version %s failed: %s", version, readyMessage(r))
		}
		stable := r.Status.StableRevision
		return stable != nil && stable.Version == version && meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionReady), nil
	}
}

func rolledBack(bad, target string) func(*v1alpha1.FleetRollout) (bool, error) {
	return func(r *v1alpha1.FleetRollout) (bool, error) {
		if stable := r.Status.StableRevision; stable != nil && stable.Version == bad {
			return false, fmt.Errorf("version %s became stable", bad)
		}
		run := r.Status.Run
		if run == nil || run.Revision.Version != bad || run.Phase != v1alpha1.RunFailed {
			return false, nil
		}
		for _, record := range r.Status.Rollbacks {
			if record.Run == run.Number && record.To.Version == target && record.Result == v1alpha1.RollbackComplete {
				return true, nil
			}
		}
		return false, nil
	}
}

func (d *demo) deliveries(ctx context.Context) ([]v1alpha1.RolloutDelivery, error) {
	var list v1alpha1.RolloutDeliveryList
	if err := d.hub.List(ctx, &list); err != nil {
		return nil, err
	}
	sort.Slice(list.Items, func(i, j int) bool { return list.Items[i].Namespace < list.Items[j].Namespace })
	return list.Items, nil
}

func (d *demo) show(ctx context.Context) error {
	for _, kind := range []string{"fleetrollouts", "rolloutdeliveries", "rolloutrevisions"} {
		out, err := d.product.Kubectl(ctx, "get", kind, "-A")
		if err != nil {
			return err
		}
		d.say("\n$ kubectl get %s -A\n%s", kind, out)
	}
	return nil
}

func (d *demo) title(text string) { fmt.Fprintf(d.out, "\n== %s\n", text) }

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

func rolloutKey() client.ObjectKey {
	return client.ObjectKey{Namespace: product.ExampleNamespace, Name: product.ExampleRollout}
}

func readyMessage(r *v1alpha1.FleetRollout) string {
	for _, condition := range r.Status.Conditions {
		if condition.Type == v1alpha1.ConditionReady {
			return fmt.Sprintf("Ready=%s %s: %s", condition.Status, condition.Reason, condition.Message)
		}
	}
	return "no condition yet"
}
