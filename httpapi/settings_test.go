package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/stream"
	"github.com/runnel-dev/runnel/provider/script"
)

// A recordingAgent is the scripted agent that records the options and settings
// of its agents.
type recordingAgent struct {
	script.Provider
	takes    *runnel.Takes // replaces what the scripted agent takes
	mu       sync.Mutex
	opened   []runnel.Options
	received []string
	last     *recordingConn
}

// Takes implements [runnel.OptionTaker].
func (p *recordingAgent) Takes() runnel.Takes {
	if p.takes != nil {
		return *p.takes
	}
	return p.Provider.Takes()
}

// crash ends the agent that was started last, as if its process had ended.
func (p *recordingAgent) crash() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.last.Conn.Close()
}

func (p *recordingAgent) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	conn, err := p.Provider.Open(ctx, opt)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened = append(p.opened, opt)
	p.last = &recordingConn{conn, p}
	return p.last, err
}

func (p *recordingAgent) record(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.received = append(p.received, what)
}

// take returns what was recorded since the last call.
func (p *recordingAgent) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	heard := p.received
	p.received = nil
	return heard
}

type recordingConn struct {
	runnel.Conn
	p *recordingAgent
}

func (c *recordingConn) SetModel(ctx context.Context, model string) error {
	c.p.record("model " + model)
	return c.Conn.(runnel.ModelSetter).SetModel(ctx, model)
}

func (c *recordingConn) SetPermissionMode(ctx context.Context, mode runnel.PermissionMode) error {
	c.p.record("mode " + string(mode))
	return c.Conn.(runnel.ModeSetter).SetPermissionMode(ctx, mode)
}

func (c *recordingConn) SetReasoningEffort(ctx context.Context, effort string) error {
	c.p.record("effort " + effort)
	return c.Conn.(runnel.EffortSetter).SetReasoningEffort(ctx, effort)
}

func (c *recordingConn) SetConfig(ctx context.Context, id, value string) error {
	c.p.record("config " + id + "=" + value)
	return c.Conn.(runnel.ConfigSetter).SetConfig(ctx, id, value)
}

// Settings implements [runnel.SettingsReporter].
func (c *recordingConn) Settings() runnel.Settings {
	return c.Conn.(runnel.SettingsReporter).Settings()
}

func value(config []event.ConfigOption, id string) string {
	i := slices.IndexFunc(config, func(o event.ConfigOption) bool { return o.ID == id })
	if i < 0 {
		return ""
	}
	return config[i].Value
}

