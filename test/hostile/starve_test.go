//go:build linux

package hostile

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/procinfo"
)

// starve is the role of an agent's tool. It sets its supervisor's limit of
// descriptors to zero, so that the supervisor cannot look for processes, and
// starts a process that is hard to find.
func starve(args []string) {
	line, err := procinfo.Lineage(os.Getpid())
	if err != nil {
		panic(err)
	}
	starved := 0
	for _, k := range line {
		if k.Supervisor {
			if err := unix.Prlimit(k.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{}, nil); err != nil {
				panic(err)
			}
			starved++
			break
		}
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command("/bin/sh", "-c", `(cd /; env -i setsid "$0" play-stay </dev/null >/dev/null 2>&1 &)`, self)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Run(); err != nil {
		panic(err)
	}
	writeResult(filepath.Join(args[0], "starved"), starved)
	stay(nil)
}

// TestStarvedSupervisorLeavesNothing has a tool lower the limit of a
// supervisor, as any process of the same user can, and then ends the agent in
// several ways. No process may remain.
func TestStarvedSupervisorLeavesNothing(t *testing.T) {
	users(t, func(t *testing.T, user *syscall.Credential) {
		for name, end := range map[string]func(w *world){
			"server killed, and started again": func(w *world) {
				w.kill()
				w.start()
			},
			"killed":              func(w *world) { w.killSessions() },
			"server asked to end": func(w *world) { w.stop() },
			"cancelled": func(w *world) {
				if code, _ := w.Call("POST", "/api/session/"+w.sessions[0]+"/cancel", object{}, nil); code != http.StatusOK {
					w.t.Errorf("cancel: %d", code)
				}
			},
		} {
			t.Run(name, func(t *testing.T) {
				if user == nil && os.Getuid() == 0 && !strings.HasPrefix(name, "server") && !long() {
					t.Skip("as for a stranger: RUNNEL_LONG=1")
				}
				w := newWorld(t, user, "60s")
				w.start()
				c := w.Watch(w.create())
				defer c.Leave()
				c.Send(plan{Deltas: 1, Ask: true, Stubborn: true, Tool: []string{w.agent(), "play-starve", w.project}}.prompt())
				c.Until("question", func(ev event.Event) bool { _, ok := ev.Body.(event.ApprovalRequested); return ok })
				var starved int
				if w.file("starved", &starved); starved != 1 {
					t.Fatalf("%d supervisors were starved", starved)
				}
				end(w)
				t.Logf("all were gone after %v", w.empty(5*time.Second))
			})
		}
	})
}
