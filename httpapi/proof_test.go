package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
)

// An open tab asks a restarted server for the proof before it sends anything
// else.
func TestServerProvesItself(t *testing.T) {
	rg := newRig(t, func(c *Config, _ *gateway.Config) { c.Origins = []string{"https://runnel.example"} })
	code, err := rg.keyed.LoginCode(t.Context(), auth.All())
	if err != nil {
		t.Fatal(err)
	}
	w := rg.do("POST", "/api/login", `{"code":"`+code+`"}`, anonymous, header("Origin", "http://own.localhost:7777"))
	var login loginAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &login); err != nil {
		t.Fatal(err)
	}
	key, err := hex.DecodeString(login.ProofKey)
	if err != nil || len(key) != 32 || login.Login == "" {
		t.Fatalf("login: %s", w.Body)
	}
	nonce := strings.Repeat("n", 22)
	ask := func(id, origin string, edit ...func(*http.Request)) (int, string) {
		body, _ := json.Marshal(proofRequest{id, nonce})
		w := rg.do("POST", "/api/login/proof", string(body), append([]func(*http.Request){anonymous, header("Origin", origin)}, edit...)...)
		var a proofAnswer
		_ = json.Unmarshal(w.Body.Bytes(), &a)
		return w.Code, a.Proof
	}
	for origin, h := range map[string]string{"http://own.localhost:7777": "own.localhost:7777", "http://own.localhost:9000": "own.localhost:9000", "https://runnel.example": "runnel.example"} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("runnel proof\n" + origin + "\n" + nonce))
		if status, proof := ask(login.Login, origin, host(h)); status != http.StatusOK || proof != hex.EncodeToString(mac.Sum(nil)) {
			t.Errorf("%s: got %d %q", origin, status, proof)
		}
	}
	ours := "http://own.localhost:7777"
	for name, tt := range map[string]struct {
		id, origin string
		edit       []func(*http.Request)
		want       int
	}{
		"an unknown login":     {"0b5d3c1e-0000-7000-8000-000000000000", ours, nil, 401},
		"another origin":       {login.Login, "http://127.0.0.1:3000", nil, 403},
		"not the page's host":  {login.Login, "http://127.0.0.1:7777", []func(*http.Request){host("127.0.0.1:7777")}, 403},
		"no origin":            {login.Login, "", []func(*http.Request){func(r *http.Request) { r.Header.Del("Origin") }}, 400},
		"the id of no browser": {rg.tokenID(), ours, nil, 401},
	} {
		if status, proof := ask(tt.id, tt.origin, tt.edit...); status != tt.want || proof != "" {
			t.Errorf("%s: got %d %q, want %d", name, status, proof, tt.want)
		}
	}
	nonce = "short"
	if status, _ := ask(login.Login, ours); status != 400 {
		t.Errorf("a short nonce: got %d", status)
	}
	nonce = strings.Repeat("n", 22)
	if err := rg.keyed.Revoke(t.Context(), login.Login); err != nil {
		t.Fatal(err)
	}
	if status, _ := ask(login.Login, ours); status != 401 {
		t.Errorf("after the login was revoked: got %d", status)
	}
	if strings.Contains(rg.logged.String(), login.ProofKey) {
		t.Error("the log holds the key")
	}
}

// tokenID returns the id of the rig's own token.
func (rg *rig) tokenID() string {
	rg.t.Helper()
	ts, err := rg.keyed.List(rg.t.Context())
	if err != nil {
		rg.t.Fatal(err)
	}
	return ts[0].ID
}
