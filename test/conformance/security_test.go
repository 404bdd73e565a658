//go:build unix

package conformance

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The table security checks which credentials the server accepts from which
// page.
var _ = register(70, func() table {
	tab := table{
		name: "security", title: "Who gets in", file: "security_test.go",
		intro: "`GET /api/me` for each listener, credential and Origin. The unix socket is asked under the Host `localhost`, the loopback address under its own, and the page's address under " +
			"the page's name. `its own` is the origin of a page at that Host. No request has the headers of a browser's fetch metadata.",
		head: []string{"listener and credential", "Origin", "answer"},
	}
	g := new(gate)
	tab.setup = g.setup
	for _, listener := range []string{"the unix socket", "the loopback address", "the page's address"} {
		for _, credential := range []string{"no credential", "a token", "cookie and key", "the cookie alone", "the key alone"} {
			for _, origin := range []string{"none", "its own", "another site's", "null"} {
				status, typ := admission(listener, credential, origin)
				says := fmt.Sprint(status)
				if typ != "" {
					says += " " + typ
				}
				tab.add(listener+", "+credential, origin, says, func(t *testing.T) {
					a := g.ask(listener, credential, origin).get(t, "/api/me")
					if typ == "" {
						a.ok(t, status)
					} else {
						a.fails(t, status, typ)
					}
					equal(t, "Access-Control-Allow-Origin", a.header.Get("Access-Control-Allow-Origin"), "")
				})
			}
		}
	}
	return tab
})

// admission returns the response that the contract demands.
func admission(listener, credential, origin string) (status int, typ string) {
	cookie := strings.Contains(credential, "cookie")
	switch {
	case origin == "another site's", origin == "null":
		return http.StatusForbidden, "FORBIDDEN_ORIGIN"
	case cookie && listener != "the page's address": // another server on the host may have set the cookie
		return http.StatusForbidden, "FORBIDDEN_ORIGIN"
	case cookie && origin == "none": // nothing proves that the page sent the request
		return http.StatusForbidden, "FORBIDDEN_ORIGIN"
	case credential == "a token", credential == "cookie and key", listener == "the unix socket":
		return http.StatusOK, ""
	}
	return http.StatusUnauthorized, "UNAUTHORIZED"
}

// gate is shared by the rows of the tables about security.
type gate struct {
	server
	socket     client // connects over the unix socket, with the Host localhost
	socketPath string
	page       client // has the cookie and the key of a browser
	login      answer // response to that browser's login
}

func (g *gate) setup(t *testing.T) {
	g.start(t)
	g.socketPath = filepath.Join(g.Data, "api.sock")
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", g.socketPath)
	}
	g.socket = client{base: "http://localhost", http: &http.Client{Transport: &http.Transport{DialContext: dial}}, header: http.Header{}}
	g.page, g.login = g.browser(t)
}

// ask returns a client for the listener that sends the credential and the
// Origin.
func (g *gate) ask(listener, credential, origin string) client {
	var c client
	var own string
	switch listener {
	case "the unix socket":
		c, own = g.socket, "http://localhost"
	case "the loopback address":
		c, own = g.as(""), g.API
	default:
		c, own = g.asPage(), g.Page
	}
	if credential == "a token" {
		c = c.with("Authorization", g.header.Get("Authorization"))
	}
	if strings.Contains(credential, "cookie") {
		c = c.with("Cookie", g.page.header.Get("Cookie"))
	}
	if strings.Contains(credential, "key") {
		c = c.with("Runnel-Key", g.page.header.Get("Runnel-Key"))
	}
	return c.with("Origin", map[string]string{"none": "", "its own": own, "another site's": "http://evil.example", "null": "null"}[origin])
}

// The table guards checks further protections against other programs and other
// sites.
var _ = register(71, func() table {
	tab := table{
		name: "guards", title: "Hosts, cookies and the page", file: "security_test.go",
		intro: "What else keeps other programs and other sites out.",
		head:  []string{"subject", "condition", "result"},
	}
	g := new(gate)
	tab.setup = g.setup
	g.hostRows(&tab)
	g.cookieRows(&tab)
	g.pageRows(&tab)
	g.tokenRows(&tab)
	g.scopeRows(&tab)
	return tab
})

