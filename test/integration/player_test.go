package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

const (
	playInterval = 50 * time.Millisecond
	// agentLeaseSeconds is short, so that silence is noticed within a test.
	agentLeaseSeconds = 6
)

// player plays what real managed clusters do on the hub: the work agent that
// applies ManifestWorks, and the addon agent that reports health and renews
// its Lease. What a cluster reports is up to the test.
type player struct {
	client client.Client
	// leaseSeconds of the agents, who renew six times as often.
	leaseSeconds int32
	// crowd is the namespace of the one rollout that is played. If set, a tick
	// plays only clusters where something of it has changed, so that hundreds can
	// be played; nothing is renewed, so that leaseSeconds must be long.
	crowd string
	// seen is what was there of the crowd when a cluster was last played.
	seen map[string]string
	// stop ends the play; it may be called more than once.
	stop func()

	mu       sync.Mutex
	clusters map[string]*playedCluster
	// playing is held while the clusters are played.
	playing sync.Mutex
}

// playedCluster is the behaviour of one cluster.
type playedCluster struct {
	name string
	// silent: neither agent does anything.
	silent bool
	// frozenWork: the work agent does not observe new generations.
	frozenWork bool
	// health of a version on this cluster.
	health func(version string) v1alpha1.Health
	// existing and unserved are what a preflight finds on this cluster, drift what
	// is reported of content that is applied.
	existing []v1alpha1.ObjectReference
	unserved []v1alpha1.RequiredAPI
	drift    []v1alpha1.ObjectDrift
}

func alwaysHealthy(string) v1alpha1.Health { return v1alpha1.HealthHealthy }

// healthOf gives one version the health and all others Healthy.
func healthOf(version string, health v1alpha1.Health) func(string) v1alpha1.Health {
	return func(v string) v1alpha1.Health {
		if v == version {
			return health
		}
		return v1alpha1.HealthHealthy
	}
}

// play starts a player without clusters; it ends with the spec.
func play(c client.Client) *player {
	p := &player{client: c, leaseSeconds: agentLeaseSeconds, clusters: map[string]*playedCluster{}, seen: map[string]string{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer GinkgoRecover()
		ticker := time.NewTicker(playInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				p.tick(ctx)
			}
		}
	}()
	p.stop = func() {
		cancel()
		<-done
	}
	DeferCleanup(p.stop)
	return p
}

// set changes the behaviour of clusters. When it returns nobody behaves as before.
func (p *player) set(change func(*playedCluster), names ...string) {
	p.playing.Lock()
	defer p.playing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range names {
		change(p.clusters[name])
	}
}

// join creates a managed cluster with the addon enabled and plays it.
func (p *player) join(ctx context.Context, name string, labels map[string]string) {
	GinkgoHelper()
	Expect(client.IgnoreAlreadyExists(p.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))).To(Succeed())
	cluster := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
	}
	Expect(p.client.Create(ctx, cluster)).To(Succeed())
	p.setAvailable(ctx, name, metav1.ConditionTrue)
	Expect(p.client.Create(ctx, &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: v1alpha1.AddonName}})).To(Succeed())
	now, seconds := metav1.NowMicro(), p.leaseSeconds
	Expect(client.IgnoreAlreadyExists(p.client.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: v1alpha1.AgentLeaseName},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &now, LeaseDurationSeconds: &seconds},
	}))).To(Succeed())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clusters[name] = &playedCluster{name: name, health: alwaysHealthy}
}

func (p *player) setAvailable(ctx context.Context, name string, status metav1.ConditionStatus) {
	GinkgoHelper()
	Eventually(func() error {
		cluster := &clusterv1.ManagedCluster{}
		if err := p.client.Get(ctx, client.ObjectKey{Name: name}, cluster); err != nil {
			return err
		}
		meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{
			Type: clusterv1.ManagedClusterConditionAvailable, Status: status, Reason: "Played",
		})
		return p.client.Status().Update(ctx, cluster)
	}).WithContext(ctx).Should(Succeed())
}

func (p *player) tick(ctx context.Context) {
	p.playing.Lock()
	defer p.playing.Unlock()
	p.mu.Lock()
	present := make([]playedCluster, 0, len(p.clusters))
	for _, c := range p.clusters {
		present = append(present, *c)
	}
	p.mu.Unlock()
	var changed map[string]string
	if p.crowd != "" {
		changed = p.changes(ctx)
	}
	for _, c := range present {
		if _, isChanged := changed[c.name]; c.silent || (p.crowd != "" && !isChanged) {
			continue
		}
		// A conflict or a restarting API server is tried again by the next tick.
		if err := p.playCluster(ctx, c); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			fmt.Fprintf(GinkgoWriter, "player: cluster %s: %v\n", c.name, err)
		} else if err == nil && p.crowd != "" {
			p.seen[c.name] = changed[c.name]
		}
	}
}

