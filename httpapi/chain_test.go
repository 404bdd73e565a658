package httpapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/browser"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

var update = flag.Bool("update", false, "rewrite golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", file, d)
	}
}

// examples returns a request target for every route, and some without a route.
func examples(rg *rig) (targets []string) {
	for _, rt := range rg.router.list {
		if rt.method == "" {
			continue
		}
		p := strings.NewReplacer("{$}", "", "{id}", "0b5d3c1e-0000-7000-8000-000000000000", "{approvalId}", "a1", "{path...}", "app-1.js").Replace(rt.path)
		targets = append(targets, rt.method+" "+p)
	}
	return append(targets, "GET /nothing", "POST /nothing", "GET /api/", "DELETE /api/session/list", "GET /..%2f..%2fetc/passwd",
		"GET //api/health/..", "OPTIONS /api/session/list", "PUT /", "TRACE /api/health", "HEAD /metrics")
}

// open lists the routes that need no credential, with the reason for each.
var open = map[string]string{
	"/api/login":        "it makes a credential of a one-time code",
	"/api/login/proof":  "the server proves itself before a tab sends its credential",
	"/api/health":       "watchdogs and balancers ask it; it has the version",
	"/openapi.json":     "generators of clients read it; it is the same for every server of a version",
	"/favicon.svg":      "a file of the page",
	"/{$}":              "the page, which asks for a login",
	"/assets/{path...}": "a file of the page",
}

// TestRoutesWithoutCredentialHaveAReason keeps routes from being open by
// mistake.
func TestRoutesWithoutCredentialHaveAReason(t *testing.T) {
	seen := make(map[string]bool)
	for _, rt := range newRig(t).router.list {
		if rt.scope == "" && rt.method != "" {
			seen[rt.path] = true
			if open[rt.path] == "" {
				t.Errorf("%s needs no credential, and nothing says why", rt.pattern())
			}
		}
	}
	if len(seen) != len(open) {
		t.Errorf("routes without a credential: %v, want %v", seen, open)
	}
}

// Programs generate clients from the document, so it is the same for every
// caller.
func TestDocumentNeedsNoCredential(t *testing.T) {
	rg := newRig(t)
	with, without := rg.do("GET", "/openapi.json", ""), rg.do("GET", "/openapi.json", "", anonymous)
	if without.Code != http.StatusOK || without.Body.String() != with.Body.String() || !strings.Contains(without.Body.String(), `"openapi": "3.1.0"`) {
		t.Errorf("got %d %.200s", without.Code, without.Body)
	}
	if w := rg.do("GET", "/openapi.json", "", anonymous, host("evil.example")); w.Code != http.StatusForbidden {
		t.Errorf("another host: got %d", w.Code)
	}
}

// The golden file has the status of every route for a request without a
// credential. Every answer has the security headers.
func TestNoTokenEveryRoute(t *testing.T) {
	rg := newRig(t)
	var b strings.Builder
	for _, target := range examples(rg) {
		method, p, _ := strings.Cut(target, " ")
		w := rg.do(method, p, "", anonymous)
		fmt.Fprintf(&b, "%d %s\n", w.Code, target)
		for _, h := range []string{"Content-Security-Policy", "X-Content-Type-Options", "X-Frame-Options", "Referrer-Policy",
			"Cross-Origin-Resource-Policy", "Cross-Origin-Opener-Policy", "Cache-Control"} {
			if w.Header().Get(h) == "" {
				t.Errorf("%s: no %s", target, h)
			}
		}
	}
	golden(t, "anonymous.txt", b.String())
}

