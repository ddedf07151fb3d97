package agent

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// The default intervals of the Lease (DESIGN 4.3).
const (
	DefaultFastLease = 20 * time.Second
	DefaultSlowLease = 60 * time.Second
)

// Options of the agent.
type Options struct {
	// ClusterName is the name of the ManagedCluster, and of its namespace on
	// the hub.
	ClusterName string
	// Hub is the connection with the identity that OCM's registration agent
	// obtained for this addon.
	Hub *rest.Config
	// Managed is the connection to the cluster that the agent judges.
	Managed *rest.Config
	// FastLease is the interval of the Lease while a delivery is fresh, and
	// SlowLease the one otherwise. Zero means the default.
	FastLease time.Duration
	SlowLease time.Duration
	// EndpointInterval is how often each endpoint of a health policy is probed,
	// with a jitter of a fifth. Zero means the default.
	EndpointInterval time.Duration
	// EndpointAddresses are dialled in the place of Services, where there is no
	// Service network: "host:port" by "namespace/name:port".
	EndpointAddresses map[string]string
	// Dialer opens the connections of the probes. Nil means a net.Dialer.
	Dialer Dialer
	// Metrics that are kept. Nil means none.
	Metrics *Metrics
}

// Run reports until the context ends, and then returns nil. It waits for both
// APIs and survives their restarts; it returns an error only if it cannot
// start with these options.
func (o Options) Run(ctx context.Context) error {
	a, err := newAgent(o)
	if err != nil {
		return fmt.Errorf("agent of cluster %q: %w", o.ClusterName, err)
	}
	if err := a.run(ctx); err != nil {
		return fmt.Errorf("agent of cluster %q: %w", o.ClusterName, err)
	}
	return nil
}

// agent holds the parts and connects them.
type agent struct {
	hub        cache.Cache
	deliveries *deliveries
	watches    *watches
	complaints *complaints
	preflights *preflights
	endpoints  *endpoints
	podStarts  *podStarts
	metrics    *Metrics
	addons     addonClient
	recalled   *recollection
	classes    *storageClasses
	checks     *compiledChecks
	again      *wakeUps
	clock      clock.WithTicker
	reporter   *reporter
	lease      *lease
}

func newAgent(o Options) (*agent, error) {
	if o.ClusterName == "" {
		return nil, fmt.Errorf("the name of the cluster is empty: set it to the name of the ManagedCluster")
	}
	o.Hub, o.Managed = withRate(o.Hub), withRate(o.Managed)
	hub, err := hubCache(o)
	if err != nil {
		return nil, err
	}
	hubKube, err := kubernetes.NewForConfig(o.Hub)
	if err != nil {
		return nil, fmt.Errorf("client for the hub: %w", err)
	}
	addons, err := addonclient.NewForConfig(o.Hub)
	if err != nil {
		return nil, fmt.Errorf("client for addons of the hub: %w", err)
	}
	managedKube, err := kubernetes.NewForConfig(o.Managed)
	if err != nil {
		return nil, fmt.Errorf("client for the managed cluster: %w", err)
	}
	managed, err := managedClients(o.Managed, managedKube)
	if err != nil {
		return nil, err
	}

	wall := clock.RealClock{}
	a := &agent{
		hub: hub, deliveries: newDeliveries(wall), watches: newWatches(managed, wall), clock: wall,
		addons: addons.AddonV1alpha1().ManagedClusterAddOns(o.ClusterName), recalled: &recollection{}, metrics: o.Metrics,
	}
	a.watches.recall = a.recalled.driftOf(a.deliveries)
	a.reporter = newReporter(a.addons, a.deliveries, a.judge, wall)
	a.watches.observer = a.reporter
	a.classes = newStorageClasses(managedKube, wall)
	a.checks = newCompiledChecks()
	a.again = newWakeUps(wall, a.reporter.mark)
	a.complaints = newComplaints(managedKube, wall, a.reporter.objectChanged)
	a.preflights = newPreflights(managedKube.Discovery(), managed.metadata, wall, a.reporter.mark)
	dialer, err := o.dialer()
	if err != nil {
		return nil, err
	}
	a.endpoints = newEndpoints(dialer, orDefault(o.EndpointInterval, DefaultEndpointInterval), wall)
	a.endpoints.metrics, a.endpoints.changed, a.endpoints.recalled = o.Metrics, a.reporter.mark, a.recalled
	a.podStarts = newPodStarts(managedKube, a.watches.see, wall, a.reporter.mark)
	a.podStarts.metrics, a.reporter.metrics = o.Metrics, o.Metrics
	a.lease = &lease{
		leases:  hubKube.CoordinationV1().Leases(o.ClusterName),
		clock:   wall,
		metrics: o.Metrics,
		holder:  o.ClusterName,
		fast:    orDefault(o.FastLease, DefaultFastLease),
		slow:    orDefault(o.SlowLease, DefaultSlowLease),
		isFast:  a.deliveries.isFast,
		vouches: []func(context.Context) error{
			func(context.Context) error { return a.reporter.vouches() },
			answers(managedKube),
		},
		sooner: newBell(),
	}
	return a, nil
}

