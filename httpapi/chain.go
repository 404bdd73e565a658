package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/store"
)

// Bounds of a request. The size of its headers is the http.Server's to bound.
const (
	maxTarget   = 8 << 10          // bytes of path and query
	bodyTimeout = 30 * time.Second // for the whole body to arrive
)

// caller is the identity of who sent a request; none for public routes.
type callerKey struct{}

func caller(ctx context.Context) auth.Identity {
	id, _ := ctx.Value(callerKey{}).(auth.Identity)
	return id
}

// ServeHTTP is the one chain that every request goes through, whatever it asks
// for: limits, Host, Origin, authentication, scope, handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sw := &statusWriter{ResponseWriter: w}
	began := time.Now()
	route := s.find(r)
	defer func() {
		if p := recover(); p != nil {
			s.panicked(sw, r, p)
		}
		s.metrics.request(route, sw.status, time.Since(began))
	}()
	secure(sw.Header())
	if err := s.limits(sw, r); err != nil {
		s.fail(sw, r, err)
		return
	}
	switch s.hosts.judge(r.Host) {
	case hostInvalid:
		s.fail(sw, r, refuse(http.StatusBadRequest, "the Host header is missing or malformed"))
		return
	case hostRefused:
		s.fail(sw, r, forbidden("runnel does not answer to this Host; use localhost or an address it listens on, or add the name to the allowed hosts"))
		return
	}
	if err := s.judgeOrigin(r); err != nil {
		s.fail(sw, r, err)
		return
	}
	if s.cors(sw, r) {
		return
	}
	r, err := s.authorize(sw, r, route)
	if err != nil {
		s.fail(sw, r, err)
		return
	}
	s.serve(sw, r, route)
}

// limits refuses what is too big or malformed before anything looks at it.
func (s *Server) limits(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Scheme != "" || r.URL.Host != "" || r.URL.User != nil || !strings.HasPrefix(r.RequestURI, "/") && r.RequestURI != "*" {
		// Its Host would be the target's, and the header we were sent is gone.
		return refuse(http.StatusBadRequest, "the request target must be a path")
	}
	if len(r.RequestURI) > maxTarget {
		return refuse(http.StatusRequestURITooLong, "the request target is too long")
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return refuse(http.StatusBadRequest, "a GET has no body")
	}
	// A slow body holds this connection no longer than that.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	return nil
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

// authorize finds out who sent r and whether they may use the route. The
// request it returns carries the identity.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request, rt *route) (*http.Request, error) {
	if rt.scope == "" {
		return r, nil
	}
	id, err := s.authenticate(w, r)
	if err != nil {
		return r, err
	}
	if !id.Has(rt.scope) {
		return r, s.lacks(r, rt.scope)
	}
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, id)), nil
}

// lacks says that the caller may not do what scope covers.
func (s *Server) lacks(r *http.Request, scope auth.Scope) error {
	if curbs(scope) && peerOf(r).Agent() {
		return s.refuseAgent(r, "it may not do what the scope "+string(scope)+" covers, whatever its token says")
	}
	return runnel.Fail(runnel.Forbidden, fmt.Sprintf("this credential lacks the scope %q", scope))
}

var errUnauthorized = errors.New("no usable credential")

func (s *Server) authenticate(w http.ResponseWriter, r *http.Request) (auth.Identity, error) {
	p := peerOf(r)
	if p.Unix() && len(r.Header.Values("Authorization")) == 0 {
		return s.onSocket(r, p)
	}
	kind, secret, err := credential(r)
	if err == nil && kind == store.TokenBrowser && p.Agent() {
		return auth.Identity{}, s.refuseAgent(r, "it may not use the login of a browser")
	}
	if err == nil {
		var id auth.Identity
		if id, err = s.keys.Check(r.Context(), kind, secret, remote(r)); err == nil {
			s.renew(w, r, id)
			return s.curbed(r, p, id)
		}
	}
	switch {
	case errors.Is(err, auth.ErrThrottled):
		s.metrics.refused("throttled")
		return auth.Identity{}, runnel.Fail(runnel.RateLimited, "too many wrong credentials from this address; wait a minute")
	case errors.Is(err, auth.ErrInvalid), errors.Is(err, errUnauthorized):
		s.metrics.refused("unauthorized")
		return auth.Identity{}, runnel.Fail(runnel.Unauthorized, "a credential is needed: open the page with `runnel login`, or send a token made with `runnel token create` as bearer token")
	}
	return auth.Identity{}, runnel.Fail(runnel.StoreUnavailable, "credentials cannot be looked up now; see the server's log", err)
}

// credential returns what r presents. More than one of a kind is none.
func credential(r *http.Request) (kind store.TokenKind, secret string, err error) {
	if headers := r.Header.Values("Authorization"); len(headers) > 0 {
		scheme, token, ok := strings.Cut(headers[0], " ")
		if len(headers) > 1 || !ok || !strings.EqualFold(scheme, "Bearer") {
			return "", "", errUnauthorized
		}
		return store.TokenAPI, token, nil
	}
	if cookies, key := r.CookiesNamed(cookieName), pageKey(r); len(cookies) == 1 && key != "" {
		return store.TokenBrowser, auth.Halves{Cookie: cookies[0].Value, Key: key}.Secret(), nil
	}
	return "", "", errUnauthorized
}

// remote returns the caller's address; the zero one where it has none. Agents
// share that, so that their guesses do not lock out their user.
func remote(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || peerOf(r).Agent() {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

// panicked answers a request whose handler panicked. Neither the answer nor
// the log holds the value of the panic: it may be anything.
func (s *Server) panicked(w *statusWriter, r *http.Request, p any) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	id := newID()
	s.log.LogAttrs(r.Context(), slog.LevelError, "handler panicked",
		slog.String("errorId", id), slog.String("panicType", fmt.Sprintf("%T", p)), slog.String("stack", string(debug.Stack())))
	if w.status != 0 {
		panic(http.ErrAbortHandler) // the answer has begun: cut it off, so that it does not look whole
	}
	s.answer(w, http.StatusInternalServerError, errorBody{problem{
		runnel.Internal, "internal error; the server's log has the details under this id", map[string]string{"errorId": id}}})
}

// statusWriter remembers whether and how an answer began.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap serves http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
