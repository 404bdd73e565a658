package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/provider/script"
)

// A guarded is the scripted agent with a login check. It starts, and accepts
// attachments, only while wrong is nil.
type guarded struct {
	script.Provider
	mu      sync.Mutex
	wrong   error
	starts  int
	held    chan struct{} // closed once a start that has to wait has begun
	holding bool          // starts wait until release is closed or their context ends
	release chan struct{}
	last    runnel.Conn
}

func newGuarded() *guarded {
	return &guarded{held: make(chan struct{}), release: make(chan struct{})}
}

// ChecksLogin implements [runnel.LoginChecker].
func (p *guarded) ChecksLogin() {}

func (p *guarded) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starts++
	if p.wrong != nil {
		return nil, p.wrong
	}
	if p.holding {
		close(p.held)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.release:
		}
	}
	conn, err := p.Provider.Open(ctx, opt)
	p.last = conn
	return conn, err
}

// Accepts implements [runnel.Accepter].
func (p *guarded) Accepts(context.Context, runnel.Options) (func(runnel.Attachment) string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return func(runnel.Attachment) string { return "" }, p.wrong
}

// change makes later starts fail with an error, or wait.
func (p *guarded) change(wrong error, holding bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrong, p.holding, p.starts = wrong, holding, 0
}

func (p *guarded) started() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starts
}

// crash ends the agent that was started last, as if its process had ended.
func (p *guarded) crash() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.last.Close()
}

// asleep creates a session whose agent does not run, and returns its id.
func (rg *rig) asleep() string {
	rg.t.Helper()
	id := rg.create()
	call[json.RawMessage](rg, "POST", "/api/session/"+id+"/kill", "", 200)
	call[json.RawMessage](rg, "POST", "/api/session/"+id+"/load", "{}", 200)
	return id
}

var errLogin = runnel.Fail(runnel.AgentNotLoggedIn, "The agent is not logged in. Run: agent login")

// httpSends are the ways to send a prompt over HTTP.
var httpSends = map[string]func(rg *rig, id, key string) *httptest.ResponseRecorder{
	"send": func(rg *rig, id, key string) *httptest.ResponseRecorder {
		return rg.do("POST", "/api/session/"+id+"/send", `{"content":"text"}`, header("Idempotency-Key", key))
	},
	"harness turn": func(rg *rig, id, key string) *httptest.ResponseRecorder {
		return rg.do("POST", "/api/harness/turn", `{"sessionId":"`+id+`","message":"text"}`, header("Idempotency-Key", key))
	},
}

// A prompt that starts the agent fails before its turn if the agent is not
// logged in. The same request succeeds after the login.
func TestMissingLoginIsAnErrorBeforeTheTurn(t *testing.T) {
	timed(t, minute)
	for way, send := range httpSends {
		t.Run(way, func(t *testing.T) {
			p := newGuarded()
			s := newRig(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{p} })
			id := s.asleep()
			before, err := s.log.State(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			p.change(errLogin, false)
			w := send(s, id, "k")
			var body struct {
				Error struct {
					Type, Message string
					Details       map[string]string
				}
			}
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != http.StatusServiceUnavailable || body.Error.Type != "AGENT_NOT_LOGGED_IN" ||
				!strings.Contains(body.Error.Message, "agent login") || body.Error.Details["provider"] != "script" || body.Error.Details["category"] != "LOGIN_MISSING" {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
			if st, err := s.log.State(t.Context(), id); err != nil || st.Head != before.Head {
				t.Errorf("the log has %d events of the refused prompt, %v", st.Head-before.Head, err)
			}
			if n := p.started(); n != 1 {
				t.Errorf("the agent was started %d times", n)
			}
			p.change(nil, false)
			if w := send(s, id, "k"); w.Code/100 != 2 || w.Header().Get("Idempotency-Replayed") != "" {
				t.Errorf("after the login: %d %v %s", w.Code, w.Header(), w.Body)
			}
		})
	}
}

// On the WebSocket no message waits for an agent, so a missing login ends the
// turn.
func TestMissingLoginEndsTheTurnOfAMessage(t *testing.T) {
	timed(t, minute)
	p := newGuarded()
	s := serve(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{p} })
	id := s.asleep()
	p.change(errLogin, false)
	c := s.dial()
	c.send(`{"type":"session:send","requestId":"r","sessionId":%q,"content":"text"}`, id)
	var sent struct{ TurnID string }
	if f := c.await("error", "response"); f.Error != nil || json.Unmarshal(f.Result, &sent) != nil {
		t.Fatalf("got %+v", f)
	}
	wantEnd(t, s.events(id, sent.TurnID), sent.TurnID, "AGENT_NOT_LOGGED_IN")
}

// Any other error of the start ends the turn.
func TestAgentThatDoesNotStartEndsTheTurn(t *testing.T) {
	timed(t, minute)
	p := newGuarded()
	s := newRig(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{p} })
	id := s.asleep()
	p.change(runnel.Fail(runnel.SessionCreateFailed, "no"), false)
	turn := s.prompt(id, "text")
	wantEnd(t, s.events(id, turn), turn, "SESSION_CREATE_FAILED")
}

