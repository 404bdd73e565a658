//go:build unix

package conformance

import (
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"
)

// The table harness checks the harness routes other than the turn.
var _ = register(32, func() table {
	tab := table{
		name: "harness", title: "Sessions of the harness", file: "harness_routes_test.go",
		intro: "The routes of the harness beside the turn: creating, starting, listing, interrupting and deleting sessions. Both families are faces of the same sessions.",
		head:  []string{"operation", "condition", "answer"},
	}
	h := new(harness)
	tab.setup = h.setup
	h.createRows(&tab)
	h.bootRows(&tab)
	const get, del, list = "GET /api/harness/session/{id}", "DELETE /api/harness/session/{id}", "GET /api/harness/session/list"
	tab.add(list, "projectRoot is a folder", "the sessions of the folder only", func(t *testing.T) {
		other := folder(t)
		id := h.post(t, "/api/harness/session/create", object{"projectRoot": other, "cliType": "script"}).ok(t, http.StatusOK)
		h.session(t, nil)
		sessions := h.get(t, "/api/harness/session/list?projectRoot="+url.QueryEscape(other)).ok(t, http.StatusOK)["sessions"].([]any)
		if len(sessions) != 1 {
			t.Fatalf("got %v", sessions)
		}
		equal(t, "sessionId", at(sessions[0], "sessionId"), at(id, "session", "sessionId"))
	})
	tab.add(list, "projectRoot has no sessions", "200 with an empty list", func(t *testing.T) {
		equal(t, "answer", h.get(t, "/api/harness/session/list?projectRoot=/none").ok(t, http.StatusOK), object{"sessions": []any{}})
	})
	tab.add(get, "the session was made by the Session API", "200 with the same session", func(t *testing.T) {
		id := h.session(t, nil)
		equal(t, "session", h.get(t, "/api/harness/session/"+id).ok(t, http.StatusOK)["session"], h.get(t, "/api/session/"+id+"/status").ok(t, http.StatusOK))
	})
	tab.add(del, "the session has no turn", "200 {ok: true}; the session does not exist any more", func(t *testing.T) {
		id := h.session(t, nil)
		equal(t, "answer", h.do(t, http.MethodDelete, "/api/harness/session/"+id, nil).ok(t, http.StatusOK), object{"ok": true})
		h.get(t, "/api/session/"+id+"/status").fails(t, http.StatusNotFound, "SESSION_NOT_FOUND")
		h.do(t, http.MethodDelete, "/api/harness/session/"+id, nil).fails(t, http.StatusNotFound, "SESSION_NOT_FOUND")
	})
	tab.add(del, "a turn runs", "409 TURN_IN_PROGRESS with sessionId and turnId; the turn goes on", func(t *testing.T) {
		id, turn := h.running(t)
		p := h.do(t, http.MethodDelete, "/api/harness/session/"+id, nil).fails(t, http.StatusConflict, "TURN_IN_PROGRESS")
		equal(t, "details", p.Details, object{"sessionId": id, "turnId": turn})
		equal(t, "turnId", h.get(t, "/api/session/"+id+"/status").ok(t, http.StatusOK)["turnId"], turn)
	})
	const interrupt = "POST /api/harness/interrupt"
	tab.add(interrupt, "a turn runs", "200 {ok: true}; the turn ends as cancelled, and the session takes the next prompt", func(t *testing.T) {
		id, turn := h.running(t)
		equal(t, "answer", h.post(t, "/api/harness/interrupt", object{"sessionId": id}).ok(t, http.StatusOK), object{"ok": true})
		events := frames(h.turn(t, id, turn))
		equal(t, "status", events.find("response_done").payload()["status"], "cancelled")
		h.play(t, id, object{"text": "again"})
	})
	tab.add(interrupt, "no turn runs", "200 {ok: true}", func(t *testing.T) {
		equal(t, "answer", h.post(t, "/api/harness/interrupt", object{"sessionId": h.session(t, nil)}).ok(t, http.StatusOK), object{"ok": true})
	})
	const turn = "POST /api/harness/turn"
	tab.add(turn, "message is blank, and there are no attachments", "400 INVALID_REQUEST", func(t *testing.T) {
		h.post(t, "/api/harness/turn", object{"sessionId": h.session(t, nil), "message": " "}).fails(t, http.StatusBadRequest, "INVALID_REQUEST")
	})
	tab.add(turn, "message is blank, and there is an attachment", "200, the stream begins", func(t *testing.T) {
		note := write(t, h.project, "note.txt", "text")
		s := h.stream(t, http.MethodPost, "/api/harness/turn?onDisconnect=cancel", object{"sessionId": h.session(t, nil), "message": "", "attachments": []string{note}})
		defer s.close()
		f, _ := s.next(t)
		equal(t, "first frame", f.event, "session:init")
	})
	tab.add(turn, "the session was ended", "409 SESSION_DEAD", func(t *testing.T) {
		id := h.session(t, nil)
		h.post(t, "/api/session/"+id+"/kill", object{}).ok(t, http.StatusOK)
		h.post(t, "/api/harness/turn", object{"sessionId": id, "message": "x"}).fails(t, http.StatusConflict, "SESSION_DEAD")
	})
	return tab
})

