package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/httpapi/access"
)

// farewell is how long a write goes on whose credential has ended, and how long
// the client has to take the error.
const farewell = 500 * time.Millisecond

// served has the route's handler answer r, which authorize has let through.
// Once the caller's credential ends, nothing more is read from the client, and
// of the answer nothing more is written: a client whose answer has not begun
// gets a 401.
func (s *Server) served(w *statusWriter, r *http.Request, rt *route) {
	if rt.scope == "" {
		s.router.serve(w, r, rt)
		return
	}
	bound, unbind := s.gate.keys.Bind(r.Context(), access.Caller(r.Context()))
	defer unbind()
	wt := &watch{bound: bound, rc: http.NewResponseController(w.ResponseWriter), answers: rt.endsOwn}
	ended := make(chan struct{})
	unwatch := context.AfterFunc(bound, func() {
		defer close(ended)
		w.hasten(wt.hasten())
	})
	wt.leave = sync.OnceFunc(func() {
		if !unwatch() {
			<-ended // over HTTP/2 hasten must not use the writer after the handler
		}
	})
	w.watch = wt
	defer wt.leave()
	if wt.ended() {
		wt.hasten()
	}
	req := r
	if !rt.endsOwn {
		req = r.WithContext(bound)
	}
	if r.Body != nil {
		req.Body = &watchedBody{r.Body, wt}
	}
	s.router.serve(w, req, rt)
	if r.ProtoMajor == 1 && r.ContentLength != 0 && !wt.read && w.status != 0 {
		_ = w.FlushError() // before net/http reads the rest of the body
	}
	wt.leave()
	if !wt.over() {
		return
	}
	if w.status != 0 {
		panic(http.ErrAbortHandler) // the answer has begun: cut it off, so that it does not look whole
	}
	wt.hasten()
	wt.answers = true
	clear(w.Header())
	secure(w.Header())
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close") // what is left of the body
	}
	s.gate.metrics.refused("unauthorized")
	s.reply.Error(w, r, runnel.Fail(runnel.Unauthorized, "the credential was revoked or has expired while the request was served"))
}

// A watch keeps a request from outliving its credential. The handler's
// goroutine uses it while another one calls hasten.
type watch struct {
	bound   context.Context          // ends when the credential ends or the client disconnects
	rc      *http.ResponseController // for the deadlines of the request
	leave   func()                   // prevents later calls of hasten, and waits for a running one
	answers bool                     // write the response even then, since the request may have ended its own credential

	mu    sync.Mutex
	until time.Time // latest deadline of a write, once hasten has run; zero before
	read  bool      // the body has arrived
}

// hasten interrupts what reads and writes once the credential has ended. It
// returns the latest deadline of a write; zero if there is none.
func (wt *watch) hasten() time.Time {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	if !wt.ended() || !wt.until.IsZero() {
		return wt.until
	}
	now := time.Now()
	wt.until = now.Add(farewell)
	_ = wt.rc.SetWriteDeadline(wt.until)
	if !wt.read {
		_ = wt.rc.SetReadDeadline(now)
	}
	return wt.until
}

// ended reports whether the credential has ended, at once when it does.
func (wt *watch) ended() bool { return errors.Is(context.Cause(wt.bound), auth.ErrEnded) }

// over reports whether the answer may not go on.
func (wt *watch) over() bool { return wt != nil && !wt.answers && wt.ended() }

// SetReadDeadline sets that of the request's body.
func (w *statusWriter) SetReadDeadline(t time.Time) error {
	if w.watch == nil {
		return http.NewResponseController(w.ResponseWriter).SetReadDeadline(t)
	}
	w.watch.mu.Lock()
	defer w.watch.mu.Unlock()
	if !w.watch.until.IsZero() && !w.watch.read {
		return auth.ErrEnded
	}
	return w.watch.rc.SetReadDeadline(t)
}

// setWriteDeadline sets that of the answer, but no later than hasten did. It
// returns which it has set.
func (wt *watch) setWriteDeadline(t time.Time) (time.Time, error) {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	if !wt.until.IsZero() && (t.IsZero() || t.After(wt.until)) {
		t = wt.until
	}
	return t, wt.rc.SetWriteDeadline(t)
}

// A watchedBody is a body that ends with the credential, also what has arrived
// of it and was not read.
type watchedBody struct {
	io.ReadCloser
	watch *watch
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.watch.mu.Lock()
	defer b.watch.mu.Unlock()
	if b.watch.ended() && !b.watch.read {
		return 0, auth.ErrEnded
	}
	b.watch.read = b.watch.read || errors.Is(err, io.EOF)
	return n, err
}
