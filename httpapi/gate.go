package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/browser"
	"github.com/runnel-dev/runnel/httpapi/conns"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/store"
)

// A gate authenticates callers and checks their scopes.
type gate struct {
	keys    *auth.Keyring
	cookies browser.Cookies
	metrics *metrics
	audit   auditor
	log     *slog.Logger
	proxied bool // a proxy in front of the server reports the addresses of clients
}

// authorize authenticates the caller of r and checks that it has the scope of
// the route. The returned request carries the caller's identity.
func (g *gate) authorize(w http.ResponseWriter, r *http.Request, rt *route) (*http.Request, error) {
	if rt.scope == "" {
		return r, nil
	}
	id, err := g.authenticate(w, r)
	if err != nil {
		return r, err
	}
	conns.Authenticated(r)
	r = r.WithContext(access.WithCaller(g.audit.recording(r, g.remote(r)), id))
	if !id.Has(rt.scope) {
		if browser.PeerOf(r).Agent() {
			closeAfterAnswer(w)
		}
		return r, g.lacks(r, rt.scope)
	}
	return r, nil
}

// lacks returns the error for a caller without the scope.
func (g *gate) lacks(r *http.Request, scope auth.Scope) error {
	if deniedToAgents(scope) && browser.PeerOf(r).Agent() {
		return g.refuseAgent(r, "it may not do what the scope "+string(scope)+" covers, whatever its token says")
	}
	id := access.Caller(r.Context())
	g.audit.refused(rejected{"a credential without the scope " + string(scope), id.ID, id.Name}, g.remote(r))
	return runnel.Fail(runnel.Forbidden, fmt.Sprintf("this credential lacks the scope %q", scope))
}

var errUnauthorized = errors.New("no usable credential")

func (g *gate) authenticate(w http.ResponseWriter, r *http.Request) (auth.Identity, error) {
	p := browser.PeerOf(r)
	if p.Unix() && len(r.Header.Values("Authorization")) == 0 {
		return g.onSocket(w, r, p)
	}
	kind, secrets, err := credential(r)
	if err == nil && kind == store.TokenBrowser {
		if err := g.admitBrowser(w, r); err != nil {
			return auth.Identity{}, err
		}
	}
	if err == nil {
		var id auth.Identity
		secret := g.keys.Known(r.Context(), kind, secrets)
		if id, err = g.keys.Check(r.Context(), kind, secret, g.remote(r)); err == nil {
			g.renew(w, r, id, secret)
			return g.restrictAgent(w, r, p, id)
		}
	}
	switch {
	case errors.Is(err, auth.ErrThrottled):
		g.metrics.refused("throttled")
		g.audit.refused(rejected{why: "too many wrong credentials"}, g.remote(r))
		return auth.Identity{}, runnel.Fail(runnel.RateLimited, "too many wrong credentials; a valid one is accepted at once, and others again after a minute")
	case errors.Is(err, auth.ErrInvalid):
		g.metrics.refused("unauthorized")
		g.audit.refused(rejected{why: "a credential that is unknown, expired or revoked"}, g.remote(r))
		return auth.Identity{}, runnel.Fail(runnel.Unauthorized, "this credential is unknown, expired or revoked: open the page with `runnel login`, or send a token made with `runnel token create` as bearer token")
	case errors.Is(err, errUnauthorized):
		g.metrics.refused("unauthorized")
		return auth.Identity{}, runnel.Fail(runnel.Unauthorized, "a credential is needed: open the page with `runnel login`, or send a token made with `runnel token create` as bearer token")
	}
	return auth.Identity{}, runnel.Fail(runnel.StoreUnavailable, "credentials cannot be looked up now; see the server's log", err)
}

// credential returns the kind of the credential in r and at least one candidate
// for its secret. Two tokens or two keys are an error. There may be several
// cookies, because programs on other ports of the page's host can set some.
func credential(r *http.Request) (kind store.TokenKind, secrets []string, err error) {
	if headers := r.Header.Values("Authorization"); len(headers) > 0 {
		scheme, token, ok := strings.Cut(headers[0], " ")
		if len(headers) > 1 || !ok || !strings.EqualFold(scheme, "Bearer") {
			return "", nil, errUnauthorized
		}
		return store.TokenAPI, []string{token}, nil
	}
	key, cookies := browser.PageKey(r), r.CookiesNamed(browser.CookieName)
	if key == "" || len(cookies) == 0 {
		return "", nil, errUnauthorized
	}
	if !auth.IsSecret(key) { // wrong with every cookie, and it may be long
		cookies = cookies[:1]
	}
	for _, c := range cookies {
		secrets = append(secrets, auth.Halves{Cookie: c.Value, Key: key}.Secret())
	}
	return store.TokenBrowser, secrets, nil
}