func (g *gate) hostRows(tab *table) {
	port := func() string { return g.API[strings.LastIndex(g.API, ":"):] }
	name := func() string { return strings.TrimSuffix(strings.TrimPrefix(g.Page, "http://"), port()) }
	for _, r := range []struct {
		host, says string
		status     int
		value      func() string
	}{
		{"127.0.0.1 with the port", "200", 200, func() string { return "127.0.0.1" + port() }},
		{"localhost with the port", "200", 200, func() string { return "localhost" + port() }},
		{"[::1] with the port", "200", 200, func() string { return "[::1]" + port() }},
		{"the page's name", "200", 200, func() string { return name() + port() }},
		{"the page's name with another port, as of a tunnel", "200", 200, func() string { return name() + ":9999" }},
		{"another site's name", "403 FORBIDDEN_ORIGIN", 403, func() string { return "evil.example" + port() }},
		{"another site's name that begins with 127.0.0.1", "403 FORBIDDEN_ORIGIN", 403, func() string { return "127.0.0.1.evil.example" + port() }},
		{"another site's name that begins with the page's", "403 FORBIDDEN_ORIGIN", 403, func() string { return name() + ".evil.example" + port() }},
		{"another name of localhost", "403 FORBIDDEN_ORIGIN", 403, func() string { return "other.localhost" + port() }},
		{"an address that the server does not listen on", "403 FORBIDDEN_ORIGIN", 403, func() string { return "192.0.2.1" + port() }},
		{"a name and a password", "400 INVALID_REQUEST", 400, func() string { return "user@localhost" }},
	} {
		tab.add("Host, with a token", r.host, r.says, func(t *testing.T) {
			a := g.with("Host", r.value()).get(t, "/api/me")
			switch r.status {
			case http.StatusOK:
				a.ok(t, r.status)
			case http.StatusForbidden:
				a.fails(t, r.status, "FORBIDDEN_ORIGIN")
			default:
				a.fails(t, r.status, "INVALID_REQUEST")
			}
		})
	}
	tab.add("Origin", "two of them", "403 FORBIDDEN_ORIGIN", func(t *testing.T) {
		c := g.with("Origin", g.API)
		c.header.Add("Origin", g.API)
		c.get(t, "/api/me").fails(t, http.StatusForbidden, "FORBIDDEN_ORIGIN")
	})
	for _, r := range []struct {
		what, site, mode, dest string
		status                 int
	}{
		{"another site fetches", "cross-site", "cors", "empty", 403}, {"another site embeds an image", "cross-site", "no-cors", "image", 403},
		{"another site embeds a frame", "cross-site", "navigate", "iframe", 403}, {"another port of the same name fetches", "same-site", "cors", "empty", 403},
		{"a person opens a link", "cross-site", "navigate", "document", 200}, {"a person types the address", "none", "navigate", "document", 200},
	} {
		says := fmt.Sprint(r.status)
		if r.status == http.StatusForbidden {
			says += " FORBIDDEN_ORIGIN"
		}
		tab.add("fetch metadata, no Origin, with a token", r.what, says, func(t *testing.T) {
			a := g.with("Sec-Fetch-Site", r.site).with("Sec-Fetch-Mode", r.mode).with("Sec-Fetch-Dest", r.dest).get(t, "/api/me")
			if r.status == http.StatusOK {
				a.ok(t, r.status)
			} else {
				a.fails(t, r.status, "FORBIDDEN_ORIGIN")
			}
		})
	}
	tab.add("preflight of another site", "OPTIONS", "403 FORBIDDEN_ORIGIN, no header of CORS", func(t *testing.T) {
		a := g.as("").with("Origin", "https://evil.example").with("Access-Control-Request-Method", "POST").do(t, http.MethodOptions, "/api/session/create", nil)
		a.fails(t, http.StatusForbidden, "FORBIDDEN_ORIGIN")
		equal(t, "Access-Control-Allow-Origin", a.header.Get("Access-Control-Allow-Origin"), "")
	})
	tab.link("preflight of an origin that the operator listed", "OPTIONS", "204, with exactly that origin and without credentials", "httpapi.TestNoCORS")
	tab.link("Host, Origin, credential and fetch metadata", "every combination", "as listed in a file", "httpapi.TestOriginTable")
	tab.link("request target", "an absolute one, or no Host", "400 INVALID_REQUEST", "httpapi.TestTargetForms")
}

