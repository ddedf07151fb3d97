package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta2 "open-cluster-management.io/api/cluster/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Options say what Start starts.
type Options struct {
	// Dir holds data, keys, logs and the state file. Empty means a new temporary
	// folder that Stop removes, logs included.
	Dir string
	// Clusters are the managed clusters. None gives a hub alone.
	Clusters []ClusterSpec
	// Detached keeps the lab running when this process ends, whatever way.
	Detached bool
	// ManifestWorkReplicaSet turns on OCM's own controller for that kind.
	ManifestWorkReplicaSet bool
	// Log receives progress. May be nil.
	Log io.Writer
}

// Lab is a hub with its managed clusters.
type Lab struct {
	supervisor *supervisor
	hub        *ControlPlane
	clusters   []*Cluster
	temporary  bool
}

// Start builds what the cache lacks, starts the hub and the managed clusters,
// and returns when every cluster is joined and available. Without a deadline in
// ctx it gives up 5 minutes after the build. What it started before an error it
// stops again; the logs stay.
func Start(ctx context.Context, options Options) (*Lab, error) {
	options.Log = orDiscard(options.Log)
	if err := validateClusters(options.Clusters); err != nil {
		return nil, err
	}
	bin, err := Build(ctx, options.Log)
	if err != nil {
		return nil, err
	}
	src, err := findSources(ctx)
	if err != nil {
		return nil, err
	}
	dir, temporary, err := dirOrTemporary(options.Dir)
	if err != nil {
		return nil, err
	}
	s, err := claimDir(dir, state{Hub: HubName, Clusters: options.Clusters, Detached: options.Detached})
	if err != nil {
		return nil, err
	}
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	lab := &Lab{supervisor: s, temporary: temporary, clusters: make([]*Cluster, len(options.Clusters))}
	if err := lab.start(ctx, bin, src, options); err != nil {
		return nil, errors.Join(fmt.Errorf("start the lab (logs in %s): %w", lab.LogDir(), err), s.stopAll())
	}
	if err := s.store.update(func(st *state) { st.Ready = true }); err != nil {
		return nil, errors.Join(err, s.stopAll())
	}
	return lab, nil
}

