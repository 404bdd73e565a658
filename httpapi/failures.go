package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/httpapi/command"
)

// codes returns the errors with which a request to the route may be answered:
// those of every route, those that follow from the route's fields, and fails.
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

// refusals returns the statuses with which the transport rejects a request to
// the route as INVALID_REQUEST, beside 400.
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

// repeats reports whether a client may send a request to the route again, under
// its Idempotency-Key.
func (rt *route) repeats() bool {
	return slices.ContainsFunc(rt.params, func(p param) bool { return p.name == command.KeyHeader })
}

// sessionFails are the errors of a route that names a session, which may be a
// conversation that an agent keeps.
func sessionFails(more ...runnel.Code) []runnel.Code {
	return append(more,
		runnel.SessionNotFound, runnel.UnsupportedCLIType, runnel.UnsupportedCapability, runnel.WorkingRootInaccessible, runnel.WorkingRootConflict)
}

// agentFails are the errors of a route that may start an agent, and more.
func agentFails(more ...runnel.Code) []runnel.Code {
	return append(more,
		runnel.UnsupportedCapability, runnel.WorkingRootInaccessible, runnel.WorkingRootConflict, runnel.SessionDead, runnel.PersonaNotFound,
		runnel.SessionCreateFailed, runnel.AgentError, runnel.ProcessCrash, runnel.ProtocolError, runnel.InvalidAPIKey,
		runnel.MissingAPIKey, runnel.AgentNotInstalled, runnel.AgentNotLoggedIn, runnel.Overloaded, runnel.Timeout)
}

// promptFails are the errors of a route that takes a prompt.
func promptFails(more ...runnel.Code) []runnel.Code {
	return agentFails(append(more, runnel.TurnInProgress, runnel.AttachmentFailure)...)
}
