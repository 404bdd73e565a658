package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
)

// TestPageBelowAPath sends requests as a proxy does that keeps the path of the
// page, and as one that removes it.
func TestPageBelowAPath(t *testing.T) {
	rg := newRig(t, func(c *Config, _ *gateway.Config) {
		c.Origins, c.Proxied = []string{"https://proxy.example/tools/runnel"}, true
	})
	at := func(path string) int {
		t.Helper()
		w := rg.do("GET", path, "", host("proxy.example"))
		return w.Code
	}
	for path, want := range map[string]int{
		"/tools/runnel/": 200, "/tools/runnel/api/me": 200, "/tools/runnel/favicon.svg": 200, "/tools/runnel" + scriptOf(rg): 200,
		"/": 200, "/api/me": 200, scriptOf(rg): 200,
		"/tools/runnel": 404, "/tools/runnelx/api/me": 404, "/tools/": 404, "/tools/runnel/tools/runnel/api/me": 404,
		"/t%6fols/runnel/api/me": 404, "/tools/runnel//api/me": 404, "/tools/runnel/../../api/me": 404,
	} {
		if got := at(path); got != want {
			t.Errorf("%s: got %d, want %d", path, got, want)
		}
	}
	if w := rg.do("GET", "/tools/runnel/api/me", ""); w.Code != 404 {
		t.Errorf("the path at another Host: %d", w.Code)
	}
	for _, prefix := range []string{"/tools/runnel", ""} {
		code, err := rg.keyed.LoginCode(t.Context(), auth.All())
		if err != nil {
			t.Fatal(err)
		}
		w := rg.do("POST", prefix+"/api/login", `{"code":"`+code+`"}`, anonymous, host("proxy.example"), header("Origin", "https://proxy.example"), header("Sec-Fetch-Site", "same-origin"))
		var half loginAnswer
		if w.Code != 200 || json.Unmarshal(w.Body.Bytes(), &half) != nil {
			t.Fatalf("login: %d %s", w.Code, w.Body)
		}
		c := w.Result().Cookies()[0]
		if c.Path != "/tools/runnel/api" || !c.Secure {
			t.Errorf("cookie: %s", c)
		}
		page := func(r *http.Request) {
			anonymous(r)
			r.Host = "proxy.example"
			r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
			r.Header.Set("Runnel-Key", half.Key)
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}
		if w := rg.do("GET", prefix+"/api/me", "", page); w.Code != 200 || !strings.Contains(w.Body.String(), `"browser"`) {
			t.Errorf("the page: %d %s", w.Code, w.Body)
		}
		if w := rg.do("POST", prefix+"/api/logout", "{}", page, header("Origin", "https://proxy.example")); w.Code != 204 || w.Result().Cookies()[0].Path != "/tools/runnel/api" {
			t.Errorf("logout: %d %v", w.Code, w.Result().Cookies())
		}
	}
	if w := rg.do("GET", "/tools/runnel/nothing", "", anonymous, host("proxy.example")); w.Code != 401 {
		t.Errorf("without a credential: %d", w.Code)
	}
}
