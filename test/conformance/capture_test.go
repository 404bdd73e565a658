//go:build unix

package conformance

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// A capture holds the events of scripted turns that together contain every
// event type and every optional field.
type capture struct {
	events frames
	turns  map[string]frames // by the name of the turn
}

// captureEvents plays these turns and fills c.
func (c *capture) captureEvents(t *testing.T) {
	t.Helper()
	c.events, c.turns = nil, make(map[string]frames)
	var s nativeServer
	s.start(t)
	c.rich(t, &s.server)
	c.ends(t, &s.server)
	c.native(t, &s)
	c.impatient(t)
}

func (c *capture) add(name string, all frames, turn string) {
	c.events, c.turns[name] = append(c.events, all...), all.of(turn)
}

// decide reads the events of a session up to the end of a turn, and answers
// each approval with the choice.
func (s *server) decide(t *testing.T, session, turn, choice string) frames {
	t.Helper()
	return s.events(t, session, func(f frame) bool {
		if f.event == "approval_requested" && f.data["turnId"] == turn && at(f.payload(), "approval", "title") != "withdrawn" {
			a := at(f.payload(), "approval").(object)
			s.post(t, fmt.Sprintf("/api/session/%s/approvals/%s", session, a["id"]), object{
				"choice": choice, "argumentsDigest": a["argumentsDigest"], "reason": "a reason",
			}).ok(t, http.StatusOK)
		}
		return f.data["turnId"] == turn && f.ends()
	})
}

