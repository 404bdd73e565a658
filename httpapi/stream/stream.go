// Package stream brings a session's events to clients: server-sent events, the
// WebSocket, the turn of a harness, history and exports. Each stream reads the
// log with a cursor of its own when it can write; nothing waits in memory for a
// slow client.
package stream

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

// Config is what Streams need. All of it is required.
type Config struct {
	Gateway  *gateway.Gateway
	Keyring  *auth.Keyring
	Sessions access.Sessions
	Commands command.Commands
	Reply    reply.Writer
	Metrics  Metrics
	Lacks    func(r *http.Request, scope auth.Scope) error // the error for a caller without the scope

	DefaultFamily string        // of a WebSocket whose client sends no hello
	Heartbeat     time.Duration // between comments on a silent SSE stream, and checks of a quiet turn
	WriteStall    time.Duration // how long one write to a client may take
	Limits        Limits
	Reached       func(setting string) // is called each time one of the limits refuses something
}

// Limits bound streams. Each is a setting; all are required.
type Limits struct {
	Exports                    int // of one credential at a time
	Streams                    int // open in all
	StreamsPerCredential       int // open for one credential
	Subscriptions              int // of WebSockets in all
	SubscriptionsPerCredential int // of all WebSockets of one credential
	Fragments                  int // frames without a message or content that a WebSocket may send in a second

	UnreadBytes int64 // of large messages and answers that clients have not read, in all
}

// Metrics counts streams and their messages, by family.
type Metrics struct {
	Open    func(family string) (closed func())
	Message func(family string) (count func())
	Stalled func() // a stream was closed because its client took nothing

	// Lag is called with the age of the oldest event of a batch that was read,
	// and, but for upserts, written. Batches with history are left out.
	Lag func(family string) func(time.Duration)
}

// Streams serves every stream of a server. Its methods may be called
// concurrently.
type Streams struct {
	cfg       Config
	open      counter
	exports   counter
	follows   counter // subscriptions of WebSockets
	unread    unread
	deletions deletions

	ctx  context.Context // of open streams; ends with errShutdown
	stop context.CancelCauseFunc
}

// New returns Streams. It starts nothing.
func New(cfg Config) *Streams {
	s := &Streams{cfg: cfg}
	s.unread.limit, s.unread.reached = cfg.Limits.UnreadBytes, func() { cfg.Reached("max-unread-mib") }
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	return s
}

// Deleted ends the streams of a session that was deleted.
func (s *Streams) Deleted(session string) { s.deletions.deleted(session) }

// End ends every open stream: a WebSocket with code 1001, an SSE stream at a
// frame boundary, each with the position to resume after. It returns once they
// have ended, or with ctx's error.
func (s *Streams) End(ctx context.Context) error {
	s.stop(errShutdown)
	return s.open.wait(ctx)
}

// Unread counts in what a client has not read yet, while it is being written.
// See [Limits.UnreadBytes]: cut is called if the write has to end; it must not
// block. The caller calls end once it is written.
func (s *Streams) Unread(bytes int, cut func()) (end func()) { return s.unread.begin(bytes, cut) }

// Counts returns how many streams and exports are open, and how many sessions
// have streams that their deletion would end.
func (s *Streams) Counts() (streams, exports, sessions int) {
	return s.open.count(), s.exports.count(), s.deletions.count()
}

// reserve counts in a stream of the caller, unless there are too many. The
// caller calls leave at its end.
func (s *Streams) reserve(r *http.Request) (leave func(), err error) {
	id := access.Caller(r.Context()).ID
	l := s.cfg.Limits
	if err := s.open.add(id, most{l.Streams, "max-streams"}, most{l.StreamsPerCredential, "max-streams-per-credential"}); err != nil {
		return nil, s.refuse("open streams; close some", err)
	}
	return func() { s.open.remove(id) }, nil
}

// refuse returns the error for a limit that was reached, and counts it.
func (s *Streams) refuse(what string, reached *most) error {
	s.cfg.Reached(reached.setting)
	return reached.error(what)
}

// A most is a limit and the setting that it is called by.
type most struct {
	n       int
	setting string
}

func (m most) error(what string) error {
	return &runnel.Error{
		Code: runnel.RateLimited, Message: fmt.Sprintf("too many %s (%s: %d)", what, m.setting, m.n),
		Details: map[string]any{"limit": m.setting, "value": m.n},
	}
}

// A counter counts what is open, in all and by credential.
type counter struct {
	mu   sync.Mutex
	n    int
	byID map[string]int
	idle chan struct{} // if non-nil, closed when n falls to zero
}

// add counts one in. If there are as many as there may be, it returns the
// limit.
func (c *counter) add(id string, all, each most) *most {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.byID[id] >= each.n:
		return &each
	case c.n >= all.n:
		return &all
	}
	if c.byID == nil {
		c.byID = make(map[string]int)
	}
	c.n++
	c.byID[id]++
	return nil
}

func (c *counter) remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n--
	if c.byID[id]--; c.byID[id] == 0 {
		delete(c.byID, id)
	}
	if c.n == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// wait returns once nothing is open, or with ctx's error.
func (c *counter) wait(ctx context.Context) error {
	c.mu.Lock()
	if c.n == 0 {
		c.mu.Unlock()
		return nil
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
