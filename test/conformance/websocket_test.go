//go:build unix

package conformance

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/google/uuid"
)

var _ = register(36, webSocket)

// A socketRow is a row of the WebSocket table. Its check runs once for each
// family that it applies to, with a connection of that family.
type socketRow struct {
	message, condition, answer string
	check                      func(t *testing.T, s *server, k *socket, family string)
}

// webSocket returns the table of the messages of the WebSocket.
func webSocket() table {
	var s server
	tab := table{
		name: "websocket", title: "WebSocket", file: "websocket_test.go",
		intro: "What the server answers to each message of a client of `GET /api/ws`, for each family and condition. " +
			"Every check opens a connection of its own to the built server. Every error has the form `error {requestId?, error{type, message, details?}}`.",
		head: []string{"message or event", "condition", "family", "answer"},
		setup: func(t *testing.T) {
			s = server{}
			s.start(t)
		},
	}
	for _, r := range helloRows {
		tab.rows = append(tab.rows, row{[]string{r.message, r.condition, "before the choice", r.answer}, func(t *testing.T) { r.check(t, &s, s.dial(t), "") }, ""})
	}
	for _, r := range append(append(subscribeRows, verbRows...), refusalRows...) {
		for _, family := range families {
			tab.rows = append(tab.rows, row{[]string{r.message, r.condition, family, r.answer}, func(t *testing.T) { r.check(t, &s, s.hello(t, family), family) }, ""})
		}
	}
	for _, r := range familyRows {
		tab.rows = append(tab.rows, row{[]string{r.message, r.condition, r.answer[:strings.Index(r.answer, ":")], strings.TrimSpace(r.answer[strings.Index(r.answer, ":")+1:])},
			func(t *testing.T) { r.check(t, &s, nil, "") }, ""})
	}
	for _, c := range []struct{ event, condition, answer, test string }{
		{"connection", "the client does not read for longer than the limit", "closed with 4408; the client resumes by `seq`", "httpapi.TestStalledClientIsClosed"},
		{"connection", "the credential ends", "closed with 4401", "httpapi.TestRevokeClosesStreams"},
		{"connection", "the server shuts down", "`session:end` with the position to resume after, then closed with 1001", "httpapi.TestShutdownEndsStreams"},
		{"connection", "the store fails", "`error`, then closed with 4503", "httpapi.TestStreamsOfAFailedStore"},
		{"connection", "every code of a close", "is in the document of the API", "httpapi/stream.TestCloseCodesAreDocumented"},
		{"connection", "the session of a subscription is deleted", "`error` with `SESSION_NOT_FOUND`; the connection stays open", "httpapi.TestStreamsOfADeletedSession"},
		{"connection", "many clients watch one session, and one of them reconnects", "all see the same events in the same order", "httpapi.TestTwoClientsOneReconnecting"},
		{"connection", "fifty connections at the same time", "each gets every event", "httpapi.TestFiftyTabs"},
		{"connection", "cut at every event, and resumed", "no event is missing or comes twice", "httpapi.TestEveryCutOfWebSocketEvents"},
		{"connection", "cut at every upsert, and resumed", "every item ends as in the log", "httpapi.TestEveryCutOfWebSocketUpserts"},
		{"`session:send`", "twice with the same `idempotencyKey`", "one turn; the second answer has `replayed:true`", "httpapi.TestPromptSentAgainMakesOneTurn"},
		{"every message", "the credential lacks the scope", "`error` with `FORBIDDEN`", "httpapi.TestWebSocketVerbsNeedScopes"},
	} {
		tab.rows = append(tab.rows, row{[]string{c.event, c.condition, "both", c.answer}, nil, c.test})
	}
	return tab
}

// namesFamilies reports an error unless the error names both families.
func namesFamilies(t *testing.T, m object) {
	t.Helper()
	message, _ := at(m, "error", "message").(string)
	if m["type"] != "error" || at(m, "error", "type") != "INVALID_REQUEST" || !strings.Contains(message, families[0]) || !strings.Contains(message, families[1]) {
		t.Errorf("got %v", m)
	}
	equal(t, "protocols", at(m, "error", "details", "protocols"), families)
}

