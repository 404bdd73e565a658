// Package jsonrpc implements JSON-RPC as agents use it: the codec, and the
// state of one side of a connection.
//
// It has no goroutine and no connection. The owner of a connection decodes
// received lines with [Decode] and encodes its own messages with [Encode]. It
// passes both to a [Peer] in their order on the connection. A recording of both
// directions therefore gives the same results as the live connection.
package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Codes of errors.
const (
	CodeInvalidRequest   = -32600
	CodeMethodNotFound   = -32601
	CodeInvalidParams    = -32602
	CodeInternal         = -32603
	CodeOverloaded       = -32000 // Runnel's own code: too many requests are open
	CodeRequestCancelled = -32800
)

// cancelMethod is the method of the notification that withdraws a request. Its
// parameters are {"requestId": …}.
const cancelMethod = "$/cancel_request"

// Bounds of a message that Decode accepts, in bytes.
const (
	maxID     = 1 << 10
	maxMethod = 256
)

// ErrMalformed is the error of [Decode] for a line that is not a message. It
// does not contain the line.
var ErrMalformed = errors.New("jsonrpc: not a message")

// ID is the id of a request: a number, which may be 0, or a string. The zero
// value means that there is no id.
//
// An id is sent back exactly as it was received. Compare ids with [ID.Same]: 1
// and 1.0 are the same number.
type ID struct{ raw string }

// Number returns the id n.
func Number(n int64) ID { return ID{strconv.FormatInt(n, 10)} }

// String returns the id s.
func String(s string) ID {
	raw, err := marshal(s)
	if err != nil {
		return ID{} // unreachable: a string can always be encoded
	}
	return ID{string(raw)}
}

// IsZero reports whether the id is missing.
func (id ID) IsZero() bool { return id.raw == "" }

// Same reports whether two ids are the same string or the same number.
func (id ID) Same(other ID) bool { return id.Key() == other.Key() }

// Key returns a text that is equal for two ids if and only if they are the
// same. It returns "" for a missing id.
func (id ID) Key() string {
	if id.raw == "" {
		return ""
	}
	if s, ok := id.Text(); ok {
		if strings.ContainsRune(s, utf8.RuneError) { // all invalid UTF-8 decodes to this rune
			return "r" + id.raw
		}
		return "s" + s
	}
	if n, ok := id.Int(); ok {
		return "n" + strconv.FormatInt(n, 10)
	}
	return "n" + id.raw
}

// Text returns the text of an id that is a string.
func (id ID) Text() (string, bool) {
	if id.raw == "" || id.raw[0] != '"' {
		return "", false
	}
	var s string
	err := json.Unmarshal([]byte(id.raw), &s)
	return s, err == nil
}

// Int returns the value of an id that is a whole number.
func (id ID) Int() (int64, bool) {
	if n, err := strconv.ParseInt(id.raw, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(id.raw, 64)
	const exact = 1 << 53
	if err != nil || f != float64(int64(f)) || f > exact || f < -exact {
		return 0, false
	}
	return int64(f), true
}

// MarshalJSON implements [json.Marshaler].
func (id ID) MarshalJSON() ([]byte, error) {
	if id.raw == "" {
		return []byte("null"), nil
	}
	return []byte(id.raw), nil
}

// UnmarshalJSON implements [json.Unmarshaler]. null becomes the zero value.
func (id *ID) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0 || len(data) > maxID:
		return ErrMalformed
	case bytes.Equal(data, []byte("null")):
		*id = ID{}
	case data[0] == '"' || data[0] == '-' || '0' <= data[0] && data[0] <= '9':
		*id = ID{string(data)}
	default:
		return ErrMalformed
	}
	return nil
}

// Error is the error in a response. Message and Data come from the other side
// and may contain secrets, so the Error method omits them.
type Error struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string { return fmt.Sprintf("jsonrpc: error %d", e.Code) }

// Message is a request (with a method and an id), a notification (with a method
// only) or a response (without a method).
type Message struct {
	ID     ID
	Method string
	Params json.RawMessage // nil if there are none
	Result json.RawMessage // of a successful response
	Error  *Error          // of a failed response
}

