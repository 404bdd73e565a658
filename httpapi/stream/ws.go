package stream

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/browser"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/internal/strictjson"
)

// The families of messages. A connection speaks one of them for its life.
const (
	FamilyUpsert = "upsert-v1"
	FamilyEvents = "events-v1"
)

// Families returns the families of messages, the usual default first.
func Families() []string { return []string{FamilyUpsert, FamilyEvents} }

// The codes with which we close a WebSocket. All but the first let the client
// connect again and resume by seq.
const (
	closeBadRequest websocket.StatusCode = 4400 // the client sent an unknown frame or family
	closeCredential websocket.StatusCode = 4401 // the credential has ended
	closeStalled    websocket.StatusCode = 4408 // the client did not read in time
	closeTooLarge   websocket.StatusCode = 4413
	closeStore      websocket.StatusCode = 4503 // events cannot be read or recorded
	closeShutdown                        = websocket.StatusGoingAway
)

const (
	Subprotocol       = "runnel.v1"      // that clients of the WebSocket offer
	maxMessage        = 1 << 20          // bytes of a client's message
	pingEvery         = 30 * time.Second // detects a client that vanished
	pongStalls        = 8                // times WriteStall: a slow client has to read what was sent before the ping
	pingsAllowed      = 100              // of a client, in a second
	subscriptionsEach = 256              // per connection
)

// A socket is one WebSocket connection. The handler's goroutine reads from it.
// Each subscription has a pump, and there is a pinger and at most one watcher;
// the handler waits for all of them. A pump reads the log when it can write:
// for a slow client only the message being written waits in memory.
type socket struct {
	s    *Streams
	conn *websocket.Conn
	id   auth.Identity
	req  *http.Request // of the upgrade
	ctx  context.Context
	end  context.CancelCauseFunc
	work sync.WaitGroup

	turn chan struct{} // taken by the one pump that reads the log and writes

	mu    sync.Mutex       // held to change pumps, and by other goroutines to read it
	pumps map[string]*pump // by session

	// The rest belongs to the reading goroutine.
	family  string // "" until the first message
	closed  func() // counts the connection out of its family
	count   func() // counts a message of the family
	watcher *watcher
	wrote   atomic.Bool // since the last ping was due
	pings   int         // of the client, since the time below
	since   time.Time
}

// WebSocket upgrades a request that the chain has let through, and serves it.
func (s *Streams) WebSocket(w http.ResponseWriter, r *http.Request) error {
	id := access.Caller(r.Context())
	leave, err := s.reserve(r)
	if err != nil {
		return err
	}
	defer leave()
	k := &socket{s: s, id: id, req: r, turn: make(chan struct{}, 1), pumps: make(map[string]*pump)}
	upgrade := &handshake{ResponseWriter: w, meter: &meter{most: s.cfg.Limits.Fragments, failed: func(err error) { k.end(err) }}}
	conn, err := websocket.Accept(upgrade, r, &websocket.AcceptOptions{
		Subprotocols:       []string{Subprotocol},
		InsecureSkipVerify: true, // the chain has judged the Origin, more strictly
		CompressionMode:    websocket.CompressionDisabled,
		OnPingReceived:     k.pinged,
	})
	if upgrade.status != 0 {
		return reply.Refuse(upgrade.status, "this path takes only the opening of a WebSocket; "+strings.TrimSpace(string(upgrade.why)))
	}
	if err != nil {
		return nil // the connection broke while it was upgraded
	}
	conn.SetReadLimit(-1) // read has its own, with a code of its own
	bound, unbind := s.cfg.Keyring.Bind(context.WithoutCancel(r.Context()), id)
	defer unbind()
	k.conn = conn
	k.ctx, k.end = context.WithCancelCause(bound)
	unhook := context.AfterFunc(s.ctx, func() { k.end(errShutdown) })
	closing := make(chan struct{})
	stop := context.AfterFunc(k.ctx, func() {
		defer close(closing)
		k.close(context.Cause(k.ctx))
	})
	k.work.Go(k.ping)
	k.end(k.read())
	unhook()
	k.work.Wait()
	if !stop() {
		<-closing
	}
	if k.closed != nil {
		k.closed()
	}
	if errors.Is(context.Cause(k.ctx), errStalled) {
		s.cfg.Metrics.Stalled()
	}
	return nil
}

