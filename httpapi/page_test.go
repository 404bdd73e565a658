package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/browser"
)

// A program that had 127.0.0.1 and our port before may have left a service
// worker or cookies for that address in a browser. The server therefore answers
// programs with a token there, but serves neither the page nor its login.
func TestPageAndLoginOnlyUnderThePagesHost(t *testing.T) {
	rg := newRig(t, func(c *Config, _ *gateway.Config) { c.Origins = []string{"https://runnel.example"} })
	half := rg.login()
	asPage := func(r *http.Request) {
		anonymous(r)
		r.Header.Set("Cookie", browser.CookieName+"="+half.Cookie)
		r.Header.Set(browser.KeyHeader, half.Key)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		if r.Method == http.MethodPost {
			r.Header.Set("Origin", "http://"+r.Host)
		}
	}
	for h, want := range map[string]bool{
		"own.localhost:7777": true, "own.localhost:9000": true, "own.localhost": true, "runnel.example": true,
		"127.0.0.1:7777": false, "[::1]:7777": false, "localhost:7777": false, "localhost": false,
	} {
		login, err := rg.keyed.LoginCode(t.Context(), auth.All())
		if err != nil {
			t.Fatal(err)
		}
		origin := "http://" + h
		if h == "runnel.example" {
			origin = "https://" + h
		}
		for _, target := range []string{"GET /", "GET " + scriptOf(rg), "GET /favicon.svg", "GET /api/me as page", "POST /api/login"} {
			method, path, _ := strings.Cut(target, " ")
			body, edit := "", anonymous
			if path, edited := strings.CutSuffix(path, " as page"); edited {
				target, edit = path, asPage
			}
			path, _, _ = strings.Cut(path, " ")
			if method == "POST" {
				body = `{"code":"` + login + `"}`
			}
			w := rg.do(method, path, body, host(h), edit, func(r *http.Request) {
				if method == "POST" {
					r.Header.Set("Origin", origin)
				}
			})
			if ok := w.Code == http.StatusOK; ok != want {
				t.Errorf("Host %s, %s: got %d %s", h, target, w.Code, w.Body)
			} else if !want && code(w) != "FORBIDDEN_ORIGIN" {
				t.Errorf("Host %s, %s: got %s", h, target, w.Body)
			}
		}
		if w := rg.do("GET", "/api/me", "", host(h)); w.Code != http.StatusOK {
			t.Errorf("Host %s: a token gets %d %s", h, w.Code, w.Body)
		}
	}
}

// A browser may still have a service worker of another program for one of our
// addresses. When it asks for the worker's script again, the worker is removed.
func TestForeignServiceWorkersAreRemoved(t *testing.T) {
	rg := newRig(t)
	script := []func(*http.Request){anonymous, header("Service-Worker", "script"), header("Sec-Fetch-Site", "same-origin"), header("Sec-Fetch-Dest", "serviceworker")}
	for _, at := range []struct {
		host, path string
		ends       bool
	}{
		{"127.0.0.1:7777", "/worker.js", true}, {"127.0.0.1:7777", "/", true}, {"localhost:7777", "/sw.js", true}, {"[::1]:7777", "/api/health", true},
		{"own.localhost:7777", "/worker.js", true}, {"own.localhost:7777", "/sw.js", true}, {"evil.example", "/worker.js", false},
	} {
		w := rg.do("GET", at.path, "", append(script, host(at.host), header("Cookie", browser.CookieName+"=x"))...)
		ends := w.Code == http.StatusOK && strings.Contains(w.Body.String(), "registration.unregister()") &&
			strings.HasPrefix(w.Header().Get("Content-Type"), "text/javascript") && w.Header().Get("Service-Worker-Allowed") == "/"
		if ends != at.ends {
			t.Errorf("%s%s: got %d %v %s", at.host, at.path, w.Code, w.Header(), w.Body)
		}
	}
	if w := rg.do("GET", "/worker.js", "", anonymous, host("127.0.0.1:7777")); w.Code != http.StatusUnauthorized {
		t.Errorf("a request for no service worker: got %d %s", w.Code, w.Body)
	}
}

func TestPagesOwnServiceWorkerIsServed(t *testing.T) {
	rg := newRig(t, func(c *Config, _ *gateway.Config) {
		files := builtPage()
		files["sw.js"] = &fstest.MapFile{Data: []byte("// the page's own")}
		c.UI = files
	})
	for at, own := range map[string]bool{"own.localhost:7777": true, "127.0.0.1:7777": false} {
		w := rg.do("GET", browser.OwnWorker, "", anonymous, host(at), header("Service-Worker", "script"))
		if got := w.Body.String() == "// the page's own"; w.Code != http.StatusOK || got != own {
			t.Errorf("%s: got %d %s", at, w.Code, w.Body)
		}
	}
}

