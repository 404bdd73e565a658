package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A report collects the rows of a run and the facts that a reader needs to
// interpret them.
type report struct {
	table

	started   time.Time
	part      string // the part that runs now
	committed *table // the table of the last commit; nil if there is none
}

// fact adds a line above the table, unless there is one with this name.
func (r *report) fact(name, value string) {
	for _, f := range r.Facts {
		if f[0] == name {
			return
		}
	}
	r.Facts = append(r.Facts, [2]string{name, value})
}

// add adds rows of the part that runs now. It completes their ids with the name
// of the part.
func (r *report) add(rows ...row) {
	for _, w := range rows {
		w.Part = r.part
		w.ID = strings.TrimSuffix(r.part+"/"+w.ID, "/")
		r.Rows = append(r.Rows, w)
	}
}

// notWorse sets the target of a number that has none of its own: what the
// committed table demands of it, but no more than its margin away from the
// value. The target follows a better value and never a worse one.
func (r *report) notWorse(id string, n number) number {
	edge := n.Value * (1 + n.Margin)
	if n.Better == betterHigher {
		edge = n.Value * (1 - n.Margin)
	}
	if was, ok := r.committed.number(r.part+"/"+id, n.label()); ok && was.Target != nil {
		if n.Better == betterHigher {
			edge = max(edge, *was.Target)
		} else {
			edge = min(edge, *was.Target)
		}
	}
	edge = rounded(edge)
	n.Target = &edge
	return n
}

// renewed returns the committed table with the rows that this run has measured.
// only lists the parts that ran, separated by commas.
func (r *report) renewed(only string) *table {
	which := names()
	if only != "" {
		which = strings.Split(only, ",")
	}
	t := r.committed
	t.renew(which, &r.table)
	fact := [2]string{"measured again", strings.Join(which, ", ")}
	for _, f := range r.Facts {
		if f[0] == "commit" || f[0] == "date" {
			fact[1] += "; " + f[0] + " " + f[1]
		}
	}
	t.Facts = slices.DeleteFunc(t.Facts, func(f [2]string) bool {
		return f[0] == fact[0] && strings.HasPrefix(f[1], strings.Join(which, ", ")+";")
	})
	t.Facts = append(t.Facts, fact)
	return t
}

// machine adds the facts about the machine and the run.
func (r *report) machine(root string) {
	r.fact("date", r.started.UTC().Format("2006-01-02 15:04 UTC"))
	r.fact("command", "`"+r.Command+"`")
	r.fact("commit", oneLine(exec.Command("git", "-C", root, "describe", "--always", "--dirty")))
	r.fact("machine", fmt.Sprintf("%s, %d cores, %s/%s, kernel %s", cpuModel(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, oneLine(exec.Command("uname", "-r"))))
	r.fact("Go", strings.TrimPrefix(runtime.Version(), "go"))
	r.fact("Node", strings.TrimPrefix(oneLine(exec.Command("node", "--version")), "v"))
	r.fact("load average at the start", loadAverage())
}

func oneLine(cmd *exec.Cmd) string {
	out, err := cmd.Output()
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}

func cpuModel() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// loadAverage returns the load average of the machine, this program included.
func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(data))[:3], " ")
}
