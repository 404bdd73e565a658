//go:build unix

package conformance

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
)

// The table sessions checks the operations of the Session API.
var _ = register(40, func() table {
	tab := table{
		name: "sessions", title: "Session API", file: "sessions_test.go",
		intro: "Each verb of the Session API and what it promises, beside the conditions that [every route](#routes) has in common.",
		head:  []string{"verb", "condition", "answer"},
	}
	s := new(sessions)
	tab.setup = s.setup
	s.createRows(&tab)
	s.listRows(&tab)
	s.sendRows(&tab)
	s.endRows(&tab)
	s.loadRows(&tab)
	s.forkRows(&tab)
	s.careRows(&tab)
	s.readRows(&tab)
	return tab
})

// sessions is shared by the rows of the tables about the Session API.
type sessions struct {
	server
	behaviour string // file that sets the behaviour of the agent claude-agent-acp
}

func (s *sessions) setup(t *testing.T) {
	mine, behaviour := agentFile(t, "answers")
	s.behaviour = behaviour
	s.configure(t, "agents:\n  claude-agent-acp: {path: "+mine+"}\n")
	s.Args = append(s.Args, "--reattach-window", "-1s") // agents stop with the server
	s.start(t)
}

// verb posts a request for an operation on a session.
func (s *sessions) verb(t *testing.T, session, verb string, body object) answer {
	t.Helper()
	return s.post(t, "/api/session/"+session+"/"+verb, body)
}

func (s *sessions) status(t *testing.T, session string) object {
	t.Helper()
	return s.get(t, "/api/session/"+session+"/status").ok(t, http.StatusOK)
}

func (s *sessions) createRows(tab *table) {
	create := func(t *testing.T, dir string) answer {
		t.Helper()
		return s.post(t, "/api/session/create", object{"cliType": "script", "projectDir": dir})
	}
	tab.add("create", "the folder is good", "201 with sessionId, cliType and where each option is from", func(t *testing.T) {
		body := create(t, s.project).ok(t, http.StatusCreated)
		equal(t, "answer", []any{body["cliType"], len(body["sessionId"].(string)), at(body, "resolved", "permissionMode")}, []any{"script", 36, object{"value": "default", "from": "agent"}})
	})
	tab.add("create", "cliType is an alias", "201 or the agent's own error, with the agent's own name", func(t *testing.T) {
		for _, alias := range []string{"claude", "claude_code"} {
			p := s.post(t, "/api/session/create", object{"cliType": alias, "projectDir": s.project}).fails(t, http.StatusServiceUnavailable, "AGENT_NOT_INSTALLED")
			if !strings.Contains(p.Message, "Claude Code") {
				t.Errorf("%s: %s", alias, p.Message)
			}
		}
	})
	tab.add("create", "cliType is missing or unknown", "400 UNSUPPORTED_CLI_TYPE", func(t *testing.T) {
		for _, cliType := range []string{"", "none"} {
			s.post(t, "/api/session/create", object{"cliType": cliType, "projectDir": s.project}).fails(t, http.StatusBadRequest, "UNSUPPORTED_CLI_TYPE")
		}
	})
	tab.add("create", "projectDir leads through a symbolic link", "201, the session has the folder's real path", func(t *testing.T) {
		link := filepath.Join(folder(t), "link")
		symlink(t, s.project, link)
		id := create(t, link).ok(t, http.StatusCreated)["sessionId"].(string)
		equal(t, "projectDir", s.status(t, id)["projectDir"], s.project)
	})
	tab.add("create", "projectDir is missing", "400 INVALID_REQUEST", func(t *testing.T) { create(t, "").fails(t, http.StatusBadRequest, "INVALID_REQUEST") })
	tab.add("create", "projectDir does not exist, is a file, or is no absolute path", "404 WORKING_ROOT_INACCESSIBLE", func(t *testing.T) {
		for _, dir := range []string{"/none", write(t, folder(t), "file", "x"), "relative"} {
			create(t, dir).fails(t, http.StatusNotFound, "WORKING_ROOT_INACCESSIBLE")
		}
	})
	tab.add("create", "projectDir lies in the data directory, also through a link", "409 WORKING_ROOT_CONFLICT", func(t *testing.T) {
		link := filepath.Join(folder(t), "link")
		symlink(t, s.Data, link)
		for _, dir := range []string{s.Data, link} {
			create(t, dir).fails(t, http.StatusConflict, "WORKING_ROOT_CONFLICT")
		}
	})
	tab.link("create", "the agent does not start", "422 SESSION_CREATE_FAILED, and nothing is left", "gateway.TestCreateRefusals")
}

