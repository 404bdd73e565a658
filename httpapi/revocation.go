package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/httpapi/access"
)

// revokedWriteTime is how long writes may continue after the credential has
// ended, so that the client can receive the error.
const revokedWriteTime = 500 * time.Millisecond

// served calls the handler of the route for a request that authorize has
// accepted. Once the caller's credential ends, the server reads no more of the
// request and writes no more of the response. If the response has not begun,
// the client receives a 401.
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
		w.limitWrite(wt.enforceEnd())
	})
	wt.stop = sync.OnceFunc(func() {
		if !unwatch() {
			<-ended // enforceEnd is running: over HTTP/2 nothing may use the writer once the handler has returned
		}
	})
	w.watch = wt
	defer wt.stop()
	if wt.ended() {
		wt.enforceEnd()
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
		_ = w.FlushError() // begin the response now, because net/http reads the rest of the body after the handler
	}
	wt.stop()
	if !wt.over() {
		return
	}
	if w.status != 0 {
		panic(http.ErrAbortHandler) // the response has begun: abort it, so that it does not look complete
	}
	wt.enforceEnd()
	wt.answers = true
	clear(w.Header())
	secure(w.Header())
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close") // the rest of the body stays unread
	}
	s.gate.metrics.refused("unauthorized")
	s.reply.Error(w, r, runnel.Fail(runnel.Unauthorized, "the credential was revoked or has expired while the request was served"))
}

// A watch ends a request when its credential ends. The handler's goroutine uses
// it while another goroutine may call enforceEnd.
type watch struct {
	bound   context.Context          // ends when the credential ends or the client disconnects
	rc      *http.ResponseController // for the deadlines of the request
	stop    func()                   // prevents later calls of enforceEnd, and waits for a running one
	answers bool                     // the request may end its own credential; its response is then written, too

	mu    sync.Mutex
	until time.Time // latest allowed write deadline, set by enforceEnd; zero before
	read  bool      // the body was read to its end
}

// enforceEnd interrupts reads of the request and bounds writes of the response
// once the credential has ended. It returns the latest allowed write deadline;
// zero if the credential is still valid.
func (wt *watch) enforceEnd() time.Time {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	if !wt.ended() || !wt.until.IsZero() {
		return wt.until
	}
	now := time.Now()
	wt.until = now.Add(revokedWriteTime)
	_ = wt.rc.SetWriteDeadline(wt.until)
	if !wt.read {
		_ = wt.rc.SetReadDeadline(now)
	}
	return wt.until
}

// ended reports whether the credential has ended. It is true as soon as that
// happens.
func (wt *watch) ended() bool { return errors.Is(context.Cause(wt.bound), auth.ErrEnded) }

// over reports whether the rest of the response must not be written.
func (wt *watch) over() bool { return wt != nil && !wt.answers && wt.ended() }

// SetReadDeadline sets the read deadline of the request's body.
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

// setWriteDeadline sets the write deadline of the response, but no later than
// the deadline that enforceEnd has set. It returns the deadline that applies.
func (wt *watch) setWriteDeadline(t time.Time) (time.Time, error) {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	if !wt.until.IsZero() && (t.IsZero() || t.After(wt.until)) {
		t = wt.until
	}
	return t, wt.rc.SetWriteDeadline(t)
}

// errBodyEnded is the error of a body whose credential ended before the body had
// arrived. For the handler, the time for the body is over.
var errBodyEnded = fmt.Errorf("%w: %w", auth.ErrEnded, os.ErrDeadlineExceeded)

// A watchedBody is a request body that fails once the credential has ended,
// even for bytes that have already arrived.
type watchedBody struct {
	io.ReadCloser
	watch *watch
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.watch.mu.Lock()
	defer b.watch.mu.Unlock()
	if b.watch.ended() && !b.watch.read {
		return 0, errBodyEnded
	}
	b.watch.read = b.watch.read || errors.Is(err, io.EOF)
	return n, err
}
