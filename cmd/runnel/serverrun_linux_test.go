package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/testload"
)

// withAgent adds the small test agent to the configuration, as the agent
// "mine". The agent survives a restart of the server.
func (s *scene) withAgent(t *testing.T) {
	t.Helper()
	buildAgent(t, s.home)
	config := filepath.Join(s.home, ".config", "runnel", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(config), 0o700); err != nil {
		t.Fatal(err)
	}
	text := "agents:\n  mine:\n    protocol: acp\n    command: [" + filepath.Join(s.home, "my-agent") + ", --acp]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// fifo makes a named pipe, which a reader opens only once there is a writer.
func (s *scene) fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(s.home, "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// call sends a request to the server's socket, as the page would, and decodes
// the answer.
func (s *scene) call(t *testing.T, method, path string, in, out any) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(s.home, "data", "api.sock"))
	}, DisableKeepAlives: true}}
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if in == nil {
		body = nil
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		t.Fatalf("%s %s: %d %s %v", method, path, res.StatusCode, data, err)
	}
	if out != nil {
		if err := json.Unmarshal(data, out); err != nil {
			t.Fatal(err)
		}
	}
}

// asked returns the session that waits for an answer, and its approval.
func (s *scene) asked(t *testing.T) (session string, a event.Approval) {
	t.Helper()
	var list struct{ Sessions []gateway.Status }
	s.call(t, "GET", "/api/session/list?projectId=*", nil, &list)
	for _, st := range list.Sessions {
		if len(st.PendingApprovals) == 1 {
			return st.SessionID, st.PendingApprovals[0]
		}
	}
	t.Fatalf("no session waits: %+v", list.Sessions)
	return
}

// starts runs a command that prints events, whose standard error is kept.
func starts(t *testing.T, cmd *exec.Cmd) *running {
	t.Helper()
	r := &running{cmd: cmd}
	if cmd.Stderr == nil {
		cmd.Stderr = &r.stderr
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.lines = bufio.NewScanner(out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// The server is killed and another one started in the middle of a turn. The
// command prints every event of the turn once.
func TestRunContinuesAfterTheServerRestarts(t *testing.T) {
	s := newScene(t)
	s.withAgent(t)
	fifo := s.fifo(t)
	s.serve(t)
	r := starts(t, s.command(t, "run", "--agent", "mine", "-o", "events", "wait: "+fifo))
	r.waitFor(t, event.ItemDelta{})
	s.kill(t)
	s.serve(t)
	if err := os.WriteFile(fifo, []byte("and after"), 0o600); err != nil {
		t.Fatal(err)
	}
	events, code := r.wait(t)
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, r.stderr.Bytes())
	}
	text, ends := "", 0
	for i, ev := range events {
		if i > 0 && ev.Seq != events[i-1].Seq+1 {
			t.Errorf("event %d came after %d", ev.Seq, events[i-1].Seq)
		}
		switch b := ev.Body.(type) {
		case event.ItemDelta:
			text += b.DeltaContent
		case event.ResponseDone, event.ResponseError:
			ends++
		}
	}
	if ends != 1 {
		t.Errorf("the turn ended %d times", ends)
	}
	if text != "before and after" {
		t.Errorf("the deltas are %q", text)
	}
}

// Another machine follows the audit log to export it. If the server is killed and
// started again meanwhile, the command continues and prints every entry once.
func TestFollowedAuditContinuesAfterTheServerRestarts(t *testing.T) {
	s := newScene(t)
	s.serve(t)
	cmd := s.command(t, "audit", "--follow", "--json")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, last := bufio.NewScanner(out), audit.Record{}
	until := func(kind audit.Action, who string) {
		t.Helper()
		for lines.Scan() {
			n := last.N
			if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
				t.Fatal(err)
			}
			if last.N != n+1 {
				t.Errorf("entry %d came after %d", last.N, n)
			}
			if last.Kind == kind && strings.Contains(last.What, who) {
				return
			}
		}
		t.Fatalf("the command ended before the entry %q about %q: %v; %s", kind, who, cmd.Wait(), stderr.Bytes())
	}
	create := func(name string) {
		t.Helper()
		if err := s.command(t, "token", "create", name).Run(); err != nil {
			t.Fatal(err)
		}
	}
	create("before")
	until(audit.TokenCreated, "before")
	s.kill(t)
	s.serve(t)
	create("after")
	until(audit.TokenCreated, "after")

	// The log is removed, with the record of its end: another one begins.
	s.kill(t)
	for _, dir := range []string{filepath.Join(s.home, "data", auditName), filepath.Join(s.home, ".config", "runnel", "audit")} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	s.serve(t)
	for lines.Scan() {
		t.Errorf("printed of another log: %s", lines.Bytes())
	}
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(stderr.String(), "audit log was replaced") {
		t.Errorf("exit %d: %s", cmd.ProcessState.ExitCode(), stderr.Bytes())
	}
}

