//go:build unix

package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/upsert"
)

// problem is the answer to a request that fails.
type problem struct {
	Error struct {
		Type    string
		Details struct {
			Choices []string
			Writer  struct {
				PID    int
				Source string
			}
		}
	}
}

// start starts a prompt in the terminal and does not wait for its end. id
// is the conversation to continue; "" begins a new one.
func (term terminal) start(s *server, agent realagents.Binary, id, text string) *exec.Cmd {
	s.t.Helper()
	argv := term.begins
	if id != "" {
		argv = append(argv[:len(argv):len(argv)], term.continues(id)...)
	}
	cmd := exec.Command(agent.Path, argv...)
	cmd.Dir, cmd.Env, cmd.Stdin = s.home.Project, s.env, strings.NewReader(text)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if cmd.ProcessState == nil { // afterwards another program may have its id
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			_ = cmd.Wait()
		}
	})
	return cmd
}

// until waits until holds returns true. what describes the condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(waitTimeout); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("timeout: %s", what)
		}
	}
}

// inUse returns the conversation that a list shows as in use.
func (s *server) inUse() (found gateway.Conversation) {
	s.t.Helper()
	until(s.t, "a conversation in use", func() bool {
		var page gateway.ConversationPage
		s.call("GET", "/api/conversations", nil, &page)
		for _, c := range page.Conversations {
			if c.Writer != nil {
				found = c
				return true
			}
		}
		return false
	})
	return found
}

// refused sends a prompt that must be refused because the conversation is in
// use.
func (s *server) refused(session string, body map[string]any, pid int) {
	s.t.Helper()
	var p problem
	if code := s.call("POST", "/api/session/"+session+"/send", body, &p); code != http.StatusConflict || p.Error.Type != "CONVERSATION_IN_USE" || p.Error.Details.Writer.PID != pid || fmt.Sprint(p.Error.Details.Choices) != "[wait takeOver fork]" {
		s.t.Fatalf("a prompt to a conversation in use: %d %+v, want CONVERSATION_IN_USE by %d", code, p, pid)
	}
}

// waits returns a call of a tool that ends at once.
func (term terminal) waits(s *server) fakemodel.Block {
	if term.program == "codex" {
		return fakemodel.Call("exec_command", map[string]any{"cmd": "true"})
	}
	return fakemodel.Call("Bash", map[string]any{"command": "true", "description": "nothing"})
}

// shows waits until a session has a message of the agent with this text. The
// process that wrote it must still run.
func (s *server) shows(session, text string, writer *exec.Cmd) {
	s.t.Helper()
	until(s.t, text, func() bool {
		for _, u := range s.items(session) {
			if u.Message != nil && u.Message.Content == text {
				return true
			}
		}
		return false
	})
}

// finds waits until a search for a phrase finds exactly the message of a session
// that has it, at the position that a client opens.
func (s *server) finds(session, phrase string) {
	s.t.Helper()
	var page gateway.SearchPage
	until(s.t, "a search for "+phrase, func() bool {
		s.call("GET", "/api/search?kind=answer&q="+url.QueryEscape(`"`+phrase+`"`), nil, &page)
		return len(page.Hits) > 0
	})
	if h := page.Hits[0]; len(page.Hits) != 1 || h.SessionID != session {
		s.t.Fatalf("search for %q: %+v, want one message of the session %s", phrase, page.Hits, session)
	}
	for _, u := range s.items(session) {
		if u.ItemID == page.Hits[0].ItemID && u.Message != nil && strings.Contains(u.Message.Content, phrase) {
			return
		}
	}
	s.t.Fatalf("search for %q: the session has no message with the item %s", phrase, page.Hits[0].ItemID)
}

// settled waits until a session has no writer and no running turn.
func (s *server) settled(session string) {
	s.t.Helper()
	until(s.t, "the end of the writer", func() bool {
		var st gateway.Status
		s.call("GET", "/api/session/"+session+"/status", nil, &st)
		return st.Writer == nil && st.TurnID == ""
	})
}

// equalsCopy compares the items of a session with those of a copy that another
// server makes of the same conversation, without the fields but.
func (s *server) equalsCopy(session, ref string, but ...string) {
	s.t.Helper()
	other := *s
	other.data = filepath.Join(s.t.TempDir(), "data")
	binary, err := build()
	if err != nil {
		s.t.Fatal(err)
	}
	token := exec.Command(binary, "token", "create", "e2e", "--scope", "read,send,approve", "--data", other.data)
	token.Env = s.env
	secret, err := token.Output()
	if err != nil {
		s.t.Fatal(err)
	}
	other.token = strings.TrimSpace(string(secret))
	other.start(binary)
	defer other.stop()
	got, want := s.items(session), other.items(other.load(ref))
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(upsert.Upsert{}, append(but, "EmittedAt", "Seq", "SessionID", "StartedAt", "SourceTimestamp")...), cmpopts.EquateEmpty()); d != "" {
		s.t.Errorf("followed and copied differ:\n%s", d)
	}
}

