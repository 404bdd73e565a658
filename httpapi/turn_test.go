package httpapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

// turn streams a turn to its end and returns its frames.
func (s *site) turn(id, message, query string) []sseFrame {
	s.t.Helper()
	body, _ := json.Marshal(map[string]string{"sessionId": id, "message": message})
	res := s.roundTrip("POST", "/api/harness/turn"+query, string(body))
	data := all(s.t, res.Body)
	if res.StatusCode != 200 {
		s.t.Fatalf("got %d %s", res.StatusCode, data)
	}
	return framesOf(data)
}

func namesOf(frames []sseFrame) string {
	var names []string
	for _, f := range frames {
		if len(names) == 0 || names[len(names)-1] != f.name {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, " ")
}

func TestTurnFrames(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	tests := []struct{ prompt, want, last string }{
		{"text", "session:init chat:delta chat:complete session:complete process:exit", `"exitCode":0`},
		{`{"steps":[{"reasoning":"hm"},{"plan":[{"content":"do","status":"pending"}]},{"notice":{"level":"info","code":"X","message":"m"}},` +
			`{"tool":{"name":"Bash","arguments":{"command":"ls"},"output":"a"}},{"text":"done"}]}`,
			"session:init reasoning:delta reasoning:complete plan:update notice tool:start tool:result chat:delta chat:complete session:complete process:exit", `"exitCode":0`},
		{`{"steps":[{"text":"before"},{"fail":{"code":"RATE_LIMITED","message":"slow down"}}]}`,
			"session:init chat:delta chat:complete turn:error process:exit", `"exitCode":1`},
		{`{"steps":[{"crash":true}]}`, "session:init turn:error process:exit", `"exitCode":1`},
		{"text", "session:init chat:delta chat:complete session:complete process:exit", `"exitCode":0`}, // the session continues after a crash
	}
	for _, tt := range tests {
		frames := s.turn(id, tt.prompt, "")
		if got := namesOf(frames); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.prompt, got, tt.want)
		}
		if last := frames[len(frames)-1]; !bytes.Contains(last.data, []byte(tt.last)) {
			t.Errorf("%s: ended %s", tt.prompt, last.data)
		}
		checkFrames(t, frames)
	}
}

// checkFrames checks what holds for every frame, and that deltas add up.
func checkFrames(t *testing.T, frames []sseFrame) {
	t.Helper()
	said := map[string]string{}
	turn, last := "", int64(0)
	for _, f := range frames {
		var d struct {
			Seq                  int64
			TurnID, ItemID, Text string
			Fatal                *bool
		}
		if err := json.Unmarshal(f.data, &d); err != nil {
			t.Fatal(err)
		}
		if d.Seq != f.id || d.Seq < last || d.TurnID == "" || turn != "" && d.TurnID != turn {
			t.Errorf("frame %d %s: %s", f.id, f.name, f.data)
		}
		turn, last = d.TurnID, d.Seq
		switch f.name {
		case "chat:delta", "reasoning:delta":
			said[d.ItemID] += d.Text
		case "chat:complete", "reasoning:complete":
			if said[d.ItemID] != d.Text {
				t.Errorf("the deltas of %s add up to %q, the whole is %q", d.ItemID, said[d.ItemID], d.Text)
			}
		case "turn:error":
			if d.Fatal == nil || !*d.Fatal {
				t.Errorf("%s", f.data)
			}
		}
	}
}

