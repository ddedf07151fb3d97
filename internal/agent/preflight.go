package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

const (
	// preflightEvery is how often a cluster is looked at again while the hub
	// waits: for an API that is served by now, or an object that has gone.
	preflightEvery = 10 * time.Second
	// preflightParallel bounds how many objects are asked for at a time.
	preflightParallel = 8
	// maxExisting and maxUnserved are the bounds of the API.
	maxExisting = 500
	maxUnserved = 64
)

// isPreflight tells whether the hub waits for the answer of a preflight. Then
// nothing of the delivery is on the cluster yet, and nothing is judged.
func isPreflight(d *v1alpha1.RolloutDelivery) bool {
	return d.Status.Phase == v1alpha1.PhasePreflight && canEvaluate(d)
}

// discoverer tells which kinds a group and version serves. It is a part of
// discovery.DiscoveryInterface.
type discoverer interface {
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// preflights look, before the first work with new objects is written, which of
// them exist already and which of their APIs the cluster does not serve. The
// watches do not know: what exists already lacks the label that they select by.
type preflights struct {
	discovery discoverer
	metadata  metadata.Interface
	clock     clock.WithTicker
	changed   func(names ...string)
	wake      bell

	mu        sync.Mutex
	inquiries map[string]inquiry
}

// inquiry is one delivery that is looked at, with the latest answer.
type inquiry struct {
	delivery *v1alpha1.RolloutDelivery
	answered bool
	answer   finding
}

// finding is what a look at the cluster found.
type finding struct {
	preflight v1alpha1.Preflight
	// unread are the resources that the agent may not read: nothing is known
	// about their objects.
	unread []string
}

func newPreflights(d discoverer, m metadata.Interface, clock clock.WithTicker, changed func(names ...string)) *preflights {
	return &preflights{
		discovery: d, metadata: m, clock: clock, changed: changed,
		wake: newBell(), inquiries: map[string]inquiry{},
	}
}

// report answers a delivery whose phase is Preflight. It returns false while
// the cluster has not been looked at.
func (p *preflights) report(d *v1alpha1.RolloutDelivery) (v1alpha1.AgentReport, bool) {
	p.mu.Lock()
	asked, known := p.inquiries[d.Name]
	isSame := known && asked.delivery.UID == d.UID && asked.delivery.Spec.Delivery == d.Spec.Delivery &&
		asked.delivery.Status.Rendered.Digest == d.Status.Rendered.Digest
	if !isSame {
		p.inquiries[d.Name] = inquiry{delivery: d}
	}
	p.mu.Unlock()
	if !isSame {
		p.wake.ring()
		return v1alpha1.AgentReport{}, false
	}
	if !asked.answered {
		return v1alpha1.AgentReport{}, false
	}
	preflight := asked.answer.preflight
	return v1alpha1.AgentReport{
		Digest:    d.Status.Rendered.Digest,
		Delivery:  d.Status.Rendered.Delivery,
		Health:    v1alpha1.HealthProgressing,
		Objects:   int32(len(d.Status.Rendered.Objects)),
		Text:      asked.answer.text(),
		Preflight: &preflight,
	}, true
}

// forget ends the look for a delivery that is beyond its preflight.
func (p *preflights) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.inquiries, name)
}

// run looks until the context ends. Without a delivery in its preflight it
// asks the cluster nothing.
func (p *preflights) run(ctx context.Context) {
	ticker := p.clock.NewTicker(preflightEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
			p.round(ctx, inquiry.isNew)
		case <-ticker.C():
			p.round(ctx, inquiry.isAny)
		}
	}
}

func (i inquiry) isNew() bool { return !i.answered }
func (i inquiry) isAny() bool { return true }

// round looks for all inquiries that are due.
func (p *preflights) round(ctx context.Context, isDue func(inquiry) bool) {
	p.mu.Lock()
	due := map[string]*v1alpha1.RolloutDelivery{}
	for name, i := range p.inquiries {
		if isDue(i) {
			due[name] = i.delivery
		}
	}
	p.mu.Unlock()
	for name, delivery := range due {
		found, err := p.find(ctx, delivery)
		if err != nil {
			klog.InfoS("Preflight not finished", "delivery", name, "err", err, "retryAfter", preflightEvery)
			continue
		}
		p.answer(name, delivery, found)
	}
}

// answer takes over what was found, unless the question has changed.
func (p *preflights) answer(name string, asked *v1alpha1.RolloutDelivery, found finding) {
	p.mu.Lock()
	present, known := p.inquiries[name]
	isAsked := known && present.delivery == asked
	if isAsked {
		p.inquiries[name] = inquiry{delivery: asked, answered: true, answer: found}
	}
	p.mu.Unlock()
	if isAsked {
		p.changed(name)
	}
}

// find looks at the cluster. An error means that the answer is not known.
func (p *preflights) find(ctx context.Context, d *v1alpha1.RolloutDelivery) (finding, error) {
	rendered := d.Status.Rendered
	found := finding{preflight: v1alpha1.Preflight{Delivery: rendered.Delivery}}
	served, err := p.served(rendered)
	if err != nil {
		return finding{}, err
	}
	found.preflight.Unserved = unserved(rendered, served)

	var (
		wait   sync.WaitGroup
		places = make(chan struct{}, preflightParallel)
		errs   = make([]error, len(rendered.Objects))
		exists = make([]bool, len(rendered.Objects))
	)
	for i, object := range rendered.Objects {
		resource, isServed := served[apiOfKind(object.ObjectReference)]
		if !isServed || isSecret(kindOf(object.ObjectReference)) {
			continue
		}
		places <- struct{}{}
		wait.Go(func() {
			defer func() { <-places }()
			exists[i], errs[i] = p.existsUnstamped(ctx, d.Spec.Rollout, object.ObjectReference, resource)
		})
	}
	wait.Wait()

	unread := sets.New[string]()
	for i, object := range rendered.Objects {
		switch {
		case apierrors.IsForbidden(errs[i]):
			unread.Insert(refusedResource(errs[i]))
		case errs[i] != nil:
			return finding{}, fmt.Errorf("look for %s: %w", describe(object.ObjectReference), errs[i])
		case exists[i] && len(found.preflight.Existing) < maxExisting:
			found.preflight.Existing = append(found.preflight.Existing, object.ObjectReference)
		}
	}
	found.unread = sets.List(unread)
	return found, nil
}

