package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
)

// sse writes frames of a stream of server-sent events. Each write has a
// deadline of its own; nothing waits in memory for a reader that takes nothing.
type sse struct {
	ctx   context.Context // of the stream
	w     http.ResponseWriter
	rc    *http.ResponseController
	stall time.Duration
	count func() // of a message
	stuck func() // of a reader that took nothing
	buf   []byte
}

// place takes a place for a stream of the caller, who gives it back with leave.
func (s *Server) place(r *http.Request) (leave func(), err error) {
	id := caller(r.Context()).ID
	if !s.streams.open(id, s.cfg.Streams, s.cfg.StreamsPerID) {
		return nil, runnel.Fail(runnel.RateLimited, "too many open streams; close some")
	}
	return func() { s.streams.close(id) }, nil
}

// stream begins an SSE answer, for which there is a place. The context it
// returns ends with the request, with the caller's credential and with the
// server; the caller calls stop.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, session, family string) (*sse, context.Context, func()) {
	id := caller(r.Context())
	bound, unbind := s.keys.Bind(r.Context(), id)
	ctx, cancel := context.WithCancelCause(bound)
	unhook := context.AfterFunc(s.ctx, func() { cancel(errShutdown) })
	forget := s.endings.add(session, cancel)
	closed := s.metrics.open(family)
	out := &sse{ctx: ctx, w: w, rc: http.NewResponseController(w), stall: s.cfg.WriteStall, stuck: s.metrics.stalled.Inc}
	unhurry := context.AfterFunc(ctx, out.hurry)
	stop := func() {
		unhurry()
		forget()
		unhook()
		cancel(nil)
		unbind()
		closed()
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	out.count = s.metrics.messages.WithLabelValues(family).Inc
	return out, ctx, stop
}

// hurry gives a write under way, whose stream is over, little more time; none if
// the credential has ended.
func (e *sse) hurry() {
	deadline := time.Now()
	if !errors.Is(context.Cause(e.ctx), auth.ErrEnded) {
		deadline = deadline.Add(farewellTime)
	}
	_ = e.rc.SetWriteDeadline(deadline)
}

// farewellTime is what a client has for the last that it is told.
const farewellTime = time.Second

// frame adds a frame to what the next flush writes. A seq of zero gives it no
// id. JSON has no line breaks, so the data is one line.
func (e *sse) frame(seq int64, name string, data any) error {
	body, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode frame: %w", err)
	}
	if seq > 0 {
		e.buf = append(e.buf, "id: "...)
		e.buf = strconv.AppendInt(e.buf, seq, 10)
		e.buf = append(e.buf, '\n')
	}
	e.buf = append(e.buf, "event: "...)
	e.buf = append(e.buf, name...)
	e.buf = append(e.buf, "\ndata: "...)
	e.buf = append(e.buf, body...)
	e.buf = append(e.buf, "\n\n"...)
	e.count()
	if len(e.buf) >= sseBuffer {
		return e.flush()
	}
	return nil
}

const sseBuffer = 64 << 10 // bytes gathered before a write

// beat adds a comment, which keeps proxies from closing a silent stream.
func (e *sse) beat() { e.buf = append(e.buf, ": \n\n"...) }

func (e *sse) flush() error {
	if len(e.buf) == 0 {
		return nil
	}
	_ = e.rc.SetWriteDeadline(time.Now().Add(e.stall))
	if e.ctx.Err() != nil { // looked at after the deadline was set: hurry may have come before
		if e.hurry(); errors.Is(context.Cause(e.ctx), auth.ErrEnded) {
			return auth.ErrEnded // nothing more
		}
	}
	_, err := e.w.Write(e.buf)
	if e.buf = e.buf[:0]; cap(e.buf) > 4*sseBuffer {
		e.buf = nil
	}
	if err == nil {
		err = e.rc.Flush()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		e.stuck()
	}
	return err
}

// A resume says whether a reader that comes back gets everything it lacks.
type resume struct {
	Status string `json:"status"`           // ok, gap or reset
	From   int64  `json:"from,omitempty"`   // gap: the positions that are gone
	To     int64  `json:"to,omitempty"`     // gap
	Reason string `json:"reason,omitempty"` // reset: why it begins anew
}

// judgeCursor says how a reader that has seen everything up to after goes on,
// and from where.
func (s *Server) judgeCursor(ctx context.Context, session string, after int64) (resume, int64, error) {
	st, err := s.gw.Log().State(ctx, session)
	if err != nil {
		return resume{}, 0, runnel.Fail(runnel.StoreUnavailable, "the session's log cannot be read now; see the server's log", err)
	}
	if after > st.Head {
		return resume{Status: "reset", Reason: "the position is beyond the end of this session's log"}, 0, nil
	}
	return resume{Status: "ok"}, after, nil
}

