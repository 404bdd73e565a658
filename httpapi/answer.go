package httpapi

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

// statusWriter records whether the response has begun and with which status,
// and bounds how long writes may take.
type statusWriter struct {
	http.ResponseWriter
	head   bool // the request is a HEAD request, whose response has no body
	status int
	watch  *watch                                   // ends writes when the credential ends; nil for a request without a credential
	unread func(bytes int, cut func()) (end func()) // counts unread bytes, see Streams.Unread; nil: writes are not counted

	// shared reports that the connection uses HTTP/2, whose requests share it.
	// An expired write deadline then ends the request even if nothing is being
	// written, so the deadline is set only during a write.
	shared bool

	// closeConn closes the connection. If a client does not read from an HTTP/2
	// connection, its streams cannot be reset and writes to them do not end;
	// only closing the connection ends them.
	closeConn func()

	mu       sync.Mutex
	deadline time.Time   // set by the handler; applies only during writes if the connection is shared
	stuck    *time.Timer // calls closeConn; not nil only during a write to a shared connection
}

// resetTime is the time after a write deadline in which the reset of the HTTP/2
// stream may end the write. After that, the connection is closed.
const resetTime = revokedWriteTime / 2

func (w *statusWriter) WriteHeader(status int) {
	if w.watch.over() {
		return
	}
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.watch.over() {
		return 0, auth.ErrEnded
	}
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if w.unread != nil {
		defer w.unread(len(p), w.cut)()
	}
	defer w.bounded()()
	n, err := w.ResponseWriter.Write(p)
	if w.head { // over HTTP/2 a write fails once the header has been sent
		return len(p), nil
	}
	return n, err
}

// cut interrupts the current write.
func (w *statusWriter) cut() { _ = w.SetWriteDeadline(time.Now()) }

// SetWriteDeadline sets the write deadline of the response. On a shared
// connection, a future deadline applies only during writes.
func (w *statusWriter) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	if w.shared && w.stuck == nil && t.After(time.Now()) {
		return nil
	}
	return w.setWriteDeadline(t)
}

// limitWrite closes a shared connection if the current write does not end soon
// after the deadline t.
func (w *statusWriter) limitWrite(t time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit(t)
}

// limit moves the time at which closeConn is called to resetTime after t, if a
// write to a shared connection is running. The caller holds w.mu.
func (w *statusWriter) limit(t time.Time) {
	if w.stuck != nil && !t.IsZero() {
		w.stuck.Reset(time.Until(t) + resetTime)
	}
}

// bounded makes the write deadline apply until the caller calls done. It does
// nothing if the connection is not shared.
func (w *statusWriter) bounded() (done func()) {
	if !w.shared {
		return func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stuck = time.AfterFunc(reply.Timeout+resetTime, w.closeConn)
	_ = w.setWriteDeadline(w.deadline)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stuck.Stop()
		w.stuck = nil
		_ = w.setWriteDeadline(time.Time{})
	}
}

// start removes the write deadline that net/http has set for the whole response.
// Over HTTP/2, it would end a request that waits or a stream.
func (w *statusWriter) start() {
	if w.shared {
		_ = w.setWriteDeadline(time.Time{})
	}
}

// finish sets a deadline for the rest of an HTTP/2 response, which net/http
// writes after the handler has returned.
func (w *statusWriter) finish() {
	if w.shared && w.status != 0 {
		_ = w.setWriteDeadline(time.Now().Add(reply.Timeout))
	}
}

// setWriteDeadline sets the write deadline of the connection, or over HTTP/2 of
// the request's stream. The caller holds w.mu, or the handler has returned.
func (w *statusWriter) setWriteDeadline(t time.Time) (err error) {
	if w.watch == nil {
		err = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(t)
	} else {
		t, err = w.watch.setWriteDeadline(t)
	}
	w.limit(t)
	return err
}

// FlushError, Hijack and Unwrap are called by http.ResponseController.
func (w *statusWriter) FlushError() error {
	if w.watch.over() {
		return auth.ErrEnded
	}
	defer w.bounded()()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack passes the connection to the caller, who must end it when the
// credential ends.
func (w *statusWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.watch != nil {
		w.watch.stop()
	}
	if w.watch.over() {
		return nil, nil, auth.ErrEnded
	}
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// Unwrap returns the wrapped writer.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
