package claude

import (
	"errors"
	"fmt"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/translate"
)

// This file maps the agent's failures to fixed messages. The agent's own
// messages are not shown, because they may contain any text of the model API or
// of a tool.

// resultFault returns the fault for a failed result. word is the agent's name
// for the failure.
func resultFault(f frame, word string, keyed bool) event.Fault {
	fault := func(message string) event.Fault { return runnel.Fail(runnel.AgentError, message).Fault() }
	switch {
	case f.StopReason == "refusal":
		return fault(translate.FaultDeclined)
	case f.Subtype == "error_max_turns":
		return fault("The agent stopped: it reached the limit of model calls (maxTurns).")
	case f.Subtype == "error_max_budget_usd":
		return fault(translate.FaultBudget)
	case f.Subtype == "error_during_execution":
		return fault("The agent aborted the turn. Send the prompt again.")
	case f.TerminalReason == "prompt_too_long":
		return fault("The conversation is too long for the model. Start a new one or send /compact.")
	}
	status := 0
	if f.APIErrorStatus != nil {
		status = *f.APIErrorStatus
	}
	return apiFault(word, status, keyed)
}

// apiFault returns the fault for a failure of the model API. word is the
// agent's name for the failure; status is 0 if the API did not answer.
func apiFault(word string, status int, keyed bool) event.Fault {
	switch {
	case word == "authentication_failed" && status == 0, (status == 401 || status == 403) && !keyed:
		return translate.Fault(runnel.AgentNotLoggedIn, "Claude Code is not logged in, or its login is no longer valid. Run: %s", loginCommand)
	case status == 401 || status == 403 || word == "authentication_failed":
		return translate.Fault(runnel.InvalidAPIKey, "The model API rejected the API key (%d). Check ANTHROPIC_API_KEY.", status)
	case word == "rate_limit":
		return translate.Fault(runnel.RateLimited, translate.FaultRateLimited)
	case word == "billing_error":
		return translate.Fault(runnel.AgentError, "The model API rejected the request because of billing. Check the account's balance.")
	case word == "model_not_found":
		return translate.Fault(runnel.AgentError, translate.FaultModel)
	case word == "overloaded":
		return translate.Fault(runnel.AgentError, "The model API is overloaded (%d). Send the prompt again in a moment.", status)
	case word == "max_output_tokens":
		return translate.Fault(runnel.AgentError, "The model's answer exceeds the maximum length. Ask for a shorter answer.")
	}
	if f, ok := translate.ByStatus(status); ok {
		return f
	}
	return translate.Fault(runnel.AgentError, translate.FaultBrokeOff)
}

// refused returns the error for a control request that the agent rejected
// during startup.
func refused(request string) error {
	switch request {
	case "mcp_set_servers":
		return runnel.Fail(runnel.InvalidRequest, "mcpServers: Claude Code does not accept them")
	}
	return runnel.Fail(runnel.ProtocolError, "This version of Claude Code does not support the protocol that Runnel needs. Update it: "+installCommand)
}

// startupFault returns the error for an agent that ended before it was ready.
// err is why no more lines can be read or written, and last the agent's last
// line. The error shows neither that line nor the agent's standard error.
func startupFault(err error, end agentconn.End, last frame) error {
	stderr := end.Stderr
	for _, e := range last.Errors {
		stderr += "\n" + e
	}
	cause := fmt.Errorf("claude: the agent ended before it was ready: %w", errors.Join(err, end.Err))
	for _, known := range []struct {
		words   string
		code    runnel.Code
		message string
	}{
		{"No conversation found", runnel.SessionNotFound, "Claude Code has no such conversation for this directory."},
		{"already in use", runnel.SessionCreateFailed, "The conversation is open in another Claude Code."},
		{"cannot be used with root", runnel.SessionCreateFailed, "Claude Code does not skip permissions for root. Run as another user, or set IS_SANDBOX=1 in a sandbox."},
		{"Please run /login", runnel.AgentNotLoggedIn, "Claude Code is not logged in. Run: " + loginCommand},
		{"Invalid API key", runnel.InvalidAPIKey, "The API key is not valid. Check ANTHROPIC_API_KEY."},
		{"unknown option", runnel.SessionCreateFailed, "This version of Claude Code lacks an option that Runnel needs. Update it: " + installCommand},
	} {
		if strings.Contains(stderr, known.words) {
			return runnel.Fail(known.code, known.message, cause)
		}
	}
	return runnel.Fail(runnel.SessionCreateFailed, end.Says("Claude Code")+". Try it in a terminal: claude --version", cause)
}
