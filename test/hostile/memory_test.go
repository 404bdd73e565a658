//go:build linux

package hostile

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/internal/procinfo"
)

// peeked is what a tool found in its ancestor processes.
type peeked struct {
	Above  []int            `json:"above"`
	Opened map[int][]string `json:"opened"` // what could be opened of a process
	Found  []string         `json:"found"`  // files that contain the secret
}

// canary is the first part of the secret. No command line may contain the whole
// secret, because the test searches command lines for it.
const canary = "wJalrXUtnFEMI"

// peek is the role of an agent's tool. It looks for the secret in its ancestor
// processes, and writes what it found into a directory.
func peek(args []string) {
	got := peeked{Opened: map[int][]string{}}
	line, err := procinfo.Lineage(os.Getpid())
	if err != nil {
		panic(err)
	}
	for _, k := range line[1:] {
		got.Above = append(got.Above, k.Pid)
		var r report
		r.into("", k.Pid, orders{})
		got.Opened[k.Pid] = r.Opened
		for _, name := range []string{"environ", "cmdline"} {
			file := filepath.Join("/proc", strconv.Itoa(k.Pid), name)
			if b, err := os.ReadFile(file); err == nil && bytes.Contains(b, []byte(canary+"-secret")) {
				got.Found = append(got.Found, file)
			}
		}
	}
	writeResult(filepath.Join(args[0], "peeked"), got)
}

// TestRunAndRecordHideMemoryAndEnvironment has a tool look for a cloud key in
// its ancestor processes, which have the key from the user's shell.
func TestRunAndRecordHideMemoryAndEnvironment(t *testing.T) {
	for _, command := range []string{"run", "record"} {
		t.Run(command, func(t *testing.T) {
			users(t, func(t *testing.T, user *syscall.Credential) {
				w := newWorld(t, user, "60s")
				args := []string{command, "--agent", "claude", "-C", w.project, "--quiet"}
				if command == "record" {
					args = append(args, "-o", filepath.Join(w.project, "recording"))
				}
				cmd := w.command(append(args, plan{Deltas: 1, Tool: []string{w.agent(), "play-peek", w.project}, Await: true}.prompt())...)
				cmd.Env = append(cmd.Env, "AWS_SECRET_ACCESS_KEY="+canary+"-secret")
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v %s", command, err, out)
				}
				var got peeked
				w.file("peeked", &got)
				opened, above := got.Opened[cmd.Process.Pid]
				if !above {
					t.Fatalf("process %d is not above the tool: %+v", cmd.Process.Pid, got)
				}
				if user == nil && os.Getuid() == 0 { // nothing can be hidden from root
					if len(opened) == 0 || len(got.Found) == 0 {
						t.Errorf("the tool does not look: %+v", got)
					}
					return
				}
				if len(got.Found) > 0 || len(opened) > 0 {
					t.Errorf("the secret is in %v; opened %v", got.Found, strings.Join(opened, ","))
				}
			})
		})
	}
}

// TestIdleServerNeedsLittleMemory checks that a server gives back the memory of
// what only its start and its turns need.
func TestIdleServerNeedsLittleMemory(t *testing.T) {
	const most = 22_000 // KiB
	w := newWorld(t, nil, "60s")
	w.start()
	c := w.Follow(w.create())
	defer c.Leave()
	c.End(c.Send(plan{Deltas: 100}.prompt()))
	resident, _ := rss(w.cmd.Process.Pid)
	t.Logf("%d KiB after a turn", resident)
	for deadline := time.Now().Add(time.Minute); ; <-time.After(100 * time.Millisecond) {
		if resident, _ = rss(w.cmd.Process.Pid); resident <= most {
			t.Logf("%d KiB while idle", resident)
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d KiB, not at most %d", resident, most)
		}
	}
}
