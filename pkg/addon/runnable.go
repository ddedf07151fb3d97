package addon

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"open-cluster-management.io/addon-framework/pkg/addonmanager"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// The addon manager answers each condition that an agent writes. With the
// client's defaults (5 requests per second) a thousand agents would keep it
// busy for minutes.
const (
	managerQPS   = 200
	managerBurst = 400
)

// Options of the addon.
type Options struct {
	// Image of the agent's container. Required.
	Image string
}

// NewRunnable is the addon manager as a Runnable: add it to a manager that has
// leader election. It starts on the leader only and blocks until the context
// ends, which ends all that it started. The config is copied, and the copy may
// make at least 200 requests per second.
func NewRunnable(cfg *rest.Config, opts Options) manager.Runnable {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = max(cfg.QPS, managerQPS)
	cfg.Burst = max(cfg.Burst, managerBurst)
	return &runnable{cfg: cfg, opts: opts}
}

type runnable struct {
	cfg  *rest.Config
	opts Options
}

var _ manager.LeaderElectionRunnable = (*runnable)(nil)

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*runnable) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (r *runnable) Start(ctx context.Context) error {
	kube, err := kubernetes.NewForConfig(r.cfg)
	if err != nil {
		return fmt.Errorf("addon manager: client for the hub: %w", err)
	}
	addons, err := addonmanager.New(r.cfg)
	if err != nil {
		return fmt.Errorf("addon manager: %w", err)
	}
	agentAddon, err := newAgentAddon(r.opts, newPermissions(ctx, kube, clock.RealClock{}))
	if err != nil {
		return fmt.Errorf("addon manager: %w", err)
	}
	if err := addons.AddAgent(agentAddon); err != nil {
		return fmt.Errorf("addon manager: %w", err)
	}
	if err := addons.Start(ctx); err != nil {
		return fmt.Errorf("start addon manager: %w", err)
	}
	<-ctx.Done()
	return nil
}
