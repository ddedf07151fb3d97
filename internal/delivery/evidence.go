package delivery

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// application is what the works say about how far they are applied.
type application struct {
	// complete tells that every work of the delivery's present phase is
	// applied at its present generation, with every object.
	complete bool
	// refused are the objects that the work agent could not apply, and why.
	refused []v1alpha1.ObjectHealth
	// refusal is the first refusal in words, empty if there is none.
	refusal string
	// waiting says what is waited for while nothing is refused.
	waiting string
}

// applicationOf reads the works of the delivery that status is about. Conditions
// of an earlier generation say nothing about this one (case D1), and the
// conditions of single objects count, because the work's own may hide their
// failure.
func applicationOf(status v1alpha1.RolloutDeliveryStatus, works []*workv1.ManifestWork) application {
	if status.Rendered == nil || status.Rendered.Delivery != status.Delivery {
		return application{waiting: "nothing is written yet"}
	}
	result := application{complete: true}
	for _, name := range status.Rendered.Works {
		result.add(name, findWork(works, name), status)
	}
	return result
}

func (a *application) add(name string, work *workv1.ManifestWork, status v1alpha1.RolloutDeliveryStatus) {
	if work == nil || !isWritten(work, status) {
		a.wait(fmt.Sprintf("ManifestWork %s is not written yet", name))
		return
	}
	applied := meta.FindStatusCondition(work.Status.Conditions, workv1.WorkApplied)
	if applied == nil || applied.ObservedGeneration != work.Generation {
		a.wait(notApplied(name))
		return
	}
	before := len(a.refused)
	leaving := leavingIn(status, name)
	refusedOld, appliedNew := 0, 0
	for _, manifest := range work.Status.ResourceStatus.Manifests {
		condition := meta.FindStatusCondition(manifest.Conditions, workv1.ManifestApplied)
		isLeaving := leaving[claimOfManifest(manifest.ResourceMeta)]
		if !isLeaving && isAppliedAt(condition, work.Generation) {
			appliedNew++
		}
		switch {
		case condition == nil:
		case isLeaving && condition.Status != metav1.ConditionTrue:
			// It is about to be dropped. Waiting for it would keep a revision that
			// cannot be applied from ever being left.
			refusedOld++
		case condition.ObservedGeneration != 0 && condition.ObservedGeneration != work.Generation:
			a.wait(fmt.Sprintf("the work agent has not applied all of ManifestWork %s yet", name))
		case condition.Status != metav1.ConditionTrue:
			a.refuse(manifest.ResourceMeta, explain(manifest.ResourceMeta, condition.Message, work.Spec.Executor))
		}
	}
	if applied.Status != metav1.ConditionTrue && len(a.refused) == before {
		if refusedOld > 0 && appliedNew == deliveredBy(status, name) {
			return // Only what is dropped next cannot be applied.
		}
		a.complete = false
		if a.refusal == "" {
			a.refusal = fmt.Sprintf("ManifestWork %s: %s", name, applied.Message)
		}
	}
}

// leavingIn are the objects that a work lists for the last time in the phase Add:
// they are dropped next, or another part applies them.
func leavingIn(status v1alpha1.RolloutDeliveryStatus, name string) map[claim]bool {
	leaving := map[claim]bool{}
	if status.Phase != v1alpha1.PhaseAdd {
		return leaving
	}
	for _, object := range status.Dropping {
		leaving[claimOf(object)] = true
	}
	for _, object := range status.Rendered.Objects {
		if workOf(*status.Rendered, object) != name {
			leaving[claimOf(object.ObjectReference)] = true
		}
	}
	return leaving
}

// workOf is the name of the work that carries an object.
func workOf(rendered v1alpha1.Rendered, object v1alpha1.RenderedObject) string {
	if int(object.Part) >= len(rendered.Works) {
		return ""
	}
	return rendered.Works[object.Part]
}

// deliveredBy is how many objects of the new content a work carries.
func deliveredBy(status v1alpha1.RolloutDeliveryStatus, name string) int {
	n := 0
	for _, object := range status.Rendered.Objects {
		if workOf(*status.Rendered, object) == name {
			n++
		}
	}
	return n
}

func claimOfManifest(resource workv1.ManifestResourceMeta) claim {
	return claim{resource.Group, resource.Kind, resource.Namespace, resource.Name}
}

func isAppliedAt(condition *metav1.Condition, generation int64) bool {
	return condition != nil && condition.Status == metav1.ConditionTrue &&
		(condition.ObservedGeneration == 0 || condition.ObservedGeneration == generation)
}

// notApplied says what a work waits for once it is written.
func notApplied(name string) string {
	return fmt.Sprintf("the work agent has not applied ManifestWork %s yet", name)
}

func (a *application) wait(reason string) {
	a.complete = false
	if a.waiting == "" {
		a.waiting = reason
	}
}

func (a *application) refuse(resource workv1.ManifestResourceMeta, message string) {
	object := v1alpha1.ObjectReference{
		Group:     resource.Group,
		Version:   resource.Version,
		Kind:      resource.Kind,
		Namespace: resource.Namespace,
		Name:      resource.Name,
	}
	a.complete = false
	if a.refusal == "" {
		a.refusal = fmt.Sprintf("%s: %s", describe(object), message)
	}
	a.refused = append(a.refused, v1alpha1.ObjectHealth{
		ObjectReference: object,
		Health:          v1alpha1.HealthDegraded,
		Message:         cut(message, maxObjectMessage),
	})
}

// isWritten tells whether a work is the one that the delivery's present phase
// writes.
func isWritten(work *workv1.ManifestWork, status v1alpha1.RolloutDeliveryStatus) bool {
	return work.DeletionTimestamp == nil &&
		deliveryOf(work) == status.Delivery &&
		work.Annotations[v1alpha1.AnnotationPhase] == string(status.Phase)
}

// deliveryOf is the number of the delivery that wrote a work; 0 if it carries none.
func deliveryOf(work *workv1.ManifestWork) int64 {
	number, err := strconv.ParseInt(work.Annotations[v1alpha1.AnnotationDelivery], 10, 64)
	if err != nil {
		return 0
	}
	return number
}

func findWork(works []*workv1.ManifestWork, name string) *workv1.ManifestWork {
	for _, work := range works {
		if work.Name == name {
			return work
		}
	}
	return nil
}

// describe names an object for people, such as "Deployment shop/api".
func describe(object v1alpha1.ObjectReference) string {
	if object.Namespace == "" {
		return object.Kind + " " + object.Name
	}
	return object.Kind + " " + object.Namespace + "/" + object.Name
}