var helloRows = []socketRow{
	{"`session:hello`", "`streamProtocol` is `upsert-v1`", "`session:hello:ack` with `selectedFamily` and `protocols`", func(t *testing.T, s *server, _ *socket, _ string) { s.hello(t, "upsert-v1") }},
	{"`session:hello`", "`streamProtocol` is `events-v1`", "`session:hello:ack` with `selectedFamily` and `protocols`", func(t *testing.T, s *server, _ *socket, _ string) { s.hello(t, "events-v1") }},
	{"`session:hello`", "no `streamProtocol`", "`session:hello:ack` with the default, `upsert-v1`", func(t *testing.T, _ *server, k *socket, _ string) {
		k.write(t, object{"type": "session:hello"})
		equal(t, "answer", k.read(t), object{"type": "session:hello:ack", "selectedFamily": "upsert-v1", "protocols": families})
	}},
	{"no hello", "the first message is another one", "the connection speaks the default, `upsert-v1`", func(t *testing.T, s *server, k *socket, _ string) {
		session := s.session(t, nil)
		k.subscribe(t, session, nil)
		all := k.turn(t, s.send(t, session, "text"))
		if len(ofType(all, "session:upsert")) == 0 || len(ofType(all, "session:event")) > 0 {
			t.Errorf("got %v", all)
		}
	}},
	{"`session:hello`", "the family is `legacy`, which is retired", "`error` that names the two families, then closed with 4400", refusedFamily("legacy")},
	{"`session:hello`", "the family is unknown", "`error` that names the two families, then closed with 4400", refusedFamily("upsert-v2")},
	{"`session:hello`", "the family is written in capitals", "`error` that names the two families, then closed with 4400", refusedFamily("UPSERT-V1")},
	{"`session:hello`", "after another message", "`error` with `INVALID_REQUEST`; the connection goes on in the default family", func(t *testing.T, _ *server, k *socket, _ string) {
		k.result(t, object{"type": "sessions:subscribe"})
		k.refused(t, object{"type": "session:hello", "streamProtocol": "events-v1"}, "INVALID_REQUEST")
		k.result(t, object{"type": "sessions:subscribe"})
	}},
	{"`session:hello`", "`append` is true", "`session:hello:ack` with `append`; growing items come as `session:append`", func(t *testing.T, s *server, k *socket, _ string) {
		k.write(t, object{"type": "session:hello", "append": true})
		equal(t, "answer", k.read(t), object{"type": "session:hello:ack", "selectedFamily": "upsert-v1", "protocols": families, "append": true})
		session := s.session(t, nil)
		k.subscribe(t, session, nil)
		all := k.turn(t, s.send(t, session, script(object{"text": "word ", "repeat": 400, "rate": 2000})))
		appendsAddUp(t, all)
	}},
	{"`session:hello`", "`append` is true and the family is `events-v1`", "`error` with `INVALID_REQUEST`; the family is not chosen yet", func(t *testing.T, _ *server, k *socket, _ string) {
		k.refused(t, object{"type": "session:hello", "streamProtocol": "events-v1", "append": true}, "INVALID_REQUEST")
		k.write(t, object{"type": "session:hello", "streamProtocol": "upsert-v1"})
		equal(t, "answer", k.read(t), object{"type": "session:hello:ack", "selectedFamily": "upsert-v1", "protocols": families})
	}},
	{"no hello", "the server has the setting `stream-family`", "the connection speaks that family", func(t *testing.T, _ *server, _ *socket, _ string) {
		var s server
		s.Args = []string{"--stream-family=events-v1"}
		s.start(t)
		k, session := s.dial(t), s.session(t, nil)
		k.subscribe(t, session, nil)
		if all := k.turn(t, s.send(t, session, "text")); len(ofType(all, "session:event")) == 0 {
			t.Errorf("got %v", all)
		}
	}},
	{"connection", "the client offers the subprotocol `runnel.v1`", "the server selects it", func(t *testing.T, _ *server, k *socket, _ string) {
		equal(t, "subprotocol", k.conn.Subprotocol(), "runnel.v1")
	}},
}

