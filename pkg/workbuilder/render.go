package workbuilder

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	workv1 "open-cluster-management.io/api/work/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/pkg/content"
)

// Request is what one delivery renders from.
type Request struct {
	// Cluster is the name of the ManagedCluster, which is also the namespace of
	// its works.
	Cluster string

	// Labels and Claims of the ManagedCluster now. What is recorded of this very
	// delivery wins over them.
	Labels, Claims map[string]string

	// Spec is the spec of the RolloutDelivery.
	Spec v1alpha1.RolloutDeliverySpec

	// Payload of the revision that the spec names.
	Payload v1alpha1.RevisionPayload

	// CompletedJobs of the cluster, from status. A rollback leaves them out.
	CompletedJobs []v1alpha1.CompletedJob

	// Unadopted are objects that were on the cluster before and may not be taken
	// over. They are applied, and get an exact orphan rule from their first work on,
	// so that they stay when the content, or the rollout, leaves the cluster.
	Unadopted []v1alpha1.ObjectReference

	// Present are the rollout's works on this cluster as the hub has them.
	Present []*workv1.ManifestWork

	// Recorded is what status records as rendered last, of this delivery or an
	// earlier one; nil if nothing is. It tells in which part an object belongs
	// while it moves from one to another.
	Recorded *v1alpha1.Rendered

	// limit of one work in bytes where it is not MaxWorkBytes: tests of random
	// contents would take long otherwise.
	limit int
}

// workLimit is how many bytes of manifests one work may have.
func (r Request) workLimit() int {
	if r.limit > 0 {
		return r.limit
	}
	return MaxWorkBytes
}

// isRecorded tells whether what is recorded is what is to be rendered.
func (r Request) isRecorded() bool {
	return r.Recorded != nil && r.Recorded.Delivery == r.Spec.Delivery && r.Recorded.Digest == r.Spec.Revision.Digest
}

// resolution is what is recorded of the overrides, if this delivery was rendered
// before: it gives the same bytes again, whatever the cluster's labels are by now.
func (r Request) resolution() *content.Resolution {
	if !r.isRecorded() {
		return nil
	}
	return &content.Resolution{Overrides: r.Recorded.Overrides, Variables: r.Recorded.Variables}
}

func (r Request) facts() content.Cluster {
	return content.Cluster{Name: r.Cluster, Labels: r.Labels, Claims: r.Claims}
}

// Rendering is what one delivery renders to.
type Rendering struct {
	// Rendered is to be recorded in status before the works are written.
	Rendered v1alpha1.Rendered

	// Objects as delivered, stamped and in order; parallel to Rendered.Objects.
	Objects []*unstructured.Unstructured

	// Jobs tells which delivered Job stands for which Job of the template.
	Jobs []DeliveredJob

	// Parallel to Objects: their manifests, and the part that each belongs to.
	manifests []workv1.Manifest
	parts     []int32
	limit     int

	cluster   string
	rollout   v1alpha1.RolloutReference
	delivery  v1alpha1.DeliveryOptions
	unadopted map[objectKey]bool
	scaled    map[objectKey]bool
}

// Render renders a delivery. It returns an error if the payload holds something
// that is not a Kubernetes object, or two objects of the same name, a
// *content.OverrideError if the overrides cannot be applied for the cluster, and a
// *TooLargeError if the result cannot be laid into ManifestWorks that OCM accepts.
//
// The objects of the template are changed in these ways, and no other:
//   - the overrides that match the cluster are applied, in order (law 19);
//   - a Job gets a name of its own per revision and attempt, because the API
//     does not let a Job change; a rollback omits the Jobs that completed on the
//     cluster with the same content (law 23);
//   - a Deployment, StatefulSet or ReplicaSet that a HorizontalPodAutoscaler of
//     the template scales goes without spec.replicas, so that no revision and no
//     resync resets what the autoscaler chose;
//   - a CustomResourceDefinition keeps the content that the present works carry
//     where the template's would take a version away (law 22);
//   - labels name the rollout, and an annotation holds the content's hash. Pod
//     templates stay untouched: a label there would restart every pod.
func Render(request Request) (Rendering, error) {
	objects, err := templateObjects(request.Payload.Template)
	if err != nil {
		return Rendering{}, err
	}
	objects, resolved, err := content.Overlay(objects, request.Payload.Overrides, request.facts(), request.resolution())
	if err != nil {
		return Rendering{}, err
	}
	scaled := releaseScaledReplicas(objects)
	objects, jobs, err := nameJobs(objects, request)
	if err != nil {
		return Rendering{}, err
	}
	spec := request.Spec
	present, err := partsOf(request.Present, spec.Rollout)
	if err != nil {
		return Rendering{}, err
	}
	keepCRDVersions(objects, present)
	slices.SortStableFunc(objects, compareObjects)

	rendering := Rendering{
		Rendered: v1alpha1.Rendered{
			Delivery:  spec.Delivery,
			Digest:    spec.Revision.Digest,
			Revision:  spec.Revision.Name,
			Attempt:   spec.Attempt,
			Overrides: resolved.Overrides,
			Variables: resolved.Variables,
		},
		Objects:   objects,
		Jobs:      jobs,
		cluster:   request.Cluster,
		rollout:   spec.Rollout,
		delivery:  request.Payload.Delivery,
		limit:     request.workLimit(),
		unadopted: map[objectKey]bool{},
		scaled:    scaled,
	}
	for _, object := range request.Unadopted {
		rendering.unadopted[keyOfReference(object)] = true
	}
	seen := map[objectKey]bool{}
	for _, object := range objects {
		if seen[keyOf(object)] {
			return Rendering{}, fmt.Errorf("render %s for cluster %q: it would be delivered twice; rename one of the two in the template", v1alpha1.Describe(object), request.Cluster)
		}
		seen[keyOf(object)] = true
		hash, err := stamp(object, spec.Rollout, request.Payload)
		if err != nil {
			return Rendering{}, fmt.Errorf("render %s for cluster %q: %w", v1alpha1.Describe(object), request.Cluster, err)
		}
		rendering.Rendered.Objects = append(rendering.Rendered.Objects, v1alpha1.RenderedObject{
			ObjectReference: v1alpha1.ReferenceOf(object),
			Hash:            hash,
		})
	}
	if err := rendering.split(request, present); err != nil {
		return Rendering{}, err
	}
	return rendering, nil
}