// How long a client has to answer a close: hostileTime if its credential has
// ended, or if it sends too much.
const (
	closeTime   = 3 * time.Second
	hostileTime = 500 * time.Millisecond
)

// close ends the connection with the code for cause. It cuts off a client that
// does not answer in time.
func (k *socket) close(cause error) {
	patience := closeTime
	if errors.Is(cause, auth.ErrEnded) || errors.Is(cause, errFragments) {
		patience = hostileTime
	}
	timer := time.AfterFunc(patience, func() { browser.Cut(k.req) })
	defer timer.Stop()
	if errors.Is(cause, errShutdown) {
		ctx, done := context.WithTimeout(context.Background(), goodbyeTime)
		k.goodbye(ctx)
		done()
	}
	code, why := closeCode(cause)
	_ = k.conn.Close(code, why)
}

// Why the server ends a connection.
var (
	errBroken    = errors.New("httpapi: the session's events cannot be read")
	errBadFamily = errors.New("httpapi: unknown family")
	errProtocol  = errors.New("httpapi: not the WebSocket protocol")
	errGone      = errors.New("httpapi: the client has gone")
	errBadFrame  = errors.New("httpapi: not a message")
	errStalled   = errors.New("httpapi: the client does not read")
	errTooLarge  = errors.New("httpapi: message too large")
	errStore     = errors.New("httpapi: the store has failed")
	errFlood     = errors.New("httpapi: too many pings")
	errUnread    = errors.New("httpapi: too much that clients do not read")
	errFragments = errors.New("httpapi: too many small fragments")
)

func closeCode(cause error) (websocket.StatusCode, string) {
	switch {
	case errors.Is(cause, auth.ErrEnded):
		return closeCredential, "the credential has ended"
	case errors.Is(cause, errShutdown):
		return closeShutdown, "the server is going down; resume by seq"
	case errors.Is(cause, errStalled):
		return closeStalled, "nothing was read for too long; resume by seq"
	case errors.Is(cause, errBadFamily):
		return closeBadRequest, "unknown family"
	case errors.Is(cause, errBadFrame):
		return closeBadRequest, "messages are JSON text"
	case errors.Is(cause, errTooLarge):
		return closeTooLarge, "the message is too large"
	case errors.Is(cause, errFlood):
		return websocket.StatusPolicyViolation, "too many pings"
	case errors.Is(cause, errFragments):
		return websocket.StatusPolicyViolation, "too many small fragments in a second (max-fragments)"
	case errors.Is(cause, errUTF8):
		return websocket.StatusInvalidFramePayloadData, "the close reason is not UTF-8"
	case errors.Is(cause, errStore):
		return closeStore, "events cannot be read or recorded now; resume by seq"
	case errors.Is(cause, errProtocol):
		return websocket.StatusProtocolError, ""
	case errors.Is(cause, errBroken):
		return websocket.StatusInternalError, "something failed here; resume by seq"
	}
	return websocket.StatusNormalClosure, ""
}

// read handles the client's messages one by one. It returns why it stopped.
func (k *socket) read() error {
	for {
		typ, r, err := k.conn.Reader(context.Background())  // unblocked by Close
		if err != nil && websocket.CloseStatus(err) == -1 { // the client broke the protocol, or disconnected
			return errors.Join(errProtocol, err)
		}
		if err != nil {
			return err
		}
		if typ != websocket.MessageText {
			return errBadFrame
		}
		data, err := io.ReadAll(io.LimitReader(r, maxMessage+1))
		if err != nil {
			return err
		}
		if len(data) > maxMessage {
			return errTooLarge
		}
		if err := k.handle(data); err != nil {
			return err
		}
	}
}

// pinged is called by read for each ping, and reports whether it is answered.
func (k *socket) pinged(context.Context, []byte) bool {
	if now := time.Now(); now.Sub(k.since) >= time.Second {
		k.pings, k.since = 0, now
	}
	if k.pings++; k.pings > pingsAllowed {
		k.end(errFlood)
		return false
	}
	return true
}

// A Message holds the fields of every message of a client.
type Message struct {
	Type      string `json:"type"`
	RequestID string `json:"requestId,omitempty"`
}

