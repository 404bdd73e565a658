package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/testcache"
	"github.com/runnel-dev/runnel/provider/script"
	"github.com/runnel-dev/runnel/store/memory"
)

func TestMain(m *testing.M) {
	// Without this a child with the race detector would take a second to exit.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	goleak.VerifyTestMain(testcache.Main{M: m})
}

// A rig is a complete server with the scripted agent, and everything in memory.
type rig struct {
	*Server
	t        *testing.T
	log      *runnel.Memory
	cat      *memory.Catalogue
	gw       *gateway.Gateway
	keyed    *auth.Keyring
	logged   *bytes.Buffer
	dir      string // a project
	profiles string // folder of profiles, see withProfiles
	data     string // the server's data directory
	page     *pageAt
	token    string // with all scopes
}

// A pageAt is a page with a host name of the test's choice.
type pageAt struct{ host string }

func (p *pageAt) Host() string { return p.host }
func (p *pageAt) URL() string  { return "http://" + p.host + ":7777" }
func (p *pageAt) Renew() error { p.host = "new-" + p.host; return nil }

func builtPage() fstest.MapFS {
	return fstest.MapFS{
		"index.html":       {Data: []byte("<!doctype html><title>Runnel</title><script src=\"./assets/app-1.js\"></script>")},
		"favicon.svg":      {Data: []byte("<svg/>")},
		"assets/app-1.js":  {Data: []byte("export {}")},
		"assets/app-1.css": {Data: []byte("body{}")},
		".gitkeep":         {},
	}
}

func newRig(t *testing.T, edit ...func(*Config, *gateway.Config)) *rig {
	t.Helper()
	log := new(runnel.Memory)
	cat := memory.New(log)
	rg := &rig{t: t, log: log, cat: cat, logged: new(bytes.Buffer), dir: t.TempDir()}
	logger := slog.New(slog.NewTextHandler(rg.logged, nil))
	rg.keyed = auth.NewKeyring(cat)
	rg.page = &pageAt{"own.localhost"}
	cfg := Config{Keyring: rg.keyed, UI: builtPage(), Version: "test", Page: rg.page, Logger: logger}
	gcfg := gateway.Config{Log: log, Catalogue: cat, Providers: []runnel.Provider{script.New()}, Logger: logger, DataDir: t.TempDir()}
	for _, f := range edit {
		f(&cfg, &gcfg)
	}
	rg.data = gcfg.DataDir
	gw, err := gateway.Open(t.Context(), gcfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Gateway, rg.gw = gw, gw
	if rg.Server, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		if err := gw.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := rg.EndStreams(ctx); err != nil {
			t.Errorf("end streams: %v", err)
		}
	})
	rg.keyed = cfg.Keyring
	rg.token = rg.mint(auth.All()...)
	return rg
}

func (rg *rig) mint(scopes ...auth.Scope) string {
	rg.t.Helper()
	secret, _, err := rg.keyed.Create(rg.t.Context(), auth.Grant{Name: "test", Scopes: scopes})
	if err != nil {
		rg.t.Fatal(err)
	}
	return secret
}

// request returns a request that passes the chain, unless edit changes that.
func (rg *rig) request(method, target, body string, edit ...func(*http.Request)) *http.Request {
	rg.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req := httptest.NewRequestWithContext(rg.t.Context(), method, target, r)
	req.URL.Scheme, req.URL.Host = "", "" // as a server receives it
	req.Host = "own.localhost:7777"
	req.Header.Set("Authorization", "Bearer "+rg.token)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, f := range edit {
		f(req)
	}
	return req
}

func (rg *rig) do(method, target, body string, edit ...func(*http.Request)) *httptest.ResponseRecorder {
	rg.t.Helper()
	w := httptest.NewRecorder()
	r := rg.request(method, target, body, edit...)
	rt := rg.router.find(r)
	rg.ServeHTTP(w, r)
	if why := undescribed(rt, w); why != "" && r.Header.Get("Service-Worker") == "" { // every request for a worker's script gets the one that removes the worker
		rg.t.Errorf("%s %s: %s", method, target, why)
	}
	return w
}

// call sends a request, whose answer must have status, and decodes the answer.
func call[T any](rg *rig, method, target, body string, status int) T {
	rg.t.Helper()
	w := rg.do(method, target, body)
	if w.Code != status {
		rg.t.Fatalf("%s %s %s: got %d %s, want %d", method, target, body, w.Code, w.Body, status)
	}
	var out T
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		rg.t.Fatalf("%s %s: %v in %s", method, target, err, w.Body)
	}
	return out
}

// code returns the type of an error answer.
func code(w *httptest.ResponseRecorder) string {
	var b struct {
		Error struct{ Type string }
	}
	_ = json.Unmarshal(w.Body.Bytes(), &b)
	return b.Error.Type
}

// create creates a session with the scripted agent.
func (rg *rig) create() string {
	rg.t.Helper()
	body, _ := json.Marshal(map[string]string{"cliType": "script", "projectDir": rg.dir})
	return call[createAnswer](rg, "POST", "/api/session/create", string(body), 201).SessionID
}

// anonymous, host and so on edit a request.
func anonymous(r *http.Request)                 { r.Header.Del("Authorization") }
func host(h string) func(*http.Request)         { return func(r *http.Request) { r.Host = h } }
func header(k, v string) func(*http.Request)    { return func(r *http.Request) { r.Header.Set(k, v) } }
func addHeader(k, v string) func(*http.Request) { return func(r *http.Request) { r.Header.Add(k, v) } }
