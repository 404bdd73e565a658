package jsonrpc

import (
	"encoding/json"
	"errors"
	"slices"
)

// defaultMaxOpen is the default bound of the open requests in each direction.
const defaultMaxOpen = 1024

// ErrTooMany is the error of [Peer.NextID] while too many of our requests are
// open.
var ErrTooMany = errors.New("jsonrpc: too many requests wait for an answer")

// Call is an open request.
type Call struct {
	ID     ID     `json:"id"`
	Method string `json:"method"`
}

// Peer is the memory of our side of a connection: the open requests in both
// directions. It has no lock, and knows only the messages that it is given. Its
// JSON is its state, from which another process can continue.
//
// The zero value is ready to use.
type Peer struct {
	MaxOpen int // in each direction. Default: 1024

	last   int64 // the highest number among the ids of our requests
	ours   []Call
	theirs []Call
}

// Verdict is what a received message means.
type Verdict int

// The verdicts.
const (
	// Notified: a notification.
	Notified Verdict = iota
	// Asked: a request, which needs one answer.
	Asked
	// AskedAgain: a request with the id of an open one. One answer settles
	// both.
	AskedAgain
	// Answered: a response to the request that is returned.
	Answered
	// Withdrawn: the other side does not need the answer to the request that is
	// returned. The request stays open here; an answer such as
	// CodeRequestCancelled does no harm.
	Withdrawn
	// Overrun: a request beyond the bound. It is not open; answer with
	// [Refuse].
	Overrun
	// Stray: a response or a withdrawal without an open request.
	Stray
)

func (p *Peer) max() int {
	if p.MaxOpen > 0 {
		return p.MaxOpen
	}
	return defaultMaxOpen
}

// NextID returns a new id for a request of ours. It fails with ErrTooMany if
// too many are open. The id counts as used once the request was given to Sent.
func (p *Peer) NextID() (ID, error) {
	if len(p.ours) >= p.max() {
		return ID{}, ErrTooMany
	}
	return Number(p.last + 1), nil
}

// Sent takes a message of ours when it is sent.
func (p *Peer) Sent(m Message) {
	switch m.Kind() {
	case Request:
		if n, ok := m.ID.Int(); ok {
			p.last = max(p.last, n)
		}
		if index(p.ours, m.ID) < 0 && len(p.ours) < p.max() {
			p.ours = append(p.ours, Call{m.ID, m.Method})
		}
	case Response:
		p.Forget(m.ID)
	}
}

// Got takes a message of the other side. The call is the request that the
// message is or settles.
func (p *Peer) Got(m Message) (Verdict, Call) {
	switch m.Kind() {
	case Notification:
		if m.Method == cancelMethod {
			return p.withdrawn(m)
		}
		return Notified, Call{Method: m.Method}
	case Request:
		if i := index(p.theirs, m.ID); i >= 0 {
			return AskedAgain, p.theirs[i]
		}
		c := Call{m.ID, m.Method}
		if len(p.theirs) >= p.max() {
			return Overrun, c
		}
		p.theirs = append(p.theirs, c)
		return Asked, c
	}
	i := index(p.ours, m.ID)
	if i < 0 {
		return Stray, Call{ID: m.ID}
	}
	c := p.ours[i]
	p.ours = slices.Delete(p.ours, i, i+1)
	return Answered, c
}

func (p *Peer) withdrawn(m Message) (Verdict, Call) {
	var params struct {
		RequestID ID `json:"requestId"`
	}
	if json.Unmarshal(m.Params, &params) == nil {
		if i := index(p.theirs, params.RequestID); i >= 0 {
			return Withdrawn, p.theirs[i]
		}
	}
	return Stray, Call{ID: params.RequestID}
}

// Forget closes a request of the other side that was settled without an answer.
// It reports whether the request was open.
func (p *Peer) Forget(id ID) bool {
	i := index(p.theirs, id)
	if i < 0 {
		return false
	}
	p.theirs = slices.Delete(p.theirs, i, i+1)
	return true
}

// Unsupported returns the answer to a request whose method we do not support.
func Unsupported(m Message) Message {
	return NewFailure(m.ID, CodeMethodNotFound, "this client does not support the method")
}

// Refuse returns the answer to a request beyond the bound.
func Refuse(m Message) Message {
	return NewFailure(m.ID, CodeOverloaded, "too many requests are open")
}

// Waiting returns our open requests, oldest first.
func (p *Peer) Waiting() []Call { return slices.Clone(p.ours) }

// Open returns the open requests of the other side, oldest first.
func (p *Peer) Open() []Call { return slices.Clone(p.theirs) }

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
	return json.Marshal(state{p.MaxOpen, p.last, p.ours, p.theirs})
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