// The messages of a client.
type (
	helloMessage struct {
		Message
		StreamProtocol string `json:"streamProtocol,omitempty" enum:"upsert-v1,events-v1"`
	}
	subscribeMessage struct {
		Message
		SessionID string `json:"sessionId"`
		After     *int64 `json:"after,omitempty"`
		LogID     string `json:"logId,omitempty" doc:"of the log that after is a position of, as its resume said"`
	}
	sessionMessage struct {
		Message
		SessionID string `json:"sessionId"`
	}
	sendMessage struct {
		Message
		SessionID      string `json:"sessionId"`
		IdempotencyKey string `json:"idempotencyKey,omitempty" doc:"as the header of that name of an HTTP request"`
		command.SendRequest
	}
	decideMessage struct {
		Message
		SessionID  string `json:"sessionId"`
		ApprovalID string `json:"approvalId"`
		command.DecideRequest
	}
)

// The messages of the server that are not about a session.
type (
	helloAnswer struct {
		Type           string   `json:"type"`
		SelectedFamily string   `json:"selectedFamily" enum:"upsert-v1,events-v1"`
		Protocols      []string `json:"protocols"`
	}
	response struct {
		Type      string `json:"type"`
		RequestID string `json:"requestId,omitempty"`
		Result    any    `json:"result"`
		Replayed  bool   `json:"replayed,omitempty" doc:"a message before this one was the same, and got the same answer"`
	}
	errorMessage struct {
		Type      string        `json:"type"`
		RequestID string        `json:"requestId,omitempty"`
		Error     reply.Problem `json:"error"`
	}
)

// handle answers one message. An error of the message is part of the answer;
// the returned error ends the connection.
func (k *socket) handle(data []byte) error {
	if k.ctx.Err() != nil { // while it closes, the client may still send
		return context.Cause(k.ctx)
	}
	var m Message
	if err := peekMessage(data, &m); err != nil {
		return errors.Join(k.refuse(m, err), errBadFrame)
	}
	if m.Type == "session:hello" {
		return k.hello(m, data)
	}
	if k.family == "" {
		k.choose(k.s.cfg.DefaultFamily)
	}
	result, err := k.dispatch(m, data)
	if err != nil {
		return k.refuse(m, err)
	}
	if result == nil || m.RequestID == "" {
		return nil
	}
	answer := response{Type: "response", RequestID: m.RequestID, Result: result}
	if sent, ok := result.(command.Accepted); ok {
		answer.Result, answer.Replayed = sent.Body, sent.Replayed
	}
	return k.write(answer)
}

// peekMessage reads the type and the id of a message. The handler of the type
// decodes the whole.
func peekMessage(data []byte, m *Message) error {
	if err := strictjson.Check(data); err != nil {
		return reply.Invalid(err.Error())
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return reply.Invalid("a message is a JSON object")
	}
	return reply.Fit("message", map[string]json.RawMessage{"type": members["type"], "requestId": members["requestId"]}, m)
}

func (k *socket) hello(m Message, data []byte) error {
	var in helloMessage
	if err := reply.Strict(data, &in); err != nil {
		return k.refuse(m, err)
	}
	if k.family != "" {
		return k.refuse(m, reply.Invalid("session:hello: the family of this connection is chosen already; it can only be the first message"))
	}
	switch in.StreamProtocol {
	case "":
		k.choose(k.s.cfg.DefaultFamily)
	case FamilyUpsert, FamilyEvents:
		k.choose(in.StreamProtocol)
	default:
		err := k.refuse(m, &runnel.Error{Code: runnel.InvalidRequest,
			Message: "streamProtocol: unknown family " + strictjson.Quote(in.StreamProtocol) + "; want " + strings.Join(Families(), " or "),
			Details: map[string]any{"protocols": Families()}})
		return errors.Join(err, errBadFamily)
	}
	return k.write(helloAnswer{"session:hello:ack", k.family, Families()})
}

func (k *socket) choose(family string) {
	k.family = family
	k.closed, k.count = k.s.cfg.Metrics.Open(family), k.s.cfg.Metrics.Message(family)
}

// Verbs returns the scope that each message of a client needs.
func Verbs() map[string]auth.Scope {
	return map[string]auth.Scope{
		"session:subscribe": auth.Read, "session:unsubscribe": auth.Read, "sessions:subscribe": auth.Read,
		"session:send": auth.Send, "session:cancel": auth.Send, "session:kill": auth.Send, "session:options": auth.Send,
		"session:decide": auth.Approve,
	}
}

