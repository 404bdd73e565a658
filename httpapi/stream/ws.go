package stream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
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
	"github.com/runnel-dev/runnel/httpapi/conns"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/internal/strictjson"
)

// The families of messages. A connection uses one of them for its whole life.
const (
	FamilyUpsert = "upsert-v1"
	FamilyEvents = "events-v1"
)

// Families returns the families of messages, the usual default first.
func Families() []string { return []string{FamilyUpsert, FamilyEvents} }

// The codes with which the server closes a WebSocket. A client may connect
// again and resume by seq. After closeBadRequest and closeTooLarge it must not
// send the same message again.
const (
	closeBadRequest websocket.StatusCode = 4400 // the client sent an unknown frame or family
	closeCredential websocket.StatusCode = 4401 // the credential has ended; the client needs another one
	closeStalled    websocket.StatusCode = 4408 // the client did not read in time
	closeTooLarge   websocket.StatusCode = 4413
	closeStore      websocket.StatusCode = 4503 // events cannot be read or recorded
	closeShutdown                        = websocket.StatusGoingAway
)

const (
	Subprotocol  = "runnel.v1"      // the subprotocol that clients of the WebSocket offer
	maxMessage   = 1 << 20          // bytes of a client's message
	pingEvery    = 30 * time.Second // detects a client that vanished
	pongStalls   = 8                // a client has this many times WriteStall to answer a ping, because it first reads what was sent before
	pingsAllowed = 100              // pings of a client in a second
)

// A socket is one WebSocket connection. The handler's goroutine reads from it.
// There is a pump for each subscription, a pinger, and at most one watcher; the
// handler waits for all of them. A pump reads the log only when it can write.
// So for a slow client only the message that is being written is in memory.
type socket struct {
	s    *Streams
	conn *websocket.Conn
	id   auth.Identity
	req  *http.Request // the request of the upgrade
	ctx  context.Context
	end  context.CancelCauseFunc
	work sync.WaitGroup

	turn   chan struct{} // held by the one pump that may read the log and write
	direct direct

	mu    sync.Mutex       // held to change pumps, and by goroutines other than the reading one to read it
	pumps map[string]*pump // by session

	// Only the goroutine that reads the connection writes the fields below,
	// except wrote, which every goroutine may write.
	family  string // "" until the first message
	appends bool   // growing items are sent as appends
	closed  func() // ends the counting of the connection in the metrics
	count   func() // counts a message in the metrics
	watcher *watcher
	then    func()      // what to do after the answer to the current message was sent; may be nil
	listens bool        // to changes of the list of stored conversations
	wrote   atomic.Bool // a message was written since the last ping was due
	pings   int         // pings of the client since the time below
	since   time.Time
}

