package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

// All routes that take options reject the same options with the same code. They
// start no agent, and change no setting of a running agent.
func TestEveryRouteRefusesOptionsAlike(t *testing.T) {
	timed(t, minute)
	p := new(recordingAgent)
	s := serve(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{p} })
	id := s.create()
	s.gw.Agents(t.Context(), true) // the agent was probed
	peer := s.join(stream.FamilyUpsert)
	opened := len(p.opened)

	create := map[string]string{
		"POST /api/session/create":         `{"cliType":"script","projectDir":"` + s.dir + `","options":%s}`,
		"POST /api/harness/session/create": `{"projectRoot":"` + s.dir + `","opts":%s}`,
	}
	live := map[string]string{
		"POST /api/session/" + id + "/send":    `{"content":"text","opts":%s}`,
		"POST /api/session/" + id + "/options": `%s`,
		"POST /api/harness/turn":               `{"sessionId":"` + id + `","message":"text","opts":%s}`,
	}
	check := func(routes map[string]string, options string, want runnel.Code) {
		t.Helper()
		for route, body := range routes {
			method, target, _ := strings.Cut(route, " ")
			if w := s.do(method, target, fmt.Sprintf(body, options)); w.Code != http.StatusBadRequest || code(w) != string(want) {
				t.Errorf("%s with %.60s: got %d %s, want %s", route, options, w.Code, w.Body, want)
			}
		}
	}
	long := strings.Repeat("m", 129)
	for _, options := range []string{
		`{"reasoningEffort":"banana"}`, `{"permissionMode":"yolo"}`, `{"permissionMode":"bypass"}`, `{"model":"` + long + `"}`, `{"model":"  "}`,
		`{"config":{"speed":"1"}}`, `{"config":{"pace":"slow"}}`, `{"config":{"thoughts":"perhaps"}}`,
		`{"subagentGovernance":true}`, `{"subagentGovernance":[]}`, `{"persona":5}`, `{"delegation":true}`,
	} {
		check(create, options, runnel.InvalidRequest)
		check(live, options, runnel.InvalidRequest)
		peer.send(`{"type":"session:send","requestId":"1","sessionId":"%s","content":"text","opts":%s}`, id, options)
		if f := peer.await("error", "response"); f.Type != "error" || f.Error.Type != runnel.InvalidRequest {
			t.Errorf("session:send with %.60s: got %+v", options, f)
		}
		peer.send(`{"type":"session:options","requestId":"2","sessionId":"%s",%s}`, id, strings.Trim(options, "{}")+strings.Repeat("}", strings.Count(options, "}")-1))
		if f := peer.await("error", "response"); f.Type != "error" || f.Error.Type != runnel.InvalidRequest {
			t.Errorf("session:options with %.60s: got %+v", options, f)
		}
	}
	for _, options := range []string{
		`{"maxTurns":3}`, `{"maxTurns":-1}`, `{"tools":["Read"]}`, `{"addDirs":["/"]}`, `{"maxThinkingTokens":5}`, `{"systemPromptAppend":"x"}`,
		`{"mcpServers":{}}`, `{"mode":"x"}`,
	} {
		check(create, options, runnel.UnsupportedCapability)
		check(live, options, runnel.UnsupportedCapability)
	}
	for _, target := range []string{"/api/session/" + id + "/fork", "/api/session/" + id + "/load", "/api/harness/session/boot"} {
		if w := s.do("POST", target, `{"options":{}}`); w.Code != http.StatusBadRequest || code(w) != "INVALID_REQUEST" {
			t.Errorf("%s takes options: got %d %s", target, w.Code, w.Body)
		}
	}
	if len(p.opened) != opened {
		t.Errorf("%d agents were started", len(p.opened)-opened)
	}
	if heard := p.take(); len(heard) > 0 {
		t.Errorf("the agent heard %q", heard)
	}
	if st, err := s.log.State(t.Context(), id); err != nil || len(st.Open) > 0 {
		t.Errorf("turns run: %+v, %v", st, err)
	}
}

func TestModelIsTrimmed(t *testing.T) {
	p := new(recordingAgent)
	rg := newRig(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{p} })
	body := `{"cliType":"script","projectDir":"` + rg.dir + `","options":{"model":" m "}}`
	id := call[createAnswer](rg, "POST", "/api/session/create", body, 201).SessionID
	if got := p.opened[0].Model; got != "m" {
		t.Errorf("started with %q", got)
	}
	call[gateway.Status](rg, "POST", "/api/session/"+id+"/options", `{"model":"\tn\n"}`, 200)
	if got := p.take(); len(got) != 1 || got[0] != "model n" {
		t.Errorf("the agent heard %q", got)
	}
}

