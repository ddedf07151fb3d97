package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// starterVariable makes the test binary play a program that starts a lab: it
// starts one process in the folder of this variable's value and waits.
const starterVariable = "FLEET_ROLLOUT_LAB_TEST_STARTER"

// detachedVariable makes that process a detached one.
const detachedVariable = "FLEET_ROLLOUT_LAB_TEST_DETACHED"

func TestMain(m *testing.M) {
	if dir := os.Getenv(starterVariable); dir != "" {
		playStarter(dir)
	}
	os.Exit(m.Run())
}

func playStarter(dir string) {
	detached := os.Getenv(detachedVariable) != ""
	s, err := claimDir(dir, state{Hub: HubName, Detached: detached})
	if err == nil {
		_, err = s.run(context.Background(), ProcessSpec{Name: "sleeper", Path: "sleep", Args: []string{"600"}, Detached: detached})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("started")
	select {}
}

// crashedLab runs a starter until its process runs, kills the starter with
// SIGKILL, and returns the folder and the process it started.
func crashedLab(t *testing.T, detached string) (dir string, child identity) {
	t.Helper()
	dir = t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), starterVariable+"="+dir, detachedVariable+"="+detached)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 200)
	n, _ := out.Read(line)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if got := strings.TrimSpace(string(line[:n])); got != "started" {
		t.Fatalf("the starter says %q", got)
	}
	st, err := (&stateStore{dir: dir}).read()
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Processes) != 1 {
		t.Fatalf("the state names %d processes, want 1", len(st.Processes))
	}
	child = st.Processes[0].identity
	t.Cleanup(func() {
		if child.alive() {
			_ = syscall.Kill(child.PID, syscall.SIGKILL)
		}
	})
	return dir, child
}

func TestAProcessDiesWithItsStarter(t *testing.T) {
	_, child := crashedLab(t, "")
	eventually(t, "the process to end", func() bool { return !child.alive() })
}

func TestADetachedProcessOutlivesItsStarterUntilTheNextStart(t *testing.T) {
	dir, child := crashedLab(t, "yes")
	if !child.alive() {
		t.Fatal("the detached process died with its starter")
	}
	if _, err := claimDir(dir, state{Hub: HubName}); err != nil {
		t.Fatal(err)
	}
	if child.alive() {
		t.Error("the next start left the process of the crashed lab alive")
	}
}

func TestRemoveEndsWhatACrashLeft(t *testing.T) {
	dir, child := crashedLab(t, "yes")
	if err := Remove(dir); err != nil {
		t.Fatal(err)
	}
	if child.alive() {
		t.Error("Remove left the process of the crashed lab alive")
	}
}

func TestClaimDirKeepsAReadyDetachedLab(t *testing.T) {
	dir, child := crashedLab(t, "yes")
	if err := (&stateStore{dir: dir}).update(func(st *state) { st.Ready = true }); err != nil {
		t.Fatal(err)
	}
	if _, err := claimDir(dir, state{Hub: HubName}); !errors.Is(err, ErrRunning) {
		t.Errorf("got %v, want ErrRunning", err)
	}
	if !child.alive() {
		t.Error("the refused start killed the running lab")
	}
}

func TestAReusedProcessIDIsNotKilled(t *testing.T) {
	dir, child := crashedLab(t, "yes")
	err := (&stateStore{dir: dir}).update(func(st *state) { st.Processes[0].StartTicks++ })
	if err != nil {
		t.Fatal(err)
	}
	if err := Remove(dir); err != nil {
		t.Fatal(err)
	}
	if !child.alive() {
		t.Error("Remove killed a process that only has the id of the recorded one")
	}
}

func TestProcessLifecycle(t *testing.T) {
	s := newTestSupervisor(t)
	p := runShell(t, s, "sleeper", "exec sleep 600")
	eventually(t, "state running", func() bool { return p.State() == "running" })
	if err := p.Start(t.Context()); err == nil {
		t.Error("a running process was started again")
	}
	first := p.PID()

	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "state paused", func() bool { return p.State() == "paused" })
	if err := p.Continue(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "state running", func() bool { return p.State() == "running" })

	if err := p.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if second := p.PID(); second == 0 || second == first {
		t.Errorf("after Restart the process id is %d, before it was %d", second, first)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if p.State() != "stopped" || p.Running() {
		t.Errorf("after Kill the state is %s", p.State())
	}
	if err := p.Stop(); err != nil {
		t.Errorf("stopping a stopped process: %v", err)
	}
}

func TestStopEndsAPausedProcessInOrder(t *testing.T) {
	s := newTestSupervisor(t)
	p := runShell(t, s, "polite", `trap "echo goodbye; exit 0" TERM; echo ready; while true; do sleep 0.05; done`)
	eventually(t, "the trap", func() bool { return contains(p.LogTail(5), "ready") })
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if !contains(p.LogTail(5), "goodbye") {
		t.Errorf("the process did not see SIGTERM; its log: %s", p.LogTail(5))
	}
}

