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
