package codex

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/translate"
)

// errorKind is the agent's name of an error, and the HTTP status of the model
// API.
type errorKind struct {
	word   string
	status int // 0 if unknown
}

// errorInfo decodes codexErrorInfo. It is a name, or an object whose only key
// is the name.
func errorInfo(e turnError) (k errorKind) {
	if json.Unmarshal(e.Info, &k.word) == nil {
		return k
	}
	for word, more := range translate.DecodeLenient[map[string]struct {
		Status int `json:"httpStatusCode"`
	}](e.Info) {
		k.word, k.status = word, more.Status
	}
	return k
}

// fault returns the error that users see for a failed turn. It adds the agent's
// message if the failure is unknown.
func fault(e turnError) event.Fault {
	k := errorInfo(e)
	switch k.word {
	case "contextWindowExceeded":
		return translate.Fault(runnel.AgentError, "The conversation is too long for the model. Start a new one.")
	case "sessionBudgetExceeded":
		return translate.Fault(runnel.AgentError, translate.FaultBudget)
	case "usageLimitExceeded", "rateLimitExceeded":
		return translate.Fault(runnel.RateLimited, translate.FaultRateLimited)
	case "serverOverloaded", "flexUnavailable", "policyCapacityUnavailable":
		return translate.Fault(runnel.AgentError, "The model API is overloaded. Send the prompt again in a moment.")
	case "modelNotFound":
		return translate.Fault(runnel.AgentError, translate.FaultModel)
	case "cyberPolicy", "misalignmentPolicyViolation", "inferenceHookDenied":
		return translate.Fault(runnel.AgentError, translate.FaultDeclined)
	case "tooManyDenials":
		return translate.Fault(runnel.AgentError, "The agent stopped: too much of what it wanted to do was denied.")
	case "sandboxError":
		return translate.Fault(runnel.AgentError, "Codex's sandbox failed. See its documentation for what the sandbox needs on this system.")
	case "unauthorized":
		k.status = 401
	case "internalServerError":
		return translate.Fault(runnel.AgentError, translate.FaultFailed, max(k.status, 500))
	case "badRequest":
		k.status = max(k.status, 400)
	}
	if f, ok := translate.ByStatus(k.status); ok && k.status != http.StatusBadRequest { // the agent gives more details for 400
		return f
	}
	switch {
	case k.status == 401 || k.status == 403:
		return translate.Fault(runnel.InvalidAPIKey, "The model API refused the API key or the login (%d). Check the key, or run: %s", k.status, loginCommand)
	case k.status == http.StatusBadRequest:
		return translate.Fault(runnel.AgentError, "The model API rejected the request (%d)%s", k.status, because(e))
	case strings.HasPrefix(e.Message, "Missing environment variable"):
		return translate.Fault(runnel.MissingAPIKey, "The key of Codex's model provider is not set: see env_key in its configuration.")
	case strings.HasPrefix(e.Message, "stream disconnected"), k.word == "responseStreamDisconnected", k.word == "responseStreamConnectionFailed":
		return translate.Fault(runnel.AgentError, translate.FaultBrokeOff)
	case strings.HasPrefix(e.Message, "Incomplete response"):
		return translate.Fault(runnel.AgentError, "The model's answer was cut short.")
	case k.word == "other" && strings.HasPrefix(e.Message, "{"), strings.Contains(e.Message, "status 400"):
		return translate.Fault(runnel.AgentError, "The model API rejected the request%s", because(e))
	}
	return translate.Fault(runnel.AgentError, "The agent ended the turn with an error%s", because(e))
}

// because returns the agent's reason as the end of a sentence. The agent's
// message may be the body of the model API's response.
func because(e turnError) string {
	body := translate.DecodeLenient[struct {
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

// rejected returns the error for a prompt that the agent rejected.
func rejected(e *jsonrpc.Error) event.Fault {
	if strings.Contains(e.Message, "overloaded") {
		return runnel.Fail(runnel.AgentError, "Codex is overloaded. Send the prompt again in a moment.").Fault()
	}
	return runnel.Fail(runnel.AgentError, "Codex did not accept the prompt. Send it again, or start a new conversation.").Fault()
}
