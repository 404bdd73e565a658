package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/httpapi/command"
)

// codes returns the codes of the errors that a request to the route may get:
// those of every route, those that follow from the route's other fields, and
// fails.
func (rt *route) codes() []runnel.Code {
	out := []runnel.Code{runnel.InvalidRequest, runnel.ForbiddenOrigin, runnel.Internal}
	if rt.scope != "" {
		out = append(out, runnel.Unauthorized, runnel.Forbidden, runnel.RateLimited, runnel.StoreUnavailable)
	}
	if rt.method == http.MethodPost {
		out = append(out, runnel.PayloadTooLarge)
	}
	if strings.Contains(rt.path, "/session/{id}") {
		out = append(out, sessionFails()...)
	}
	if rt.repeats() {
		out = append(out, runnel.Timeout)
	}
	out = append(out, rt.fails...)
	slices.Sort(out)
	return slices.Compact(out)
}

// refusals returns the statuses, other than 400, with which the transport
// rejects a request to the route as INVALID_REQUEST.
func (rt *route) refusals() (out []int) {
	if rt.method == http.MethodPost {
		out = append(out, http.StatusRequestTimeout, http.StatusUnsupportedMediaType)
	}
	if strings.Contains(rt.path, "{") && !strings.Contains(rt.path, "/session/{id}") {
		out = append(out, http.StatusNotFound)
	}
	if rt.repeats() {
		out = append(out, http.StatusConflict)
	}
	return append(out, rt.refused...)
}

// repeats reports whether the route takes an Idempotency-Key, so that a client
// may send a request again.
func (rt *route) repeats() bool {
	return slices.ContainsFunc(rt.params, func(p param) bool { return p.name == command.KeyHeader })
}

// sessionFails adds the errors of a route that names a session to the codes in
// more. The session may be a conversation that only the agent has stored so
// far.
func sessionFails(more ...runnel.Code) []runnel.Code {
	return append(more,
		runnel.SessionNotFound, runnel.UnsupportedCLIType, runnel.UnsupportedCapability, runnel.WorkingRootInaccessible, runnel.WorkingRootConflict)
}

// agentFails adds the errors of a route that may start an agent to the codes in
// more.
func agentFails(more ...runnel.Code) []runnel.Code {
	return append(more,
		runnel.UnsupportedCapability, runnel.WorkingRootInaccessible, runnel.WorkingRootConflict, runnel.SessionDead, runnel.PersonaNotFound,
		runnel.SessionCreateFailed, runnel.AgentError, runnel.ProcessCrash, runnel.ProtocolError, runnel.InvalidAPIKey,
		runnel.MissingAPIKey, runnel.AgentNotInstalled, runnel.AgentNotLoggedIn, runnel.Overloaded, runnel.Timeout)
}

// promptFails adds the errors of a route that takes a prompt to the codes in
// more.
func promptFails(more ...runnel.Code) []runnel.Code {
	return agentFails(append(more, runnel.TurnInProgress, runnel.BudgetExceeded, runnel.ConversationInUse, runnel.AttachmentFailure)...)
}