// appendsAddUp checks each session:append against the item that it continues.
// Its offset must be the length of the item so far, in bytes. The server must
// send the whole item again before the appends have doubled its length.
func appendsAddUp(t *testing.T, all []object) {
	t.Helper()
	content, whole, appends := make(map[any]string), make(map[any]int), 0
	for _, m := range all {
		p, _ := m["payload"].(object)
		switch id := p["itemId"]; m["type"] {
		case "session:upsert":
			now, _ := at(p, "message", "content").(string)
			if !strings.HasPrefix(now, content[id]) {
				t.Errorf("%v is %q after %q", id, now, content[id])
			}
			content[id], whole[id] = now, len(now)
		case "session:append":
			appends++
			text, _ := p["text"].(string)
			equal(t, "offset", p["offset"], float64(len(content[id])))
			if content[id] += text; len(content[id]) >= 2*whole[id] {
				t.Errorf("%d bytes of %v came as appends after %d bytes as a whole", len(content[id])-whole[id], id, whole[id])
			}
			equal(t, "fields", slices.Sorted(maps.Keys(p)), []string{"itemId", "offset", "seq", "text"})
		}
	}
	if appends == 0 {
		t.Error("nothing was appended")
	}
}

func refusedFamily(family string) func(*testing.T, *server, *socket, string) {
	return func(t *testing.T, _ *server, k *socket, _ string) {
		m := k.ask(t, object{"type": "session:hello", "streamProtocol": family})
		namesFamilies(t, m)
		if !strings.Contains(at(m, "error", "message").(string), `"`+family+`"`) {
			t.Errorf("the error does not have the value: %v", m)
		}
		equal(t, "code", k.closed(t), websocket.StatusCode(4400))
	}
}

