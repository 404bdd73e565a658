//go:build unix

package conformance

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The table order checks the order in which the server checks a prompt for
// errors.
var _ = register(30, func() table {
	tab := table{
		name: "order", title: "Order of the checks of a prompt", file: "harness_test.go",
		intro: "A prompt with two faults fails for the earlier one, before a stream opens, as plain JSON. Each row is checked with the turn of the harness and with `send`, which " +
			"answer alike. The key and the turn lock belong to a session, so an unknown session is compared with the options.",
		head: []string{"earlier fault", "later fault", "error"},
	}
	h := new(harness)
	tab.setup = h.setup
	for _, r := range []struct {
		earlier, later string
		status         int
		typ            string
		body           func(t *testing.T) object
		details        func(body object) object // nil: none
	}{
		{"the shape: an unknown field", "an unknown session", 400, "INVALID_REQUEST", func(*testing.T) object {
			return object{"sessionId": nobody, "message": "x", "surprise": 1}
		}, nil},
		{"an unknown session", "the options: an unknown permission mode", 404, "SESSION_NOT_FOUND", func(*testing.T) object {
			return object{"sessionId": nobody, "message": "x", "opts": object{"permissionMode": "yolo"}}
		}, func(object) object { return object{"sessionId": nobody} }},
		{"the agent's key is missing", "a turn runs", 503, "MISSING_API_KEY", func(t *testing.T) object {
			id, _ := h.keyless(t)
			return object{"sessionId": id, "message": "x"}
		}, func(object) object { return object{"provider": "claude-agent-acp", "category": "API_KEY_MISSING"} }},
		{"a turn runs", "the options: an unknown permission mode", 409, "TURN_IN_PROGRESS", func(t *testing.T) object {
			id, turn := h.running(t)
			h.turnOf[id] = turn
			return object{"sessionId": id, "message": "x", "opts": object{"permissionMode": "yolo"}}
		}, func(body object) object {
			id := body["sessionId"].(string)
			return object{"sessionId": id, "turnId": h.turnOf[id]}
		}},
		{"the options: an unknown permission mode", "no attachment can be used", 400, "INVALID_REQUEST", func(t *testing.T) object {
			return object{"sessionId": h.session(t, nil), "message": "", "opts": object{"permissionMode": "yolo"}, "attachments": []string{"/none.txt"}}
		}, nil},
		{"no attachment can be used", "an unknown profile", 400, "ATTACHMENT_FAILURE", func(t *testing.T) object {
			return object{"sessionId": h.session(t, nil), "message": "", "opts": object{"persona": "nobody"}, "attachments": []string{"/none.txt"}}
		}, func(object) object {
			rejected := []object{{"path": "/none.txt", "reason": "it lies outside the folders that may be read"}}
			return object{"category": "ALL_ATTACHMENTS_FAILED_NO_TEXT", "attachmentErrors": rejected, "rejectedAttachmentCount": 1}
		}},
		{"an unknown profile", "delegation: governance in a session that is not governed", 404, "PERSONA_NOT_FOUND", func(t *testing.T) object {
			opts := object{"persona": "nobody", "subagentGovernance": object{"contextSealed": true}}
			return object{"sessionId": h.session(t, nil), "message": "x", "opts": opts}
		}, nil},
		{"delegation: governance in a session that is not governed", "none", 400, "UNSUPPORTED_CAPABILITY", func(t *testing.T) object {
			return object{"sessionId": h.session(t, nil), "message": "x", "opts": object{"subagentGovernance": object{"contextSealed": true}}}
		}, nil},
	} {
		tab.add(r.earlier, r.later, fmt.Sprint(r.status, " ", r.typ), func(t *testing.T) {
			body := r.body(t)
			turn := h.post(t, "/api/harness/turn", body).fails(t, r.status, r.typ)
			if r.details != nil {
				equal(t, "details", turn.Details, r.details(body))
			}
			send := object{"content": body["message"]}
			for name, value := range body {
				if name != "sessionId" && name != "message" {
					send[name] = value
				}
			}
			equal(t, "send", h.post(t, "/api/session/"+body["sessionId"].(string)+"/send", send).fails(t, r.status, r.typ).Details, turn.Details)
		})
	}
	tab.link("every fault at once", "each of them mended in turn", "the errors in this order", "httpapi.TestFaultsOfAPromptAreJudgedInOrder")
	tab.link("a refused prompt", "any", "the session is unchanged", "httpapi.TestRefusedTurnLeavesTheSessionUnchanged")
	return tab
})

// harness is shared by the rows of the tables about the harness.
type harness struct {
	server
	behaviour string            // file that sets the behaviour of the agent "mine"
	key       string            // file with the key of claude-agent-acp
	profiles  string            // folder of the profiles
	turnOf    map[string]string // running turns by session
}

