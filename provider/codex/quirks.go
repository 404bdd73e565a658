package codex

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
)

// What Codex does that its protocol would not make one expect, and what its
// words mean. Each was seen on the wire of 0.169.0; the names in parentheses are
// the recordings in testdata that show it.

// loginCommand is what a user runs to log in.
const loginCommand = "codex login"

// installCommand is what a user runs to have the agent.
const installCommand = "npm install -g @openai/codex"

// errorKind is what went wrong, in the agent's word, and what the API answered.
type errorKind struct {
	word   string
	status int // of HTTP; 0: there was no answer, or it is not told
}

// errorInfo reads codexErrorInfo: a word, or an object with one word that holds
// more.
func errorInfo(e turnError) (k errorKind) {
	if json.Unmarshal(e.Info, &k.word) == nil {
		return k
	}
	for word, more := range loose[map[string]struct {
		Status int `json:"httpStatusCode"`
	}](e.Info) {
		k.word, k.status = word, more.Status
	}
	return k
}

// outcome is the terminal event for a turn.
func outcome(tn *nativeTurn, interrupted bool, u *event.Usage) event.Body {
	switch tn.Status {
	case "interrupted":
		if !interrupted {
			return event.ResponseError{Error: runnel.Fail(runnel.AgentError, "The agent stopped before it was done. Send the prompt again.").Fault()}
		}
		return event.ResponseDone{Status: event.StatusCancelled, FinishReason: "interrupted", Usage: u}
	case "failed":
		if interrupted {
			return event.ResponseDone{Status: event.StatusCancelled, FinishReason: "interrupted", Usage: u}
		}
		e := tn.Error
		if e == nil {
			e = &turnError{}
		}
		return event.ResponseError{Error: fault(*e)}
	}
	return event.ResponseDone{Status: event.StatusCompleted, FinishReason: "completed", Usage: u}
}

// fault puts a failure into words of ours, which say what to do. Where we do not
// know that, the agent's own are added.
func fault(e turnError) event.Fault {
	say := func(code runnel.Code, format string, args ...any) event.Fault {
		return event.Fault{Code: string(code), Message: fmt.Sprintf(format, args...)}
	}
	k := errorInfo(e)
	switch k.word {
	case "contextWindowExceeded":
		return say(runnel.AgentError, "The conversation is too long for the model. Start a new one.")
	case "sessionBudgetExceeded":
		return say(runnel.AgentError, "The agent stopped: the budget is used up.")
	case "usageLimitExceeded", "rateLimitExceeded":
		return say(runnel.RateLimited, "The model API's rate or usage limit is reached. Wait, then send the prompt again.")
	case "serverOverloaded", "flexUnavailable", "policyCapacityUnavailable":
		return say(runnel.AgentError, "The model API is overloaded. Send the prompt again in a moment.")
	case "modelNotFound":
		return say(runnel.AgentError, "The model API does not know the model, or the account may not use it. Choose another model.")
	case "cyberPolicy", "misalignmentPolicyViolation", "inferenceHookDenied":
		return say(runnel.AgentError, "The model declined to answer. Put it in other words, start a new conversation, or choose another model.")
	case "tooManyDenials":
		return say(runnel.AgentError, "The agent stopped: too much of what it wanted to do was denied.")
	case "sandboxError":
		return say(runnel.AgentError, "Codex's sandbox failed. See its documentation for what the sandbox needs on this system.")
	case "unauthorized":
		k.status = 401
	case "internalServerError":
		return say(runnel.AgentError, "The model API failed (%d). Send the prompt again in a moment.", max(k.status, 500))
	case "badRequest":
		k.status = max(k.status, 400)
	}
	switch {
	case k.status == 401 || k.status == 403:
		return say(runnel.InvalidAPIKey, "The model API refused the API key or the login (%d). Check the key, or run: %s", k.status, loginCommand)
	case k.status == 429:
		return say(runnel.RateLimited, "The model API's rate or usage limit is reached. Wait, then send the prompt again.")
	case k.status >= 500:
		return say(runnel.AgentError, "The model API failed (%d). Send the prompt again in a moment.", k.status)
	case k.status >= 400:
		return say(runnel.AgentError, "The model API rejected the request (%d)%s", k.status, because(e))
	case strings.HasPrefix(e.Message, "Missing environment variable"):
		return say(runnel.MissingAPIKey, "The key of Codex's model provider is not set: see env_key in its configuration.")
	case strings.HasPrefix(e.Message, "stream disconnected"), k.word == "responseStreamDisconnected", k.word == "responseStreamConnectionFailed":
		return say(runnel.AgentError, "The model API's answer broke off. Send the prompt again.")
	case strings.HasPrefix(e.Message, "Incomplete response"):
		return say(runnel.AgentError, "The model's answer was cut short.")
	case k.word == "other" && strings.HasPrefix(e.Message, "{"), strings.Contains(e.Message, "status 400"):
		return say(runnel.AgentError, "The model API rejected the request%s", because(e))
	}
	return say(runnel.AgentError, "The agent gave the turn up%s", because(e))
}

// because is the agent's reason, as the end of a sentence. It may be the body of
// the API's answer.
func because(e turnError) string {
	body := loose[struct {
		Message string `json:"message"`
		Detail  string `json:"detail"`
		Error   struct {
			Message string `json:"message"`
		} `json:"error"`
	}]([]byte(e.Message))
	why := oneLine(cmp.Or(body.Error.Message, body.Message, body.Detail, e.Message), 300)
	if why == "" || strings.HasPrefix(why, "{") {
		return ". Send the prompt again, or start a new conversation."
	}
	return ": " + why
}

// refused is what a prompt's failure means that never became a turn.
func refused(e *jsonrpc.Error) event.Fault {
	if strings.Contains(e.Message, "overloaded") {
		return runnel.Fail(runnel.AgentError, "Codex is overloaded. Send the prompt again in a moment.").Fault()
	}
	return runnel.Fail(runnel.AgentError, "Codex did not accept the prompt. Send it again, or start a new conversation.").Fault()
}

// warned takes a warning. One about a file of the configuration means that codex
// goes on as if there were none: with another provider of models, and with
// other rules, than the user wants.
func (t *translator) warned(method string, n note) {
	if method == "configWarning" && n.Path != "" {
		t.fatal = n.Path
		if n.Range.Start.Line > 0 {
			t.fatal = fmt.Sprintf("%s, line %d", n.Path, n.Range.Start.Line)
		}
	}
	text := oneLine(n.Message+n.Summary, 500)
	if text == "" || strings.HasPrefix(text, "Codex could not find bubblewrap") { // it has one of its own
		return
	}
	if method == "warning" && t.warnings[text] {
		return // as a rule what configWarning said before
	}
	if len(t.warnings) < 100 {
		t.warnings[text] = true
	}
	t.notice(event.LevelWarning, "AGENT_SAYS", text)
}

func clip(s string, max int) string {
	s, _ = cut(s, max)
	return s
}

func keys[V any](m map[string]V) []string { return slices.Collect(maps.Keys(m)) }

func sorted(ids []string) []string {
	slices.Sort(ids)
	return ids
}
