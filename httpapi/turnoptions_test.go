package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/provider/script"
)

// withOptions are the ways to send a prompt with options. Each returns the
// turn's id; a turn of the harness has ended by then.
var withOptions = map[string]func(s *site, id, opts string) string{
	"send": func(s *site, id, opts string) string {
		w := s.do("POST", "/api/session/"+id+"/send", `{"content":"text","opts":`+opts+`}`)
		return turnIn(s.t, w.Body.Bytes())
	},
	"harness turn": func(s *site, id, opts string) string {
		res := s.roundTrip("POST", "/api/harness/turn", `{"sessionId":"`+id+`","message":"text","opts":`+opts+`}`)
		return turnIn(s.t, []byte(framesOf(all(s.t, res.Body))[0].data))
	},
	"socket": func(s *site, id, opts string) string {
		p := s.dial()
		p.send(`{"type":"session:send","requestId":"1","sessionId":"%s","content":"text","opts":%s}`, id, opts)
		f := p.await("error", "response")
		if f.Error != nil {
			s.t.Fatalf("%+v", f.Error)
		}
		return turnIn(s.t, f.Result)
	},
}

func turnIn(t *testing.T, data []byte) string {
	t.Helper()
	var sent struct{ TurnID string }
	if err := json.Unmarshal(data, &sent); err != nil || sent.TurnID == "" {
		t.Fatalf("got %s", data)
	}
	return sent.TurnID
}

// modelOf returns the model that a turn began with.
func modelOf(evs []event.Event, turn string) string {
	for _, ev := range evs {
		if b, ok := ev.Body.(event.ResponseStart); ok && ev.Turn == turn {
			return b.ModelID
		}
	}
	return ""
}

func TestOptionsOfATurnHoldForThatTurnAlone(t *testing.T) {
	timed(t, minute)
	for way, send := range withOptions {
		for _, alive := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/agent runs %v", way, alive), func(t *testing.T) {
				p := new(recordingAgent)
				s := serve(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{p} })
				id := s.create()
				s.events(id, s.prompt(id, "text"))
				if !alive {
					call[json.RawMessage](s.rig, "POST", "/api/session/"+id+"/kill", "", 200)
					call[json.RawMessage](s.rig, "POST", "/api/session/"+id+"/load", "{}", 200)
				}
				before := s.settled(id)
				p.take()
				with := send(s, id, `{"model":"m2","permissionMode":"acceptEdits","reasoningEffort":"low","config":{"pace":"fast"}}`)
				if got := modelOf(s.events(id, with), with); got != "m2" {
					t.Errorf("the turn with options ran with %q", got)
				}
				without := s.prompt(id, "text")
				if got := modelOf(s.events(id, without), without); got != "scripted" {
					t.Errorf("the next turn ran with %q", got)
				}
				want := []string{"model m2", "mode acceptEdits", "effort low", "config pace=fast", "model scripted", "mode default", "effort medium", "config pace=written"}
				if got := p.take(); !slices.Equal(got, want) {
					t.Errorf("the agent was given %q, want %q", got, want)
				}
				if after := s.settled(id); after != before {
					t.Errorf("the session has changed\nfrom %s\nto   %s", before, after)
				}
			})
		}
	}
}

// settled returns the settings of a session without a running turn, from its
// status and its record.
func (s *site) settled(id string) string {
	s.t.Helper()
	for version := int64(0); ; {
		changed := s.gw.Changed(version)
		_, version = s.gw.Changes(version)
		now, err := s.gw.Status(s.t.Context(), id)
		if err != nil {
			s.t.Fatal(err)
		}
		if now.TurnID == "" {
			rec, err := s.cat.Session(s.t.Context(), id)
			if err != nil {
				s.t.Fatal(err)
			}
			var opt runnel.Options
			_ = json.Unmarshal(rec.Options, &opt)
			return fmt.Sprintf("model %q mode %q given %v pace %q; options %q %q %q %v", now.ModelID, cmpDefault(now.PermissionMode), now.Given, value(now.Config, "pace"),
				opt.Model, opt.PermissionMode, opt.ReasoningEffort, opt.Config)
		}
		<-changed
	}
}