func (g *gate) cookieRows(tab *table) {
	tab.add("cookie", "after a login", "HttpOnly, SameSite=Strict, Path=/api, no Domain, 30 days", func(t *testing.T) {
		res := http.Response{Header: g.login.header}
		c := res.Cookies()[0]
		equal(t, "cookie", []any{c.HttpOnly, c.SameSite == http.SameSiteStrictMode, c.Path, c.Domain, c.MaxAge, len(res.Cookies())}, []any{true, true, "/api", "", 30 * 24 * 60 * 60, 1})
	})
	tab.add("cookie and key", "the page itself fetches", "200", func(t *testing.T) { g.page.with("Origin", "").get(t, "/api/me").ok(t, http.StatusOK) })
	tab.add("cookie and key", "a person opens a link from another site", "403 FORBIDDEN_ORIGIN", func(t *testing.T) {
		c := g.page.with("Origin", "").with("Sec-Fetch-Site", "cross-site").with("Sec-Fetch-Mode", "navigate").with("Sec-Fetch-Dest", "document")
		c.get(t, "/api/me").fails(t, http.StatusForbidden, "FORBIDDEN_ORIGIN")
	})
	tab.add("cookie", "with another key, or as a bearer token", "401 UNAUTHORIZED", func(t *testing.T) {
		_, value, _ := strings.Cut(g.page.header.Get("Cookie"), "=")
		g.page.with("Runnel-Key", value).get(t, "/api/me").fails(t, http.StatusUnauthorized, "UNAUTHORIZED")
		g.as(value).get(t, "/api/me").fails(t, http.StatusUnauthorized, "UNAUTHORIZED")
	})
	tab.add("login code", "used a second time", "401 UNAUTHORIZED", func(t *testing.T) {
		code := g.post(t, "/api/login/code", object{}).ok(t, http.StatusCreated)["code"]
		g.asPage().post(t, "/api/login", object{"code": code}).ok(t, http.StatusOK)
		g.asPage().post(t, "/api/login", object{"code": code}).fails(t, http.StatusUnauthorized, "UNAUTHORIZED")
	})
	tab.add("login code", "at another address than the page's, or from another site", "403 FORBIDDEN_ORIGIN, no cookie", func(t *testing.T) {
		code := g.post(t, "/api/login/code", object{}).ok(t, http.StatusCreated)["code"]
		for _, c := range []client{g.as(""), g.asPage().with("Origin", "http://evil.example"), g.asPage().with("Origin", "null")} {
			a := c.post(t, "/api/login", object{"code": code})
			a.fails(t, http.StatusForbidden, "FORBIDDEN_ORIGIN")
			equal(t, "Set-Cookie", a.header.Get("Set-Cookie"), "")
		}
	})
	tab.add("logout", "by the page", "204; the cookie is removed and worth nothing", func(t *testing.T) {
		c, _ := g.browser(t)
		a := c.post(t, "/api/logout", object{})
		a.ok(t, http.StatusNoContent)
		if cookie := a.header.Get("Set-Cookie"); !strings.Contains(cookie, "Max-Age=0") {
			t.Errorf("Set-Cookie is %q", cookie)
		}
		c.get(t, "/api/me").fails(t, http.StatusUnauthorized, "UNAUTHORIZED")
	})
	tab.link("cookie", "the server speaks TLS, or a proxy does", "Secure", "httpapi.TestSecureBehindTLS")
	tab.link("cookies that other programs set", "many of them", "lock nobody out", "httpapi.TestTossedCookiesLockNobodyOut")
}

