//go:build unix

package conformance

import (
	"regexp"
	"testing"
	"time"
)

var _ = register(33, events)

// events returns the table of canonical events, their fields and the values of
// these fields.
func events() table {
	var c capture
	tab := table{
		name: "events", title: "Canonical events", file: "events_test.go",
		intro: "Every type of event with every field of its payload, as a client reads them from `GET /api/session/{id}/events`. " +
			"Scripted turns on the built server produce each event and each optional field. Every field has the JSON type that the row names wherever it occurs.",
		head:  []string{"event", "field or value", "JSON type", "when it is there"},
		setup: c.captureEvents,
	}
	tab.rows = append(tab.rows, envelopeRows(&c)...)
	for _, f := range eventFields {
		tab.rows = append(tab.rows, row{
			cells: []string{f.event, "`" + f.path + "`", f.kind, f.when},
			check: func(t *testing.T) { hasField(t, c.payloads(t, f.event), f.path, f.kind, f.when == always) },
		})
	}
	for _, v := range eventValues {
		for _, value := range v.values {
			tab.rows = append(tab.rows, row{
				cells: []string{v.event, "`" + v.path + "` is `" + value + "`", "string", v.when},
				check: func(t *testing.T) { hasValue(t, c.payloads(t, v.event), v.path, value) },
			})
		}
	}
	for _, typ := range eventTypes {
		tab.rows = append(tab.rows, row{
			cells: []string{typ, "`type`", "string", "always, and equal to the `type` of the envelope"},
			check: func(t *testing.T) {
				for _, p := range c.payloads(t, typ) {
					equal(t, "payload.type", p["type"], typ)
				}
			},
		})
	}
	tab.rows = append(tab.rows, keptRows(&c)...)
	return tab
}

const always = "always"

var eventTypes = []string{
	"response_start", "item_start", "item_delta", "item_done", "item_error", "item_cancelled", "response_done", "response_error",
	"approval_requested", "approval_resolved", "session_updated", "usage_updated", "notice",
}

