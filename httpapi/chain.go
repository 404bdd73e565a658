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

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/browser"
	"github.com/runnel-dev/runnel/httpapi/conns"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

// Bounds of a request.
const (
	maxTarget     = 8 << 10          // bytes of path and query
	maxHeader     = 32 << 10         // bytes of header lines, without cookies
	maxPublicBody = 4 << 10          // bytes of the body, without a credential
	bodyTimeout   = 30 * time.Second // for the whole body to arrive
)

// ServeHTTP is the one chain that every request goes through, whatever it asks
// for: limits, Host, Origin, authentication, scope, handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sw := &statusWriter{ResponseWriter: w, head: r.Method == http.MethodHead, unread: s.streams.Unread, shared: r.ProtoMajor > 1, sever: func() { conns.Sever(r) }}
	began := time.Now()
	conns.Answering(r)
	route := s.router.find(r)
	if route.unread {
		sw.unread = nil
	}
	defer func() {
		if p := recover(); p != nil {
			s.panicked(sw, r, p)
		}
		s.metrics.request(route, sw.status, time.Since(began))
		sw.finish()
	}()
	secure(sw.Header())
	if err := limits(sw, r); err != nil {
		s.reply.Error(sw, r, err)
		return
	}
	host := s.hosts.Judge(r.Host)
	switch host {
	case browser.HostInvalid:
		s.reply.Error(sw, r, reply.Refuse(http.StatusBadRequest, "the Host header is missing or malformed"))
		return
	case browser.HostRefused:
		s.reply.Error(sw, r, browser.Forbidden("runnel does not answer to this Host; use localhost or an address it listens on, or add the name to the allowed hosts"))
		return
	}
	if browser.EndWorker(sw, r, host, route.page) {
		return
	}
	if err := s.origins.Judge(r, host); err != nil {
		s.reply.Error(sw, r, err)
		return
	}
	if route.page && host != browser.HostOfPage {
		s.reply.Error(sw, r, browser.NotOfPage())
		return
	}
	if s.origins.CORS(sw, r) {
		return
	}
	r, err := s.gate.authorize(sw, r, route)
	if err != nil {
		s.reply.Error(sw, r, err)
		return
	}
	r.Header.Del("Cookie") // up to a megabyte, which nobody reads from here on
	if route.scope == "" && r.Method == http.MethodPost {
		done, ok := conns.Public(r)
		if !ok {
			s.reply.Error(sw, r, runnel.Fail(runnel.RateLimited, "too many requests without a credential at once; wait until some are answered"))
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

// limits refuses what is too big or malformed before anything looks at it.
func limits(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Scheme != "" || r.URL.Host != "" || r.URL.User != nil || !strings.HasPrefix(r.RequestURI, "/") && r.RequestURI != "*" {
		// Its Host would be the target's, and the header we were sent is gone.
		return reply.Refuse(http.StatusBadRequest, "the request target must be a path")
	}
	if len(r.RequestURI) > maxTarget {
		return reply.Refuse(http.StatusRequestURITooLong, "the request target is too long")
	}
	if headerSize(r.Header) > maxHeader {
		return reply.Refuse(http.StatusRequestHeaderFieldsTooLarge, "the request has too many headers, or they are too long")
	}
	// By length: over HTTP/2 a request without a body has an empty one.
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return reply.Refuse(http.StatusBadRequest, "a GET has no body")
	}
	// A slow body holds this connection no longer than that.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	return nil
}

// headerSize counts names and values, without cookies: other programs of this
// machine can set some for the page's host, and would lock its user out.
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

// secure sets the headers that every answer has. The page needs no inline
// script, no inline style and nothing from elsewhere.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "+
		"connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// panicked answers a request whose handler panicked. Neither the answer nor
// the log holds the value of the panic: it may be anything.
func (s *Server) panicked(w *statusWriter, r *http.Request, p any) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	id := uuid.NewString()
	s.log.LogAttrs(r.Context(), slog.LevelError, "handler panicked",
		slog.String("errorId", id), slog.String("panicType", fmt.Sprintf("%T", p)), slog.String("stack", string(debug.Stack())))
	if w.status != 0 {
		panic(http.ErrAbortHandler) // the answer has begun: cut it off, so that it does not look whole
	}
	_ = reply.JSON(w, http.StatusInternalServerError, reply.ErrorBody{Error: reply.Hidden(id)}) // always encodes
}