// split chooses the part of every object and names the works.
func (r *Rendering) split(request Request, present []presentPart) error {
	assigning := assignment{objects: r.Objects, present: present, limit: r.limit, isRecorded: request.isRecorded(), recorded: map[objectKey]int32{}}
	for _, object := range r.Objects {
		manifest, err := encode(object)
		if err != nil {
			return err
		}
		r.manifests = append(r.manifests, manifest)
		assigning.sizes = append(assigning.sizes, manifest.Size())
	}
	if recorded := request.Recorded; recorded != nil {
		for _, object := range recorded.Objects {
			if int(object.Part) >= len(recorded.Works) {
				continue
			}
			if number := partNumber(recorded.Works[object.Part], r.rollout); number != nowhere {
				assigning.recorded[keyOfReference(object.ObjectReference)] = number
			}
		}
	}
	parts, err := assigning.assign(request.Payload.Version)
	if err != nil {
		return err
	}
	r.parts = parts
	numbers := slices.Compact(slices.Sorted(slices.Values(parts)))
	for _, number := range numbers {
		r.Rendered.Works = append(r.Rendered.Works, v1alpha1.WorkName(r.rollout.Namespace, r.rollout.Name, number))
	}
	for i, part := range parts {
		index, _ := slices.BinarySearch(numbers, part)
		r.Rendered.Objects[i].Part = int32(index)
	}
	return nil
}

// templateObjects reads the manifests of all components.
func templateObjects(template v1alpha1.Template) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, component := range template.Components {
		for i, manifest := range component.Manifests {
			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON(manifest.Raw); err != nil {
				return nil, fmt.Errorf("read manifest %d of component %q: %w", i, component.Name, err)
			}
			if object.GetName() == "" || object.IsList() {
				return nil, fmt.Errorf("read manifest %d of component %q: %s is not an object with a name", i, component.Name, object.GetKind())
			}
			removeStamp(object)
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// removeStamp takes a stamp off that was pasted with a live object: it says
// nothing about this content.
func removeStamp(object *unstructured.Unstructured) {
	annotations := object.GetAnnotations()
	if _, ok := annotations[v1alpha1.AnnotationContentHash]; !ok {
		return
	}
	delete(annotations, v1alpha1.AnnotationContentHash)
	if len(annotations) == 0 {
		annotations = nil
	}
	object.SetAnnotations(annotations)
}

// stamp labels an object as one of the rollout and annotates it with the hash
// of the content as it is delivered, the annotation itself left out.
func stamp(object *unstructured.Unstructured, rollout v1alpha1.RolloutReference, payload v1alpha1.RevisionPayload) (string, error) {
	annotations := object.GetAnnotations()
	if kept, ok := annotations[v1alpha1.AnnotationContentHash]; ok {
		// Only content that was taken over from a present work carries a stamp,
		// and with its content it keeps that.
		return kept, nil
	}
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1alpha1.LabelRolloutNamespace] = rollout.Namespace
	labels[v1alpha1.LabelRolloutName] = rollout.Name
	object.SetLabels(labels)

	hash, err := payload.ContentHash(object.Object)
	if err != nil {
		return "", err
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationContentHash] = hash
	object.SetAnnotations(annotations)
	return hash, nil
}