// A token in any wrong form is rejected, and the answer does not contain it.
func TestWrongTokenShapes(t *testing.T) {
	rg := newRig(t)
	shapes := map[string]func(*http.Request){
		"empty":       header("Authorization", "Bearer "),
		"no scheme":   header("Authorization", rg.token),
		"basic":       header("Authorization", "Basic "+rg.token),
		"prefix":      header("Authorization", "Bearer "+rg.token[:len(rg.token)-1]),
		"suffix":      header("Authorization", "Bearer "+rg.token[1:]),
		"other case":  header("Authorization", "Bearer "+strings.ToUpper(rg.token)),
		"big":         header("Authorization", "Bearer "+strings.Repeat("a", 30<<10)), // larger headers get a 431
		"NUL":         header("Authorization", "Bearer "+rg.token[:20]+"\x00"+rg.token[21:]),
		"two headers": addHeader("Authorization", "Bearer "+rg.token),
		"two spaces":  header("Authorization", "Bearer  "+rg.token),
		"in the URL": func(r *http.Request) {
			anonymous(r)
			r.URL.RawQuery = "token=" + rg.token + "&access_token=" + rg.token
		},
	}
	i := 0
	for name, shape := range shapes {
		i++
		w := rg.do("GET", "/api/me", "", shape, func(r *http.Request) { r.RemoteAddr = fmt.Sprintf("10.0.0.%d:1", i) })
		if w.Code != http.StatusUnauthorized || code(w) != "UNAUTHORIZED" {
			t.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
		if bytes.Contains(w.Body.Bytes(), []byte(rg.token[10:20])) {
			t.Errorf("%s: the answer holds the token", name)
		}
	}
	if w := rg.do("GET", "/api/me", ""); w.Code != http.StatusOK {
		t.Errorf("the real one: got %d", w.Code)
	}
}

// The error for an expired token must not ask for a header that the caller has
// sent.
func TestErrorTellsAWrongCredentialFromAMissingOne(t *testing.T) {
	rg := newRig(t)
	for name, tt := range map[string]struct {
		shape func(*http.Request)
		want  string
	}{
		"none":    {anonymous, "a credential is needed"},
		"unknown": {header("Authorization", "Bearer rnl_unknown"), "this credential is unknown, expired or revoked"},
	} {
		w := rg.do("GET", "/api/me", "", tt.shape)
		var b reply.ErrorBody
		if err := json.Unmarshal(w.Body.Bytes(), &b); err != nil || w.Code != http.StatusUnauthorized || !strings.HasPrefix(b.Error.Message, tt.want) {
			t.Errorf("%s: got %d %s, want %q", name, w.Code, w.Body, tt.want)
		}
	}
}

// Only the server decides the scopes of a credential. A client cannot add
// scopes in a request.
func TestScopesAreTheServers(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	rg.token = rg.mint(auth.Read)
	for _, target := range []string{
		"POST /api/session/create", "POST /api/session/" + id + "/send", "POST /api/session/" + id + "/cancel", "POST /api/session/" + id + "/kill",
		"POST /api/session/" + id + "/approvals/a1", "POST /api/session/" + id + "/options", "POST /api/session/" + id + "/load",
		"POST /api/session/" + id + "/fork", "POST /api/harness/turn", "POST /api/harness/interrupt", "DELETE /api/harness/session/" + id,
		"POST /api/tokens", "GET /api/tokens", "POST /api/login/code",
	} {
		method, p, _ := strings.Cut(target, " ")
		body := ""
		if method == "POST" {
			body = `{"scopes":["read","send","approve","admin"],"scope":"admin"}`
		}
		w := rg.do(method, p+"?scopes=admin", body)
		if w.Code != http.StatusForbidden || code(w) != "FORBIDDEN" {
			t.Errorf("%s: got %d %s", target, w.Code, w.Body)
		}
	}
	if me := call[meAnswer](rg, "GET", "/api/me", "", 200); !slices.Equal(me.Scopes, []auth.Scope{auth.Read}) {
		t.Errorf("scopes are now %v", me.Scopes)
	}
	rg.token = rg.mint(auth.Admin)
	if w := rg.do("POST", "/api/tokens", `{"name":"x","scopes":["approve"]}`); w.Code != http.StatusForbidden {
		t.Errorf("a token made one with a scope it lacks: %d", w.Code)
	}
}

// After ten wrong credentials from an address, further wrong ones from it are
// throttled. A valid credential is still accepted.
func TestWrongCredentialsAreThrottledAndValidOnesAreNot(t *testing.T) {
	rg := newRig(t)
	got := map[int]int{}
	for i := range 200 {
		from := []string{"127.0.0.1:1", "[::ffff:127.0.0.1]:2"}[i%2]
		w := rg.do("GET", "/api/me", "", header("Authorization", "Bearer rnl_"+strings.Repeat("A", 43)),
			header("X-Forwarded-For", fmt.Sprintf("10.0.0.%d", i)), func(r *http.Request) { r.RemoteAddr = from })
		got[w.Code]++
	}
	if got[401] != 10 || got[429] != 190 {
		t.Errorf("got %v, want 10 refused and the rest throttled", got)
	}
	if w := rg.do("GET", "/api/me", "", func(r *http.Request) { r.RemoteAddr = "127.0.0.1:3" }); w.Code != 200 {
		t.Errorf("the owner is locked out: %d", w.Code)
	}
}

// Behind a proxy, wrong guesses count against the address that the proxy saw.
// They count neither against the proxy nor against an address that the client
// made up.
func TestGuessesBehindAProxyCountByForwardedAddress(t *testing.T) {
	rg := newRig(t, func(c *Config, _ *gateway.Config) { c.Proxied = true })
	guess := func(i int, forwarded string) int {
		return rg.do("GET", "/api/me", "", header("Authorization", fmt.Sprintf("Bearer rnl_%08d%s", i, strings.Repeat("A", 35))),
			header("X-Forwarded-For", forwarded)).Code
	}
	got := map[int]int{}
	for i := range 40 {
		got[guess(i, fmt.Sprintf("198.51.100.%d, 203.0.113.7", i))]++
	}
	if got[401] != 10 || got[429] != 30 {
		t.Errorf("from one address: got %v, want 10 refused and the rest throttled", got)
	}
	if code := guess(50, "203.0.113.8"); code != 401 {
		t.Errorf("from another address: %d", code)
	}
}

// A second credential, valid or not, changes nothing about the count. The
// position of the first credential does not matter either.
func TestThrottleWithASecondCredential(t *testing.T) {
	rg := newRig(t)
	page := rg.login()
	for name, edit := range map[string][]func(*http.Request){
		"a good cookie": {header("Cookie", browser.CookieName+"="+page.Cookie), header(browser.KeyHeader, page.Key), header("Sec-Fetch-Site", "same-origin")},
		"a bad cookie":  {header("Cookie", browser.CookieName+"=x"), header("Sec-Fetch-Site", "same-origin")},
		"a socket's":    {header(browser.KeyHeader, rg.token), header("Sec-WebSocket-Protocol", browser.KeyProtocol+rg.token), header("Upgrade", "websocket")},
		"in the query":  {func(r *http.Request) { r.URL.RawQuery = "token=" + rg.token }},
	} {
		got, wrong := map[int]int{}, "Bearer rnl_"+strings.Repeat(name[2:3], 43)
		for i := range 40 {
			from := func(r *http.Request) {
				a := []string{"192.0.2.%d:1", "[::ffff:192.0.2.%d]:2"}[i%2]
				r.RemoteAddr = fmt.Sprintf(a, int(name[2]))
			}
			got[rg.do("GET", "/api/me", "", append(edit, header("Authorization", wrong), from)...).Code]++
		}
		if got[401] != 10 || got[429] != 30 {
			t.Errorf("with %s: got %v", name, got)
		}
	}
	got := map[int]int{}
	for i := range 40 { // one subnet
		got[rg.do("POST", "/api/login", `{"code":"rnl_`+strings.Repeat("A", 43)+`"}`, anonymous, header("Origin", "http://own.localhost:7777"),
			func(r *http.Request) { r.RemoteAddr = fmt.Sprintf("[2001:db8::%d]:1", i) }).Code]++
	}
	if got[401] != 10 || got[429] != 30 {
		t.Errorf("codes: got %v", got)
	}
}

// A page that reaches the server through its own host name (DNS rebinding) can
// use no route.
func TestReboundHostIsRejected(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	for _, method := range []string{"GET", "POST", "HEAD", "OPTIONS", "DELETE"} {
		for _, p := range []string{"/", "/assets/app-1.js", "/api/health", "/api/session/" + id + "/kill", "/api/ws", "/metrics", "/nothing"} {
			for _, origin := range []string{"", "http://evil.example:7777"} {
				edit := []func(*http.Request){host("evil.example:7777"), header("Sec-Fetch-Site", "same-origin")}
				if origin != "" {
					edit = append(edit, header("Origin", origin))
				}
				body := ""
				if method == "POST" {
					body = "{}"
				}
				w := rg.do(method, p, body, edit...)
				if w.Code != http.StatusForbidden || code(w) != "FORBIDDEN_ORIGIN" {
					t.Errorf("%s %s Origin %q: got %d %s", method, p, origin, w.Code, w.Body)
				}
			}
		}
	}
	if st := call[gateway.Status](rg, "GET", "/api/session/"+id+"/status", "", 200); st.State != "open" {
		t.Errorf("a rebound page has ended the session: %v", st.State)
	}
}

// Requests with an unusual target or Host are rejected.
func TestTargetForms(t *testing.T) {
	rg := newRig(t)
	absolute := func(r *http.Request) { r.URL.Scheme, r.URL.Host = "http", "own.localhost:7777" }
	tests := []struct {
		name string
		edit []func(*http.Request)
		want int
	}{
		{"absolute form", []func(*http.Request){absolute}, 400},
		{"absolute form, other Host", []func(*http.Request){absolute, host("evil.example")}, 400},
		{"no Host", []func(*http.Request){host("")}, 400},
		{"credentials in Host", []func(*http.Request){host("user@localhost")}, 400},
		{"long target", []func(*http.Request){func(r *http.Request) { r.RequestURI = "/" + strings.Repeat("a", maxTarget) }}, 414},
		{"as it should be", nil, 200},
	}
	for _, tt := range tests {
		if w := rg.do("GET", "/api/health", "", tt.edit...); w.Code != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, w.Code, tt.want)
		}
	}
}

