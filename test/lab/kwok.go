package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

// Markers in the name or tag of a container image decide what kwok plays. They
// are looked for in spec.containers alone. An image without a marker is Ready at
// once, and a pod of a Job completes.
const (
	// MarkerBroken: the image cannot be pulled. The pod stays Pending and its
	// container waits with reason ImagePullBackOff.
	MarkerBroken = "broken"
	// MarkerSlow: the pod becomes ready ten seconds late.
	MarkerSlow = "slow"
	// MarkerFail: a container of a Job's pod ends with exit code 1. Pods of
	// other owners ignore it.
	MarkerFail = "fail"
)

// slowMilliseconds is how late pods with MarkerSlow become ready.
const slowMilliseconds = 10_000

// stage is a kwok Stage as plain data: kwok's Go types need a newer Kubernetes
// than the one the product is built with.
type stage map[string]any

// writeKwokConfig writes the stages that play nodes and pods. What kwok's own
// module ships is read from there and only narrowed.
func writeKwokConfig(path, kwokModuleDir string) error {
	shipped := map[string]stage{}
	for _, file := range []string{
		"node/fast/node-initialize.yaml",
		"node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
		"pod/fast/pod-ready.yaml",
		"pod/fast/pod-complete.yaml",
		"pod/fast/pod-delete.yaml",
	} {
		content, err := os.ReadFile(filepath.Join(kwokModuleDir, "kustomize", "stage", file))
		if err != nil {
			return fmt.Errorf("read kwok's stage: %w", err)
		}
		parsed := stage{}
		if err := yaml.Unmarshal(content, &parsed); err != nil {
			return fmt.Errorf("read kwok's stage %s: %w", file, err)
		}
		shipped[strings.TrimSuffix(filepath.Base(file), ".yaml")] = parsed
	}
	var documents []string
	for _, s := range labStages(shipped) {
		content, err := yaml.Marshal(s)
		if err != nil {
			return err
		}
		documents = append(documents, string(content))
	}
	return os.WriteFile(path, []byte(strings.Join(documents, "---\n")), 0o644)
}

// labStages returns the stages of the lab. kwok picks one at random when several
// match, so the selectors exclude each other.
func labStages(shipped map[string]stage) []stage {
	return []stage{
		shipped["node-initialize"],
		shipped["node-heartbeat-with-lease"],
		shipped["pod-delete"],
		shipped["pod-ready"].where(without(MarkerBroken), without(MarkerSlow)),
		shipped["pod-ready"].where(without(MarkerBroken), with(MarkerSlow)).named("pod-ready-slow").after(slowMilliseconds),
		shipped["pod-complete"].where(without(MarkerFail)),
		shipped["pod-complete"].where(with(MarkerFail)).named("pod-fail").sets(podFailed),
		shipped["pod-ready"].where(with(MarkerBroken), notYetWaiting()).named("pod-image-pull-back-off").sets(podImagePullBackOff),
	}
}

// podImagePullBackOff is what a kubelet reports while it cannot pull an image:
// containers with other images run, the pod stays Pending.
var podImagePullBackOff = fmt.Sprintf(`{{ $now := Now }}
conditions:
- {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}
- type: Ready
  status: "False"
  reason: ContainersNotReady
  message: "containers are waiting for their image"
  lastTransitionTime: {{ $now | Quote }}
- type: ContainersReady
  status: "False"
  reason: ContainersNotReady
  message: "containers are waiting for their image"
  lastTransitionTime: {{ $now | Quote }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  restartCount: 0
  {{ if contains %q .image }}
  ready: false
  started: false
  state:
    waiting:
      reason: ImagePullBackOff
      message: {{ printf "Back-off pulling image \"%%s\": not found" .image | Quote }}
  {{ else }}
  ready: true
  started: true
  state:
    running:
      startedAt: {{ $now | Quote }}
  {{ end }}
{{ end }}
phase: Pending
startTime: {{ $now | Quote }}
`, MarkerBroken)

// podFailed ends the containers with the marker with exit code 1, the others
// with 0.
var podFailed = fmt.Sprintf(`{{ $now := Now }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: false
  started: false
  restartCount: 0
  state:
    terminated:
      {{ if contains %q .image }}
      exitCode: 1
      reason: Error
      {{ else }}
      exitCode: 0
      reason: Completed
      {{ end }}
      startedAt: {{ $now | Quote }}
      finishedAt: {{ $now | Quote }}
{{ end }}
phase: Failed
`, MarkerFail)