func TestSettingsReachTheAgent(t *testing.T) {
	p := new(recordingAgent)
	rg := newRig(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{p} })
	body, _ := json.Marshal(map[string]any{"cliType": "script", "projectDir": rg.dir, "options": map[string]any{
		"reasoningEffort": "low", "config": map[string]string{"thoughts": "false"},
	}})
	id := call[createAnswer](rg, "POST", "/api/session/create", string(body), 201).SessionID
	if o := p.opened[0]; o.ReasoningEffort != "low" || o.Config["thoughts"] != "false" {
		t.Errorf("started with %+v", o)
	}

	st := call[command.OptionsAnswer](rg, "POST", "/api/session/"+id+"/options", `{"model":"m2","reasoningEffort":"high","config":{"pace":"fast","thoughts":"true"}}`, 200)
	if got := p.take(); !slices.Equal(got, []string{"model m2", "effort high", "config pace=fast", "config thoughts=true"}) {
		t.Errorf("the agent heard %q", got)
	}
	if len(st.Warnings) != 0 {
		t.Errorf("warned: %q", st.Warnings)
	}
	// The agent gets its settings back, and reports them, only after the turn
	// has ended.
	wait := func() (now gateway.Status) {
		t.Helper()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for began := time.Now(); time.Since(began) < time.Minute; <-tick.C {
			var err error
			if now, err = rg.gw.Status(t.Context(), id); err != nil || now.TurnID == "" && value(now.Config, "pace") == "fast" {
				return now
			}
		}
		t.Errorf("status has %+v", now)
		return now
	}
	call[command.SendAnswer](rg, "POST", "/api/session/"+id+"/send", `{"content":"text","opts":{"reasoningEffort":"medium","config":{"pace":"written"}}}`, 202)
	now := wait()
	if got := p.take(); !slices.Equal(got, []string{"effort medium", "config pace=written", "effort high", "config pace=fast"}) {
		t.Errorf("with a prompt the agent heard %q", got)
	}
	if value(now.Config, "thoughts") != "true" {
		t.Errorf("status has %+v", now.Config)
	}
	w := rg.do("POST", "/api/harness/turn", `{"sessionId":"`+id+`","message":"text","opts":{"config":{"pace":"written"}}}`)
	wait() // the stream ends with the turn, before the agent gets the session's settings again
	if got := p.take(); w.Code != 200 || !slices.Equal(got, []string{"config pace=written", "config pace=fast"}) {
		t.Errorf("with a turn the agent heard %q (%d)", got, w.Code)
	}

	// The agent rejects values that it does not offer.
	for _, body := range []string{`{"config":{"pace":"slow"}}`, `{"config":{"speed":"1"}}`, `{"config":{"":"x"}}`, `{"config":["pace"]}`, `{"config":{"pace":1}}`,
		`{"config":{"pace":"` + strings.Repeat("x", 1001) + `"}}`, `{"config":{}}`} {
		if w := rg.do("POST", "/api/session/"+id+"/options", body); w.Code != http.StatusBadRequest || code(w) != "INVALID_REQUEST" {
			t.Errorf("%.60s: got %d %s", body, w.Code, w.Body)
		}
	}
	if now := wait(); value(now.Config, "pace") != "fast" {
		t.Errorf("after refusals status has %+v", now.Config)
	}

	// No client may send the options that choose which program runs.
	body, _ = json.Marshal(map[string]any{"cliType": "script", "projectDir": rg.dir, "options": map[string]any{
		"path": "/bin/sh", "env": []string{"K=V"}, "command": []string{"sh"}, "keep": map[string]string{}, "allowBypass": true, "trusted": true, "agents": map[string]any{},
	}})
	before := len(p.opened)
	created := call[createAnswer](rg, "POST", "/api/session/create", string(body), 201)
	if o := p.opened[before]; o.Path != "" || len(o.Env) != 0 || o.AllowBypass || o.Trusted || len(created.Warnings) != 7 {
		t.Errorf("started with %+v; warned %q", o, created.Warnings)
	}
}

func TestSettingsReachTheAgentOverTheWebSocket(t *testing.T) {
	p := new(recordingAgent)
	s := serve(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{p} })
	id := s.create()
	peer := s.join(stream.FamilyUpsert)
	peer.send(`{"type":"session:options","requestId":"1","sessionId":"%s","reasoningEffort":"high","config":{"pace":"fast"}}`, id)
	if f := peer.await("error", "response"); f.Type == "error" {
		t.Fatalf("%+v", f.Error)
	}
	if got := p.take(); !slices.Equal(got, []string{"effort high", "config pace=fast"}) {
		t.Errorf("the agent heard %q", got)
	}
	peer.send(`{"type":"session:send","requestId":"2","sessionId":"%s","content":"text","opts":{"config":{"thoughts":"false"}}}`, id)
	f := peer.await("error", "response")
	if f.Type == "error" {
		t.Fatalf("%+v", f.Error)
	}
	s.events(id, turnIn(t, f.Result))
	s.settled(id)
	if got := p.take(); !slices.Equal(got, []string{"config thoughts=false", "config thoughts=true"}) {
		t.Errorf("the agent heard %q", got)
	}
	peer.send(`{"type":"session:options","requestId":"3","sessionId":"%s","config":{"speed":"1"}}`, id)
	if f := peer.await("error", "response"); f.Type != "error" || f.Error.Type != "INVALID_REQUEST" {
		t.Errorf("%+v", f)
	}
}

// An agent's own settings may decide what it does without asking; the effort of
// its model does not.
func TestOwnSettingsNeedTheScopeApprove(t *testing.T) {
	p := new(recordingAgent)
	rg := newRig(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{p} })
	id := rg.create()
	rg.token = rg.mint(auth.Read, auth.Send)
	if w := rg.do("POST", "/api/session/"+id+"/options", `{"reasoningEffort":"high","model":"m"}`); w.Code != 200 {
		t.Errorf("effort and model: got %d %s", w.Code, w.Body)
	}
	if got := p.take(); !slices.Equal(got, []string{"model m", "effort high"}) {
		t.Errorf("the agent heard %q", got)
	}
	opened := len(p.opened)
	rg.refusesInAdvance(id, `{"config":{"pace":"fast"}}`, `{"config":{"pace":"fast"},"model":"m"}`)
	if got := p.take(); len(got) != 0 || len(p.opened) != opened {
		t.Errorf("the agent heard %q; %d were started", got, len(p.opened)-opened)
	}
}
