// Package reply writes what a client gets back: JSON bodies, and every error as
// one body whose HTTP status follows from its code. It reads JSON bodies, too.
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
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/text"
)

// statuses is the one table from code to HTTP status. A code that is not in it
// is a defect, which a test finds, and answers as 500.
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
	runnel.ApprovalGone:            http.StatusConflict,
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

// refusal is what the transport itself refuses, before any code of the product
// applies: no such route, method or media type, an unreadable request.
type refusal struct {
	status int
	err    *runnel.Error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// Refuse is an error of the transport, with its status.
func Refuse(status int, message string) error {
	return &refusal{status, runnel.Fail(runnel.InvalidRequest, message)}
}

// Refused is [Refuse] for an error that has details.
func Refused(status int, err *runnel.Error) error { return &refusal{status, err} }

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

// StatusOf returns the HTTP status of errors of a code.
func StatusOf(code runnel.Code) int { return statuses[code] }

// A Problem is the one error body, also inside WebSocket and SSE frames.
type Problem struct {
	Type    runnel.Code `json:"type" doc:"code of the error; stable"`
	Message string      `json:"message" doc:"safe to show; says what to do next"`
	Details any         `json:"details,omitempty"`
}

// An ErrorBody is the JSON body of an error.
type ErrorBody struct {
	Error Problem `json:"error"`
}

// A Writer writes answers. Its methods may be called concurrently.
type Writer struct {
	Redact func(string) string // takes secrets out of the messages of errors
	Log    *slog.Logger
	Count  func(runnel.Code) // is called with the code of each error that a client gets. Default: none
}

// Explain turns any error into what may leave the process. It logs an error
// without a code under an id, and returns only the id.
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

// Hidden is the problem of an internal error that is in the log under id.
func Hidden(id string) Problem {
	return Problem{runnel.Internal, "internal error; the server's log has the details under this id", map[string]string{"errorId": id}}
}

// Error answers r with err. A client that has gone gets no answer, and what its
// going made fail is no error of ours.
func (w Writer) Error(to http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, io.ErrUnexpectedEOF)) {
		w.Log.LogAttrs(r.Context(), slog.LevelDebug, "the client went before its answer", slog.String("path", Bounded(r.URL.Path)))
		return
	}
	st := Status(err)
	if st == http.StatusTooManyRequests {
		to.Header().Set("Retry-After", "60")
	}
	if st == http.StatusUnauthorized {
		to.Header().Set("WWW-Authenticate", `Bearer realm="runnel"`)
	}
	problem := w.Explain(r.Context(), err)
	if JSON(to, st, ErrorBody{problem}) != nil { // its details cannot be encoded
		problem.Details = nil
		_ = JSON(to, st, ErrorBody{problem})
	}
}

// Timeout bounds the writing of an answer that is no stream.
const Timeout = 30 * time.Second

// Empty is the body of an answer that has nothing more to say.
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

// Raw answers with a body that is JSON already.
func Raw(w http.ResponseWriter, status int, data json.RawMessage) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(Timeout))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(slices.Clip(data), '\n')) // a caller that has gone does not need it
}

// Codes returns every code of an error that has a status.
func Codes() []runnel.Code { return slices.Sorted(maps.Keys(statuses)) }

// Statuses returns the HTTP statuses with which errors of each code are
// answered.
func Statuses() map[runnel.Code][]int {
	out := make(map[runnel.Code][]int)
	for code, status := range statuses {
		out[code] = []int{status}
	}
	out[runnel.InvalidRequest] = append(out[runnel.InvalidRequest], transportStatuses()...)
	return out
}

// transportStatuses returns the statuses beside 400 of what the transport
// rejects: with [Refuse], and before a request reaches a handler.
func transportStatuses() []int {
	return []int{
		http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusRequestTimeout, http.StatusConflict, http.StatusRequestURITooLong, http.StatusUnsupportedMediaType,
		http.StatusUpgradeRequired, http.StatusRequestHeaderFieldsTooLarge, http.StatusNotImplemented, http.StatusHTTPVersionNotSupported,
	}
}

// Bounded cuts a message that is too long to show, on a rune boundary.
func Bounded(s string) string {
	return text.Shorten(s, 1<<10+len("…"))
}

// Invalid is the error for a request that the client has to change.
func Invalid(message string) error { return runnel.Fail(runnel.InvalidRequest, message) }
