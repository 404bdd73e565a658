package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/browser"
	"github.com/runnel-dev/runnel/httpapi/conns"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

// Bounds of a request.
const (
	maxTarget     = 8 << 10          // bytes of path and query
	maxHeader     = 32 << 10         // bytes of header names and values, without cookies
	maxPublicBody = 4 << 10          // bytes of the body of a request without a credential
	bodyTimeout   = 30 * time.Second // for the whole body to arrive
)

// ServeHTTP handles every request by the same chain of checks: limits, Host,
// Origin, authentication, scope. Then it calls the handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sw := &statusWriter{ResponseWriter: w, head: r.Method == http.MethodHead, unread: s.streams.Unread, shared: r.ProtoMajor > 1, closeConn: func() { conns.CloseConn(r) }}
	began := time.Now()
	sw.start()
	conns.Answering(r)
	r = s.hosts.WithoutBase(r)
	route := s.router.find(r)
	if route.unread {
		sw.unread = nil
	}
	defer func() {
		p := recover()
		defer func() { // also if the answer is aborted
			s.metrics.request(route, sw.status, time.Since(began))
			sw.finish()
		}()
		if p != nil {
			s.panicked(sw, r, p)
		}
	}()
	secure(sw.Header())
	r, answered, err := s.admit(sw, r, route)
	if answered {
		return
	}
	browser.DropCookies(r)
	if err != nil {
		s.reply.Error(sw, r, err)
		return
	}
	if route.scope == "" && r.Method == http.MethodPost {
		done, ok := conns.Public(r, s.limits.UnauthenticatedRequests)
		if !ok {
			s.reply.Error(sw, r, s.metrics.refuse("max-unauthenticated-requests", int64(s.limits.UnauthenticatedRequests),
				"too many requests without a credential at once; wait until some are answered"))
			return
		}
		defer done()
		r.Body = http.MaxBytesReader(sw, r.Body, maxPublicBody)
	}
	if route.scope != "" {
		done, err := s.arriving.take(r, access.Caller(r.Context()).ID)
		if err != nil {
			s.reply.Error(sw, r, err)
			return
		}
		defer done()
	}
	s.served(sw, r, route)
}

// admit checks a request before its handler. It returns the request with the
// caller's identity, or the error for the client. answered is true if admit has
// answered the request itself.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, route *route) (admitted *http.Request, answered bool, err error) {
	if err := limits(w, r); err != nil {
		return r, false, err
	}
	host := s.hosts.JudgeRequest(r)
	switch {
	case host == browser.HostInvalid:
		return r, false, reply.NewError(http.StatusBadRequest, "the Host header is missing or malformed")
	case host == browser.HostRefused:
		return r, false, browser.Forbidden("runnel does not answer to this Host; use localhost or an address it listens on, or add the name with --hosts")
	case browser.EndWorker(w, r, host, route.page):
		return r, true, nil
	}
	if err := s.origins.Judge(r, host); err != nil {
		return r, false, err
	}
	if route.page && host != browser.HostOfPage {
		return r, false, browser.NotOfPage()
	}
	if s.origins.CORS(w, r) {
		return r, true, nil
	}
	r, err = s.gate.authorize(w, r, route)
	return r, false, err
}

// limits rejects a request that is too large or malformed, before all other
// checks.
func limits(w http.ResponseWriter, r *http.Request) error {
	// Check the length: over HTTP/2 a request without a body has a Body that is
	// empty, not nil.
	hasBody := r.ContentLength != 0 && r.Body != nil && r.Body != http.NoBody
	if hasBody {
		// A client that sends its body slowly cannot hold the connection for
		// longer, not even if the request is rejected: net/http reads the body
		// before it writes the answer.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	}
	if r.URL.Scheme != "" || r.URL.Host != "" || r.URL.User != nil || !strings.HasPrefix(r.RequestURI, "/") && r.RequestURI != "*" {
		// net/http replaces the Host header by the host of such a target, so
		// the header could not be checked.
		return reply.NewError(http.StatusBadRequest, "the request target must be a path")
	}
	if len(r.RequestURI) > maxTarget {
		return reply.NewError(http.StatusRequestURITooLong, "the request target is too long")
	}
	if headerSize(r.Header) > maxHeader {
		return reply.NewError(http.StatusRequestHeaderFieldsTooLarge, "the request has too many headers, or they are too long")
	}
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// A proxy that takes another length for a chunked body may send its end
		// as the next request. So this request is the last of its connection.
		w.Header().Set("Connection", "close")
	}
	if hasBody && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		return reply.NewError(http.StatusBadRequest, "a GET has no body")
	}
	return nil
}

// headerSize returns the bytes of names and values, without cookies. Cookies do
// not count because other programs of this machine can set some for the page's
// host, and so could lock its user out.
func headerSize(h http.Header) (n int) {
	for name, values := range h {
		for _, v := range values {
			if name != "Cookie" {
				n += len(name) + len(v)
			}
		}
	}
	return n
}

// panicked answers a request whose handler panicked. Neither the answer nor the
// log contains the value of the panic, because it may contain a secret.
func (s *Server) panicked(w *statusWriter, r *http.Request, p any) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	id := uuid.NewString()
	s.log.LogAttrs(r.Context(), slog.LevelError, "handler panicked",
		slog.String("errorId", id), slog.String("panicType", fmt.Sprintf("%T", p)), slog.String("stack", string(debug.Stack())))
	if w.status != 0 {
		panic(http.ErrAbortHandler) // the answer has begun: abort it, so that it does not look complete
	}
	_ = reply.JSON(w, http.StatusInternalServerError, reply.ErrorBody{Error: reply.Hidden(id)}) // cannot fail: it always encodes
}
