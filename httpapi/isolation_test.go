package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/changes"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

const nobody = "0b5d3c1e-0000-7000-8000-000000000000" // an id that no session has

// bind creates a token for the sessions of one directory.
func (rg *rig) bind(dir string, scopes ...string) string {
	rg.t.Helper()
	body, _ := json.Marshal(tokenRequest{Name: "bound", Scopes: scopes, ProjectDir: dir})
	return call[tokenAnswer](rg, "POST", "/api/tokens", string(body), 201).Token
}

// For a token of one project, a session of another project looks like one that
// does not exist: the answers are the same to the byte.
func TestSessionIsolation(t *testing.T) {
	rg := newRig(t)
	mine, theirs := t.TempDir(), t.TempDir()
	rg.dir = theirs
	other := rg.create()
	rg.events(other, rg.prompt(other, "text")) // the conversation has an id of the agent
	rg.prompt(other, "approve")
	asked := rg.until(other, is[event.ApprovalRequested]).Body.(event.ApprovalRequested).Approval
	rg.untilPending(other)
	rg.dir = mine
	own := rg.create()
	whole := rg.token
	otherStatus := call[gateway.Status](rg, "GET", "/api/session/"+other+"/status", "", 200)
	ownStatus := call[gateway.Status](rg, "GET", "/api/session/"+own+"/status", "", 200)
	rg.token = rg.bind(mine, "read", "send", "approve")

	same := func(target, body string, edit ...func(*http.Request)) *bytes.Buffer {
		t.Helper()
		ask := func(id string) (int, http.Header, *bytes.Buffer) {
			method, p, _ := strings.Cut(strings.ReplaceAll(target, "ID", id), " ")
			w := rg.do(method, p, strings.ReplaceAll(body, "ID", id), edit...)
			return w.Code, w.Header(), bytes.NewBuffer(bytes.ReplaceAll(w.Body.Bytes(), []byte(id), []byte("ID")))
		}
		status, head, text := ask(other)
		status2, head2, text2 := ask(nobody)
		if status != status2 || text.String() != text2.String() || fmt.Sprint(head) != fmt.Sprint(head2) {
			t.Errorf("%s %s: the other project's says %d %s, none says %d %s", target, body, status, text, status2, text2)
		}
		if status < 400 || !strings.Contains(text.String(), "SESSION_NOT_FOUND") {
			t.Errorf("%s %s: got %d %s", target, body, status, text)
		}
		return text
	}
	paths := 0
	for _, rt := range rg.router.list {
		if !strings.Contains(rt.path, "{id}") || strings.Contains(rt.path, "/tokens/") || strings.Contains(rt.path, "/rules/") {
			continue
		}
		if rt.scope == auth.Admin { // which a credential for one project cannot have
			for _, id := range []string{other, nobody} {
				body := ""
				if rt.method == http.MethodPost {
					body = `{"on":true}`
				}
				if w := rg.do(rt.method, strings.ReplaceAll(rt.path, "{id}", id), body); w.Code != http.StatusForbidden {
					t.Errorf("%s %s: got %d %s", rt.method, rt.path, w.Code, w.Body)
				}
			}
			continue
		}
		paths++
		target := rt.method + " " + strings.NewReplacer("{id}", "ID", "{approvalId}", asked.ID).Replace(rt.path)
		body := ""
		switch {
		case strings.HasSuffix(rt.path, "/send"):
			body = `{"content":"text","queue":true}`
		case strings.HasSuffix(rt.path, "{approvalId}") && rt.method == "POST":
			body = `{"choice":"allow","argumentsDigest":"` + asked.ArgumentsDigest + `"}`
		case strings.HasSuffix(rt.path, "/options"):
			body = `{"model":"m"}`
		case strings.HasSuffix(rt.path, "/export"):
			target += "?format=jsonl"
		case rt.method == "POST":
			body = "{}"
		}
		same(target, body)
	}
	if paths < 13 {
		t.Errorf("only %d routes with a session in their path", paths)
	}
	same("POST /api/harness/turn", `{"sessionId":"ID","message":"text"}`)
	same("POST /api/harness/session/boot", `{"sessionId":"ID"}`)
	same("POST /api/harness/interrupt", `{"sessionId":"ID"}`)
	same("GET /api/session/ID/events?after=1", "", header("Last-Event-ID", "3"))
	for _, ref := range []string{"script:" + otherStatus.AgentSessionID, "script:none"} {
		if w := rg.do("POST", "/api/session/"+ref+"/load", "{}"); w.Code != 404 || !strings.Contains(w.Body.String(), `"there is no such session"`) {
			t.Errorf("by the agent's id %s: got %d %s", ref, w.Code, w.Body)
		}
	}

	// Lists contain only sessions of the own project.
	for query, want := range map[string]int{
		"?projectId=*": 1, "?projectId=*&all=1": 1, "?projectId=" + ownStatus.ProjectID: 1, "?projectDir=" + url.QueryEscape(mine): 1,
		"?projectId=" + otherStatus.ProjectID: 0, "?projectDir=" + url.QueryEscape(theirs): 0, "?projectId=none": 0,
	} {
		list := call[listAnswer](rg, "GET", "/api/session/list"+query, "", 200)
		if len(list.Sessions) != want || want == 1 && list.Sessions[0].SessionID != own {
			t.Errorf("%s lists %+v", query, list)
		}
	}
	if list := call[listAnswer](rg, "GET", "/api/harness/session/list", "", 200); len(list.Sessions) != 1 {
		t.Errorf("the harness lists %+v", list)
	}
	if list := call[listAnswer](rg, "GET", "/api/harness/session/list?projectRoot="+url.QueryEscape(theirs), "", 200); list.Sessions == nil || len(list.Sessions) != 0 {
		t.Errorf("the harness lists %+v", list)
	}
	if ps := call[projectsAnswer](rg, "GET", "/api/projects", "", 200); len(ps.Projects) != 1 || ps.Projects[0].ProjectDir != ownStatus.ProjectDir {
		t.Errorf("projects %+v", ps)
	}
	if all := call[overviewAnswer](rg, "GET", "/api/overview", "", 200); len(all.Sessions) != 1 || all.Sessions[0].SessionID != own ||
		len(all.Projects) != 1 || all.Projects[0].ProjectDir != ownStatus.ProjectDir {
		t.Errorf("overview %+v", all)
	}
	if me := call[meAnswer](rg, "GET", "/api/me", "", 200); me.ProjectDir != ownStatus.ProjectDir {
		t.Errorf("me %+v", me)
	}

	// Sessions can be created only in the own project. Other directories look
	// as if they did not exist.
	link := filepath.Join(mine, "link")
	if err := os.Symlink(theirs, link); err != nil {
		t.Skip(err)
	}
	create := func(dir string) (int, string) {
		body, _ := json.Marshal(createRequest{CLIType: "script", ProjectDir: dir})
		w := rg.do("POST", "/api/session/create", string(body))
		body, _ = json.Marshal(harnessCreateRequest{CLIType: "script", ProjectRoot: dir})
		if h := rg.do("POST", "/api/harness/session/create", string(body)); h.Code/100 != w.Code/100 || w.Code >= 400 && h.Body.String() != w.Body.String() {
			t.Errorf("%s: the harness says %d %s", dir, h.Code, h.Body)
		}
		return w.Code, w.Body.String()
	}
	_, want := create("/nonexistent")
	for _, dir := range []string{theirs, link, filepath.Join(mine, "..", filepath.Base(theirs)), filepath.Dir(mine), "/"} {
		if status, body := create(dir); status != 404 || body != want {
			t.Errorf("in %s: got %d %s, want %s", dir, status, body, want)
		}
	}
	if status, body := create(mine + "/."); status != 201 {
		t.Errorf("at home: got %d %s", status, body)
	}
	body, _ := json.Marshal(map[string]any{"cliType": "script", "projectDir": mine, "options": map[string]any{"addDirs": []string{theirs}}})
	if w := rg.do("POST", "/api/session/create", string(body)); w.Code != 403 {
		t.Errorf("with another directory: got %d %s", w.Code, w.Body)
	}
	rg.events(own, rg.prompt(own, "text"))

	// The token cannot use routes about all projects.
	for _, target := range []string{"GET /metrics", "GET /api/tokens", "POST /api/tokens", "POST /api/login/code"} {
		method, p, _ := strings.Cut(target, " ")
		if w := rg.do(method, p, map[string]string{"POST": "{}"}[method]); w.Code != 403 {
			t.Errorf("%s: got %d %s", target, w.Code, w.Body)
		}
	}
	rg.token = whole
	if st := call[gateway.Status](rg, "GET", "/api/session/"+other+"/status", "", 200); len(st.PendingApprovals) != 1 || st.Queued != 0 || st.State != "open" {
		t.Errorf("the other project's session was touched: %+v", st)
	}
	for _, bad := range []string{`{"name":"x","scopes":["admin"],"projectDir":"` + mine + `"}`, `{"name":"x","scopes":["read"],"projectDir":"` + mine + `/no"}`,
		`{"name":"x","scopes":["read"],"projectDir":"relative"}`} {
		if w := rg.do("POST", "/api/tokens", bad); w.Code != 400 {
			t.Errorf("%s: got %d %s", bad, w.Code, w.Body)
		}
	}
}

