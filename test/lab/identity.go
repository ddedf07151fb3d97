package lab

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// identity names one process for good. A process id alone is reused by the
// kernel; together with the start time it is not.
type identity struct {
	PID int `json:"pid,omitempty"`
	// StartTicks is the start time in clock ticks since boot, field 22 of
	// /proc/PID/stat (see proc(5)).
	StartTicks uint64 `json:"startTicks,omitempty"`
}

// processStat is the part of /proc/PID/stat the lab needs.
type processStat struct {
	state      byte
	startTicks uint64
	rssPages   int64
}

// parseStat reads one line of /proc/PID/stat. The command in parentheses may
// hold spaces and parentheses itself, so fields are counted after the last one.
func parseStat(line string) (processStat, error) {
	end := strings.LastIndexByte(line, ')')
	if end < 0 {
		return processStat{}, fmt.Errorf("no command in %q", line)
	}
	fields := strings.Fields(line[end+1:])
	// The first of these fields is number 3, the state; 22 and 24 are wanted.
	if len(fields) < 22 {
		return processStat{}, fmt.Errorf("only %d fields after the command in %q", len(fields), line)
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return processStat{}, fmt.Errorf("start time: %w", err)
	}
	rss, err := strconv.ParseInt(fields[21], 10, 64)
	if err != nil {
		return processStat{}, fmt.Errorf("resident pages: %w", err)
	}
	return processStat{state: fields[0][0], startTicks: start, rssPages: rss}, nil
}

func readStat(pid int) (processStat, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return processStat{}, err
	}
	return parseStat(string(content))
}

// identify returns the identity of a running process.
func identify(pid int) (identity, error) {
	stat, err := readStat(pid)
	if err != nil {
		return identity{}, fmt.Errorf("read the start time of process %d: %w", pid, err)
	}
	return identity{PID: pid, StartTicks: stat.startTicks}, nil
}

// stat returns the process's state, and false if it has ended or its id now
// belongs to another process. A zombie has ended: only its parent is late.
func (i identity) stat() (processStat, bool) {
	if i.PID <= 0 {
		return processStat{}, false
	}
	stat, err := readStat(i.PID)
	if err != nil || stat.startTicks != i.StartTicks || stat.state == 'Z' || stat.state == 'X' {
		return processStat{}, false
	}
	return stat, true
}

func (i identity) alive() bool {
	_, ok := i.stat()
	return ok
}
