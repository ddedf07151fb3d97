package agent

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func waiting(reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "api", Image: "registry.example.com/api:1", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

func TestWhatAPodComplainsAbout(t *testing.T) {
	cases := []struct {
		name   string
		status corev1.PodStatus
		want   string
	}{
		{"a pod that starts says nothing", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("ContainerCreating", "")}}, ""},
		{"an image that cannot be pulled", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("ImagePullBackOff", "")}},
			"ImagePullBackOff (image registry.example.com/api:1)"},
		{"the same between two attempts", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("ErrImagePull", "")}},
			"ImagePullBackOff (image registry.example.com/api:1)"},
		{"a container that crashes", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("CrashLoopBackOff", "back-off 10s")}},
			"CrashLoopBackOff (container api)"},
		{"a missing Secret", corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{waiting("CreateContainerConfigError", `secret "x" not found`)}},
			`CreateContainerConfigError (container api: secret "x" not found)`},
		{"no node", corev1.PodStatus{Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes"}}},
			"Unschedulable"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := complaintOf(&corev1.Pod{Status: c.status}); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