// A token stays bound to the directory for which it was created, even if an
// agent there or another client replaces the directory by a link.
func TestTokenDoesNotFollowAReplacedProject(t *testing.T) {
	for _, replaced := range []string{"mine", "mine/project"} { // the parent directory, then the directory itself
		t.Run(replaced, func(t *testing.T) {
			rg := newRig(t)
			base, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			mine, theirs := filepath.Join(base, "mine", "project"), filepath.Join(base, "theirs", "project")
			for _, dir := range []string{mine, theirs} {
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			rg.dir = theirs
			rg.create()
			rg.dir = mine
			own := rg.create()
			rg.events(own, rg.prompt(own, "text"))
			call[json.RawMessage](rg, "POST", "/api/session/"+own+"/kill", "{}", 200)
			rg.token = rg.bind(mine, "read", "send", "approve")

			at := filepath.Join(base, filepath.FromSlash(replaced))
			if err := os.Rename(at, at+".old"); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(base, "theirs", strings.TrimPrefix(replaced, "mine")), at); err != nil {
				t.Skip(err)
			}
			for _, query := range []string{"?projectId=*&all=1", "?projectDir=" + url.QueryEscape(mine) + "&all=1", "?projectDir=" + url.QueryEscape(theirs) + "&all=1"} {
				for _, st := range call[listAnswer](rg, "GET", "/api/session/list"+query, "", 200).Sessions {
					if st.SessionID != own {
						t.Errorf("%q lists %+v", query, st)
					}
				}
			}
			for _, target := range []string{"GET /api/profiles", "GET /api/profiles?projectDir=" + url.QueryEscape(mine), "GET /api/profiles?projectDir=" + url.QueryEscape(theirs)} {
				method, p, _ := strings.Cut(target, " ")
				if w := rg.do(method, p, ""); w.Code != 404 {
					t.Errorf("%s: got %d %s", target, w.Code, w.Body)
				}
			}
			for _, dir := range []string{mine, theirs} {
				body, _ := json.Marshal(createRequest{CLIType: "script", ProjectDir: dir})
				if w := rg.do("POST", "/api/session/create", string(body)); w.Code != 404 {
					t.Errorf("a new session in %s: got %d %s", dir, w.Code, w.Body)
				}
			}
			if w := rg.do("POST", "/api/session/"+own+"/load", "{}"); w.Code != 404 || !strings.Contains(w.Body.String(), "link") {
				t.Errorf("the session that was there goes on: got %d %s", w.Code, w.Body)
			}
			call[json.RawMessage](rg, "GET", "/api/session/"+own+"/items", "", 200) // the token still sees what happened before
		})
	}
}