func cmpDefault(mode string) string {
	if mode == "" {
		return "default"
	}
	return mode
}

// If the settings of a session change during a turn with its own settings, the
// session has the changed settings after the turn.
func TestSettingsChangedDuringATurnWithOptionsStay(t *testing.T) {
	timed(t, minute)
	p := new(recordingAgent)
	s := serve(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{p} })
	id := s.create()
	w := s.do("POST", "/api/session/"+id+"/send", `{"content":"hang","opts":{"model":"m2"}}`)
	turn := turnIn(t, w.Body.Bytes())
	s.until(id, func(ev event.Event) bool { return ev.Turn == turn && is[event.ResponseStart](ev) })
	call[json.RawMessage](s.rig, "POST", "/api/session/"+id+"/options", `{"model":"m3"}`, 200)
	call[json.RawMessage](s.rig, "POST", "/api/session/"+id+"/cancel", "", 200)
	s.events(id, turn)
	next := s.prompt(id, "text")
	if got := modelOf(s.events(id, next), next); got != "m3" {
		t.Errorf("the next turn ran with %q", got)
	}
}

func TestOptionsOfAQueuedTurnHoldForThatTurnAlone(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	busy := s.prompt(id, "hang")
	s.until(id, func(ev event.Event) bool { return ev.Turn == busy && is[event.ResponseStart](ev) })
	var turns []string
	for _, opts := range []string{`{"model":"m2"}`, `{}`, `{"model":"m3"}`, `{"permissionMode":"acceptEdits"}`} {
		w := s.do("POST", "/api/session/"+id+"/send", `{"content":"text","queue":true,"opts":`+opts+`}`)
		turns = append(turns, turnIn(t, w.Body.Bytes()))
	}
	call[json.RawMessage](s.rig, "POST", "/api/session/"+id+"/cancel", `{"continueQueue":true}`, 200)
	evs := s.events(id, turns[3])
	for i, want := range []string{"m2", "scripted", "m3", "scripted"} {
		if got := modelOf(evs, turns[i]); got != want {
			t.Errorf("queued turn %d ran with %q, want %q", i, got, want)
		}
	}
}

// A running agent does not get settings that it has already, because setting
// them again can leave traces in its conversation.
func TestRunningAgentGetsOnlyOptionsThatDiffer(t *testing.T) {
	timed(t, minute)
	p := new(recordingAgent)
	s := serve(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{p} })
	const same = `{"model":"m","permissionMode":"plan","reasoningEffort":"low","config":{"pace":"fast"}}`
	body := `{"cliType":"script","projectDir":"` + s.dir + `","options":` + same + `}`
	id := call[createAnswer](s.rig, "POST", "/api/session/create", body, 201).SessionID
	run := func(opts string) {
		t.Helper()
		w := s.do("POST", "/api/session/"+id+"/send", `{"content":"text","opts":`+opts+`}`)
		s.events(id, turnIn(t, w.Body.Bytes()))
		s.settled(id)
	}
	run(same)
	call[json.RawMessage](s.rig, "POST", "/api/session/"+id+"/options", same, 200)
	if got := p.take(); len(got) > 0 {
		t.Errorf("with the session's own options the agent was told %q", got)
	}
	run(`{"model":"m2","permissionMode":"plan","reasoningEffort":"low"}`)
	if got := p.take(); !slices.Equal(got, []string{"model m2", "model m"}) {
		t.Errorf("with another model the agent was told %q", got)
	}
}

// A liveOptionsAgent is the scripted agent whose tools and display of reasoning
// can change while it runs.
type liveOptionsAgent struct{ recordingAgent }

func (p *liveOptionsAgent) Takes() runnel.Takes {
	t := p.recordingAgent.Takes()
	t.DisallowedTools, t.ThinkingDisplay, t.MaxTurns = true, true, true
	return t
}

func (p *liveOptionsAgent) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	conn, err := p.recordingAgent.Open(ctx, opt)
	return &liveOptionsConn{conn.(*recordingConn)}, err
}

func (p *liveOptionsAgent) Prototype() runnel.Conn { return (*liveOptionsConn)(nil) }

type liveOptionsConn struct{ *recordingConn }

