package jsonrpc

import (
	"encoding/json"
	"errors"
	"slices"
)

// defaultMaxOpen is the default bound of the open requests in each direction.
const defaultMaxOpen = 1024

// ErrTooMany is the error of [Peer.NextID] if too many sent requests are open.
var ErrTooMany = errors.New("jsonrpc: too many requests wait for an answer")

// Call is an open request.
type Call struct {
	ID     ID     `json:"id"`
	Method string `json:"method"`
}

// Peer is the state of one side of a connection: the open requests in both
// directions. It is not safe for concurrent use. It knows only the messages
// that are passed to Sent and Got. Its JSON is its complete state, from which
// another process can continue.
//
// The zero value is ready to use.
type Peer struct {
	MaxOpen int // bound in each direction; 0 means 1024

	last     int64 // the highest number that was the id of a sent request
	sent     []Call
	received []Call
}

// Verdict is the meaning of a received message.
type Verdict int

// The verdicts.
const (
	// Notified is a notification.
	Notified Verdict = iota
	// Asked is a request. It needs one response.
	Asked
	// AskedAgain is a request with the id of an open one. One response settles
	// both.
	AskedAgain
	// Answered is a response to the returned request.
	Answered
	// Withdrawn means that the other side no longer needs a response to the
	// returned request. The request stays open in the Peer, and a response such
	// as CodeRequestCancelled is harmless.
	Withdrawn
	// Overrun is a request beyond the bound. It is not open. Respond with
	// [Overloaded].
	Overrun
	// Stray is a response or a withdrawal without an open request.
	Stray
)

func (p *Peer) max() int {
	if p.MaxOpen > 0 {
		return p.MaxOpen
	}
	return defaultMaxOpen
}

// NextID returns a new id for a request to send. It fails with ErrTooMany if
// too many sent requests are open. The id counts as used after the request is
// passed to Sent.
func (p *Peer) NextID() (ID, error) {
	if len(p.sent) >= p.max() {
		return ID{}, ErrTooMany
	}
	return Number(p.last + 1), nil
}

// Sent records a message that is sent.
func (p *Peer) Sent(m Message) {
	switch m.Kind() {
	case Request:
		if n, ok := m.ID.Int(); ok {
			p.last = max(p.last, n)
		}
		if index(p.sent, m.ID) < 0 && len(p.sent) < p.max() {
			p.sent = append(p.sent, Call{m.ID, m.Method})
		}
	case Response:
		p.Forget(m.ID)
	}
}

// Got records a received message and returns its meaning. The Call is the
// received request, or the request that the message settles.
func (p *Peer) Got(m Message) (Verdict, Call) {
	switch m.Kind() {
	case Notification:
		if m.Method == cancelMethod {
			return p.withdrawn(m)
		}
		return Notified, Call{Method: m.Method}
	case Request:
		if i := index(p.received, m.ID); i >= 0 {
			return AskedAgain, p.received[i]
		}
		c := Call{m.ID, m.Method}
		if len(p.received) >= p.max() {
			return Overrun, c
		}
		p.received = append(p.received, c)
		return Asked, c
	}
	i := index(p.sent, m.ID)
	if i < 0 {
		return Stray, Call{ID: m.ID}
	}
	c := p.sent[i]
	p.sent = slices.Delete(p.sent, i, i+1)
	return Answered, c
}

func (p *Peer) withdrawn(m Message) (Verdict, Call) {
	var params struct {
		RequestID ID `json:"requestId"`
	}
	if json.Unmarshal(m.Params, &params) == nil {
		if i := index(p.received, params.RequestID); i >= 0 {
			return Withdrawn, p.received[i]
		}
	}
	return Stray, Call{ID: params.RequestID}
}

// Forget removes a received request that was settled without a response. It
// reports whether the request was open.
func (p *Peer) Forget(id ID) bool {
	i := index(p.received, id)
	if i < 0 {
		return false
	}
	p.received = slices.Delete(p.received, i, i+1)
	return true
}

// Unsupported returns the response to a request whose method is not supported.
func Unsupported(m Message) Message {
	return NewFailure(m.ID, CodeMethodNotFound, "this client does not support the method")
}

// Overloaded returns the response to a request that Got reported as Overrun.
func Overloaded(m Message) Message {
	return NewFailure(m.ID, CodeOverloaded, "too many requests are open")
}

// Waiting returns the sent requests that are open, oldest first.
func (p *Peer) Waiting() []Call { return slices.Clone(p.sent) }

// Open returns the received requests that are open, oldest first.
func (p *Peer) Open() []Call { return slices.Clone(p.received) }

func index(calls []Call, id ID) int {
	if id.IsZero() {
		return -1
	}
	for i, c := range calls {
		if c.ID == id {
			return i
		}
	}
	key := id.Key()
	return slices.IndexFunc(calls, func(c Call) bool { return c.ID.Key() == key })
}

// state is the JSON of a Peer.
type state struct {
	MaxOpen int    `json:"maxOpen,omitzero"`
	Last    int64  `json:"last,omitzero"`
	Ours    []Call `json:"ours,omitzero"`
	Theirs  []Call `json:"theirs,omitzero"`
}

// MarshalJSON implements [json.Marshaler].
func (p Peer) MarshalJSON() ([]byte, error) {
	return json.Marshal(state{p.MaxOpen, p.last, p.sent, p.received})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *Peer) UnmarshalJSON(data []byte) error {
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	*p = Peer{s.MaxOpen, s.Last, s.Ours, s.Theirs}
	return nil
}