func (l *Lab) start(ctx context.Context, bin string, src sources, options Options) error {
	begin := time.Now()
	progress := progressLog{out: options.Log, begin: begin}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	// A control plane needs a core while it starts: more at once than there are
	// cores only makes each later. The hub, which all wait for, has the first slot.
	slots := make(chan struct{}, max(2, runtime.NumCPU()))
	slots <- struct{}{}
	hubReady := make(chan struct{})
	startHub := func() error {
		defer func() { <-slots }()
		plan := controlPlanePlan{bin: bin, name: HubName, controllerManager: true}
		hub, err := plan.start(ctx, l.supervisor)
		if err != nil {
			return err
		}
		if err := startHubControllers(ctx, plan, hub, src, options); err != nil {
			return err
		}
		l.hub = hub
		progress.say("hub is up")
		close(hubReady)
		return nil
	}
	startCluster := func(i int, spec ClusterSpec) error {
		plan := controlPlanePlan{bin: bin, name: spec.Name, controllerManager: true}
		cp, err := l.startManagedControlPlane(ctx, plan, slots, src, spec)
		if err != nil {
			return err
		}
		progress.say("cluster %s is up", spec.Name)
		select {
		case <-hubReady:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		cluster := &Cluster{ControlPlane: cp, spec: spec, hub: l.hub}
		if err := cluster.join(ctx, plan, src); err != nil {
			return err
		}
		if err := cluster.WaitAvailable(ctx); err != nil {
			return err
		}
		l.clusters[i] = cluster
		progress.say("cluster %s has joined", spec.Name)
		return nil
	}

	starts := []func() error{startHub}
	for i, spec := range options.Clusters {
		starts = append(starts, func() error { return startCluster(i, spec) })
	}
	// The first error is the one to show; those of the others are its echo.
	var once sync.Once
	var first error
	_ = inParallel(starts, func(start func() error) error {
		err := start()
		if err != nil {
			once.Do(func() { first = err })
			cancel(err)
		}
		return err
	})
	return first
}

func (l *Lab) startManagedControlPlane(ctx context.Context, plan controlPlanePlan, slots chan struct{}, src sources, spec ClusterSpec) (*ControlPlane, error) {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	cp, err := plan.start(ctx, l.supervisor)
	if err != nil {
		return nil, err
	}
	if err := cp.InstallCRDs(ctx, below(src.api, managedCRDs())...); err != nil {
		return nil, err
	}
	k8s, err := cp.Client()
	if err != nil {
		return nil, err
	}
	if err := ensureNamespace(ctx, k8s, agentNamespace); err != nil {
		return nil, err
	}
	return cp, startWorkloads(ctx, plan, cp, src.kwok, spec.nodes())
}

// Attach takes over the lab that runs in dir, for example one that another
// process started with Options.Detached. It returns an error that matches
// fs.ErrNotExist if there is none. What the lab's owner started keeps its life
// span; what RunProcess starts ends with this process unless its spec says
// otherwise.
func Attach(dir string) (*Lab, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	store := &stateStore{dir: dir}
	st, err := store.read()
	if err != nil {
		return nil, fmt.Errorf("no lab in %s: %w", dir, err)
	}
	lab := &Lab{supervisor: attachSupervisor(store, st)}
	if lab.hub, err = openControlPlane(lab.supervisor, st.Hub); err != nil {
		return nil, err
	}
	for _, spec := range st.Clusters {
		cp, err := openControlPlane(lab.supervisor, spec.Name)
		if err != nil {
			return nil, err
		}
		lab.clusters = append(lab.clusters, &Cluster{ControlPlane: cp, spec: spec, hub: lab.hub})
	}
	return lab, nil
}

// Remove ends every process of the lab in dir, also of one that is only half
// there after a crash, and removes its data; the logs stay. It returns an error
// that matches fs.ErrNotExist if dir holds no lab.
func Remove(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	store := &stateStore{dir: dir}
	st, err := store.read()
	if err != nil {
		return fmt.Errorf("no lab in %s: %w", dir, err)
	}
	return attachSupervisor(store, st).stopAll()
}

// Hub returns the hub's control plane.
func (l *Lab) Hub() *ControlPlane { return l.hub }

// Clusters returns the managed clusters in the order of the options.
func (l *Lab) Clusters() []*Cluster { return l.clusters }

// Cluster returns the managed cluster of that name, nil if there is none.
func (l *Lab) Cluster(name string) *Cluster {
	for _, c := range l.clusters {
		if c.name == name {
			return c
		}
	}
	return nil
}

// Dir returns the lab's folder.
func (l *Lab) Dir() string { return l.supervisor.dir }

// LogDir returns the folder of all logs, <cluster>/<process>.log.
func (l *Lab) LogDir() string { return l.supervisor.logDir() }

// Processes returns every process the lab has started, in that order.
func (l *Lab) Processes() []*Process { return l.supervisor.list() }

// RunProcess starts a further process under the lab's supervision, such as the
// manager or an addon agent. It ends with the lab at the latest.
func (l *Lab) RunProcess(ctx context.Context, spec ProcessSpec) (*Process, error) {
	return l.supervisor.run(ctx, spec)
}

// Stop ends every process, those of RunProcess with SIGTERM first, and removes
// the data. The logs stay unless the folder was a temporary one.
func (l *Lab) Stop() error {
	err := l.supervisor.stopAll()
	if l.temporary {
		err = errors.Join(err, os.RemoveAll(l.supervisor.dir))
	}
	return err
}

// BindGlobalSet lets Placements in a namespace of the hub select from all
// managed clusters. It creates the namespace if needed.
func (l *Lab) BindGlobalSet(ctx context.Context, namespace string) error {
	ctx, cancel := withDefaultTimeout(ctx)
	defer cancel()
	k8s, err := l.hub.Client()
	if err != nil {
		return err
	}
	if err := ensureNamespace(ctx, k8s, namespace); err != nil {
		return err
	}
	binding := &clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: globalSet},
		Spec:       clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: globalSet},
	}
	if err := client.IgnoreAlreadyExists(k8s.Create(ctx, binding)); err != nil {
		return fmt.Errorf("bind cluster set %s to namespace %s: %w", globalSet, namespace, err)
	}
	return await(ctx, "the binding of cluster set "+globalSet, nil, func(ctx context.Context) error {
		if err := k8s.Get(ctx, client.ObjectKeyFromObject(binding), binding); err != nil {
			return err
		}
		return conditionTrue(binding.Status.Conditions, clusterv1beta2.ClusterSetBindingBoundType)
	})
}

// progressLog writes lines with the seconds since the start; several goroutines
// use it.
type progressLog struct {
	mu    sync.Mutex
	out   io.Writer
	begin time.Time
}

func (p *progressLog) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "%4.0f s  %s\n", time.Since(p.begin).Seconds(), fmt.Sprintf(format, args...))
}