func (g *gate) pageRows(tab *table) {
	tab.add("page", "GET / at its own address", "200 text/html, without a credential", func(t *testing.T) {
		a := g.asPage().with("Origin", "").get(t, "/")
		a.ok(t, http.StatusOK)
		equal(t, "Content-Type", a.header.Get("Content-Type"), "text/html; charset=utf-8")
	})
	tab.add("page", "GET / at the loopback address", "403 FORBIDDEN_ORIGIN", func(t *testing.T) { g.as("").get(t, "/").fails(t, http.StatusForbidden, "FORBIDDEN_ORIGIN") })
	tab.add("headers of every answer", "success, errors and the page", "a Content-Security-Policy without inline script, nosniff, DENY, no-referrer, same-origin", func(t *testing.T) {
		for _, a := range []answer{g.get(t, "/api/me"), g.as("").get(t, "/api/me"), g.asPage().get(t, "/"), g.with("Host", "evil.example").get(t, "/api/me")} {
			policy := a.header.Get("Content-Security-Policy")
			if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self';") || strings.Contains(policy, "unsafe") {
				t.Errorf("%s: Content-Security-Policy is %q", a.what, policy)
			}
			for name, want := range map[string]string{
				"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
				"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
			} {
				equal(t, a.what+" "+name, a.header.Get(name), want)
			}
		}
	})
	for _, path := range []string{"/", "/sw.js", "/worker.js", "/api/health"} {
		tab.add("service worker of another program", "its script is asked for at "+path+" of the loopback address", "200, a script that removes the worker; no credential", func(t *testing.T) {
			a := g.as("").with("Service-Worker", "script").with("Sec-Fetch-Site", "same-origin").get(t, path)
			a.ok(t, http.StatusOK)
			if !strings.HasPrefix(a.header.Get("Content-Type"), "text/javascript") || !strings.Contains(string(a.body), "registration.unregister()") {
				t.Errorf("got %s", a.body)
			}
		})
	}
	tab.add("service worker of another program", "its script is asked for under another site's Host", "403 FORBIDDEN_ORIGIN", func(t *testing.T) {
		g.as("").with("Service-Worker", "script").with("Host", "evil.example").get(t, "/sw.js").fails(t, http.StatusForbidden, "FORBIDDEN_ORIGIN")
	})
	tab.link("service worker of the page", "its script is asked for at the page's address", "the page's own script", "httpapi.TestPagesOwnServiceWorkerIsServed")
}

func (g *gate) tokenRows(tab *table) {
	tab.add("unix socket", "its file", "mode 0600, in a folder with mode 0700", func(t *testing.T) {
		for path, want := range map[string]os.FileMode{g.socketPath: 0o600, g.Data: 0o700} {
			st, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, path, st.Mode().Perm(), want)
		}
	})
	tab.add("unix socket", "a process of the same user", "every scope", func(t *testing.T) {
		me := g.socket.get(t, "/api/me").ok(t, http.StatusOK)
		equal(t, "me", []any{me["kind"], me["scopes"]}, []any{"local", []string{"read", "send", "approve", "admin"}})
	})
	tab.add("unix socket", "a wrong token", "401 UNAUTHORIZED: the token counts, not the user", func(t *testing.T) {
		g.socket.with("Authorization", "Bearer rnl_wrong").get(t, "/api/me").fails(t, http.StatusUnauthorized, "UNAUTHORIZED")
	})
	tab.link("unix socket", "a process that an agent started", "403 FORBIDDEN", "httpapi.TestAgentSelfApprove")
	tab.add("token", "revoked", "401 UNAUTHORIZED from then on", func(t *testing.T) {
		made := g.post(t, "/api/tokens", object{"name": "x", "scopes": []string{"read"}}).ok(t, http.StatusCreated)
		c := g.as(made["token"].(string))
		c.get(t, "/api/me").ok(t, http.StatusOK)
		g.post(t, "/api/tokens/"+made["id"].(string)+"/revoke", object{}).ok(t, http.StatusOK)
		c.get(t, "/api/me").fails(t, http.StatusUnauthorized, "UNAUTHORIZED")
	})
	tab.add("token", "listed", "without its secret", func(t *testing.T) {
		secret := g.token(t, "", "read")
		if list := g.get(t, "/api/tokens"); strings.Contains(string(list.body), secret) {
			t.Error("the list has the token")
		}
	})
	tab.add("token", "twice in a request, or with another scheme than Bearer", "401 UNAUTHORIZED", func(t *testing.T) {
		twice := g.with("X-None", "")
		twice.header.Add("Authorization", g.header.Get("Authorization"))
		twice.get(t, "/api/me").fails(t, http.StatusUnauthorized, "UNAUTHORIZED")
		g.with("Authorization", strings.Replace(g.header.Get("Authorization"), "Bearer", "Basic", 1)).get(t, "/api/me").fails(t, http.StatusUnauthorized, "UNAUTHORIZED")
	})
	tab.link("token", "on disk and in logs", "only its hash", "httpapi.TestNoSecretOnDiskOrInLogs")
	tab.link("tokens", "many wrong ones", "429 RATE_LIMITED; valid ones are accepted at once", "httpapi.TestWrongCredentialsAreThrottledAndValidOnesAreNot")
	tab.link("routes without a credential", "all", "the page's files, the login, /openapi.json and /api/health", "httpapi.TestRoutesWithoutCredentialHaveAReason")
	tab.link("listening beyond loopback", "without a token, and without TLS or a stated proxy", "the server does not start", "cmd/runnel.TestListeningBeyondLoopbackNeedsTokenAndTLS")
	tab.link("prompts", "they look like flags", "reach the agent through its input, never as arguments", "cmd/runnel.TestPromptsAreNoCommandLineArguments")
}