func (h *harness) createRows(tab *table) {
	const create = "POST /api/harness/session/create"
	post := func(t *testing.T, body object) answer {
		t.Helper()
		body["cliType"] = "script"
		return h.post(t, "/api/harness/session/create", body)
	}
	tab.add(create, "projectRoot is a folder", "200 with an open, idle session in the folder, and bootedAt and bootFingerprint", func(t *testing.T) {
		s, _ := post(t, object{"projectRoot": h.project}).ok(t, http.StatusOK)["session"].(object)
		equal(t, "session", []any{s["projectDir"], s["state"], s["activity"], s["bootedAt"] != nil, s["bootFingerprint"] != nil}, []any{h.project, "open", "idle", true, true})
	})
	tab.add(create, "nothing is said of delegation", "the session is governed; one of the Session API is left to its agent", func(t *testing.T) {
		equal(t, "harness", at(post(t, object{"projectRoot": h.project}).ok(t, http.StatusOK), "session", "delegation"), "governed")
		equal(t, "Session API", h.get(t, "/api/session/"+h.session(t, nil)+"/status").ok(t, http.StatusOK)["delegation"], "agent")
	})
	tab.add(create, "an unknown option", "200 with a warning that names the option", func(t *testing.T) {
		body := post(t, object{"projectRoot": h.project, "opts": object{"colour": "red"}}).ok(t, http.StatusOK)
		equal(t, "warnings", body["warnings"], []string{`opts."colour": unknown, ignored`})
	})
	for _, r := range []struct {
		condition string
		status    int
		typ, says string
		body      object
	}{
		{"projectRoot is missing", 400, "INVALID_REQUEST", "400 INVALID_REQUEST", object{"projectRoot": nil}},
		{"projectRoot is a relative path", 404, "WORKING_ROOT_INACCESSIBLE", "404 WORKING_ROOT_INACCESSIBLE", object{"projectRoot": "relative"}},
		{"projectRoot does not exist", 404, "WORKING_ROOT_INACCESSIBLE", "404 WORKING_ROOT_INACCESSIBLE", object{"projectRoot": "/none"}},
		{"persona is unknown", 404, "PERSONA_NOT_FOUND", "404 PERSONA_NOT_FOUND", object{"persona": "nobody"}},
		{"mode is given, and profiles have no modes", 400, "UNSUPPORTED_CAPABILITY", "400 UNSUPPORTED_CAPABILITY", object{"mode": "m"}},
		{"an option has an unknown value", 400, "INVALID_REQUEST", "400 INVALID_REQUEST", object{"opts": object{"permissionMode": "yolo"}}},
	} {
		tab.add(create, r.condition, r.says, func(t *testing.T) {
			body := object{"projectRoot": h.project}
			maps.Copy(body, r.body)
			post(t, body).fails(t, r.status, r.typ)
		})
	}
}