// opened is the first frame of a stream of events.
type openedFrame struct {
	SessionID string `json:"sessionId"`
	Seq       int64  `json:"seq"`
	Resume    resume `json:"resume"`
}

func (s *Server) streamRoutes() []route {
	cursor := []param{
		{name: "after", doc: "position after which to begin", number: true},
		{name: "Last-Event-ID", doc: "as after, and wins over it"},
	}
	return append([]route{
		{method: http.MethodGet, path: "/api/session/{id}/events", scope: auth.Read, name: "followEvents", summary: "Follow the session's events",
			params: cursor, status: http.StatusOK, stream: "text/event-stream", serve: s.followEvents},
		give(s, route{path: "/api/session/{id}/items", scope: auth.Read, name: "listItems",
			summary: "Read the session's history as whole items",
			params: []param{
				{name: "after", doc: "position after which to begin", number: true},
				{name: "limit", doc: "how many at most; 200 if absent", number: true},
			}}, s.items),
		{method: http.MethodGet, path: "/api/session/{id}/export", scope: auth.Read, name: "exportSession", summary: "Write the session down",
			params: []param{{name: "format", doc: "jsonl, md or html"}},
			status: http.StatusOK, stream: "application/octet-stream", serve: s.export},
		{method: http.MethodGet, path: "/api/ws", scope: auth.Read, bound: true, name: "connectWebSocket", summary: "Open the WebSocket",
			status: http.StatusSwitchingProtocols, stream: "application/octet-stream", serve: s.webSocket},
	}, s.harnessRoutes()...)
}

// cursor reads where r wants to begin.
func cursor(r *http.Request) (int64, error) {
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		return parseNumber("Last-Event-ID", last)
	}
	return number(r, "after", 0)
}

// followEvents streams a session's events as they are.
func (s *Server) followEvents(w http.ResponseWriter, r *http.Request) error {
	id, err := s.session(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	after, err := cursor(r)
	if err != nil {
		return err
	}
	verdict, after, err := s.judgeCursor(r.Context(), id, after)
	if err != nil {
		return err
	}
	leave, err := s.place(r)
	if err != nil {
		return err
	}
	defer leave()
	out, ctx, stop := s.stream(w, r, id, "sse-events")
	defer stop()
	_ = out.frame(0, "stream:open", openedFrame{id, after, verdict})
	err = s.follow(ctx, id, &after, out, func(ev event.Event) (bool, error) {
		return false, out.frame(ev.Seq, event.Type(ev.Body), ev)
	})
	s.farewell(out, id, after, err)
	return nil
}

// farewell tells a reader why its stream ends, unless it is the one who ends it,
// and that it has everything up to after.
func (s *Server) farewell(out *sse, session string, after int64, err error) {
	m := endMessage{"stream:end", session, after, reasonShutdown, nil}
	e, known := errors.AsType[*runnel.Error](err)
	switch {
	case errors.Is(err, errShutdown):
	case known:
		p := s.explain(out.ctx, e)
		m.Reason, m.Error = reasonError, &p
	default:
		return
	}
	_ = errors.Join(out.frame(0, m.Type, m), out.flush())
}

// follow passes each event after position *after to f, and moves that position,
// until f reports that the event was the last one. While there are no events it
// keeps the stream alive. Once ctx has ended it writes nothing and returns the
// cause.
func (s *Server) follow(ctx context.Context, session string, after *int64, out *sse, f func(event.Event) (last bool, err error)) error {
	feed, err := s.feed(ctx, session, *after)
	if err != nil {
		return err
	}
	evs, err := feed.read(ctx) // without waiting: the client gets the stream's head at once
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return errUnreadable(err)
		}
		for _, ev := range evs {
			last, err := f(ev)
			if err != nil || last {
				return err
			}
			*after = ev.Seq
		}
		if err := out.flush(); err != nil {
			return err
		}
		if evs, err = feed.next(ctx, time.Now().Add(s.cfg.Heartbeat)); err == nil && len(evs) == 0 {
			out.beat()
		}
	}
}

// session returns our id for what a reader called a session, if there is one.
func (s *Server) session(ctx context.Context, ref string) (string, error) {
	ref, err := s.mine(ctx, ref)
	if err != nil {
		return "", err
	}
	st, err := s.gw.Status(ctx, ref)
	return st.SessionID, err
}
