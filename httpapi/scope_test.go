package httpapi

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

// refusesInAdvance checks that options are forbidden in every request that
// takes options.
func (rg *rig) refusesInAdvance(id string, options ...string) {
	rg.t.Helper()
	dir, _ := json.Marshal(rg.dir)
	for _, opts := range options {
		for _, at := range []struct{ path, body string }{
			{"/api/session/create", `{"cliType":"script","projectDir":` + string(dir) + `,"options":` + opts + `}`},
			{"/api/harness/session/create", `{"projectRoot":` + string(dir) + `,"opts":` + opts + `}`},
			{"/api/session/" + id + "/send", `{"content":"text","opts":` + opts + `}`},
			{"/api/session/" + id + "/options", opts},
			{"/api/harness/turn", `{"sessionId":"` + id + `","message":"text","opts":` + opts + `}`},
		} {
			if w := rg.do("POST", at.path, at.body); w.Code != http.StatusForbidden || code(w) != "FORBIDDEN" {
				rg.t.Errorf("%s %s: got %d %s", at.path, opts, w.Code, w.Body)
			}
		}
	}
}

// A credential without the scope approve must neither answer approvals in
// advance nor have a command run without an approval.
func TestNoAnswersInAdvance(t *testing.T) {
	rg := newRig(t, func(_ *Config, g *gateway.Config) { g.AllowBypass = true })
	id := rg.create()
	whole := rg.token
	rg.token = rg.mint(auth.Read, auth.Send)
	dir, _ := json.Marshal(rg.dir)
	server := `{"x":{"command":"sh","args":["-c","true"]}}`
	rg.refusesInAdvance(id, `{"permissionMode":"acceptEdits"}`, `{"permissionMode":"bypass"}`, `{"mcpServers":`+server+`}`)
	for _, mode := range []string{"default", "plan", "dontAsk"} {
		if w := rg.do("POST", "/api/session/create", `{"cliType":"script","projectDir":`+string(dir)+`,"options":{"permissionMode":"`+mode+`"}}`); w.Code != http.StatusCreated {
			t.Errorf("%s: got %d %s", mode, w.Code, w.Body)
		}
	}
	rg.token = whole
	for _, mode := range []string{"acceptEdits", "bypass"} {
		if w := rg.do("POST", "/api/session/create", `{"cliType":"script","projectDir":`+string(dir)+`,"options":{"permissionMode":"`+mode+`"}}`); w.Code != http.StatusCreated {
			t.Errorf("%s with every scope: got %d %s", mode, w.Code, w.Body)
		}
	}
}

// As TestNoAnswersInAdvance, for messages on the WebSocket.
func TestNoAnswersInAdvanceOnTheWebSocket(t *testing.T) {
	s := serve(t)
	id := s.create()
	s.token = s.mint(auth.Read, auth.Send)
	p := s.join(stream.FamilyUpsert)
	for _, say := range []string{
		`{"type":"session:options","requestId":"1","sessionId":"` + id + `","permissionMode":"acceptEdits"}`,
		`{"type":"session:send","requestId":"1","sessionId":"` + id + `","content":"text","opts":{"permissionMode":"acceptEdits"}}`,
		`{"type":"session:options","requestId":"1","sessionId":"` + id + `","config":{"pace":"fast"}}`,
		`{"type":"session:send","requestId":"1","sessionId":"` + id + `","content":"text","opts":{"config":{"pace":"fast"}}}`,
	} {
		p.send("%s", say)
		if f := p.await("error", "response"); f.Type != "error" || f.Error.Type != "FORBIDDEN" {
			t.Errorf("%s: got %+v", say, f)
		}
	}
}

// A credential without the scope approve cannot send agents their own commands,
// because a command can change which actions need an approval.
func TestCommandsNeedTheScopeApprove(t *testing.T) {
	s := serve(t)
	id := s.create()
	whole := s.token
	s.token = s.mint(auth.Read, auth.Send)
	p := s.join(stream.FamilyUpsert)
	for _, text := range []string{
		"/config tools.approvalMode=auto", "/x", "/", " /x", "\t\n/x", "\ufeff/x", "\u00a0/x", "\u200b/x", "\u2028/x", "$extensions link /tmp", "!touch x",
	} {
		content, _ := json.Marshal(text)
		for _, at := range []struct{ path, body string }{
			{"/api/session/" + id + "/send", `{"content":` + string(content) + `}`},
			{"/api/session/" + id + "/send", `{"content":` + string(content) + `,"queue":true}`},
			{"/api/harness/turn", `{"sessionId":"` + id + `","message":` + string(content) + `}`},
		} {
			if w := s.do("POST", at.path, at.body); w.Code != http.StatusForbidden || code(w) != "FORBIDDEN" {
				t.Errorf("%s %q: got %d %s", at.path, text, w.Code, w.Body)
			}
		}
		p.send(`{"type":"session:send","requestId":"1","sessionId":"%s","content":%s}`, id, content)
		if f := p.await("error", "response"); f.Type != "error" || f.Error.Type != "FORBIDDEN" {
			t.Errorf("%q: got %+v", text, f)
		}
	}
	for token, text := range map[string]string{s.token: "say /x", whole: "/x"} {
		s.token = token
		if w := s.do("POST", "/api/session/"+s.create()+"/send", `{"content":"`+text+`"}`); w.Code != http.StatusAccepted {
			t.Errorf("%q: got %d %s", text, w.Code, w.Body)
		}
	}
}

