package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/httpapi/conns"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

// sse writes the frames of a stream of server-sent events. Each write has
// its own deadline, so that the stream of a client that reads nothing ends.
type sse struct {
	ctx   context.Context // of the stream
	w     http.ResponseWriter
	rc    *http.ResponseController
	stall time.Duration
	count func() // counts a message
	stuck func() // counts a stream whose client read nothing
	lag   lagMeter

	encoded *encoded

	buf    []byte    // what was not written yet; nil if pooled is nil
	pooled *[]byte   // the buffer of buf, from buffers
	wrote  time.Time // of the last write; zero before the first

	direct *conns.Sender // writes without waiting; nil if that is impossible
	chunk  bool          // the buffer begins with room for the header of a chunk, and add does not flush it
	full   bool          // direct has left something
}

// stream begins an SSE answer. The caller has called reserve, and calls stop at
// the end. The returned context ends with the request or the caller's
// credential, when the session is deleted, and when the server shuts down.
func (s *Streams) stream(w http.ResponseWriter, r *http.Request, session, family string) (*sse, context.Context, func()) {
	ctx, cancel := context.WithCancelCause(r.Context())
	unhook := context.AfterFunc(s.ctx, func() { cancel(errShutdown) })
	forget := s.deletions.add(session, cancel)
	closed := s.cfg.Metrics.Open(family)
	out := &sse{
		ctx: ctx, w: w, rc: http.NewResponseController(w), stall: s.cfg.WriteStall,
		count: s.cfg.Metrics.Message(family), stuck: s.cfg.Metrics.Stalled,
		lag: s.lagOf(family), encoded: &s.encoded,
	}
	out.direct = conns.Unwrapped(r)
	hastened := make(chan struct{})
	unhasten := context.AfterFunc(ctx, func() {
		defer close(hastened)
		out.setFinalDeadline()
	})
	stop := func() {
		if !unhasten() {
			<-hastened // over HTTP/2 the writer must not be used once the handler has returned
		}
		forget()
		unhook()
		cancel(nil)
		closed()
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform") // proxies must forward every frame at once and unchanged
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	return out, ctx, stop
}

// setFinalDeadline sets the write deadline of a stream that has ended:
// goodbyeTime from now, or now if the credential has ended.
func (e *sse) setFinalDeadline() {
	deadline := time.Now()
	if !errors.Is(context.Cause(e.ctx), auth.ErrEnded) {
		deadline = deadline.Add(goodbyeTime)
	}
	_ = e.rc.SetWriteDeadline(deadline)
}

// goodbyeTime is how long a client has to read its goodbye frame.
const goodbyeTime = time.Second

// frame adds a frame to the buffer, and flushes a full buffer. A frame with a
// seq of zero has no id. JSON contains no line breaks, so the data is one line.
func (e *sse) frame(seq int64, name string, data any) error {
	b := e.begin(seq, name)
	text, err := json.Marshal(data)
	return e.add(append(b, text...), err)
}

// event adds the frame of an event.
func (e *sse) event(ev event.Event) error {
	b, err := e.encoded.append(e.begin(ev.Seq, event.Type(ev.Body)), ev)
	return e.add(b, err)
}

// begin returns the buffer with the beginning of a frame.
func (e *sse) begin(seq int64, name string) []byte {
	b := e.buffer()
	if seq > 0 {
		b = strconv.AppendInt(append(b, "id: "...), seq, 10)
		b = append(b, '\n')
	}
	b = append(append(b, "event: "...), name...)
	return append(b, "\ndata: "...)
}

// add ends the frame at the end of b, the buffer, and flushes a full buffer. err
// is the error with which the data was encoded.
func (e *sse) add(b []byte, err error) error {
	if err != nil {
		return fmt.Errorf("encode frame: %w", err)
	}
	e.buf = append(b, "\n\n"...)
	e.count()
	if len(e.buf) >= sseBuffer && !e.chunk {
		return e.flush()
	}
	return nil
}

const sseBuffer = 16 << 10 // bytes that are buffered before a write

// buffers are the buffers of streams. Most streams are idle, so a stream has a
// buffer only while it has something to write.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// beat adds a comment to the buffer, to keep proxies from closing a silent
// stream.
func (e *sse) beat() { e.buf = append(e.buffer(), ": \n\n"...) }

// buffer returns what was not written yet.
func (e *sse) buffer() []byte {
	if e.pooled == nil {
		e.pooled = buffers.Get().(*[]byte)
		e.buf = *e.pooled
	}
	return e.buf
}

// flush sends the buffer, and what an earlier tryFlush has left. It waits for
// the client, but not for long.
func (e *sse) flush() error {
	if len(e.buf) == 0 && !e.full {
		return nil
	}
	_ = e.rc.SetWriteDeadline(time.Now().Add(e.stall))
	if e.ctx.Err() != nil { // checked after setting the deadline, which may have replaced that of setFinalDeadline
		if e.setFinalDeadline(); errors.Is(context.Cause(e.ctx), auth.ErrEnded) {
			return auth.ErrEnded // write nothing more
		}
	}
	var err error
	if e.full {
		err = e.direct.Flush()
		e.full = false
	}
	if err == nil && len(e.buf) > 0 {
		_, err = e.w.Write(e.buf)
		e.release()
		if err == nil {
			err = e.rc.Flush()
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		e.stuck()
	}
	e.wrote = time.Now()
	return err
}

// chunkHeader is the room for the header of a chunk (RFC 9112, section 7.1): its
// size in hexadecimal digits and a line break.
const chunkHeader = 10

// beginChunk begins a buffer that tryFlush sends.
func (e *sse) beginChunk() {
	e.buf = append(e.buffer(), make([]byte, chunkHeader)...)
	e.chunk = true
}

// tryFlush sends the buffer without waiting, as one chunk of the body. If it
// returns false, flush has to send what is left.
func (e *sse) tryFlush() bool {
	e.chunk = false
	size := len(e.buf) - chunkHeader
	if size == 0 {
		e.release()
		return true
	}
	sent := false
	if e.ctx.Err() == nil && size < largeMessage {
		var digits [chunkHeader]byte
		header := append(strconv.AppendInt(digits[:0], int64(size), 16), "\r\n"...)
		start := chunkHeader - len(header)
		copy(e.buf[start:], header)
		e.buf = append(e.buf, "\r\n"...)
		if sent, e.full = e.direct.TryWrite(e.buf[start:]); !sent {
			e.buf, e.full = e.buf[:chunkHeader+size], false
		}
	}
	if !sent {
		e.buf = append(e.buf[:0], e.buf[chunkHeader:]...)
		return false
	}
	e.release()
	e.wrote = time.Now()
	return !e.full
}

// release gives the buffer back.
func (e *sse) release() {
	if cap(e.buf) <= 4*sseBuffer {
		*e.pooled = e.buf[:0]
		buffers.Put(e.pooled)
	}
	e.buf, e.pooled = nil, nil
}

// A Resume reports whether a client that resumes gets every event that it
// lacks.
type Resume struct {
	Status string `json:"status" enum:"ok,gap,reset"`
	From   int64  `json:"from,omitempty"`   // gap: the positions that are missing
	To     int64  `json:"to,omitempty"`     // gap
	Reason string `json:"reason,omitempty"` // reset: why the client begins again at zero
	LogID  string `json:"logId,omitempty" doc:"Id of the log that the positions belong to. A client sends it together with the position that it resumes after."`
}

// logID returns the id of the log; "" if the log has none.
func (s *Streams) logID() string {
	if log, ok := s.cfg.Gateway.Log().(runnel.Identified); ok {
		return log.LogID()
	}
	return ""
}

// judgeCursor decides how a client resumes. The client has the events up to
// position after. log is the id of the log to which that position belongs; ""
// means the log of this server. judgeCursor returns the decision and the
// position after which the stream begins.
func (s *Streams) judgeCursor(ctx context.Context, session string, after int64, log string) (Resume, int64, error) {
	st, err := s.cfg.Gateway.Log().State(ctx, session)
	if err != nil {
		return Resume{}, 0, runnel.Fail(runnel.StoreUnavailable, "the session's log cannot be read now; see the server's log", err)
	}
	own := s.logID()
	switch {
	case log != "" && after > 0 && log != own:
		return Resume{Status: "reset", Reason: "the position belongs to another log: the server's data was restored from a backup, or a power loss removed its newest events", LogID: own}, 0, nil
	case after > st.Head:
		return Resume{Status: "reset", Reason: "the position is beyond the end of this session's log", LogID: own}, 0, nil
	}
	return Resume{Status: "ok", LogID: own}, after, nil
}

// An openFrame is the first frame of a stream of events.
type openFrame struct {
	SessionID string `json:"sessionId"`
	Seq       int64  `json:"seq"`
	Resume    Resume `json:"resume"`
}

// cursor returns the position after which the stream of r begins.
func cursor(r *http.Request) (int64, error) {
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		return reply.ParseNumber("Last-Event-ID", last)
	}
	return reply.Number(r, "after", 0)
}

// Events streams a session's events unchanged.
func (s *Streams) Events(w http.ResponseWriter, r *http.Request) error {
	id, err := s.cfg.Sessions.Resolve(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	after, err := cursor(r)
	if err != nil {
		return err
	}
	verdict, after, err := s.judgeCursor(r.Context(), id, after, r.URL.Query().Get("logId"))
	if err != nil {
		return err
	}
	leave, err := s.reserve(r)
	if err != nil {
		return err
	}
	defer leave()
	out, ctx, stop := s.stream(w, r, id, "sse-events")
	defer stop()
	_ = out.frame(0, "stream:open", openFrame{id, after, verdict})
	err = s.follow(ctx, id, &after, out, func(ev event.Event) (bool, error) {
		return false, out.event(ev)
	})
	s.goodbye(out, id, after, err)
	return nil
}

// goodbye writes the last frame: why the server ends the stream, and the
// position to resume after. It writes nothing if the client or its credential
// ended the stream.
func (s *Streams) goodbye(out *sse, session string, after int64, err error) {
	m := endMessage{"stream:end", session, after, reasonShutdown, nil}
	e, known := errors.AsType[*runnel.Error](err)
	switch {
	case errors.Is(err, errShutdown):
	case known:
		p := s.cfg.Reply.Explain(out.ctx, e)
		m.Reason, m.Error = reasonError, &p
	default:
		return
	}
	_ = errors.Join(out.frame(0, m.Type, m), out.flush())
}

// follow passes each event after position *after to f, and moves *after, until
// f reports the last event. While there are no events, it writes comments to
// keep the stream open. Once ctx has ended, it writes nothing and returns the
// cause.
func (s *Streams) follow(ctx context.Context, session string, after *int64, out *sse, f func(event.Event) (last bool, err error)) error {
	feed, err := s.feed(ctx, session, *after)
	if err != nil {
		return err
	}
	t := &tracked{ctx: ctx, out: out, after: after, f: f}
	evs, err := feed.read(ctx) // without waiting, so that the client gets the head of the stream at once
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if t.pass(evs); t.over {
			return t.err // the caller flushes
		}
		if err := out.flush(); err != nil {
			return err
		}
		out.lag.wrote(out.lag.oldest(evs))
		if evs, err = t.next(feed, s.cfg.Heartbeat); t.over {
			return t.err
		}
	}
}

// tracked is a stream that passes the events of a session to f.
type tracked struct {
	ctx   context.Context
	out   *sse
	after *int64
	f     func(event.Event) (last bool, err error)
	over  bool  // f has reported the last event, or failed
	err   error // of f
}

// pass passes events to f.
func (t *tracked) pass(evs []event.Event) {
	for _, ev := range evs {
		last, err := t.f(ev)
		if t.over, t.err = last || err != nil, err; t.over {
			if last {
				t.out.lag.wrote(t.out.lag.oldest(evs))
			}
			return
		}
		*t.after = ev.Seq
	}
}

// next waits for events and returns them. After a pause it returns none, and
// has added a comment for the client.
func (t *tracked) next(feed *feed, heartbeat time.Duration) ([]event.Event, error) {
	for {
		if _, err := feed.wait(t.ctx, t.out.wrote.Add(heartbeat), t.taker()); err != nil || t.over {
			return nil, err
		}
		if err := t.out.flush(); err != nil { // what take has left
			return nil, err
		}
		evs, err := feed.read(t.ctx)
		if err == nil && len(evs) == 0 && time.Since(t.out.wrote) >= heartbeat {
			t.out.beat()
			return nil, nil
		}
		if err != nil || len(evs) > 0 {
			return evs, err
		}
	}
}

// taker returns the method take, if the connection can be written to without
// waiting.
func (t *tracked) taker() taker {
	if t.out.direct == nil || t.out.wrote.IsZero() {
		return nil
	}
	return t.take
}

// take is a [taker].
func (t *tracked) take(evs []event.Event) (more bool, due time.Time) {
	oldest := t.out.lag.oldest(evs)
	t.out.beginChunk()
	t.pass(evs)
	if !t.out.tryFlush() || t.over {
		return false, due
	}
	t.out.lag.wrote(oldest)
	return true, due
}
