// Package stream sends a session's events to clients: by server-sent events,
// over the WebSocket, as the turn of a harness, as history and as an export.
// Each stream has a cursor of its own and reads the log only when it can write,
// so no events wait in memory for a slow client.
package stream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/internal/atonce"
)

// Config configures Streams. All of it is required.
type Config struct {
	Gateway  *gateway.Gateway
	Keyring  *auth.Keyring
	Sessions access.Sessions
	Commands command.Commands
	Reply    reply.Writer
	Metrics  Metrics
	Lacks    func(r *http.Request, scope auth.Scope) error // returns the error for a caller without the scope

	DefaultFamily string        // family of a WebSocket whose client sends no hello
	Heartbeat     time.Duration // between comments on a silent SSE stream, and between checks of a silent turn
	WriteStall    time.Duration // how long one write to a stream may take
	Limits        Limits
	Reached       func(setting string) // called with the setting each time its limit is reached

	// Arriving returns a reader of a message from r that counts the message as an
	// arriving body of a credential until done is called. Reads fail with
	// RATE_LIMITED if too many bytes of the credential are arriving.
	Arriving func(credential string, r io.Reader) (message io.Reader, done func())
}

// Limits bounds streams and what clients do not read. All limits are required.
// The server's configuration has a setting for each.
type Limits struct {
	Exports                    int // exports of one credential at a time
	Streams                    int // open streams of all credentials
	StreamsPerCredential       int // open streams of one credential
	Subscriptions              int // subscriptions of all WebSockets
	SubscriptionsPerCredential int // subscriptions of all WebSockets of one credential
	SubscriptionsPerConnection int // subscriptions of one WebSocket
	Fragments                  int // small frames that complete no message, from one WebSocket in a second

	UnreadBytes int64 // bytes of large messages and answers that clients have not read yet, in all
}

// Metrics counts streams and their messages, by family.
type Metrics struct {
	Open    func(family string) (closed func())
	Message func(family string) (count func())
	Stalled func() // called when a stream is closed because its client did not read

	// Lag returns a function for the streams of a family. A stream calls it
	// after each batch of events that it has written, with the age of the
	// oldest event in the batch. The stream leaves out events that are older
	// than the stream, because those are history. It may still hold back the
	// upsert of an event whose batch is measured.
	Lag func(family string) func(time.Duration)
}

// Streams serves every stream of a server. Its methods may be called
// concurrently.
type Streams struct {
	cfg       Config
	open      counter
	exports   counter
	follows   counter      // subscriptions of all WebSockets
	pages     atonce.Limit // pages of histories that are being read, by credential
	unread    unread
	deletions deletions
	encoded   encoded

	ctx  context.Context // ends with errShutdown, which ends all streams
	stop context.CancelCauseFunc
}

// New returns Streams. It starts no goroutines.
func New(cfg Config) *Streams {
	s := &Streams{cfg: cfg, pages: atonce.Limit{Most: PagesAtOnce}}
	s.unread.limit, s.unread.reached = cfg.Limits.UnreadBytes, func() { cfg.Reached("max-unread-mib") }
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	return s
}

// Deleted ends the streams of a session that was deleted.
func (s *Streams) Deleted(session string) { s.deletions.deleted(session) }

// End ends every open stream: a WebSocket with code 1001, an SSE stream at a
// frame boundary. Clients get the position to resume after. End returns once
// the streams have ended, or with ctx's error.
func (s *Streams) End(ctx context.Context) error {
	s.stop(errShutdown)
	return s.open.wait(ctx)
}

// Unread counts bytes that a client has not read yet, while they are being
// written; see [Limits.UnreadBytes]. It calls cut if the write has to be
// aborted; cut must not block. The caller calls end when the write has ended.
func (s *Streams) Unread(bytes int, cut func()) (end func()) { return s.unread.begin(bytes, cut) }

// Counts returns how many streams and exports are open, and how many sessions
// have streams that a deletion would end.
func (s *Streams) Counts() (streams, exports, sessions int) {
	return s.open.count(), s.exports.count(), s.deletions.count()
}

// reserve counts a new stream of the caller, or fails if there are too many.
// The caller calls leave when the stream has ended.
func (s *Streams) reserve(r *http.Request) (leave func(), err error) {
	id := access.Caller(r.Context()).ID
	l := s.cfg.Limits
	if err := s.open.add(id, total(l.Streams, "max-streams"), each(l.StreamsPerCredential, "max-streams-per-credential")); err != nil {
		return nil, s.refuse("open streams; close some", err)
	}
	return func() { s.open.remove(id) }, nil
}

// refuse counts that a limit was reached, and returns the error for it.
func (s *Streams) refuse(what string, reached *namedLimit) error {
	s.cfg.Reached(reached.setting)
	return reached.error(what)
}

// A namedLimit is a limit, the name of its setting, and the code of the error
// for a request that exceeds the limit.
type namedLimit struct {
	n       int
	setting string
	code    runnel.Code
}

// total returns a limit for all credentials together.
func total(n int, setting string) namedLimit { return namedLimit{n, setting, runnel.Overloaded} }

// each returns a limit for one credential or one connection.
func each(n int, setting string) namedLimit { return namedLimit{n, setting, runnel.RateLimited} }

func (m namedLimit) error(what string) error {
	return &runnel.Error{
		Code: m.code, Message: fmt.Sprintf("too many %s (%s: %d)", what, m.setting, m.n),
		Details: map[string]any{"limit": m.setting, "value": m.n},
	}
}

// A counter counts open streams, exports or subscriptions, in all and by
// credential.
type counter struct {
	mu   sync.Mutex
	n    int
	byID map[string]int
	idle chan struct{} // if non-nil, closed when n falls to zero
}

// add counts one more for a credential. If a limit is reached, add counts
// nothing and returns the limit.
func (c *counter) add(id string, all, each namedLimit) *namedLimit {
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

// wait returns once the count is zero, or with ctx's error.
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