// A credential without the scope approve can neither turn a queued prompt into
// a command of the agent, nor choose the text of a prompt that somebody with the
// scope approve queued with options that let the agent act without asking.
func TestQueuedPromptsBecomeNoCommands(t *testing.T) {
	profiles := t.TempDir()
	putProfiles(t, profiles, map[string]string{"approves": "---\nauto_approve_tools: [Bash]\n---\n"})
	s := serve(t, func(_ *Config, g *gateway.Config) { g.AllowBypass, g.ProfilesDir = true, profiles })
	id := s.create()
	_, turns := s.queued(id, "text")
	for _, opts := range []string{`{"permissionMode":"acceptEdits"}`, `{"permissionMode":"bypass"}`, `{"config":{"pace":"fast"}}`, `{"persona":"approves"}`} {
		turns = append(turns, call[command.SendAnswer](s.rig, "POST", "/api/session/"+id+"/send", `{"content":"text","queue":true,"opts":`+opts+`}`, http.StatusAccepted).TurnID)
	}
	whole := s.token
	s.token = s.mint(auth.Read, auth.Send)
	refused := func(turn, text string) {
		t.Helper()
		content, _ := json.Marshal(text)
		s.wantError("POST", "/api/session/"+id+"/queue/"+turn, `{"content":`+string(content)+`}`, http.StatusForbidden, runnel.Forbidden)
		p := s.join(stream.FamilyUpsert)
		p.send(`{"type":"session:queue:edit","requestId":"1","sessionId":%q,"turnId":%q,"content":%s}`, id, turn, content)
		if f := p.await("error", "response"); f.Type != "error" || f.Error.Type != runnel.Forbidden {
			t.Errorf("%s %q: got %+v", turn, text, f)
		}
	}
	for _, text := range []string{"/config tools.approvalMode=auto", " !touch x", "\u200b$extensions link /tmp"} {
		refused(turns[0], text)
	}
	for _, turn := range turns[1:] {
		refused(turn, "other text")
	}
	path := "/api/session/" + id + "/queue/"
	call[gateway.Queue](s.rig, "POST", path+turns[0], `{"content":"other text"}`, http.StatusOK)
	call[gateway.Queue](s.rig, "POST", path+turns[1], `{"before":""}`, http.StatusOK)
	s.token = whole
	call[gateway.Queue](s.rig, "POST", path+turns[0], `{"content":"/x"}`, http.StatusOK)
	call[gateway.Queue](s.rig, "POST", path+turns[1], `{"content":"other text"}`, http.StatusOK)
}

// What a session may reach without asking was chosen when it was created: its
// directories, tools and sandbox, and who holds its key. A credential without
// the scope approve cannot extend that.
func TestNoReachInAdvance(t *testing.T) {
	s := serve(t)
	dir, _ := json.Marshal(s.dir)
	made := call[createAnswer](s.rig, "POST", "/api/session/create", `{"cliType":"script","projectDir":`+string(dir)+`,"options":{"permissionMode":"acceptEdits"}}`, http.StatusCreated)
	s.token = s.mint(auth.Read, auth.Send)
	p := s.join(stream.FamilyUpsert)
	other, _ := json.Marshal(t.TempDir())
	for _, opts := range []string{`"addDirs":[` + string(other) + `]`, `"tools":["Bash"]`, `"disallowedTools":["x"]`, `"disallowedTools":[]`, `"model":"m","addDirs":[]`, `"sandbox":"off"`, `"keys":"agent"`, `"sandbox":"project","keys":"agent"`} {
		if w := s.do("POST", "/api/session/"+made.SessionID+"/options", "{"+opts+"}"); w.Code != http.StatusForbidden || code(w) != "FORBIDDEN" {
			t.Errorf("%s: got %d %s", opts, w.Code, w.Body)
		}
		p.send(`{"type":"session:options","requestId":"1","sessionId":"%s",%s}`, made.SessionID, opts)
		if f := p.await("error", "response"); f.Type != "error" || f.Error.Type != "FORBIDDEN" {
			t.Errorf("%s: got %+v", opts, f)
		}
	}
}
