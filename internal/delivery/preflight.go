package delivery

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/pkg/workbuilder"
)

// The bounds of the API.
const (
	maxUnadopted = 2000
	maxExisting  = 500
	maxUnserved  = 64
)

// question is what a preflight would ask about: objects that the present works
// do not carry. A Job does not count, because nobody else makes one under the
// name that it is delivered under.
type question struct {
	added []v1alpha1.ObjectReference
}

// questionOf compares what is to be delivered with what the present works carry.
func questionOf(rendering workbuilder.Rendering, present []*unstructured.Unstructured) question {
	carried := map[claim]bool{}
	for _, object := range present {
		carried[claimOf(v1alpha1.ReferenceOf(object))] = true
	}
	var asked question
	for _, object := range rendering.Rendered.Objects {
		isJob := object.Group == "batch" && object.Kind == "Job"
		if !isJob && !carried[claimOf(object.ObjectReference)] {
			asked.added = append(asked.added, object.ObjectReference)
		}
	}
	return asked
}

// needsPreflight tells whether the agent must look at the cluster before the
// rendering is written. Going back is exempt: it matters more that the cluster
// gets what was proven there.
func needsPreflight(delivery *v1alpha1.RolloutDelivery, rendering workbuilder.Rendering, asked question) bool {
	status, spec := delivery.Status, delivery.Spec
	if spec.Direction == v1alpha1.DirectionRollback {
		return false
	}
	if done := status.Preflight; done != nil && done.Delivery == spec.Delivery && done.AnsweredAt != nil {
		return false
	}
	var required []v1alpha1.RequiredAPI
	if status.Rendered != nil {
		required = status.Rendered.Requires
	}
	return len(asked.added) > 0 || slices.ContainsFunc(rendering.Rendered.Requires, func(api v1alpha1.RequiredAPI) bool {
		return !slices.Contains(required, api)
	})
}

// isInPreflight tells whether the recorded rendering waits for the agent.
func isInPreflight(delivery *v1alpha1.RolloutDelivery) bool {
	return isRendered(delivery) && awaitsAnswer(delivery.Status)
}

func awaitsAnswer(status v1alpha1.RolloutDeliveryStatus) bool {
	return status.Phase == v1alpha1.PhasePreflight && status.Rendered != nil && status.Rendered.Delivery == status.Delivery
}

// answer is what a live agent said about the delivery in its preflight.
type answer struct {
	v1alpha1.Preflight
	// cut tells that not all existing objects had room in the report.
	cut bool
}

// answerOf reads the answer to a delivery's preflight; nil if there is none. It
// counts only if it echoes digest and delivery number and comes from an agent
// that lives on a cluster that can be reached (law 5).
func answerOf(task *Task) *answer {
	delivery := task.Delivery
	observed := Observation{Cluster: task.Cluster, Spec: delivery.Spec, Status: delivery.Status, Agent: task.Agent}
	if !isInPreflight(delivery) || observed.lost() != nil || !task.Agent.isAlive() {
		return nil
	}
	report, _ := observed.report()
	if report == nil || report.Preflight == nil || report.Preflight.Delivery != delivery.Spec.Delivery {
		return nil
	}
	return &answer{Preflight: *report.Preflight, cut: report.Truncated}
}

// unserved are the APIs of an answer that no CustomResourceDefinition of the
// content brings.
func (a answer) unserved(rendering workbuilder.Rendering) []v1alpha1.RequiredAPI {
	brought := map[v1alpha1.RequiredAPI]bool{}
	for _, object := range rendering.Objects {
		for _, api := range apisOf(object) {
			brought[api] = true
		}
	}
	var lacking []v1alpha1.RequiredAPI
	for _, api := range a.Unserved {
		if !brought[api] && len(lacking) < maxUnserved {
			lacking = append(lacking, api)
		}
	}
	return lacking
}