// A conversation that runs in a terminal is found, and refuses prompts until
// the terminal's process has ended or the user takes the conversation over.
func TestTerminalIsFollowedAndTakenOver(t *testing.T) {
	for name, source := range map[string]string{"claude-code": "registry", "codex": "descriptors", "claude-agent-acp": "registry", "codex-acp": "descriptors"} {
		t.Run(name, func(t *testing.T) {
			if strings.HasSuffix(name, "-acp") {
				needsLong(t, "the agent's own program writes the conversation, as it does without the adapter")
			}
			t.Parallel()
			owner, adapts := strings.CutSuffix(strings.Replace(name, "claude-agent", "claude-code", 1), "-acp")
			agent, term := realagents.Find(t, owner), terminals[owner]
			s := serve(t, realagents.Find(t, name), agent)
			held := func(gate, text string) string { return play(fakemodel.Step{Text: text, Hold: gate}) }

			first := term.start(s, agent, "", held("one", "First, in the terminal."))
			<-s.model.Gate("one").Reached()
			c := s.inUse()
			if c.SessionID != "" || c.Writer.PID == 0 || string(c.Writer.Source) != source {
				t.Errorf("listed: %+v, %+v", c, c.Writer)
			}
			session := s.load(name + ":" + c.AgentSessionID)
			s.refused(session, map[string]any{"content": "text"}, c.Writer.PID)
			s.refused(session, map[string]any{"content": "text", "queue": true}, c.Writer.PID)
			user := s.items(session)
			if len(user) != 1 || user[0].Message == nil || user[0].Message.Origin != "user" {
				t.Errorf("while the model is busy: %+v", user)
			}
			s.crash()
			s.launch()
			s.model.Gate("one").Open()
			if err := first.Wait(); err != nil {
				t.Fatal(err)
			}
			s.load(session) // does not wait until the follow notices the end
			if n := len(s.items(session)); n != 2 {
				t.Errorf("loaded after the terminal's end: %d items, want prompt and answer", n)
			}
			s.finds(session, "First, in the terminal")
			s.settled(session)
			d := &sse{s, session, "0", make(map[string]string)}
			if got := d.turn(play(fakemodel.Step{Text: "Second, here."}), ignore); got.Status != "completed" {
				t.Fatalf("when the terminal is gone: %+v", got)
			}
			if code := s.call("POST", "/api/session/"+session+"/kill", map[string]any{}, nil); code != http.StatusOK { // Codex refuses two writers itself
				t.Fatal(code)
			}
			s.load(session)

			third := term.start(s, agent, c.AgentSessionID, play(fakemodel.Step{Text: "Third, in the terminal.", Blocks: []fakemodel.Block{term.waits(s)}}, fakemodel.Step{Text: "Never.", Hold: "two"}))
			s.shows(session, "Third, in the terminal.", third)
			<-s.model.Gate("two").Reached()
			s.restart()
			s.shows(session, "Third, in the terminal.", third)
			var p problem
			if code := s.call("POST", "/api/session/"+session+"/cancel", map[string]any{}, &p); code != http.StatusConflict || p.Error.Type != "CONVERSATION_IN_USE" {
				t.Errorf("cancel: %d %+v", code, p)
			}
			pid := s.inUse().Writer.PID
			s.refused(session, map[string]any{"content": "text"}, pid)
			if code := s.call("POST", "/api/session/"+session+"/load", map[string]any{"takeOver": true}, nil); code != http.StatusOK {
				t.Fatalf("take over: %d", code)
			}
			d.after = s.lastSeq(session)
			if got := d.turn(play(fakemodel.Step{Text: "Fourth, here."}), ignore); got.Status != "completed" {
				t.Fatalf("after the takeover: %+v", got)
			}
			if code := s.call("POST", "/api/session/"+session+"/kill", map[string]any{}, nil); code != http.StatusOK {
				t.Fatal(code)
			}
			_ = third.Process.Kill() // the user closes the old terminal
			_ = third.Wait()
			if err := term.start(s, agent, c.AgentSessionID, play(fakemodel.Step{Text: "Fifth, in the terminal."})).Wait(); err != nil {
				t.Fatal(err)
			}
			s.load(session)
			for _, text := range []string{"First, in the terminal", "Second, here", "Third, in the terminal", "Fourth, here", "Fifth, in the terminal"} {
				s.finds(session, text)
			}
			if adapts { // it gives its own turns other ids than the agent that stores the conversation
				s.equalsCopy(session, name+":"+c.AgentSessionID, "TurnID", "ItemID")
			} else {
				s.equalsCopy(session, name+":"+c.AgentSessionID)
			}
		})
	}
}

