package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/httpapi/stream"
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
				call[json.RawMessage](s, "POST", "/api/session/"+id+"/cancel", `{"continueQueue":true}`, 200)
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

// queued queues prompts behind a turn that hangs, and returns their ids.
func (rg *rig) queued(id string, texts ...string) (busy string, turns []string) {
	rg.t.Helper()
	busy = rg.prompt(id, "hang")
	rg.until(id, func(ev event.Event) bool { return ev.Turn == busy && is[event.ResponseStart](ev) })
	for _, text := range texts {
		turns = append(turns, call[command.SendAnswer](rg, "POST", "/api/session/"+id+"/send", `{"content":"`+text+`","queue":true}`, 202).TurnID)
	}
	return busy, turns
}

func order(q gateway.Queue) (out string) {
	for _, p := range q.Prompts {
		out += p.Text + "; "
	}
	if q.Held {
		out += "held"
	}
	return out
}

// The queue is listed, edited, reordered, held and continued over HTTP, and
// every change reaches watchers.
func TestQueueOverHTTP(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	p := s.subscribed(stream.FamilyUpsert, id)
	path := "/api/session/" + id + "/queue"
	want := func(what string, q gateway.Queue, want string) {
		t.Helper()
		if got := order(q); got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
		if got := order(call[gateway.Queue](s.rig, "GET", path, "", 200)); got != want {
			t.Errorf("the list after %s: got %q, want %q", what, got, want)
		}
		for { // until the status has the change
			var st gateway.Status
			if f := p.await("session:status"); json.Unmarshal(f.Payload, &st) != nil {
				t.Fatalf("got %+v", f)
			}
			if order(gateway.Queue{Held: st.QueueHeld, Prompts: st.Queue}) == want && st.Queued == len(st.Queue) {
				return
			}
		}
	}
	busy, turns := s.queued(id, "text 1", "text 2", "text 3")
	change := func(turn, body string) gateway.Queue {
		t.Helper()
		return call[gateway.Queue](s.rig, "POST", path+"/"+turn, body, 200)
	}
	want("a move", change(turns[2], `{"before":"`+turns[0]+`"}`), "text 3; text 1; text 2; ")
	want("an edit", change(turns[0], `{"content":"text one","before":""}`), "text 3; text 2; text one; ")
	want("a removal", call[gateway.Queue](s.rig, "DELETE", path+"/"+turns[1], "", 200), "text 3; text one; ")
	if q := call[gateway.QueuedPrompt](s.rig, "GET", path+"/"+turns[0], "", 200); q.Text != "text one" || q.TurnID != turns[0] || q.QueuedAt.IsZero() {
		t.Errorf("got %+v", q)
	}
	call[reply.Empty](s.rig, "POST", "/api/session/"+id+"/cancel", "{}", 200)
	s.events(id, busy)
	want("a stop", call[gateway.Queue](s.rig, "GET", path, "", 200), "text 3; text one; held")
	if got := order(call[gateway.Queue](s.rig, "POST", path, `{"held":false}`, 200)); got != "text 3; text one; " {
		t.Errorf("continued: %q", got)
	}
	s.events(id, turns[0])
	if got := s.prompts(id, "text one"); len(got) != 1 {
		t.Errorf("the log has %q", got)
	}

	for _, tt := range []struct{ path, body string }{
		{path, `{}`}, {path, `{"held":null}`}, {path, `{"held":"yes"}`}, {path + "/" + turns[0], `{}`}, {path + "/" + turns[0], `{"content":1}`},
		{path + "/" + turns[0], `{"position":1}`}, {"/api/session/" + id + "/seen", `{}`}, {"/api/session/" + id + "/seen", `{"seq":-1}`}, {"/api/session/" + id + "/cancel", `{"continueQueue":1}`},
	} {
		s.wantError("POST", tt.path, tt.body, 400, runnel.InvalidRequest)
	}
	for _, turn := range []string{turns[0], turns[1], "none"} {
		s.wantError("GET", path+"/"+turn, "", 409, runnel.PromptGone)
		s.wantError("POST", path+"/"+turn, `{"content":"late"}`, 409, runnel.PromptGone)
		s.wantError("DELETE", path+"/"+turn, "", 409, runnel.PromptGone)
	}
	long := strings.Repeat("x", 1<<20)
	_, turns = s.queued(id, "text")
	s.wantError("POST", path+"/"+turns[0], `{"content":"`+long+`"}`, 413, runnel.PayloadTooLarge)
	s.wantError("POST", path+"/"+turns[0], `{"content":" "}`, 400, runnel.InvalidRequest)
}