// As TestSessionIsolation, for messages on the WebSocket.
func TestSessionIsolationOnTheWebSocket(t *testing.T) {
	timed(t, minute)
	s := serve(t)
	whole, mine := s.token, s.dir
	s.dir = t.TempDir()
	other := s.create()
	s.prompt(other, "approve")
	asked := s.until(other, is[event.ApprovalRequested]).Body.(event.ApprovalRequested).Approval
	s.untilPending(other)
	s.dir = mine
	own := s.create()
	s.token = s.bind(mine, "read", "send", "approve")
	p := s.join(stream.FamilyUpsert)
	s.token = whole
	for _, say := range []string{
		`"type":"session:subscribe"`, `"type":"session:unsubscribe"`, `"type":"session:send","content":"text","queue":true`, `"type":"session:cancel"`,
		`"type":"session:queue"`, `"type":"session:queue:hold","held":true`, `"type":"session:queue:edit","turnId":"t","content":"x"`, `"type":"session:queue:remove","turnId":"t"`,
		`"type":"session:kill"`, `"type":"session:items"`, `"type":"session:options","model":"m"`, `"type":"session:decide","approvalId":"` + asked.ID + `","choice":"allow","argumentsDigest":"` + asked.ArgumentsDigest + `"`,
	} {
		var heard []string
		for _, id := range []string{other, nobody} {
			p.send(`{%s,"requestId":"r","sessionId":%q}`, say, id)
			f := p.receive()
			if f.Type != "error" || f.Error.Type != "SESSION_NOT_FOUND" {
				t.Errorf("%s: got %+v", say, f)
			}
			heard = append(heard, strings.ReplaceAll(fmt.Sprint(f.Error), id, "ID")) // the id that the client sent
		}
		if heard[0] != heard[1] {
			t.Errorf("%s: the other project's says %s, none says %s", say, heard[0], heard[1])
		}
	}
	if n := len(stream.Verbs()); n != 14 {
		t.Errorf("there are %d verbs: are the new ones in the list above?", n)
	}

	// The list, and its changes. Each step waits for the one before, because a
	// session that is created and deleted between two statuses gets none.
	p.send(`{"type":"sessions:subscribe","requestId":"w"}`)
	seen := map[string]int{}
	await := func(session, holds string) {
		for {
			f := p.await("session:status")
			seen[f.SessionID]++
			if f.SessionID == session && strings.Contains(string(f.Payload), holds) {
				return
			}
		}
	}
	await(own, "")
	call[reply.Empty](s.rig, "POST", "/api/session/"+other+"/approvals/"+asked.ID, `{"choice":"deny"}`, 200)
	call[reply.Empty](s.rig, "POST", "/api/session/"+other+"/kill", "", 200)
	call[okAnswer](s.rig, "DELETE", "/api/harness/session/"+other, "", 200)
	second := s.create()
	await(second, "")
	s.events(second, s.prompt(second, "text"))
	call[reply.Empty](s.rig, "POST", "/api/session/"+second+"/kill", "", 200)
	await(second, `"state":"dead"`)
	call[okAnswer](s.rig, "DELETE", "/api/harness/session/"+second, "", 200)
	if seen[other] > 0 || seen[own] == 0 {
		t.Errorf("told of %v", seen)
	}
}