// Codex stores a command when it ends. Of two commands at once, the first may
// therefore be stored last. Each is shown once, also if the server is killed in
// between.
func TestTerminalsParallelCommandsAreShownOnce(t *testing.T) {
	t.Parallel()
	agent, term := realagents.Find(t, "codex"), terminals["codex"]
	term.begins = append(slices.Clone(term.begins), "--sandbox", "danger-full-access") // the commands write files
	s := serve(t, agent)
	waits := func(file string) fakemodel.Block {
		return fakemodel.Call("exec_command", map[string]any{"cmd": "touch " + file + "-runs; until [ -e " + file + " ]; do sleep 0.05; done; echo " + file, "yield_time_ms": 30000})
	}
	text := play(fakemodel.Step{Blocks: []fakemodel.Block{waits("long"), waits("short")}}, fakemodel.Step{Text: "Both."})
	writer := term.start(s, agent, "", text)
	agentrig.Await(t, filepath.Join(s.home.Project, "long-runs"))
	agentrig.Await(t, filepath.Join(s.home.Project, "short-runs"))
	c := s.inUse()
	session := s.load("codex:" + c.AgentSessionID)
	ends := func(file string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(s.home.Project, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	outputs := func() (all []string) {
		for _, u := range s.items(session) {
			if u.ToolCall != nil && u.ToolCall.ToolOutput != nil {
				all = append(all, strings.TrimSpace(*u.ToolCall.ToolOutput))
			}
		}
		return all
	}
	ends("short")
	until(t, "the output of the short command", func() bool { return slices.Contains(outputs(), "short") })
	s.crash()
	ends("long")
	if err := writer.Wait(); err != nil {
		t.Fatal(err)
	}
	s.launch()
	s.load(session)
	s.shows(session, "Both.", writer)
	s.settled(session)
	if got := outputs(); !slices.Equal(slices.Sorted(slices.Values(got)), []string{"long", "short"}) {
		t.Errorf("the outputs of the commands: %q", got)
	}
}

// fileTerminals has the terminals of agents that do not tell which processes
// have a conversation open.
var fileTerminals = map[string]terminal{
	"gemini":   {program: "gemini", begins: []string{"--skip-trust", "--approval-mode", "yolo"}},
	"qwen":     {program: "qwen", begins: []string{"--approval-mode", "yolo"}},
	"copilot":  {program: "copilot", begins: []string{"--allow-all-tools"}},
	"opencode": {program: "opencode", begins: []string{"run", "--format", "json"}},
}

// echoes returns a call of the tool that runs commands.
func echoes(agent string) fakemodel.Block {
	if agent == "gemini" || agent == "qwen" {
		return fakemodel.Call("run_shell_command", map[string]any{"command": "echo found", "description": "Run it", "is_background": false})
	}
	return realagents.ToolsetOf(agent).Shell("echo found")
}

// A conversation whose writers cannot be known is followed while its file
// changes, and refuses prompts until 30 seconds after the last change.
func TestConversationInAFileIsFollowed(t *testing.T) {
	for name, term := range fileTerminals {
		t.Run(name, func(t *testing.T) {
			if name != oneACP {
				needsLong(t, "starts slowly; the tests of its provider follow what it stores")
			}
			t.Parallel()
			agent := realagents.Find(t, name)
			s := serve(t, agent)
			l := s.listen()
			prompt := play(fakemodel.Step{Text: "First, in the terminal.", Blocks: []fakemodel.Block{echoes(name)}}, fakemodel.Step{Text: "Second, in the terminal.", Hold: "one"})
			writer := term.start(s, agent, "", prompt)
			<-s.model.Gate("one").Reached()
			l.shows(func(c gateway.Conversation) bool {
				return c.CLIType == name && c.LastMessage == "First, in the terminal."
			})
			c := s.inUse()
			if c.CLIType != name || c.Writer.PID != 0 || c.Writer.Source != "recent" {
				t.Errorf("listed: %+v, %+v", c, c.Writer)
			}
			session := s.load(name + ":" + c.AgentSessionID)
			s.shows(session, "First, in the terminal.", writer)
			s.refused(session, map[string]any{"content": "text"}, 0)
			s.model.Gate("one").Open()
			if err := writer.Wait(); err != nil {
				t.Fatal(err)
			}
			s.shows(session, "Second, in the terminal.", writer)
			output := ""
			for _, u := range s.items(session) {
				if u.ToolCall != nil && u.ToolCall.ToolOutput != nil {
					output += *u.ToolCall.ToolOutput
				}
			}
			// On a busy machine, Qwen Code 0.24.4 may lose the output of a short
			// command, and then neither stores it nor gives it to the model.
			lost := slices.ContainsFunc(s.model.Requests(), func(r fakemodel.Request) bool { return bytes.Contains(r.Body, []byte("Output: (empty)")) })
			if !lost && !strings.Contains(output, "found") {
				t.Errorf("the output of the terminal's command is %q", output)
			}
			s.refused(session, map[string]any{"content": "text"}, 0)
			if code := s.call("POST", "/api/session/"+session+"/load", map[string]any{"takeOver": true}, nil); code != http.StatusOK {
				t.Fatalf("take over: %d", code)
			}
			s.settled(session)
			s.finds(session, "Second, in the terminal")
			s.equalsCopy(session, name+":"+c.AgentSessionID)
			d := &sse{s, session, s.lastSeq(session), make(map[string]string)}
			if got := d.turn(play(fakemodel.Step{Text: "Third, here."}), ignore); got.Status != "completed" {
				t.Fatalf("after the takeover: %+v", got)
			}
		})
	}
}
