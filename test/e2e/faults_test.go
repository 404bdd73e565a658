//go:build unix

package e2e

import (
	"fmt"
	"testing"

	"github.com/runnel-dev/runnel/internal/fakemodel"
	"github.com/runnel-dev/runnel/internal/realagents"
)

// TestFailuresOfTheModelAreClassifiedAlike has the model API reject the
// requests of real agents with several HTTP statuses. All agents must report
// the same error code for a status, except that claude-agent-acp reports a
// rejected key in the same way as a missing login.
//
// Gemini CLI and Qwen Code retry most failures for minutes; they get only the
// statuses that they do not retry. The test leaves out opencode, which does not
// report the status, and GitHub Copilot.
func TestFailuresOfTheModelAreClassifiedAlike(t *testing.T) {
	refused := map[int]string{401: "INVALID_API_KEY", 403: "INVALID_API_KEY", 404: "AGENT_ERROR"}
	adapter := map[int]string{401: "AGENT_NOT_LOGGED_IN", 403: "AGENT_NOT_LOGGED_IN", 404: "AGENT_ERROR"}
	failed := map[int]string{429: "RATE_LIMITED", 408: "TIMEOUT", 500: "AGENT_ERROR", 503: "AGENT_ERROR", 504: "TIMEOUT"}
	for agent, tries := range map[string][]map[int]string{
		"claude-code": {refused, failed}, "codex": {refused, failed}, "claude-agent-acp": {adapter, failed},
		"gemini": {refused}, "qwen": {refused},
	} {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			switch agent {
			case "claude-agent-acp":
				needsLong(t, "the same agent as claude-code behind an adapter")
			case "qwen":
				needsLong(t, "starts slowly; it gets the same statuses as Gemini CLI")
			}
			d := newSSE(serve(t, realagents.Find(t, agent)))
			for _, cases := range tries {
				for status, want := range cases {
					t.Run(fmt.Sprint(status), func(t *testing.T) {
						d := d.(*sse).on(t)
						refusal := fakemodel.Step{Fail: &fakemodel.Failure{Status: status, Type: "refused", Message: "No.", Times: 1000}}
						if out := d.turn(play(refusal), ignore); out.Status != want {
							t.Errorf("got %s, want %s", out.Status, want)
						}
					})
				}
			}
		})
	}
}