// An agent may report the id of another project's conversation as its own. This
// neither takes the id away from the session that has it, nor opens that
// session.
func TestAgentCannotTakeTheIDOfAnotherProjectsSession(t *testing.T) {
	timed(t, minute)
	rg := newRig(t)
	whole, mine, theirs := rg.token, t.TempDir(), t.TempDir()
	rg.dir = theirs
	other := rg.create()
	rg.events(other, rg.prompt(other, "text"))
	id := call[gateway.Status](rg, "GET", "/api/session/"+other+"/status", "", 200).AgentSessionID
	ref := "script:" + id
	rg.untilKept(other, id)
	turn, _ := json.Marshal(stream.TurnRequest{SessionID: ref, Message: `{"steps":[{"text":"of theirs"}]}`, TurnID: "01890a5d-ac96-774b-bcce-b302099a8057"})
	if w := rg.do("POST", "/api/harness/turn", string(turn)); w.Code != 200 || !strings.Contains(w.Body.String(), "of theirs") {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	rg.dir = mine
	own := rg.create()
	rg.events(own, rg.prompt(own, `{"steps":[{"session":{"agentSessionId":"`+id+`"}},{"text":"mine"}]}`))
	rg.untilKept(own, id)

	rg.token = rg.bindAs(whole, mine)
	if st := call[gateway.Status](rg, "GET", "/api/session/"+ref+"/status", "", 200); st.SessionID != own {
		t.Errorf("its own project finds %+v", st)
	}
	if w := rg.do("POST", "/api/harness/turn", string(turn)); w.Code != 409 || strings.Contains(w.Body.String(), "of theirs") {
		t.Errorf("the other project's turn, repeated: got %d %s", w.Code, w.Body)
	}
	rg.token = rg.bindAs(whole, theirs)
	if w := rg.do("GET", "/api/session/"+ref+"/status", ""); w.Code != 200 || !strings.Contains(w.Body.String(), other) {
		t.Errorf("the project whose id it is finds %d %s", w.Code, w.Body)
	}
	rg.token = whole
	if w := rg.do("POST", "/api/session/"+ref+"/send", `{"content":"text"}`); w.Code != 400 || !strings.Contains(w.Body.String(), own) || !strings.Contains(w.Body.String(), other) {
		t.Errorf("a prompt that may be for either: got %d %s", w.Code, w.Body)
	}
	call[gateway.Status](rg, "GET", "/api/session/"+other+"/status", "", 200)
}

// bindAs is bind with the token that creates the new one.
func (rg *rig) bindAs(token, dir string) string {
	rg.token = token
	return rg.bind(dir, "read", "send", "approve")
}

// untilKept waits until the record of a session contains the agent's id.
// Records are written after the answers.
func (rg *rig) untilKept(session, id string) {
	rg.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		rec, err := rg.cat.Session(rg.t.Context(), session)
		if err != nil {
			rg.t.Fatal(err)
		}
		if rec.AgentSessionID == id {
			return
		}
	}
}