// requirement is one matchExpression of a stage; its key is a jq query.
type requirement struct{ key, operator, value string }

func with(marker string) requirement { return requirement{imageQuery(marker), "In", "true"} }

func without(marker string) requirement { return requirement{imageQuery(marker), "NotIn", "true"} }

func imageQuery(marker string) string {
	return fmt.Sprintf(`[.spec.containers[].image | contains(%q)] | any`, marker)
}

func notYetWaiting() requirement {
	return requirement{`.status.containerStatuses[]?.state.waiting.reason`, "NotIn", "ImagePullBackOff"}
}

// where returns a copy that also asks for the given requirements.
func (s stage) where(more ...requirement) stage {
	result := s.copy()
	selector := result.spec()["selector"].(map[string]any)
	expressions, _ := selector["matchExpressions"].([]any)
	for _, r := range more {
		expressions = append(expressions, map[string]any{"key": r.key, "operator": r.operator, "values": []any{r.value}})
	}
	selector["matchExpressions"] = expressions
	return result
}

// named, after and sets change a copy made by where.
func (s stage) named(name string) stage {
	s["metadata"] = map[string]any{"name": name}
	return s
}

func (s stage) after(milliseconds int) stage {
	s.spec()["delay"] = map[string]any{"durationMilliseconds": milliseconds}
	return s
}

func (s stage) sets(statusTemplate string) stage {
	s.spec()["next"] = map[string]any{"statusTemplate": statusTemplate}
	return s
}

func (s stage) spec() map[string]any { return s["spec"].(map[string]any) }

func (s stage) copy() stage {
	return deepCopy(map[string]any(s)).(map[string]any)
}

func deepCopy(value any) any {
	switch v := value.(type) {
	case map[string]any:
		result := make(map[string]any, len(v))
		for key, item := range v {
			result[key] = deepCopy(item)
		}
		return result
	case []any:
		result := make([]any, len(v))
		for i, item := range v {
			result[i] = deepCopy(item)
		}
		return result
	default:
		return value
	}
}

// startWorkloads starts the scheduler and kwok and waits until the fake nodes
// are ready.
func startWorkloads(ctx context.Context, p controlPlanePlan, cp *ControlPlane, kwokModuleDir string, nodes int) error {
	s := cp.supervisor
	config := filepath.Join(cp.dir, "kwok.yaml")
	if err := writeKwokConfig(config, kwokModuleDir); err != nil {
		return err
	}
	scheduler, err := s.run(ctx, p.spec(s, binScheduler,
		"--kubeconfig", cp.KubeconfigPath(), "--leader-elect=false", "--secure-port", "0"))
	if err != nil {
		return err
	}
	kwok, err := s.run(ctx, p.spec(s, binKwok,
		"--kubeconfig", cp.KubeconfigPath(), "--config", config,
		"--manage-nodes-with-annotation-selector", fakeNodeAnnotation+"="+fakeNodeValue,
		// Without leases the node controller takes the nodes for dead: their
		// heartbeat stage writes only every ten minutes.
		"--node-lease-duration-seconds", "40",
	))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cp.config)
	if err != nil {
		return err
	}
	for i := range nodes {
		name := fmt.Sprintf("%s-node-%d", cp.name, i+1)
		if err := createNode(ctx, client, name); err != nil {
			return err
		}
		err := await(ctx, "node "+name, []*Process{kwok, scheduler}, func(ctx context.Context) error {
			return nodeReady(ctx, client, name)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fakeNodeAnnotation marks the nodes that kwok plays.
const (
	fakeNodeAnnotation = "kwok.x-k8s.io/node"
	fakeNodeValue      = "fake"
)

func createNode(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        name,
		Annotations: map[string]string{fakeNodeAnnotation: fakeNodeValue},
		Labels: map[string]string{
			corev1.LabelHostname:   name,
			corev1.LabelOSStable:   "linux",
			corev1.LabelArchStable: "amd64",
			"type":                 "kwok",
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create node %s: %w", name, err)
	}
	return nil
}

func nodeReady(ctx context.Context, client kubernetes.Interface, name string) error {
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %s is not Ready", name)
}
