package claude

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/realagents"
	"github.com/runnel-dev/runnel/internal/testexec"
)

func TestThinkingBudgetComesFromOptionsOrEnvironment(t *testing.T) {
	for _, tt := range []struct {
		tokens int
		env    []string
		want   string
	}{
		{0, nil, ""}, {5000, nil, "5000"}, {5000, []string{"MAX_THINKING_TOKENS=9"}, "5000"},
		{0, []string{"A=1", "MAX_THINKING_TOKENS=9"}, "9"}, {0, []string{"MAX_THINKING_TOKENS=0"}, "0"},
		{0, []string{"MAX_THINKING_TOKENS=many"}, ""}, {0, []string{"MAX_THINKING_TOKENS=-1"}, ""},
	} {
		if got := thinkingBudget(runnel.Options{MaxThinkingTokens: tt.tokens}, tt.env); got != tt.want {
			t.Errorf("%d tokens, %q: %q, want %q", tt.tokens, tt.env, got, tt.want)
		}
		if data, err := json.Marshal(displayRequest("", tt.want)); err != nil || !strings.Contains(string(data), `"thinking_display":"summarized"`) {
			t.Errorf("%s, %v", data, err)
		}
	}
}

// Open fails only if the client requests a display. The program simulates a
// version of the agent that cannot change the display.
func TestOpenRejectsAThinkingDisplayThatTheAgentLacks(t *testing.T) {
	const program = `#!/bin/sh
while read -r line; do
	id=${line#*\"request_id\":\"}
	id=${id%%\"*}
	answer=success
	case $line in *set_max_thinking_tokens*) answer=error;; esac
	echo '{"type":"control_response","response":{"subtype":"'$answer'","request_id":"'"$id"'"}}'
done
`
	path := filepath.Join(t.TempDir(), "claude")
	if err := testexec.Write(path, program); err != nil {
		t.Fatal(err)
	}
	for display, want := range map[runnel.ThinkingDisplay]runnel.Code{"": "", runnel.ThinkingOmitted: runnel.UnsupportedCapability} {
		s, err := runnel.Open(t.Context(), New(), runnel.Options{Path: path, Dir: t.TempDir(), ThinkingDisplay: display}, runnel.Config{})
		if runnel.CodeOf(err) != want {
			t.Errorf("%q: got %v, want %q", display, err, want)
		}
		if err == nil {
			_ = s.Close()
		}
	}
}

// requestedDisplay returns the display of reasoning in the last request that
// the model got.
func (r *rig) requestedDisplay() string {
	for _, q := range slices.Backward(r.Model.Requests()) {
		var body struct{ Thinking *struct{ Display string } }
		if q.Method == "POST" && json.Unmarshal(q.Body, &body) == nil && body.Thinking != nil {
			return body.Thinking.Display
		}
	}
	return ""
}

// Reasoning is shown as summaries by default. Both versions can change the
// display and the tools while they run.
func TestThinkingDisplayAndToolsChangeInARunningSession(t *testing.T) {
	for _, b := range realagents.UsualClaude(t) {
		t.Run(b.Version, func(t *testing.T) {
			r := newRig(t, b)
			r.Opt.AddDirs = []string{t.TempDir()}
			turn := func() (denied bool) {
				r.Play(calls(bash("echo done", "Say")), says("ok"))
				for _, it := range items(r.Finish(allowOnce)) {
					if f, ok := it.Final.(event.FunctionCallOutput); ok {
						denied = denied || f.IsError
					}
				}
				return denied
			}
			if denied := turn(); denied || r.requestedDisplay() != "summarized" {
				t.Errorf("by default reasoning is %q; denied %v", r.requestedDisplay(), denied)
			}
			c := r.Conn.(*conn)
			set := func(d runnel.ThinkingDisplay, tools ...string) {
				if err := c.SetThinkingDisplay(t.Context(), d); err != nil {
					t.Fatal(err)
				}
				if err := c.SetDisallowedTools(t.Context(), tools); err != nil {
					t.Fatal(err)
				}
			}
			set(runnel.ThinkingOmitted, "Bash")
			if denied := turn(); !denied || r.requestedDisplay() == "summarized" {
				t.Errorf("when changed reasoning is %q; denied %v", r.requestedDisplay(), denied)
			}
			set(runnel.ThinkingSummarized)
			if denied := turn(); denied || r.requestedDisplay() != "summarized" {
				t.Errorf("when restored reasoning is %q; denied %v", r.requestedDisplay(), denied)
			}
		})
	}
}