func TestTurnFailsBeforeTheStream(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	s.prompt(id, "hang")
	s.until(id, is[event.ItemDelta])
	dead := s.create()
	call[reply.Empty](s.rig, "POST", "/api/session/"+dead+"/kill", "", 200)
	tests := []struct {
		query, body string
		status      int
		code        string
	}{
		{"", `{"sessionId":`, 400, "INVALID_REQUEST"},
		{"", `{"message":"x"}`, 400, "INVALID_REQUEST"},
		{"", `{"sessionId":"` + id + `"}`, 400, "INVALID_REQUEST"},
		{"?onDisconnect=explode", `{"sessionId":"` + id + `","message":"x"}`, 400, "INVALID_REQUEST"},
		{"", `{"sessionId":"0b5d3c1e-0000-7000-8000-000000000000","message":"x"}`, 404, "SESSION_NOT_FOUND"},
		{"", `{"sessionId":"` + dead + `","message":"x"}`, 409, "SESSION_DEAD"},
		// The check for a running turn precedes those of options, attachments
		// and profile.
		{"", `{"sessionId":"` + id + `","message":"x"}`, 409, "TURN_IN_PROGRESS"},
		{"", `{"sessionId":"` + id + `","message":"","attachments":[{"path":"/etc/passwd"}]}`, 409, "TURN_IN_PROGRESS"},
		{"", `{"sessionId":"` + id + `","message":"x","opts":{"permissionMode":"yolo"}}`, 409, "TURN_IN_PROGRESS"},
		{"", `{"sessionId":"` + id + `","message":"x","opts":{"persona":"nobody"}}`, 409, "TURN_IN_PROGRESS"},
	}
	for _, tt := range tests {
		res := s.roundTrip("POST", "/api/harness/turn"+tt.query, tt.body)
		var b reply.ErrorBody
		if err := json.Unmarshal(all(t, res.Body), &b); err != nil || res.StatusCode != tt.status || string(b.Error.Type) != tt.code ||
			res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s%s: got %d %+v, %v", tt.body, tt.query, res.StatusCode, b, err)
		}
	}
	free := s.create()
	for _, tt := range []struct {
		body   string
		status int
		code   string
	}{
		{`{"sessionId":"` + free + `","message":"","attachments":[{"path":"/etc/passwd"}],"opts":{"permissionMode":"yolo"}}`, 400, "INVALID_REQUEST"},
		{`{"sessionId":"` + free + `","message":"","attachments":[{"path":"/etc/passwd"}],"opts":{"persona":"nobody"}}`, 400, "ATTACHMENT_FAILURE"},
		{`{"sessionId":"` + free + `","message":"x","opts":{"persona":"nobody"}}`, 404, "PERSONA_NOT_FOUND"},
	} {
		w := s.do("POST", "/api/harness/turn", tt.body)
		if w.Code != tt.status || code(w) != tt.code {
			t.Errorf("%s: got %d %s", tt.body, w.Code, w.Body)
		}
	}
	if st := call[gateway.Status](s.rig, "GET", "/api/session/"+free+"/status", "", 200); st.TurnID != "" || st.PermissionMode != "" {
		t.Errorf("a refused turn left %+v", st)
	}
}

func TestTurnStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t)
		id := s.create()
		began := time.Now()
		frames := s.turn(id, "hang", "")
		if took := time.Since(began); took < 90*time.Second || took > 100*time.Second {
			t.Errorf("took %v", took)
		}
		if n := namesOf(frames); !strings.HasSuffix(n, "turn:error process:exit") {
			t.Errorf("got %s", n)
		}
		var e struct {
			Phase, ErrorType, Severity string
			Status                     int
		}
		if err := json.Unmarshal(frames[len(frames)-2].data, &e); err != nil || e.ErrorType != "AGENT_STALLED" || e.Status != 504 || e.Phase != "mid-stream" || e.Severity != "error" {
			t.Errorf("got %+v, %v", e, err)
		}
	})
}

func TestTurnWithApproval(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	done := make(chan []sseFrame)
	go func() { done <- s.turn(id, "approve", "") }()
	a := s.until(id, is[event.ApprovalRequested]).Body.(event.ApprovalRequested).Approval
	call[reply.Empty](s.rig, "POST", "/api/session/"+id+"/approvals/"+a.ID, `{"choice":"deny","reason":"not now"}`, 200)
	frames := <-done
	if n := namesOf(frames); n != "session:init tool:start permission:request permission:resolved tool:result chat:delta chat:complete session:complete process:exit" {
		t.Errorf("got %s", n)
	}
	for _, f := range frames {
		if f.name == "tool:result" && !bytes.Contains(f.data, []byte(`"ok":false`)) {
			t.Errorf("denied, and yet %s", f.data)
		}
	}
}

