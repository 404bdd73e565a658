//go:build unix

package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

var _ = register(35, upserts)

// A shown holds what a client of the family upsert-v1 received live, in turns
// that together contain every kind of upsert.
type shown struct {
	upserts, turns []object
	byTurn         map[string][]object // upserts and turn events by the name of the turn
}

// upserts returns the table of upserts and turn events.
func upserts() table {
	var c shown
	tab := table{
		name: "upserts", title: "Upserts", file: "upserts_test.go",
		intro: "Every field of an upsert and of a turn event as a client of the family `upsert-v1` reads it from the built server, and every rule of how items are folded.",
		head:  []string{"object", "field or rule", "JSON type", "when"},
		setup: c.read,
	}
	for _, f := range upsertFields {
		tab.rows = append(tab.rows, row{[]string{f.object, "`" + f.path + "`", f.kind, f.when}, func(t *testing.T) {
			hasField(t, c.of(t, f.object), f.path, f.kind, f.when == always)
		}, ""})
	}
	for _, v := range []struct{ object, path, value, when string }{
		{"upsert", "status", "create", "the client reads the item for the first time"},
		{"upsert", "status", "update", "the item grew or its arguments are final"},
		{"upsert", "status", "complete", "the item is done"},
		{"upsert", "status", "error", "the item failed or was interrupted"},
		{"turn_complete", "status", "completed", "the turn ended"},
		{"turn_complete", "status", "cancelled", "the turn was cancelled"},
	} {
		tab.rows = append(tab.rows, row{[]string{v.object, "`" + v.path + "` is `" + v.value + "`", "string", v.when}, func(t *testing.T) {
			hasValue(t, c.of(t, v.object), v.path, v.value)
		}, ""})
	}
	for _, r := range foldRules {
		tab.rows = append(tab.rows, row{[]string{r.object, r.rule, "–", r.when}, func(t *testing.T) { r.check(t, &c) }, ""})
	}
	return tab
}

// read plays the turns and fills c.
func (c *shown) read(t *testing.T) {
	t.Helper()
	*c = shown{byTurn: make(map[string][]object)}
	var s nativeServer
	s.start(t)
	k := s.hello(t, "upsert-v1")
	c.follow(t, &s.server, k, "rich", s.server.session(t, nil), script(everyStep()...))
	c.follow(t, &s.server, k, "failed", s.server.session(t, nil), script(object{"text": "one"}, object{"fail": object{"code": "RATE_LIMITED", "message": "wait"}}))
	c.follow(t, &s.server, k, "long", s.server.session(t, nil), script(object{"text": "word ", "repeat": 400, "rate": 2000}))
	c.follow(t, &s.server, k, "cancelled", s.server.session(t, nil), script(object{"text": "one two", "rate": 0.01}, object{"tool": object{"name": "Bash"}}))
	c.follow(t, &s.server, k, "unanswered", s.session, native{Lines: []string{nativeInit, toolUse("u1", "Bash", "c"), nativeResult}}.prompt())
	c.follow(t, &s.server, k, "begun", s.nativeSession(t), native{Lines: []string{nativeInit, messageStart("b1"), textStart("half a")}, Stopped: []string{nativeStop}}.prompt())
	c.follow(t, &s.server, k, "crashed", s.nativeSession(t), native{Lines: []string{nativeInit, messageStart("c1"), textStart("half a"), textDelta(" sentence")}, Exit: true}.prompt())
}

// follow plays a turn and records what the client receives. It answers
// approvals, and cancels the turns named begun and cancelled.
func (c *shown) follow(t *testing.T, s *server, k *socket, name, session, prompt string) {
	t.Helper()
	k.subscribe(t, session, nil)
	turn := s.send(t, session, prompt)
	all := k.until(t, func(m object) bool {
		p, _ := m["payload"].(object)
		a, _ := p["approval"].(object)
		switch {
		case m["type"] == "session:approval" && p["status"] == "pending" && a["title"] != "withdrawn":
			s.post(t, fmt.Sprintf("/api/session/%s/approvals/%s", session, a["id"]), object{"choice": "allow", "argumentsDigest": a["argumentsDigest"]}).ok(t, http.StatusOK)
		case m["type"] == "session:upsert" && at(p, "message", "origin") == "agent" && name == "begun":
			s.post(t, "/api/session/"+session+"/cancel", object{}).ok(t, http.StatusOK)
		case m["type"] == "session:turn" && p["type"] == "turn_started" && name == "cancelled":
			s.events(t, session, func(f frame) bool { return strings.HasSuffix(fmt.Sprint(f.payload()["itemId"]), ":1:0") })
			s.post(t, "/api/session/"+session+"/cancel", object{}).ok(t, http.StatusOK)
		}
		return m["type"] == "session:turn" && p["turnId"] == turn && p["type"] != "turn_started"
	})
	c.upserts = append(c.upserts, ofType(all, "session:upsert")...)
	c.turns = append(c.turns, ofType(all, "session:turn")...)
	for _, m := range all {
		if m["type"] == "session:upsert" || m["type"] == "session:turn" {
			c.byTurn[name] = append(c.byTurn[name], m["payload"].(object))
		}
	}
}

