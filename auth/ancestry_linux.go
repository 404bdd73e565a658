package auth

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
)

// What the agents of this server, or of one before it, have started is told by
// its ancestors. A process that has lost its parent falls to the supervisor of
// its agent, which takes up orphans and outlives a killed server; so one of our
// supervisors, or we, are among them. An agent can look like one of ours that it
// is not, but cannot look like a stranger: its ancestors are not its own to
// change, nor is what the system shows of them.

// superviseWord follows the program's name in the command line of a supervisor.
const superviseWord = "__supervise"

// markSuffix ends the name of a variable that agents, and what they start,
// have in their environment.
const markSuffix = "RUNNEL_MARK"

// generations is more than there are, in case of a pid that was used again.
const generations = 1024

var errUnclear = errors.New("auth: its ancestors cannot be told")

// fromAgent reports whether pid belongs to an agent, or whether that cannot be
// told. What is above us both says nothing: this server may itself have been
// started by an agent of another one.
func fromAgent(pid int) bool {
	self := os.Getpid()
	above, err := ancestors(self)
	if err != nil || marked(pid, self) {
		return true
	}
	was := uint64(1<<64 - 1) // when the one below began
	for range generations {
		switch {
		case pid == self, supervises(pid):
			return true
		case pid <= 1, slices.Contains(above, pid):
			return false
		}
		p, err := statOf(pid)
		if err != nil || p.began > was { // it is gone, or another has its number
			return true
		}
		pid, was = p.parent, p.began
	}
	return true
}

// ancestors returns the pids above pid, nearest first.
func ancestors(pid int) ([]int, error) {
	var list []int
	for range generations {
		if pid <= 1 {
			return list, nil
		}
		p, err := statOf(pid)
		if err != nil {
			return nil, err
		}
		pid = p.parent
		list = append(list, pid)
	}
	return nil, errUnclear
}

// supervises looks at a command line, which everyone can read of every process.
func supervises(pid int) bool {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return false // it is gone; so is its stat, which decides
	}
	words := bytes.SplitN(line, []byte{0}, 3)
	return len(words) > 1 && string(words[1]) == superviseWord
}

// marked reports whether pid has the mark of an agent in the environment that it
// began with, and self has not. One that hides it, or has dropped it, is told by
// its ancestors.
func marked(pid, self int) bool {
	theirs := marks(pid)
	if len(theirs) == 0 {
		return false
	}
	ours := marks(self)
	return slices.ContainsFunc(theirs, func(m string) bool { return !slices.Contains(ours, m) })
}

func marks(pid int) (list []string) {
	env, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if name, _, ok := bytes.Cut(entry, []byte{'='}); ok && bytes.HasSuffix(name, []byte(markSuffix)) {
			list = append(list, string(entry))
		}
	}
	return list
}

// A stat is what the system tells everyone of a process.
type stat struct {
	parent int
	began  uint64 // in ticks since the machine did
}

// statOf reads fields 4 and 22 of /proc/<pid>/stat. The second is a name in
// parentheses that may hold anything.
func statOf(pid int) (s stat, err error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return s, err
	}
	i := bytes.LastIndexByte(data, ')')
	fields := bytes.Fields(data[i+1:])
	if i < 0 || len(fields) < 20 {
		return s, fmt.Errorf("stat of process %d is malformed", pid)
	}
	s.parent, err = strconv.Atoi(string(fields[1]))
	if err != nil {
		return s, err
	}
	s.began, err = strconv.ParseUint(string(fields[19]), 10, 64)
	return s, err
}
