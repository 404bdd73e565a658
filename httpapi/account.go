package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/browser"
	"github.com/runnel-dev/runnel/httpapi/conns"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/push"
	"github.com/runnel-dev/runnel/store"
)

// Request and response bodies of the routes about callers and credentials.
type (
	meAnswer struct {
		ID     string          `json:"id,omitempty" doc:"Id of the credential, as in the list of credentials. Absent for a caller on the server's own socket."`
		Scopes []auth.Scope    `json:"scopes" doc:"What the credential permits."`
		Kind   store.TokenKind `json:"kind" enum:"api,browser,local" doc:"api: a token. browser: a login of the page. local: a caller on the server's own socket."`
		Name   string          `json:"name,omitempty" doc:"Name of the credential."`

		ProjectDir string `json:"projectDir,omitempty" doc:"The only directory whose sessions this credential can access. Absent: no limit."`
	}
	tokenRequest struct {
		Name     string   `json:"name" doc:"Name for people: one line of 1 to 100 bytes, without invisible characters."`
		Scopes   []string `json:"scopes" doc:"Any of read, send, approve and admin. The caller must have each of them itself."`
		LifeDays int      `json:"lifeDays,omitempty" doc:"Lifetime in days, 0 to 3650. Default: 0, which means until the token is revoked."`

		ProjectDir string `json:"projectDir,omitempty" doc:"Absolute path of a project. The token can then access only the sessions of that project. Default: all sessions."`
	}
	tokenAnswer struct {
		ID    string `json:"id" doc:"Id of the token, for revoking it."`
		Token string `json:"token" doc:"The token. The server never returns it again."`

		ExpiresAt *time.Time `json:"expiresAt,omitempty" doc:"Absent: the token does not expire. A token never outlives the credential that created it."`
	}
	tokenRow struct {
		ID         string          `json:"id" doc:"Id of the credential, for revoking it."`
		Kind       store.TokenKind `json:"kind" enum:"api,browser" doc:"api: a token. browser: a login of the page."`
		Name       string          `json:"name" doc:"Name of the credential."`
		Scopes     []string        `json:"scopes" doc:"What the credential permits."`
		ProjectDir string          `json:"projectDir,omitempty" doc:"The only directory whose sessions the credential can access. Absent: no limit."`
		Parent     string          `json:"parent,omitempty" doc:"Id of the credential that created this one. Revoking the parent revokes this credential, too."`
		CreatedAt  time.Time       `json:"createdAt"`
		LastUsedAt time.Time       `json:"lastUsedAt"`
		ExpiresAt  *time.Time      `json:"expiresAt,omitempty" doc:"Absent: the credential does not expire."`
	}
	tokenNameRequest struct {
		Name string `json:"name" doc:"New name for people: one line of 1 to 100 bytes, without invisible characters."`
	}
	tokensAnswer struct {
		Tokens []tokenRow `json:"tokens"`
	}
	codeRequest struct {
		NewOrigin bool `json:"newOrigin,omitempty" doc:"Move the page to a new origin first, which logs out every browser. Default: false."`
	}
	codeAnswer struct {
		URL  string `json:"url" doc:"Address of the page. The login link is URL/#c=CODE."`
		Code string `json:"code" doc:"One-time code for the fragment of the login link. It expires after one minute."`

		NetworkURL string `json:"networkUrl,omitempty" doc:"Address of the page for other devices of the local network. The same code works there instead. Absent: the server is not started with --lan, or the machine has no private address now."`
	}
)

// account holds the handlers about callers and their credentials: login,
// logout and tokens.
type account struct {
	keys    *auth.Keyring
	gate    *gate
	cookies browser.Cookies
	page    browser.Page  // nil without Config.Page
	network *Network      // nil without Config.Network
	version string        // version of the server
	push    *push.Service // nil without Config.Push
}

