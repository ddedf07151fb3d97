package workbuilder

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
)

// maxJobName is how long the name of a Job may be: it becomes a label value of
// its pods.
const maxJobName = 63

// DeliveredJob is a Job of the template and the name it is delivered under.
type DeliveredJob struct {
	// Job of the template, in the form in which its completion is recorded.
	Job v1alpha1.CompletedJob

	// DeliveredName on the cluster; empty if the Job is omitted because it has
	// completed there already.
	DeliveredName string
}

// Completed returns the Jobs of the template whose delivered Jobs are named in
// an agent's report, as "namespace/name". Names that this rendering does not
// deliver are ignored.
func (r Rendering) Completed(reported []string) []v1alpha1.CompletedJob {
	delivered := map[string]v1alpha1.CompletedJob{}
	for _, job := range r.Jobs {
		if job.DeliveredName != "" {
			delivered[job.Job.Namespace+"/"+job.DeliveredName] = job.Job
		}
	}
	var completed []v1alpha1.CompletedJob
	for _, name := range reported {
		if job, ok := delivered[name]; ok {
			completed = append(completed, job)
		}
	}
	return completed
}

// nameJobs gives each Job its name for this revision and attempt, and leaves
// out those that a rollback must not run again.
func nameJobs(objects []*unstructured.Unstructured, request Request) ([]*unstructured.Unstructured, []DeliveredJob, error) {
	completed := map[v1alpha1.CompletedJob]bool{}
	if request.Spec.Direction == v1alpha1.DirectionRollback {
		for _, job := range request.CompletedJobs {
			completed[job] = true
		}
	}
	kept := objects[:0:0]
	var jobs []DeliveredJob
	for _, object := range objects {
		if groupKindOf(object) != jobKind {
			kept = append(kept, object)
			continue
		}
		hash, err := request.Payload.ContentHash(object.Object)
		if err != nil {
			return nil, nil, fmt.Errorf("hash %s: %w", v1alpha1.Describe(object), err)
		}
		job := DeliveredJob{Job: v1alpha1.CompletedJob{Namespace: object.GetNamespace(), Name: object.GetName(), Hash: hash}}
		if !completed[job.Job] {
			job.DeliveredName = JobName(object.GetName(), request.Spec.Revision.Digest, request.Spec.Attempt)
			object.SetName(job.DeliveredName)
			kept = append(kept, object)
		}
		jobs = append(jobs, job)
	}
	return kept, jobs, nil
}

// JobName is the name under which a Job of the template is delivered: its own,
// a dash, six hex digits of the revision's digest, and the attempt. Where that
// exceeds 63 characters the template's name is cut, and six digits of its hash
// keep it apart from others that begin alike.
func JobName(name, digest string, attempt int32) string {
	revision := strings.TrimPrefix(digest, "sha256:")
	if len(revision) > 6 {
		revision = revision[:6]
	}
	suffix := fmt.Sprintf("-%s%d", revision, attempt)
	if len(name)+len(suffix) > maxJobName {
		sum := sha256.Sum256([]byte(name))
		suffix = "-" + hex.EncodeToString(sum[:3]) + suffix
		name = strings.TrimRight(name[:maxJobName-len(suffix)], "-.")
	}
	return name + suffix
}
