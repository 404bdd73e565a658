package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/provider/script"
)

// A keyed is an agent that needs an API key, which may be missing.
type keyed struct {
	*script.Provider
	missing atomic.Bool
}

func (k *keyed) CheckKey(runnel.Options) error {
	if k.missing.Load() {
		return runnel.Fail(runnel.MissingAPIKey, "There is no API key: SCRIPT_API_KEY is not set.")
	}
	return nil
}

// refused checks the status, code and details of an error answer. If the wanted
// value of a detail is true, the detail may have any value but must exist.
func refused(t *testing.T, what string, w *httptest.ResponseRecorder, status int, typ runnel.Code, details map[string]any) {
	t.Helper()
	var b struct {
		Error struct {
			Type    runnel.Code
			Message string
			Details map[string]any
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &b); err != nil || w.Code != status || b.Error.Type != typ || b.Error.Message == "" || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%s: got %d %s, %v; want %d %s", what, w.Code, w.Body, err, status, typ)
	}
	for name, v := range details {
		if got := b.Error.Details[name]; v == true && got != nil {
			details[name] = got
		}
	}
	if d := cmp.Diff(details, b.Error.Details); d != "" {
		t.Errorf("%s: details (-want +got): %s", what, d)
	}
}

// A prompt with all faults is rejected for the first one in the order of the
// contract. Once that one is corrected, it is rejected for the next. Both APIs
// use the same order.
func TestFaultsOfAPromptAreJudgedInOrder(t *testing.T) {
	agent := &keyed{Provider: script.New()}
	rg := newRig(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{agent} })
	id := rg.create() // its agent decides about delegation
	turn := rg.prompt(id, "hang")
	rg.until(id, is[event.ItemDelta])
	agent.missing.Store(true)
	opts := map[string]any{"permissionMode": "yolo", "persona": "nobody", "subagentGovernance": map[string]any{"contextSealed": true}}
	body := map[string]any{"sessionId": nobody, "message": "", "opts": opts, "attachments": []string{"/etc/passwd"}, "surprise": 1}
	for _, tt := range []struct {
		fault   string
		status  int
		code    runnel.Code
		details map[string]any
		mend    func()
	}{
		{"shape", 400, runnel.InvalidRequest, nil, func() { delete(body, "surprise") }},
		{"session", 404, runnel.SessionNotFound, map[string]any{"sessionId": nobody}, func() { body["sessionId"] = id }},
		{"key", 503, runnel.MissingAPIKey, map[string]any{"provider": "script", "category": "API_KEY_MISSING"}, func() { agent.missing.Store(false) }},
		{"lock", 409, runnel.TurnInProgress, map[string]any{"sessionId": id, "turnId": turn}, func() {
			call[okAnswer](rg, "POST", "/api/harness/interrupt", `{"sessionId":"`+id+`"}`, 200)
			rg.events(id, turn)
		}},
		{"options", 400, runnel.InvalidRequest, nil, func() { delete(opts, "permissionMode") }},
		{"attachments", 400, runnel.AttachmentFailure, map[string]any{
			"category": "ALL_ATTACHMENTS_FAILED_NO_TEXT", "attachmentErrors": true, "rejectedAttachmentCount": 1.0,
		}, func() { body["message"] = "text" }},
		{"profile", 404, runnel.PersonaNotFound, nil, func() { delete(opts, "persona") }},
		{"delegation", 400, runnel.UnsupportedCapability, nil, func() { delete(opts, "subagentGovernance") }},
	} {
		data, _ := json.Marshal(body)
		refused(t, "harness, "+tt.fault, rg.do("POST", "/api/harness/turn", string(data)), tt.status, tt.code, tt.details)
		send := map[string]any{"content": body["message"], "opts": opts, "attachments": body["attachments"]}
		if body["surprise"] != nil {
			send["surprise"] = 1
		}
		data, _ = json.Marshal(send)
		refused(t, "send, "+tt.fault, rg.do("POST", "/api/session/"+body["sessionId"].(string)+"/send", string(data)), tt.status, tt.code, tt.details)
		tt.mend()
	}
	data, _ := json.Marshal(body)
	w := rg.do("POST", "/api/harness/turn", string(data))
	if n := namesOf(framesOf(w.Body.Bytes())); w.Code != 200 || !strings.HasPrefix(n, "session:init notice ") || !strings.HasSuffix(n, " process:exit") {
		t.Errorf("mended: got %d %s", w.Code, n)
	}
	if h := w.Header(); h.Get("Content-Type") != "text/event-stream" || h.Get("Cache-Control") != "no-cache, no-transform" {
		t.Errorf("the stream has the headers %v", h)
	}
}

