package jsonrpc

import (
	"encoding/json"
	"errors"
	"slices"
)

// DefaultMaxOpen is how many requests may be open in each direction.
const DefaultMaxOpen = 1024

// ErrTooMany means that as many requests of ours are open as may be.
var ErrTooMany = errors.New("jsonrpc: too many requests wait for an answer")

// Call is a request that is open.
type Call struct {
	ID     ID     `json:"id"`
	Method string `json:"method"`
}

// Peer is what our side of a connection remembers: which requests are open, in both directions. It is a value without a
// lock, and knows only what it is shown. Its JSON is its state, for one that goes on where it was.
//
// The zero value is ready.
type Peer struct {
	MaxOpen int // in each direction. Default: DefaultMaxOpen

	last    int64 // the highest number that a request of ours had
	ours    []Call
	theirs  []Call
	unknown int
	stray   int
}

// Verdict is what a Peer makes of a message.
type Verdict int

// The verdicts.
const (
	// Heard: a notification, to be looked at.
	Heard Verdict = iota
	// Asked: a request, to be answered once.
	Asked
	// AskedAgain: a request with the id of one that is open. There is one answer to both.
	AskedAgain
	// Answered: a response to the request that is returned.
	Answered
	// Withdrawn: the other side no longer wants the answer to the request that is returned. It is still open here: an
	// answer, such as CodeRequestCancelled, does no harm.
	Withdrawn
	// Overrun: a request beyond the bound. It is not open; Refuse it.
	Overrun
	// Stray: a response to nothing that was asked, or the withdrawal of nothing. It was counted.
	Stray
)

func (p *Peer) max() int {
	if p.MaxOpen > 0 {
		return p.MaxOpen
	}
	return DefaultMaxOpen
}

// NextID returns an id for a request of ours that no request before it had. It counts on being sent.
func (p *Peer) NextID() (ID, error) {
	if len(p.ours) >= p.max() {
		return ID{}, ErrTooMany
	}
	return Number(p.last + 1), nil
}

// Sent takes a message of ours, when it is sent.
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

// Got takes a message of the other side. The call is the one that a response or a withdrawal is about, or a request
// itself.
func (p *Peer) Got(m Message) (Verdict, Call) {
	switch m.Kind() {
	case Notification:
		if m.Method == CancelMethod {
			return p.withdrawn(m)
		}
		return Heard, Call{Method: m.Method}
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
		p.stray++
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
	p.stray++
	return Stray, Call{ID: params.RequestID}
}

// Forget ends a request of the other side without an answer: it was settled in another way. It reports whether there was
// one.
func (p *Peer) Forget(id ID) bool {
	i := index(p.theirs, id)
	if i < 0 {
		return false
	}
	p.theirs = slices.Delete(p.theirs, i, i+1)
	return true
}

// Unknown takes a notification or a request that means nothing to the caller. The notification is counted; for the
// request there is an answer, which is due at once.
func (p *Peer) Unknown(m Message) (reply Message, due bool) {
	if m.Kind() != Request {
		p.unknown++
		return Message{}, false
	}
	return NewFailure(m.ID, CodeMethodNotFound, "this client does not support the method"), true
}

// Refuse returns the answer to a request that overran the bound.
func Refuse(m Message) Message {
	return NewFailure(m.ID, CodeOverloaded, "too many requests are open")
}

// Cancel returns the notification that takes a request of ours back. Its answer still comes.
func Cancel(id ID) Message {
	params, err := marshal(struct {
		RequestID ID `json:"requestId"`
	}{id})
	if err != nil {
		params = nil // an id can always be encoded
	}
	return Message{Method: CancelMethod, Params: params}
}

// Waiting returns our requests that were not answered yet, oldest first.
func (p *Peer) Waiting() []Call { return slices.Clone(p.ours) }

// Open returns the other side's requests that were not answered yet, oldest first.
func (p *Peer) Open() []Call { return slices.Clone(p.theirs) }

// Counts returns how many notifications meant nothing, and how many responses and withdrawals were about nothing.
func (p *Peer) Counts() (unknown, stray int) { return p.unknown, p.stray }

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

// state is a Peer as JSON.
type state struct {
	MaxOpen int    `json:"maxOpen,omitzero"`
	Last    int64  `json:"last,omitzero"`
	Ours    []Call `json:"ours,omitzero"`
	Theirs  []Call `json:"theirs,omitzero"`
	Unknown int    `json:"unknown,omitzero"`
	Stray   int    `json:"stray,omitzero"`
}

// MarshalJSON implements [json.Marshaler].
func (p Peer) MarshalJSON() ([]byte, error) {
	return json.Marshal(state{p.MaxOpen, p.last, p.ours, p.theirs, p.unknown, p.stray})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *Peer) UnmarshalJSON(data []byte) error {
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	*p = Peer{s.MaxOpen, s.Last, s.Ours, s.Theirs, s.Unknown, s.Stray}
	return nil
}
