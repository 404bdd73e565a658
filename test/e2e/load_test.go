//go:build unix

package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/upsert"
)

// A terminal describes how a user runs an agent's own program without runnel.
// The program reads one prompt from standard input, for a new or an existing
// conversation.
type terminal struct {
	program   string   // name of the agent that the program belongs to
	begins    []string // arguments of a first prompt; continues returns what a later prompt adds
	continues func(id string) []string
	id        *regexp.Regexp // finds the conversation's id in the program's output
	long      bool           // takes a minute: only with RUNNEL_LONG=1
	unknown   bool           // the agent does not tell whether the terminal has ended, so the user takes its conversation over
}

// terminals has the terminals by the agent that loads their conversations.
var terminals = map[string]terminal{
	"claude-code": claudeTerminal, "claude-agent-acp": claudeTerminal, "codex": codexTerminal,
	"opencode": {
		program:   "opencode",
		begins:    []string{"run", "--format", "json"},
		continues: func(id string) []string { return []string{"--session", id} },
		id:        regexp.MustCompile(`"sessionID":"([^"]+)"`),
		long:      true,
		unknown:   true,
	},
}

var codexTerminal = terminal{
	program:   "codex",
	begins:    []string{"exec", "--skip-git-repo-check", "--json"},
	continues: func(id string) []string { return []string{"resume", id, "-"} },
	id:        regexp.MustCompile(`"thread_id":"([^"]+)"`),
}

var claudeTerminal = terminal{
	program:   "claude-code",
	begins:    []string{"-p", "--output-format", "json"},
	continues: func(id string) []string { return []string{"--resume", id} },
	id:        regexp.MustCompile(`"session_id":"([^"]+)"`),
}

// prompt runs a prompt in the terminal and returns the conversation's id. id is
// the conversation to continue; "" begins a new one.
func (term terminal) prompt(s *server, agent realagents.Binary, id, text string) string {
	s.t.Helper()
	argv := slices.Clone(term.begins)
	if id != "" {
		argv = append(argv, term.continues(id)...)
	}
	cmd := exec.CommandContext(s.t.Context(), agent.Path, argv...)
	cmd.Dir, cmd.Env, cmd.Stdin = s.home.Project, s.env, strings.NewReader(text)
	out, err := cmd.Output()
	found := term.id.FindSubmatch(out)
	if err != nil || found == nil {
		s.t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return string(found[1])
}

// TestLoadAgainAddsWhatWasSaidInATerminal continues a conversation alternately
// in a terminal and in runnel, and loads it after each step. Each load must add
// what was said in the terminal and change nothing else.
func TestLoadAgainAddsWhatWasSaidInATerminal(t *testing.T) {
	for name, term := range terminals {
		t.Run(name, func(t *testing.T) {
			if (term.long || name == "claude-agent-acp") && os.Getenv("RUNNEL_LONG") == "" {
				t.Skip("takes half a minute or more: RUNNEL_LONG=1")
			}
			t.Parallel()
			s, agent := serve(t, realagents.Find(t, name)), realagents.Find(t, term.program)
			said := func(text string) string { return play(fakemodel.Step{Text: text}) }
			id := term.prompt(s, agent, "", said("First, in the terminal."))
			session := s.load(name + ":" + id)
			var before []upsert.Upsert
			grown := func(what string, texts ...string) {
				t.Helper()
				after := s.items(session)
				if len(after) < len(before) {
					t.Fatalf("%s: %d items were %d", what, len(after), len(before))
				}
				if d := cmp.Diff(before, after[:len(before)], cmpopts.IgnoreFields(upsert.Upsert{}, "EmittedAt"), cmpopts.EquateEmpty()); d != "" {
					t.Errorf("%s: what was there has changed:\n%s", what, d)
				}
				var got []string
				for _, u := range after[len(before):] {
					if m := u.Message; m != nil && m.Origin == "agent" {
						got = append(got, m.Content)
					}
				}
				if !slices.Equal(got, texts) {
					t.Errorf("%s: added %q, want %q", what, got, texts)
				}
				before = after
			}
			grown("loaded", "First, in the terminal.")

			term.prompt(s, agent, id, said("Second, in the terminal."))
			s.load(session)
			grown("loaded again", "Second, in the terminal.")
			s.load(session)
			grown("loaded a third time")

			takeOver := func() {
				t.Helper()
				if !term.unknown {
					return
				}
				if code := s.call("POST", "/api/session/"+session+"/load", map[string]any{"takeOver": true}, nil); code != http.StatusOK {
					t.Fatalf("take over: %d", code)
				}
			}
			takeOver()
			d := &sse{s, session, s.lastSeq(session), make(map[string]string)}
			if got := d.turn(said("Third, here."), ignore); got.Status != "completed" {
				t.Fatalf("%+v", got)
			}
			grown("a turn of ours", "Third, here.")
			s.load(session)
			grown("loaded after it")

			s.restart()
			s.load(session)
			grown("loaded after a restart")
			term.prompt(s, agent, id, said("Fourth, in the terminal."))
			s.load(name + ":" + id)
			grown("loaded by the agent's id", "Fourth, in the terminal.")
			takeOver()
			d.after = s.lastSeq(session)
			if got := d.turn(said("Fifth, here."), ignore); got.Status != "completed" {
				t.Fatalf("%+v", got)
			}
			grown("another turn of ours", "Fifth, here.")
			if reqs := s.model.Requests(); len(reqs) > 0 && !bytes.Contains(reqs[len(reqs)-1].Body, []byte("Fourth, in the terminal.")) {
				t.Error("the agent does not know what was said in the terminal")
			}
		})
	}
}

// load loads a session and returns its id.
func (s *server) load(ref string) string {
	s.t.Helper()
	var got struct {
		SessionID string
		Error     any
	}
	if code := s.call("POST", "/api/session/"+ref+"/load", map[string]any{}, &got); code != http.StatusOK {
		s.t.Fatalf("load: %d %v", code, got.Error)
	}
	return got.SessionID
}

// lastSeq returns the seq of a session's newest event.
func (s *server) lastSeq(session string) string {
	s.t.Helper()
	var got struct{ LastSeq json.Number }
	if code := s.call("GET", "/api/session/"+session+"/status", nil, &got); code != http.StatusOK {
		s.t.Fatalf("status: %d", code)
	}
	return got.LastSeq.String()
}

// items returns the items of a session as upserts.
func (s *server) items(session string) (all []upsert.Upsert) {
	s.t.Helper()
	var page struct {
		Items []frame
		More  bool
	}
	if code := s.call("GET", "/api/session/"+session+"/items?limit=1000", nil, &page); code != http.StatusOK || page.More {
		s.t.Fatalf("items: %d, more %v", code, page.More)
	}
	for _, f := range page.Items {
		var u upsert.Upsert
		if f.Type == "session:upsert" && json.Unmarshal(f.Payload, &u) == nil {
			all = append(all, u)
		}
	}
	return all
}