// The golden file has the answers to requests with each form of an Origin
// header.
func TestOriginTable(t *testing.T) {
	rg := newRig(t, func(c *Config, _ *gateway.Config) {
		c.Origins = []string{"https://runnel.example"}
		c.CORSOrigins = []string{"https://board.example"}
	})
	code, err := rg.keyed.LoginCode(t.Context(), auth.All())
	if err != nil {
		t.Fatal(err)
	}
	secret, _, err := rg.keyed.Redeem(t.Context(), code, "browser", netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	withCookie := func(r *http.Request) {
		anonymous(r)
		r.AddCookie(&http.Cookie{Name: browser.CookieName, Value: secret.Cookie})
		r.Header.Set(browser.KeyHeader, secret.Key)
	}
	origins := []string{
		"", "http://own.localhost:7777", "http://evil.example", "null", "http://localhost:3000", "http://localhost", "https://own.localhost:7777",
		"http://own.localhost:7777.evil.example", "HTTP://OWN.LOCALHOST:7777", "http://own.localhost:7777/", "http://own.localhost:7777, http://evil.example",
		"http://127.0.0.1:7777", "file://", "chrome-extension://abcdef", "https://runnel.example", "https://runnel.example.evil.example",
		"https://board.example", "http://board.example", " http://own.localhost:7777",
	}
	type fetch struct{ site, mode, dest string }
	fetches := []fetch{{}, {"same-origin", "cors", "empty"}, {"none", "navigate", "document"}, {"none", "cors", "empty"}, {"same-site", "cors", "empty"},
		{"cross-site", "cors", "empty"}, {"cross-site", "navigate", "document"}, {"cross-site", "no-cors", "image"}, {"cross-site", "navigate", "iframe"}}
	var b strings.Builder
	for _, method := range []string{"GET", "POST"} {
		for _, credential := range []string{"bearer", "cookie"} {
			for _, origin := range origins {
				for _, f := range fetches {
					edit := []func(*http.Request){}
					if credential == "cookie" {
						edit = append(edit, withCookie)
					}
					if origin != "" {
						edit = append(edit, header("Origin", origin))
					}
					if f.site != "" {
						edit = append(edit, header("Sec-Fetch-Site", f.site), header("Sec-Fetch-Mode", f.mode), header("Sec-Fetch-Dest", f.dest))
					}
					target, body := "/api/me", ""
					if method == "POST" {
						target, body = "/api/session/x/cancel", "{}"
					}
					w := rg.do(method, target, body, edit...)
					verdict := "passed "
					if w.Code == http.StatusForbidden {
						verdict = "refused"
					}
					fmt.Fprintf(&b, "%s %-4s %s %q %s\n", verdict, method, credential, origin, strings.Join([]string{f.site, f.mode, f.dest}, " "))
				}
			}
		}
	}
	golden(t, "origins.txt", b.String())
	if w := rg.do("GET", "/api/me", "", header("Origin", "http://own.localhost:7777"), addHeader("Origin", "http://evil.example")); w.Code != 403 {
		t.Errorf("two origins: got %d", w.Code)
	}
}

// No route accepts a body with a Content-Type that a page of another site can
// send without a preflight request.
func TestFormPostsAreRejected(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	for _, target := range examples(rg) {
		method, p, _ := strings.Cut(target, " ")
		if method != "POST" || strings.Contains(p, "nothing") {
			continue
		}
		p = strings.Replace(p, "0b5d3c1e-0000-7000-8000-000000000000", id, 1)
		for _, ct := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "text/plain; a=application/json",
			"application/json; charset=utf-16", "application/jsonp", "*/*"} {
			if w := rg.do("POST", p, `{"cliType":"script"}`, header("Content-Type", ct)); w.Code != http.StatusUnsupportedMediaType {
				t.Errorf("%s with %q: got %d %s", p, ct, w.Code, w.Body)
			}
		}
	}
	if st := call[gateway.Status](rg, "GET", "/api/session/"+id+"/status", "", 200); st.State != "open" {
		t.Errorf("the session is %v", st.State)
	}
}

