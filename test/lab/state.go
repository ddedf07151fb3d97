package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// state is what a lab's folder says about it: enough to find and end every
// process, and to take the lab over (Attach).
type state struct {
	// Owner is the process that started the lab, and lives as long as the lab
	// unless the lab is detached.
	Owner    identity `json:"owner"`
	Detached bool     `json:"detached,omitempty"`
	// Ready is set once everything has started. A lab that is not ready and whose
	// owner is gone is what a crash left over.
	Ready     bool            `json:"ready,omitempty"`
	Hub       string          `json:"hub"`
	Clusters  []ClusterSpec   `json:"clusters,omitempty"`
	Processes []processRecord `json:"processes,omitempty"`
}

// processRecord is a process that was started; its identity is empty once it
// has been stopped on purpose.
type processRecord struct {
	ProcessSpec
	identity
}

func (s *state) anyAlive() bool {
	return slices.ContainsFunc(s.Processes, func(r processRecord) bool { return r.alive() })
}

// stateStore reads and writes the state file of one lab folder. Several
// processes may use it at once: every change is made under a file lock.
type stateStore struct{ dir string }

func (s *stateStore) path() string { return filepath.Join(s.dir, "state.json") }

// read returns fs.ErrNotExist if the folder holds no lab.
func (s *stateStore) read() (*state, error) {
	content, err := os.ReadFile(s.path())
	if err != nil {
		return nil, err
	}
	result := &state{}
	if err := json.Unmarshal(content, result); err != nil {
		return nil, fmt.Errorf("read %s: %w", s.path(), err)
	}
	return result, nil
}

func (s *stateStore) write(st *state) error {
	content, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	// Renamed into place: a crash must not leave half a list of processes.
	temporary := s.path() + ".tmp"
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, s.path())
}

func (s *stateStore) update(change func(*state)) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	st, err := s.read()
	if errors.Is(err, os.ErrNotExist) {
		// The lab was stopped and its state removed; there is nothing to update.
		return nil
	}
	if err != nil {
		return err
	}
	change(st)
	return s.write(st)
}

func (s *stateStore) create(st *state) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return s.write(st)
}

// lock waits without polling: the file is only ever held for a moment.
func (s *stateStore) lock() (unlock func(), err error) {
	file, err := os.OpenFile(s.path()+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return func() { file.Close() }, nil
}

// recordProcess adds or replaces the record of a process.
func (s *stateStore) recordProcess(spec ProcessSpec, id identity) error {
	return s.update(func(st *state) {
		record := processRecord{ProcessSpec: spec, identity: id}
		at := slices.IndexFunc(st.Processes, func(r processRecord) bool { return r.ID() == spec.ID() })
		if at < 0 {
			st.Processes = append(st.Processes, record)
			return
		}
		st.Processes[at] = record
	})
}

func (s *stateStore) remove() error {
	return errors.Join(ignoreNotExist(os.Remove(s.path())), ignoreNotExist(os.Remove(s.path()+".lock")))
}

func ignoreNotExist(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