// eventFields lists the fields of each event's payload.
var eventFields = []struct{ event, path, kind, when string }{
	{"response_start", "modelId", "string", always},
	{"response_start", "providerId", "string", always},
	{"item_start", "itemId", "string", always},
	{"item_start", "itemType", "string", always},
	{"item_start", "callId", "string", "calls and their outputs"},
	{"item_start", "name", "string", "calls"},
	{"item_start", "parentCallId", "string", "the work of a subagent"},
	{"item_start", "initialContent", "string", "where the agent begins an item with text"},
	{"item_start", "native", "object", "where the agent has ids of its own"},
	{"item_delta", "itemId", "string", always},
	{"item_delta", "deltaContent", "string", always},
	{"item_done", "itemId", "string", always},
	{"item_done", "finalItem", "object", always},
	{"item_done", "finalItem.type", "string", always},
	{"item_done message", "finalItem.content", "string", always},
	{"item_done message", "finalItem.origin", "string", always},
	{"item_done message", "finalItem.attachments", "array", "the prompt has attachments"},
	{"item_done message", "finalItem.attachments[].mediaType", "string", "every attachment"},
	{"item_done reasoning", "finalItem.content", "string", always},
	{"item_done reasoning", "finalItem.providerId", "string", always},
	{"item_done function_call", "finalItem.name", "string", always},
	{"item_done function_call", "finalItem.callId", "string", always},
	{"item_done function_call", "finalItem.arguments", "object", always},
	{"item_done function_call", "finalItem.kind", "string", "the kind of the tool is known"},
	{"item_done function_call", "finalItem.title", "string", "the call has a title"},
	{"item_done function_call", "finalItem.locations", "array", "the call is about files"},
	{"item_done function_call", "finalItem.locations[].path", "string", "every location"},
	{"item_done function_call_output", "finalItem.callId", "string", always},
	{"item_done function_call_output", "finalItem.output", "string", always},
	{"item_done function_call_output", "finalItem.isError", "boolean", always},
	{"item_done function_call_output", "finalItem.changes", "array", "the call changed files"},
	{"item_done function_call_output", "finalItem.changes[].path", "string", "every change"},
	{"item_done function_call_output", "finalItem.changes[].kind", "string", "every change"},
	{"item_done function_call_output", "finalItem.changes[].movedTo", "string", "the file moved"},
	{"item_done function_call_output", "finalItem.changes[].oldText", "string", "the agent reports the text before"},
	{"item_done function_call_output", "finalItem.changes[].newText", "string", "the agent reports the text after"},
	{"item_done function_call_output", "finalItem.changes[].hunks", "array", "every change; the list may be empty"},
	{"item_done function_call_output", "finalItem.changes[].hunks[].oldStart", "number", "every hunk"},
	{"item_done function_call_output", "finalItem.changes[].hunks[].oldLines", "number", "every hunk"},
	{"item_done function_call_output", "finalItem.changes[].hunks[].newStart", "number", "every hunk"},
	{"item_done function_call_output", "finalItem.changes[].hunks[].newLines", "number", "every hunk"},
	{"item_done function_call_output", "finalItem.changes[].hunks[].lines", "array", "every hunk"},
	{"item_done function_call_output", "finalItem.exitCode", "number", "a command that ended"},
	{"item_done function_call_output", "finalItem.detail", "object", "the agent reports a structured result"},
	{"item_done plan", "finalItem.entries", "array", always},
	{"item_done plan", "finalItem.entries[].content", "string", "every entry"},
	{"item_done plan", "finalItem.entries[].status", "string", "every entry"},
	{"item_done plan", "finalItem.entries[].priority", "string", "the entry has a priority"},
	{"item_error", "itemId", "string", always},
	{"item_error", "error.code", "string", always},
	{"item_error", "error.message", "string", always},
	{"item_cancelled", "itemId", "string", always},
	{"item_cancelled", "reason", "string", "we know why"},
	{"response_done", "status", "string", always},
	{"response_done", "finishReason", "string", "the agent reports it"},
	{"response_done", "usage", "object", "the agent reports it"},
	{"response_done", "usage.inputTokens", "number", "every usage"},
	{"response_done", "usage.outputTokens", "number", "every usage"},
	{"response_error", "error.code", "string", always},
	{"response_error", "error.message", "string", always},
	{"response_error", "error.details", "object", "the error has details"},
	{"approval_requested", "approval.id", "string", always},
	{"approval_requested", "approval.itemId", "string", "the approval is about an item"},
	{"approval_requested", "approval.callId", "string", "the approval is about a call"},
	{"approval_requested", "approval.kind", "string", always},
	{"approval_requested", "approval.title", "string", always},
	{"approval_requested", "approval.toolName", "string", "the approval is about a tool"},
	{"approval_requested", "approval.arguments", "object", "the tool has arguments"},
	{"approval_requested", "approval.changes", "array", "the tool would change files"},
	{"approval_requested", "approval.choices", "array", always},
	{"approval_requested", "approval.choices[].id", "string", "every choice"},
	{"approval_requested", "approval.choices[].kind", "string", "every choice"},
	{"approval_requested", "approval.choices[].label", "string", "every choice"},
	{"approval_resolved", "approvalId", "string", always},
	{"approval_resolved", "choice", "string", always},
	{"approval_resolved", "by", "string", always},
	{"approval_resolved", "reason", "string", "a reason was given"},
	{"session_updated", "agentSessionId", "string", "this fact changed"},
	{"session_updated", "modelId", "string", "this fact changed"},
	{"session_updated", "permissionMode", "string", "this fact changed"},
	{"session_updated", "title", "string", "this fact changed"},
	{"session_updated", "commands", "array", "this fact changed"},
	{"session_updated", "commands[].name", "string", "every command"},
	{"session_updated", "tools", "array", "this fact changed"},
	{"session_updated", "files", "array", "the agent named files of its own"},
	{"session_updated", "config", "array", "the agent's own settings changed"},
	{"session_updated", "state", "string", "an agent reports it; a client reads it from `session:status`"},
	{"session_updated", "activity", "string", "an agent reports it; a client reads it from `session:status`"},
	{"usage_updated", "usage", "object", "tokens are reported"},
	{"usage_updated", "usage.inputTokens", "number", "every usage"},
	{"usage_updated", "usage.outputTokens", "number", "every usage"},
	{"usage_updated", "usage.cacheReadInputTokens", "number", "the count is not zero"},
	{"usage_updated", "usage.cacheCreationInputTokens", "number", "the count is not zero"},
	{"usage_updated", "usage.reasoningTokens", "number", "the count is not zero"},
	{"usage_updated", "contextTokens", "number", "the size of the context is reported"},
	{"usage_updated", "contextWindow", "number", "the size of the window is reported"},
	{"usage_updated", "costUsd", "number", "a price is reported"},
	{"usage_updated", "rateLimit", "object", "a limit is reported"},
	{"usage_updated", "rateLimit.status", "string", "every limit"},
	{"notice", "level", "string", always},
	{"notice", "code", "string", always},
	{"notice", "message", "string", always},
}

