package v1alpha1

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func TestWhatIsNotGivenHasItsDocumentedDefault(t *testing.T) {
	var spec FleetRolloutSpec
	for _, c := range []struct {
		field     string
		got, want any
	}{
		{"delivery.conflicts", spec.Delivery.ConflictsOrDefault(), ConflictForce},
		{"delivery.onDelete", spec.Delivery.OnDeleteOrDefault(), DeletePolicyDelete},
		{"strategy.progressDeadlineSeconds", spec.Strategy.ProgressDeadline(), 10 * time.Minute},
		{"steps", Group{}.StepsOrDefault(), []Step{{Clusters: intstr.FromString("100%")}}},
		{"maxConcurrent", Group{}.MaxConcurrentOrDefault(), intstr.FromString("100%")},
		{"rollback.mode", spec.Rollback.ModeOrDefault(), RollbackAutomatic},
		{"rollback.unhealthySeconds", spec.Rollback.Unhealthy(), 2 * time.Minute},
		{"rollback.maxConcurrent", spec.Rollback.MaxConcurrentOrDefault(), intstr.FromString("100%")},
		{"rollback.verification.timeoutSeconds", spec.Rollback.Verification.Timeout(), 10 * time.Minute},
		{"history.limit", spec.History.LimitOrDefault(), 10},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.field, diff)
		}
	}
}

func TestWhatIsGivenStays(t *testing.T) {
	two, half := intstr.FromInt32(2), intstr.FromString("50%")
	steps := []Step{{Clusters: two, SoakSeconds: 60}, {Clusters: intstr.FromString("100%")}}
	for _, c := range []struct {
		field     string
		got, want any
	}{
		{"delivery.conflicts", DeliveryOptions{Conflicts: ConflictFail}.ConflictsOrDefault(), ConflictFail},
		{"delivery.onDelete", DeliveryOptions{OnDelete: DeletePolicyOrphan}.OnDeleteOrDefault(), DeletePolicyOrphan},
		{"strategy.progressDeadlineSeconds", Strategy{ProgressDeadlineSeconds: ptr.To[int32](5)}.ProgressDeadline(), 5 * time.Second},
		{"steps", Group{Steps: steps}.StepsOrDefault(), steps},
		{"maxConcurrent", Group{MaxConcurrent: &two}.MaxConcurrentOrDefault(), two},
		{"rollback.mode", RollbackPolicy{Mode: RollbackManual}.ModeOrDefault(), RollbackManual},
		{"rollback.unhealthySeconds of 0 is no default", RollbackPolicy{UnhealthySeconds: ptr.To[int32](0)}.Unhealthy(), time.Duration(0)},
		{"rollback.maxConcurrent", RollbackPolicy{MaxConcurrent: &half}.MaxConcurrentOrDefault(), half},
		{"rollback.verification.timeoutSeconds", RollbackVerification{TimeoutSeconds: ptr.To[int32](604800)}.Timeout(), 7 * 24 * time.Hour},
		{"history.limit", HistoryPolicy{Limit: ptr.To[int32](3)}.LimitOrDefault(), 3},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.field, diff)
		}
	}
}