// WebSocket upgrades a request that has passed the chain, and serves the
// connection.
func (s *Streams) WebSocket(w http.ResponseWriter, r *http.Request) error {
	id := access.Caller(r.Context())
	leave, err := s.reserve(r)
	if err != nil {
		return err
	}
	defer leave()
	k := &socket{s: s, id: id, req: r, turn: make(chan struct{}, 1), pumps: make(map[string]*pump)}
	k.direct.message = make(chan struct{}, 1)
	upgrade := &handshake{ResponseWriter: w, meter: &meter{most: s.cfg.Limits.Fragments, failed: k.unwanted}}
	conn, err := websocket.Accept(upgrade, r, &websocket.AcceptOptions{
		Subprotocols:       []string{Subprotocol},
		InsecureSkipVerify: true, // the chain has checked the Origin, more strictly
		CompressionMode:    websocket.CompressionDisabled,
		OnPingReceived:     k.pinged,
	})
	if upgrade.status != 0 {
		return reply.NewError(upgrade.status, "this path takes only the opening of a WebSocket; "+strings.TrimSpace(string(upgrade.why)))
	}
	if err != nil {
		return nil // the connection broke while it was upgraded
	}
	k.direct.conn = conns.Unwrapped(r)
	conn.SetReadLimit(-1) // no limit here: read has one, with its own close code
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

// unwanted closes the connection because of what the client sent.
func (k *socket) unwanted(err error) {
	if errors.Is(err, errFragments) {
		k.s.cfg.Reached("max-fragments")
	}
	k.end(err)
}

// How long a client has to answer a close. hostileTime is for a client whose
// credential has ended, that sends too many small frames, or whose messages do
// not arrive.
const (
	closeTime   = 3 * time.Second
	hostileTime = 500 * time.Millisecond
)

// close closes the connection with the code for cause. If the client does not
// answer in time, close cuts the connection.
func (k *socket) close(cause error) {
	timeout := closeTime
	if errors.Is(cause, auth.ErrEnded) || errors.Is(cause, errFragments) || errors.Is(cause, errLate) || errors.Is(cause, errArriving) {
		timeout = hostileTime
	}
	timer := time.AfterFunc(timeout, func() { browser.Cut(k.req) })
	defer timer.Stop()
	k.direct.noMore()
	if errors.Is(cause, errShutdown) {
		ctx, done := context.WithTimeout(context.Background(), goodbyeTime)
		k.goodbye(ctx)
		done()
	}
	code, why := closeCode(cause)
	_ = k.conn.Close(code, why)
}

// Reasons for which the server closes a connection.
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
	errLate      = errors.New("httpapi: a message did not arrive in time")
	errArriving  = errors.New("httpapi: too many bytes of messages are arriving")
)

func closeCode(cause error) (websocket.StatusCode, string) {
	switch {
	case errors.Is(cause, auth.ErrEnded):
		return closeCredential, "the credential has ended"
	case errors.Is(cause, errShutdown):
		return closeShutdown, "the server is shutting down; resume by seq"
	case errors.Is(cause, errStalled):
		return closeStalled, "nothing was read for too long; resume by seq"
	case errors.Is(cause, errBadFamily):
		return closeBadRequest, "unknown family"
	case errors.Is(cause, errBadFrame):
		return closeBadRequest, "want a text message with JSON"
	case errors.Is(cause, errTooLarge):
		return closeTooLarge, "the message is too large"
	case errors.Is(cause, errFlood):
		return websocket.StatusPolicyViolation, "too many pings"
	case errors.Is(cause, errFragments):
		return websocket.StatusPolicyViolation, "too many small fragments in a second (max-fragments)"
	case errors.Is(cause, errLate):
		return websocket.StatusPolicyViolation, "a message did not arrive within 30 s"
	case errors.Is(cause, errArriving):
		return websocket.StatusPolicyViolation, "too many messages and bodies of this credential are arriving (max-arriving-mib-per-credential)"
	case errors.Is(cause, errUTF8):
		return websocket.StatusInvalidFramePayloadData, "the close reason is not UTF-8"
	case errors.Is(cause, errStore):
		return closeStore, "events cannot be read or recorded now; resume by seq"
	case errors.Is(cause, errProtocol):
		return websocket.StatusProtocolError, ""
	case errors.Is(cause, errBroken):
		return websocket.StatusInternalError, "internal error; resume by seq"
	}
	return websocket.StatusNormalClosure, ""
}

// pinged is called by read for each ping of the client. It reports whether the
// ping gets an answer.
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

// A Message holds the fields that every message of a client has.
type Message struct {
	Type      string `json:"type"`
	RequestID string `json:"requestId,omitempty"`
}