// Kind is the kind of a message.
type Kind int

// The kinds of messages.
const (
	Notification Kind = iota
	Request
	Response
)

// Kind returns the kind of m.
func (m Message) Kind() Kind {
	switch {
	case m.Method == "":
		return Response
	case m.ID.IsZero():
		return Notification
	}
	return Request
}

// NewRequest returns a request.
func NewRequest(id ID, method string, params any) (Message, error) {
	m, err := NewNotification(method, params)
	m.ID = id
	return m, err
}

// NewNotification returns a notification. It has no params if params is nil.
func NewNotification(method string, params any) (Message, error) {
	m := Message{Method: method}
	if params == nil {
		return m, nil
	}
	var err error
	m.Params, err = marshal(params)
	return m, err
}

// NewResult returns a response with a result.
func NewResult(id ID, result any) (Message, error) {
	raw, err := marshal(result)
	return Message{ID: id, Result: raw}, err
}

// NewFailure returns a response with an error.
func NewFailure(id ID, code int64, text string) Message {
	return Message{ID: id, Error: &Error{Code: code, Message: text}}
}

// envelope is the form of a message on the wire.
type envelope struct {
	Version string          `json:"jsonrpc,omitempty"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  json.RawMessage `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// Decode decodes one message. It is lenient: it ignores unknown members, the
// version may be missing, and an error may have any form. It returns
// ErrMalformed for a line that is not a message.
//
// Params and Result are the bytes as received. They do not share memory with
// line.
func Decode(line []byte) (Message, error) {
	var e envelope
	if err := json.Unmarshal(line, &e); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok || e.ID == nil && e.Method == nil {
			return Message{}, ErrMalformed
		}
	}
	m := Message{Params: present(e.Params)}
	if present(e.ID) != nil && m.ID.UnmarshalJSON(e.ID) != nil {
		return Message{}, ErrMalformed
	}
	if raw := present(e.Method); raw != nil {
		if json.Unmarshal(raw, &m.Method) != nil || m.Method == "" || len(m.Method) > maxMethod {
			return Message{}, ErrMalformed
		}
		return m, nil
	}
	m.Params = nil
	if raw := present(e.Error); raw != nil {
		m.Error = decodeError(raw)
	} else {
		m.Result = e.Result
	}
	if m.ID.IsZero() && m.Error == nil {
		return Message{}, ErrMalformed
	}
	return m, nil
}

// present returns a member, or nil if it is absent or null.
func present(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return nil
	}
	return raw
}

func decodeError(raw json.RawMessage) *Error {
	var loose struct {
		Code    json.RawMessage `json:"code"`
		Message json.RawMessage `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	e := &Error{}
	if json.Unmarshal(raw, &loose) != nil { // usually a string
		if json.Unmarshal(raw, &e.Message) != nil {
			e.Data = raw
		}
		return e
	}
	if n, ok := (ID{string(bytes.Trim(loose.Code, `"`))}).Int(); ok {
		e.Code = n
	}
	if len(loose.Message) > 0 && json.Unmarshal(loose.Message, &e.Message) != nil {
		e.Message = ""
	}
	e.Data = present(loose.Data)
	return e
}

// Encode returns m as one line, without the line ending. If version is true,
// the line has the member "jsonrpc", which some agents omit.
func Encode(m Message, version bool) ([]byte, error) {
	var e envelope
	var err error
	if version {
		e.Version = "2.0"
	}
	if !m.ID.IsZero() {
		e.ID = json.RawMessage(m.ID.raw)
	}
	switch {
	case m.Method != "":
		if e.Method, err = marshal(m.Method); err != nil {
			return nil, err
		}
		e.Params = m.Params
	case m.Error != nil:
		if e.Error, err = marshal(m.Error); err != nil {
			return nil, err
		}
		if e.ID == nil {
			e.ID = json.RawMessage("null")
		}
	case m.ID.IsZero():
		return nil, errors.New("jsonrpc: neither an id nor a method")
	default:
		if e.Result = m.Result; len(e.Result) == 0 {
			e.Result = json.RawMessage("null")
		}
	}
	return marshal(e)
}

// marshal encodes v on one line, without escapes for HTML.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}