// The form of a request is checked first, and the error names the field as the
// client wrote it.
func TestShapeIsCheckedBeforeTheSession(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	busy := s.create()
	s.prompt(busy, "hang")
	s.until(busy, is[event.ItemDelta])
	const nobody = "0b5d3c1e-0000-7000-8000-000000000000"
	for _, id := range []string{busy, nobody} {
		for _, tt := range []struct{ target, body, field string }{
			{"/api/harness/turn", `{"sessionId":"` + id + `","message":""}`, "message"},
			{"/api/harness/turn", `{"sessionId":"` + id + `","message":" \n"}`, "message"},
			{"/api/harness/turn", `{"sessionId":"` + id + `"}`, "message"},
			{"/api/harness/turn", `{"sessionId":"` + id + `","message":"x","opts":[]}`, "opts"},
			{"/api/harness/turn", `{"sessionId":"` + id + `","message":"x","attachments":[1]}`, "attachments.0"},
			{"/api/session/" + id + "/send", `{"content":""}`, "content"},
			{"/api/session/" + id + "/send", `{"content":"\t"}`, "content"},
			{"/api/session/" + id + "/send", `{"content":"x","opts":{"maxTurns":"2"}}`, "opts.maxTurns"},
			{"/api/harness/turn", `{"message":"x"}`, "sessionId"},
			{"/api/harness/session/boot", `{}`, "sessionId"},
			{"/api/harness/session/boot", ``, "sessionId"},
			{"/api/harness/interrupt", `{"sessionId":""}`, "sessionId"},
		} {
			w := s.do("POST", tt.target, tt.body)
			var b reply.ErrorBody
			if err := json.Unmarshal(w.Body.Bytes(), &b); err != nil || w.Code != http.StatusBadRequest || !strings.HasPrefix(b.Error.Message, tt.field+":") {
				t.Errorf("%s %s: got %d %s, want 400 about %s", tt.target, tt.body, w.Code, w.Body, tt.field)
			}
		}
	}
	p := s.join(stream.FamilyUpsert)
	for _, say := range []string{
		`{"type":"session:send","requestId":"r","sessionId":"` + nobody + `","content":" "}`, `{"type":"session:send","requestId":"r","content":"x"}`,
		`{"type":"session:cancel","requestId":"r"}`, `{"type":"session:subscribe","requestId":"r"}`,
	} {
		p.send("%s", say)
		if f := p.await("error", "response"); f.Type != "error" || f.Error.Type != runnel.InvalidRequest {
			t.Errorf("%s: got %+v", say, f)
		}
	}
}

// The details of these errors contain the session and the turn.
func TestErrorsAboutOptionsNameTheFieldOfTheRequest(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	for _, tt := range []struct{ target, body, field string }{
		{"/api/session/create", `{"cliType":"script","projectDir":"` + rg.dir + `","options":%s}`, "options."},
		{"/api/harness/session/create", `{"cliType":"script","projectRoot":"` + rg.dir + `","opts":%s}`, "opts."},
		{"/api/session/" + id + "/send", `{"content":"text","opts":%s}`, "opts."},
		{"/api/harness/turn", `{"sessionId":"` + id + `","message":"text","opts":%s}`, "opts."},
		{"/api/session/" + id + "/options", `%s`, ""},
	} {
		for options, want := range map[string]string{
			`{"model":5}`:              "model: ",
			`{"Model":"m"}`:            `"Model": `,
			`{"mode":"fast"}`:          "mode: ",
			`{"subagentGovernance":1}`: "subagentGovernance: ",
		} {
			w := rg.do("POST", tt.target, fmt.Sprintf(tt.body, options))
			var b reply.ErrorBody
			if err := json.Unmarshal(w.Body.Bytes(), &b); err != nil || w.Code != http.StatusBadRequest || !strings.HasPrefix(b.Error.Message, tt.field+want) {
				t.Errorf("%s with %s: got %d %s, want an error about %s%s", tt.target, options, w.Code, w.Body, tt.field, want)
			}
		}
	}
}

func TestErrorsNameSessionAndTurn(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	turn := s.prompt(id, "hang")
	const nobody = "0b5d3c1e-0000-7000-8000-000000000000"
	for _, tt := range []struct{ id, want string }{
		{id, `"details":{"sessionId":"` + id + `","turnId":"` + turn + `"}`}, {nobody, `"details":{"sessionId":"` + nobody + `"}`},
	} {
		w := s.do("POST", "/api/harness/turn", `{"sessionId":"`+tt.id+`","message":"x"}`)
		if !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("got %s, want %s", w.Body, tt.want)
		}
	}
}

