package httpapi

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/httpapi/browser"
)

// login returns the two halves of a browser's credential, as the page receives
// them.
func (rg *rig) login() auth.Halves {
	rg.t.Helper()
	code, err := rg.keyed.LoginCode(rg.t.Context(), auth.All())
	if err != nil {
		rg.t.Fatal(err)
	}
	w := rg.do("POST", "/api/login", `{"code":"`+code+`"}`, anonymous, header("Origin", "http://own.localhost:7777"))
	var half loginAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &half); err != nil || w.Code != http.StatusOK {
		rg.t.Fatalf("login: %d %s", w.Code, w.Body)
	}
	return auth.Halves{Cookie: w.Result().Cookies()[0].Value, Key: half.Key}
}

// A browser sends the cookie to every port of the host. A program that listens
// there can send it back with every header of a page, except the key.
func TestCookieAloneIsWorthNothing(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	mine, other := s.login(), s.login()
	as := func(protocols ...string) func(http.Header) {
		return func(h http.Header) {
			h.Del("Authorization")
			h.Set("Cookie", browser.CookieName+"="+mine.Cookie)
			h.Set("Origin", "http://own.localhost:7777")
			h.Set("Sec-Fetch-Site", "same-origin")
			h.Set("Sec-WebSocket-Protocol", strings.Join(protocols, ", "))
		}
	}
	for name, tt := range map[string]struct {
		protocols []string
		want      int
	}{
		"no key":             {[]string{subprotocol}, 401},
		"the cookie as key":  {[]string{subprotocol, browser.KeyProtocol + mine.Cookie}, 401},
		"key of another":     {[]string{subprotocol, browser.KeyProtocol + other.Key}, 401},
		"two keys":           {[]string{subprotocol, browser.KeyProtocol + mine.Key, browser.KeyProtocol + other.Key}, 401},
		"without the prefix": {[]string{subprotocol, mine.Key}, 401},
		"the key":            {[]string{subprotocol, browser.KeyProtocol + mine.Key}, 101},
		"the key first":      {[]string{browser.KeyProtocol + mine.Key, subprotocol}, 101},
	} {
		req := s.request("GET", "/api/ws", "", anonymous, func(r *http.Request) { as(tt.protocols...)(r.Header) },
			header("Connection", "Upgrade"), header("Upgrade", "websocket"), header("Sec-WebSocket-Version", "13"), header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="))
		c, err := s.ln.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 12)
		go func() { _ = req.Write(c) }()
		if _, err := c.Read(answer); err != nil || string(answer[9:12]) != strconv.Itoa(tt.want) {
			t.Errorf("%s: got %q, %v, want %d", name, answer, err, tt.want)
		}
		_ = c.Close()
	}
	for _, target := range []string{"POST /api/session/" + id + "/kill", "GET /api/session/list?projectId=*", "GET /docs", "POST /api/logout"} {
		method, p, _ := strings.Cut(target, " ")
		body := ""
		if method == "POST" {
			body = "{}"
		}
		w := s.do(method, p, body, anonymous, func(r *http.Request) { as()(r.Header) })
		if w.Code != http.StatusUnauthorized {
			t.Errorf("%s: got %d %s", target, w.Code, w.Body)
		}
	}
	if w := s.do("GET", "/api/me", "", anonymous, func(r *http.Request) { as()(r.Header) }, header(browser.KeyHeader, mine.Key)); w.Code != http.StatusOK {
		t.Errorf("with the key: got %d %s", w.Code, w.Body)
	}
	p := s.dial(func(h http.Header) { as()(h); h.Del("Sec-WebSocket-Protocol"); h.Set(browser.KeyHeader, mine.Key) })
	p.send(`{"type":"session:hello"}`)
	if f := p.receive(); f.Type != "session:hello:ack" || p.conn.Subprotocol() != subprotocol {
		t.Errorf("got %+v, subprotocol %q", f, p.conn.Subprotocol())
	}
	_ = p.conn.Close(websocket.StatusNormalClosure, "")
	if strings.Contains(s.logged.String(), mine.Key[4:20]) {
		t.Error("the key is in the log")
	}
}

// Any program on another port of the page's host can set cookies for the host.
// Browsers send such a cookie before ours if its path is narrower. These
// cookies must not lock the user out.
func TestTossedCookiesLockNobodyOut(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	mine := s.login()
	asPage := func(cookies ...string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Del("Authorization")
			r.Header.Set("Cookie", strings.Join(cookies, "; "))
			r.Header.Set(browser.KeyHeader, mine.Key)
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}
	}
	own := browser.CookieName + "=" + mine.Cookie
	other := browser.CookieName + "=" + s.login().Cookie
	var many, big []string
	for i := range 180 { // browsers store no more cookies for a host, and none larger than 4 kB
		many = append(many, browser.CookieName+"=rnl_"+strings.Repeat("A", 40)+strconv.Itoa(100+i)) // looks like a credential
		big = append(big, "x"+strconv.Itoa(i)+"="+strings.Repeat("a", 4090))
	}
	for name, cookies := range map[string][]string{
		"before ours":   {other, own},
		"behind it":     {own, other},
		"malformed":     {browser.CookieName + "=x", own, browser.CookieName + "="},
		"as many again": append(many, own),
		"large ones":    append(big, own),
	} {
		for range 2 {
			if res := s.get("/api/me", asPage(cookies...)); res.StatusCode != http.StatusOK {
				t.Errorf("%s: got %d", name, res.StatusCode)
			}
		}
	}
	if res := s.get("/api/me", asPage(many...)); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("only others: got %d", res.StatusCode)
	}
	if res := s.get("/api/me", asPage(own), func(r *http.Request) { r.Header.Set("X-Big", strings.Repeat("a", 40<<10)) }); res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("40 KiB of another header: got %d", res.StatusCode)
	}
}