func (a *account) routes() []route {
	return []route{
		{method: http.MethodPost, path: "/api/login", page: true, name: "login", summary: "Log in a browser with a one-time code", about: "Sets a cookie and returns the key that requests must send together with it.",
			status: http.StatusOK, in: loginRequest{}, out: loginAnswer{}, fails: loginFails(), serve: a.login},
		{method: http.MethodPost, path: "/api/login/proof", page: true, name: "proveServer", summary: "Prove the server's identity to a browser", about: "Returns a proof that this is the server that the browser logged in to, so that it can send its key.",
			status: http.StatusOK, in: proofRequest{}, out: proofAnswer{}, fails: loginFails(), serve: a.prove},
		{method: http.MethodPost, path: "/api/logout", scope: auth.Read, endsOwn: true, name: "logout", summary: "Log out", about: "Revokes the credential of the calling browser and deletes its cookie. Has no effect on tokens.",
			status: http.StatusNoContent, in: reply.Empty{}, serve: a.logout},
		handle(route{path: "/api/me", scope: auth.Read, bound: true, name: "me", summary: "Get the calling credential and its scopes"}, a.me),
		handle(route{path: "/api/health", name: "health", summary: "Get server health"}, a.health),
		handleJSON(route{path: "/api/login/code", scope: auth.Admin, endsOwn: true, name: "createLoginCode", status: http.StatusCreated,
			summary: "Create a one-time login code", about: "The code logs in one browser and expires after one minute.", refused: []int{http.StatusConflict}}, a.createCode),
		handle(route{path: "/api/tokens", scope: auth.Admin, name: "listTokens", summary: "List credentials"}, a.listTokens),
		handleJSON(route{path: "/api/tokens", scope: auth.Admin, name: "createToken", status: http.StatusCreated,
			summary: "Create a token for a program"}, a.createToken),
		handleJSON(route{path: "/api/tokens/{id}/rename", scope: auth.Admin, name: "renameToken",
			summary: "Rename a credential", about: "For instance a login of the page, which begins with a name made from the browser's User-Agent."}, a.renameToken),
		handleJSON(route{path: "/api/tokens/{id}/revoke", scope: auth.Admin, endsOwn: true, name: "revokeToken",
			summary: "Revoke a credential", about: "Also revokes every credential that it created, and ends the streams that were opened with any of them."}, a.revokeToken),
	}
}

// loginFails returns the errors of the routes that a browser calls before it
// has logged in.
func loginFails() []runnel.Code {
	return []runnel.Code{runnel.Unauthorized, runnel.Forbidden, runnel.RateLimited, runnel.StoreUnavailable}
}

func (a *account) me(r *http.Request) (meAnswer, error) {
	id := access.Caller(r.Context())
	me := meAnswer{id.ID, id.Scopes, id.Kind, id.Name, id.Project}
	if id.Kind == auth.KindLocal {
		me.ID = ""
	}
	return me, nil
}

type healthAnswer struct {
	Status  string `json:"status" doc:"ok while the server runs."`
	Version string `json:"version" doc:"Version of the server."`
}

func (a *account) health(*http.Request) (healthAnswer, error) {
	return healthAnswer{"ok", a.version}, nil
}

func (a *account) createCode(r *http.Request, in codeRequest) (codeAnswer, error) {
	if a.page == nil || a.page.URL() == "" {
		return codeAnswer{}, reply.NewError(http.StatusConflict, "the page has no address that a browser can open: start the server with --origin and the page's URL")
	}
	if in.NewOrigin {
		if err := access.Record(r.Context(), audit.Record{Kind: audit.Revoked, What: "all logins of browsers, for a new origin of the page"}); err != nil {
			return codeAnswer{}, err
		}
		if err := a.renewOrigin(r.Context()); err != nil {
			return codeAnswer{}, err
		}
	}
	if err := access.Record(r.Context(), audit.Record{Kind: audit.LoginCode}); err != nil {
		return codeAnswer{}, err
	}
	code, err := a.keys.LoginCodeBy(r.Context(), access.Caller(r.Context()))
	if errors.Is(err, auth.ErrMakerEnded) {
		return codeAnswer{}, runnel.Fail(runnel.Unauthorized, err.Error())
	} else if err != nil {
		return codeAnswer{}, runnel.Fail(runnel.StoreUnavailable, "the code cannot be recorded now; see the server's log", err)
	}
	return codeAnswer{a.page.URL(), code, a.network.url()}, nil
}

// renewOrigin gives the page a new origin and revokes the credentials of all
// browsers: what a browser stored at its login belongs to the old origin.
func (a *account) renewOrigin(ctx context.Context) error {
	if a.page.Host() == "" {
		return reply.NewError(http.StatusConflict, "the page is only at the origins given with --origin, which cannot be renewed")
	}
	if err := a.page.Renew(); err != nil {
		return runnel.Fail(runnel.StoreUnavailable, "the new origin cannot be recorded now; see the server's log", err)
	}
	if err := a.keys.RevokeBrowsers(ctx); err != nil {
		return runnel.Fail(runnel.StoreUnavailable, "the page has a new origin, but the logins of browsers cannot be removed now; see the server's log", err)
	}
	return nil
}

