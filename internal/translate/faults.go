package translate

import (
	"fmt"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// Messages of failures that several agents report. Each states what happened
// and what to do.
const (
	// FaultRateLimited is the message for a rate or usage limit of the model
	// API.
	FaultRateLimited = "The model API's rate or usage limit is reached. Wait, then send the prompt again."

	// FaultDeclined is the message for a refusal by the model.
	FaultDeclined = "The model declined to answer. Put it in other words, start a new conversation, or choose another model."

	// FaultModel is the message for a model that the model API does not offer
	// to the account.
	FaultModel = "The model API does not know the model, or the account may not use it. Choose another model."

	// FaultFailed is the message for an error of the model API. It takes the
	// HTTP status.
	FaultFailed = "The model API failed (%d). Send the prompt again in a moment."

	// FaultUnasked is the message for a turn that the agent interrupted by
	// itself. A live session uses the same text.
	FaultUnasked = "the agent stopped the turn although nobody asked it to; send the prompt again"

	// FaultTimedOut is the message for a timeout of the model API. It takes the
	// HTTP status.
	FaultTimedOut = "The model API did not answer in time (%d). Send the prompt again."

	// FaultBrokeOff is the message for an incomplete response of the model API.
	FaultBrokeOff = "The model API's answer broke off. Send the prompt again."

	// FaultKilled is the message for a stored turn during which the agent was
	// killed. A live session uses the same text.
	FaultKilled = "the agent ended in the middle of the turn; send again to resume the conversation"

	// FaultBudget is the message for a conversation that has used up its
	// budget.
	FaultBudget = "The agent stopped: the budget is used up."
)

// Fault returns a failure with a code and a message, which is formatted as by
// [fmt.Sprintf].
func Fault(code runnel.Code, format string, args ...any) event.Fault {
	return event.Fault{Code: string(code), Message: fmt.Sprintf(format, args...)}
}

// ByStatus returns the failure for an HTTP status of the model API. It is the
// same for all agents. ByStatus reports false for a status that is not an
// error. It also reports false for 401 and 403, which concern the API key or
// the login depending on the agent.
func ByStatus(status int) (event.Fault, bool) {
	fault := func(code runnel.Code, format string, args ...any) (event.Fault, bool) {
		return Fault(code, format, args...), true
	}
	switch {
	case status < 400 || status == 401 || status == 403:
		return event.Fault{}, false
	case status == 404:
		return fault(runnel.AgentError, FaultModel)
	case status == 408, status == 504:
		return fault(runnel.Timeout, FaultTimedOut, status)
	case status == 413:
		return fault(runnel.AgentError, "The request was too large for the model API. Send less, or start a new conversation.")
	case status == 429:
		return fault(runnel.RateLimited, FaultRateLimited)
	case status == 529:
		return fault(runnel.AgentError, "The model API is overloaded (%d). Send the prompt again in a moment.", status)
	case status >= 500:
		return fault(runnel.AgentError, FaultFailed, status)
	}
	return fault(runnel.AgentError, "The model API rejected the request (%d).", status)
}

// TextLost is the error for a turn whose final text is unknown because the
// agent's messages contradict each other.
var TextLost = event.Fault{
	Code: "PROTOCOL_ERROR", Message: "The agent's messages contradict each other, so its answer is not known. Send the prompt again.",
}
