package status

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/fleet-rollout/api/v1alpha1"
	"open-cluster-management.io/fleet-rollout/internal/rollout"
)

// The largest status there can be: everything that has a bound is at it, with
// names of ordinary length (law 25).
func TestTheLargestStatusIsSmallerThan100KiB(t *testing.T) {
	const maxBytes = 100 << 10
	long := strings.Repeat("m", v1alpha1.MaxMessageLength)
	now := metav1.NewMicroTime(noon)
	revision := v1alpha1.RevisionReference{Name: "payments-0123456789", Number: 1000, Version: "1.100.1000", Digest: "sha256:" + strings.Repeat("0", 64)}
	in := soaking()
	in.Snapshot.Clusters, in.Plan.Judgements = nil, nil
	for i := range 5000 {
		name := fmt.Sprintf("cluster-%04d-of-a-region", i)
		in.Snapshot.Clusters = append(in.Snapshot.Clusters, rollout.Cluster{Name: name, Selected: true, Delivery: &rollout.Delivery{}})
		in.Plan.Judgements = append(in.Plan.Judgements, rollout.Judgement{
			Cluster: name, Member: true, State: v1alpha1.StateDegraded, Cause: &v1alpha1.Cause{Reason: v1alpha1.ReasonDeadlineExceeded, Message: long},
		})
	}
	for i := range v1alpha1.MaxRollbackRecords {
		record := v1alpha1.RollbackRecord{
			ID: int64(i), To: revision, Run: 100, Trigger: v1alpha1.TriggerBudgetSpent, Actor: "policy", StartedAt: now, FinishedAt: &now,
			Cause: v1alpha1.Cause{Reason: v1alpha1.ReasonBudgetSpent, Message: long[:512]}, Scope: v1alpha1.RollbackScopeAll, Result: v1alpha1.RollbackComplete,
		}
		for range 10 {
			record.From = append(record.From, revision)
		}
		in.Plan.Rollbacks = append(in.Plan.Rollbacks, record)
	}
	run := in.Plan.Run
	run.Revision = revision
	for range v1alpha1.MaxWaiting {
		run.WaitingFor = append(run.WaitingFor, v1alpha1.Waiting{Reason: v1alpha1.ReasonOutsideWindow, Message: long, Since: &now, Until: &now})
	}
	for i := range 16 {
		group := v1alpha1.Group{Name: fmt.Sprintf("group-%d", i), ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"environment": "production"}}}
		for range 5 {
			group.Steps = append(group.Steps, v1alpha1.Step{SoakSeconds: 600, Approval: v1alpha1.ApprovalRequired})
		}
		run.FrozenGroups = append(run.FrozenGroups, group)
		run.Groups = append(run.Groups, v1alpha1.GroupCounts{Name: group.Name, Selected: 1000, Updated: 1000, Healthy: 1000})
	}
	raw, err := json.Marshal(Project(in))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", len(raw))
	if len(raw) > maxBytes {
		t.Errorf("the status has %d bytes, more than %d", len(raw), maxBytes)
	}
}