// The first Ctrl-C, or SIGTERM, cancels the turn. The second Ctrl-C leaves the
// turn to the server, also if the server does not answer.
func TestInterruptCancelsTheTurnInTheServer(t *testing.T) {
	s := newScene(t)
	s.serve(t)
	for name, sig := range map[string]syscall.Signal{"interrupt": syscall.SIGINT, "terminate": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			r := starts(t, s.command(t, "run", "--agent", "script", "-o", "events", "hang"))
			r.waitFor(t, event.ItemDone{})
			r.signal(t, sig)
			events, code := r.wait(t)
			last, ok := events[len(events)-1].Body.(event.ResponseDone)
			if code != exitNotDone || !ok || last.Status != event.StatusCancelled {
				t.Errorf("exit %d after %#v, want %d after a cancelled turn", code, events[len(events)-1].Body, exitNotDone)
			}
		})
	}
	t.Run("twice while the server is away", func(t *testing.T) {
		stderr, theirs, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer stderr.Close()
		cmd := s.command(t, "run", "--agent", "script", "-o", "events", "hang")
		cmd.Stderr = theirs
		r := starts(t, cmd)
		_ = theirs.Close()
		r.waitFor(t, event.ItemDone{})
		session := r.events[0].Session
		s.kill(t)
		lines := bufio.NewScanner(stderr)
		await := func(text string) {
			for lines.Scan() {
				if strings.Contains(lines.Text(), text) {
					return
				}
			}
			t.Errorf("the command did not say %q", text)
		}
		r.signal(t, syscall.SIGINT)
		await("press Ctrl-C again to leave the turn to the server")
		r.signal(t, syscall.SIGINT)
		await("'runnel attach " + session + "' follows it")
		if _, code := r.wait(t); code != exitNotDone {
			t.Errorf("exit %d", code)
		}
	})
}

// A question that is open in a terminal can be answered on the page. The
// terminal says how it was answered.
func TestQuestionInATerminalIsAnsweredOnThePage(t *testing.T) {
	s := newScene(t)
	s.serve(t)
	for choice, want := range map[string]struct {
		said string
		code int
	}{"allow": {"Answered elsewhere: Allow once.", exitOK}, "deny": {"Answered elsewhere: Deny.", exitNotDone}} {
		tm := newTerminal(t, 100)
		cmd := s.command(t, "run", "--agent", "script", "--ask", "approve")
		tm.begin(t, cmd)
		tm.await(t, "Your choice, 1 to 4: ", 1)
		session, a := s.asked(t)
		s.call(t, "POST", "/api/session/"+session+"/approvals/"+a.ID, map[string]string{"choice": choice, "argumentsDigest": a.ArgumentsDigest}, nil)
		if code := tm.rest(t, cmd); code != want.code || !strings.Contains(tm.seen.String(), want.said) {
			t.Errorf("%s: exit %d:\n%s", choice, code, tm.seen.String())
		}
	}
}

// An answer in the terminal reaches the server with the name of who decided.
func TestQuestionOfTheServerIsAnsweredInTheTerminal(t *testing.T) {
	testload.TakesLong(t)
	s := newScene(t)
	s.serve(t)
	for answer, want := range map[string]int{"1\n": exitOK, "3\n": exitNotDone} {
		tm := newTerminal(t, 100)
		cmd := s.command(t, "run", "--agent", "script", "--ask", "approve")
		tm.begin(t, cmd)
		tm.await(t, "Your choice, 1 to 4: ", 1)
		tm.typeIn(t, answer)
		if code := tm.rest(t, cmd); code != want {
			t.Errorf("exit %d, want %d:\n%s", code, want, tm.seen.String())
		}
	}
	out := finish(t, s.command(t, "sessions", "list", "--json"))
	if strings.Contains(out.Stdout, `"working"`) || strings.Contains(out.Stdout, `"waiting"`) {
		t.Errorf("a session still runs: %s", out.Stdout)
	}
}