// wantEnd checks that a turn ended once, with this code; "" if it completed.
func wantEnd(t *testing.T, evs []event.Event, turn, code string) {
	t.Helper()
	var ends []string
	for _, ev := range evs {
		switch b := ev.Body.(type) {
		case event.ResponseError:
			if ev.Turn == turn {
				ends = append(ends, b.Error.Code)
			}
		case event.ResponseDone:
			if ev.Turn == turn {
				ends = append(ends, "")
			}
		}
	}
	if len(ends) != 1 || ends[0] != code {
		t.Errorf("the turn ended with %q, want %q once", ends, code)
	}
}

// A prompt waits at most ten seconds for an agent to start. Then its turn
// begins.
func TestPromptWaitsTenSecondsForTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newGuarded()
		s := newRig(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{p} })
		id := s.asleep()
		p.change(nil, true)
		began := time.Now()
		turn := s.prompt(id, "text")
		if waited := time.Since(began); waited < 10*time.Second || waited > 11*time.Second {
			t.Errorf("the answer came after %v", waited)
		}
		close(p.release)
		wantEnd(t, s.events(id, turn), turn, "")
		if n := p.started(); n != 1 {
			t.Errorf("the agent was started %d times", n)
		}
	})
}

// A session can be ended while a prompt waits for its agent.
func TestSessionEndsWhileAPromptWaitsForTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newGuarded()
		s := newRig(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{p} })
		id := s.asleep()
		p.change(nil, true)
		answer := make(chan *httptest.ResponseRecorder)
		go func() { answer <- s.do("POST", "/api/session/"+id+"/send", `{"content":"text"}`) }()
		<-p.held
		began := time.Now()
		call[json.RawMessage](s, "POST", "/api/session/"+id+"/kill", "", 200)
		if w := <-answer; w.Code != http.StatusConflict || code(w) != "SESSION_DEAD" {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("that took %v", waited)
		}
	})
}

// If a client disconnects while its prompt waits for the agent, the prompt is
// not recorded. The same request, sent again, has one turn.
func TestClientThatLeavesDuringTheWaitForTheStartCanRepeatItsPrompt(t *testing.T) {
	const turn = "0192f0c1-7d5e-7c3a-9d0e-000000000001"
	for way, target := range map[string]struct{ path, body string }{
		"send":         {"/api/session/ID/send", `{"content":"text"MORE}`},
		"harness turn": {"/api/harness/turn", `{"sessionId":"ID","message":"text"MORE}`},
	} {
		for known, by := range map[string]struct {
			field string
			edit  func(*http.Request)
		}{
			"by nothing":     {"", func(*http.Request) {}},
			"by its key":     {"", header("Idempotency-Key", "k")},
			"by its turn id": {`,"turnId":"` + turn + `"`, func(*http.Request) {}},
		} {
			t.Run(way+" "+known, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := newGuarded()
					s := serve(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{p} })
					id := s.asleep()
					fill := strings.NewReplacer("ID", id, "MORE", by.field)
					path, body := fill.Replace(target.path), fill.Replace(target.body)
					before, err := s.log.State(t.Context(), id)
					if err != nil {
						t.Fatal(err)
					}
					p.change(nil, true)
					ctx, leave := context.WithCancel(t.Context())
					left := make(chan error)
					go func() {
						req, err := http.NewRequestWithContext(ctx, "POST", "http://own.localhost:7777"+path, strings.NewReader(body))
						if err == nil {
							req.Header.Set("Authorization", "Bearer "+s.token)
							req.Header.Set("Content-Type", "application/json")
							by.edit(req)
							_, err = s.client.Do(req)
						}
						left <- err
					}()
					<-p.held
					leave()
					if err := <-left; err == nil {
						t.Fatal("the prompt was answered before the client left")
					}
					synctest.Wait()
					close(p.release)
					time.Sleep(time.Minute) //nolint:forbidigo // virtual time, in which a recorded prompt would run
					if st, err := s.log.State(t.Context(), id); err != nil || st.Head != before.Head {
						t.Errorf("the log has %d events of the prompt, %v", st.Head-before.Head, err)
					}
					p.change(nil, false)
					for n := range 2 { // the second gets the first one's answer, if that is known
						res := s.roundTrip("POST", path, body, by.edit)
						if data := all(t, res.Body); res.StatusCode/100 != 2 {
							t.Errorf("sent again: %d %s", res.StatusCode, data)
						}
						if known == "by nothing" {
							break
						}
						if again := res.Header.Get("Idempotency-Replayed") == "true"; again != (n == 1) {
							t.Errorf("attempt %d: replayed %v", n, again)
						}
					}
					time.Sleep(time.Minute) //nolint:forbidigo // virtual time, in which the turn ends
					prompts := make(map[string]bool)
					for ev, err := range s.log.Read(t.Context(), id, before.Head) {
						if err != nil {
							t.Fatal(err)
						}
						if _, ok := ev.Body.(event.ResponseDone); ok {
							prompts[ev.Turn] = true
						}
					}
					if len(prompts) != 1 {
						t.Errorf("%d turns, want 1", len(prompts))
					}
				})
			})
		}
	}
}