// existsUnstamped tells whether an object is there that this rollout has not
// delivered. Only its metadata is read.
func (p *preflights) existsUnstamped(
	ctx context.Context, rollout v1alpha1.RolloutReference, ref v1alpha1.ObjectReference, resource schema.GroupVersionResource,
) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	object, err := p.metadata.Resource(resource).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, err
	}
	labels := object.GetLabels()
	isOurs := labels[v1alpha1.LabelRolloutNamespace] == rollout.Namespace && labels[v1alpha1.LabelRolloutName] == rollout.Name
	return !isOurs, nil
}

// served asks for the kinds of every group and version that the delivery
// names, each once, and returns the resources of those that are served.
func (p *preflights) served(rendered *v1alpha1.Rendered) (map[v1alpha1.RequiredAPI]schema.GroupVersionResource, error) {
	served := map[v1alpha1.RequiredAPI]schema.GroupVersionResource{}
	asked := sets.New[schema.GroupVersion]()
	for _, api := range namedAPIs(rendered) {
		gv := schema.GroupVersion{Group: api.Group, Version: api.Version}
		if asked.Has(gv) {
			continue
		}
		asked.Insert(gv)
		resources, err := p.discovery.ServerResourcesForGroupVersion(gv.String())
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("ask which kinds of %s are served: %w", gv, err)
		}
		for _, r := range resources.APIResources {
			if !strings.Contains(r.Name, "/") {
				served[v1alpha1.RequiredAPI{Group: gv.Group, Version: gv.Version, Kind: r.Kind}] = gv.WithResource(r.Name)
			}
		}
	}
	return served, nil
}

// unserved are the named APIs that the cluster does not serve and the content
// does not bring itself.
func unserved(rendered *v1alpha1.Rendered, served map[v1alpha1.RequiredAPI]schema.GroupVersionResource) []v1alpha1.RequiredAPI {
	brought := broughtGroups(rendered)
	var missing []v1alpha1.RequiredAPI
	for _, api := range namedAPIs(rendered) {
		if _, isServed := served[api]; isServed || brought.Has(api.Group) || len(missing) == maxUnserved {
			continue
		}
		missing = append(missing, api)
	}
	return missing
}

// namedAPIs are the APIs that are required and those of the content, each once.
func namedAPIs(rendered *v1alpha1.Rendered) []v1alpha1.RequiredAPI {
	apis := slices.Clone(rendered.Requires)
	for _, object := range rendered.Objects {
		apis = append(apis, apiOfKind(object.ObjectReference))
	}
	seen := sets.New[v1alpha1.RequiredAPI]()
	return slices.DeleteFunc(apis, func(api v1alpha1.RequiredAPI) bool {
		if seen.Has(api) {
			return true
		}
		seen.Insert(api)
		return false
	})
}

func apiOfKind(ref v1alpha1.ObjectReference) v1alpha1.RequiredAPI {
	return v1alpha1.RequiredAPI{Group: ref.Group, Version: ref.Version, Kind: ref.Kind}
}

// broughtGroups are the API groups that the content itself defines. The agent
// knows of a definition its name only, which is "plural.group" for a
// CustomResourceDefinition and "version.group" for an APIService. From a plural
// the kind cannot be told for sure, so the group decides: an API that is
// missing all the same shows as one that cannot be applied.
func broughtGroups(rendered *v1alpha1.Rendered) sets.Set[string] {
	groups := sets.New[string]()
	for _, object := range rendered.Objects {
		switch kindOf(object.ObjectReference).GroupKind() {
		case schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"},
			schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}:
			if _, group, found := strings.Cut(object.Name, "."); found {
				groups.Insert(group)
			}
		}
	}
	return groups
}

// text is the finding in one line for people.
func (f finding) text() string {
	var parts []string
	if n := len(f.preflight.Unserved); n > 0 {
		api := f.preflight.Unserved[0]
		part := "the cluster does not serve " + apiOf(v1alpha1.ObjectReference{Group: api.Group, Version: api.Version, Kind: api.Kind})
		if n > 1 {
			part += fmt.Sprintf(" and %d more APIs", n-1)
		}
		parts = append(parts, part)
	}
	if n := len(f.preflight.Existing); n > 0 {
		part := describe(f.preflight.Existing[0])
		if n > 1 {
			part += fmt.Sprintf(" and %d more", n-1)
		}
		parts = append(parts, part+" exists already and is not this rollout's")
	}
	if len(f.unread) > 0 {
		parts = append(parts, fmt.Sprintf("the agent cannot tell what exists of %s: %s",
			strings.Join(f.unread, ", "), missingRule(strings.Join(f.unread, ", "))))
	}
	if len(parts) == 0 {
		return "nothing that is to be added exists, and all its APIs are served"
	}
	return bounded(strings.Join(parts, "; "))
}
