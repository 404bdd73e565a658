//go:build unix

package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var _ = register(38, histories)

// A stored is a conversation that took place in a terminal and that the server
// then loaded.
type stored struct {
	s       nativeServer
	session string
	events  frames
}

// storedConversation is the id of the stored conversation.
const storedConversation = "0b5d3c1e-59f0-4c1c-b2f7-8d5f7f0e9a11"

// histories returns the table of the contents of a loaded conversation.
func histories() table {
	var c stored
	tab := table{
		name: "history", title: "History and load", file: "history_test.go",
		intro: "What the server makes of a conversation that was held in a terminal. The checks load a stored conversation of Claude Code that has every kind of entry; " +
			"the parity tests compare what agents printed with the files that the same runs left.",
		head:  []string{"promise", "what the server does"},
		setup: c.load,
	}
	for _, r := range historyRows {
		tab.rows = append(tab.rows, row{[]string{r.promise, r.does}, func(t *testing.T) { r.check(t, &c) }, ""})
	}
	for _, r := range [][3]string{
		{"a session that has a log", "it is rebuilt from the log; loading it again adds what the conversation gained elsewhere", "gateway.TestLoadAgainAddsWhatTheConversationGained"},
		{"loading a conversation that we recorded", "adds nothing", "test/recordings.TestLoadAddsNothingToTheLogOfTheLiveSession"},
		{"loading again while a turn runs", "changes nothing", "gateway.TestLoadAgainWhileATurnRunsChangesNothing"},
		{"live and replay go through one translator", "a live session logs what its replay gives", "..TestLiveSessionLogsWhatReplayGives"},
		{"parity of live and stored, Claude Code", "the same items with the same ids for every kind of item; the differences are a named list", "test/recordings.TestHistoryEqualsLive"},
		{"parity of live and stored, Codex", "the same items with the same ids for every kind of item; the differences are a named list", "test/recordings.TestHistoryEqualsLive"},
		{"parity of live and stored, agents over ACP", "the same items with the same ids for every kind of item; the differences are a named list", "test/recordings.TestHistoryEqualsLive"},
		{"the named differences", "each is named by the fact that makes it", "provider/providertest.TestDifferencesAreNamedByTheirFact"},
		{"a prompt that quotes the agent's own words", "it is kept as the user's message", "provider/claude.TestStoredPromptCanContainTextOfTheHarness"},
		{"a line of the file that does not decode", "the rest of the history is there", "cmd/runnel.TestOneUnreadableLineLeavesTheRestOfAHistory"},
		{"discovery of conversations on disk", "gives directory, title, times and size", "provider/claude.TestDiscoverDescribesAConversation"},
		{"a list of 10,000 conversations on disk", "reads only the files that changed since the last list", "gateway/conversations.TestOnlyChangedFilesAreReadAgain"},
		{"discovery and links below an agent's folder", "they are not followed", "internal/agentconn.TestStoredFilesFollowNoLinks"},
		{"a token of one project and the list of conversations", "lists only those of its folder", "httpapi.TestStoredConversationsOfOtherProjectsAreInvisible"},
		{"a turn that still runs in a terminal", "it is not ended by the load", "gateway.TestLoadAgainAddsTheRestOfATurnThatRanElsewhere"},
		{"a secret in the stored conversation", "it is taken out, as it is live", "..TestFilteredHistory"},
	} {
		tab.rows = append(tab.rows, row{r[:2], nil, r[2]})
	}
	return tab
}