func (s *sessions) listRows(tab *table) {
	tab.add("list", "projectDir or projectId", "200 with the sessions of that folder", func(t *testing.T) {
		dir := folder(t)
		id := s.post(t, "/api/session/create", object{"cliType": "script", "projectDir": dir}).ok(t, http.StatusCreated)["sessionId"]
		s.session(t, nil)
		list := s.get(t, "/api/session/list?projectDir="+url.QueryEscape(dir)).ok(t, http.StatusOK)["sessions"].([]any)
		equal(t, "sessions", []any{len(list), at(list[0], "sessionId")}, []any{1, id})
		again := s.get(t, "/api/session/list?projectId="+at(list[0], "projectId").(string)).ok(t, http.StatusOK)["sessions"]
		equal(t, "by projectId", again, list)
	})
	tab.add("list", "neither projectDir nor projectId", "400 PROJECT_ID_REQUIRED", func(t *testing.T) {
		s.get(t, "/api/session/list").fails(t, http.StatusBadRequest, "PROJECT_ID_REQUIRED")
	})
	tab.add("list", "sessions were ended", "listed with all=1 or all=true only", func(t *testing.T) {
		dir := folder(t)
		id := s.post(t, "/api/session/create", object{"cliType": "script", "projectDir": dir}).ok(t, http.StatusCreated)["sessionId"].(string)
		s.verb(t, id, "kill", object{}).ok(t, http.StatusOK)
		for query, want := range map[string]int{"": 0, "&all=0": 0, "&all=1": 1, "&all=true": 1} {
			list := s.get(t, "/api/session/list?projectDir="+url.QueryEscape(dir)+query).ok(t, http.StatusOK)["sessions"].([]any)
			equal(t, "sessions with "+query, len(list), want)
		}
	})
	tab.add("list", "all has another value", "400 INVALID_REQUEST", func(t *testing.T) {
		s.get(t, "/api/session/list?projectId=*&all=maybe").fails(t, http.StatusBadRequest, "INVALID_REQUEST")
	})
	tab.add("status", "no turn runs", "isAlive, state open, activity idle, no turnId, lastSeq 0 before the first turn", func(t *testing.T) {
		st := s.status(t, s.session(t, nil))
		equal(t, "status", []any{st["isAlive"], st["state"], st["activity"], st["turnId"], st["lastSeq"]}, []any{true, "open", "idle", nil, 0})
	})
	tab.add("status", "a turn runs", "activity working and the turnId", func(t *testing.T) {
		id, turn := s.running(t)
		st := s.status(t, id)
		equal(t, "status", []any{st["activity"], st["turnId"]}, []any{"working", turn})
	})
	tab.add("status", "an approval waits", "activity waiting and the approval", func(t *testing.T) {
		id, approval := s.asking(t)
		st := s.status(t, id)
		equal(t, "status", []any{st["activity"], at(st, "pendingApprovals", 0, "id")}, []any{"waiting", approval["id"]})
	})
}