// A program answers approvals of the server with --answers as it does without
// the server.
func TestProgramAnswersApprovalsOfTheServer(t *testing.T) {
	s := newScene(t)
	s.serve(t)
	for name, c := range map[string]struct {
		answer func(a event.Approval) string
		choice string
		by     event.Resolver
		code   int
	}{
		"allow": {func(a event.Approval) string {
			return `{"approvalId":"` + a.ID + `","choice":"allow","argumentsDigest":"` + a.ArgumentsDigest + `"}`
		}, "allow", event.ByUser, exitOK},
		"allow other arguments": {func(a event.Approval) string {
			return `{"approvalId":"` + a.ID + `","choice":"allow","argumentsDigest":"00"}`
		}, "deny", event.ByPolicy, exitNotDone},
		"not an answer": {func(event.Approval) string { return "1" }, "deny", event.ByPolicy, exitNotDone},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := s.command(t, "run", "--agent", "script", "--answers", "-o", "events", "approve")
			var errOut bytes.Buffer
			cmd.Stderr = &errOut
			channel := startAnswered(t, cmd)
			var got event.ApprovalResolved
			for sc := bufio.NewScanner(channel); sc.Scan(); {
				var ev event.Event
				if err := json.Unmarshal(sc.Bytes(), &ev); err != nil {
					t.Fatal(err)
				}
				switch b := ev.Body.(type) {
				case event.ApprovalRequested:
					if _, err := io.WriteString(channel, c.answer(b.Approval)+"\n"); err != nil {
						t.Fatal(err)
					}
				case event.ApprovalResolved:
					got = b
				}
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != c.code || got.Choice != c.choice || got.By != c.by {
				t.Errorf("exit %d, resolved %+v, stderr %q", code, got, errOut.String())
			}
		})
	}
}

// Options that the server does not take make a local run, which the command
// reports.
func TestRunIsLocalWhereTheServerCannotRunIt(t *testing.T) {
	s := newScene(t)
	s.serve(t)
	for flag, args := range map[string][]string{
		"--timeout": {"--timeout", "1h"}, "--trust": {"--trust"}, "--agent-path": {"--agent-path", "/bin/true"},
		"--profiles-dir": {"--profiles-dir", s.home}, "--extension": {"--extension", `agent_api.config.model.v1="m"`},
	} {
		got := finish(t, s.command(t, append(append([]string{"run", "--agent", "script"}, args...), "text")...))
		if got.Code != exitOK || !strings.Contains(got.Stderr, "does not use the running server, because only a local run can have "+flag) {
			t.Errorf("%s: %+v", flag, got)
		}
	}
	long := s.command(t, "run", "--agent", "script")
	long.Stdin = strings.NewReader("text " + strings.Repeat("word ", 1<<18))
	if got := finish(t, long); got.Code != exitOK || !strings.Contains(got.Stderr, "a prompt of this length") {
		t.Errorf("a long prompt: %+v", got)
	}
	if got := s.sessions(t); len(got) != 0 {
		t.Errorf("the server has the sessions %v", got)
	}
	s.kill(t)
	if got := finish(t, s.command(t, "run", "--agent", "script", "text")); got.Code != exitOK || got.Stderr != "" {
		t.Errorf("without a server: %+v", got)
	}
}

// The last conversation in a folder is the last one of the server, and a
// conversation can be continued by the id that the agent gave it.
func TestRunContinuesConversationsOfTheServer(t *testing.T) {
	s := newScene(t)
	s.serve(t)
	run := func(args ...string) (session, agents string) {
		t.Helper()
		r := starts(t, s.command(t, append([]string{"run", "--agent", "script", "-o", "events"}, args...)...))
		events, code := r.wait(t)
		if code != exitOK {
			t.Fatalf("%v: exit %d: %s", args, code, r.stderr.Bytes())
		}
		var st gateway.Status
		s.call(t, "GET", "/api/session/"+events[0].Session+"/status", nil, &st)
		return st.SessionID, st.AgentSessionID
	}
	first, id := run("text")
	second, _ := run("text")
	if got, _ := run("--resume", "last", "text"); got != second {
		t.Errorf("the last conversation was %s, not %s", got, second)
	}
	if got, _ := run("--resume", id, "--model", "m2", "text"); got != first {
		t.Errorf("the conversation %s was in %s, not in %s", id, got, first)
	}
	missing := finish(t, s.command(t, "run", "--agent", "script", "--resume", "last", "--dir", s.home, "text"))
	if missing.Code != exitFailed || !strings.Contains(missing.Stderr, "no session found") {
		t.Errorf("%+v", missing)
	}
}
