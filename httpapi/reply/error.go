// Package reply reads JSON bodies and writes answers. Every error has the same
// form of body, and an HTTP status that follows from its code.
package reply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/text"
)

// statuses is the one table from error code to HTTP status. A code that is
// missing here is a defect, which a test finds; it is answered as 500.
var statuses = map[runnel.Code]int{
	runnel.InvalidRequest:          http.StatusBadRequest,
	runnel.UnsupportedCLIType:      http.StatusBadRequest,
	runnel.ProjectIDRequired:       http.StatusBadRequest,
	runnel.SessionCreateFailed:     http.StatusUnprocessableEntity,
	runnel.AttachmentFailure:       http.StatusBadRequest,
	runnel.UnsupportedCapability:   http.StatusBadRequest,
	runnel.Unauthorized:            http.StatusUnauthorized,
	runnel.Forbidden:               http.StatusForbidden,
	runnel.ForbiddenOrigin:         http.StatusForbidden,
	runnel.SessionNotFound:         http.StatusNotFound,
	runnel.PersonaNotFound:         http.StatusNotFound,
	runnel.WorkingRootInaccessible: http.StatusNotFound,
	runnel.WorkingRootConflict:     http.StatusConflict,
	runnel.TurnInProgress:          http.StatusConflict,
	runnel.BudgetExceeded:          http.StatusConflict,
	runnel.ConversationInUse:       http.StatusConflict,
	runnel.ApprovalGone:            http.StatusConflict,
	runnel.PromptGone:              http.StatusConflict,
	runnel.ChangesOutdated:         http.StatusConflict,
	runnel.GitFailed:               http.StatusConflict,
	runnel.SessionDead:             http.StatusConflict,
	runnel.PayloadTooLarge:         http.StatusRequestEntityTooLarge,
	runnel.ProtocolError:           http.StatusBadGateway,
	runnel.InvalidStreamEvent:      http.StatusBadGateway,
	runnel.ProcessCrash:            http.StatusBadGateway,
	runnel.InterruptFailed:         http.StatusBadGateway,
	runnel.AgentError:              http.StatusBadGateway,
	runnel.InvalidAPIKey:           http.StatusBadGateway, // the agent's key, not the caller's
	runnel.RateLimited:             http.StatusTooManyRequests,
	runnel.MissingAPIKey:           http.StatusServiceUnavailable,
	runnel.AgentNotInstalled:       http.StatusServiceUnavailable,
	runnel.AgentNotLoggedIn:        http.StatusServiceUnavailable,
	runnel.StoreUnavailable:        http.StatusServiceUnavailable,
	runnel.Overloaded:              http.StatusServiceUnavailable,
	runnel.AgentStalled:            http.StatusGatewayTimeout,
	runnel.Timeout:                 http.StatusGatewayTimeout,
	runnel.Internal:                http.StatusInternalServerError,
}

// A refusal is an error of the HTTP transport: an unknown route, method or
// media type, or an unreadable request. It has a status of its own, which does
// not follow from its code.
type refusal struct {
	status int
	err    *runnel.Error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// NewError returns an error of the transport with its status.
func NewError(status int, message string) error {
	return &refusal{status, runnel.Fail(runnel.InvalidRequest, message)}
}

// WithStatus is like [NewError], for an error that has details.
func WithStatus(status int, err *runnel.Error) error { return &refusal{status, err} }

// Status returns the HTTP status of err.
func Status(err error) int {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.status
	}
	if s, ok := statuses[runnel.CodeOf(err)]; ok {
		return s
	}
	return http.StatusInternalServerError
}

// StatusOf returns the HTTP status for errors with a code, or 0 if the code has
// none.
func StatusOf(code runnel.Code) int { return statuses[code] }

// A Problem describes an error, in the body of an answer and in WebSocket and
// SSE frames.
type Problem struct {
	Type    runnel.Code `json:"type" doc:"Stable code of the error."`
	Message string      `json:"message" doc:"What happened and what to do next, for people. It contains no secrets."`
	Details any         `json:"details,omitempty" doc:"Further facts about the error, such as the option that the agent rejected."`
}

