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

// login returns the halves of a browser's credential, as the page gets them.
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

// A browser sends the cookie to every port of the host. Whoever listens there
// can send it back with any header a page sends, but for the key (A13).
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
	p.say(`{"type":"session:hello"}`)
	if f := p.hear(); f.Type != "session:hello:ack" || p.conn.Subprotocol() != subprotocol {
		t.Errorf("got %+v, subprotocol %q", f, p.conn.Subprotocol())
	}
	_ = p.conn.Close(websocket.StatusNormalClosure, "")
	if strings.Contains(s.logged.String(), mine.Key[4:20]) {
		t.Error("the key is in the log")
	}
}
