package claude

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// What Claude Code does that its protocol would not make one expect. Each was
// seen on the wire of 2.1.197 or 2.1.329; the names in parentheses are the
// recordings in testdata that show it.

const (
	// syntheticModel is the model of messages that the agent wrote itself (api-500).
	syntheticModel = "<synthetic>"
	// noResponseRequested stands after a prompt that a crash left unanswered (resume-after-kill).
	noResponseRequested = "No response requested."
	// noContent is what a command printed that printed nothing, on 2.1.197 (clear).
	noContent = "(no content)"
)

// loginCommand is what a user runs to log in.
const loginCommand = "claude auth login"

// installCommand is what a user runs to have the agent.
const installCommand = "npm install -g @anthropic-ai/claude-code"

// retry takes the news that a request to the model failed and will be repeated.
//
// A refused key is repeated like an overloaded server, ten times in minutes
// (api-401). Nothing will come of it, so we end the turn and stop the agent.
// A login may renew itself once.
func (t *translator) retry(f frame) {
	status := 0
	if f.ErrorStatus != nil {
		status = *f.ErrorStatus
	}
	refused := status == 401 || f.Error == "authentication_failed"
	if tn := t.turn; refused && tn != nil && tn.started && !tn.ended && (t.keyed || f.Attempt > 1) {
		for _, th := range tn.threads {
			t.abandon(th, 0)
		}
		t.end(event.ResponseError{Error: apiFault(f.Error, status, t.keyed)})
		t.own++
		t.replies = append(t.replies, request{"control_request", "stop-" + strconv.Itoa(t.own), controlRequest{Subtype: "interrupt"}})
		return
	}
	why := "could not be reached"
	if status != 0 {
		why = fmt.Sprintf("answered %d", status)
	}
	t.notice(event.LevelWarning, "RETRYING", fmt.Sprintf(
		"The model API %s. Trying again in %.1f s (%d of %d).", why, f.RetryDelayMS/1000, f.Attempt, f.MaxRetries))
}

// outcome is the terminal event for a result. Its subtype says "success" for
// every failure of the model API (api-500): is_error decides.
func outcome(f frame, tn *turn, keyed bool, u *event.Usage) event.Body {
	if tn.interrupted && (f.IsError || strings.HasPrefix(f.TerminalReason, "aborted")) {
		return event.ResponseDone{Status: event.StatusCancelled, FinishReason: oneLine(f.TerminalReason, 100), Usage: u}
	}
	if !f.IsError {
		return event.ResponseDone{Status: event.StatusCompleted, FinishReason: oneLine(f.StopReason, 100), Usage: u}
	}
	status := 0
	if f.APIErrorStatus != nil {
		status = *f.APIErrorStatus
	}
	if f.StopReason == "refusal" {
		return event.ResponseError{Error: runnel.Fail(runnel.AgentError, "The model declined to answer. Put it in other words, start a new conversation, or choose another model.").Fault()}
	}
	switch f.Subtype {
	case "error_max_turns":
		return event.ResponseError{Error: runnel.Fail(runnel.AgentError, "The agent stopped: it made as many model calls as the options allow (maxTurns).").Fault()}
	case "error_max_budget_usd":
		return event.ResponseError{Error: runnel.Fail(runnel.AgentError, "The agent stopped: the budget is used up.").Fault()}
	case "error_during_execution":
		return event.ResponseError{Error: runnel.Fail(runnel.AgentError, "The agent gave the turn up. Send the prompt again.").Fault()}
	}
	if f.TerminalReason == "prompt_too_long" {
		return event.ResponseError{Error: runnel.Fail(runnel.AgentError, "The conversation is too long for the model. Start a new one or send /compact.").Fault()}
	}
	return event.ResponseError{Error: apiFault(tn.failure, status, keyed)}
}

// apiFault puts a failure of the model API into words of ours: the agent's own
// may hold anything that the API said. word is the agent's name for it; status
// is 0 if there was no answer.
func apiFault(word string, status int, keyed bool) event.Fault {
	fault := func(code runnel.Code, format string, args ...any) event.Fault {
		return event.Fault{Code: string(code), Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case word == "authentication_failed" && status == 0, (status == 401 || status == 403) && !keyed:
		return fault(runnel.AgentNotLoggedIn, "Claude Code is not logged in, or its login is no longer good. Run: %s", loginCommand)
	case status == 401 || status == 403 || word == "authentication_failed":
		return fault(runnel.InvalidAPIKey, "The model API refused the API key (%d). Check ANTHROPIC_API_KEY.", status)
	case status == 429 || word == "rate_limit":
		return fault(runnel.RateLimited, "The model API's rate or usage limit is reached. Wait, then send the prompt again.")
	case word == "billing_error":
		return fault(runnel.AgentError, "The model API refused for a reason of billing. Check the account's balance.")
	case status == 404 || word == "model_not_found":
		return fault(runnel.AgentError, "The model API does not know the model, or the account may not use it. Choose another model.")
	case status == 413:
		return fault(runnel.AgentError, "The request was too large for the model API. Send less, or start a new conversation.")
	case status == 529 || word == "overloaded":
		return fault(runnel.AgentError, "The model API is overloaded (%d). Send the prompt again in a moment.", status)
	case status >= 500:
		return fault(runnel.AgentError, "The model API failed (%d). Send the prompt again in a moment.", status)
	case status >= 400:
		return fault(runnel.AgentError, "The model API rejected the request (%d).", status)
	case word == "max_output_tokens":
		return fault(runnel.AgentError, "The model's answer is longer than it may be. Ask for less at once.")
	}
	return fault(runnel.AgentError, "The model API's answer broke off. Send the prompt again.")
}

// taskEnded announces a turn that nobody asked for (background).
const taskEnded = "A task in the background has ended."

// modeOf is our word for a permission mode; "" for one we do not have.
func modeOf(native string) string {
	switch native {
	case "default", "acceptEdits", "plan", "dontAsk":
		return native
	case "bypassPermissions":
		return string(runnel.ModeBypass)
	}
	return ""
}

// boundedTools keeps a list of tool names that can be shown.
func boundedTools(names []string) []string {
	var out []string
	for _, n := range names[:min(len(names), 500)] {
		out = append(out, oneLine(n, 200))
	}
	return out
}

func commands(in initialized) []event.AgentCommand {
	var out []event.AgentCommand
	for _, c := range in.Commands[:min(len(in.Commands), 500)] {
		out = append(out, event.AgentCommand{
			Name: oneLine(c.Name, 100), Description: oneLine(c.Description, 300), Hint: oneLine(c.ArgumentHint, 200),
		})
	}
	return out
}

func itoa(n int) string { return strconv.Itoa(n) }

// request is a control request of ours.
type request struct {
	Type      string         `json:"type"`
	RequestID string         `json:"request_id"`
	Request   controlRequest `json:"request"`
}