// The messages of a client.
type (
	helloMessage struct {
		Message
		StreamProtocol string `json:"streamProtocol,omitempty" enum:"upsert-v1,events-v1"`
		Append         bool   `json:"append,omitempty" doc:"Whether the server sends the growth of items as session:append. Only in the family upsert-v1. Default: false."`
	}
	subscribeMessage struct {
		Message
		SessionID string `json:"sessionId"`
		After     *int64 `json:"after,omitempty"`
		LogID     string `json:"logId,omitempty" doc:"Id of the log that contains the position after, from an earlier resume."`
		Limit     *int   `json:"limit,omitempty" doc:"About how many of the newest entries the history has, up to 1000, if it would otherwise start at the beginning of the log. Only in the family upsert-v1. Default: all entries."`
	}
	itemsMessage struct {
		Message
		SessionID string `json:"sessionId"`
		Before    int64  `json:"before,omitempty" doc:"Position before which the page ends. Default: the end of the log."`
		Limit     int64  `json:"limit,omitempty" doc:"Approximate maximum number of entries, up to 1000. Default: 200."`
	}
	sessionMessage struct {
		Message
		SessionID string `json:"sessionId"`
	}
	sendMessage struct {
		Message
		SessionID      string `json:"sessionId"`
		IdempotencyKey string `json:"idempotencyKey,omitempty" doc:"Same as the header Idempotency-Key of an HTTP request."`
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
		Append         bool     `json:"append,omitempty" doc:"Whether the server sends the growth of items as session:append."`
	}
	response struct {
		Type      string `json:"type"`
		RequestID string `json:"requestId,omitempty"`
		Result    any    `json:"result"`
		Replayed  bool   `json:"replayed,omitempty" doc:"true: the message repeats an earlier one, and result is the stored response to the earlier message."`
	}
	errorMessage struct {
		Type      string        `json:"type"`
		RequestID string        `json:"requestId,omitempty"`
		Error     reply.Problem `json:"error"`
	}
)

// handle answers one message. An error of the message is sent to the client. A
// returned error closes the connection.
func (k *socket) handle(data []byte) error {
	if k.ctx.Err() != nil { // the client may still send while the connection closes
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
	k.then = nil
	result, err := k.dispatch(m, data)
	if err == nil {
		err = k.answer(m, result)
	} else {
		err = k.refuse(m, err)
	}
	if err == nil && k.then != nil {
		k.then()
	}
	return err
}

// answer sends the result of a message, if the client waits for one.
func (k *socket) answer(m Message, result any) error {
	if result == nil || m.RequestID == "" {
		return nil
	}
	answer := response{Type: "response", RequestID: m.RequestID, Result: result}
	if sent, ok := result.(command.Accepted); ok {
		answer.Result, answer.Replayed = sent.Body, sent.Replayed
	}
	return k.write(answer)
}

// peekMessage decodes the type and the request id of a message. The handler for
// the type decodes the whole message.
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
	family := cmp.Or(in.StreamProtocol, k.s.cfg.DefaultFamily)
	if !slices.Contains(Families(), family) {
		err := k.refuse(m, &runnel.Error{Code: runnel.InvalidRequest,
			Message: "streamProtocol: unknown family " + strictjson.Quote(in.StreamProtocol) + "; want " + strings.Join(Families(), " or "),
			Details: map[string]any{"protocols": Families()}})
		return errors.Join(err, errBadFamily)
	}
	if in.Append && family != FamilyUpsert {
		return k.refuse(m, reply.Invalid("append: only the family "+FamilyUpsert+" has items that grow"))
	}
	k.choose(family)
	k.appends = in.Append
	return k.write(helloAnswer{"session:hello:ack", k.family, Families(), k.appends})
}

func (k *socket) choose(family string) {
	k.family = family
	k.closed, k.count = k.s.cfg.Metrics.Open(family), k.s.cfg.Metrics.Message(family)
}

// Verbs returns the scope that a client needs for each type of message.
func Verbs() map[string]auth.Scope {
	return map[string]auth.Scope{
		"session:subscribe": auth.Read, "session:unsubscribe": auth.Read, "sessions:subscribe": auth.Read, "conversations:subscribe": auth.Read, "session:items": auth.Read,
		"session:send": auth.Send, "session:cancel": auth.Send, "session:kill": auth.Send, "session:options": auth.Send,
		"session:queue": auth.Read, "session:queue:hold": auth.Send, "session:queue:edit": auth.Send, "session:queue:remove": auth.Send,
		"session:decide": auth.Approve,
	}
}