var subscribeRows = []socketRow{
	{"`session:hello`", "a second time", "`error` with `INVALID_REQUEST`; the family stays", func(t *testing.T, _ *server, k *socket, family string) {
		k.refused(t, object{"type": "session:hello", "streamProtocol": family}, "INVALID_REQUEST")
		k.result(t, object{"type": "sessions:subscribe"})
	}},
	{"`session:subscribe`", "a session with a turn", "`session:history {sessionId, entries, seq, resume, done}`, whose first has `resume` and whose last has `done`", func(t *testing.T, s *server, k *socket, _ string) {
		session, head := finished(t, s)
		all := historyOf(k.subscribe(t, session, nil))
		first, last := all[0], all[len(all)-1]
		equal(t, "sessionId", first["sessionId"], session)
		equal(t, "resume", at(first, "resume", "status"), "ok")
		equal(t, "seq", last["seq"], head)
		if len(first["entries"].([]any)) == 0 {
			t.Error("no entries")
		}
	}},
	{"`session:subscribe`", "a session without events", "`session:history` without entries", func(t *testing.T, s *server, k *socket, _ string) {
		equal(t, "history", at(historyOf(k.subscribe(t, s.session(t, nil), nil))[0], "entries"), []any{})
	}},
	{"`session:subscribe`", "any session", "`session:status`, once at first", func(t *testing.T, s *server, k *socket, _ string) {
		session := s.session(t, nil)
		k.write(t, object{"type": "session:subscribe", "sessionId": session})
		m := k.await(t, "session:status")
		equal(t, "sessionId", at(m, "payload", "sessionId"), session)
		equal(t, "state", at(m, "payload", "state"), "open")
	}},
	{"`session:subscribe`", "`after` is a position in the log", "the history begins after it", func(t *testing.T, s *server, k *socket, _ string) {
		session, head := finished(t, s)
		for _, m := range historyOf(k.subscribe(t, session, head-1)) {
			for _, e := range m["entries"].([]any) {
				seq := e.(object)["seq"]
				if seq == nil {
					seq = at(e, "payload", "seq")
				}
				equal(t, "seq", seq, head)
			}
		}
	}},
	{"`session:subscribe`", "`after` is the end of the log", "no entries; what follows is live", func(t *testing.T, s *server, k *socket, _ string) {
		session, head := finished(t, s)
		equal(t, "entries", at(historyOf(k.subscribe(t, session, head))[0], "entries"), []any{})
		k.turn(t, s.send(t, session, "text"))
	}},
	{"`session:subscribe`", "`after` is beyond the end of the log", "`resume` is `reset` with a reason, and everything follows", func(t *testing.T, s *server, k *socket, _ string) {
		session, head := finished(t, s)
		all := historyOf(k.subscribe(t, session, head+100))
		equal(t, "resume", at(all[0], "resume", "status"), "reset")
		if at(all[0], "resume", "reason") == nil || len(all[0]["entries"].([]any)) == 0 {
			t.Errorf("got %v", all[0])
		}
	}},
	{"`session:subscribe`", "`logId` is that of another log", "`resume` is `reset` with a reason, and everything follows", func(t *testing.T, s *server, k *socket, _ string) {
		session, head := finished(t, s)
		k.write(t, object{"type": "session:subscribe", "sessionId": session, "after": head, "logId": "another"})
		equal(t, "resume", at(k.await(t, "session:history"), "resume", "status"), "reset")
	}},
	{"`session:subscribe`", "`after` is negative", "`error` with `INVALID_REQUEST`", func(t *testing.T, s *server, k *socket, _ string) {
		k.refused(t, object{"type": "session:subscribe", "sessionId": s.session(t, nil), "after": -1}, "INVALID_REQUEST")
	}},
	{"`session:subscribe`", "the session does not exist", "`error` with `SESSION_NOT_FOUND`", func(t *testing.T, _ *server, k *socket, _ string) {
		k.refused(t, object{"type": "session:subscribe", "sessionId": nobody}, "SESSION_NOT_FOUND")
	}},
	{"`session:subscribe`", "a second time to the same session", "the history once more, and every live event once", func(t *testing.T, s *server, k *socket, _ string) {
		session, _ := finished(t, s)
		k.subscribe(t, session, nil)
		k.subscribe(t, session, nil)
		begins := 0
		turn := s.send(t, session, "text")
		for _, m := range k.turn(t, turn) {
			if p := at(m, "payload"); m["type"] == "session:turn" && at(p, "type") == "turn_started" || at(p, "type") == "response_start" {
				begins++
			}
		}
		equal(t, "begins of the turn", begins, 1)
	}},
	{"`session:subscribe`", "`limit`, and the history is longer", "in `upsert-v1` the newest entries and `first`, and the pages before `first` have all others once; in `events-v1` an `error` with `INVALID_REQUEST`", func(t *testing.T, s *server, k *socket, family string) {
		session, head := finished(t, s)
		if family == "events-v1" {
			k.refused(t, object{"type": "session:subscribe", "sessionId": session, "limit": 2}, "INVALID_REQUEST")
			return
		}
		whole := historyOf(k.subscribe(t, session, nil))
		k.write(t, object{"type": "session:subscribe", "sessionId": session, "limit": 2})
		newest := historyOf(k.until(t, func(m object) bool { return m["type"] == "session:history" && m["done"] == true }))
		equal(t, "position", newest[len(newest)-1]["seq"], head)
		var got []any
		for before := newest[0]["first"]; before != nil; {
			page := k.result(t, object{"type": "session:items", "sessionId": session, "before": before, "limit": 2})
			got = append(page["items"].([]any), got...)
			if before = page["first"]; page["more"] == false {
				break
			}
		}
		for _, m := range newest {
			got = append(got, m["entries"].([]any)...)
		}
		equal(t, "entries", len(got), len(whole[0]["entries"].([]any)))
	}},
	{"`session:subscribe`", "`limit` is zero", "`error` with `INVALID_REQUEST`", func(t *testing.T, s *server, k *socket, _ string) {
		k.refused(t, object{"type": "session:subscribe", "sessionId": s.session(t, nil), "limit": 0}, "INVALID_REQUEST")
	}},
	{"`session:items`", "`before` and `limit`", "`response` with the page that ends before that position", func(t *testing.T, s *server, k *socket, _ string) {
		session, head := finished(t, s)
		page := k.result(t, object{"type": "session:items", "sessionId": session, "before": head, "limit": 1})
		equal(t, "seq", page["seq"], head-1)
		equal(t, "items", len(page["items"].([]any)), 1)
		equal(t, "more", page["more"], true)
	}},
	{"`session:items`", "the session does not exist", "`error` with `SESSION_NOT_FOUND`", unknownSession("session:items", nil)},
	{"`session:unsubscribe`", "subscribed", "`response` with an empty result, and nothing more about the session", func(t *testing.T, s *server, k *socket, _ string) {
		session, other := s.session(t, nil), s.session(t, nil)
		k.subscribe(t, session, nil)
		k.subscribe(t, other, nil)
		equal(t, "result", k.result(t, object{"type": "session:unsubscribe", "sessionId": session}), object{})
		s.turn(t, session, s.send(t, session, "text"))
		for _, m := range k.turn(t, s.send(t, other, "text")) {
			if m["sessionId"] == session {
				t.Errorf("got %v", m)
			}
		}
	}},
	{"`session:unsubscribe`", "there is no subscription, or no such session", "`response` with an empty result", func(t *testing.T, _ *server, k *socket, _ string) {
		equal(t, "result", k.result(t, object{"type": "session:unsubscribe", "sessionId": nobody}), object{})
	}},
	{"`sessions:subscribe`", "any", "`response`, then `session:status` of every session, and whenever one changes", func(t *testing.T, s *server, k *socket, _ string) {
		session := s.session(t, nil)
		equal(t, "result", k.result(t, object{"type": "sessions:subscribe"}), object{})
		k.until(t, func(m object) bool { return m["type"] == "session:status" && m["sessionId"] == session })
		s.send(t, session, "hang")
		k.until(t, func(m object) bool {
			return m["type"] == "session:status" && m["sessionId"] == session && at(m, "payload", "activity") == "working"
		})
		s.post(t, "/api/session/"+session+"/kill", object{}).ok(t, 200)
	}},
	{"`conversations:subscribe`", "any", "`response`, then `conversations:changed` whenever an agent has stored something", func(t *testing.T, s *server, k *socket, _ string) {
		equal(t, "result", k.result(t, object{"type": "conversations:subscribe"}), object{})
		id := uuid.NewString()
		s.stored(t, id)
		k.until(t, func(m object) bool { return m["type"] == "conversations:changed" })
		s.get(t, "/api/conversations?cliType=claude-code").ok(t, 200)
	}},
}

