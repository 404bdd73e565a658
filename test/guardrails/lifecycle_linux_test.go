package guardrails

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/procinfo"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/testapi"
	"github.com/runnel-dev/runnel/internal/testexec"
)

// blocked sends a prompt whose tool waits at a pipe in the project, and returns
// the turn and a function that lets the tool continue.
func (w *world) blocked(c *testapi.Client, after string) (turn string, release func()) {
	t := w.t
	t.Helper()
	pipe, began := filepath.Join(w.home.Project, "pipe"), filepath.Join(w.home.Project, "began")
	for _, path := range []string{pipe, began} {
		_ = os.Remove(path)
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tools := realagents.ToolsetOf(w.agent.Name)
	turn = c.Send(fakemodel.Scenario{Steps: []fakemodel.Step{{Blocks: []fakemodel.Block{tools.Shell("echo > began; cat pipe; " + after)}}, {Text: "It is over."}}}.Prompt("Go."))
	w.begins(c, turn, began)
	return turn, func() {
		if err := os.WriteFile(pipe, []byte("go\n"), 0o600); err != nil {
			t.Error(err)
		}
	}
}

// begins waits until a tool writes to a pipe. It fails the test with the end of
// the turn if the turn ends without that.
func (w *world) begins(c *testapi.Client, turn, pipe string) {
	w.t.Helper()
	f, err := os.OpenFile(pipe, os.O_RDWR|syscall.O_NONBLOCK, 0) // does not wait for a writer
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	err = f.SetReadDeadline(time.Now().Add(testapi.Timeout))
	if err == nil {
		_, err = f.Read(make([]byte, 1))
	}
	if err != nil {
		w.t.Fatalf("the tool did not run: %v; the turn ended with %+v", err, c.End(turn).Body)
	}
}

// TestTurnInSandboxSurvivesKilledServer kills the server while a tool runs. The
// next server takes the agent over, and serves the network of its sandbox.
func TestTurnInSandboxSurvivesKilledServer(t *testing.T) {
	each(t, func(t *testing.T, agent realagents.Binary) {
		w := newWorld(t, agent)
		session := w.enclosed()
		c := w.Follow(session)
		turn, release := w.blocked(c, "cat ../home/.bashrc")
		w.prog.Kill()
		c.Leave()
		w.start()
		c = w.Follow(session)
		defer c.Leave()
		release()
		end := c.End(turn)
		if !isDone(end) {
			t.Errorf("the turn ended with %+v", end.Body)
		}
		var said bool
		for _, ev := range c.Events {
			text, _ := json.Marshal(ev.Body)
			said = said || ev.Turn == turn && strings.Contains(string(text), "It is over.") && !strings.Contains(string(text), "Go.") // which is in the prompt
		}
		if !said {
			t.Error("the model's last answer did not arrive through the second server's proxy")
		}
	}, "codex")
}

// TestEndOfSandbox cancels a turn and then ends the session. The processes of
// the sandbox end, also those that have detached themselves.
func TestEndOfSandbox(t *testing.T) {
	each(t, func(t *testing.T, agent realagents.Binary) {
		w := newWorld(t, agent)
		session := w.enclosed()
		c := w.Follow(session)
		defer c.Leave()
		mark := strconv.Itoa(600_000 + os.Getpid())
		w.tool(session, "setsid sleep "+mark+" </dev/null >/dev/null 2>&1 & sleep 0.1; echo started")
		if agent.Name != "codex" && running(mark) == 0 { // Codex ends what a command leaves behind
			t.Error("the background process does not run")
		}
		turn, _ := w.blocked(c, "true")
		if code, _ := w.Call("POST", "/api/session/"+session+"/cancel", struct{}{}, nil); code != http.StatusOK {
			t.Errorf("cancel: %d", code)
		}
		if b, ok := c.End(turn).Body.(event.ResponseDone); !ok || b.Status != event.StatusCancelled {
			t.Errorf("the cancelled turn ended with %+v", b)
		}
		w.tool(session, "echo again")
		if code, _ := w.Call("POST", "/api/session/"+session+"/kill", struct{}{}, nil); code != http.StatusOK {
			t.Errorf("kill: %d", code)
		}
		if n := running(mark); n > 0 {
			t.Errorf("%d processes of the sandbox still run", n)
		}
		if left, _ := filepath.Glob(filepath.Join(w.prog.Data, "run", "*.box")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}, "codex")
}

// running returns how many processes have an argument.
func running(argument string) (n int) {
	pids, _ := procinfo.Pids()
	for _, pid := range pids {
		if procinfo.HasArgument(pid, argument) {
			n++
		}
	}
	return n
}

// TestSandboxDoesNotReachThePortOfTheNextServer kills the server while a tool
// runs. The next server listens on a port that the session's egress list has.
func TestSandboxDoesNotReachThePortOfTheNextServer(t *testing.T) {
	w := newWorld(t, realagents.Codex(t))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	next := ln.Addr().String()
	ln.Close()
	script := "#!/bin/bash\nexec 3<>/dev/tcp/127.0.0.1/17318; printf 'CONNECT " + next + " HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3; read -r answer <&3; echo \"$answer\" > answer\n"
	if err := testexec.Write(filepath.Join(w.home.Project, "reach"), script); err != nil {
		t.Fatal(err)
	}
	session := w.enclosed("localhost:" + port(next))
	c := w.Follow(session)
	turn, release := w.blocked(c, "./reach")
	w.prog.Kill()
	c.Leave()
	w.prog.Args = append(w.prog.Args, "--listen", next)
	w.start()
	c = w.Follow(session)
	defer c.Leave()
	release()
	c.End(turn)
	if answer, err := os.ReadFile(filepath.Join(w.home.Project, "answer")); err != nil || !strings.Contains(string(answer), " 403 ") {
		t.Errorf("the proxy answered %q, %v", answer, err)
	}
}

// TestConversationContinuesInANewSandbox ends a session and opens it again. The
// agent in the new sandbox still knows the conversation. Without RUNNEL_LONG=1,
// TestAllowedPathIsReachedFromTheNextTurnOn does the same with Codex.
func TestConversationContinuesInANewSandbox(t *testing.T) {
	each(t, func(t *testing.T, agent realagents.Binary) {
		w := newWorld(t, agent)
		session := w.enclosed()
		w.tool(session, "echo marzipan")
		for _, path := range []string{"/kill", "/load"} {
			if code, _ := w.Call("POST", "/api/session/"+session+path, struct{}{}, nil); code != http.StatusOK {
				t.Fatalf("%s: %d", path, code)
			}
		}
		before := len(w.model.Requests())
		w.tool(session, "echo nougat")
		if !slices.ContainsFunc(w.model.Requests()[before:], func(r fakemodel.Request) bool {
			return strings.Contains(string(r.Body), "echo marzipan") && strings.Contains(string(r.Body), "echo nougat")
		}) {
			t.Error("the model received no request with both turns")
		}
	}, "claude-code")
}
