package httpapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

// key marks a request as one that may be repeated.
func key(k string) func(*http.Request) { return header("Idempotency-Key", k) }

// A way is a transport over which a prompt is sent.
type way struct {
	name string
	// send returns the id of the turn, or the code of an error.
	send func(s *site, session, text, key, turn string) (turnID, code string, replayed bool)
}

func ways() []way {
	answer := func(s *site, res *http.Response) (string, string, bool) {
		var b struct {
			TurnID string
			Error  struct{ Type string }
		}
		data := all(s.t, res.Body)
		if frames := framesOf(data); len(frames) > 0 {
			data = frames[0].data
		}
		if err := json.Unmarshal(data, &b); err != nil {
			s.t.Errorf("%v: %s", err, data)
		}
		if b.Error.Type != "" {
			b.Error.Type = fmt.Sprint(res.StatusCode, " ", b.Error.Type)
		}
		return b.TurnID, b.Error.Type, res.Header.Get("Idempotency-Replayed") == "true"
	}
	keyed := func(k string) func(*http.Request) {
		return func(r *http.Request) {
			if k != "" {
				r.Header.Set("Idempotency-Key", k)
			}
		}
	}
	return []way{
		{"send", func(s *site, session, text, key, turn string) (string, string, bool) {
			body, _ := json.Marshal(command.SendRequest{Content: text, TurnID: turn})
			return answer(s, s.roundTrip("POST", "/api/session/"+session+"/send", string(body), keyed(key)))
		}},
		{"harness", func(s *site, session, text, key, turn string) (string, string, bool) {
			body, _ := json.Marshal(stream.TurnRequest{SessionID: session, Message: text, TurnID: turn})
			return answer(s, s.roundTrip("POST", "/api/harness/turn", string(body), keyed(key)))
		}},
		{"websocket", func(s *site, session, text, key, turn string) (string, string, bool) {
			p := s.join(stream.FamilyUpsert)
			defer p.conn.CloseNow()
			body, _ := json.Marshal(map[string]string{"type": "session:send", "requestId": "r", "sessionId": session, "content": text, "idempotencyKey": key, "turnId": turn})
			p.send("%s", body)
			_, data, err := p.conn.Read(s.t.Context())
			if err != nil {
				s.t.Fatal(err)
			}
			var f struct {
				Type     string
				Result   struct{ TurnID string }
				Replayed bool
				Error    struct{ Type string }
			}
			if err := json.Unmarshal(data, &f); err != nil || f.Type != "response" && f.Type != "error" {
				s.t.Fatalf("%v: %s", err, data)
			}
			if f.Error.Type != "" {
				f.Error.Type = "409 " + f.Error.Type // WebSocket messages have no status
			}
			return f.Result.TurnID, f.Error.Type, f.Replayed
		}},
	}
}

// prompts returns the ids of the turns that have a prompt with this text.
func (rg *rig) prompts(session, text string) (turns []string) {
	rg.t.Helper()
	for ev, err := range rg.log.Read(rg.t.Context(), session, 0) {
		if err != nil {
			rg.t.Fatal(err)
		}
		if b, ok := ev.Body.(event.ItemDone); ok && b.ItemID == runnel.UserItemID(ev.Turn) && b.FinalItem.(event.Message).Content == text {
			turns = append(turns, ev.Turn)
		}
	}
	return turns
}

func TestPromptSentAgainMakesOneTurn(t *testing.T) {
	for _, w := range ways() {
		for _, by := range []string{"key", "turn", "both"} {
			t.Run(w.name+" by "+by, func(t *testing.T) {
				timed(t, minute)
				s := serve(t)
				id, k, turn := s.create(), "k-1", uuid.NewString()
				switch by {
				case "key":
					turn = ""
				case "turn":
					k = ""
				}
				first, code, replayed := w.send(s, id, "text", k, turn)
				if first == "" || code != "" || replayed || turn != "" && first != turn {
					t.Fatalf("first: %q %s, replayed %v", first, code, replayed)
				}
				s.events(id, first)
				for _, again := range ways() { // the other ways repeat the same request
					if got, code, replayed := again.send(s, id, "text", k, turn); got != first || code != "" || !replayed {
						t.Errorf("again by %s: %q %s, replayed %v", again.name, got, code, replayed)
					}
				}
				if got := s.prompts(id, "text"); len(got) != 1 || got[0] != first {
					t.Errorf("the log has the turns %v", got)
				}
				// A request with another body or session is a different
				// request.
				if _, code, _ := w.send(s, id, "fail", k, turn); code != "409 INVALID_REQUEST" {
					t.Errorf("another body: %s", code)
				}
				if _, code, _ := w.send(s, s.create(), "text", k, turn); code != "409 INVALID_REQUEST" {
					t.Errorf("another session: %s", code)
				}
				if got, code, replayed := w.send(s, id, "text", "", ""); got == first || code != "" || replayed {
					t.Errorf("unmarked: %q %s, replayed %v", got, code, replayed)
				}
			})
		}
	}
}