// dispatch handles m by its type. It returns the result for the answer, or nil
// for no answer.
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
	case "conversations:subscribe":
		k.watchConversations()
		return reply.Empty{}, nil
	case "sessions:subscribe":
		k.then = k.watch().all // the answer comes before the statuses
		return reply.Empty{}, nil
	case "session:items":
		return with(data, k.items)
	case "session:send":
		return with(data, func(in sendMessage) (any, error) {
			return k.s.cfg.Commands.SendMessage(k.req, in.SessionID, in.IdempotencyKey, in.SendRequest)
		})
	case "session:cancel":
		return with(data, func(in cancelMessage) (any, error) {
			return reply.Empty{}, k.s.cfg.Commands.Cancel(k.ctx, in.SessionID, in.CancelRequest)
		})
	case "session:kill":
		return k.about(data, func(id string) error { return k.s.cfg.Gateway.Kill(k.ctx, id) })
	case "session:decide":
		return with(data, func(in decideMessage) (any, error) {
			return k.s.cfg.Commands.Decide(k.req, in.SessionID, in.ApprovalID, in.DecideRequest)
		})
	case "session:options":
		return k.options(data)
	}
	return k.queue(m, data)
}

// items returns a page of a session's history.
func (k *socket) items(in itemsMessage) (any, error) {
	if in.Before < 0 || in.Limit < 0 {
		return nil, reply.Invalid("before, limit: must be whole numbers of zero or more")
	}
	id, err := k.s.cfg.Sessions.Resolve(k.ctx, in.SessionID)
	if err != nil {
		return nil, err
	}
	return k.s.itemsBefore(k.ctx, k.id.ID, id, in.Before, cmp.Or(in.Limit, historyEntries))
}

// with decodes a message and calls f with it.
func with[I any](data []byte, f func(in I) (any, error)) (any, error) {
	var in I
	if err := reply.Strict(data, &in); err != nil {
		return nil, err
	}
	return f(in)
}

// about decodes a message whose only field is the session, and calls f with a
// session that the caller may see.
func (k *socket) about(data []byte, f func(id string) error) (any, error) {
	return with(data, func(in sessionMessage) (any, error) {
		id, err := k.s.cfg.Sessions.VisibleRef(k.ctx, in.SessionID)
		if err != nil {
			return nil, err
		}
		return reply.Empty{}, f(id)
	})
}

// options changes the options of a session. Every field of the message that
// sessionMessage does not have is an option.
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

// write sends one message. It closes the connection if the client does not read
// in time.
func (k *socket) write(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return k.send(data)
}

func (k *socket) send(data []byte) error {
	watchdog := time.AfterFunc(k.s.cfg.WriteStall, k.stall)
	defer watchdog.Stop()
	return k.sendUntimed(data)
}

// sendUntimed is like send, but does not end a connection whose client does not
// read.
func (k *socket) sendUntimed(data []byte) error {
	if k.ctx.Err() != nil {
		return context.Cause(k.ctx)
	}
	defer k.s.unread.begin(len(data), func() {
		k.end(errUnread)
		browser.Cut(k.req)
	})()
	k.direct.message <- struct{}{}
	defer func() { <-k.direct.message }()
	// The context is not k.ctx, whose end would cut the connection before the
	// close code is sent.
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

// stall closes a connection whose client does not read.
func (k *socket) stall() { k.end(errStalled) }

// ping pings a client to which nothing was written, to detect that it has
// vanished.
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
			continue // a write detects a client that has vanished
		}
		watchdog := time.AfterFunc(pongStalls*k.s.cfg.WriteStall, k.stall)
		// As in send, the end of k.ctx must not cut the connection.
		// socket.close ends this call.
		err := k.conn.Ping(context.Background())
		watchdog.Stop()
		if err != nil {
			return
		}
	}
}
