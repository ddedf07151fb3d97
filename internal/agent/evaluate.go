package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/health"
)

// Access says what the agent can know about the objects of a kind.
type Access string

// The accesses.
const (
	// AccessReadable: the watch of the kind is complete.
	AccessReadable Access = "Readable"
	// AccessSettling: the watch has just been started. An object of this kind
	// is neither there nor missing.
	AccessSettling Access = "Settling"
	// AccessForbidden: the agent may not read the kind, or it is a Secret. The
	// hub demands of every object that the work agent has applied it at the
	// work's present generation; where only existence counts, that is enough.
	AccessForbidden Access = "Forbidden"
	// AccessNotServed: the cluster does not serve the kind.
	AccessNotServed Access = "NotServed"
	// AccessBroken: the kind cannot be read for another reason.
	AccessBroken Access = "Broken"
)

// Sight is what the agent sees of one object.
type Sight struct {
	Access Access
	// Problem says why the access is broken, or which resource may not be read.
	Problem string
	// Meta is nil if the object is not there.
	Meta metav1.Object
	// Full is the whole object, for the kinds whose status is judged.
	Full *unstructured.Unstructured
	// Inherited tells that the verdict on the object's progress was given to
	// earlier content: it was there, word for word, before the content changed.
	Inherited bool
	// Drifts are what other field managers took from the object since its content
	// arrived.
	Drifts []drift
	// ArrivedAt is when its content arrived, on the clock of the cluster's API.
	ArrivedAt metav1.Time
	// Complaint is what the object's pods complain about, if anything.
	Complaint string
	// Endpoints of a Service; nil if they are not known.
	Endpoints *health.Endpoints
	// WaitsForConsumer tells that a PersistentVolumeClaim is bound only once a pod
	// uses it.
	WaitsForConsumer bool
	// SeenFor is how long this agent has seen the object at its content.
	SeenFor time.Duration
	// CompletedAs is the stamp with which a Job was seen to complete, though it may
	// be gone by now.
	CompletedAs string
}

// subject is what the rules of health see of the object.
func (s Sight) subject() health.Subject {
	return health.Subject{
		Object: s.Full, Complaint: s.Complaint, Inherited: s.Inherited,
		Endpoints: s.Endpoints, WaitsForConsumer: s.WaitsForConsumer,
	}
}

// rules are what the objects of a delivery are judged by, beside their kind.
type rules struct {
	// checks of the health policy.
	checks *health.Checks
	// settle is how long content must have been there before the health of an
	// object is believed that does not say which generation its status is about.
	settle time.Duration
	// completed are the Jobs ("namespace/name") that had completed, and been reported
	// so, before the agent was restarted.
	completed sets.Set[string]
}

// Look is how evaluate sees the managed cluster.
type Look func(v1alpha1.ObjectReference) Sight

// maxMessage bounds the message about one object, in bytes.
const maxMessage = 512

// canEvaluate tells whether the hub has said which objects the delivery
// consists of. Before, and while they are being removed, there is nothing to
// say about it.
func canEvaluate(d *v1alpha1.RolloutDelivery) bool {
	rendered := d.Status.Rendered
	return rendered != nil && d.Spec.Removal == "" &&
		rendered.Delivery == d.Spec.Delivery && rendered.Digest == d.Spec.Revision.Digest
}

// evaluation is what was found of a delivery.
type evaluation struct {
	report v1alpha1.AgentReport
	// settling is after how long to look again, because time alone changes what is
	// believed; 0 if it does not.
	settling time.Duration
}