func TestQueueOnTheWebSocket(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	p := s.join(stream.FamilyEvents)
	busy, turns := s.queued(id, "text 1", "text 2")
	for i, tt := range []struct{ message, want string }{
		{`"type":"session:queue"`, "text 1; text 2; "},
		{`"type":"session:queue:edit","turnId":"` + turns[1] + `","content":"text two","before":"` + turns[0] + `"`, "text two; text 1; "},
		{`"type":"session:queue:hold","held":true`, "text two; text 1; held"},
		{`"type":"session:queue:remove","turnId":"` + turns[0] + `"`, "text two; held"},
		{`"type":"session:cancel"`, ""},
		{`"type":"session:queue"`, "text two; held"},
		{`"type":"session:queue:hold","held":false`, "text two; "},
	} {
		p.send(`{%s,"requestId":"%d","sessionId":%q}`, tt.message, i, id)
		f := p.await("response", "error")
		var q gateway.Queue
		if json.Unmarshal(f.Result, &q) != nil || f.Type != "response" || order(q) != tt.want {
			t.Errorf("%s: got %s %+v, want %q", tt.message, f.Result, f.Error, tt.want)
		}
	}
	s.events(id, busy)
	s.events(id, turns[1])
	p.send(`{"type":"session:queue:remove","requestId":"late","sessionId":%q,"turnId":%q}`, id, turns[1])
	if f := p.await("response", "error"); f.Type != "error" || f.Error.Type != runnel.PromptGone {
		t.Errorf("got %+v", f)
	}
	_, turns = s.queued(id, "text 3")
	p.send(`{"type":"session:cancel","requestId":"skip","sessionId":%q,"continueQueue":true}`, id)
	s.events(id, turns[0])
}

// A client that cancels its turn by disconnecting does not hold the prompts of
// other clients.
func TestDisconnectLeavesTheQueue(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	res := s.roundTrip("POST", "/api/harness/turn?onDisconnect=cancel", `{"sessionId":"`+id+`","message":"hang"}`)
	if _, err := readFrame(bufio.NewReader(res.Body)); err != nil {
		t.Fatal(err)
	}
	next := call[command.SendAnswer](s.rig, "POST", "/api/session/"+id+"/send", `{"content":"text","queue":true}`, 202).TurnID
	_ = res.Body.Close()
	s.events(id, next)
}

// What is seen on one device is seen on all.
func TestSeenReachesEveryClient(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	s.events(id, s.prompt(id, "text"))
	p := s.subscribed(stream.FamilyUpsert, id)
	st := call[gateway.Status](s.rig, "GET", "/api/session/"+id+"/status", "", 200)
	if st.SeenSeq != 0 || st.LastSeq == 0 {
		t.Errorf("got %d of %d", st.SeenSeq, st.LastSeq)
	}
	if got := call[seenAnswer](s.rig, "POST", "/api/session/"+id+"/seen", fmt.Sprintf(`{"seq":%d}`, st.LastSeq+100), 200); got.SeenSeq < st.LastSeq {
		t.Errorf("got %+v", got)
	}
	for seen := int64(0); seen < st.LastSeq; {
		var now gateway.Status
		if f := p.await("session:status"); json.Unmarshal(f.Payload, &now) != nil {
			t.Fatalf("got %+v", f)
		}
		seen = now.SeenSeq
	}
	if list := call[listAnswer](s.rig, "GET", "/api/session/list?projectId=*", "", 200).Sessions; len(list) != 1 || list[0].SeenSeq < st.LastSeq {
		t.Errorf("listed %+v", list)
	}
}