// stored writes a conversation with Claude Code as the agent stores it.
func (s *server) stored(t *testing.T, id string) {
	t.Helper()
	dir := filepath.Join(s.Home, ".claude", "projects", "-p")
	line := `{"type":"user","uuid":"f34b2631-3856-48bf-a01f-bc8217ab38de","sessionId":"` + id + `","cwd":"/p","timestamp":"2026-01-02T03:04:05.000Z","message":{"role":"user","content":"hi"}}` + "\n"
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, id+".jsonl"), []byte(line), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// finished returns a session whose only turn has ended, and the last position
// of its log.
func finished(t *testing.T, s *server) (session string, head float64) {
	t.Helper()
	session = s.session(t, nil)
	_, events := s.play(t, session, object{"text": "one two three"}, object{"tool": object{"name": "Bash", "output": "ok"}})
	return session, events[len(events)-1].data["seq"].(float64)
}

func historyOf(messages []object) []object {
	var found []object
	for _, m := range messages {
		if m["type"] == "session:history" {
			found = append(found, m)
		}
	}
	return found
}

// unknownSession returns a check that a message about an unknown session is
// rejected.
func unknownSession(verb string, fields object) func(*testing.T, *server, *socket, string) {
	return func(t *testing.T, _ *server, k *socket, _ string) {
		m := object{"type": verb, "sessionId": nobody}
		for name, v := range fields {
			m[name] = v
		}
		k.refused(t, m, "SESSION_NOT_FOUND")
	}
}