func TestParallelRetriesMakeOneTurn(t *testing.T) {
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			timed(t, minute)
			s := serve(t)
			id, turn := s.create(), uuid.NewString()
			var wg sync.WaitGroup
			var mu sync.Mutex
			fresh := 0
			for range 50 {
				wg.Go(func() {
					got, code, replayed := w.send(s, id, "text", "k", turn)
					mu.Lock()
					defer mu.Unlock()
					if got != turn || code != "" {
						t.Errorf("got %q %s", got, code)
					}
					if !replayed {
						fresh++
					}
				})
			}
			wg.Wait()
			if got := s.prompts(id, "text"); len(got) != 1 || fresh != 1 {
				t.Errorf("%d turns, %d first answers", len(got), fresh)
			}
		})
	}
}

// A repeated harness turn streams the running turn from its first frame.
func TestRetryStreamsTheRunningTurn(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	id := s.create()
	body, _ := json.Marshal(map[string]string{"sessionId": id, "message": "approve"})
	cut := s.roundTrip("POST", "/api/harness/turn", string(body), key("k"))
	first, err := readFrame(bufio.NewReader(cut.Body))
	if err != nil || first.name != "session:init" || !bytes.Contains(first.data, []byte(`"resume":{"status":"ok"}`)) {
		t.Fatalf("%s %s, %v", first.name, first.data, err)
	}
	cut.Body.Close() // the connection is lost
	streams := make(chan []sseFrame, 2)
	for range 2 {
		go func() {
			res := s.roundTrip("POST", "/api/harness/turn", string(body), key("k"))
			if res.StatusCode != 200 || res.Header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("got %d %v", res.StatusCode, res.Header)
			}
			streams <- framesOf(all(t, res.Body))
		}()
	}
	a := s.until(id, is[event.ApprovalRequested]).Body.(event.ApprovalRequested).Approval
	call[struct{}](s.rig, "POST", "/api/session/"+id+"/approvals/"+a.ID, `{"choice":"deny"}`, 200)
	streams <- <-streams
	for range 2 {
		frames := <-streams
		if n := namesOf(frames); n != "session:init tool:start permission:request permission:resolved tool:result chat:delta chat:complete session:complete process:exit" {
			t.Errorf("got %s", n)
		}
		checkFrames(t, frames)
		if string(frames[0].data) != string(first.data) {
			t.Errorf("the stream begins %s, it began %s", frames[0].data, first.data)
		}
	}
	after := framesOf(all(t, s.roundTrip("POST", "/api/harness/turn", string(body), key("k")).Body))
	if n := namesOf(after); !strings.HasPrefix(n, "session:init ") || !strings.HasSuffix(n, " process:exit") { // the turn has ended
		t.Errorf("got %s", n)
	}
	if got := s.prompts(id, "approve"); len(got) != 1 {
		t.Errorf("the log has the turns %v", got)
	}
}