// keyOfAgent is the API key of an agent.
const keyOfAgent = "sk-conformance-0123456789abcdef"

func (h *harness) setup(t *testing.T) {
	mine, behaviour := agentFile(t, "answers")
	keyed, _ := agentFile(t, "waits")
	h.behaviour, h.turnOf = behaviour, make(map[string]string)
	h.key = write(t, folder(t), "key", keyOfAgent)
	h.profiles = folder(t)
	h.configure(t, fmt.Sprintf("agents:\n  mine: {protocol: acp, command: [%s]}\n  claude-agent-acp: {path: %s, auth: api-key, apiKeyFile: %s}\n", mine, keyed, h.key))
	h.Args = append(h.Args, "--profiles-dir", h.profiles, "--reattach-window", "-1s") // agents stop with the server
	h.start(t)
}

// keyless creates a session with a running turn, and then removes the API key
// of its agent.
func (h *harness) keyless(t *testing.T) (session, turn string) {
	t.Helper()
	session = h.sessionOf(t, "claude-agent-acp")
	turn = h.send(t, session, "hello")
	h.events(t, session, func(f frame) bool { return f.event == "item_delta" })
	h.removeKey(t)
	return session, turn
}

// removeKey removes the API key of claude-agent-acp until the row ends.
func (h *harness) removeKey(t *testing.T) {
	t.Helper()
	if err := os.Remove(h.key); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { write(t, filepath.Dir(h.key), filepath.Base(h.key), keyOfAgent) })
}

// frames returns all frames of a turn.
func (h *harness) frames(t *testing.T, session string, steps ...object) frames {
	t.Helper()
	return h.stream(t, http.MethodPost, "/api/harness/turn", object{"sessionId": session, "message": script(steps...)}).rest(t)
}