func (s *sessions) sendRows(tab *table) {
	tab.add("send", "no turn runs", "202 with the turnId", func(t *testing.T) {
		id := s.session(t, nil)
		turn, events := s.play(t, id, object{"text": "x"})
		equal(t, "first event", []any{events[0].event, events[0].data["turnId"]}, []any{"item_start", turn})
	})
	tab.add("send", "the agent says nothing", "202 at once: the answer waits for no output of the agent", func(t *testing.T) {
		s.send(t, s.session(t, nil), script(object{"hang": true}))
	})
	tab.add("send", "content is blank, and there are no attachments", "400 INVALID_REQUEST", func(t *testing.T) {
		s.verb(t, s.session(t, nil), "send", object{"content": " \n"}).fails(t, http.StatusBadRequest, "INVALID_REQUEST")
	})
	tab.add("send", "a turn runs", "409 TURN_IN_PROGRESS with sessionId and turnId", func(t *testing.T) {
		id, turn := s.running(t)
		p := s.verb(t, id, "send", object{"content": "x"}).fails(t, http.StatusConflict, "TURN_IN_PROGRESS")
		equal(t, "details", p.Details, object{"sessionId": id, "turnId": turn})
	})
	tab.add("send", "a turn runs, and queue is true", "202 with queued and a turnId of its own; prompts begin in order, each as a turn", func(t *testing.T) {
		id, running := s.running(t)
		var turns []string
		for _, text := range []string{"one", "two"} {
			body := s.verb(t, id, "send", object{"content": script(object{"text": text}), "queue": true}).ok(t, http.StatusAccepted)
			equal(t, "queued", body["queued"], true)
			turns = append(turns, body["turnId"].(string))
		}
		equal(t, "queued", s.status(t, id)["queued"], 2)
		s.verb(t, id, "cancel", object{"continueQueue": true}).ok(t, http.StatusOK)
		events := s.events(t, id, func(f frame) bool { return f.data["turnId"] == turns[1] && f.ends() })
		var ended []any
		for _, f := range events {
			if f.ends() {
				ended = append(ended, f.data["turnId"])
			}
		}
		equal(t, "turns in order", ended, []any{running, turns[0], turns[1]})
	})
	tab.add("send", "no turn runs, and queue is true", "202, the turn begins at once", func(t *testing.T) {
		id := s.session(t, nil)
		body := s.verb(t, id, "send", object{"content": script(object{"text": "x"}), "queue": true}).ok(t, http.StatusAccepted)
		equal(t, "queued", body["queued"], nil)
		s.turn(t, id, body["turnId"].(string))
	})
	tab.add("send", "50 prompts wait", "429 RATE_LIMITED for one more", func(t *testing.T) {
		id, _ := s.running(t)
		for range 50 {
			s.verb(t, id, "send", object{"content": "{}", "queue": true}).ok(t, http.StatusAccepted)
		}
		s.verb(t, id, "send", object{"content": "{}", "queue": true}).fails(t, http.StatusTooManyRequests, "RATE_LIMITED")
		s.verb(t, id, "kill", object{}).ok(t, http.StatusOK)
	})
	tab.add("send", "the session was ended", "409 SESSION_DEAD", func(t *testing.T) {
		id := s.session(t, nil)
		s.verb(t, id, "kill", object{}).ok(t, http.StatusOK)
		s.verb(t, id, "send", object{"content": "x"}).fails(t, http.StatusConflict, "SESSION_DEAD")
	})
	tab.link("send", "100 prompts at once", "one is accepted, 99 are 409", "httpapi.TestSecondTurnIsRejected")
	tab.link("send", "prompts wait, and the server restarts", "the queue goes on", "gateway.TestOpenClosesUnfinishedTurnAndResumesQueue")
	tab.link("send", "the answer has come", "the prompt is in the log, and survives a crash", "test/kill.TestKilledServerLosesNothing")
}

