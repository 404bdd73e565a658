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

// statusWriter remembers whether and how an answer began.
type statusWriter struct {
	http.ResponseWriter
	head   bool // the answer has no body
	status int
	watch  *watch                                   // of a request with a credential
	unread func(bytes int, cut func()) (end func()) // see Streams.Unread; nil: writes are not counted

	// shared says that the connection is HTTP/2's. There a deadline that
	// passes ends the request although nothing is being written: it may run
	// only while something is.
	shared bool

	// sever closes the connection. A client that reads nothing from it keeps a
	// stream of HTTP/2 from being reset, and its writes from ending.
	sever func()

	mu       sync.Mutex
	deadline time.Time   // of the handler, where the connection is shared
	stuck    *time.Timer // while something is written to a shared connection: calls sever
}

// resetTime is how long after its deadline a write over HTTP/2 may end by the
// reset of its stream.
const resetTime = farewell / 2

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

// cut ends a write.
func (w *statusWriter) cut() { _ = w.SetWriteDeadline(time.Now()) }

// SetWriteDeadline sets that of the answer.
func (w *statusWriter) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	if w.shared && w.stuck == nil && t.After(time.Now()) {
		return nil
	}
	return w.setWriteDeadline(t)
}

// hasten severs the connection if what is being written to it does not end with
// the deadline t.
func (w *statusWriter) hasten(t time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit(t)
}

// limit has what is being written end soon after t, at the latest. The caller
// holds w.mu.
func (w *statusWriter) limit(t time.Time) {
	if w.stuck != nil && !t.IsZero() {
		w.stuck.Reset(time.Until(t) + resetTime)
	}
}

// bounded has the deadline run, where the connection is shared, until done is
// called.
func (w *statusWriter) bounded() (done func()) {
	if !w.shared {
		return func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stuck = time.AfterFunc(reply.Timeout+resetTime, w.sever)
	_ = w.setWriteDeadline(w.deadline)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stuck.Stop()
		w.stuck = nil
		_ = w.setWriteDeadline(time.Time{})
	}
}

// finish bounds the writing of what is left of the answer, which net/http does
// once the handler has returned.
func (w *statusWriter) finish() {
	if w.shared && w.status != 0 {
		_ = w.setWriteDeadline(time.Now().Add(reply.Timeout))
	}
}

// setWriteDeadline sets that of the connection, or of the request's part of it.
// The caller holds w.mu, or the handler has returned.
func (w *statusWriter) setWriteDeadline(t time.Time) (err error) {
	if w.watch == nil {
		err = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(t)
	} else {
		t, err = w.watch.setWriteDeadline(t)
	}
	w.limit(t)
	return err
}

// FlushError serves http.ResponseController, like the next two.
func (w *statusWriter) FlushError() error {
	if w.watch.over() {
		return auth.ErrEnded
	}
	defer w.bounded()()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack leaves the connection to its new owner, who sees to its credential.
func (w *statusWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.watch != nil {
		w.watch.leave()
	}
	if w.watch.over() {
		return nil, nil, auth.ErrEnded
	}
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// Unwrap serves http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