func (a *account) createToken(r *http.Request, in tokenRequest) (tokenAnswer, error) {
	scopes, err := auth.ParseScopes(in.Scopes)
	if err != nil {
		return tokenAnswer{}, reply.Invalid("scopes: " + err.Error())
	}
	if wide := slices.IndexFunc(scopes, func(sc auth.Scope) bool { return !access.Caller(r.Context()).Has(sc) }); wide >= 0 {
		return tokenAnswer{}, runnel.Fail(runnel.Forbidden, "a credential can create only tokens with scopes that it has itself")
	}
	if err := auth.CheckName(in.Name); err != nil {
		return tokenAnswer{}, reply.Invalid("name: " + err.Error())
	}
	if in.LifeDays < 0 || in.LifeDays > 3650 {
		return tokenAnswer{}, reply.Invalid("lifeDays: want 0 to 3650")
	}
	grant := auth.Grant{Name: in.Name, Scopes: scopes, Life: time.Duration(in.LifeDays) * 24 * time.Hour, By: access.Caller(r.Context())}
	if in.ProjectDir != "" {
		if grant.Project, err = auth.ProjectDir(in.ProjectDir); err != nil {
			return tokenAnswer{}, reply.Invalid("projectDir: " + err.Error())
		}
	}
	if err := access.Record(r.Context(), audit.Record{Kind: audit.TokenCreated, What: grant.String()}); err != nil {
		return tokenAnswer{}, err
	}
	secret, t, err := a.keys.Create(r.Context(), grant)
	switch {
	case errors.Is(err, auth.ErrBoundAdmin):
		return tokenAnswer{}, reply.Invalid("scopes: " + err.Error())
	case errors.Is(err, auth.ErrMakerEnded):
		return tokenAnswer{}, runnel.Fail(runnel.Unauthorized, err.Error())
	case err != nil:
		return tokenAnswer{}, runnel.Fail(runnel.StoreUnavailable, "the token cannot be recorded now; see the server's log", err)
	}
	return tokenAnswer{t.ID, secret, end(t)}, nil
}

func (a *account) listTokens(r *http.Request) (tokensAnswer, error) {
	ts, err := a.keys.List(r.Context())
	if err != nil {
		return tokensAnswer{}, runnel.Fail(runnel.StoreUnavailable, "credentials cannot be read now; see the server's log", err)
	}
	out := tokensAnswer{Tokens: []tokenRow{}}
	for _, t := range ts {
		out.Tokens = append(out.Tokens, rowOf(t))
	}
	return out, nil
}

func rowOf(t store.Token) tokenRow {
	return tokenRow{t.ID, t.Kind, t.Name, t.Scopes, t.Project, t.Parent, t.CreatedAt, t.LastUsedAt, end(t)}
}

func (a *account) renameToken(r *http.Request, in tokenNameRequest) (tokenRow, error) {
	if err := auth.CheckName(in.Name); err != nil {
		return tokenRow{}, reply.Invalid("name: " + err.Error())
	}
	if err := access.Record(r.Context(), audit.Record{Kind: audit.Renamed, What: r.PathValue("id") + ": " + in.Name}); err != nil {
		return tokenRow{}, err
	}
	t, err := a.keys.Rename(r.Context(), r.PathValue("id"), in.Name)
	if errors.Is(err, store.ErrNotFound) {
		return tokenRow{}, errNoCredential
	}
	if err != nil {
		return tokenRow{}, runnel.Fail(runnel.StoreUnavailable, "the name cannot be recorded now; see the server's log", err)
	}
	return rowOf(t), nil
}

var errNoCredential = reply.NewError(http.StatusNotFound, "there is no such credential; GET /api/tokens lists the credentials")

// end returns when a credential expires, or nil if it never does.
func end(t store.Token) *time.Time {
	if t.ExpiresAt.IsZero() {
		return nil
	}
	return &t.ExpiresAt
}

func (a *account) revokeToken(r *http.Request, _ reply.Empty) (reply.Empty, error) {
	if err := access.Record(r.Context(), audit.Record{Kind: audit.Revoked, What: r.PathValue("id")}); err != nil {
		return reply.Empty{}, err
	}
	err := a.keys.Revoke(r.Context(), r.PathValue("id"))
	if errors.Is(err, store.ErrNotFound) {
		return reply.Empty{}, errNoCredential
	}
	if err != nil {
		return reply.Empty{}, runnel.Fail(runnel.StoreUnavailable, "the credential cannot be removed now; see the server's log", err)
	}
	return reply.Empty{}, nil
}