func TestKillReachesTheChildrenOfAProcess(t *testing.T) {
	s := newTestSupervisor(t)
	p := runShell(t, s, "parent", "sleep 600 & echo $!; wait")
	var child identity
	eventually(t, "the child's process id", func() bool {
		var pid int
		if n, _ := fmt.Sscan(p.LogTail(1), &pid); n != 1 {
			return false
		}
		id, err := identify(pid)
		child = id
		return err == nil
	})
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the child to end", func() bool { return !child.alive() })
}

func TestPrepareRunsBeforeEachStart(t *testing.T) {
	s := newTestSupervisor(t)
	calls := 0
	p, err := s.run(t.Context(), ProcessSpec{Name: "prepared", Path: "sleep", Args: []string{"600"},
		Prepare: func(context.Context) error { calls++; return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if calls != 2 {
		t.Errorf("Prepare ran %d times for two starts", calls)
	}
}

func TestStartOnFreePortsTriesOthersWhenOneIsTaken(t *testing.T) {
	s := newTestSupervisor(t)
	var tried []int
	ports, err := s.startOnFreePorts(t.Context(), 1, func(ports []int) ProcessSpec {
		tried = append(tried, ports[0])
		script := "exec sleep 600"
		if len(tried) == 1 {
			script = "echo listen: bind: address already in use; exit 1"
		}
		return ProcessSpec{Name: "server", Path: "sh", Args: []string{"-c", script}}
	}, func(context.Context, []int) error {
		if len(tried) == 1 {
			return errors.New("no answer")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(tried) != 2 || !slices.Equal(ports, tried[1:]) {
		t.Errorf("tried ports %v and returned %v", tried, ports)
	}
}

func TestStartOnFreePortsGivesUpOnOtherErrors(t *testing.T) {
	s := newTestSupervisor(t)
	starts := 0
	_, err := s.startOnFreePorts(t.Context(), 1, func([]int) ProcessSpec {
		starts++
		return ProcessSpec{Name: "server", Path: "sh", Args: []string{"-c", "echo unknown flag; exit 1"}}
	}, func(context.Context, []int) error { return errors.New("no answer") })
	if err == nil || !contains(err.Error(), "unknown flag") {
		t.Errorf("got error %v, want one that shows the log", err)
	}
	if starts != 1 {
		t.Errorf("started %d times, want 1", starts)
	}
}

func TestFreePortsDifferAndAreFree(t *testing.T) {
	ports, err := freePorts(5)
	if err != nil {
		t.Fatal(err)
	}
	for i, port := range ports {
		if slices.Contains(ports[:i], port) {
			t.Errorf("port %d was given twice", port)
		}
		listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", loopback, port))
		if err != nil {
			t.Errorf("port %d is not free: %v", port, err)
			continue
		}
		listener.Close()
	}
}

func TestParseStat(t *testing.T) {
	fields := "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 77 22"
	for name, command := range map[string]string{
		"a plain command":                        "etcd",
		"a command with spaces and parentheses":  "a (b) c) d",
		"a command that looks like other fields": "x) R 1 2 3",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat("17 (" + command + ") " + fields)
			want := processStat{state: 'S', startTicks: 4242, rssPages: 77}
			if err != nil || got != want {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		})
	}
	for _, broken := range []string{"", "17 (etcd S 1", "17 (etcd) S 1 2"} {
		if _, err := parseStat(broken); err == nil {
			t.Errorf("no error for %q", broken)
		}
	}
}

func TestIdentity(t *testing.T) {
	self, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !self.alive() {
		t.Error("this process does not count as alive")
	}
	if (identity{PID: self.PID, StartTicks: self.StartTicks + 1}).alive() {
		t.Error("a process with another start time counts as alive")
	}
	if (identity{}).alive() {
		t.Error("the empty identity counts as alive")
	}

	zombie := exec.Command("true")
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = zombie.Wait() }()
	id, err := identify(zombie.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the zombie to count as dead", func() bool { return !id.alive() })
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	long := strings.Repeat("filler\n", 50_000)
	if err := os.WriteFile(path, []byte(long+"one\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := tail(path, 2); got != "two\nthree" {
		t.Errorf("got %q", got)
	}
	if err := os.WriteFile(path, []byte("only\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := tail(path, 5); got != "only" {
		t.Errorf("got %q", got)
	}
}

func newTestSupervisor(t *testing.T) *supervisor {
	t.Helper()
	s, err := claimDir(t.TempDir(), state{Hub: HubName})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stopAll(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func runShell(t *testing.T, s *supervisor, name, script string) *Process {
	t.Helper()
	p, err := s.run(t.Context(), ProcessSpec{Name: name, Path: "sh", Args: []string{"-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func eventually(t *testing.T, what string, met func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := poll(ctx, func(context.Context) error {
		if met() {
			return nil
		}
		return errors.New("not yet")
	})
	if err != nil {
		t.Fatalf("wait for %s: %v", what, err)
	}
}

func contains(text, part string) bool { return strings.Contains(text, part) }