func (c *liveOptionsConn) SetDisallowedTools(_ context.Context, tools []string) error {
	c.p.record("without " + strings.Join(tools, ","))
	return nil
}

func (c *liveOptionsConn) SetThinkingDisplay(_ context.Context, d runnel.ThinkingDisplay) error {
	c.p.record("thinking " + string(d))
	return nil
}

// A turn can disallow tools, and they are allowed again after it.
func TestTurnDisallowsToolsForItselfAlone(t *testing.T) {
	timed(t, minute)
	for _, alive := range []bool{true, false} {
		p := new(liveOptionsAgent)
		s := serve(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{p} })
		body := `{"cliType":"script","projectDir":"` + s.dir + `","options":{"disallowedTools":["Write"]}}`
		id := call[createAnswer](s.rig, "POST", "/api/session/create", body, 201).SessionID
		s.events(id, s.prompt(id, "text"))
		if !alive {
			call[json.RawMessage](s.rig, "POST", "/api/session/"+id+"/kill", "", 200)
			call[json.RawMessage](s.rig, "POST", "/api/session/"+id+"/load", "{}", 200)
		}
		before := s.settled(id)
		for _, queue := range []bool{false, true} {
			p.take()
			w := s.do("POST", "/api/session/"+id+"/send", fmt.Sprintf(`{"content":"text","queue":%v,"opts":{"disallowedTools":["Bash"],"thinkingDisplay":"omitted"}}`, queue))
			if !strings.Contains(w.Body.String(), `"disallowedTools":{"value":["Write","Bash"],"from":"turn","also":["session"]}`) {
				t.Errorf("queue %v: got %s", queue, w.Body)
			}
			s.events(id, turnIn(t, w.Body.Bytes()))
			s.events(id, s.prompt(id, "text"))
			want := []string{"thinking omitted", "without Write,Bash", "thinking summarized", "without Write"}
			if got := p.take(); !slices.Equal(got, want) {
				t.Errorf("agent runs %v, queue %v: it was told %q, want %q", alive, queue, got, want)
			}
		}
		if after := s.settled(id); after != before {
			t.Errorf("the session has changed\nfrom %s\nto   %s", before, after)
		}
		if rec, err := s.cat.Session(t.Context(), id); err != nil || !strings.Contains(string(rec.Options), `"disallowedTools":["Write"]`) || strings.Contains(string(rec.Options), "omitted") {
			t.Errorf("the record has %s, %v", rec.Options, err)
		}
	}
}

// A bare is the scripted agent without the methods that change settings.
type bare struct{ *script.Provider }

func (p bare) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	conn, err := p.Provider.Open(ctx, opt)
	return bareConn{conn}, err
}

func (p bare) Prototype() runnel.Conn { return bareConn{} }

type bareConn struct{ runnel.Conn }

func TestOptionThatAnAgentCannotChangeIsRefusedForATurn(t *testing.T) {
	timed(t, minute)
	for _, alive := range []bool{true, false} {
		s := serve(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{bare{script.New()}} })
		id := s.create()
		if !alive {
			call[json.RawMessage](s.rig, "POST", "/api/session/"+id+"/kill", "", 200)
			call[json.RawMessage](s.rig, "POST", "/api/session/"+id+"/load", "{}", 200)
		}
		for _, opts := range []string{`{"model":"m"}`, `{"permissionMode":"acceptEdits"}`, `{"reasoningEffort":"low"}`, `{"config":{"pace":"fast"}}`} {
			for _, queue := range []bool{true, false} {
				w := s.do("POST", "/api/session/"+id+"/send", fmt.Sprintf(`{"content":"text","queue":%v,"opts":%s}`, queue, opts))
				if w.Code != http.StatusBadRequest || code(w) != "UNSUPPORTED_CAPABILITY" || !strings.Contains(w.Body.String(), "for one turn") {
					t.Errorf("%s: got %d %s", opts, w.Code, w.Body)
				}
			}
		}
		turn := s.prompt(id, "text")
		if got := modelOf(s.events(id, turn), turn); got != "scripted" {
			t.Errorf("the next turn ran with %q", got)
		}
	}
}