func (s *sessions) endRows(tab *table) {
	tab.add("cancel", "a turn runs", "200; the turn ends as cancelled, and the session takes the next prompt", func(t *testing.T) {
		id, turn := s.running(t)
		equal(t, "answer", s.verb(t, id, "cancel", object{}).ok(t, http.StatusOK), object{})
		done := frames(s.turn(t, id, turn)).find("response_done").payload()
		equal(t, "status", done["status"], "cancelled")
		s.play(t, id, object{"text": "x"})
	})
	tab.add("cancel", "an approval waits", "200; the approval is withdrawn", func(t *testing.T) {
		id, approval := s.asking(t)
		s.verb(t, id, "cancel", object{}).ok(t, http.StatusOK)
		resolved := s.events(t, id, frame.ends).find("approval_resolved").payload()
		equal(t, "approvalId", resolved["approvalId"], approval["id"])
	})
	tab.add("cancel", "no turn runs", "200", func(t *testing.T) { s.verb(t, s.session(t, nil), "cancel", object{}).ok(t, http.StatusOK) })
	tab.add("cancel", "prompts are queued", "200; the queue is held, also over a prompt that is sent meanwhile, until it is continued", func(t *testing.T) {
		id, turns := waiting(t, &s.server, "text one", "text two")
		s.verb(t, id, "cancel", object{}).ok(t, http.StatusOK)
		s.play(t, id, object{"text": "x"})
		st := s.status(t, id)
		equal(t, "status", []any{st["queued"], st["queueHeld"]}, []any{2, true})
		equal(t, "queue", inQueue(s.get(t, "/api/session/"+id+"/queue").ok(t, http.StatusOK)), "held: text one, text two")
		s.verb(t, id, "queue", object{"held": false}).ok(t, http.StatusOK)
		s.turn(t, id, turns[1])
	})
	tab.link("cancel", "a queued prompt is about to start", "its turn is cancelled, too", "gateway.TestStopWhileAQueuedPromptStarts")
	tab.add("queue", "a queued prompt is edited, moved or removed", "200 with the changed queue; what starts is the changed prompt", func(t *testing.T) {
		id, turns := waiting(t, &s.server, "one", "two", "three")
		edit := object{"content": script(object{"text": "2"}), "before": turns[0]}
		s.verb(t, id, "queue/"+turns[1], edit).ok(t, http.StatusOK)
		left := s.do(t, http.MethodDelete, "/api/session/"+id+"/queue/"+turns[2], nil).ok(t, http.StatusOK)
		equal(t, "queue", inQueue(left), script(object{"text": "2"})+", one")
		s.verb(t, id, "cancel", object{"continueQueue": true}).ok(t, http.StatusOK)
		s.turn(t, id, turns[1])
	})
	tab.link("queue", "a prompt is edited when its turn starts", "200 and the turn has the edited prompt, or 409 PROMPT_GONE", "gateway.TestEditRacesWithTheStart")
	tab.link("queue", "the queue is held, and the server restarts", "it stays held", "gateway.TestHeldQueueSurvivesACrash")
	tab.link("seen", "a device has shown the session up to a position", "200; every device gets the position, which never decreases", "gateway.TestSeenIsSharedBoundedAndNeverDecreases")
	tab.add("kill", "a turn runs", "200; the turn ends, the session is dead and not in the list, its transcript stays", func(t *testing.T) {
		id, turn := s.running(t)
		equal(t, "answer", s.verb(t, id, "kill", object{}).ok(t, http.StatusOK), object{})
		st := s.status(t, id)
		equal(t, "status", []any{st["isAlive"], st["state"]}, []any{false, "dead"})
		if list := s.get(t, "/api/session/list?projectId=*"); bytes.Contains(list.body, []byte(id)) {
			t.Error("the list has the session")
		}
		s.turn(t, id, turn)
	})
	tab.add("kill", "the session was ended before", "200", func(t *testing.T) {
		id := s.session(t, nil)
		s.verb(t, id, "kill", object{}).ok(t, http.StatusOK)
		s.verb(t, id, "kill", object{}).ok(t, http.StatusOK)
	})
	tab.link("kill", "the agent has started processes", "200; none of them is left", "test/hostile.TestStopEndsTheWholeProcessTree")
	tab.add("options", "the session is open", "200 with the new status; the option counts for the next turn", func(t *testing.T) {
		id := s.session(t, nil)
		st := s.verb(t, id, "options", object{"permissionMode": "acceptEdits"}).ok(t, http.StatusOK)
		equal(t, "permissionMode", at(st, "resolved", "permissionMode"), object{"value": "acceptEdits", "from": "session"})
	})
	tab.add("options", "there is nothing to change", "400 INVALID_REQUEST", func(t *testing.T) {
		s.verb(t, s.session(t, nil), "options", object{}).fails(t, http.StatusBadRequest, "INVALID_REQUEST")
	})
	tab.add("options", "an option is one of a prompt or a new session", "400 UNSUPPORTED_CAPABILITY", func(t *testing.T) {
		id := s.session(t, nil)
		for name, value := range map[string]any{"persona": "x", "delegation": "governed", "subagentGovernance": object{"contextSealed": true}} {
			s.verb(t, id, "options", object{name: value}).fails(t, http.StatusBadRequest, "UNSUPPORTED_CAPABILITY")
		}
	})
	tab.add("approvals", "the choice allows, with the digest of the arguments", "200; the decision is an event, and the turn goes on", func(t *testing.T) {
		id, approval := s.asking(t)
		path := "approvals/" + approval["id"].(string)
		s.verb(t, id, path, object{"choice": "allow", "argumentsDigest": approval["argumentsDigest"]}).ok(t, http.StatusOK)
		resolved := s.events(t, id, frame.ends).find("approval_resolved").payload()
		equal(t, "approval_resolved", []any{resolved["approvalId"], resolved["choice"], resolved["by"]}, []any{approval["id"], "allow", "user"})
	})
	for _, r := range []struct {
		condition, digest string
		status            int
		typ               string
	}{
		{"the choice allows, without the digest of the arguments", "", http.StatusBadRequest, "INVALID_REQUEST"},
		{"the choice allows, with the digest of other arguments", strings.Repeat("0", 64), http.StatusConflict, "APPROVAL_GONE"},
	} {
		tab.add("approvals", r.condition, fmt.Sprintf("%d %s; the approval waits", r.status, r.typ), func(t *testing.T) {
			id, approval := s.asking(t)
			s.verb(t, id, "approvals/"+approval["id"].(string), object{"choice": "allow", "argumentsDigest": r.digest}).fails(t, r.status, r.typ)
			equal(t, "activity", s.status(t, id)["activity"], "waiting")
		})
	}
	tab.add("approvals", "the choice is none of the approval's", "400 INVALID_REQUEST", func(t *testing.T) {
		id, approval := s.asking(t)
		s.verb(t, id, "approvals/"+approval["id"].(string), object{"choice": "perhaps"}).fails(t, http.StatusBadRequest, "INVALID_REQUEST")
	})
	tab.add("approvals", "the approval was answered, or never existed", "409 APPROVAL_GONE", func(t *testing.T) {
		id, approval := s.asking(t)
		path := "approvals/" + approval["id"].(string)
		s.verb(t, id, path, object{"choice": "deny"}).ok(t, http.StatusOK)
		s.verb(t, id, path, object{"choice": "deny"}).fails(t, http.StatusConflict, "APPROVAL_GONE")
		s.verb(t, id, "approvals/none", object{"choice": "deny"}).fails(t, http.StatusConflict, "APPROVAL_GONE")
	})
}