// An ErrorBody is the JSON body of an error.
type ErrorBody struct {
	Error Problem `json:"error"`
}

// A Writer writes answers. Its methods may be called concurrently.
type Writer struct {
	Redact func(string) string // removes secrets from error messages
	Log    *slog.Logger
	Count  func(runnel.Code) // called with the code of each error that a client gets. Default: none
}

// Explain converts any error to what a client may see. It logs an internal
// error, such as one without a code, under an id, and returns only the id.
func (w Writer) Explain(ctx context.Context, err error) Problem {
	e := runnel.Safe(err)
	if w.Count != nil {
		w.Count(e.Code)
	}
	if e.Code != runnel.Internal {
		return Problem{e.Code, Bounded(w.Redact(e.Message)), e.Details}
	}
	id := uuid.NewString()
	w.Log.LogAttrs(ctx, slog.LevelError, "internal error", slog.String("errorId", id), slog.String("error", Bounded(err.Error())))
	return Hidden(id)
}

// Hidden returns the problem for an internal error that is logged under id.
func Hidden(id string) Problem {
	return Problem{runnel.Internal, "internal error; the server's log has the details under this id", map[string]string{"errorId": id}}
}

// Error answers r with err. If the request was abandoned, because its client
// has disconnected or the server stops, and err is only a consequence of that,
// it panics with [http.ErrAbortHandler]: without an answer, net/http would
// answer 200, and a client that still reads would take for done what was not.
func (w Writer) Error(to http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, io.ErrUnexpectedEOF)) {
		w.Log.LogAttrs(r.Context(), slog.LevelDebug, "a request was abandoned before its answer", slog.String("path", Bounded(r.URL.Path)))
		panic(http.ErrAbortHandler)
	}
	st := Status(err)
	if st == http.StatusTooManyRequests {
		to.Header().Set("Retry-After", "60")
	}
	if st == http.StatusUnauthorized {
		to.Header().Set("WWW-Authenticate", `Bearer realm="runnel"`)
	}
	problem := w.Explain(r.Context(), err)
	if JSON(to, st, ErrorBody{problem}) != nil { // the details cannot be encoded
		problem.Details = nil
		_ = JSON(to, st, ErrorBody{problem})
	}
}

// Timeout bounds the writing of an answer that is not a stream.
const Timeout = 30 * time.Second

// Empty is a body without fields.
type Empty struct{}

// JSON answers with body. It returns an error, and writes nothing, if body
// cannot be encoded.
func JSON(w http.ResponseWriter, status int, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	Raw(w, status, data)
	return nil
}

// Raw answers with data, which is JSON already.
func Raw(w http.ResponseWriter, status int, data json.RawMessage) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(Timeout))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)+1)) // so that a client can read a long list into one buffer
	w.WriteHeader(status)
	_, _ = w.Write(data) // an error means that the client has disconnected
	_, _ = io.WriteString(w, "\n")
}

// Codes returns all error codes that have a status, sorted.
func Codes() []runnel.Code { return slices.Sorted(maps.Keys(statuses)) }

// Statuses returns, for each code, the HTTP statuses that its errors may have.
func Statuses() map[runnel.Code][]int {
	out := make(map[runnel.Code][]int)
	for code, status := range statuses {
		out[code] = []int{status}
	}
	out[runnel.InvalidRequest] = append(out[runnel.InvalidRequest], transportStatuses()...)
	return out
}

// transportStatuses returns the statuses, other than 400, of requests that the
// transport rejects: with [NewError], or before they reach a handler.
func transportStatuses() []int {
	return []int{
		http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusRequestTimeout, http.StatusConflict, http.StatusRequestURITooLong, http.StatusUnsupportedMediaType,
		http.StatusUpgradeRequired, http.StatusRequestHeaderFieldsTooLarge, http.StatusNotImplemented, http.StatusHTTPVersionNotSupported,
	}
}

// Bounded shortens a message that is too long to show, at a rune boundary.
func Bounded(s string) string {
	return text.Shorten(s, 1<<10+len("…"))
}

// Invalid returns the error for a request that the client has to correct.
func Invalid(message string) error { return runnel.Fail(runnel.InvalidRequest, message) }
