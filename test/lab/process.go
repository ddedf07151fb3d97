package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopGrace is how long a process may take to end after SIGTERM.
const stopGrace = 15 * time.Second

// ProcessSpec describes a supervised process.
type ProcessSpec struct {
	// Cluster is the cluster the process belongs to; it names the log folder.
	// Empty stands for the lab itself.
	Cluster string `json:"cluster,omitempty"`
	// Name is unique within Cluster and names the log file.
	Name string `json:"name"`
	// Path is the binary, Args its arguments.
	Path string   `json:"path"`
	Args []string `json:"args,omitempty"`
	// Env is added to the environment of the starting process, as KEY=value.
	Env []string `json:"env,omitempty"`
	// Detached makes the process outlive the one that starts it.
	Detached bool `json:"detached,omitempty"`
	// Prepare, if set, runs before each start, for example to read a kubeconfig
	// that may have been renewed. It is lost on Attach.
	Prepare func(context.Context) error `json:"-"`
}

// ID returns cluster and name, as in "c1/kwok".
func (s ProcessSpec) ID() string {
	return filepath.Join(s.logFolder(), s.Name)
}

func (s ProcessSpec) logFolder() string {
	if s.Cluster == "" {
		return "lab"
	}
	return s.Cluster
}

// Process is a supervised process. Its methods may be called at any time and
// from any goroutine.
type Process struct {
	spec  ProcessSpec
	log   string
	store *stateStore

	mu sync.Mutex
	id identity
	// exited is closed when our own child has been waited for; nil for a process
	// that another process started.
	exited chan struct{}
	// status is how our own child ended; valid once exited is closed.
	status string
}

// Name returns the name given in the spec.
func (p *Process) Name() string { return p.spec.Name }

// ID returns cluster and name, as in "c1/kwok".
func (p *Process) ID() string { return p.spec.ID() }

// LogPath returns the file that receives standard output and standard error.
func (p *Process) LogPath() string { return p.log }

// PID returns the process id, 0 if the process does not run.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.id.alive() {
		return 0
	}
	return p.id.PID
}

// State returns "running", "paused" or "stopped".
func (p *Process) State() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	stat, ok := p.id.stat()
	switch {
	case !ok:
		return "stopped"
	case stat.state == 'T':
		return "paused"
	default:
		return "running"
	}
}

// Running says whether the process exists, paused or not.
func (p *Process) Running() bool { return p.PID() != 0 }

// MemoryBytes returns the resident memory, 0 if the process does not run.
func (p *Process) MemoryBytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	stat, _ := p.id.stat()
	return stat.rssPages * int64(os.Getpagesize())
}

// Start starts the process, or starts it again after it ended. It fails if the
// process runs.
func (p *Process) Start(ctx context.Context) error {
	if p.spec.Prepare != nil {
		if err := p.spec.Prepare(ctx); err != nil {
			return fmt.Errorf("prepare %s: %w", p.ID(), err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.id.alive() {
		return fmt.Errorf("%s runs already as process %d", p.ID(), p.id.PID)
	}
	if err := os.MkdirAll(filepath.Dir(p.log), 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.spec.Path, p.spec.Args...)
	cmd.Env = append(os.Environ(), p.spec.Env...)
	// Files, not pipes: the log must go on when the starter is gone.
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = p.spec.attributes()
	if err := spawn(cmd); err != nil {
		return fmt.Errorf("start %s: %w", p.ID(), err)
	}
	exited := make(chan struct{})
	p.exited = exited
	// Until Wait is called the child stays at least a zombie, so this can
	// neither fail for a quick death nor name another process.
	p.id, err = identify(cmd.Process.Pid)
	if err == nil {
		err = p.store.recordProcess(p.spec, p.id)
	}
	if err != nil {
		err = errors.Join(err, cmd.Process.Kill())
	}
	go func() {
		_ = cmd.Wait()
		p.mu.Lock()
		p.status = cmd.ProcessState.String()
		p.mu.Unlock()
		close(exited)
	}()
	return err
}

// attributes puts every process into a group of its own, so that a signal reaches
// its children and Ctrl-C in the terminal does not reach it.
func (s ProcessSpec) attributes() *syscall.SysProcAttr {
	if s.Detached {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// spawner runs functions on one operating system thread that lives as long as
// this process. Pdeathsig fires when the *thread* that started a child ends, and
// the Go runtime may end other threads at any time.
var spawner = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func spawn(cmd *exec.Cmd) error {
	result := make(chan error)
	spawner() <- func() { result <- cmd.Start() }
	return <-result
}

// Stop asks the process to end, kills it after 15 seconds, and returns when it
// is gone. Stopping a stopped process does nothing.
func (p *Process) Stop() error {
	// A paused process receives SIGTERM only after it continues.
	if err := errors.Join(p.signal(syscall.SIGTERM), p.signal(syscall.SIGCONT)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	if p.waitGone(ctx) == nil {
		return p.store.recordProcess(p.spec, identity{})
	}
	return p.Kill()
}

// Kill ends the process with SIGKILL and returns when it is gone.
func (p *Process) Kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	if err := p.waitGone(ctx); err != nil {
		return fmt.Errorf("%s does not die: %w", p.ID(), err)
	}
	return p.store.recordProcess(p.spec, identity{})
}

// Restart stops the process and starts it again.
func (p *Process) Restart(ctx context.Context) error {
	if err := p.Stop(); err != nil {
		return err
	}
	return p.Start(ctx)
}

// Pause freezes the process with SIGSTOP: its connections stay open and silent.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Continue ends a Pause.
func (p *Process) Continue() error { return p.signal(syscall.SIGCONT) }

// signal does nothing when the process has ended.
func (p *Process) signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.id.alive() {
		return nil
	}
	err := syscall.Kill(-p.id.PID, sig)
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %s to %s: %w", sig, p.ID(), err)
	}
	return nil
}

func (p *Process) waitGone(ctx context.Context) error {
	p.mu.Lock()
	exited, id := p.exited, p.id
	p.mu.Unlock()
	if exited != nil {
		select {
		case <-exited:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return poll(ctx, func(context.Context) error {
		if id.alive() {
			return fmt.Errorf("process %d lives", id.PID)
		}
		return nil
	})
}

// LogTail returns the last lines of the log, at most n.
func (p *Process) LogTail(n int) string {
	return tail(p.log, n)
}

// deathNote returns nil while the process runs, else an error that says how it
// ended and shows the end of its log.
func (p *Process) deathNote() error {
	if p.Running() {
		return nil
	}
	p.mu.Lock()
	exited := p.exited
	p.mu.Unlock()
	status := "not running"
	if exited != nil {
		// It is dead, so this only waits for the one that reads its exit status.
		<-exited
		p.mu.Lock()
		status = p.status
		p.mu.Unlock()
	}
	return fmt.Errorf("%s: %s; the end of %s:\n%s", p.ID(), status, p.log, p.LogTail(15))
}

// tail returns the last n lines of a file. It reads only the end of it: logs
// grow to many megabytes.
func tail(path string, n int) string {
	const window = 64 << 10
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err.Error()
	}
	size := min(info.Size(), window)
	buffer := make([]byte, size)
	if _, err := file.ReadAt(buffer, info.Size()-size); err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(buffer), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