// of returns recorded objects by name: every upsert, the upserts of one type,
// or the turn events of one type.
func (c *shown) of(t *testing.T, name string) []object {
	t.Helper()
	var found []object
	for _, o := range append(append([]object{}, c.upserts...), c.turns...) {
		isTurn := strings.HasPrefix(o["type"].(string), "turn_")
		if name == "upsert" && !isTurn || name == "turn event" && isTurn || o["type"] == name {
			found = append(found, o)
		}
	}
	if len(found) == 0 {
		t.Fatalf("no %s was read", name)
	}
	return found
}

// item returns the upserts of the agent's first item of a type in a turn.
func (c *shown) item(t *testing.T, turn, typ string) []object {
	t.Helper()
	var found []object
	for _, o := range c.byTurn[turn] {
		if o["type"] == typ && at(o, "message", "origin") != "user" && (len(found) == 0 || found[0]["itemId"] == o["itemId"]) {
			found = append(found, o)
		}
	}
	if len(found) == 0 {
		t.Fatalf("no %s in the turn %s", typ, turn)
	}
	return found
}

var upsertFields = []struct{ object, path, kind, when string }{
	{"upsert", "type", "string", always},
	{"upsert", "turnId", "string", always},
	{"upsert", "sessionId", "string", always},
	{"upsert", "itemId", "string", always},
	{"upsert", "startedAt", "string", always},
	{"upsert", "sourceTimestamp", "string", always},
	{"upsert", "emittedAt", "string", always},
	{"upsert", "status", "string", always},
	{"upsert", "seq", "number", always},
	{"upsert", "errorCode", "string", "the status is `error`"},
	{"upsert", "errorMessage", "string", "the status is `error`"},
	{"message", "message.content", "string", always},
	{"message", "message.origin", "string", always},
	{"thinking", "thinking.content", "string", always},
	{"thinking", "thinking.providerId", "string", always},
	{"tool_call", "tool_call.toolName", "string", always},
	{"tool_call", "tool_call.callId", "string", always},
	{"tool_call", "tool_call.toolArguments", "object", "the arguments are final"},
	{"tool_call", "tool_call.toolOutput", "string", "the call has output"},
	{"tool_call", "tool_call.toolOutputIsError", "boolean", "the output is final"},
	{"tool_call", "tool_call.kind", "string", "the kind of the tool is known"},
	{"tool_call", "tool_call.changes", "array", "the call changed files"},
	{"tool_call", "tool_call.exitCode", "number", "a command that ended"},
	{"message", "parentCallId", "string", "the work of a subagent"},
	{"plan", "plan.entries", "array", always},
	{"turn event", "turnId", "string", always},
	{"turn event", "sessionId", "string", always},
	{"turn event", "seq", "number", always},
	{"turn_started", "modelId", "string", always},
	{"turn_started", "providerId", "string", always},
	{"turn_complete", "status", "string", always},
	{"turn_complete", "usage", "object", "the agent reports it"},
	{"turn_error", "errorCode", "string", always},
	{"turn_error", "errorMessage", "string", always},
}