// dispatch handles m by its type and returns the body of the answer; nil for
// none.
func (k *socket) dispatch(m Message, data []byte) (any, error) {
	scope, ok := Verbs()[m.Type]
	if !ok {
		return nil, reply.Invalid("type: unknown message " + strictjson.Quote(m.Type))
	}
	if !k.id.Has(scope) {
		return nil, k.s.cfg.Lacks(k.req, scope)
	}
	switch m.Type {
	case "session:subscribe":
		return nil, k.subscribe(data)
	case "session:unsubscribe":
		return k.about(data, func(id string) error {
			id, err := k.s.cfg.Gateway.Resolve(k.ctx, id, "")
			if err == nil {
				k.unsubscribe(id)
			}
			return err
		})
	case "sessions:subscribe":
		k.watch().all()
		return reply.Empty{}, nil
	case "session:send":
		return with(data, func(in sendMessage) (any, error) {
			return k.s.cfg.Commands.SendMessage(k.req, in.SessionID, in.IdempotencyKey, in.SendRequest)
		})
	case "session:cancel":
		return k.about(data, func(id string) error { return k.s.cfg.Gateway.Cancel(k.ctx, id) })
	case "session:kill":
		return k.about(data, func(id string) error { return k.s.cfg.Gateway.Kill(k.ctx, id) })
	case "session:decide":
		return with(data, func(in decideMessage) (any, error) {
			return k.s.cfg.Commands.Decide(k.req, in.SessionID, in.ApprovalID, in.DecideRequest)
		})
	case "session:options":
		return k.options(data)
	}
	return nil, reply.Invalid("type: unknown message " + strictjson.Quote(m.Type))
}

// with decodes a message for f.
func with[I any](data []byte, f func(in I) (any, error)) (any, error) {
	var in I
	if err := reply.Strict(data, &in); err != nil {
		return nil, err
	}
	return f(in)
}

// about decodes a message whose only field is the session.
func (k *socket) about(data []byte, f func(id string) error) (any, error) {
	return with(data, func(in sessionMessage) (any, error) {
		id, err := k.s.cfg.Sessions.Mine(k.ctx, in.SessionID)
		if err != nil {
			return nil, err
		}
		return reply.Empty{}, f(id)
	})
}

// options handles a message that has options beside its own fields.
func (k *socket) options(data []byte) (any, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, reply.Invalid("a message is a JSON object")
	}
	own := make(map[string]json.RawMessage)
	for name := range strictjson.Fields(reflect.TypeFor[sessionMessage]()) {
		own[name] = members[name]
		delete(members, name)
	}
	var in sessionMessage
	if err := reply.Fit("message", own, &in); err != nil {
		return nil, err
	}
	rest, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	return k.s.cfg.Commands.SetOptions(k.req, in.SessionID, rest)
}

func (k *socket) refuse(m Message, err error) error {
	return k.write(errorMessage{"error", m.RequestID, k.s.cfg.Reply.Explain(k.ctx, err)})
}

// write sends one message. It ends the connection of a client that does not
// read the message in time.
func (k *socket) write(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return k.send(data)
}

func (k *socket) send(data []byte) error {
	if k.ctx.Err() != nil {
		return context.Cause(k.ctx)
	}
	watchdog := time.AfterFunc(k.s.cfg.WriteStall, k.stall)
	defer watchdog.Stop()
	defer k.s.unread.begin(len(data), func() {
		k.end(errUnread)
		browser.Cut(k.req)
	})()
	// Not k.ctx: its end would cut the connection before the close code is
	// sent.
	if err := k.conn.Write(context.Background(), websocket.MessageText, data); err != nil {
		k.end(errGone)
		return errGone
	}
	k.wrote.Store(true)
	if k.family != "" {
		k.count()
	}
	return nil
}

// stall ends a connection whose client does not read.
func (k *socket) stall() { k.end(errStalled) }

// ping detects a client that vanished.
func (k *socket) ping() {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-k.ctx.Done():
			return
		case <-tick.C:
		}
		if k.wrote.Swap(false) {
			continue // writing detects a client that vanished
		}
		watchdog := time.AfterFunc(pongStalls*k.s.cfg.WriteStall, k.stall)
		// Not k.ctx, as in send. close ends the call.
		err := k.conn.Ping(context.Background())
		watchdog.Stop()
		if err != nil {
			return
		}
	}
}
