//go:build linux

package kill

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/testapi"
)

// newWarmWorld returns a world whose server keeps one prewarmed agent.
func newWarmWorld(t *testing.T, agent, window string) *world {
	w := newWorldOf(t, agent, window, filepath.Join(t.TempDir(), "data"))
	w.settings = []string{"RUNNEL_PREWARM=1"}
	return w
}

// metric returns the value of one of the server's metrics; "" if it is missing.
func (w *world) metric(name string) string {
	w.t.Helper()
	res, err := w.Do(w.t.Context(), "GET", "/metrics", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// awaitPrewarmed waits until a prewarmed agent is ready.
func (w *world) awaitPrewarmed() {
	w.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(testapi.Timeout); w.metric("runnel_prewarm_ready") != "1"; <-tick.C {
		if time.Now().After(deadline) {
			w.t.Fatalf("no agent became ready: %+v", w.processes())
		}
	}
}

// supervisorOf returns the process id of a session's supervisor.
func (w *world) supervisorOf(session string) int {
	w.t.Helper()
	var record struct{ Supervisor struct{ Pid int } }
	data, err := os.ReadFile(filepath.Join(w.data, "run", session+".json"))
	if err == nil {
		err = json.Unmarshal(data, &record)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return record.Supervisor.Pid
}

// firstWord creates a session, sends a prompt, and returns how long it took
// until the first word of the answer arrived.
func (w *world) firstWord() (session string, took time.Duration) {
	w.t.Helper()
	at := time.Now()
	session = w.create()
	c := w.Follow(session)
	defer c.Leave()
	turn := c.Send(fakemodel.Scenario{Steps: []fakemodel.Step{{Text: before}}}.Prompt("go"))
	c.Until("first word", func(ev event.Event) bool {
		_, says := ev.Body.(event.ItemDelta)
		return says && ev.Turn == turn
	})
	took = time.Since(at)
	if end, ok := c.End(turn).Body.(event.ResponseDone); !ok || end.Status != event.StatusCompleted {
		w.t.Errorf("ended as %+v", end)
	}
	return session, took
}

// TestAnAgentThatWaitedAnswers checks that a new session gets the prewarmed
// agent, whose process ran before the session was created.
func TestAnAgentThatWaitedAnswers(t *testing.T) {
	agents := []string{"claude-code", "codex", "codex-acp"}
	if long() {
		agents = append([]string{"claude-code", "codex"}, realagents.ACP()...)
	}
	for _, agent := range agents {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			answersWarm(t, agent)
		})
	}
}

func answersWarm(t *testing.T, agent string) {
	w := newWarmWorld(t, agent, "60s")
	w.start()
	_, cold := w.firstWord()
	w.awaitPrewarmed()
	before := w.processes()
	session, warm := w.firstWord()
	t.Logf("first word after %v, with an agent that waited after %v", cold, warm)
	if w.metric(`runnel_prewarm_sessions_total{result="hit"}`) != "1" {
		t.Error("no agent was handed out")
	}
	pid := w.supervisorOf(session)
	if !slices.ContainsFunc(before, func(p process) bool { return p.pid == pid && p.supervisor }) {
		t.Errorf("the supervisor %d is none of those before: %+v", pid, before)
	}
	agents := func(of []process) (pids []int) {
		for _, p := range of {
			if p.ppid == pid {
				pids = append(pids, p.pid)
			}
		}
		return pids
	}
	if was, is := agents(before), agents(w.processes()); len(was) == 0 || !slices.Equal(was, is) {
		t.Errorf("under it ran %v, and run %v", was, is)
	}

	// The session keeps this agent like any other: its turn survives a kill of
	// the server.
	w.awaitPrewarmed()
	c := w.Follow(session)
	defer c.Leave()
	turn := c.Send(w.turnPrompt(1))
	c.Until("beginning", func(ev event.Event) bool {
		_, says := ev.Body.(event.ItemDelta)
		return says && ev.Turn == turn
	})
	w.kill()
	w.start()
	if done, ok := c.End(turn).Body.(event.ResponseDone); !ok || done.Status != event.StatusCompleted || w.supervisorOf(session) != pid {
		t.Error("its turn did not go on")
	}
}

// TestAgentsThatWaitEndWithTheServer checks that prewarmed agents end soon
// after their server, however the server ends.
func TestAgentsThatWaitEndWithTheServer(t *testing.T) {
	const window, agent = 2 * time.Second, "codex" // starts fast
	for _, tt := range []struct {
		name   string
		end    func(*world)
		within time.Duration
	}{
		{"killed", (*world).kill, window + 2*time.Second},
		{"replaced", func(w *world) { w.stop(syscall.SIGTERM) }, 2 * time.Second},
		{"ended", func(w *world) { w.stop(syscall.SIGINT) }, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWarmWorld(t, agent, window.String())
			w.start()
			w.firstWord()
			w.awaitPrewarmed()
			if n := len(w.supervisors()); n != 2 {
				t.Errorf("%d agents run, want the session's and one that waits", n)
			}
			tt.end(w)
			w.empty(tt.within)
			if left, _ := os.ReadDir(filepath.Join(w.data, "run")); len(left) != 0 {
				t.Errorf("left in the directory: %v", left)
			}
		})
	}
	t.Run("killed and started", func(t *testing.T) {
		w := newWarmWorld(t, agent, "1h") // so that the next server stops the prewarmed agent, not the window's end
		w.start()
		session, _ := w.firstWord()
		w.awaitPrewarmed()
		kept := w.supervisorOf(session)
		was := w.supervisors()
		w.settings = nil
		w.kill()
		w.start()
		for _, pid := range w.supervisors() {
			if pid != kept && slices.Contains(was, pid) {
				t.Errorf("%d waits for a server that is gone", pid)
			}
		}
		w.stop(syscall.SIGINT)
		w.empty(2 * time.Second)
	})
}

// TestInterruptedWhileItTakesOver interrupts a server that has taken over an
// agent but does not serve yet. The server must stop the agent.
func TestInterruptedWhileItTakesOver(t *testing.T) {
	w := newFastWorld(t, "1h")
	w.start()
	w.firstWord()
	w.kill()

	cmd := exec.Command(w.binary, "serve", "--listen", w.Addr, "--data", w.data, "--log-level", "info")
	cmd.Env = w.environ()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(stderr)
	for said.Scan() && !strings.Contains(said.Text(), "agent taken over") {
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, stderr) // until the server ends
	if err := cmd.Wait(); err != nil {
		t.Errorf("serve: %v", err)
	}
	w.empty(2 * time.Second)
}