var verbRows = []socketRow{
	{"`session:send`", "the session is idle", "`response` with `turnId`; the turn runs", func(t *testing.T, s *server, k *socket, _ string) {
		session := s.session(t, nil)
		k.subscribe(t, session, nil)
		turn, _ := k.result(t, object{"type": "session:send", "sessionId": session, "content": "text"})["turnId"].(string)
		s.turn(t, session, turn)
	}},
	{"`session:send`", "a turn runs", "`error` with `TURN_IN_PROGRESS`, and the ids of the session and the turn", func(t *testing.T, s *server, k *socket, _ string) {
		session := s.session(t, nil)
		turn := s.send(t, session, "hang")
		e := k.refused(t, object{"type": "session:send", "sessionId": session, "content": "text"}, "TURN_IN_PROGRESS")
		equal(t, "details", e["details"], object{"sessionId": session, "turnId": turn})
		k.result(t, object{"type": "session:kill", "sessionId": session})
	}},
	{"`session:send`", "a turn runs and `queue` is true", "`response` with a `turnId` of its own; the prompt waits", func(t *testing.T, s *server, k *socket, _ string) {
		session := s.session(t, nil)
		first := s.send(t, session, "hang")
		turn := k.result(t, object{"type": "session:send", "sessionId": session, "content": "text", "queue": true})["turnId"].(string)
		if turn == first || turn == "" {
			t.Errorf("turnId %q", turn)
		}
		k.result(t, object{"type": "session:cancel", "sessionId": session, "continueQueue": true})
		s.turn(t, session, turn)
	}},
	{"`session:send`", "`content` is empty and there are no attachments", "`error` with `INVALID_REQUEST`", func(t *testing.T, s *server, k *socket, _ string) {
		k.refused(t, object{"type": "session:send", "sessionId": s.session(t, nil), "content": ""}, "INVALID_REQUEST")
	}},
	{"`session:send`", "the session does not exist", "`error` with `SESSION_NOT_FOUND`", unknownSession("session:send", object{"content": "text"})},
	{"`session:cancel`", "a turn runs", "`response` with an empty result; the turn ends as cancelled", func(t *testing.T, s *server, k *socket, _ string) {
		session := s.session(t, nil)
		turn := s.send(t, session, "hang")
		equal(t, "result", k.result(t, object{"type": "session:cancel", "sessionId": session}), object{})
		got := s.turn(t, session, turn)
		equal(t, "status", got[len(got)-1].payload()["status"], "cancelled")
	}},
	{"`session:cancel`", "no turn runs", "`response` with an empty result", func(t *testing.T, s *server, k *socket, _ string) {
		equal(t, "result", k.result(t, object{"type": "session:cancel", "sessionId": s.session(t, nil)}), object{})
	}},
	{"`session:cancel`", "the session does not exist", "`error` with `SESSION_NOT_FOUND`", unknownSession("session:cancel", nil)},
	{"`session:cancel`", "prompts are queued", "`response` with an empty result; the queue is held until `session:queue:hold` continues it", func(t *testing.T, s *server, k *socket, _ string) {
		session, turns := waiting(t, s, "text one", "text two")
		k.result(t, object{"type": "session:cancel", "sessionId": session})
		equal(t, "queue", inQueue(k.result(t, object{"type": "session:queue", "sessionId": session})), "held: text one, text two")
		equal(t, "queue", inQueue(k.result(t, object{"type": "session:queue:hold", "sessionId": session, "held": false})), "text one, text two")
		s.turn(t, session, turns[1])
	}},
	{"`session:queue:edit`", "the prompt is queued", "`response` with the changed queue", func(t *testing.T, s *server, k *socket, _ string) {
		session, turns := waiting(t, s, "one", "two")
		m := object{"type": "session:queue:edit", "sessionId": session, "turnId": turns[1], "content": "2", "before": turns[0]}
		equal(t, "queue", inQueue(k.result(t, m)), "2, one")
	}},
	{"`session:queue:edit`", "the prompt's turn has started", "`error` with `PROMPT_GONE`, and `started` in its details", func(t *testing.T, s *server, k *socket, _ string) {
		session, turn := s.running(t)
		e := k.refused(t, object{"type": "session:queue:edit", "sessionId": session, "turnId": turn, "content": "2"}, "PROMPT_GONE")
		equal(t, "details", e["details"], object{"sessionId": session, "turnId": turn, "started": true})
	}},
	{"`session:queue:remove`", "the prompt is queued", "`response` with the queue that is left", func(t *testing.T, s *server, k *socket, _ string) {
		session, turns := waiting(t, s, "one", "two")
		equal(t, "queue", inQueue(k.result(t, object{"type": "session:queue:remove", "sessionId": session, "turnId": turns[0]})), "two")
	}},
	{"`session:queue`", "the session does not exist", "`error` with `SESSION_NOT_FOUND`", unknownSession("session:queue", nil)},
	{"`session:queue:hold`", "the session does not exist", "`error` with `SESSION_NOT_FOUND`", unknownSession("session:queue:hold", object{"held": true})},
	{"`session:decide`", "the approval waits", "`response`; the approval is resolved by the user", func(t *testing.T, s *server, k *socket, _ string) {
		session, approval, digest := asked(t, s)
		k.result(t, object{"type": "session:decide", "sessionId": session, "approvalId": approval, "choice": "allow", "argumentsDigest": digest})
		got := s.events(t, session, frame.ends)
		equal(t, "by", got.find("approval_resolved").payload()["by"], "user")
	}},
	{"`session:decide`", "the approval was answered before", "`error` with `APPROVAL_GONE`", func(t *testing.T, s *server, k *socket, _ string) {
		session, approval, digest := asked(t, s)
		m := object{"type": "session:decide", "sessionId": session, "approvalId": approval, "choice": "allow", "argumentsDigest": digest}
		k.result(t, m)
		k.refused(t, m, "APPROVAL_GONE")
	}},
	{"`session:decide`", "the choice is not offered", "`error` with `INVALID_REQUEST`; the approval still waits", func(t *testing.T, s *server, k *socket, _ string) {
		session, approval, digest := asked(t, s)
		m := object{"type": "session:decide", "sessionId": session, "approvalId": approval, "choice": "perhaps", "argumentsDigest": digest}
		k.refused(t, m, "INVALID_REQUEST")
		m["choice"] = "deny"
		k.result(t, m)
	}},
	{"`session:decide`", "the session does not exist", "`error` with `SESSION_NOT_FOUND`", unknownSession("session:decide", object{"approvalId": "a", "choice": "allow"})},
	{"`session:options`", "an option that the agent can change", "`response` with what was resolved", func(t *testing.T, s *server, k *socket, _ string) {
		got := k.result(t, object{"type": "session:options", "sessionId": s.session(t, nil), "permissionMode": "acceptEdits"})
		equal(t, "permissionMode", at(got, "resolved", "permissionMode", "value"), "acceptEdits")
	}},
	{"`session:options`", "an invalid value", "`error` with `INVALID_REQUEST`", func(t *testing.T, s *server, k *socket, _ string) {
		k.refused(t, object{"type": "session:options", "sessionId": s.session(t, nil), "permissionMode": "yolo"}, "INVALID_REQUEST")
	}},
	{"`session:options`", "the session does not exist", "`error` with `SESSION_NOT_FOUND`", unknownSession("session:options", object{"permissionMode": "default"})},
	{"`session:kill`", "the session is open", "`response` with an empty result; the session is dead", func(t *testing.T, s *server, k *socket, _ string) {
		session := s.session(t, nil)
		equal(t, "result", k.result(t, object{"type": "session:kill", "sessionId": session}), object{})
		k.refused(t, object{"type": "session:send", "sessionId": session, "content": "text"}, "SESSION_DEAD")
	}},
	{"`session:kill`", "the session does not exist", "`error` with `SESSION_NOT_FOUND`", unknownSession("session:kill", nil)},
}