// A token for one project sees no diff of a repository whose objects are those of
// another one. Its agent may have written the list of them.
func TestBoundTokenReadsNoObjectsOfOtherRepositories(t *testing.T) {
	rg := gitRig(t)
	mine, theirs := rg.dir, t.TempDir()
	id, all, bound := rg.create(), rg.token, rg.bind(mine, "read")
	rg.dir = theirs
	rg.write("plans.txt", "a secret\n")
	rg.git("init", "--quiet")
	rg.git("add", ".")
	rg.git("commit", "--quiet", "--message", "first")
	commit := rg.git("rev-parse", "HEAD")
	rg.dir = mine
	rg.write(".git/objects/info/alternates", filepath.Join(theirs, ".git", "objects")+"\n")
	rg.write(".git/refs/heads/main", commit+"\n")
	at := "/api/session/" + id + "/git"
	for token, want := range map[string]changes.State{all: changes.StateReady, bound: changes.StateRefused} {
		rg.token = token
		if st := call[changes.Status](rg, "GET", at, "", 200); st.State != want {
			t.Errorf("got %s, want %s: %s", st.State, want, st.Problem)
		}
		if w := rg.do("GET", at+"/diff?path=plans.txt&side=staged", ""); strings.Contains(w.Body.String(), "a secret") != (token == all) {
			t.Errorf("%s", w.Body)
		}
	}
}
