package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/provider/script"
)

// A keyless is an agent that fails to start because it has no credential.
type keyless struct {
	script.Provider
	code runnel.Code
}

func (p *keyless) Open(context.Context, runnel.Options) (runnel.Conn, error) {
	return nil, runnel.Fail(p.code, "Keyless needs a credential.")
}

// A program that starts agents for others must learn which provider lacks its
// API key.
func TestErrorsAboutCredentialsNameTheProvider(t *testing.T) {
	timed(t, minute)
	for code, want := range map[runnel.Code]string{
		runnel.MissingAPIKey: "API_KEY_MISSING", runnel.InvalidAPIKey: "API_KEY_REFUSED", runnel.AgentNotLoggedIn: "LOGIN_MISSING",
	} {
		details := fmt.Sprintf(`"details":{"category":%q,"provider":"script"}`, want)
		rg := newRig(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{&keyless{code: code}} })
		body, _ := json.Marshal(map[string]any{"cliType": "script", "projectDir": rg.dir})
		if w := rg.do("POST", "/api/session/create", string(body)); w.Code < 500 || !strings.Contains(w.Body.String(), details) {
			t.Errorf("create: got %d %s, want %s", w.Code, w.Body, details)
		}
		s := serve(t)
		frames := s.turn(s.create(), fmt.Sprintf(`{"steps":[{"fail":{"code":%q,"message":"The key is not good."}}]}`, code), "")
		failed := 0
		for _, f := range frames {
			if f.name == "turn:error" {
				failed++
				if !strings.Contains(string(f.data), details) {
					t.Errorf("turn: got %s, want %s", f.data, details)
				}
			}
		}
		if failed != 1 {
			t.Errorf("%d errors in %s", failed, namesOf(frames))
		}
	}
}
