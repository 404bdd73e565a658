package httpapi

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
)

// A settingsRejecter is the guarded agent. It can begin to reject settings
// while it runs.
type settingsRejecter struct{ *guarded }

func (p settingsRejecter) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	conn, err := p.guarded.Open(ctx, opt)
	return settingsRejecterConn{conn, p.guarded}, err
}

func (p settingsRejecter) Prototype() runnel.Conn { return settingsRejecterConn{} }

type settingsRejecterConn struct {
	runnel.Conn
	p *guarded
}

func (c settingsRejecterConn) SetModel(ctx context.Context, model string) error {
	return c.Conn.(runnel.ModelSetter).SetModel(ctx, model)
}

// Settings implements [runnel.SettingsReporter].
func (c settingsRejecterConn) Settings() runnel.Settings {
	return c.Conn.(runnel.SettingsReporter).Settings()
}

// CheckSettings implements [runnel.SettingsChecker].
func (c settingsRejecterConn) CheckSettings(runnel.Settings) error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	return c.p.wrong
}

// If a queued prompt is rejected when its turn should begin, its turn ends
// once, with the reason, and the next prompt gets its turn.
func TestRefusedQueuedPromptEndsItsTurn(t *testing.T) {
	timed(t, minute)
	for name, tt := range map[string]struct {
		wrong error // error of the agent from the time when the prompts wait
		crash bool  // the agent has to start again
		gone  bool  // the project directory was removed
		body  string
		code  string
		next  string // how the turn of the next prompt ends
	}{
		"options that the agent refuses by then": {wrong: runnel.Fail(runnel.InvalidRequest, "model: no longer offered"), body: `"opts":{"model":"m2"}`, code: "INVALID_REQUEST"},
		"options that became unchangeable":       {wrong: runnel.Fail(runnel.UnsupportedCapability, "model: fixed by now"), body: `"opts":{"model":"m2"}`, code: "UNSUPPORTED_CAPABILITY"},
		"not logged in":                          {wrong: errLogin, crash: true, code: "AGENT_NOT_LOGGED_IN", next: "AGENT_NOT_LOGGED_IN"},
		"not logged in, with an attachment":      {wrong: errLogin, crash: true, body: `"attachments":["FILE"]`, code: "AGENT_NOT_LOGGED_IN", next: "AGENT_NOT_LOGGED_IN"},
		"no project directory":                   {crash: true, gone: true, code: "WORKING_ROOT_INACCESSIBLE", next: "WORKING_ROOT_INACCESSIBLE"},
	} {
		t.Run(name, func(t *testing.T) {
			p := settingsRejecter{newGuarded()}
			s := newRig(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{p} })
			s.dir = filepath.Join(t.TempDir(), "project")
			if err := os.Mkdir(s.dir, 0o700); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(s.dir, "a.txt")
			if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
				t.Fatal(err)
			}
			id := s.create()
			busy := s.prompt(id, "hang")
			s.until(id, func(ev event.Event) bool { return ev.Turn == busy && is[event.ResponseStart](ev) })
			queue := func(fields string) string {
				t.Helper()
				if fields != "" {
					fields = "," + strings.ReplaceAll(fields, "FILE", file)
				}
				w := s.do("POST", "/api/session/"+id+"/send", `{"content":"text","queue":true`+fields+`}`)
				return turnIn(t, w.Body.Bytes())
			}
			refused, next := queue(tt.body), queue("")
			p.change(tt.wrong, false)
			if tt.gone {
				if err := os.RemoveAll(s.dir); err != nil {
					t.Fatal(err)
				}
			}
			if tt.crash {
				p.crash()
			} else {
				call[json.RawMessage](s, "POST", "/api/session/"+id+"/cancel", "", 200)
			}
			evs := s.events(id, next)
			wantEnd(t, evs, refused, tt.code)
			wantEnd(t, evs, next, tt.next)
			if got := s.prompts(id, "text"); len(got) != 2 || got[0] != refused || got[1] != next {
				t.Errorf("the log has the prompts of %q, want %q and %q", got, refused, next)
			}
		})
	}
}