func (s *sessions) loadRows(tab *table) {
	tab.add("load", "the session was ended", "200 with sessionId and cliType; the session is open, with its history, and takes the next prompt", func(t *testing.T) {
		id := s.session(t, nil)
		_, before := s.play(t, id, object{"text": "x"})
		s.verb(t, id, "kill", object{}).ok(t, http.StatusOK)
		body := s.verb(t, id, "load", object{}).ok(t, http.StatusOK)
		equal(t, "answer", []any{body["sessionId"], body["cliType"]}, []any{id, "script"})
		equal(t, "state", s.status(t, id)["state"], "open")
		equal(t, "first event", s.events(t, id, frame.ends)[1].id, before[0].id)
		s.play(t, id, object{"text": "y"})
	})
	tab.add("load", "the session is open", "200", func(t *testing.T) { s.verb(t, s.session(t, nil), "load", object{}).ok(t, http.StatusOK) })
	tab.add("load", "a turn runs", "200; the turn goes on", func(t *testing.T) {
		id, turn := s.running(t)
		s.verb(t, id, "load", object{}).ok(t, http.StatusOK)
		equal(t, "turnId", s.status(t, id)["turnId"], turn)
	})
	tab.add("load", "the session is named by cliType:agentSessionId", "the same session, for every verb", func(t *testing.T) {
		id := s.session(t, nil)
		s.play(t, id, object{"text": "x"})
		name := "script:" + s.status(t, id)["agentSessionId"].(string)
		equal(t, "load", s.verb(t, name, "load", object{}).ok(t, http.StatusOK)["sessionId"], id)
		equal(t, "status", s.status(t, name)["sessionId"], id)
	})
	tab.add("load", "the agent has no such conversation", "404 SESSION_NOT_FOUND", func(t *testing.T) {
		s.verb(t, "claude-agent-acp:none", "load", object{}).fails(t, http.StatusNotFound, "SESSION_NOT_FOUND")
	})
	tab.add("load", "viewFilePath is a file outside the agents' own folders", "404 SESSION_NOT_FOUND", func(t *testing.T) {
		file := write(t, s.project, "transcript.jsonl", "{}")
		for _, cliType := range []string{"claude-code", "claude-agent-acp"} {
			s.verb(t, cliType+":none", "load", object{"viewFilePath": file}).fails(t, http.StatusNotFound, "SESSION_NOT_FOUND")
		}
	})
	tab.link("load", "the conversation began in a terminal", "200; a session with the conversation's history", "gateway.TestLoadForeign")
	tab.link("load", "the conversation went on in a terminal", "200; the session gains what is new", "gateway.TestLoadAgainAddsWhatTheConversationGained")
}