// load writes the stored conversation and makes the server load it.
func (c *stored) load(t *testing.T) {
	t.Helper()
	*c = stored{}
	c.s.start(t)
	var text strings.Builder
	parent := ""
	add := func(typ string, fields object) {
		id := fmt.Sprintf("9a3c8a3e-31a5-4d0a-8a35-7d2ea8a8a%03d", strings.Count(text.String(), "\n")+1)
		line := object{
			"type": typ, "uuid": id, "parentUuid": nil, "sessionId": storedConversation, "cwd": c.s.project, "version": "2.1.330",
			"timestamp": fmt.Sprintf("2026-01-01T00:00:%02d.000Z", strings.Count(text.String(), "\n")+1),
		}
		if parent != "" {
			line["parentUuid"] = parent
		}
		for name, v := range fields {
			line[name] = v
		}
		data, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		parent = id
		text.Write(append(data, '\n'))
	}
	user := func(content any, fields object) {
		if fields == nil {
			fields = object{}
		}
		fields["message"] = object{"role": "user", "content": content}
		add("user", fields)
	}
	said := func(id string, block object, stop any) {
		add("assistant", object{"message": object{
			"id": id, "type": "message", "role": "assistant", "model": "claude", "stop_reason": stop, "content": []object{block},
			"usage": object{"input_tokens": 1, "output_tokens": 1},
		}})
	}
	user("first prompt", nil)
	user("a meta entry", object{"isMeta": true})
	said("m1", object{"type": "tool_use", "id": "c1", "name": "Edit", "input": object{"file_path": "/f.txt", "old_string": "b", "new_string": "B"}}, "tool_use")
	user([]object{{"type": "tool_result", "tool_use_id": "c1", "content": "updated"}}, object{"toolUseResult": object{
		"filePath": "/f.txt", "oldString": "b", "newString": "B", "originalFile": "a\nb\n", "replaceAll": false,
		"structuredPatch": []object{{"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 2, "lines": []string{" a", "-b", "+B"}}},
	}})
	said("m2", object{"type": "text", "text": "first answer"}, "end_turn")
	user("<command-name>/cost</command-name>\n<command-message>cost</command-message>\n<command-args></command-args>", nil)
	user("<local-command-stdout>Total cost: 0</local-command-stdout>", nil)
	user("<task-notification>\n<task-id>b1</task-id>\n<status>completed</status>\n<summary>Background command finished</summary>\n</task-notification>", nil)
	said("m3", object{"type": "text", "text": "noted"}, "end_turn")
	add("system", object{"subtype": "compact_boundary", "content": "Conversation compacted", "compactMetadata": object{"trigger": "manual", "preTokens": 10}})
	user("This session is being continued from a previous conversation", object{"isCompactSummary": true})
	user("second prompt", nil)
	said("m4", object{"type": "text", "text": "half an"}, nil)
	user([]object{{"type": "text", "text": "[Request interrupted by user]"}}, nil)
	user("third prompt", nil)
	said("m5", object{"type": "text", "text": "last answer"}, "end_turn")
	slug := regexp.MustCompile(`[^A-Za-z0-9]`).ReplaceAllString(c.s.project, "-")
	write(t, c.s.Home, ".claude/projects/"+slug+"/"+storedConversation+".jsonl", text.String())
	c.session = c.s.post(t, "/api/session/claude:"+storedConversation+"/load", object{}).ok(t, http.StatusOK)["sessionId"].(string)
	c.events = c.s.events(t, c.session, func(f frame) bool { return at(f.payload(), "finalItem", "content") == "last answer" })
}

// messages returns the texts of all messages, each with its origin in front.
func (c *stored) messages() (texts []string) {
	for _, f := range c.events {
		if at(f.payload(), "finalItem", "type") == "message" {
			texts = append(texts, fmt.Sprint(at(f.payload(), "finalItem", "origin"), ": ", at(f.payload(), "finalItem", "content")))
		}
	}
	return texts
}

// without reports an error if a payload contains the text.
func (c *stored) without(t *testing.T, text string) {
	t.Helper()
	for _, f := range c.events {
		if data, _ := json.Marshal(f.payload()); strings.Contains(string(data), text) {
			t.Errorf("%s: %s", f.event, data)
		}
	}
}

func (c *stored) notices() (codes []string) {
	for _, f := range c.events {
		if f.event == "notice" {
			codes = append(codes, fmt.Sprint(f.payload()["code"]))
		}
	}
	return codes
}

var historyRows = []struct {
	promise, does string
	check         func(t *testing.T, c *stored)
}{
	{"a conversation that began in a terminal", "`load` makes a session of it from the agent's own files", func(t *testing.T, c *stored) {
		for _, want := range []string{"user: first prompt", "agent: first answer", "user: second prompt", "user: third prompt", "agent: last answer"} {
			if !slices.Contains(c.messages(), want) {
				t.Errorf("no %q in %q", want, c.messages())
			}
		}
	}},
	{"a turn of such a conversation", "has an id derived from the native id of its prompt", func(t *testing.T, c *stored) {
		equal(t, "turnId", c.events.find("item_start").data["turnId"], "9a3c8a3e-31a5-4d0a-8a35-7d2ea8a8a001")
	}},
	{"meta entries", "are kept out", func(t *testing.T, c *stored) { c.without(t, "a meta entry") }},
	{"summaries of a compaction", "are kept out", func(t *testing.T, c *stored) { c.without(t, "This session is being continued") }},
	{"a compaction", "is a notice", func(t *testing.T, c *stored) {
		if !slices.Contains(c.notices(), "COMPACTED") {
			t.Errorf("notices %v", c.notices())
		}
	}},
	{"echoes of slash commands", "are kept out", func(t *testing.T, c *stored) {
		c.without(t, "command-name")
		c.without(t, "local-command-stdout")
	}},
	{"`<task-notification>` texts", "are no messages of the user", func(t *testing.T, c *stored) { c.without(t, "task-notification") }},
	{"the end of a background task", "is a notice", func(t *testing.T, c *stored) {
		if !slices.ContainsFunc(c.notices(), func(code string) bool { return strings.Contains(code, "BACKGROUND") || strings.Contains(code, "TASK") }) {
			t.Errorf("notices %v", c.notices())
		}
	}},
	{"`[Request interrupted…` markers", "are kept out", func(t *testing.T, c *stored) { c.without(t, "Request interrupted") }},
	{"an interrupted turn", "ends as cancelled", func(t *testing.T, c *stored) {
		if !slices.ContainsFunc(c.events, func(f frame) bool { return f.event == "response_done" && f.payload()["status"] == "cancelled" }) {
			t.Errorf("got %s", c.events.names())
		}
	}},
	{"the changes of a tool result", "are built from the agent's own patch record", func(t *testing.T, c *stored) {
		for _, f := range c.events {
			if change := at(f.payload(), "finalItem", "changes", 0); change != nil {
				equal(t, "change", change, object{
					"path": "/f.txt", "kind": "update", "oldText": "a\nb\n", "newText": "a\nB\n",
					"hunks": []object{{"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 2, "lines": []string{" a", "-b", "+B"}}},
				})
				return
			}
		}
		t.Error("no changes")
	}},
	{"a client that subscribes after the load", "reads `session:history`", func(t *testing.T, c *stored) {
		all := historyOf(c.s.hello(t, "upsert-v1").subscribe(t, c.session, nil))
		if len(all[0]["entries"].([]any)) == 0 {
			t.Error("no entries")
		}
	}},
	{"loading it once more", "adds nothing", func(t *testing.T, c *stored) {
		c.s.post(t, "/api/session/"+c.session+"/load", object{}).ok(t, http.StatusOK)
		again := c.s.events(t, c.session, func(f frame) bool { return at(f.payload(), "finalItem", "content") == "last answer" })
		equal(t, "events", again.names(), c.events.names())
	}},
}