// Only the page may frame one of its files, and only a file that is listed. The
// file runs in an origin of its own, without network.
func TestOnlyListedFilesCanBeFramed(t *testing.T) {
	rg := newRig(t, func(c *Config, _ *gateway.Config) {
		files := builtPage()
		files["frame/diagram.html"] = &fstest.MapFile{Data: []byte("a diagram")}
		files["frame/other.html"] = &fstest.MapFile{Data: []byte("not listed")}
		c.UI = files
	})
	for path, framed := range map[string]bool{"/frame/diagram.html": true, "/frame/other.html": false, "/frame/missing.html": false, "/": false} {
		h := rg.do("GET", path, "", anonymous).Header()
		policy := map[string]string{}
		for directive := range strings.SplitSeq(h.Get("Content-Security-Policy"), "; ") {
			name, value, _ := strings.Cut(directive, " ")
			policy[name] = value
		}
		ancestors, option, sandbox := "'none'", "DENY", ""
		if framed {
			ancestors, option, sandbox = "'self'", "SAMEORIGIN", "allow-scripts"
		}
		if policy["frame-ancestors"] != ancestors || h.Get("X-Frame-Options") != option || policy["sandbox"] != sandbox {
			t.Errorf("%s: got %v, X-Frame-Options %s", path, policy, h.Get("X-Frame-Options"))
		}
		if policy["default-src"] != "'none'" || framed && policy["connect-src"] != "" {
			t.Errorf("%s may use the network: %v", path, policy)
		}
		if inline := strings.Contains(policy["script-src"], "unsafe-inline"); inline != framed {
			t.Errorf("%s: script-src %s", path, policy["script-src"])
		}
	}
}

// scriptOf returns the path of the page's script.
func scriptOf(rg *rig) string {
	rg.t.Helper()
	_, rest, _ := strings.Cut(rg.do("GET", "/", "", anonymous).Body.String(), `src="`)
	path, _, ok := strings.Cut(rest, `"`)
	if !ok {
		rg.t.Fatal("index.html has no script")
	}
	return strings.TrimPrefix(path, ".") // relative to the address of the page, which is /
}

// Scripts in a browser's cache from one start of the server are not used after
// the next start.
func TestScriptsHaveNewAddressesAfterEachStart(t *testing.T) {
	first, second := newRig(t), newRig(t)
	path := scriptOf(first)
	if other := scriptOf(second); path == other {
		t.Errorf("both are at %s", path)
	}
	if w := first.do("GET", path, "", anonymous); w.Code != http.StatusOK || w.Body.String() != "export {}" {
		t.Errorf("%s: got %d %s", path, w.Code, w.Body)
	}
	for _, wrong := range []string{"/assets/app-1.js", "/assets/x/app-1.js", scriptOf(second)} {
		if w := first.do("GET", wrong, "", anonymous); w.Code != http.StatusNotFound {
			t.Errorf("%s: got %d", wrong, w.Code)
		}
	}
}

func TestNewOriginLogsBrowsersOut(t *testing.T) {
	rg := newRig(t)
	half := rg.login()
	me := func(h string) int {
		return rg.do("GET", "/api/me", "", anonymous, host(h), header("Cookie", browser.CookieName+"="+half.Cookie),
			header(browser.KeyHeader, half.Key), header("Sec-Fetch-Site", "same-origin")).Code
	}
	if got := me("own.localhost:7777"); got != http.StatusOK {
		t.Fatalf("logged in: got %d", got)
	}
	link := call[codeAnswer](rg, "POST", "/api/login/code", `{}`, 201)
	if link.URL != "http://own.localhost:7777" {
		t.Errorf("the link is to %q", link.URL)
	}
	before := link.Code
	link = call[codeAnswer](rg, "POST", "/api/login/code", `{"newOrigin":true}`, 201)
	if link.URL != "http://new-own.localhost:7777" {
		t.Errorf("the new link is to %q", link.URL)
	}
	if old, renewed := me("own.localhost:7777"), me("new-own.localhost:7777"); old != http.StatusForbidden || renewed != http.StatusUnauthorized {
		t.Errorf("the old login gets %d at the old origin and %d at the new one", old, renewed)
	}
	for code, want := range map[string]int{before: http.StatusUnauthorized, link.Code: http.StatusOK} {
		w := rg.do("POST", "/api/login", fmt.Sprintf(`{"code":%q}`, code), anonymous, host("new-own.localhost:7777"), header("Origin", "http://new-own.localhost:7777"), header("Sec-Fetch-Site", "same-origin"))
		if w.Code != want {
			t.Errorf("the login link, made before the new origin %v, gets %d %s", code == before, w.Code, w.Body)
		}
	}
}

// A server whose page has no address rejects requests for login links. The
// error says what to do.
func TestNoLinkWithoutAnAddress(t *testing.T) {
	rg := newRig(t, func(c *Config, _ *gateway.Config) { c.Page = nil })
	w := rg.do("POST", "/api/login/code", `{}`, host("localhost"))
	if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "--origin") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}