// Pages of other origins can read answers only if the operator listed their
// origin.
func TestNoCORS(t *testing.T) {
	preflight := func(rg *rig, origin string) http.Header {
		w := rg.do("OPTIONS", "/api/session/create", "", anonymous, header("Origin", origin), header("Access-Control-Request-Method", "POST"))
		return w.Header()
	}
	rg := newRig(t)
	for _, origin := range []string{"https://evil.example", "http://own.localhost:7777", "null"} {
		if h := preflight(rg, origin); h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s is allowed by default", origin)
		}
	}
	rg = newRig(t, func(c *Config, _ *gateway.Config) { c.CORSOrigins = []string{"https://board.example"} })
	for _, origin := range []string{"https://evil.example", "https://board.example.evil.example", "http://board.example"} {
		if h := preflight(rg, origin); h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s is allowed", origin)
		}
	}
	h := preflight(rg, "https://board.example")
	if h.Get("Access-Control-Allow-Origin") != "https://board.example" || h.Get("Vary") != "Origin" || h.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("the listed origin: got %v", h)
	}
	if !strings.Contains(h.Get("Access-Control-Allow-Headers"), "Idempotency-Key") || !strings.Contains(h.Get("Access-Control-Expose-Headers"), "Idempotency-Replayed") {
		t.Errorf("a page of the listed origin cannot repeat requests: got %v", h)
	}
	if w := rg.do("GET", "/api/me", "", header("Origin", "https://board.example")); w.Code != 200 || w.Header().Get("Access-Control-Allow-Origin") != "https://board.example" {
		t.Errorf("a request of the listed origin: got %d %v", w.Code, w.Header())
	}
}