// Every error that can end a turn produces the same two frames, with its own
// status and severity.
func TestEveryFatalErrorEndsATurnAlike(t *testing.T) {
	rg := newRig(t)
	id := rg.create()
	for _, c := range reply.Codes() {
		body, _ := json.Marshal(map[string]string{"sessionId": id, "message": fmt.Sprintf(`{"steps":[{"text":"a"},{"fail":{"code":%q,"message":"why"}}]}`, c)})
		frames := framesOf(rg.do("POST", "/api/harness/turn", string(body)).Body.Bytes())
		if n := namesOf(frames); n != "session:init chat:delta chat:complete turn:error process:exit" {
			t.Errorf("%s: got %s", c, n)
			continue
		}
		status, severity := reply.StatusOf(c), "warning"
		if status >= http.StatusInternalServerError {
			severity = "error"
		}
		want := map[string]any{"phase": "mid-stream", "errorType": string(c), "message": "why", "status": float64(status), "severity": severity, "fatal": true}
		var got, exit map[string]any
		if err := json.Unmarshal(frames[len(frames)-2].data, &got); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"seq", "turnId"} {
			if got[name] == nil {
				t.Errorf("%s: %s is missing", c, name)
			}
			delete(got, name)
		}
		if credential := map[runnel.Code]string{runnel.MissingAPIKey: "API_KEY_MISSING", runnel.InvalidAPIKey: "API_KEY_REFUSED", runnel.AgentNotLoggedIn: "LOGIN_MISSING"}[c]; credential != "" {
			want["details"] = map[string]any{"provider": "script", "category": credential}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got): %s", c, d)
		}
		if err := json.Unmarshal(frames[len(frames)-1].data, &exit); err != nil || exit["exitCode"] == 0.0 || exit["exitCode"] == nil {
			t.Errorf("%s: %s", c, frames[len(frames)-1].data)
		}
	}
}