// The table frames checks the frames of a turn of the harness.
var _ = register(31, func() table {
	tab := table{
		name: "frames", title: "Frames of a turn of the harness", file: "harness_test.go",
		intro: "The stream that answers `POST /api/harness/turn`, for turns that the scripted agent plays.",
		head:  []string{"turn", "clause", "frames"},
	}
	h := new(harness)
	tab.setup = h.setup
	const plain = "a message"
	tab.add(plain, "the order of the frames", "session:init, chat:delta, chat:complete, session:complete, process:exit", func(t *testing.T) {
		equal(t, "frames", h.frames(t, h.session(t, nil), object{"text": "Hello"}).names(), "session:init chat:delta chat:complete session:complete process:exit")
	})
	tab.add(plain, "headers of the answer", "200, text/event-stream, Cache-Control: no-cache, no-transform", func(t *testing.T) {
		a := h.post(t, "/api/harness/turn", object{"sessionId": h.session(t, nil), "message": script(object{"text": "x"})})
		a.ok(t, http.StatusOK)
		equal(t, "Content-Type", a.header.Get("Content-Type"), "text/event-stream")
		equal(t, "Cache-Control", a.header.Get("Cache-Control"), "no-cache, no-transform")
	})
	tab.add(plain, "id, seq and turnId", "each frame has the same seq as id and in its data, and the turn's id", func(t *testing.T) {
		id := h.session(t, nil)
		all := h.frames(t, id, object{"text": "a b c"})
		turn := all[0].data["turnId"]
		last := 0.0
		for _, f := range all {
			seq, _ := f.data["seq"].(float64)
			if f.id != number(seq) || seq < last || seq == 0 || f.data["turnId"] != turn {
				t.Errorf("%s: id %q, data %v", f.event, f.id, f.data)
			}
			last = seq
		}
	})
	tab.add(plain, "the fields of session:init", "sessionId, turnId, modelId", func(t *testing.T) {
		id := h.session(t, nil)
		init := h.frames(t, id, object{"text": "x"}).find("session:init").data
		equal(t, "sessionId", init["sessionId"], id)
		equal(t, "modelId", init["modelId"], "scripted")
	})
	tab.add(plain, "chat:delta and chat:complete", "have one itemId; the deltas together are the text", func(t *testing.T) {
		wholeOf(t, h.frames(t, h.session(t, nil), object{"text": "Grüße, one two"}), "chat", "Grüße, one two")
	})
	tab.add(plain, "the end of the turn", "session:complete with status completed and the usage, process:exit with exitCode 0, the stream closes", func(t *testing.T) {
		all := h.frames(t, h.session(t, nil), object{"text": "a b"})
		done, exit := all[len(all)-2], all[len(all)-1]
		equal(t, "session:complete", []any{done.event, done.data["status"], at(done.data, "usage", "outputTokens")}, []any{"session:complete", "completed", 2})
		equal(t, "process:exit", []any{exit.event, exit.data["exitCode"], exit.data["interrupted"]}, []any{"process:exit", 0, nil})
	})
	tab.add("costs money", "session:complete", "costUsd", func(t *testing.T) {
		usage := object{"usage": object{"inputTokens": 1, "outputTokens": 1}, "costUsd": 0.25}
		equal(t, "costUsd", h.frames(t, h.session(t, nil), object{"usage": usage}).find("session:complete").data["costUsd"], 0.25)
	})
	tab.add("reasoning", "reasoning:delta and reasoning:complete", "have one itemId; the deltas together are the text", func(t *testing.T) {
		wholeOf(t, h.frames(t, h.session(t, nil), object{"reasoning": "I think so"}), "reasoning", "I think so")
	})
	h.toolRows(&tab)
	tab.add("a plan", "plan:update", "entries", func(t *testing.T) {
		plan := h.frames(t, h.session(t, nil), object{"plan": []object{{"content": "do it", "status": "pending"}}}).find("plan:update").data
		equal(t, "entries", at(plan, "entries", 0, "content"), "do it")
	})
	tab.add("a notice", "notice", "level, code, message", func(t *testing.T) {
		given := object{"level": "info", "code": "COMPACTED", "message": "The context was compacted."}
		got := h.frames(t, h.session(t, nil), object{"notice": given}).find("notice").data
		equal(t, "notice", object{"level": got["level"], "code": got["code"], "message": got["message"]}, given)
	})
	tab.add("unknown options", "notice", "a warning names the option", func(t *testing.T) {
		a := h.post(t, "/api/harness/turn", object{"sessionId": h.session(t, nil), "message": script(object{"text": "x"}), "opts": object{"colour": "red"}})
		if got := readFrames(t, a.body).find("notice").data; !strings.Contains(fmt.Sprint(got["message"]), `opts."colour": unknown, ignored`) {
			t.Errorf("got %v", got)
		}
	})
	tab.add("cancelled", "the end of the turn", "session:complete with status cancelled, process:exit with interrupted", func(t *testing.T) {
		id := h.session(t, nil)
		s := h.stream(t, http.MethodPost, "/api/harness/turn", object{"sessionId": id, "message": script(object{"text": "x"}, object{"hang": true})})
		for f, _ := s.next(t); f.event != "chat:complete"; f, _ = s.next(t) {
		}
		equal(t, "interrupt", h.post(t, "/api/harness/interrupt", object{"sessionId": id}).ok(t, http.StatusOK), object{"ok": true})
		rest := s.rest(t)
		equal(t, "frames", rest.names(), "session:complete process:exit")
		equal(t, "status", rest[0].data["status"], "cancelled")
		equal(t, "interrupted", rest[1].data["interrupted"], true)
	})
	for _, r := range []struct {
		code, severity string
		status         int
	}{{"AGENT_ERROR", "error", 502}, {"RATE_LIMITED", "warning", 429}} {
		says := fmt.Sprintf("turn:error with phase mid-stream, status %d, severity %s and fatal; process:exit with another exitCode than 0", r.status, r.severity)
		tab.add("fails with "+r.code, "the end of the turn", says, func(t *testing.T) {
			all := h.frames(t, h.session(t, nil), object{"text": "x"}, object{"fail": object{"code": r.code, "message": "It broke."}})
			equal(t, "frames", all.names(), "session:init chat:delta chat:complete turn:error process:exit")
			failed := all.find("turn:error").data
			delete(failed, "seq")
			delete(failed, "turnId")
			want := object{"phase": "mid-stream", "errorType": r.code, "message": "It broke.", "status": r.status, "severity": r.severity, "fatal": true}
			equal(t, "turn:error", failed, want)
			if code := all.find("process:exit").data["exitCode"]; code == nil || code == 0.0 {
				t.Errorf("process:exit has the exitCode %v", code)
			}
		})
	}
	tab.link("fails with any other error", "the end of the turn", "the same two frames, with the error's status and severity", "httpapi.TestEveryFatalErrorEndsATurnAlike")
	tab.link("is silent for the stall timeout", "the end of the turn", "turn:error with AGENT_STALLED", "httpapi.TestTurnStalls")
	tab.link("is silent while a tool runs or an approval waits", "the turn", "goes on", "..TestStall")
	tab.link("is silent", "a comment", "every 15 seconds", "httpapi.TestHeartbeat")
	tab.link("the client disconnects, onDisconnect=detach or absent", "the turn", "goes on, and the events resume it", "httpapi.TestTurnOnDisconnect")
	tab.link("the client disconnects, onDisconnect=cancel", "the turn", "ends as cancelled", "httpapi.TestTurnOnDisconnect")
	tab.add("any", "onDisconnect has another value", "400 INVALID_REQUEST, no stream", func(t *testing.T) {
		h.post(t, "/api/harness/turn?onDisconnect=explode", object{"sessionId": h.session(t, nil), "message": "x"}).fails(t, http.StatusBadRequest, "INVALID_REQUEST")
	})
	tab.add("any", "the id of a frame as Last-Event-ID of the events", "the events after the frame follow", func(t *testing.T) {
		id := h.session(t, nil)
		complete := h.frames(t, id, object{"text": "x"}).find("chat:complete")
		s := h.with("Last-Event-ID", complete.id).stream(t, http.MethodGet, "/api/session/"+id+"/events", nil)
		defer s.close()
		opened, _ := s.next(t)
		next, _ := s.next(t)
		equal(t, "frames", []any{opened.event, at(opened.data, "resume", "status"), next.event}, []any{"stream:open", "ok", "response_done"})
	})
	return tab
})