// A page of another site can neither log the browser in nor use its cookie.
func TestCookieAndLoginCSRF(t *testing.T) {
	rg := newRig(t)
	login := func(edit ...func(*http.Request)) *http.Response {
		code, err := rg.keyed.LoginCode(t.Context(), auth.All())
		if err != nil {
			t.Fatal(err)
		}
		return rg.do("POST", "/api/login", `{"code":"`+code+`"}`, append([]func(*http.Request){anonymous}, edit...)...).Result()
	}
	ours := header("Origin", "http://own.localhost:7777")

	// A page of another site tries to log the browser in.
	for name, edit := range map[string][]func(*http.Request){
		"cross-site":    {header("Origin", "https://evil.example"), header("Sec-Fetch-Site", "cross-site")},
		"same-site":     {header("Origin", "http://localhost:3000"), header("Sec-Fetch-Site", "same-site")},
		"null origin":   {header("Origin", "null")},
		"no origin":     {header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "no-cors")},
		"form":          {ours, header("Content-Type", "application/x-www-form-urlencoded")},
		"rebound":       {host("evil.example"), header("Origin", "http://evil.example")},
		"navigated to":  {header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "document")},
		"upper-case":    {header("Origin", "HTTP://OWN.LOCALHOST:7777")},
		"two origins":   {ours, addHeader("Origin", "http://own.localhost:7777")},
		"other address": {header("Origin", "http://127.0.0.1:7777")},
	} {
		res := login(edit...)
		if res.StatusCode == http.StatusOK || len(res.Cookies()) > 0 {
			t.Errorf("%s: logged in: %d %v", name, res.StatusCode, res.Cookies())
		}
	}

	res := login(ours, header("Sec-Fetch-Site", "same-origin"))
	if res.StatusCode != http.StatusOK || len(res.Cookies()) != 1 {
		t.Fatalf("got %d %v", res.StatusCode, res.Cookies())
	}
	c := res.Cookies()[0]
	var half loginAnswer
	if err := json.NewDecoder(res.Body).Decode(&half); err != nil || half.Key == "" || half.Key == c.Value {
		t.Fatalf("the page's half: %+v, %v", half, err)
	}
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/api" || c.Domain != "" || c.Secure || c.MaxAge != 30*24*60*60 {
		t.Errorf("cookie %+v", c)
	}
	withCookie := func(r *http.Request) { anonymous(r); r.AddCookie(c); r.Header.Set(browser.KeyHeader, half.Key) }
	for name, tt := range map[string]struct {
		edit []func(*http.Request)
		want int
	}{
		"same-origin":      {[]func(*http.Request){header("Sec-Fetch-Site", "same-origin")}, 200},
		"no metadata":      {nil, 403},
		"cross-site GET":   {[]func(*http.Request){header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "document")}, 403},
		"same-site":        {[]func(*http.Request){header("Sec-Fetch-Site", "same-site")}, 403},
		"old browser":      {[]func(*http.Request){ours}, 200},
		"the cookie twice": {[]func(*http.Request){header("Sec-Fetch-Site", "same-origin"), func(r *http.Request) { r.AddCookie(c) }}, 200},
		"without the key":  {[]func(*http.Request){header("Sec-Fetch-Site", "same-origin"), func(r *http.Request) { r.Header.Del(browser.KeyHeader) }}, 401},
		"another key":      {[]func(*http.Request){header("Sec-Fetch-Site", "same-origin"), header(browser.KeyHeader, c.Value)}, 401},
		"two keys":         {[]func(*http.Request){header("Sec-Fetch-Site", "same-origin"), addHeader(browser.KeyHeader, half.Key)}, 401},
		"only the key":     {[]func(*http.Request){header("Sec-Fetch-Site", "same-origin"), func(r *http.Request) { r.Header.Del("Cookie") }}, 401},
		"as a subprotocol": {[]func(*http.Request){header("Sec-Fetch-Site", "same-origin"), func(r *http.Request) { r.Header.Del(browser.KeyHeader) }, header("Sec-WebSocket-Protocol", browser.KeyProtocol+half.Key)}, 401},
		"as bearer":        {[]func(*http.Request){func(r *http.Request) { r.Header.Del("Cookie") }, header("Authorization", "Bearer "+c.Value)}, 401},
	} {
		if w := rg.do("GET", "/api/me", "", append([]func(*http.Request){withCookie}, tt.edit...)...); w.Code != tt.want {
			t.Errorf("%s: got %d %s, want %d", name, w.Code, w.Body, tt.want)
		}
	}

	w := rg.do("POST", "/api/logout", "", withCookie, ours, header("Sec-Fetch-Site", "same-origin"))
	if gone := w.Result().Cookies(); w.Code != 204 || len(gone) != 1 || gone[0].MaxAge >= 0 {
		t.Errorf("logout: %d %v", w.Code, gone)
	}
	if w := rg.do("GET", "/api/me", "", withCookie, header("Sec-Fetch-Site", "same-origin")); w.Code != 401 {
		t.Errorf("after logout: got %d", w.Code)
	}
}