// withRate lets a report that follows others go out at once: with the client's
// defaults the sixth request of a second waits.
func withRate(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = max(cfg.QPS, 50), max(cfg.Burst, 100)
	return cfg
}

// dialer is what the probes dial with.
func (o Options) dialer() (Dialer, error) {
	var dialer Dialer = &net.Dialer{}
	if o.Dialer != nil {
		dialer = o.Dialer
	}
	addresses := map[string]string{}
	for endpoint, address := range o.EndpointAddresses {
		service, err := parseEndpoint(endpoint)
		if err != nil {
			return nil, err
		}
		addresses[addressOf(service)] = address
	}
	return mappedDialer{Dialer: dialer, addresses: addresses}, nil
}

func orDefault(d, fallback time.Duration) time.Duration {
	if d <= 0 {
		return fallback
	}
	return d
}

// hubCache watches the deliveries of this cluster. The mapping is given, so
// that the hub is not asked for its APIs.
func hubCache(o Options) (cache.Cache, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("scheme: %w", err)
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{v1alpha1.GroupVersion})
	mapper.Add(v1alpha1.GroupVersion.WithKind("RolloutDelivery"), meta.RESTScopeNamespace)
	hub, err := cache.New(o.Hub, cache.Options{
		Scheme:            scheme,
		Mapper:            mapper,
		DefaultNamespaces: map[string]cache.Config{o.ClusterName: {}},
		DefaultTransform:  cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, fmt.Errorf("cache of the hub: %w", err)
	}
	return hub, nil
}

func managedClients(cfg *rest.Config, kube kubernetes.Interface) (clients, error) {
	dynamicClient, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return clients{}, fmt.Errorf("dynamic client for the managed cluster: %w", err)
	}
	metadataClient, err := metadata.NewForConfig(cfg)
	if err != nil {
		return clients{}, fmt.Errorf("metadata client for the managed cluster: %w", err)
	}
	return clients{
		dynamic:  dynamicClient,
		metadata: metadataClient,
		mapper:   restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kube.Discovery())),
		ready: func(ctx context.Context) bool {
			return kube.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil
		},
	}, nil
}

// answers tells whether the managed cluster's API can be reached: what the
// watches hold is worth nothing while it cannot.
func answers(kube kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := kube.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error(); err != nil {
			return fmt.Errorf("the API of the managed cluster does not answer: %w", err)
		}
		return nil
	}
}

// look is what evaluate sees.
func (a *agent) look(ref v1alpha1.ObjectReference) Sight {
	return a.complaints.about(ref, a.classes.about(ref, a.watches.see(ref)))
}