func TestStrayFieldListsTheKnownOnes(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	if w := s.do("POST", "/api/session/"+id+"/kill", `{"force":true}`); w.Code != 400 || !strings.Contains(w.Body.String(), `unknown field; this request has no fields`) {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if w := s.do("POST", "/api/harness/interrupt", `{"sessionId":"`+id+`","force":true}`); w.Code != 400 || !strings.Contains(w.Body.String(), `known are sessionId`) {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	p := s.join(stream.FamilyUpsert)
	p.send(`{"type":"session:cancel","requestId":"r","sessionId":"%s","force":true}`, id)
	if f := p.await("error", "response"); f.Type != "error" || !strings.Contains(f.Error.Message, "known are continueQueue, requestId, sessionId, type") {
		t.Errorf("got %+v", f)
	}
}

// decoded returns the data of the first frame with a name.
func decoded(t *testing.T, frames []sseFrame, name string) (m map[string]any) {
	t.Helper()
	for _, f := range frames {
		if f.name == name {
			if err := json.Unmarshal(f.data, &m); err != nil {
				t.Fatal(err)
			}
			return m
		}
	}
	t.Fatalf("no %s in %s", name, namesOf(frames))
	return nil
}

// A text that was cut off by a crash has no chat:complete.
func TestTextCutByACrashIsNotComplete(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	frames := stream.NewTurnFrames("s", "t")
	var names []string
	for i, b := range []event.Body{
		event.ResponseStart{ModelID: "m", ProviderID: "p"},
		event.ItemStart{ItemID: "1", ItemType: event.TypeMessage},
		event.ItemDelta{ItemID: "1", DeltaContent: "half"},
		event.ItemCancelled{ItemID: "1", Reason: event.ReasonProcessDeath},
		event.ResponseError{Error: event.Fault{Code: "PROCESS_CRASH", Message: "gone"}},
	} {
		for _, f := range frames.Push(event.Event{Seq: int64(i + 1), Turn: "t", Body: b}) {
			names = append(names, f.Name)
		}
	}
	if got := strings.Join(names, " "); got != "session:init chat:delta turn:error process:exit" {
		t.Errorf("got %s", got)
	}
	if got := namesOf(s.turn(id, `{"steps":[{"crash":true}]}`, "")); got != "session:init turn:error process:exit" {
		t.Errorf("got %s", got)
	}
}

func TestTurnErrorTellsSeverityFatalAndDetails(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	for _, tt := range []struct {
		fail, severity string
		status         float64
	}{
		{`{"code":"RATE_LIMITED","message":"slow down","details":{"retryAfter":5}}`, "warning", 429},
		{`{"code":"AGENT_ERROR","message":"broken","details":{"retryAfter":5}}`, "error", 502},
		{`{"code":"INVALID_REQUEST","message":"no","details":{"retryAfter":5}}`, "warning", 400},
	} {
		e := decoded(t, s.turn(id, `{"steps":[{"text":"a"},{"fail":`+tt.fail+`}]}`, ""), "turn:error")
		details, _ := e["details"].(map[string]any)
		if e["severity"] != tt.severity || e["status"] != tt.status || e["fatal"] != true || details["retryAfter"] != 5.0 || e["phase"] != "mid-stream" {
			t.Errorf("%s: got %v", tt.fail, e)
		}
	}
	frames := stream.NewTurnFrames("s", "t")
	frames.Push(event.Event{Seq: 1, Turn: "t", Body: event.ItemStart{ItemID: "1", ItemType: event.TypeMessage}})
	got := frames.Push(event.Event{Seq: 2, Turn: "t", Body: event.ItemError{ItemID: "1", Error: event.Fault{Code: "AGENT_ERROR", Message: "retrying"}}})
	data, _ := json.Marshal(got)
	if len(got) != 1 || !strings.Contains(string(data), `"fatal":false`) || !strings.Contains(string(data), `"itemId":"1"`) {
		t.Errorf("a text that failed while the turn goes on: got %s", data)
	}
}

// The client gets warnings about a prompt even if its turn ends at once.
func TestWarningsReachTheClientOfATurnThatEndsEarly(t *testing.T) {
	for name, end := range map[string]event.Body{
		"at once": event.ResponseError{Error: event.Fault{Code: "AGENT_ERROR", Message: "no"}},
		"begun":   event.ResponseStart{ModelID: "m", ProviderID: "p"},
	} {
		frames := stream.NewTurnFrames("s", "t", "careful")
		got, _ := json.Marshal(frames.Push(event.Event{Seq: 1, Turn: "t", Body: end}))
		if strings.Count(string(got), "careful") != 1 {
			t.Errorf("%s: got %s", name, got)
		}
		if again, _ := json.Marshal(frames.Push(event.Event{Seq: 2, Turn: "t", Body: event.ResponseDone{Status: event.StatusCompleted}})); strings.Contains(string(again), "careful") {
			t.Errorf("%s: twice: %s", name, again)
		}
	}
	timed(t, minute)
	log := &unreadable{Memory: new(runnel.Memory)}
	s := serve(t, func(_ *Config, g *gateway.Config) { g.Log = log })
	s.log = log.Memory
	id := s.create()
	log.broken.Store(true) // the turn begins, but cannot be read
	body, _ := json.Marshal(map[string]any{"sessionId": id, "message": "text", "opts": map[string]any{"later": 1}})
	res := s.roundTrip("POST", "/api/harness/turn", string(body))
	data := all(t, res.Body)
	if n := namesOf(framesOf(data)); n != "notice turn:error process:exit" || !strings.Contains(string(data), "later") {
		t.Errorf("got %s", data)
	}
}

// An unreadable is a log that cannot be read once it is broken.
type unreadable struct {
	*runnel.Memory
	broken atomic.Bool
}

func (u *unreadable) Read(ctx context.Context, session string, after int64) iter.Seq2[event.Event, error] {
	if u.broken.Load() {
		return func(yield func(event.Event, error) bool) { yield(event.Event{}, errors.New("the disk is gone")) }
	}
	return u.Memory.Read(ctx, session, after)
}