func (h *harness) bootRows(tab *table) {
	const boot = "POST /api/harness/session/boot"
	ask := func(t *testing.T, body object) object {
		t.Helper()
		return h.post(t, "/api/harness/session/boot", body).ok(t, http.StatusOK)["boot"].(object)
	}
	tab.add(boot, "the agent runs", "not started, reason already_booted", func(t *testing.T) {
		equal(t, "boot", ask(t, object{"sessionId": h.session(t, nil)}), object{"started": false, "resumed": false, "reason": "already_booted"})
	})
	tab.add(boot, "a turn runs", "not started, reason already_booted", func(t *testing.T) {
		id, _ := h.running(t)
		equal(t, "boot", ask(t, object{"sessionId": id}), object{"started": false, "resumed": false, "reason": "already_booted"})
	})
	tab.add(boot, "force, and a turn runs", "409 TURN_IN_PROGRESS with sessionId and turnId", func(t *testing.T) {
		id, turn := h.running(t)
		p := h.post(t, "/api/harness/session/boot", object{"sessionId": id, "force": true}).fails(t, http.StatusConflict, "TURN_IN_PROGRESS")
		equal(t, "details", p.Details, object{"sessionId": id, "turnId": turn})
	})
	tab.add(boot, "force", "started and not resumed, reason forced", func(t *testing.T) {
		id := h.session(t, nil)
		h.play(t, id, object{"text": "x"})
		equal(t, "boot", ask(t, object{"sessionId": id, "force": true}), object{"started": true, "resumed": false, "reason": "forced"})
	})
	tab.add(boot, "the session was ended", "409 SESSION_DEAD", func(t *testing.T) {
		id := h.session(t, nil)
		h.post(t, "/api/session/"+id+"/kill", object{}).ok(t, http.StatusOK)
		h.post(t, "/api/harness/session/boot", object{"sessionId": id}).fails(t, http.StatusConflict, "SESSION_DEAD")
	})
	tab.add(boot, "the agent crashed in a turn, and can resume", "started and resumed, without a reason", func(t *testing.T) {
		id := h.session(t, nil)
		h.play(t, id, object{"text": "x"}, object{"crash": true})
		equal(t, "boot", ask(t, object{"sessionId": id}), object{"started": true, "resumed": true})
	})
	tab.add(boot, "the agent refuses to resume its conversation", "started afresh once, not resumed, reason missing_agent_session", func(t *testing.T) {
		write(t, filepath.Dir(h.behaviour), filepath.Base(h.behaviour), "crashes")
		id := h.sessionOf(t, "mine")
		h.turn(t, id, h.send(t, id, "hello"))
		write(t, filepath.Dir(h.behaviour), filepath.Base(h.behaviour), "forgetful")
		equal(t, "boot", ask(t, object{"sessionId": id}), object{"started": true, "resumed": false, "reason": "missing_agent_session"})
	})
	tab.add(boot, "the text of the profile has changed since the agent started", "started, reason fingerprint_changed, and bootFingerprint differs", func(t *testing.T) {
		write(t, h.profiles, "reviewer.md", "---\ndescription: Reads\n---\nYou review code.\n")
		body := object{"projectRoot": h.project, "cliType": "claude-agent-acp", "persona": "reviewer"}
		before, _ := h.post(t, "/api/harness/session/create", body).ok(t, http.StatusOK)["session"].(object)
		write(t, h.profiles, "reviewer.md", "---\ndescription: Reads\n---\nYou review tests.\n")
		answer := h.post(t, "/api/harness/session/boot", object{"sessionId": before["sessionId"]}).ok(t, http.StatusOK)
		equal(t, "boot", []any{at(answer, "boot", "started"), at(answer, "boot", "reason")}, []any{true, "fingerprint_changed"})
		if at(answer, "session", "bootFingerprint") == before["bootFingerprint"] {
			t.Error("the fingerprint has not changed")
		}
		equal(t, "boot again", ask(t, object{"sessionId": before["sessionId"]})["reason"], "already_booted")
	})
	tab.add(boot, "the agent's key is missing", "503 MISSING_API_KEY with provider and category", func(t *testing.T) {
		id := h.sessionOf(t, "claude-agent-acp")
		h.removeKey(t)
		p := h.post(t, "/api/harness/session/boot", object{"sessionId": id, "force": true}).fails(t, http.StatusServiceUnavailable, "MISSING_API_KEY")
		equal(t, "details", p.Details, object{"provider": "claude-agent-acp", "category": "API_KEY_MISSING"})
	})
	tab.link(boot, "any other option of the start has changed", "started and resumed, reason fingerprint_changed", "gateway.TestBootReasons")
	tab.link(boot, "the agent has no conversation to resume", "started, reason missing_agent_session", "gateway.TestBootWithoutConversation")
	tab.link(boot, "a resume fails", "the agent is started exactly once more, afresh", "gateway.TestFailedResumeIsRetriedOnceAfresh")
	tab.link(boot, "what the fingerprint covers", "profile text, tools, model, folder and every other option of a start", "gateway.TestEveryOptionIsInTheFingerprintOrLeftOut")
}
