package lab

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStateSurvivesWritingAndReading(t *testing.T) {
	store := &stateStore{dir: t.TempDir()}
	want := &state{
		Owner:    identity{PID: 7, StartTicks: 9},
		Detached: true,
		Ready:    true,
		Hub:      HubName,
		Clusters: []ClusterSpec{{Name: "c1", Labels: map[string]string{"env": "staging"}, RestrictedWorkAgent: true, LeaseDurationSeconds: 30, Nodes: 1}},
		Processes: []processRecord{{
			ProcessSpec: ProcessSpec{Cluster: "c1", Name: "kwok", Path: "/bin/kwok", Args: []string{"--x"}, Env: []string{"A=b"}, Detached: true},
			identity:    identity{PID: 12, StartTicks: 34},
		}},
	}
	if err := store.create(want); err != nil {
		t.Fatal(err)
	}
	got, err := store.read()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(processRecord{})); diff != "" {
		t.Errorf("the state changed (-written +read):\n%s", diff)
	}
}

func TestRecordProcessReplacesTheRecordOfTheSameName(t *testing.T) {
	store := &stateStore{dir: t.TempDir()}
	if err := store.create(&state{}); err != nil {
		t.Fatal(err)
	}
	for _, record := range []processRecord{
		{ProcessSpec{Cluster: "c1", Name: "kwok"}, identity{PID: 1, StartTicks: 1}},
		{ProcessSpec{Cluster: "c2", Name: "kwok"}, identity{PID: 2, StartTicks: 2}},
		{ProcessSpec{Cluster: "c1", Name: "kwok"}, identity{PID: 3, StartTicks: 3}},
		{ProcessSpec{Cluster: "c2", Name: "kwok"}, identity{}},
	} {
		if err := store.recordProcess(record.ProcessSpec, record.identity); err != nil {
			t.Fatal(err)
		}
	}
	st, err := store.read()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, record := range st.Processes {
		got[record.ID()] = record.PID
	}
	if diff := cmp.Diff(map[string]int{"c1/kwok": 3, "c2/kwok": 0}, got); diff != "" {
		t.Errorf("process ids (-want +got):\n%s", diff)
	}
}

func TestRecordsOfManyWritersAreAllKept(t *testing.T) {
	dir := t.TempDir()
	if err := (&stateStore{dir: dir}).create(&state{}); err != nil {
		t.Fatal(err)
	}
	names := make([]string, 30)
	for i := range names {
		names[i] = fmt.Sprintf("p%d", i)
	}
	err := inParallel(names, func(name string) error {
		return (&stateStore{dir: dir}).recordProcess(ProcessSpec{Name: name}, identity{})
	})
	if err != nil {
		t.Fatal(err)
	}
	st, err := (&stateStore{dir: dir}).read()
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Processes) != len(names) {
		t.Errorf("%d of %d records were kept", len(st.Processes), len(names))
	}
}

func TestAStoppedLabIsNotWrittenAgain(t *testing.T) {
	store := &stateStore{dir: t.TempDir()}
	if err := store.recordProcess(ProcessSpec{Name: "late"}, identity{PID: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.read(); err == nil {
		t.Error("a record brought the state file back")
	}
}