// Behind a proxy that terminates TLS, the cookie has the attribute Secure.
func TestSecureBehindTLS(t *testing.T) {
	rg := newRig(t, func(c *Config, _ *gateway.Config) {
		c.Proxied = true
		c.Origins = []string{"https://own.localhost:7777"}
	})
	code, _ := rg.keyed.LoginCode(t.Context(), auth.All())
	w := rg.do("POST", "/api/login", `{"code":"`+code+`"}`, anonymous, header("Origin", "https://own.localhost:7777"))
	if cs := w.Result().Cookies(); len(cs) != 1 || !cs[0].Secure {
		t.Errorf("got %d %v", w.Code, cs)
	}
}

// A handler that panics gives an internal error. Neither the answer nor the log
// contains the value of the panic.
func TestPanicPath(t *testing.T) {
	rg := newRig(t)
	rg.router.add(&route{method: "GET", path: "/api/boom", scope: auth.Read, serve: func(http.ResponseWriter, *http.Request) error { panic("sk-ant-canary") }})
	w := rg.do("GET", "/api/boom", "")
	if w.Code != 500 || code(w) != "INTERNAL" || strings.Contains(w.Body.String(), "canary") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if log := rg.logged.String(); strings.Contains(log, "canary") || !strings.Contains(log, "handler panicked") {
		t.Errorf("logged %s", log)
	}
	if w := rg.do("GET", "/api/health", ""); w.Code != 200 {
		t.Errorf("afterwards: %d", w.Code)
	}
}

