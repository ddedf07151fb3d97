package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	workv1 "open-cluster-management.io/api/work/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/delivery"
)

// readyTimeout is how long a readiness probe waits for the caches.
const readyTimeout = 500 * time.Millisecond

// newScheme knows every kind that the manager reads or writes.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme,
		v1alpha1.AddToScheme,
		clusterv1.Install,
		clusterv1beta1.Install,
		workv1.Install,
		addonv1alpha1.Install,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

func (o *Options) managerOptions(scheme *runtime.Scheme) ctrl.Options {
	return ctrl.Options{
		Scheme:                  scheme,
		Cache:                   cacheOptions(),
		Metrics:                 metricsserver.Options{BindAddress: o.MetricsBindAddress},
		HealthProbeBindAddress:  o.HealthProbeBindAddress,
		GracefulShutdownTimeout: &o.ShutdownTimeout,

		LeaderElection: o.LeaderElection.Enabled,
		LeaseDuration:  &o.LeaderElection.LeaseDuration,
		RenewDeadline:  &o.LeaderElection.RenewDeadline,
		RetryPeriod:    &o.LeaderElection.RetryPeriod,
		// The process ends when Start returns, so another replica may begin at once.
		LeaderElectionReleaseOnCancel: true,
	}
}

// cacheOptions keep in memory what the controllers look at: works without their
// manifests, and of the hub's Secrets, Leases and addons only ours.
func cacheOptions() cache.Options {
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&workv1.ManifestWork{}:               {Label: ofRollouts(), Transform: delivery.SlimWork},
			&corev1.Secret{}:                     {Label: ofRollouts()},
			&coordinationv1.Lease{}:              {Field: fields.OneTermEqualSelector("metadata.name", v1alpha1.AgentLeaseName)},
			&addonv1alpha1.ManagedClusterAddOn{}: {Field: fields.OneTermEqualSelector("metadata.name", v1alpha1.AddonName)},
		},
	}
}

// ofRollouts selects what carries the label of a rollout.
func ofRollouts() labels.Selector {
	requirement, err := labels.NewRequirement(v1alpha1.LabelRolloutName, selection.Exists, nil)
	if err != nil {
		// Only a malformed constant gets here.
		panic(err)
	}
	return labels.NewSelector().Add(*requirement)
}

// addProbes serves /healthz, which tells that the process answers, and /readyz,
// which tells that its caches are filled. A replica that does not lead is ready.
func addProbes(mgr ctrl.Manager) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("caches", func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), readyTimeout)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the caches are not filled yet")
		}
		return nil
	})
}
