package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// A row is one line of the table. Cells are text. Some contain two numbers,
// some the reason why there is no number.
type row struct {
	part   string // name of the part; see [parts]
	what   string
	target string // empty if there is none
	ours   string
	peer   string // name and value of a peer; empty if no peer can do this
	note   string
}

// A report is the table and the facts that a reader needs to interpret it.
type report struct {
	command string
	started time.Time
	facts   [][2]string
	rows    []row
	part    string // the part that runs now
}

// fact adds a line above the table, unless there is one with this name.
func (r *report) fact(name, value string) {
	for _, f := range r.facts {
		if f[0] == name {
			return
		}
	}
	r.facts = append(r.facts, [2]string{name, value})
}

func (r *report) add(rows ...row) {
	for _, w := range rows {
		w.part = r.part
		r.rows = append(r.rows, w)
	}
}

// markdown returns the report as the file that is committed.
func (r *report) markdown() string {
	var b strings.Builder
	b.WriteString("# Results\n\nWritten by `" + r.command + "`; [README.md](README.md) says what each row means. Times are milliseconds unless a unit stands there.\n\n")
	b.WriteString("| | |\n|---|---|\n")
	for _, f := range r.facts {
		fmt.Fprintf(&b, "| %s | %s |\n", f[0], f[1])
	}
	b.WriteString("\n| what | target | Runnel | beside it | remarks |\n|---|---|---|---|---|\n")
	for _, w := range r.rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", w.what, w.target, w.ours, w.peer, w.note)
	}
	return b.String()
}

// text returns the table for a terminal.
func (r *report) text() string {
	head := row{what: "what", target: "target", ours: "Runnel", peer: "beside it", note: "remarks"}
	cells := [][]string{}
	for _, w := range append([]row{head}, r.rows...) {
		cells = append(cells, []string{w.what, w.target, w.ours, w.peer, w.note})
	}
	width := make([]int, 4) // the last column is not padded
	for _, line := range cells {
		for i := range width {
			width[i] = max(width[i], len([]rune(line[i])))
		}
	}
	var b strings.Builder
	for _, line := range cells {
		for i, cell := range line {
			if i < len(width) {
				cell += strings.Repeat(" ", width[i]-len([]rune(cell))+2)
			}
			b.WriteString(cell)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// machine adds the facts about the machine and the run.
func (r *report) machine(root string) {
	r.fact("date", r.started.UTC().Format("2006-01-02 15:04 UTC"))
	r.fact("command", "`"+r.command+"`")
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