func TestTurnOnDisconnect(t *testing.T) {
	for query, want := range map[string]event.TurnStatus{"": event.StatusCompleted, "?onDisconnect=detach": event.StatusCompleted, "?onDisconnect=cancel": event.StatusCancelled} {
		t.Run(query, func(t *testing.T) {
			timed(t, minute)
			s := serve(t)
			id := s.create()
			body, _ := json.Marshal(map[string]string{"sessionId": id, "message": "approve"})
			res := s.roundTrip("POST", "/api/harness/turn"+query, string(body))
			r := bufio.NewReader(res.Body)
			f, err := readFrame(r)
			if err != nil || f.name != "session:init" {
				t.Fatalf("%+v, %v", f, err)
			}
			var in struct{ TurnID string }
			if err := json.Unmarshal(f.data, &in); err != nil {
				t.Fatal(err)
			}
			a := s.until(id, is[event.ApprovalRequested]).Body.(event.ApprovalRequested).Approval
			res.Body.Close()
			if want == event.StatusCompleted {
				call[reply.Empty](s.rig, "POST", "/api/session/"+id+"/approvals/"+a.ID, `{"choice":"allow","argumentsDigest":"`+a.ArgumentsDigest+`"}`, 200)
			}
			evs := s.events(id, in.TurnID)
			if got := evs[len(evs)-1].Body.(event.ResponseDone).Status; got != want {
				t.Errorf("ended %s, want %s", got, want)
			}
			// The events that the reader missed are in the log.
			last := evs[len(evs)-1].Seq
			rest, _ := s.readSSE(id, f.id, last)
			sameLog(t, rest, evs[f.id:])
		})
	}
}

// The client of a server that stops has not left: the next server continues the
// turn.
func TestTurnWithOnDisconnectCancelOutlivesAShutdown(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	res := s.roundTrip("POST", "/api/harness/turn?onDisconnect=cancel", `{"sessionId":"`+id+`","message":"approve"}`)
	defer res.Body.Close()
	asked := s.until(id, is[event.ApprovalRequested])
	a := asked.Body.(event.ApprovalRequested).Approval
	all := make(chan []sseFrame)
	go func() { all <- ending(res.Body, 1) }()
	if err := s.EndStreams(t.Context()); err != nil { // returns after the handler of the stream
		t.Fatal(err)
	}
	if last := <-all; len(last) != 1 || last[0].name != "stream:end" {
		t.Errorf("the stream ends with %+v", last)
	}
	call[reply.Empty](s.rig, "POST", "/api/session/"+id+"/approvals/"+a.ID, `{"choice":"allow","argumentsDigest":"`+a.ArgumentsDigest+`"}`, 200)
	evs := s.events(id, asked.Turn)
	if got := evs[len(evs)-1].Body.(event.ResponseDone).Status; got != event.StatusCompleted {
		t.Errorf("ended %s", got)
	}
}

// Every reader of a turn gets exactly one end of it, however the turn ends.
func TestTurnEndsOnceForEveryReader(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	prompts := []string{"text", "fail", "crash", "tools", "not json {", `{"bad":1}`, `{"steps":[]}`, burst(300)}
	for _, p := range prompts {
		if p == "not json {" {
			continue // plays the demo, which requests an approval
		}
		frames := s.turn(id, p, "")
		n := namesOf(frames)
		if strings.Count(n, "session:complete")+strings.Count(n, "turn:error") != 1 || strings.Count(n, "process:exit") != 1 || !strings.HasSuffix(n, " process:exit") {
			t.Errorf("%.20s: got %s", p, n)
		}
		// The turn has ended for the server once the client has the last frame.
		if st := call[gateway.Status](s.rig, "GET", "/api/session/"+id+"/status", "", 200); st.TurnID != "" {
			t.Errorf("%.20s: still in turn %s", p, st.TurnID)
		}
	}
	ended := map[string]int{}
	began := map[string]int{}
	for ev := range s.log.Read(t.Context(), id, 0) {
		if event.Ends(ev.Body) {
			ended[ev.Turn]++
		}
		if is[event.ResponseStart](ev) {
			began[ev.Turn]++
		}
	}
	for turn, n := range began {
		if n != 1 || ended[turn] != 1 {
			t.Errorf("turn %s began %d times and ended %d times", turn, n, ended[turn])
		}
	}
}