func TestSessionIsMadeOnce(t *testing.T) {
	rg := newRig(t)
	from := rg.create()
	rg.events(from, rg.prompt(from, "text"))
	for _, tt := range []struct {
		path, body, other string
		status            int
	}{
		{"/api/session/create", `{"cliType":"script","projectDir":"` + rg.dir + `"}`, `{"cliType":"script","projectDir":"` + rg.dir + `","options":{"maxTurns":2}}`, 201},
		{"/api/harness/session/create", `{"projectRoot":"` + rg.dir + `","opts":{"later":1}}`, `{"projectRoot":"` + rg.dir + `"}`, 200},
		{"/api/session/" + from + "/fork", `{}`, "", 201},
	} {
		before := len(call[listAnswer](rg, "GET", "/api/session/list?projectId=*", "", 200).Sessions)
		if tt.path == "/api/session/"+from+"/fork" && rg.do("POST", tt.path, tt.body).Code != 201 {
			continue // the scripted agent cannot be forked
		}
		first := rg.do("POST", tt.path, tt.body, key("k"))
		if first.Code != tt.status || first.Header().Get("Idempotency-Replayed") != "" {
			t.Fatalf("%s: got %d %s", tt.path, first.Code, first.Body)
		}
		for _, same := range []string{tt.body, " " + strings.ReplaceAll(tt.body, ":", " : ")} { // white space makes no difference
			again := rg.do("POST", tt.path, same, key("k"))
			if again.Code != tt.status || again.Body.String() != first.Body.String() || again.Header().Get("Idempotency-Replayed") != "true" {
				t.Errorf("%s again: got %d %s, first %s", tt.path, again.Code, again.Body, first.Body)
			}
		}
		if tt.other != "" {
			if w := rg.do("POST", tt.path, tt.other, key("k")); w.Code != 409 || code(w) != "INVALID_REQUEST" {
				t.Errorf("%s with another body: got %d %s", tt.path, w.Code, w.Body)
			}
		}
		if n := len(call[listAnswer](rg, "GET", "/api/session/list?projectId=*", "", 200).Sessions) - before; n != 1 {
			t.Errorf("%s made %d sessions", tt.path, n)
		}
		// A deleted session is not created again.
		var made struct {
			SessionID string
			Session   struct{ SessionID string }
		}
		if err := json.Unmarshal(first.Body.Bytes(), &made); err != nil {
			t.Fatal(err)
		}
		call[okAnswer](rg, "DELETE", "/api/harness/session/"+made.SessionID+made.Session.SessionID, "", 200)
		if again := rg.do("POST", tt.path, tt.body, key("k")); again.Body.String() != first.Body.String() {
			t.Errorf("%s after the delete: got %d %s", tt.path, again.Code, again.Body)
		}
		rg.token = rg.mint(auth.All()...) // with another credential the same key is a different one for the next row
	}
}