// changes tells what is there of the crowd's rollout on the clusters where
// something has changed since they were last played.
func (p *player) changes(ctx context.Context) map[string]string {
	var deliveries v1alpha1.RolloutDeliveryList
	var works workv1.ManifestWorkList
	of := client.MatchingLabels{v1alpha1.LabelRolloutNamespace: p.crowd}
	if errors.Join(p.client.List(ctx, &deliveries, of), p.client.List(ctx, &works, of)) != nil {
		return nil // The next tick tries again.
	}
	present := map[string]string{}
	for _, d := range deliveries.Items {
		present[d.Namespace] += " " + d.ResourceVersion
	}
	for _, w := range works.Items {
		present[w.Namespace] += " " + w.ResourceVersion
	}
	maps.DeleteFunc(present, func(cluster, versions string) bool { return p.seen[cluster] == versions })
	return present
}

func (p *player) playCluster(ctx context.Context, c playedCluster) error {
	// In a namespace that is going the Lease may go first.
	if err := p.renew(ctx, c.name); client.IgnoreNotFound(err) != nil {
		return err
	}
	if !c.frozenWork {
		if err := p.applyWorks(ctx, c.name); err != nil {
			return err
		}
	}
	return p.report(ctx, c)
}

func (p *player) renew(ctx context.Context, name string) error {
	lease := &coordinationv1.Lease{}
	if err := p.client.Get(ctx, client.ObjectKey{Namespace: name, Name: v1alpha1.AgentLeaseName}, lease); err != nil {
		return err
	}
	if lease.Spec.RenewTime != nil && time.Since(lease.Spec.RenewTime.Time) < time.Duration(p.leaseSeconds)*time.Second/6 {
		return nil
	}
	now, seconds := metav1.NowMicro(), p.leaseSeconds
	lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &now, &seconds
	return p.client.Update(ctx, lease)
}

func (p *player) applyWorks(ctx context.Context, name string) error {
	var works workv1.ManifestWorkList
	if err := p.client.List(ctx, &works, client.InNamespace(name)); err != nil {
		return err
	}
	for i := range works.Items {
		work := &works.Items[i]
		if done, err := p.finalize(ctx, work); done || err != nil {
			return err
		}
		if c := meta.FindStatusCondition(work.Status.Conditions, workv1.WorkApplied); c != nil && c.ObservedGeneration == work.Generation {
			continue
		}
		for _, conditionType := range []string{workv1.WorkApplied, workv1.WorkAvailable} {
			meta.SetStatusCondition(&work.Status.Conditions, metav1.Condition{
				Type: conditionType, Status: metav1.ConditionTrue, Reason: "Played", ObservedGeneration: work.Generation,
			})
		}
		if err := p.client.Status().Update(ctx, work); err != nil {
			return err
		}
	}
	return nil
}

// finalize plays the work agent's finalizer: it is there as long as the objects
// of the work may be on the cluster.
func (p *player) finalize(ctx context.Context, work *workv1.ManifestWork) (bool, error) {
	switch {
	case !work.DeletionTimestamp.IsZero():
		controllerutil.RemoveFinalizer(work, workv1.ManifestWorkFinalizer)
	case !controllerutil.AddFinalizer(work, workv1.ManifestWorkFinalizer):
		return false, nil
	}
	return true, p.client.Update(ctx, work)
}

// report plays the addon agent: one condition per delivery that was rendered.
func (p *player) report(ctx context.Context, c playedCluster) error {
	var deliveries v1alpha1.RolloutDeliveryList
	if err := p.client.List(ctx, &deliveries, client.InNamespace(c.name)); err != nil {
		return err
	}
	addon := &addonv1alpha1.ManagedClusterAddOn{}
	if err := p.client.Get(ctx, client.ObjectKey{Namespace: c.name, Name: v1alpha1.AddonName}, addon); err != nil {
		return err
	}
	changed := false
	for _, d := range deliveries.Items {
		rendered := d.Status.Rendered
		if rendered == nil || rendered.Delivery != d.Spec.Delivery || rendered.Digest != d.Spec.Revision.Digest {
			continue
		}
		condition, err := reportCondition(d, c)
		if err != nil {
			return err
		}
		changed = meta.SetStatusCondition(&addon.Status.Conditions, condition) || changed
	}
	if !changed {
		return nil
	}
	return p.client.Status().Update(ctx, addon)
}

// reportCondition answers a preflight, or else reports the cluster's health.
func reportCondition(d v1alpha1.RolloutDelivery, c playedCluster) (metav1.Condition, error) {
	report := v1alpha1.AgentReport{
		Digest:   d.Spec.Revision.Digest,
		Delivery: d.Spec.Delivery,
		Objects:  int32(len(d.Status.Rendered.Objects)),
	}
	if d.Status.Phase == v1alpha1.PhasePreflight {
		report.Health = v1alpha1.HealthProgressing
		report.Preflight = &v1alpha1.Preflight{Delivery: d.Spec.Delivery, Existing: c.existing, Unserved: c.unserved}
	} else {
		report.Health = c.health(d.Spec.Revision.Version)
		report.Drift = c.drift
	}
	report.Text = "played: " + string(report.Health)
	message, err := report.Encode()
	status := metav1.ConditionUnknown
	switch report.Health {
	case v1alpha1.HealthHealthy:
		status = metav1.ConditionTrue
	case v1alpha1.HealthDegraded, v1alpha1.HealthFailed:
		status = metav1.ConditionFalse
	}
	return metav1.Condition{
		Type:    v1alpha1.ConditionType(d.Spec.Rollout.Namespace, d.Spec.Rollout.Name),
		Status:  status,
		Reason:  string(report.Health),
		Message: message,
	}, err
}