// eventValues lists the values of fields that have only a few.
var eventValues = []struct {
	event, path, when string
	values            []string
}{
	{"item_start", "itemType", "an item of this type", []string{"message", "reasoning", "function_call", "function_call_output", "plan"}},
	{"item_done message", "finalItem.origin", "a message of this origin", []string{"user", "agent"}},
	{"item_done function_call", "finalItem.kind", "a tool of this kind", toolKinds},
	{"item_done function_call_output", "finalItem.changes[].kind", "a change of this kind", []string{"create", "update", "delete", "move"}},
	{"item_cancelled", "reason", "the user cancelled the turn", []string{"user_cancel"}},
	{"item_cancelled", "reason", "the turn stalled or its time was up", []string{"timeout"}},
	{"item_cancelled", "reason", "the agent's process ended", []string{"process_death"}},
	{"response_done", "status", "the turn ended like this", []string{"completed", "cancelled"}},
	{"approval_requested", "approval.kind", "an approval of this kind", []string{"tool", "plan", "question", "form"}},
	{"approval_requested", "approval.choices[].kind", "the agent offers it", []string{"allow_once", "allow_session", "deny", "deny_stop"}},
	{"approval_resolved", "by", "a person or a program answered", []string{"user"}},
	{"approval_resolved", "by", "nobody answered in time", []string{"timeout"}},
	{"approval_resolved", "by", "the agent withdrew the approval", []string{"agent"}},
	{"notice", "level", "a notice of this level", []string{"info", "warning", "error"}},
}

var eventTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,}Z$`)

// envelopeRows returns the rows about the fields around the payload.
func envelopeRows(c *capture) []row {
	each := func(field, kind, when string, check func(t *testing.T, f frame)) row {
		return row{[]string{"every event", "`" + field + "`", kind, when}, func(t *testing.T) {
			for _, f := range c.events {
				if f.event != "stream:open" {
					check(t, f)
				}
			}
		}, ""}
	}
	text := func(field string) func(t *testing.T, f frame) {
		return func(t *testing.T, f frame) {
			if s, ok := f.data[field].(string); !ok || s == "" {
				t.Errorf("%s: %s is %v", f.event, field, f.data[field])
			}
		}
	}
	return []row{
		each("eventId", "string", "always; unique, made of the session's id and seq", func(t *testing.T, f frame) {
			equal(t, "eventId", f.data["eventId"], f.data["sessionId"].(string)+":"+f.id)
		}),
		{[]string{"every event", "`seq`", "number", "always; 1, 2, 3 … in each session, without holes"}, c.countsFromOne, ""},
		each("timestamp", "string", "always; RFC 3339 in UTC, with milliseconds or finer", func(t *testing.T, f frame) {
			s, _ := f.data["timestamp"].(string)
			if when, err := time.Parse(time.RFC3339Nano, s); err != nil || when.Nanosecond() != 0 && !eventTime.MatchString(s) {
				t.Errorf("timestamp %q: %v", s, err)
			}
		}),
		each("sessionId", "string", always, text("sessionId")),
		each("turnId", "string", "every event of a turn", func(t *testing.T, f frame) {
			if f.event != "session_updated" && f.event != "notice" && f.event != "usage_updated" {
				text("turnId")(t, f)
			}
		}),
		each("type", "string", always, func(t *testing.T, f frame) { equal(t, "type", f.data["type"], f.event) }),
		each("payload", "object", "always; an event whose `payload.type` differs from `type` is rejected", func(t *testing.T, f frame) {
			equal(t, "payload.type", f.payload()["type"], f.data["type"])
		}),
		{[]string{"every event", "`payload.type` differs from `type`", "string", "rejected when an event is read"}, nil, "event.TestJSONRejectsByName"},
	}
}

func (c *capture) countsFromOne(t *testing.T) {
	next := make(map[any]float64)
	for _, f := range c.events {
		if f.event == "stream:open" {
			continue
		}
		id := f.data["sessionId"]
		if next[id]++; f.data["seq"] != next[id] {
			t.Fatalf("session %v: seq %v where %v was next", id, f.data["seq"], next[id])
		}
	}
}

// keptRows returns rows about values that are easily lost, and about fields
// that the server never sends.
func keptRows(c *capture) []row {
	change := func(t *testing.T, path string) object {
		for _, p := range c.payloads(t, "item_done function_call_output") {
			list, _ := valuesAt(p, "finalItem.changes[]")
			for _, v := range list {
				if v.(object)["path"] == path {
					return v.(object)
				}
			}
		}
		t.Fatalf("no change of %s", path)
		return nil
	}
	return []row{
		{[]string{"item_done function_call_output", "`newText` of an emptied file", "string", "an empty string, not absent"}, func(t *testing.T) {
			equal(t, "newText", change(t, "b")["newText"], "")
		}, ""},
		{[]string{"item_done function_call_output", "`oldText` of an empty file that was deleted", "string", "an empty string, not absent"}, func(t *testing.T) {
			equal(t, "oldText", change(t, "c")["oldText"], "")
		}, ""},
		{[]string{"item_done function_call_output", "`oldText` of a created file", "absent", "never: there was no text"}, func(t *testing.T) {
			if v, ok := change(t, "a")["oldText"]; ok {
				t.Errorf("oldText %v", v)
			}
		}, ""},
		{[]string{"item_done message", "`finalItem.origin` is `system`", "string", "accepted from events that are read; no agent makes one now"}, nil, "event.TestJSONRoundTrip"},
		{[]string{"response_done", "`status` is `error`", "string", "accepted from events that are read; the server sends `response_error` instead"}, nil, "..TestLateAndDoubleEventsAreDroppedAndCounted"},
		{[]string{"response_done", "`error`", "object", "accepted from events that are read; the server sends `response_error` instead"}, nil, "event.TestJSONRoundTrip"},
		{[]string{"approval_resolved", "`by` is `policy`", "string", "a stored rule or a profile decided, or the turn is over"}, nil, "..TestCancelWithdrawsApprovals"},
		{[]string{"approval_requested", "`approval.choices[].kind` is `allow_always`", "string", "the agent offers it"}, nil, "provider/acp.TestQuestions"},
		{[]string{"every event", "unknown fields", "any", "ignored when an event is read"}, nil, "event.TestJSONIgnoresUnknownFields"},
		{[]string{"every event", "lists without elements", "array", "`[]`, never `null`"}, nil, "event.TestListsAreNeverNullInJSON"},
		{[]string{"every event", "strings longer than their bounds", "string", "cut if the field is a label, left out or hashed if it is an id"}, nil, "event.TestEveryStringOfAnEventHasABound"},
	}
}