func TestHarness(t *testing.T) {
	rg := newRig(t)
	made := call[harnessSession](rg, "POST", "/api/harness/session/create", `{"projectRoot":"`+rg.dir+`","opts":{"later":1}}`, 200)
	id := made.Session.SessionID
	if id == "" || made.Session.CLIType != "script" || len(made.Warnings) != 1 {
		t.Fatalf("created %+v", made)
	}
	if w := rg.do("POST", "/api/harness/session/create", `{"projectRoot":"`+rg.dir+`","persona":"nobody"}`); w.Code != 404 || code(w) != "PERSONA_NOT_FOUND" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	boot := call[bootAnswer](rg, "POST", "/api/harness/session/boot", `{"sessionId":"`+id+`"}`, 200)
	if boot.Boot.Started || boot.Boot.Reason != "already_booted" || boot.Session.SessionID != id {
		t.Errorf("boot %+v", boot)
	}
	if list := call[listAnswer](rg, "GET", "/api/harness/session/list?projectRoot="+rg.dir, "", 200); len(list.Sessions) != 1 {
		t.Errorf("list %+v", list)
	}
	turn := rg.prompt(id, "hang") // a turn of the Session API blocks one of the harness, too
	if w := rg.do("POST", "/api/harness/turn", `{"sessionId":"`+id+`","message":"x"}`); w.Code != 409 || code(w) != "TURN_IN_PROGRESS" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	if w := rg.do("DELETE", "/api/harness/session/"+id, ""); w.Code != 409 {
		t.Errorf("delete in a turn: %d", w.Code)
	}
	if ans := call[okAnswer](rg, "POST", "/api/harness/interrupt", `{"sessionId":"`+id+`"}`, 200); !ans.OK {
		t.Error("not interrupted")
	}
	rg.events(id, turn)
	call[okAnswer](rg, "DELETE", "/api/harness/session/"+id, "", 200)
	if w := rg.do("GET", "/api/harness/session/"+id, ""); w.Code != 404 {
		t.Errorf("after the delete: %d", w.Code)
	}
}

func TestTurnFramesKeepTheirPromise(t *testing.T) {
	// Cases: deltas that do not cover the final text, text given at the start,
	// and text of an item that fails.
	frames := stream.NewTurnFrames("s", "t")
	var got []sseFrame
	for i, b := range []event.Body{
		event.ItemStart{ItemID: runnel.UserItemID("t"), ItemType: event.TypeMessage},
		event.ItemDone{ItemID: runnel.UserItemID("t"), FinalItem: event.Message{Content: "hi", Origin: event.OriginUser}},
		event.ResponseStart{ModelID: "m", ProviderID: "p"},
		event.ItemStart{ItemID: "1", ItemType: event.TypeMessage, InitialContent: "He"},
		event.ItemDelta{ItemID: "1", DeltaContent: "l"},
		event.ItemDone{ItemID: "1", FinalItem: event.Message{Content: "Hello", Origin: event.OriginAgent}},
		event.ItemStart{ItemID: "2", ItemType: event.TypeReasoning},
		event.ItemDelta{ItemID: "2", DeltaContent: "hm"},
		event.ItemCancelled{ItemID: "2", Reason: event.ReasonUserCancel},
		event.ItemDone{ItemID: "3", FinalItem: event.Message{Content: "whole", Origin: event.OriginAgent}},
		event.ItemStart{ItemID: "4", ItemType: event.TypeFunctionCall, CallID: "c", Name: "Bash"},
		event.ItemError{ItemID: "4", Error: event.Fault{Code: "X", Message: "broke"}},
		event.ResponseDone{Status: event.StatusCancelled},
	} {
		for _, f := range frames.Push(event.Event{Seq: int64(i + 1), Turn: "t", Body: b}) {
			data, err := json.Marshal(f.Data)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, sseFrame{int64(i + 1), f.Name, data})
		}
	}
	checkFrames(t, got)
	if n := namesOf(got); n != "session:init chat:delta chat:complete reasoning:delta chat:delta chat:complete tool:result session:complete process:exit" {
		t.Errorf("got %s", n)
	}
	if last := got[len(got)-1]; !bytes.Contains(last.data, []byte(`"interrupted":true`)) {
		t.Errorf("ended %s", last.data)
	}
}

func TestTooManyStreams(t *testing.T) {
	timed(t, minute)
	s := serve(t, func(c *Config, _ *gateway.Config) { c.Limits.StreamsPerCredential = 2 })
	id := s.create()
	a := s.get("/api/session/" + id + "/events")
	s.join(stream.FamilyUpsert)
	if res := s.get("/api/session/" + id + "/events"); res.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a third: %d", res.StatusCode)
	}
	if _, res, err := s.tryDial(); err == nil || res.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a third by WebSocket: %v", err)
	}
	a.Body.Close()
}
