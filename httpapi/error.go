package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

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

func refuse(status int, message string) error {
	return &refusal{status, runnel.Fail(runnel.InvalidRequest, message)}
}

func status(err error) int {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.status
	}
	if s, ok := statuses[runnel.CodeOf(err)]; ok {
		return s
	}
	return http.StatusInternalServerError
}

// problem is the one error body, also inside WebSocket and SSE frames.
type problem struct {
	Type    runnel.Code `json:"type" doc:"code of the error; stable"`
	Message string      `json:"message" doc:"safe to show; says what to do next"`
	Details any         `json:"details,omitempty"`
}

type errorBody struct {
	Error problem `json:"error"`
}

// explain turns any error into what may leave the process. What has no code is
// logged under an id, and only the id is told.
func (s *Server) explain(ctx context.Context, err error) problem {
	if e, ok := errors.AsType[*runnel.Error](err); ok && e.Code != runnel.Internal {
		return problem{e.Code, bounded(s.cfg.Redact(e.Message)), e.Details}
	}
	id := newID()
	s.log.LogAttrs(ctx, slog.LevelError, "internal error", slog.String("errorId", id), slog.String("error", bounded(err.Error())))
	return problem{runnel.Internal, "internal error; the server's log has the details under this id", map[string]string{"errorId": id}}
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	st := status(err)
	if st == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "60")
	}
	if st == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="runnel"`)
	}
	s.answer(w, st, errorBody{s.explain(r.Context(), err)})
}

func (s *Server) answer(w http.ResponseWriter, status int, body any) {
	data, err := json.Marshal(body)
	if err != nil { // our own types always encode
		panic(err)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n')) // a caller that has gone does not need it
}

// bounded cuts a message that is too long to show, on a rune boundary.
func bounded(s string) string {
	return text.Shorten(s, 1<<10+len("…"))
}