// asked returns a session with an approval that waits.
func asked(t *testing.T, s *server) (session, approval string, digest any) {
	t.Helper()
	session = s.session(t, nil)
	s.send(t, session, "approve")
	f := s.events(t, session, func(f frame) bool { return f.event == "approval_requested" }).find("approval_requested")
	a := f.payload()["approval"].(object)
	return session, a["id"].(string), a["argumentsDigest"]
}

var refusalRows = []socketRow{
	{"a message without `requestId`", "it succeeds", "no answer", func(t *testing.T, _ *server, k *socket, _ string) {
		k.write(t, object{"type": "session:unsubscribe", "sessionId": nobody})
		k.write(t, object{"type": "session:unsubscribe", "sessionId": nobody, "requestId": "r1"})
		m := k.await(t, "response")
		equal(t, "requestId of the first answer", m["requestId"], "r1")
	}},
	{"a message without `requestId`", "it fails", "`error` without `requestId`", func(t *testing.T, _ *server, k *socket, _ string) {
		k.write(t, object{"type": "session:cancel", "sessionId": nobody})
		m := k.await(t, "error")
		equal(t, "error", at(m, "error", "type"), "SESSION_NOT_FOUND")
		equal(t, "requestId", m["requestId"], nil)
	}},
	{"an unknown message", "any", "`error` with `INVALID_REQUEST`; the connection stays open", func(t *testing.T, _ *server, k *socket, _ string) {
		k.refused(t, object{"type": "session:dance"}, "INVALID_REQUEST")
		k.result(t, object{"type": "sessions:subscribe"})
	}},
	{"a message with an unknown field", "any", "`error` with `INVALID_REQUEST`; the connection stays open", func(t *testing.T, _ *server, k *socket, _ string) {
		k.refused(t, object{"type": "session:cancel", "sessionId": nobody, "force": true}, "INVALID_REQUEST")
		k.result(t, object{"type": "sessions:subscribe"})
	}},
	{"text that is not JSON", "any", "`error` with `INVALID_REQUEST`, then closed with 4400", func(t *testing.T, _ *server, k *socket, _ string) {
		k.write(t, "{")
		equal(t, "error", at(k.await(t, "error"), "error", "type"), "INVALID_REQUEST")
		equal(t, "code", k.closed(t), websocket.StatusCode(4400))
	}},
	{"a binary frame", "any", "closed with 4400", func(t *testing.T, _ *server, k *socket, _ string) {
		if err := k.conn.Write(t.Context(), websocket.MessageBinary, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		equal(t, "code", k.closed(t), websocket.StatusCode(4400))
	}},
	{"a message of more than 1 MiB", "any", "closed with 4413", func(t *testing.T, _ *server, k *socket, _ string) {
		k.write(t, object{"type": strings.Repeat("x", 1<<20)})
		equal(t, "code", k.closed(t), websocket.StatusCode(4413))
	}},
	{"close", "any", "the server answers the close", func(t *testing.T, _ *server, k *socket, _ string) {
		if err := k.conn.Close(websocket.StatusNormalClosure, ""); err != nil {
			t.Error(err)
		}
	}},
}

// familyRows are about the server's messages in one family. The text of each
// answer begins with the family.
var familyRows = []socketRow{
	{"live events", "a turn", "upsert-v1: `session:upsert` with `payload` a whole item, and `session:turn`; no `session:event`", func(t *testing.T, s *server, _ *socket, _ string) {
		all := liveTurn(t, s, "upsert-v1", object{"text": "one"})
		if len(ofType(all, "session:upsert")) == 0 || len(ofType(all, "session:turn")) != 2 || len(ofType(all, "session:event")) > 0 {
			t.Errorf("got %v", all)
		}
	}},
	{"live events", "a turn", "events-v1: `session:event` with `payload` a canonical event; no `session:upsert` and no `session:turn`", func(t *testing.T, s *server, _ *socket, _ string) {
		all := liveTurn(t, s, "events-v1", object{"text": "one"})
		if len(ofType(all, "session:event")) == 0 || len(ofType(all, "session:turn"))+len(ofType(all, "session:upsert")) > 0 {
			t.Errorf("got %v", all)
		}
	}},
	{"live events", "a notice and usage", "upsert-v1: `session:notice` and `session:usage`", func(t *testing.T, s *server, _ *socket, _ string) {
		all := liveTurn(t, s, "upsert-v1", object{"notice": object{"level": "info", "code": "A", "message": "m"}}, object{"usage": object{"contextTokens": 1}})
		if len(ofType(all, "session:notice")) != 1 || len(ofType(all, "session:usage")) != 1 {
			t.Errorf("got %v", all)
		}
	}},
	{"live events", "an approval that the agent withdraws", "upsert-v1: `session:approval` with the status `pending`, then `resolved`", func(t *testing.T, s *server, _ *socket, _ string) {
		var status []any
		for _, p := range ofType(liveTurn(t, s, "upsert-v1", object{"tool": object{"name": "Bash", "ask": object{"withdraw": true}}}), "session:approval") {
			status = append(status, p["status"])
		}
		equal(t, "status", fmt.Sprint(status), "[pending resolved]")
	}},
}

// liveTurn plays steps in a new session and returns what a subscriber receives
// live.
func liveTurn(t *testing.T, s *server, family string, steps ...object) []object {
	t.Helper()
	session, k := s.session(t, nil), s.hello(t, family)
	k.subscribe(t, session, nil)
	return k.turn(t, s.send(t, session, script(steps...)))
}