func (s *sessions) forkRows(tab *table) {
	tab.add("fork", "the agent can continue from a copy", "201 with another session that has the history; the first one stays", func(t *testing.T) {
		id := s.sessionOf(t, "claude-agent-acp")
		s.turn(t, id, s.send(t, id, "hello"))
		body := s.verb(t, id, "fork", object{}).ok(t, http.StatusCreated)
		other := body["sessionId"].(string)
		if other == id || body["cliType"] != "claude-agent-acp" {
			t.Errorf("got %v", body)
		}
		copied, original := s.events(t, other, frame.ends), s.events(t, id, frame.ends)
		equal(t, "events of the copy", copied.names(), original.names())
		s.turn(t, other, s.send(t, other, "on"))
		equal(t, "lastSeq of the first one", fmt.Sprint(s.status(t, id)["lastSeq"]), original[len(original)-1].id)
	})
	tab.add("fork", "a turn runs", "409 TURN_IN_PROGRESS", func(t *testing.T) {
		write(t, filepath.Dir(s.behaviour), filepath.Base(s.behaviour), "waits")
		id := s.sessionOf(t, "claude-agent-acp")
		write(t, filepath.Dir(s.behaviour), filepath.Base(s.behaviour), "answers")
		turn := s.send(t, id, "hello")
		p := s.verb(t, id, "fork", object{}).fails(t, http.StatusConflict, "TURN_IN_PROGRESS")
		equal(t, "details", p.Details, object{"sessionId": id, "turnId": turn})
	})
	tab.add("fork", "the agent cannot continue from a copy", "400 UNSUPPORTED_CAPABILITY that names the capability", func(t *testing.T) {
		p := s.verb(t, s.session(t, nil), "fork", object{}).fails(t, http.StatusBadRequest, "UNSUPPORTED_CAPABILITY")
		equal(t, "capability", p.Details["capability"], "agent_api.session.fork.v1")
	})
}

func (s *sessions) readRows(tab *table) {
	tab.add("items", "after and limit", "at most limit items after the position; seq and more lead to the next page", func(t *testing.T) {
		id := s.session(t, nil)
		s.play(t, id, object{"text": "x"})
		s.play(t, id, object{"text": "y"})
		path := "/api/session/" + id + "/items"
		whole := s.get(t, path).ok(t, http.StatusOK)
		equal(t, "more", whole["more"], false)
		var pages []any
		for after, more := "0", any(true); more == true; {
			page := s.get(t, path+"?limit=2&after="+after).ok(t, http.StatusOK)
			pages = append(pages, page["items"].([]any)...)
			after, more = number(page["seq"].(float64)), page["more"]
		}
		equal(t, "number of items", len(pages), len(whole["items"].([]any)))
	})
	tab.add("items", "after is no whole number", "400 INVALID_REQUEST", func(t *testing.T) {
		s.get(t, "/api/session/"+s.session(t, nil)+"/items?after=-1").fails(t, http.StatusBadRequest, "INVALID_REQUEST")
	})
	for _, format := range []string{"html", "jsonl", "md"} {
		media := map[string]string{"html": "text/html; charset=utf-8", "jsonl": "application/jsonl", "md": "text/markdown; charset=utf-8"}[format]
		tab.add("export", "format="+format, "200 as "+media+", a file to download that runs no script", func(t *testing.T) {
			id := s.session(t, nil)
			s.play(t, id, object{"text": "<script>alert(1)</script>"})
			a := s.get(t, "/api/session/"+id+"/export?format="+format)
			a.ok(t, http.StatusOK)
			equal(t, "Content-Type", a.header.Get("Content-Type"), media)
			equal(t, "Content-Disposition", a.header.Get("Content-Disposition"), fmt.Sprintf("attachment; filename=%q", id+"."+format))
			equal(t, "Content-Security-Policy", a.header.Get("Content-Security-Policy"), "sandbox; default-src 'none'")
			if format == "html" && bytes.Contains(a.body, []byte("<script")) {
				t.Errorf("got %s", a.body)
			}
		})
	}
	tab.add("export", "format is missing or unknown", "400 INVALID_REQUEST", func(t *testing.T) {
		id := s.session(t, nil)
		for _, query := range []string{"", "?format=pdf"} {
			s.get(t, "/api/session/"+id+"/export"+query).fails(t, http.StatusBadRequest, "INVALID_REQUEST")
		}
	})
}