// remote returns the caller's address, by which wrong credentials are counted.
// Agents get the zero address, so that their wrong guesses do not count against
// the user.
//
// Behind a proxy the address is the last one in X-Forwarded-For, which the
// proxy itself added. The caller may have sent those before it.
func (g *gate) remote(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || browser.PeerOf(r).Agent() {
		return netip.Addr{}
	}
	if lines := r.Header.Values("X-Forwarded-For"); g.proxied && len(lines) > 0 {
		all := lines[len(lines)-1]
		last := strings.TrimSpace(all[strings.LastIndexByte(all, ',')+1:])
		if from, err := netip.ParseAddr(last); err == nil {
			return from.Unmap()
		}
		if from, err := netip.ParseAddrPort(last); err == nil {
			return from.Addr().Unmap()
		}
	}
	return ap.Addr().Unmap()
}

// renew records that a credential is in use. It extends the life of a browser's
// credential and then sends its cookie again.
func (g *gate) renew(w http.ResponseWriter, r *http.Request, id auth.Identity, secret string) {
	again, err := g.keys.Renew(r.Context(), id)
	if err != nil {
		g.log.LogAttrs(r.Context(), slog.LevelWarn, "credential not renewed", slog.String("error", reply.Bounded(err.Error())))
	}
	if again {
		http.SetCookie(w, g.cookies.Make(r, auth.SplitHalves(secret).Cookie, auth.BrowserLife))
	}
}

// onSocket returns the identity of a caller on the unix socket that sent no
// token.
func (g *gate) onSocket(w http.ResponseWriter, r *http.Request, p *auth.Peer) (auth.Identity, error) {
	if id, ok := p.Identity(); ok {
		return id, nil
	}
	closeAfterAnswer(w)
	return auth.Identity{}, g.refuseAgent(r, "it may not use the unix socket without a token; nor may another user, or a process in a container, which can use a token over TCP")
}

// restrictAgent restricts a caller that an agent started. It rejects a token
// that is not bound to one project, and removes the scopes with which an agent
// could answer its own approvals or create tokens.
func (g *gate) restrictAgent(w http.ResponseWriter, r *http.Request, p *auth.Peer, id auth.Identity) (auth.Identity, error) {
	if !p.Agent() {
		return id, nil
	}
	if id.Project == "" {
		closeAfterAnswer(w)
		return auth.Identity{}, g.refuseAgent(r, "it may use only a token that is for one project, made with `runnel token create --project`")
	}
	id.Scopes = slices.DeleteFunc(slices.Clone(id.Scopes), deniedToAgents) // a copy, because the original is shared
	return id, nil
}

// deniedToAgents reports whether processes that an agent started never have a
// scope.
func deniedToAgents(sc auth.Scope) bool { return sc == auth.Approve || sc == auth.Admin }

// admitBrowser rejects callers that cannot be a browser of the server's user:
// processes that an agent started, and programs of other users of this machine.
// Such a program may have received the credential of an open tab while it
// listened on our port. Behind a proxy every caller is the proxy, so users are
// not compared.
func (g *gate) admitBrowser(w http.ResponseWriter, r *http.Request) error {
	switch {
	case browser.PeerOf(r).Agent():
		closeAfterAnswer(w)
		return g.refuseAgent(r, "it may not log in, or use the login of a browser")
	case !g.cookies.Proxied && browser.FromOtherUser(r):
		closeAfterAnswer(w)
		g.metrics.refused("user")
		g.audit.refused(rejected{why: "a browser of another user of this machine"}, g.remote(r))
		g.log.LogAttrs(r.Context(), slog.LevelWarn, "refused a browser of another user", slog.String("method", method(r)), slog.String("path", reply.Bounded(r.URL.Path)))
		return runnel.Fail(runnel.Forbidden, "a program of another user of this machine may not use a browser's login: run the server as the user of the browser, or, if this is a proxy, start the server with --proxied")
	}
	return nil
}

// refuseAgent returns the error for a process that an agent may have started,
// and logs the request for the operator.
func (g *gate) refuseAgent(r *http.Request, why string) error {
	g.metrics.refused("agent")
	g.audit.refused(rejected{why: "a process that an agent may have started: " + method(r) + " " + r.URL.Path}, g.remote(r))
	g.log.LogAttrs(r.Context(), slog.LevelWarn, "refused a process that an agent may have started", slog.String("method", method(r)), slog.String("path", reply.Bounded(r.URL.Path)))
	return runnel.Fail(runnel.Forbidden, "this process was started by an agent, or hides who started it: "+why)
}

// closeAfterAnswer closes the connection after the answer, so that the next
// request comes over a new one. The process at the other end is identified once
// for each connection. It may have been rejected only because the server had no
// file descriptors left to identify it.
func closeAfterAnswer(w http.ResponseWriter) { w.Header().Set("Connection", "close") }
