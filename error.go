package runnel

import (
	"encoding/json"
	"errors"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// A Code is the kind of an error. Codes are part of the wire protocol.
type Code string

// The codes.
const (
	InvalidRequest          Code = "INVALID_REQUEST"
	UnsupportedCLIType      Code = "UNSUPPORTED_CLI_TYPE"
	ProjectIDRequired       Code = "PROJECT_ID_REQUIRED"
	SessionCreateFailed     Code = "SESSION_CREATE_FAILED"
	AttachmentFailure       Code = "ATTACHMENT_FAILURE"
	UnsupportedCapability   Code = "UNSUPPORTED_CAPABILITY"
	Unauthorized            Code = "UNAUTHORIZED"
	Forbidden               Code = "FORBIDDEN"
	ForbiddenOrigin         Code = "FORBIDDEN_ORIGIN"
	SessionNotFound         Code = "SESSION_NOT_FOUND"
	PersonaNotFound         Code = "PERSONA_NOT_FOUND"
	WorkingRootInaccessible Code = "WORKING_ROOT_INACCESSIBLE"
	WorkingRootConflict     Code = "WORKING_ROOT_CONFLICT"
	TurnInProgress          Code = "TURN_IN_PROGRESS"
	BudgetExceeded          Code = "BUDGET_EXCEEDED"
	ConversationInUse       Code = "CONVERSATION_IN_USE"
	ApprovalGone            Code = "APPROVAL_GONE"
	PromptGone              Code = "PROMPT_GONE"
	ChangesOutdated         Code = "CHANGES_OUTDATED"
	GitFailed               Code = "GIT_FAILED"
	SessionDead             Code = "SESSION_DEAD"
	PayloadTooLarge         Code = "PAYLOAD_TOO_LARGE"
	ProtocolError           Code = "PROTOCOL_ERROR"
	InvalidStreamEvent      Code = "INVALID_STREAM_EVENT"
	ProcessCrash            Code = "PROCESS_CRASH"
	InterruptFailed         Code = "INTERRUPT_FAILED"
	AgentError              Code = "AGENT_ERROR"
	InvalidAPIKey           Code = "INVALID_API_KEY"
	RateLimited             Code = "RATE_LIMITED"
	MissingAPIKey           Code = "MISSING_API_KEY"
	AgentNotInstalled       Code = "AGENT_NOT_INSTALLED"
	AgentNotLoggedIn        Code = "AGENT_NOT_LOGGED_IN"
	AgentStalled            Code = "AGENT_STALLED"
	Timeout                 Code = "TIMEOUT"
	StoreUnavailable        Code = "STORE_UNAVAILABLE"
	Overloaded              Code = "OVERLOADED"
	Internal                Code = "INTERNAL"
)

// Error is the type of all errors that this module returns. Message is safe to
// show to users and states what to do. Err is the cause; it is for operators
// and is never sent to clients.
type Error struct {
	Code    Code
	Message string
	Details any // optional, safe to show, encodes as JSON
	Err     error
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap returns the cause of e.
func (e *Error) Unwrap() error { return e.Err }

// Fail returns an *Error with a message that is safe to show and optional
// causes, which need not be safe to show.
func Fail(code Code, message string, cause ...error) *Error {
	return &Error{Code: code, Message: message, Err: errors.Join(cause...)}
}

// CodeOf returns the code of err; Internal if it has none, "" if err is nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return Safe(err).Code
}

// Safe returns err as an *Error. An error without a code becomes Internal with
// a fixed message, because its own text may contain secrets.
func Safe(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if errors.Is(err, store.ErrInvalidEvent) { // its text is safe to show
		return Fail(InvalidStreamEvent, err.Error(), err)
	}
	return &Error{Code: Internal, Message: "internal error; the server's log has the details", Err: err}
}

// Fault returns e in the form in which events contain errors.
func (e *Error) Fault() event.Fault {
	code := e.Code
	if code == "" {
		code = Internal
	}
	f := event.Fault{Code: string(code), Message: e.Message}
	if details, err := json.Marshal(e.Details); err == nil && len(details) <= event.MaxFaultDetails && details[0] == '{' {
		f.Details = details
	}
	return f
}
