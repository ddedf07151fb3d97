package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// ErrRunning is returned by Start and StartControlPlane when another lab runs in
// the folder.
var ErrRunning = errors.New("a lab already runs in this folder")

// supervisor owns the processes of one lab folder.
type supervisor struct {
	dir      string
	detached bool
	store    *stateStore

	mu        sync.Mutex
	processes []*Process
}

// claimDir makes dir the folder of a new lab: it ends what a crashed lab left
// there and removes its files. It refuses when a lab is in use there.
func claimDir(dir string, initial state) (*supervisor, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	store := &stateStore{dir: dir}
	old, err := store.read()
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err == nil {
		if old.Owner.alive() || old.Detached && old.Ready && old.anyAlive() {
			return nil, fmt.Errorf("%w: %s", ErrRunning, dir)
		}
		if err := attachSupervisor(store, old).killAll(); err != nil {
			return nil, fmt.Errorf("end what an earlier lab left in %s: %w", dir, err)
		}
	}
	for _, sub := range []string{clustersFolder, logsFolder} {
		if err := os.RemoveAll(filepath.Join(dir, sub)); err != nil {
			return nil, err
		}
	}
	if initial.Owner, err = identify(os.Getpid()); err != nil {
		return nil, err
	}
	if err := store.create(&initial); err != nil {
		return nil, err
	}
	return &supervisor{dir: dir, detached: initial.Detached, store: store}, nil
}

const (
	clustersFolder = "clusters"
	logsFolder     = "logs"
)

// attachSupervisor takes over the processes a state names.
func attachSupervisor(store *stateStore, st *state) *supervisor {
	s := &supervisor{dir: store.dir, detached: st.Detached, store: store}
	for _, record := range st.Processes {
		p := s.newProcess(record.ProcessSpec)
		p.id = record.identity
		s.processes = append(s.processes, p)
	}
	return s
}

func (s *supervisor) logDir() string { return filepath.Join(s.dir, logsFolder) }

func (s *supervisor) newProcess(spec ProcessSpec) *Process {
	log := filepath.Join(s.logDir(), spec.logFolder(), spec.Name+".log")
	return &Process{spec: spec, log: log, store: s.store}
}

// run starts a new process. A stopped one of the same name is replaced.
func (s *supervisor) run(ctx context.Context, spec ProcessSpec) (*Process, error) {
	p := s.newProcess(spec)
	if old := s.process(spec.Cluster, spec.Name); old != nil && old.Running() {
		return nil, fmt.Errorf("%s runs already as process %d", old.ID(), old.PID())
	}
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes = slices.DeleteFunc(s.processes, func(old *Process) bool { return old.ID() == p.ID() })
	s.processes = append(s.processes, p)
	return p, nil
}

// process returns nil if there is none of that name.
func (s *supervisor) process(cluster, name string) *Process {
	for _, p := range s.list() {
		if p.spec.Cluster == cluster && p.spec.Name == name {
			return p
		}
	}
	return nil
}

func (s *supervisor) list() []*Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.processes)
}

// killAll ends every process at once. Nothing of a lab needs an orderly end: its
// data goes with it.
func (s *supervisor) killAll() error {
	return inParallel(s.list(), (*Process).Kill)
}

// stopAll ends everything and forgets the lab; its logs stay. The processes
// others asked for end in order first, because they may have something to write
// at their end, such as coverage data.
func (s *supervisor) stopAll() error {
	var guests []*Process
	for _, p := range s.list() {
		if !isOurs(p.spec.Path) {
			guests = append(guests, p)
		}
	}
	return errors.Join(
		inParallel(guests, (*Process).Stop),
		s.killAll(),
		os.RemoveAll(filepath.Join(s.dir, clustersFolder)),
		s.store.remove(),
	)
}

func isOurs(path string) bool {
	return slices.ContainsFunc(binaries(), func(b binary) bool { return b.name == filepath.Base(path) })
}

func inParallel[T any](items []T, do func(T) error) error {
	errs := make([]error, len(items))
	var group sync.WaitGroup
	for i, item := range items {
		group.Go(func() { errs[i] = do(item) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// await polls until ready returns nil. It gives up early when one of the
// processes the outcome depends on has died, and then shows the end of its log.
func await(ctx context.Context, what string, depends []*Process, ready func(context.Context) error) error {
	err := poll(ctx, func(ctx context.Context) error {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		for _, p := range depends {
			if death := p.deathNote(); death != nil {
				return finalError{death}
			}
		}
		return err
	})
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		// Timed out with everything alive: the logs are the only witnesses.
		var logs []string
		for _, p := range depends {
			logs = append(logs, fmt.Sprintf("the end of %s:\n%s", p.LogPath(), p.LogTail(5)))
		}
		return fmt.Errorf("wait for %s: %w\n%s", what, err, strings.Join(logs, "\n"))
	}
	return fmt.Errorf("wait for %s: %w", what, err)
}

// startOnFreePorts starts a process that listens on n ports and waits until it
// is ready, with other ports if someone else took one of them first.
func (s *supervisor) startOnFreePorts(ctx context.Context, n int, spec func(ports []int) ProcessSpec, ready func(ctx context.Context, ports []int) error) ([]int, error) {
	const attempts = 4
	for attempt := 1; ; attempt++ {
		ports, err := freePorts(n)
		if err != nil {
			return nil, err
		}
		p, err := s.run(ctx, spec(ports))
		if err != nil {
			return nil, err
		}
		err = await(ctx, p.ID(), []*Process{p}, func(ctx context.Context) error { return ready(ctx, ports) })
		if err == nil {
			return ports, nil
		}
		if attempt == attempts || p.Running() || !strings.Contains(p.LogTail(100), "address already in use") {
			return nil, err
		}
		// The next attempt must not read this one's complaint.
		if err := os.Remove(p.LogPath()); err != nil {
			return nil, err
		}
	}
}