// A proxy in front of the server may take another length for a chunked body
// than the server, and so send the beginning of a second request as the end of
// the first. The server reads no second request from such a connection.
func TestNoRequestFollowsAChunkedBody(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	second := "GET /api/me HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer " + s.token + "\r\n\r\n"
	for name, head := range map[string]string{
		"two lengths": "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
		"folded line": "Content-Length: 4\r\nTransfer-Encoding:\r\n chunked\r\n",
		"chunks only": "Transfer-Encoding: chunked\r\n",
	} {
		for _, body := range []string{"0\r\n\r\n", "2\r\n{}\r\n0\r\n\r\n"} {
			c, err := s.ln.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_, _ = io.WriteString(c, "POST /api/rules/explain HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+s.token+
					"\r\nContent-Type: application/json\r\n"+head+"\r\n"+body+second) // fails once the server has closed the connection
			}()
			answers, err := io.ReadAll(c)
			if n := strings.Count(string(answers), "HTTP/1.1 "); err != nil || n != 1 {
				t.Errorf("%s: %d answers, %v:\n%s", name, n, err, answers)
			}
			_ = c.Close()
		}
	}
}

// A client that gets 408 may send the same request again, so a body that can
// never be read gets 400.
func TestMalformedChunksAreABadRequest(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	for _, path := range []string{"/api/rules/explain", "/api/harness/turn", "/api/login"} {
		for _, body := range []string{"zz\r\n{}\r\n0\r\n\r\n", "-1\r\n{}\r\n0\r\n\r\n", "2\r\n{}0\r\n\r\n", "fffffffffffffffff\r\n", strings.Repeat("0", 5000) + "\r\n"} {
			c, err := s.ln.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_, _ = io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: own.localhost:7777\r\nAuthorization: Bearer "+s.token+
					"\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"+body) // fails once the server has closed the connection
			}()
			answer, err := io.ReadAll(c)
			if !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") || err != nil || !strings.Contains(string(answer), "INVALID_REQUEST") {
				t.Errorf("%s %.20q: %v, %s", path, body, err, answer)
			}
			_ = c.Close()
		}
	}
}
