package acp

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// eachOf runs a test with these agents, in parallel with other such tests.
func eachOf(t *testing.T, names []string, test func(t *testing.T, r *rig)) {
	t.Parallel()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newRig(t, name))
		})
	}
}

// TestProbe checks what Probe reports about installed agents.
func TestProbe(t *testing.T) {
	eachOf(t, realagents.Usually("codex-acp", "copilot"), func(t *testing.T, r *rig) {
		in := r.Provider.(runnel.Prober).Probe(t.Context())
		if !in.Installed || in.Version != r.Agent.Version || in.Problem != "" || !filepath.IsAbs(in.Path) {
			t.Errorf("%+v", in)
		}
		if a := known(t, r.Agent.Name); a.Gated != (in.LoggedIn != nil && *in.LoggedIn) || a.Probes && (len(in.Models) == 0 || len(in.Config) == 0) {
			t.Errorf("logged in %v, models %v, options %v", in.LoggedIn, in.Models, in.Config)
		}
	})
}

func TestProbeOfNothing(t *testing.T) {
	in := New(Agent{Name: "gone", DisplayName: "Gone", Command: []string{"/nonexistent/gone"}, Install: "make gone"}).(runnel.Prober).Probe(t.Context())
	if in.Installed || !strings.Contains(in.Problem, "make gone") {
		t.Errorf("%+v", in)
	}
	in = New(Agent{Name: "mute", Command: []string{"true"}}).(runnel.Prober).Probe(t.Context())
	if in.Installed || in.Problem == "" {
		t.Errorf("%+v", in)
	}
}

// TestNotLoggedIn checks the error for an agent that is not logged in. It must
// name the command that logs in.
func TestNotLoggedIn(t *testing.T) {
	b := realagents.Find(t, "copilot")
	home := realagents.NewHome(t, "http://127.0.0.1:1")
	env := slices.DeleteFunc(home.EnvironFor("copilot"), func(e string) bool {
		return strings.HasPrefix(e, "COPILOT_PROVIDER") || strings.HasPrefix(e, "COPILOT_OFFLINE")
	})
	p := New(known(t, "copilot")).(runnel.Programmable).WithProgram(append([]string{b.Path}, b.Args...), env)
	_, err := p.Open(t.Context(), runnel.Options{Dir: home.Project})
	if runnel.CodeOf(err) != runnel.AgentNotLoggedIn || !strings.Contains(err.Error(), "copilot login") {
		t.Error(err)
	}
}

// TestFoundAndForked lists a stored conversation of an agent, and continues a
// fork of it. Forks of opencode are also in a recording. With RUNNEL_LONG=1,
// TestStoredTextHasTheItemsOfTheAgentsReplay lists its conversations.
func TestFoundAndForked(t *testing.T) {
	forking := []string{"codex-acp"}
	if os.Getenv("RUNNEL_LONG") != "" {
		forking = append(forking, "claude-agent-acp", "opencode")
	}
	eachOf(t, forking, func(t *testing.T, r *rig) {
		r.plays(says("One."))
		r.Finish("")
		id := r.Conn.(*conn).tr.session.id
		r.Close()
		r.lists(id, "One.")
		opt := r.Opt
		opt.Resume = id
		c, err := r.Provider.(runnel.Forker).Fork(t.Context(), opt)
		if err != nil {
			t.Fatal(err)
		}
		r.Takes(c)
		if fork := c.(*conn).tr.session.id; fork == id || fork == "" {
			t.Errorf("the copy of %s is %s", id, fork)
		}
		r.plays(says("Two."))
		if evs := r.Finish(""); !strings.Contains(dump(evs), "Two.") {
			t.Error(dump(evs))
		}
		if last := r.Model.Requests(); !bytes.Contains(last[len(last)-1].Body, []byte("One.")) && !slices.ContainsFunc(last, func(q fakemodel.Request) bool {
			return bytes.Contains(q.Body, []byte("One.")) && bytes.Contains(q.Body, []byte("Two."))
		}) {
			t.Error("the copy does not know what was said before")
		}
	})
}

// lists fails the test unless the agent lists exactly the conversation with this
// id. If Runnel also reads the agent's own files, they must have the same
// conversation, with this last message.
func (r *rig) lists(id, message string) {
	r.T.Helper()
	var found []runnel.Conversation
	for c, err := range r.Provider.(runnel.Discoverer).Discover(r.T.Context(), r.Home.Project) {
		if err != nil {
			r.T.Fatal(err)
		}
		found = append(found, c)
	}
	if len(found) != 1 || found[0].AgentSessionID != id || found[0].Dir != r.Home.Project || found[0].UpdatedAt.IsZero() {
		r.T.Fatalf("found %+v", found)
	}
	if _, reads := r.Provider.(runnel.Summarizer); !reads {
		return
	}
	got := summaries(r.T, r.Provider)
	if len(got) != 1 || got[0].AgentSessionID != id || got[0].Dir != r.Home.Project || got[0].Title != found[0].Title || got[0].LastMessage != message || !got[0].UpdatedAt.Equal(found[0].UpdatedAt) {
		r.T.Errorf("the agent lists %+v, its database has %+v", found, got)
	}
}

// TestResumeOfNothing resumes a conversation that does not exist. Open must
// fail with SessionNotFound. TestErrorsOfUnknownConversations has the errors of
// the agents that start slowly.
func TestResumeOfNothing(t *testing.T) {
	eachOf(t, realagents.Usually("codex-acp", "copilot"), func(t *testing.T, r *rig) {
		r.Opt.Resume = "00000000-0000-7000-8000-000000000000"
		if r.Agent.Name == "opencode" {
			r.Opt.Resume = "ses_000000000000000000000000"
		}
		c, err := r.Provider.Open(t.Context(), r.Opt)
		if err == nil {
			c.Close()
		}
		if runnel.CodeOf(err) != runnel.SessionNotFound {
			t.Errorf("%v", err)
		}
	})
}

// TestAnyAgent runs an agent of which Runnel knows only the command.
func TestAnyAgent(t *testing.T) {
	r := newRig(t, "gemini")
	b := realagents.Find(t, "gemini")
	r.Provider = New(Agent{Name: "mine", Command: append([]string{b.Path}, b.Args...), Env: r.Home.EnvironFor("gemini")})
	r.Opt.Env = nil
	r.plays(says("At your service."))
	evs := r.Finish("")
	if !strings.Contains(dump(evs), "At your service.") || len(bodies[event.ResponseDone](evs)) != 1 {
		t.Error(dump(evs))
	}
	if caps := runnel.Capabilities(r.Provider); slices.Contains(caps, runnel.CapSessionResume) || slices.Contains(caps, runnel.CapSessionFork) {
		t.Errorf("claims %v", caps)
	}
}
