package acp

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/internal/translate"
)

// statusWord matches a reason that begins with an HTTP status of the model API.
var statusWord = regexp.MustCompile(`^(?:API Error: )?([45][0-9][0-9])\b`)

// fault converts an error of the agent to a fault for users. The message ends
// with the agent's reason in one line.
func (a Agent) fault(e *jsonrpc.Error) event.Fault {
	name, why := a.conn().Name, reasonOf(e.Message)
	data := translate.DecodeLenient[struct {
		Kind    string `json:"errorKind"`
		Details string `json:"details"`
	}](e.Data)
	if details := reasonOf(data.Details); details != "" {
		why = details
	}
	kind, status := data.Kind, int(e.Code) // some agents use the HTTP status of the model API as code
	if m := statusWord.FindStringSubmatch(why); m != nil && status < http.StatusBadRequest {
		status, _ = strconv.Atoi(m[1]) // cannot fail: three digits
	}
	because := func(code runnel.Code, message string) event.Fault {
		if why != "" {
			message += " (" + why + ")"
		}
		return event.Fault{Code: string(code), Message: message}
	}
	switch {
	case e.Code == codeAuthRequired:
		return event.Fault{Code: string(runnel.AgentNotLoggedIn), Message: name + " is not logged in, or its login has expired." + a.howToLogIn()}
	case status == 401 || status == 403 || strings.HasPrefix(kind, "auth"):
		return because(runnel.InvalidAPIKey, "The model API refused the key or the login. Check it.")
	case kind == "rate_limit":
		return because(runnel.RateLimited, translate.FaultRateLimited)
	}
	if f, ok := translate.ByStatus(status); ok && status != http.StatusBadRequest { // for 400, the agent's reason says more
		return because(runnel.Code(f.Code), f.Message)
	}
	if why == "" {
		return event.Fault{Code: string(runnel.AgentError), Message: name + " ended the turn with an error and gave no reason. Send the prompt again."}
	}
	return event.Fault{Code: string(runnel.AgentError), Message: name + " ended the turn with an error: " + why}
}

// howToLogIn returns the last sentence of a message about a missing login.
func (a Agent) howToLogIn() string {
	if a.Login == "" {
		return ""
	}
	return " Run: " + a.Login
}

// reasonOf returns the reason in the text of an error, in one line. The text
// may be the JSON body of a model API's response.
func reasonOf(message string) string {
	message = strings.TrimSpace(message)
	for _, prefix := range []string{"Internal error: ", "Error: "} {
		message = strings.TrimPrefix(message, prefix)
	}
	if strings.HasPrefix(message, "{") {
		body := translate.DecodeLenient[struct {
			Message string          `json:"message"`
			Error   json.RawMessage `json:"error"`
		}]([]byte(message))
		inner := translate.DecodeLenient[struct {
			Message string `json:"message"`
		}](body.Error).Message
		switch {
		case inner != "":
			message = inner
		case body.Message != "":
			message = body.Message
		default:
			message = translate.DecodeLenient[string](body.Error)
		}
	}
	return text.OneLine(message, 300)
}