// evaluate judges a rendered delivery. It returns false while it cannot know,
// because a watch is not complete yet: then the last report stands.
func evaluate(d *v1alpha1.RolloutDelivery, look Look, by rules) (evaluation, bool) {
	rendered := d.Status.Rendered
	report := v1alpha1.AgentReport{
		Digest:   rendered.Digest,
		Delivery: rendered.Delivery,
		Health:   v1alpha1.HealthHealthy,
		Objects:  int32(len(rendered.Objects)),
	}
	var taken []string
	var settling time.Duration
	for _, object := range rendered.Objects {
		sight := withResting(look(object.ObjectReference), rendered.Objects, look)
		switch {
		case sight.Access == AccessSettling:
			return evaluation{}, false
		case sight.Access == AccessForbidden && !by.demandReading(object.ObjectReference):
			taken = append(taken, describe(object.ObjectReference))
			continue
		}
		verdict := by.judge(object, sight)
		report.Drift = withDrift(report.Drift, object, sight)
		if verdict.Suspended {
			report.Suspended = append(report.Suspended, object.ObjectReference)
		}
		if left := by.unsettled(object, sight); left > 0 && verdict.Health != v1alpha1.HealthProgressing {
			// What failed may be the earlier content too, and a failure is for good.
			verdict.Health = v1alpha1.HealthProgressing
			verdict.Message = fmt.Sprintf("its status does not say which generation it is about, so that it is believed only %s after the content arrived", by.settle)
			if settling == 0 || left < settling {
				settling = left
			}
		}
		if verdict.Health == v1alpha1.HealthHealthy {
			if isJob(object.ObjectReference) {
				report.CompletedJobs = append(report.CompletedJobs, object.Namespace+"/"+object.Name)
			}
			continue
		}
		report.Unhealthy = append(report.Unhealthy, v1alpha1.ObjectHealth{
			ObjectReference: object.ObjectReference,
			Health:          verdict.Health,
			Message:         bounded(verdict.Message),
		})
	}
	slices.SortStableFunc(report.Unhealthy, func(a, b v1alpha1.ObjectHealth) int {
		return cmp.Compare(severity(b.Health), severity(a.Health))
	})
	if len(report.Unhealthy) > 0 {
		report.Health = report.Unhealthy[0].Health
	}
	report.Text = text(report, taken)
	return evaluation{report: report, settling: settling}, true
}

// withDrift adds the drift of an object that is at its delivered content. An
// object that is not there yet is about to be written anyhow.
func withDrift(have []v1alpha1.ObjectDrift, wanted v1alpha1.RenderedObject, sight Sight) []v1alpha1.ObjectDrift {
	if len(sight.Drifts) == 0 || sight.Meta == nil || stamp(sight.Meta) != wanted.Hash {
		return have
	}
	have = append(have, reportDrift(wanted.ObjectReference, sight.Drifts)...)
	return have[:min(len(have), maxDrift)]
}

// judge gives the health of one object, and says what is wrong with it.
func (r rules) judge(wanted v1alpha1.RenderedObject, sight Sight) health.Verdict {
	progressing := func(message string) health.Verdict {
		return health.Verdict{Health: v1alpha1.HealthProgressing, Message: message}
	}
	switch {
	case sight.CompletedAs == wanted.Hash || r.hadCompleted(wanted.ObjectReference):
		// A Job that had completed may be gone: it is not run again for this content.
		return health.Verdict{Health: v1alpha1.HealthHealthy}
	case sight.Access == AccessForbidden:
		return progressing(fmt.Sprintf("the agent may not read %s: %s", apiOf(wanted.ObjectReference), missingRule(sight.Problem)))
	case sight.Access == AccessNotServed:
		return progressing(fmt.Sprintf("the cluster does not serve %s", apiOf(wanted.ObjectReference)))
	case sight.Access == AccessBroken:
		return progressing("cannot be read: " + sight.Problem)
	case sight.Meta == nil:
		return progressing("not there yet")
	case sight.Meta.GetDeletionTimestamp() != nil:
		return progressing("being deleted")
	case sight.Meta.GetAnnotations()[v1alpha1.AnnotationContentHash] != wanted.Hash:
		return progressing("still at earlier content")
	case health.IsLifeless(kindOf(wanted.ObjectReference).GroupKind()) && sight.Full == nil && !r.checks.Targets(wanted.ObjectReference):
		return health.Verdict{Health: v1alpha1.HealthHealthy}
	case sight.Full == nil:
		return progressing("its status has not been read yet")
	}
	return r.checks.Of(wanted.ObjectReference, sight.subject())
}

// labelAggregate is the label of ClusterRoles whose rules the agent gets.
const labelAggregate = v1alpha1.GroupName + "/aggregate-to-agent"