type (
	loginRequest struct {
		Code string `json:"code" doc:"The one-time code from the login link."`
	}
	loginAnswer struct {
		Key      string `json:"key" doc:"Value for the header Runnel-Key, which every request must send together with the cookie. The server never returns it again."`
		Login    string `json:"login" doc:"Id of the browser's new credential."`
		ProofKey string `json:"proofKey" doc:"Key of the proofs of POST /api/login/proof, in hexadecimal."`
	}
	proofRequest struct {
		Login string `json:"login" doc:"The login that POST /api/login returned."`
		Nonce string `json:"nonce" doc:"Fresh random text, 22 to 100 characters."`
	}
	proofAnswer struct {
		Proof string `json:"proof" doc:"HMAC-SHA256, in hexadecimal, with the proofKey as key. The message has three lines, joined by line feeds, with none at the end: the text runnel proof, the Origin of the request, and the nonce."`
	}
)

// login exchanges a one-time code for a cookie and a key. ServeHTTP has already
// rejected requests from pages of other sites by their Origin, so no other site
// can log the browser in.
func (a *account) login(w http.ResponseWriter, r *http.Request) error {
	if err := a.gate.admitBrowser(w, r); err != nil { // a login link may be visible in a terminal; only the user may use it
		return err
	}
	var in loginRequest
	if err := reply.Decode(w, r, &in); err != nil {
		return err
	}
	secret, id, err := a.keys.Redeem(r.Context(), in.Code, browser.DeviceName(r.UserAgent()), a.gate.remote(r))
	switch {
	case errors.Is(err, auth.ErrThrottled):
		return runnel.Fail(runnel.RateLimited, "too many wrong codes; make a new link with `runnel login`, which is accepted at once")
	case errors.Is(err, auth.ErrInvalid):
		return runnel.Fail(runnel.Unauthorized, "This link has expired or was already used. Get a new one with `runnel login`.")
	case err != nil:
		return runnel.Fail(runnel.StoreUnavailable, "the login cannot be recorded now; see the server's log", err)
	}
	conns.Authenticated(r)
	if err := a.gate.recordLogin(r, id); err != nil {
		return errors.Join(err, a.keys.Revoke(r.Context(), id.ID))
	}
	http.SetCookie(w, a.cookies.Make(r, secret.Cookie, auth.BrowserLife))
	return reply.JSON(w, http.StatusOK, loginAnswer{secret.Key, id.ID, auth.ProofKey(id)})
}

// prove proves to a browser tab that this server is the one that the browser
// logged in to. The tab asks before it sends any secret.
//
// The proof is valid only for the Origin that the browser sent. admitBrowser
// rejects other users, so a program of another user that forwards a tab's
// request to this server gets no proof.
func (a *account) prove(w http.ResponseWriter, r *http.Request) error {
	if err := a.gate.admitBrowser(w, r); err != nil {
		return err
	}
	var in proofRequest
	if err := reply.Decode(w, r, &in); err != nil {
		return err
	}
	origin := r.Header.Get("Origin") // ServeHTTP has checked it
	if origin == "" || len(in.Nonce) < 22 || len(in.Nonce) > 100 {
		return reply.Invalid("want an Origin header and a nonce of 22 to 100 characters")
	}
	proof, err := a.keys.Prove(r.Context(), in.Login, origin, in.Nonce)
	switch {
	case errors.Is(err, auth.ErrInvalid):
		return runnel.Fail(runnel.Unauthorized, "this browser's login has ended: open a new link, made with `runnel login`")
	case err != nil:
		return runnel.Fail(runnel.StoreUnavailable, "credentials cannot be looked up now; see the server's log", err)
	}
	return reply.JSON(w, http.StatusOK, proofAnswer{proof})
}

// logout revokes the caller's credential and deletes its cookie, if it is the
// credential of a browser. It has no effect on other credentials.
func (a *account) logout(w http.ResponseWriter, r *http.Request) error {
	if err := reply.Decode(w, r, new(reply.Empty)); err != nil {
		return err
	}
	id := access.Caller(r.Context())
	if id.Kind == store.TokenBrowser {
		if err := access.Record(r.Context(), audit.Record{Kind: audit.Logout}); err != nil {
			return err
		}
		if err := a.keys.Revoke(r.Context(), id.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
			return runnel.Fail(runnel.StoreUnavailable, "the logout cannot be recorded now; see the server's log", err)
		}
		gone := a.cookies.Make(r, "", 0)
		gone.MaxAge = -1
		http.SetCookie(w, gone)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