// apisOf are the APIs that an object brings, if it is a
// CustomResourceDefinition.
func apisOf(object *unstructured.Unstructured) []v1alpha1.RequiredAPI {
	if kind := object.GroupVersionKind(); kind.Group != "apiextensions.k8s.io" || kind.Kind != "CustomResourceDefinition" {
		return nil
	}
	group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(object.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(object.Object, "spec", "versions")
	var apis []v1alpha1.RequiredAPI
	for _, item := range versions {
		version, _ := item.(map[string]any)
		name, _, _ := unstructured.NestedString(version, "name")
		if served, _, _ := unstructured.NestedBool(version, "served"); served {
			apis = append(apis, v1alpha1.RequiredAPI{Group: group, Version: name, Kind: kind})
		}
	}
	return apis
}

// existing are the objects that an answer says exist already. Where not all of
// them had room in the report, every object that is to be added counts: to leave
// too much behind one day is better than to delete what somebody else made.
func (a answer) existing(asked question) []v1alpha1.ObjectReference {
	if a.cut {
		return asked.added
	}
	found := map[claim]bool{}
	for _, object := range a.Existing {
		found[claimOf(object)] = true
	}
	var existing []v1alpha1.ObjectReference
	for _, object := range asked.added {
		if found[claimOf(object)] {
			existing = append(existing, object)
		}
	}
	return existing
}

// unadopt adds existing objects to those that are known not to be ours to
// delete, and leaves out what the content now says may be adopted.
func unadopt(before, existing []v1alpha1.ObjectReference, adopt []v1alpha1.ObjectTarget) []v1alpha1.ObjectReference {
	seen := map[claim]bool{}
	var result []v1alpha1.ObjectReference
	for _, object := range slices.Concat(before, existing) {
		key := claimOf(object)
		if seen[key] || slices.ContainsFunc(adopt, func(target v1alpha1.ObjectTarget) bool { return target.Matches(object) }) {
			continue
		}
		seen[key] = true
		result = append(result, object)
	}
	return result
}

// orphanedBy are the objects of present works that these leave on the cluster by
// name although they hold no data: what a record that somebody deleted knew of
// unadopted objects.
func orphanedBy(works []*workv1.ManifestWork, objects []*unstructured.Unstructured) []v1alpha1.ObjectReference {
	rules := map[workv1.OrphaningRule]bool{}
	for _, work := range works {
		if option := work.Spec.DeleteOption; option != nil && option.SelectivelyOrphan != nil {
			for _, rule := range option.SelectivelyOrphan.OrphaningRules {
				rules[rule] = true
			}
		}
	}
	var orphaned []v1alpha1.ObjectReference
	for _, object := range objects {
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		rule := workv1.OrphaningRule{Group: resource.Group, Resource: resource.Resource, Namespace: object.GetNamespace(), Name: object.GetName()}
		if rules[rule] && !slices.Contains([]string{"namespaces", "persistentvolumes", "persistentvolumeclaims", "customresourcedefinitions"}, resource.Resource) {
			orphaned = append(orphaned, v1alpha1.ReferenceOf(object))
		}
	}
	return orphaned
}

// remembered bounds the unadopted objects to what status holds. One that is no
// longer in the content stays on the list: it bears our labels by now, and nothing
// else would tell that it was there before. Those go first if the list is full.
func remembered(unadopted []v1alpha1.ObjectReference, delivered []v1alpha1.RenderedObject) []v1alpha1.ObjectReference {
	if len(unadopted) <= maxUnadopted {
		return unadopted
	}
	present := map[claim]bool{}
	for _, object := range delivered {
		present[claimOf(object.ObjectReference)] = true
	}
	tooMany := len(unadopted) - maxUnadopted
	kept := slices.DeleteFunc(slices.Clone(unadopted), func(object v1alpha1.ObjectReference) bool {
		if tooMany > 0 && !present[claimOf(object)] {
			tooMany--
			return true
		}
		return false
	})
	return kept[:min(len(kept), maxUnadopted)]
}

// unservedObstacle says which APIs the cluster lacks. It goes by itself once
// the agent reports that they are served.
func unservedObstacle(cluster string, lacking, required []v1alpha1.RequiredAPI) *Obstacle {
	var names []string
	origin := "the content"
	for _, api := range lacking {
		if slices.Contains(required, api) {
			origin = "spec.requires"
		}
		names = append(names, describeAPI(api))
	}
	const most = 5
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
		names = names[:most]
	}
	return &Obstacle{State: v1alpha1.StateBlocked, Cause: v1alpha1.Cause{
		Reason: v1alpha1.ReasonAPINotServed,
		Message: fmt.Sprintf("cluster %s does not serve %s%s, which %s names: install what brings it on the cluster, or leave the cluster out of the Placement; nothing is written until then",
			cluster, strings.Join(names, ", "), more, origin),
	}}
}