// rulesOf are the rules of a delivery's health policy. What was healthy before the
// agent was restarted has settled, and Jobs that had completed still have.
func (a *agent) rulesOf(d *v1alpha1.RolloutDelivery) rules {
	by := rules{checks: a.checks.of(d), settle: d.Status.Rendered.Health.Settle()}
	recalled, found := a.recalled.of(d)
	if !found {
		return by
	}
	by.completed = sets.New(recalled.CompletedJobs...)
	if recalled.Health == v1alpha1.HealthHealthy {
		by.settle = 0
	}
	return by
}

// judge reports on a delivery: what is there before its first write, and how
// it is afterwards.
func (a *agent) judge(d *v1alpha1.RolloutDelivery) (v1alpha1.AgentReport, bool) {
	if isPreflight(d) {
		return a.preflights.report(d)
	}
	found, known := evaluate(d, a.look, a.rulesOf(d))
	if !known {
		return found.report, false
	}
	report := found.report
	if found.settling > 0 {
		a.again.in(d.Name, found.settling)
	}
	endpoints, count := a.endpoints.about(d, report.Health)
	report, known = a.podStarts.judge(d, report)
	if !known {
		return report, false
	}
	report = withEndpoints(report, endpoints, count)
	a.metrics.evaluated(d.Spec.Rollout, report)
	return report, true
}

func (a *agent) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Before anything is seen, for it tells what is not new.
	a.recalled.read(ctx, a.addons, a.clock)
	informer, err := a.hub.GetInformer(ctx, &v1alpha1.RolloutDelivery{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch deliveries: %w", err)
	}
	registration, err := informer.AddEventHandler(a.deliveryHandler(ctx))
	if err != nil {
		return fmt.Errorf("watch deliveries: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- a.hub.Start(ctx) }()

	klog.InfoS("Waiting for the hub")
	if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return <-ended
	}
	klog.InfoS("Watching deliveries", "present", len(a.deliveries.names()))
	var parts sync.WaitGroup
	for _, part := range []func(context.Context){a.reporter.run, a.complaints.run, a.preflights.run, a.endpoints.run, a.podStarts.run, a.renewLease} {
		parts.Go(func() { part(ctx) })
	}
	err = <-ended
	cancel()
	parts.Wait()
	return err
}

// renewLease begins when everything has been evaluated once: what stands on the
// hub from before is not vouched for unseen.
func (a *agent) renewLease(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-a.reporter.caughtUp:
		a.lease.run(ctx)
	}
}

// deliveryHandler takes over what the hub shows: the deliveries, the kinds to
// watch for them, and whom to evaluate.
func (a *agent) deliveryHandler(ctx context.Context) toolscache.ResourceEventHandler {
	put := func(o any) {
		delivery, ok := o.(*v1alpha1.RolloutDelivery)
		if !ok || !a.deliveries.put(delivery) {
			return
		}
		if !isPreflight(delivery) {
			a.preflights.forget(delivery.Name)
		}
		if isPreflight(delivery) || !canEvaluate(delivery) {
			a.endpoints.forget(delivery.Name)
			a.podStarts.forget(delivery.Name)
		}
		a.watches.want(ctx, a.deliveries.wantedKinds())
		a.reporter.mark(delivery.Name)
		a.lease.sooner.ring()
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    put,
		UpdateFunc: func(_, o any) { put(o) },
		DeleteFunc: func(o any) {
			name, err := toolscache.DeletionHandlingObjectToName(o)
			if err != nil {
				return
			}
			if gone, known := a.deliveries.get(name.Name); known {
				a.metrics.forget(gone.Spec.Rollout)
			}
			a.deliveries.remove(name.Name)
			a.preflights.forget(name.Name)
			a.endpoints.forget(name.Name)
			a.podStarts.forget(name.Name)
			a.checks.forget(name.Name)
			a.watches.want(ctx, a.deliveries.wantedKinds())
			a.reporter.mark(name.Name)
		},
	}
}