// toolKinds are all kinds of tools.
var toolKinds = []string{"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "delegate", "other"}

// changes are file changes, one of each kind, that together contain every
// field.
var changes = []object{
	{"path": "a", "kind": "create", "newText": "", "hunks": []object{}},
	{"path": "b", "kind": "update", "oldText": "x\n", "newText": "", "hunks": []object{{"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 0, "lines": []string{"-x"}}}},
	{"path": "c", "kind": "delete", "oldText": "", "hunks": []object{}},
	{"path": "d", "kind": "move", "movedTo": "e", "hunks": []object{}},
}

// everyStep returns steps that produce every event except the terminal ones.
func everyStep() []object {
	steps := []object{
		{"session": object{
			"title": "A title", "permissionMode": "default", "commands": []object{{"name": "compact", "description": "shorten", "hint": "what"}},
			"tools": []string{"Bash"}, "files": []object{{"path": "/plan.md", "kind": "plan"}}, "state": "open", "activity": "working",
		}},
		{"reasoning": "I think so."},
		{"text": "one two three"},
		{"text": "half a", "error": object{"code": "AGENT_ERROR", "message": "cut off"}},
		{"plan": []object{{"content": "Read", "status": "in_progress", "priority": "high"}}},
		{"usage": object{
			"usage":         object{"inputTokens": 10, "outputTokens": 20, "cacheReadInputTokens": 1, "cacheCreationInputTokens": 2, "reasoningTokens": 3},
			"contextTokens": 30, "contextWindow": 1000, "costUsd": 0.5,
			"rateLimit": object{"status": "allowed", "kind": "five_hour", "utilization": 0.5, "resetsAt": 1},
		}},
		{"tool": object{"name": "Task", "kind": "delegate", "steps": []object{{"text": "from a subagent"}}}},
		{"tool": object{"name": "Bash", "kind": "execute", "title": "make", "output": "no", "isError": true, "exitCode": 2}},
		{"tool": object{"name": "Edit", "kind": "edit", "changes": changes, "ask": object{"title": "Edit files", "why": "to mend them"}}},
		{"tool": object{"name": "Bash", "kind": "execute", "ask": object{"title": "withdrawn", "withdraw": true}}},
	}
	for _, level := range []string{"info", "warning", "error"} {
		steps = append(steps, object{"notice": object{"level": level, "code": "A_CODE", "message": "a message"}})
	}
	for _, kind := range []string{"plan", "question", "form"} {
		steps = append(steps, object{"tool": object{"name": "Ask", "ask": object{"kind": kind, "title": kind}}})
	}
	for _, kind := range toolKinds {
		steps = append(steps, object{"tool": object{"name": "Tool_" + kind, "kind": kind}})
	}
	return steps
}

// rich plays everyStep in a turn with an attachment.
func (c *capture) rich(t *testing.T, s *server) {
	t.Helper()
	session := s.session(t, nil)
	path := write(t, s.project, "note.txt", "text")
	turn := s.post(t, "/api/session/"+session+"/send", object{
		"content": script(everyStep()...), "attachments": []object{{"path": path}},
	}).ok(t, http.StatusAccepted)["turnId"].(string)
	c.add("rich", s.decide(t, session, turn, "allow"), turn)
}

// ends plays a turn that fails and a turn that is cancelled.
func (c *capture) ends(t *testing.T, s *server) {
	t.Helper()
	session := s.session(t, nil)
	turn := s.send(t, session, script(object{"fail": object{"code": "AGENT_ERROR", "message": "no", "details": object{"a": 1}}}))
	c.add("failed", s.events(t, session, frame.ends), turn)

	session = s.session(t, nil)
	turn = s.send(t, session, script(object{"text": "one two", "rate": 0.01}))
	c.add("cancelled", s.events(t, session, func(f frame) bool {
		if f.event == "item_start" && f.payload()["itemType"] == "message" && strings.HasSuffix(f.payload()["itemId"].(string), ":1:0") {
			s.post(t, "/api/session/"+session+"/cancel", object{}).ok(t, http.StatusOK)
		}
		return f.ends()
	}), turn)
}

// native plays turns with events that only the native agent produces.
func (c *capture) native(t *testing.T, s *nativeServer) {
	t.Helper()
	session, turn, _ := s.native(t, native{Lines: []string{
		nativeInit, messageStart("m1"), textStart("It"), textDelta(" runs"), textWhole("m1", "It runs"),
		toolUse("m2", "WebFetch", "call"), toolResult("call", "made", `{"bytes":4,"code":200}`), nativeResult,
	}})
	c.add("native", s.events(t, session, frame.ends), turn)

	session, turn, _ = s.native(t, native{Lines: []string{nativeInit, messageStart("m1"), textStart("half a"), textDelta(" sentence")}, Exit: true})
	c.add("crashed", s.events(t, session, frame.ends), turn)
}

// impatient plays turns on a server with very short timeouts.
func (c *capture) impatient(t *testing.T) {
	t.Helper()
	var s server
	s.Args = []string{"--approval-timeout=50ms", "--stall-timeout=1s"}
	s.start(t)
	session := s.session(t, nil)
	turn := s.send(t, session, script(object{"tool": object{"name": "Bash", "ask": object{}}}))
	c.add("unanswered", s.events(t, session, frame.ends), turn)

	session = s.session(t, nil)
	turn = s.send(t, session, script(object{"text": "one two", "rate": 0.01}))
	c.add("stalled", s.events(t, session, frame.ends), turn)
}

// payloads returns the payloads of the captured events of a type. The type may
// name the type of the finalItem, too, such as "item_done plan".
func (c *capture) payloads(t *testing.T, typ string) []object {
	t.Helper()
	name, item, _ := strings.Cut(typ, " ")
	var found []object
	for _, f := range c.events {
		if f.event == name && (item == "" || at(f.payload(), "finalItem", "type") == item) {
			found = append(found, f.payload())
		}
	}
	if len(found) == 0 {
		t.Fatalf("no %s among the captured events", typ)
	}
	return found
}

// valuesAt returns the values at a path of keys in v. "[]" after a key stands
// for every element of a list. Absent values are not returned but counted.
func valuesAt(v any, path string) (found []any, absent int) {
	found = []any{v}
	for _, key := range strings.Split(path, ".") {
		var next []any
		name, list := strings.CutSuffix(key, "[]")
		for _, f := range found {
			o, _ := f.(object)
			value, ok := o[name]
			switch elements, isList := value.([]any); {
			case !ok:
				absent++
			case list && isList:
				next = append(next, elements...)
			default:
				next = append(next, value)
			}
		}
		found = next
	}
	return found, absent
}

// kindOf returns the JSON type of a value.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case float64:
		return "number"
	case bool:
		return "boolean"
	case []any:
		return "array"
	}
	return "object"
}

// hasField reports an error unless every value at path has the JSON type. With
// always, each object must have the value; otherwise at least one of them must.
func hasField(t *testing.T, objects []object, path, kind string, always bool) {
	t.Helper()
	there := 0
	for _, o := range objects {
		found, absent := valuesAt(o, path)
		if always && absent > 0 {
			t.Errorf("no %s in %v", path, o)
		}
		there += len(found)
		for _, v := range found {
			if kind != "any" && kindOf(v) != kind {
				t.Errorf("%s is %v, want a JSON %s", path, v, kind)
			}
		}
	}
	if there == 0 {
		t.Errorf("no captured object has %s; keys: %v", path, slices.Sorted(maps.Keys(objects[0])))
	}
}

// hasValue reports an error unless at least one object has the value at path.
func hasValue(t *testing.T, objects []object, path string, want any) {
	t.Helper()
	for _, o := range objects {
		if found, _ := valuesAt(o, path); slices.ContainsFunc(found, func(v any) bool { return fmt.Sprint(v) == fmt.Sprint(want) }) {
			return
		}
	}
	t.Errorf("no captured object has %s %v", path, want)
}