func describeAPI(api v1alpha1.RequiredAPI) string {
	if api.Group == "" {
		return fmt.Sprintf("%s (%s)", api.Kind, api.Version)
	}
	return fmt.Sprintf("%s (%s/%s)", api.Kind, api.Group, api.Version)
}

// withhold takes the write attempt of a preflight back: a cluster that is
// blocked is not waited for, and its deadline begins anew when it is not.
func withhold(status *v1alpha1.RolloutDeliveryStatus) {
	status.WrittenAt, status.ReturnedAt = nil, nil
	status.Clock = v1alpha1.DeliveryClock{}
}

// conclude takes the answer to a preflight, if there is one. It returns the
// rendering to be written, or the outcome where nothing may be written yet.
func (a *Applier) conclude(ctx context.Context, task *Task, r renderer, present []*workv1.ManifestWork) (workbuilder.Rendering, *Outcome, error) {
	delivery, status := task.Delivery, *task.Delivery.Status.DeepCopy()
	rendering := r.rendering
	got := answerOf(task)
	if got == nil {
		startDeadline(&status, task.Run, a.clock.Now())
		return rendering, &Outcome{Status: status, Works: present}, nil
	}
	if lacking := got.unserved(rendering); len(lacking) > 0 {
		status.Preflight = &v1alpha1.Preflight{Delivery: delivery.Spec.Delivery, Unserved: lacking}
		withhold(&status)
		obstacle := unservedObstacle(delivery.Namespace, lacking, rendering.Rendered.Requires)
		return rendering, &Outcome{Status: status, Works: present, Obstacle: obstacle}, nil
	}
	existing := got.existing(r.asked)
	if len(existing) > 0 {
		var err error
		r.request.Unadopted = unadopt(status.Unadopted, existing, r.request.Payload.Delivery.Adopt)
		if rendering, err = r.render(); err != nil {
			return rendering, nil, err
		}
	}
	set, phase, err := firstPhase(rendering, present)
	if err != nil {
		return rendering, nil, err
	}
	now := a.clock.Now()
	startDeadline(&status, task.Run, now)
	status.Preflight = &v1alpha1.Preflight{Delivery: delivery.Spec.Delivery, AnsweredAt: stamp(now),
		Existing: existing[:min(len(existing), maxExisting)]}
	status.Unadopted = remembered(r.request.Unadopted, rendering.Rendered.Objects)
	record(&status, rendering, set, phase, now)
	return rendering, nil, Record(ctx, a.client, delivery, status)
}

// recordPreflight enters a rendering that is not to be written before the agent
// has looked. What the present works carry and it leaves out stays ours.
func recordPreflight(status *v1alpha1.RolloutDeliveryStatus, rendering workbuilder.Rendering, set workbuilder.WorkSet, task *Task, now time.Time) {
	rendered := rendering.Rendered
	status.Rendered, status.Phase = &rendered, v1alpha1.PhasePreflight
	status.Dropping = slices.Concat(set.Dropped, set.Kept)
	if status.State == v1alpha1.StateUnreachable {
		return
	}
	enter(status, v1alpha1.StateProgressing, now)
	waiting := Observation{Cluster: task.Cluster, Agent: task.Agent, Status: *status}.preflight()
	status.Reason, status.Message = waiting.Reason, waiting.Message
}

// preflight of a cluster that is reachable: what is waited for.
func (o Observation) preflight() v1alpha1.Cause {
	if !o.Agent.Enabled || !o.Agent.Liveness.Seen {
		return o.awaiting("")
	}
	return v1alpha1.Cause{Reason: v1alpha1.ReasonPreflight,
		Message: fmt.Sprintf("before anything is written, the agent looks which of the %d objects exist already and whether their APIs are served", len(o.Status.Rendered.Objects))}
}

// isAlive tells whether what the agent says now can be believed.
func (a Agent) isAlive() bool { return a.Enabled && a.Liveness.Seen && a.Liveness.Live }