var foldRules = []struct {
	object, rule, when string
	check              func(t *testing.T, c *shown)
}{
	{"upsert", "has exactly one of `message`, `thinking`, `tool_call` and `plan`, and `type` names it", always, func(t *testing.T, c *shown) {
		for _, u := range c.upserts {
			n := 0
			for _, kind := range []string{"message", "thinking", "tool_call", "plan"} {
				if u[kind] != nil {
					n++
				}
			}
			if typ, _ := u["type"].(string); n != 1 || u[typ] == nil {
				t.Errorf("got %v", u)
			}
		}
	}},
	{"upsert", "the first one of an item is a `create` or its end, and nothing follows its end", always, func(t *testing.T, c *shown) {
		ended := make(map[any]any)
		for _, u := range c.upserts {
			before, known := ended[u["itemId"]]
			if known == (u["status"] == "create") && u["status"] != "complete" && u["status"] != "error" || before == "complete" || before == "error" {
				t.Errorf("%v after %v", u, before)
			}
			ended[u["itemId"]] = u["status"]
		}
	}},
	{"message", "every upsert has the whole content: it begins with that of the one before", "while the text grows", func(t *testing.T, c *shown) {
		before := ""
		all := c.item(t, "long", "message")
		for _, u := range all {
			text := at(u, "message", "content").(string)
			if !strings.HasPrefix(text, before) {
				t.Errorf("%q does not begin with %q", text, before)
			}
			before = text
		}
		equal(t, "last content", before, strings.Repeat("word ", 400))
		equal(t, "last status", all[len(all)-1]["status"], "complete")
		equal(t, "first status", all[0]["status"], "create")
	}},
	{"message", "the gradient sends far fewer upserts than there are deltas", "while the text grows", func(t *testing.T, c *shown) {
		if n := len(c.item(t, "long", "message")); n > 20 {
			t.Errorf("%d upserts of 400 deltas", n)
		}
	}},
	{"message", "the first upsert is a `create` with the first delta, without a last word that may become a secret", "the text begins", func(t *testing.T, c *shown) {
		first := c.item(t, "begun", "message")[0]
		equal(t, "content", at(first, "message", "content"), "half ")
		equal(t, "status", first["status"], "create")
	}},
	{"upsert", "`seq` grows within an item, and is a position to resume after", always, func(t *testing.T, c *shown) {
		last := make(map[any]float64)
		for _, u := range c.upserts {
			key := fmt.Sprint(u["sessionId"], u["itemId"])
			if seq := u["seq"].(float64); seq < last[key] {
				t.Errorf("seq %v after %v", seq, last[key])
			} else {
				last[key] = seq
			}
		}
	}},
	{"tool_call", "a call and its output are one item: `create`, `update` with the final arguments, `complete` with the output", "a tool runs", func(t *testing.T, c *shown) {
		var status []any
		for _, u := range c.item(t, "rich", "tool_call") {
			status = append(status, u["status"])
		}
		if got := fmt.Sprint(status); got != "[create update complete]" && got != "[update complete]" && got != "[create complete]" && got != "[complete]" {
			t.Errorf("got %s; a client that reads slowly may miss the first ones", got)
		}
	}},
	{"tool_call", "a tool that failed is `complete` with `toolOutputIsError`", "a tool fails", func(t *testing.T, c *shown) {
		for _, u := range c.of(t, "tool_call") {
			if at(u, "tool_call", "toolOutputIsError") == true && u["status"] != "complete" {
				t.Errorf("got %v", u)
			}
		}
		hasValue(t, c.of(t, "tool_call"), "tool_call.toolOutputIsError", true)
	}},
	{"tool_call", "a call that is never answered is an `error`", "the turn ends", func(t *testing.T, c *shown) {
		all := c.item(t, "unanswered", "tool_call")
		equal(t, "status", all[len(all)-1]["status"], "error")
	}},
	{"message", "an item that failed is an `error` with the content so far", "the item fails and the turn goes on", func(t *testing.T, c *shown) {
		hasValue(t, c.of(t, "message"), "message.content", "half a")
		hasValue(t, c.byTurn["rich"], "errorMessage", "cut off")
	}},
	{"message", "an interrupted item is an `error` with the content so far", "the agent's process ends", func(t *testing.T, c *shown) {
		all := c.item(t, "crashed", "message")
		last := all[len(all)-1]
		equal(t, "status and code", []any{last["status"], last["errorCode"]}, []any{"error", "PROCESS_CRASH"})
		equal(t, "content", at(last, "message", "content"), "half a sentence")
	}},
	{"upsert", "nothing more of an open item is sent", "the turn is cancelled", func(t *testing.T, c *shown) {
		for _, o := range c.byTurn["cancelled"] {
			if o["status"] == "error" || o["status"] == "complete" && at(o, "message", "origin") == "agent" {
				t.Errorf("got %v", o)
			}
		}
	}},
	{"turn_error", "a turn that failed is `turn_error`, never `turn_complete`", "the turn fails", func(t *testing.T, c *shown) {
		all := c.byTurn["failed"]
		last := all[len(all)-1]
		equal(t, "end", []any{last["type"], last["errorCode"], last["errorMessage"]}, []any{"turn_error", "RATE_LIMITED", "wait"})
	}},
	{"turn event", "each turn has one `turn_started` and one end", always, func(t *testing.T, c *shown) {
		for name, all := range c.byTurn {
			var types []string
			for _, o := range all {
				if typ := o["type"].(string); strings.HasPrefix(typ, "turn_") {
					types = append(types, typ)
				}
			}
			if len(types) != 2 || types[0] != "turn_started" || types[1] == "turn_started" {
				t.Errorf("%s: %v", name, types)
			}
		}
	}},
}
