package runnel_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/script"
)

// forgetful is an agent that cannot resume a conversation.
type forgetful struct {
	script.Provider
	resumes []string
}

func (f *forgetful) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	f.resumes = append(f.resumes, opt.Resume)
	if opt.Resume != "" {
		return nil, runnel.Fail(runnel.UnsupportedCapability, "cannot resume")
	}
	return f.Provider.Open(ctx, opt)
}

// If the agent has exited and cannot resume, the session starts a new
// conversation and logs a notice.
func TestAgentThatCannotResumeStartsNewConversation(t *testing.T) {
	p, log := &forgetful{Provider: script.Provider{Script: script.Script{Steps: []script.Step{say}}}}, new(runnel.Memory)
	s, err := runnel.Open(t.Context(), p, runnel.Options{}, runnel.Config{ID: "s", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wait := func() runnel.Result {
		t.Helper()
		res, err := send(t, s).Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	wait()
	first := s.Status().AgentSessionID
	if err := s.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res := wait(); res.Status != event.StatusCompleted {
		t.Errorf("%+v", res)
	}
	if st := s.Status(); first == "" || st.AgentSessionID == first {
		t.Errorf("the conversation was %q and is %q", first, st.AgentSessionID)
	}
	if !slices.Equal(p.resumes, []string{"", first, ""}) {
		t.Errorf("resumed %q", p.resumes)
	}
	got := trace(t, log, "s")
	if strings.Count(got, "CONVERSATION_FORGOTTEN") != 1 || strings.Index(got, "CONVERSATION_FORGOTTEN") < strings.Index(got, "response_done") {
		t.Errorf("the log says\n%s", got)
	}
}

// lossy is an agent that stores a conversation only when a turn of it completes.
type lossy struct {
	script.Provider
	resumes []string
	stored  bool // what a resumed agent finds
}

func (l *lossy) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	l.resumes = append(l.resumes, opt.Resume)
	if opt.Resume != "" && !l.stored {
		return nil, runnel.Fail(runnel.SessionNotFound, "no such conversation")
	}
	return l.Provider.Open(ctx, opt)
}

// Some agents name a conversation before they store it. If such an agent is
// killed in its first turn, the session starts a new conversation instead of
// failing for ever, also after a restart of the server.
func TestSessionStartsANewConversationIfTheAgentDidNotStoreTheFirst(t *testing.T) {
	crash := `{"steps":[{"crash":true}]}`
	for _, restarts := range []bool{false, true} {
		p, log := &lossy{}, new(runnel.Memory)
		s, err := runnel.Open(t.Context(), p, runnel.Options{}, runnel.Config{ID: "s", Log: log})
		if err != nil {
			t.Fatal(err)
		}
		run := func(text string) (runnel.Result, error) {
			t.Helper()
			turn, err := s.Send(t.Context(), runnel.Text(text))
			if err != nil {
				t.Fatal(err)
			}
			return turn.Wait(t.Context())
		}
		if _, err := run(crash); runnel.CodeOf(err) != runnel.ProcessCrash {
			t.Fatal(err)
		}
		first := s.Status().AgentSessionID
		if restarts {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err = runnel.Open(t.Context(), p, runnel.Options{Resume: first}, runnel.Config{ID: "s", Log: log, Dormant: true}); err != nil {
				t.Fatal(err)
			}
		}
		defer s.Close()
		if res, err := run(`{"steps":[{"text":"hello"}]}`); err != nil || res.Status != event.StatusCompleted {
			t.Errorf("restarts %v: the prompt after the crash: %+v, %v", restarts, res, err)
		}
		if !slices.Equal(p.resumes, []string{"", first, ""}) || first == "" {
			t.Errorf("restarts %v: resumed %q", restarts, p.resumes)
		}
		if got := trace(t, log, "s"); strings.Count(got, "CONVERSATION_FORGOTTEN") != 1 {
			t.Errorf("restarts %v: the log says\n%s", restarts, got)
		}
		// After a completed turn, a missing conversation is an error.
		if err := s.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := run(`{"steps":[{"text":"again"}]}`); runnel.CodeOf(err) != runnel.SessionNotFound {
			t.Errorf("restarts %v: the conversation is gone: %v", restarts, err)
		}
	}
}

// A conversation that a client names, and that no agent has confirmed, must
// exist.
func TestUnknownConversationStaysAnError(t *testing.T) {
	p, log := &lossy{}, new(runnel.Memory)
	s, err := runnel.Open(t.Context(), p, runnel.Options{Resume: "other"}, runnel.Config{ID: "s", Log: log, Dormant: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 2 {
		turn, err := s.Send(t.Context(), runnel.Text("text"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := turn.Wait(t.Context()); runnel.CodeOf(err) != runnel.SessionNotFound {
			t.Errorf("got %v", err)
		}
	}
}