// The harness routes other than that of turns return each of their errors with
// its status, code and details.
func TestHarnessRoutesAnswerAsPromised(t *testing.T) {
	agent := &keyed{Provider: script.New()}
	rg := newRig(t, func(_ *Config, g *gateway.Config) { g.Providers = []runnel.Provider{agent} })
	id, dead := rg.create(), rg.create()
	call[reply.Empty](rg, "POST", "/api/session/"+dead+"/kill", "", 200)
	turn := rg.prompt(id, "hang")
	rg.until(id, is[event.ItemDelta])
	running := func() map[string]any { return map[string]any{"sessionId": id, "turnId": turn} }
	none := map[string]any{"sessionId": nobody}
	for _, tt := range []struct {
		method, path, body string
		status             int
		code               runnel.Code
		details            map[string]any
	}{
		{"POST", "/api/harness/session/create", `{`, 400, runnel.InvalidRequest, nil},
		{"POST", "/api/harness/session/create", `{"projectRoot":"relative"}`, 404, runnel.WorkingRootInaccessible, nil},
		{"POST", "/api/harness/session/create", `{"projectRoot":"/none"}`, 404, runnel.WorkingRootInaccessible, nil},
		{"POST", "/api/harness/session/create", `{"projectRoot":"` + rg.dir + `","cliType":"none"}`, 400, runnel.UnsupportedCLIType, map[string]any{"cliTypes": true}},
		{"POST", "/api/harness/session/create", `{"projectRoot":"` + rg.dir + `","opts":{"permissionMode":"yolo"}}`, 400, runnel.InvalidRequest, nil},
		{"POST", "/api/harness/session/create", `{"projectRoot":"` + rg.dir + `","persona":"nobody"}`, 404, runnel.PersonaNotFound, nil},
		{"POST", "/api/harness/session/create", `{"projectRoot":"` + rg.dir + `","mode":"m"}`, 400, runnel.UnsupportedCapability, nil},
		{"POST", "/api/harness/session/boot", `{}`, 400, runnel.InvalidRequest, nil},
		{"POST", "/api/harness/session/boot", `{"sessionId":"` + nobody + `"}`, 404, runnel.SessionNotFound, none},
		{"POST", "/api/harness/session/boot", `{"sessionId":"` + dead + `"}`, 409, runnel.SessionDead, nil},
		{"POST", "/api/harness/session/boot", `{"sessionId":"` + id + `","force":true}`, 409, runnel.TurnInProgress, running()},
		{"GET", "/api/harness/session/" + nobody, "", 404, runnel.SessionNotFound, none},
		{"GET", "/api/harness/session/none", "", 404, runnel.SessionNotFound, map[string]any{"sessionId": "none"}},
		{"DELETE", "/api/harness/session/" + nobody, "", 404, runnel.SessionNotFound, none},
		{"DELETE", "/api/harness/session/" + id, "", 409, runnel.TurnInProgress, running()},
		{"POST", "/api/harness/interrupt", `{}`, 400, runnel.InvalidRequest, nil},
		{"POST", "/api/harness/interrupt", `{"sessionId":"` + nobody + `"}`, 404, runnel.SessionNotFound, none},
		{"POST", "/api/harness/turn?onDisconnect=explode", `{"sessionId":"` + id + `","message":"x"}`, 400, runnel.InvalidRequest, nil},
		{"POST", "/api/harness/turn", `{"sessionId":"` + dead + `","message":"x"}`, 409, runnel.SessionDead, nil},
		{"POST", "/api/harness/turn", `{"sessionId":"` + id + `","message":" "}`, 400, runnel.InvalidRequest, nil},
		{"POST", "/api/harness/turn", `{"message":"x"}`, 400, runnel.InvalidRequest, nil},
	} {
		refused(t, tt.method+" "+tt.path+" "+tt.body, rg.do(tt.method, tt.path, tt.body), tt.status, tt.code, tt.details)
	}
	if b := call[bootAnswer](rg, "POST", "/api/harness/session/boot", `{"sessionId":"`+id+`"}`, 200); b.Boot != (gateway.Boot{Reason: "already_booted"}) || b.Session.SessionID != id {
		t.Errorf("boot: got %+v", b)
	}
	if list := call[listAnswer](rg, "GET", "/api/harness/session/list?projectRoot=/none", "", 200); len(list.Sessions) != 0 {
		t.Errorf("list: got %+v", list)
	}
	for range 2 { // the second interrupt has no turn to end
		if a := call[okAnswer](rg, "POST", "/api/harness/interrupt", `{"sessionId":"`+id+`"}`, 200); !a.OK {
			t.Error("interrupt is not ok")
		}
		rg.events(id, turn)
	}
	made := call[harnessSession](rg, "GET", "/api/harness/session/"+id, "", 200).Session
	if made.BootedAt.IsZero() || made.BootFingerprint == "" {
		t.Errorf("got %+v", made)
	}
	if a := call[okAnswer](rg, "DELETE", "/api/harness/session/"+id, "", 200); !a.OK {
		t.Error("delete is not ok")
	}
}