// toolRows adds the rows about tools to tab.
func (h *harness) toolRows(tab *table) {
	steps := []object{{"tool": object{
		"name": "Bash", "kind": "execute", "arguments": object{"command": "make"}, "pieces": []string{"one ", "two"},
		"steps": []object{{"tool": object{"name": "Read", "arguments": object{"path": "a"}, "output": "inner"}}},
	}}}
	tab.add("a tool", "tool:start", "callId, name, arguments", func(t *testing.T) {
		start := h.frames(t, h.session(t, nil), steps...).find("tool:start").data
		equal(t, "tool:start", []any{start["name"], start["arguments"], start["callId"] != nil}, []any{"Bash", object{"command": "make"}, true})
	})
	tab.add("a tool", "tool:progress", "comes before the result, about the same call", func(t *testing.T) {
		all := h.frames(t, h.session(t, nil), steps...)
		equal(t, "callId", all.find("tool:progress").data["callId"], all.find("tool:start").data["callId"])
	})
	tab.add("a tool", "tool:result", "callId, name, ok, output", func(t *testing.T) {
		all := h.frames(t, h.session(t, nil), object{"tool": object{"name": "Read", "arguments": object{"path": "a"}, "output": "text"}})
		start, result := all.find("tool:start").data, all.find("tool:result").data
		equal(t, "tool:result", []any{result["callId"], result["name"], result["ok"], result["output"]}, []any{start["callId"], "Read", true, "text"})
	})
	tab.add("a tool that fails", "tool:result", "ok is false, and the turn goes on", func(t *testing.T) {
		all := h.frames(t, h.session(t, nil), object{"tool": object{"name": "Read", "output": "no", "isError": true}}, object{"text": "on"})
		equal(t, "ok", all.find("tool:result").data["ok"], false)
		equal(t, "status", all.find("session:complete").data["status"], "completed")
	})
	tab.add("a tool of a subagent", "tool:start", "parentCallId is the callId of the tool that started the subagent", func(t *testing.T) {
		var starts []frame
		for _, f := range h.frames(t, h.session(t, nil), steps...) {
			if f.event == "tool:start" {
				starts = append(starts, f)
			}
		}
		if len(starts) != 2 {
			t.Fatalf("got %d tool:start", len(starts))
		}
		equal(t, "parentCallId", starts[1].data["parentCallId"], starts[0].data["callId"])
	})
	tab.add("a tool that asks", "permission:request and permission:resolved", "the request has the approval, the other its id, the choice and by", func(t *testing.T) {
		id := h.session(t, nil)
		ask := object{"tool": object{"name": "Bash", "arguments": object{"command": "make"}, "ask": object{}}}
		s := h.stream(t, http.MethodPost, "/api/harness/turn", object{"sessionId": id, "message": script(ask)})
		request, _ := s.next(t)
		for request.event != "permission:request" {
			request, _ = s.next(t)
		}
		approval, _ := request.data["approval"].(object)
		path := "/api/session/" + id + "/approvals/" + url.PathEscape(fmt.Sprint(approval["id"]))
		h.post(t, path, object{"choice": "allow", "argumentsDigest": approval["argumentsDigest"]}).ok(t, http.StatusOK)
		resolved := s.rest(t).find("permission:resolved").data
		equal(t, "permission:resolved", []any{resolved["approvalId"], resolved["choice"], resolved["by"]}, []any{approval["id"], "allow", "user"})
	})
}

// wholeOf checks that the deltas of a kind form the complete text.
func wholeOf(t *testing.T, all frames, kind, want string) {
	t.Helper()
	text := ""
	complete := all.find(kind + ":complete").data
	for _, f := range all {
		if f.event == kind+":delta" {
			text += fmt.Sprint(f.data["text"])
			equal(t, "itemId", f.data["itemId"], complete["itemId"])
		}
	}
	equal(t, "text", []any{text, complete["text"]}, []any{want, want})
}