// missingRule says what to grant for a resource ("deployments.apps").
func missingRule(resource string) string {
	if resource == "" {
		resource = "it"
	}
	return fmt.Sprintf("grant get, list and watch of %s with a ClusterRole labelled %s: \"true\"", resource, labelAggregate)
}

// hadCompleted tells whether a Job was reported as completed before the agent was
// restarted. It may be gone since.
func (r rules) hadCompleted(ref v1alpha1.ObjectReference) bool {
	return isJob(ref) && r.completed.Has(ref.Namespace+"/"+ref.Name)
}

func isJob(ref v1alpha1.ObjectReference) bool { return ref.Group == "batch" && ref.Kind == "Job" }

// unsettled is how long the content of an object must still wait until its health
// is believed: only where nothing tells which generation its status is about.
func (r rules) unsettled(wanted v1alpha1.RenderedObject, sight Sight) time.Duration {
	if sight.Full == nil || !r.checks.MustSettle(wanted.ObjectReference, sight.Full) {
		return 0
	}
	return max(0, r.settle-sight.SeenFor)
}

// demandReading tells whether the status of an object counts. Then application
// alone proves nothing, and an agent that may not read it must not call it healthy.
func (r rules) demandReading(ref v1alpha1.ObjectReference) bool {
	return health.HasRule(kindOf(ref).GroupKind()) || r.checks.Targets(ref)
}

// severity orders healths for the worst of many. Progressing is worse than
// Suspended: a suspended Job must not hide that a Deployment does not get
// ready, because Suspended holds a step without a deadline.
func severity(h v1alpha1.Health) int {
	switch h {
	case v1alpha1.HealthFailed:
		return 4
	case v1alpha1.HealthDegraded:
		return 3
	case v1alpha1.HealthProgressing:
		return 2
	case v1alpha1.HealthSuspended:
		return 1
	default:
		return 0
	}
}

// text is the report in one line: the worst object, how many more there are,
// and what the agent had to take on trust.
func text(report v1alpha1.AgentReport, taken []string) string {
	var line string
	switch n := len(report.Unhealthy); n {
	case 0:
		line = fmt.Sprintf("all objects are healthy (%d)", report.Objects)
	case 1:
		line = sentence(report.Unhealthy[0])
	default:
		line = fmt.Sprintf("%s; %d more of %d objects are not healthy", sentence(report.Unhealthy[0]), n-1, report.Objects)
	}
	switch n := len(report.Drift); n {
	case 0:
	case 1:
		line += "; " + driftSentence(report.Drift[0])
	default:
		line += fmt.Sprintf("; %s, and %d more", driftSentence(report.Drift[0]), n-1)
	}
	switch n := len(taken); n {
	case 0:
	case 1:
		line += fmt.Sprintf("; %s is not readable by the agent: taken as applied", taken[0])
	default:
		line += fmt.Sprintf("; %s and %d more are not readable by the agent: taken as applied", taken[0], n-1)
	}
	return bounded(line)
}

func sentence(o v1alpha1.ObjectHealth) string {
	return describe(o.ObjectReference) + ": " + o.Message
}

func driftSentence(d v1alpha1.ObjectDrift) string {
	if d.Manager == nobody {
		return fmt.Sprintf("somebody removed %s of %s", strings.Join(d.Paths, ", "), describe(d.ObjectReference))
	}
	return fmt.Sprintf("%s took %s of %s", d.Manager, strings.Join(d.Paths, ", "), describe(d.ObjectReference))
}

// describe names an object as people do: "Deployment payments/api".
func describe(ref v1alpha1.ObjectReference) string {
	if ref.Namespace == "" {
		return ref.Kind + " " + ref.Name
	}
	return ref.Kind + " " + ref.Namespace + "/" + ref.Name
}

func apiOf(ref v1alpha1.ObjectReference) string {
	if ref.Group == "" {
		return ref.Version + " " + ref.Kind
	}
	return ref.Group + "/" + ref.Version + " " + ref.Kind
}

// bounded cuts a message to maxMessage bytes, at the end of a character, and
// to one line.
func bounded(message string) string {
	message = strings.Join(strings.Fields(message), " ")
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage-3], "") + "..."
}

// cut shortens a string to so many bytes, at the end of a character.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}
