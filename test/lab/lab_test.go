package lab

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestLabControlPlane(t *testing.T) {
	if testing.Short() {
		t.Skip("needs etcd and kube-apiserver, whose first build takes minutes")
	}
	ctx := t.Context()
	dir := t.TempDir()
	cp, err := StartControlPlane(ctx, ControlPlaneOptions{Dir: dir, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	processes := cp.supervisor.list()
	if len(processes) != 2 {
		t.Errorf("%d processes run, want etcd and kube-apiserver", len(processes))
	}
	var ids []identity
	for _, p := range processes {
		ids = append(ids, p.id)
	}

	if _, err := StartControlPlane(ctx, ControlPlaneOptions{Dir: dir}); !errors.Is(err, ErrRunning) {
		t.Errorf("a second start in the same folder gives %v, want ErrRunning", err)
	}
	client, err := kubernetes.NewForConfig(cp.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "greeting"}, Data: map[string]string{"a": "b"}}
	if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, configMap, metav1.CreateOptions{}); err != nil {
		t.Errorf("create a ConfigMap: %v", err)
	}

	if err := cp.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	for i, id := range ids {
		if id.alive() {
			t.Errorf("%s still runs as process %d after Stop", processes[i].ID(), id.PID)
		}
	}
	for _, gone := range []string{"state.json", clustersFolder} {
		if _, err := os.Stat(filepath.Join(dir, gone)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left over after Stop: %v", gone, err)
		}
	}
	if _, err := os.Stat(filepath.Join(cp.LogDir(), "kube-apiserver.log")); err != nil {
		t.Errorf("the logs did not stay: %v", err)
	}
}

func TestAttachNeedsALab(t *testing.T) {
	if _, err := Attach(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Attach to an empty folder gives %v, want fs.ErrNotExist", err)
	}
	if err := Remove(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Remove of an empty folder gives %v, want fs.ErrNotExist", err)
	}
}

func TestAwaitShowsTheLogOfADeadProcess(t *testing.T) {
	s := newTestSupervisor(t)
	p := runShell(t, s, "talker", `echo "the disk is full"; exit 3`)
	missing := errors.New("no answer")
	err := await(t.Context(), "an answer", []*Process{p}, func(context.Context) error { return missing })
	if err == nil {
		t.Fatal("await returned nil")
	}
	for _, want := range []string{"lab/talker", "exit status 3", "the disk is full", p.LogPath()} {
		if !contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
}
