package acp

import (
	"encoding/json"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// fault puts an error of the agent into words, with the agent's reason in one
// line.
func (a Agent) fault(e *jsonrpc.Error) event.Fault {
	name, why := a.conn().Name, reasonOf(e.Message)
	data := translate.Loose[struct {
		Kind    string `json:"errorKind"`
		Details string `json:"details"`
	}](e.Data)
	kind, status := data.Kind, ""
	if details := reasonOf(data.Details); details != "" {
		why = details
		status, _, _ = strings.Cut(details, " ") // of the model API's answer
	}
	because := func(code runnel.Code, message string) event.Fault {
		if why != "" {
			message += " (" + why + ")"
		}
		return event.Fault{Code: string(code), Message: message}
	}
	switch {
	case e.Code == codeAuthRequired:
		return event.Fault{Code: string(runnel.AgentNotLoggedIn), Message: name + " is not logged in, or its login is no longer good." + a.howToLogIn()}
	case e.Code == 401 || e.Code == 403 || status == "401" || status == "403" || strings.HasPrefix(kind, "auth"):
		return because(runnel.InvalidAPIKey, "The model API refused the key or the login. Check it.")
	case e.Code == 429 || status == "429" || kind == "rate_limit":
		return because(runnel.RateLimited, translate.FaultRateLimited)
	case why == "":
		return event.Fault{Code: string(runnel.AgentError), Message: name + " ended the turn with an error and gave no reason. Send the prompt again."}
	}
	return event.Fault{Code: string(runnel.AgentError), Message: name + " ended the turn with an error: " + why}
}

// howToLogIn is the end of a message about a missing login.
func (a Agent) howToLogIn() string {
	if a.Login == "" {
		return ""
	}
	return " Run: " + a.Login
}

// reasonOf finds the reason in the text of an error. The text may be the body
// of a model API's answer.
func reasonOf(message string) string {
	message = strings.TrimSpace(message)
	for _, prefix := range []string{"Internal error: ", "Error: "} {
		message = strings.TrimPrefix(message, prefix)
	}
	if strings.HasPrefix(message, "{") {
		body := translate.Loose[struct {
			Message string          `json:"message"`
			Error   json.RawMessage `json:"error"`
		}]([]byte(message))
		inner := translate.Loose[struct {
			Message string `json:"message"`
		}](body.Error).Message
		switch {
		case inner != "":
			message = inner
		case body.Message != "":
			message = body.Message
		default:
			message = translate.Loose[string](body.Error)
		}
	}
	return text.OneLine(message, 300)
}