// scopeRows adds the rows about requests that are forbidden to a credential
// without the scope approve, and to one that is limited to a project.
func (g *gate) scopeRows(tab *table) {
	options := []struct {
		name  string
		value any
	}{
		{"permissionMode", "acceptEdits"}, {"permissionMode", "bypass"}, {"mcpServers", object{"x": object{"command": "sh"}}}, {"config", object{"pace": "fast"}},
	}
	faces := []struct {
		name, path string
		body       func(session string, opts object) object
	}{
		{"create", "/api/session/create", func(_ string, opts object) object {
			return object{"cliType": "script", "projectDir": g.project, "options": opts}
		}},
		{"send", "/api/session/{id}/send", func(_ string, opts object) object { return object{"content": "{}", "opts": opts} }},
		{"options", "/api/session/{id}/options", func(_ string, opts object) object { return opts }},
		{"create of the harness", "/api/harness/session/create", func(_ string, opts object) object {
			return object{"cliType": "script", "projectRoot": g.project, "opts": opts}
		}},
		{"turn of the harness", "/api/harness/turn", func(session string, opts object) object {
			return object{"sessionId": session, "message": "{}", "opts": opts}
		}},
	}
	post := func(t *testing.T, token string, face int, opts object) answer {
		t.Helper()
		session := g.session(t, nil)
		return g.as(token).post(t, strings.Replace(faces[face].path, "{id}", session, 1), faces[face].body(session, opts))
	}
	for face := range faces {
		for _, o := range options {
			what := o.name
			if text, ok := o.value.(string); ok {
				what += " " + text
			}
			tab.add("a token without the scope approve", faces[face].name+" with "+what, "403 FORBIDDEN: it would answer in advance", func(t *testing.T) {
				post(t, g.token(t, "", "read", "send"), face, object{o.name: o.value}).fails(t, http.StatusForbidden, "FORBIDDEN")
			})
		}
		tab.add("a token that is bound to the project", faces[face].name+" with addDirs", "403 FORBIDDEN: its agents work in no other folder", func(t *testing.T) {
			post(t, g.token(t, g.project, "read", "send", "approve"), face, object{"addDirs": []string{folder(t)}}).fails(t, http.StatusForbidden, "FORBIDDEN")
		})
	}
	tab.add("a token that is bound to the project", "create and send in the project", "as for any token", func(t *testing.T) {
		c := g.as(g.token(t, g.project, "read", "send"))
		id := c.post(t, "/api/session/create", object{"cliType": "script", "projectDir": g.project}).ok(t, http.StatusCreated)["sessionId"].(string)
		c.play(t, id, object{"text": "x"})
		equal(t, "projectDir", c.get(t, "/api/me").ok(t, http.StatusOK)["projectDir"], g.project)
	})
	tab.link("a token that is bound to a project", "every route, about another project's session", "the same bytes as for a session that does not exist", "httpapi.TestSessionIsolation")
	tab.link("a token that is bound to a project", "the WebSocket", "likewise", "httpapi.TestSessionIsolationOnTheWebSocket")
}