func TestKeysBelongToCredentials(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	seen := map[string]bool{}
	for range 2 {
		w := rg.do("POST", "/api/session/"+id+"/send", `{"content":"text"}`, key("k"))
		var a command.SendAnswer
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != 202 || seen[a.TurnID] {
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
		seen[a.TurnID] = true
		rg.events(id, a.TurnID)
		rg.token = rg.mint(auth.All()...)
	}
}

// An error before the turn was bound is not stored: the corrected request gets
// its turn under the same key.
func TestRefusedPromptIsNotKept(t *testing.T) {
	rg := newRig(t)
	for _, tt := range []struct{ name, body, code string }{
		{"options", `{"content":"text","opts":{"permissionMode":"yolo"}}`, "INVALID_REQUEST"},
		{"attachments", `{"attachments":[{"path":"/etc/passwd"}]}`, "ATTACHMENT_FAILURE"},
		{"profile", `{"content":"text","opts":{"persona":"nobody"}}`, "PERSONA_NOT_FOUND"},
	} {
		id, turn := rg.create(), uuid.NewString()
		named := func(body string) string { return `{"turnId":"` + turn + `",` + body[1:] }
		if w := rg.do("POST", "/api/session/"+id+"/send", named(tt.body), key(tt.name)); code(w) != tt.code {
			t.Fatalf("%s: got %d %s", tt.name, w.Code, w.Body)
		}
		w := rg.do("POST", "/api/session/"+id+"/send", named(`{"content":"text"}`), key(tt.name))
		if w.Code != 202 || w.Header().Get("Idempotency-Replayed") != "" {
			t.Errorf("%s corrected: got %d %s", tt.name, w.Code, w.Body)
		}
		rg.events(id, turn)
	}
	id := rg.create()
	running := rg.prompt(id, "hang")
	body := `{"content":"text"}`
	if w := rg.do("POST", "/api/session/"+id+"/send", body, key("busy")); code(w) != "TURN_IN_PROGRESS" {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	call[okAnswer](rg, "POST", "/api/harness/interrupt", `{"sessionId":"`+id+`"}`, 200)
	rg.events(id, running)
	if w := rg.do("POST", "/api/session/"+id+"/send", body, key("busy")); w.Code != 202 {
		t.Errorf("once the turn is over: got %d %s", w.Code, w.Body)
	}
}

func TestQueuedPromptIsQueuedOnce(t *testing.T) {
	rg := newRig(t)
	id, turn := rg.create(), uuid.NewString()
	running := rg.prompt(id, "hang")
	body := `{"content":"text","queue":true,"turnId":"` + turn + `"}`
	first := rg.do("POST", "/api/session/"+id+"/send", body)
	if again := rg.do("POST", "/api/session/"+id+"/send", body); first.Code != 202 || again.Body.String() != first.Body.String() || !strings.Contains(first.Body.String(), `"queued":true`) {
		t.Errorf("got %s and %s", first.Body, again.Body)
	}
	if st := call[gateway.Status](rg, "GET", "/api/session/"+id+"/status", "", 200); st.Queued != 1 {
		t.Errorf("%d wait", st.Queued)
	}
	call[struct{}](rg, "POST", "/api/session/"+id+"/cancel", `{"continueQueue":true}`, 200)
	rg.events(id, running)
	rg.events(id, turn)
	if again := rg.do("POST", "/api/session/"+id+"/send", body); again.Body.String() != first.Body.String() {
		t.Errorf("once it is over: %s", again.Body)
	}
	if got := rg.prompts(id, "text"); len(got) != 1 {
		t.Errorf("the log has the turns %v", got)
	}
}

// The id of an existing turn is in use for every session, also if the server
// chose it.
func TestTurnIDIsUsedOnce(t *testing.T) {
	rg := newRig(t)
	id, other := rg.create(), rg.create()
	turn := rg.prompt(id, "text")
	rg.events(id, turn)
	for _, session := range []string{id, other} {
		w := rg.do("POST", "/api/session/"+session+"/send", `{"content":"text","turnId":"`+turn+`"}`)
		if w.Code != 409 || code(w) != "INVALID_REQUEST" || !strings.Contains(w.Body.String(), turn) {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
	}
	if got := append(rg.prompts(id, "text"), rg.prompts(other, "text")...); len(got) != 1 {
		t.Errorf("turns %v", got)
	}
}

func TestBadKeysAndTurnIDs(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	send := "/api/session/" + id + "/send"
	for _, k := range []string{"", strings.Repeat("k", 256), "é", "a\tb", "a\x7f"} {
		for path, body := range map[string]string{
			send: `{"content":"text"}`, "/api/session/create": `{"cliType":"script","projectDir":"` + rg.dir + `"}`,
			"/api/harness/turn": `{"sessionId":"` + id + `","message":"text"}`, "/api/harness/session/create": `{"projectRoot":"` + rg.dir + `"}`, "/api/session/" + id + "/fork": "",
		} {
			if w := rg.do("POST", path, body, key(k)); w.Code != 400 || code(w) != "INVALID_REQUEST" {
				t.Errorf("%s %q: got %d %s", path, k, w.Code, w.Body)
			}
		}
	}
	if w := rg.do("POST", send, `{"content":"text"}`, key("a"), addHeader("Idempotency-Key", "b")); w.Code != 400 {
		t.Errorf("two keys: got %d %s", w.Code, w.Body)
	}
	for _, turn := range []string{"x", "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", strings.ToUpper(uuid.NewString()),
		"{01890a5d-ac96-774b-bcce-b302099a8057}", "urn:uuid:01890a5d-ac96-774b-bcce-b302099a8057", "01890a5dac96774bbcceb302099a8057"} {
		if w := rg.do("POST", send, `{"content":"text","turnId":"`+turn+`"}`); w.Code != 400 || code(w) != "INVALID_REQUEST" {
			t.Errorf("%q: got %d %s", turn, w.Code, w.Body)
		}
	}
	longest := strings.Repeat("~ ", 127) + "k"
	if w := rg.do("POST", send, `{"content":"text"}`, key(longest)); w.Code != 202 {
		t.Errorf("the longest key: got %d %s", w.Code, w.Body)
	}
}
