//go:build unix

package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/internal/testprogram"
)

var _ = register(34, turnRules)

// turnRules returns the table of the rules that the events of a turn obey.
func turnRules() table {
	var s nativeServer
	tab := table{
		name: "rules", title: "Rules of a turn", file: "rules_test.go",
		intro: "What the engine upholds whatever an agent prints. An agent that breaks the rule prints its native lines to the built server, " +
			"and the row is checked on the log that clients read. What no native line can break is shown by a test of the engine.",
		head: []string{"rule", "clause"},
		setup: func(t *testing.T) {
			s = nativeServer{}
			s.start(t)
		},
	}
	add := func(rule, clause string, check func(t *testing.T, s *nativeServer)) {
		tab.rows = append(tab.rows, row{[]string{rule, clause}, func(t *testing.T) { check(t, &s) }, ""})
	}
	shown := func(rule, clause, test string) {
		tab.rows = append(tab.rows, row{[]string{rule, clause}, nil, test})
	}
	beginAndEnd(add, shown)
	itemsEnd(add, shown)
	idsAgree(add, shown)
	terminals(add, shown)
	idsAreStable(add, shown)
	promptsAndMessages(add, shown)
	strangeLines(add, shown)
	return tab
}

type (
	addRow  = func(rule, clause string, check func(t *testing.T, s *nativeServer))
	showRow = func(rule, clause, test string)
)

// said returns the lines with which the agent prints a text in a turn.
func said(text string, end ...string) []string {
	return append([]string{nativeInit, messageStart("m$again"), textStart(""), textDelta(text), textWhole("m$again", text)}, end...)
}

// terminal returns the names of the terminal events of a session.
func terminal(events frames) []string {
	var ends []string
	for _, f := range events {
		if f.ends() {
			ends = append(ends, f.event)
		}
	}
	return ends
}

// afterwards plays one more turn and returns the complete log of the session.
// By then the server has read everything that the agent printed before.
func (s *nativeServer) afterwards(t *testing.T, session string) frames {
	t.Helper()
	turn := s.send(t, session, native{Lines: said("next", nativeResult)}.prompt())
	return s.events(t, session, func(f frame) bool { return f.data["turnId"] == turn && f.ends() })
}

func beginAndEnd(add addRow, shown showRow) {
	add("1", "The first event after the user's message is `response_start`, also if the agent begins with text", func(t *testing.T, s *nativeServer) {
		_, _, got := s.native(t, native{Lines: said("hi", nativeResult)[1:]})
		if names := got.names(); !strings.HasPrefix(names, "item_start item_done response_start ") {
			t.Errorf("got %s", names)
		}
	})
	add("1", "Facts that the agent reports before its response come after `response_start`", func(t *testing.T, s *nativeServer) {
		_, _, got := s.native(t, native{Lines: append([]string{`{"type":"system","subtype":"session_title_changed","title":"early"}`}, said("hi", nativeResult)...)})
		if names := got.names(); !strings.HasPrefix(names, "item_start item_done response_start ") || !strings.Contains(names, "session_updated") {
			t.Errorf("got %s", names)
		}
	})
	shown("1", "At most 16 facts wait for `response_start`; one more begins the response", "..TestFactsBeforeTheResponseAreBounded")
	add("1", "The last event is exactly one of `response_done` and `response_error`, also if the agent ends the turn twice", func(t *testing.T, s *nativeServer) {
		session, turn, _ := s.native(t, native{Lines: said("hi", nativeResult, nativeResult)})
		if ends := terminal(s.afterwards(t, session).of(turn)); !slices.Equal(ends, []string{"response_done"}) {
			t.Errorf("got %v", ends)
		}
	})
	shown("1", "What arrives for a turn after its end is dropped", "..TestLateAndDoubleEventsAreDroppedAndCounted")
	shown("1", "What is dropped is counted, in the metric `runnel_agent_dropped_total`", "..TestLateAndDoubleEventsAreDroppedAndCounted")
	shown("1", "A turn that is over never begins again", "..TestEndedTurnDoesNotRestart")
}

// checkItemsEnd reports an error unless every item of a turn starts and ends
// exactly once, and ends before the terminal event. It returns the payloads of
// the ends.
func checkItemsEnd(t *testing.T, turn frames) []object {
	t.Helper()
	open := make(map[any]bool)
	var ends []object
	for _, f := range turn {
		id := f.payload()["itemId"]
		switch f.event {
		case "item_start":
			if _, again := open[id]; again {
				t.Errorf("item %v starts twice", id)
			}
			open[id] = true
		case "item_done", "item_error", "item_cancelled":
			if !open[id] {
				t.Errorf("item %v ends and is not open", id)
			}
			open[id], ends = false, append(ends, f.payload())
		case "response_done", "response_error":
			for id, isOpen := range open {
				if isOpen {
					t.Errorf("item %v is open at the end of the turn", id)
				}
			}
		}
	}
	return ends
}

// cancelled reports an error unless the last item of a turn was cancelled with
// the reason.
func cancelled(t *testing.T, turn frames, reason any) {
	t.Helper()
	ends := checkItemsEnd(t, turn)
	if last := ends[len(ends)-1]; last["type"] != "item_cancelled" || last["reason"] != reason {
		t.Errorf("the last item ends with %v, want the reason %v", last, reason)
	}
}

func itemsEnd(add addRow, shown showRow) {
	open := []string{nativeInit, messageStart("m$again"), textStart("half")}
	add("2", "Every item that starts ends exactly once, also if the agent repeats its messages", func(t *testing.T, s *nativeServer) {
		_, _, got := s.native(t, native{Lines: append(said("hi"), textStart("hi"), textWhole("m$again", "hi"), toolUse("m$again-2", "Bash", "c"), toolUse("m$again-2", "Bash", "c"),
			toolResult("c", "ok", `{}`), toolResult("c", "ok", `{}`), nativeResult)})
		checkItemsEnd(t, got)
	})
	add("2", "An item that is open when the agent ends the turn is closed before the terminal event", func(t *testing.T, s *nativeServer) {
		_, _, got := s.native(t, native{Lines: append(open, nativeResult)})
		checkItemsEnd(t, got)
	})
	add("2", "A call without an output is closed before the terminal event", func(t *testing.T, s *nativeServer) {
		_, _, got := s.native(t, native{Lines: []string{nativeInit, toolUse("m$again-1", "Bash", "c"), nativeResult}})
		checkItemsEnd(t, got)
	})
	add("2", "An item that is open when the agent's process ends is cancelled with `process_death`", func(t *testing.T, s *nativeServer) {
		_, _, got := s.native(t, native{Lines: open, Exit: true})
		cancelled(t, got, "process_death")
		equal(t, "code", at(got[len(got)-1].payload(), "error", "code"), "PROCESS_CRASH")
	})
	add("2", "An item that is open when the user cancels is cancelled with `user_cancel`", func(t *testing.T, s *nativeServer) {
		cancelled(t, s.interrupted(t, open, nativeStop), "user_cancel")
	})
	shown("2", "An item that is open when a turn stalls is cancelled with `timeout`", "..TestStall")
	shown("2", "An item whose start was lost starts when it is done", "..TestLateAndDoubleEventsAreDroppedAndCounted")
	shown("2", "An approval that nobody answered is resolved before the terminal event, as `withdrawn`", "..TestCancelWithdrawsApprovals")
}

// interrupted plays lines and cancels the turn once the agent's first item has
// started; the agent then prints stopped. It returns the events of the turn.
func (s *nativeServer) interrupted(t *testing.T, lines []string, stopped ...string) frames {
	t.Helper()
	session := s.session
	turn := s.send(t, session, native{Lines: lines, Stopped: stopped}.prompt())
	return s.events(t, session, func(f frame) bool {
		if f.data["turnId"] != turn {
			return false
		}
		if f.event == "item_start" && !strings.HasSuffix(f.payload()["itemId"].(string), ":0:0") {
			s.post(t, "/api/session/"+session+"/cancel", object{}).ok(t, http.StatusOK)
		}
		return f.ends()
	}).of(turn)
}

// ids returns the values of a field in the events of a turn that have the
// field.
func ids(turn frames, field string) []string {
	var found []string
	for _, f := range turn {
		v := f.payload()[field]
		if v == nil {
			v = at(f.payload(), "finalItem", field)
		}
		if id, ok := v.(string); ok {
			found = append(found, id)
		}
	}
	return found
}

func idsAgree(add addRow, shown showRow) {
	call := append(said("hi"), toolUse("m$again-2", "Bash", "call-1"), toolResult("call-1", "ok", `{}`), nativeResult)
	add("3", "All events of a turn have the same `turnId`", func(t *testing.T, s *nativeServer) {
		session := s.nativeSession(t)
		turn := s.send(t, session, native{Lines: call}.prompt())
		for _, f := range s.events(t, session, frame.ends) {
			if id, ok := f.data["turnId"]; ok && id != turn {
				t.Errorf("%s has the turn %v, want %s", f.event, id, turn)
			}
		}
	})
	add("3", "Start, deltas and end of an item have the same `itemId`", func(t *testing.T, s *nativeServer) {
		_, turn, got := s.native(t, native{Lines: said("hi", nativeResult)})
		equal(t, "ids", ids(got, "itemId")[2:], []string{turn + ":1:0", turn + ":1:0", turn + ":1:0"})
	})
	add("3", "A call and its output have the same `callId`", func(t *testing.T, s *nativeServer) {
		_, _, got := s.native(t, native{Lines: call})
		if found := slices.Compact(ids(got, "callId")); !slices.Equal(found, []string{"call-1"}) {
			t.Errorf("call ids %v", found)
		}
	})
	add("3", "`item_start` of a call has `name` and `callId`", func(t *testing.T, s *nativeServer) {
		_, _, got := s.native(t, native{Lines: call})
		for _, f := range got {
			if p := f.payload(); f.event == "item_start" && p["itemType"] == "function_call" && (p["name"] != "Bash" || p["callId"] != "call-1") {
				t.Errorf("got %v", p)
			}
		}
	})
	add("3", "A call without a name becomes no item, and the turn goes on", func(t *testing.T, s *nativeServer) {
		_, _, got := s.native(t, native{Lines: append(said("hi"), toolUse("m$again-2", "", "c"), nativeResult)})
		for _, f := range got {
			if f.payload()["itemType"] == "function_call" {
				t.Errorf("got %v", f.payload())
			}
		}
		equal(t, "status", got[len(got)-1].payload()["status"], "completed")
	})
	shown("3", "`item_start` of a call without `name` or `callId` is refused with an error that names the field", "event.TestJSONRejectsByName")
	add("3", "The arguments of a call are final in `item_done`: what streamed before differs and does not count", func(t *testing.T, s *nativeServer) {
		_, _, got := s.native(t, native{Lines: []string{
			nativeInit, messageStart("m$again-1"), streamLine(`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"Bash","input":{}}}`),
			streamLine(`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"command\":\"ls"}}`),
			toolUse("m$again-1", "Bash", "c"), toolResult("c", "ok", `{}`), nativeResult,
		}})
		for _, f := range got {
			if at(f.payload(), "finalItem", "type") == "function_call" {
				equal(t, "arguments", at(f.payload(), "finalItem", "arguments", "command"), "make")
			}
		}
	})
}

func terminals(add addRow, shown showRow) {
	ended := func(t *testing.T, turn frames, event string, path []any, want any) {
		t.Helper()
		last := turn[len(turn)-1]
		if last.event != event || at(last.payload(), path...) != want {
			t.Errorf("the turn ends with %s %v, want %s with %v", last.event, last.payload(), event, want)
		}
	}
	status := []any{"status"}
	code := []any{"error", "code"}
	add("4", "A turn that failed ends with `response_error`", func(t *testing.T, s *nativeServer) {
		_, _, got := s.native(t, native{Lines: said("hi", nativeFailed)})
		ended(t, got, "response_error", code, "AGENT_ERROR")
	})
	shown("4", "`response_done` with the status `error` is accepted from others, and recorded as `response_error`", "..TestLateAndDoubleEventsAreDroppedAndCounted")
	shown("4", "An error that is missing is made from `finishReason`", "upsert.TestPacerRules")
	add("4", "The first terminal event wins", func(t *testing.T, s *nativeServer) {
		session, turn, got := s.native(t, native{Lines: said("hi", nativeResult, nativeFailed)})
		ended(t, got, "response_done", status, "completed")
		equal(t, "terminal events", terminal(s.afterwards(t, session).of(turn)), []string{"response_done"})
	})
	add("4", "A cancelled turn is `response_done` with the status `cancelled`", func(t *testing.T, s *nativeServer) {
		ended(t, s.interrupted(t, said("hi")[:4], nativeStop), "response_done", status, "cancelled")
	})
	add("4", "A cancelled turn is never completed, also if the agent reports success", func(t *testing.T, s *nativeServer) {
		ended(t, s.interrupted(t, said("hi")[:4], nativeResult), "response_done", status, "cancelled")
	})
	add("4", "A cancelled turn is cancelled, also if the agent reports an error", func(t *testing.T, s *nativeServer) {
		ended(t, s.interrupted(t, said("hi")[:4], nativeFailed), "response_done", status, "cancelled")
	})
	add("4", "A turn that the agent stops unasked is an error, not cancelled", func(t *testing.T, s *nativeServer) {
		_, _, got := s.native(t, native{Lines: said("hi", nativeStop)})
		ended(t, got, "response_error", code, "AGENT_ERROR")
	})
}

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func idsAreStable(add addRow, shown showRow) {
	add("5", "`itemId` is turn, number of the native message and index of the block in it: `${turnId}:${ordinal}:${index}`", func(t *testing.T, s *nativeServer) {
		two := assistant("m$again-2", `{"type":"text","text":"a"},{"type":"text","text":"b"}`)
		_, turn, got := s.native(t, native{Lines: append(said("hi"), two, nativeResult)})
		equal(t, "ids", slices.Compact(ids(got, "itemId")), []string{turn + ":0:0", turn + ":1:0", turn + ":2:0", turn + ":2:1"})
	})
	add("5", "The output of a call has the id of the call's item and `:output`", func(t *testing.T, s *nativeServer) {
		_, turn, got := s.native(t, native{Lines: []string{nativeInit, toolUse("m$again-1", "Bash", "c"), toolResult("c", "ok", `{}`), nativeResult}})
		equal(t, "ids", slices.Compact(ids(got, "itemId"))[1:3], []string{turn + ":1:0", turn + ":1:0:output"})
	})
	add("5", "A plan has the id of the call that made it and `:plan`, since a turn may have several plans and an item ends once", func(t *testing.T, s *nativeServer) {
		plan := assistant("m$again-1", `{"type":"tool_use","id":"c","name":"TodoWrite","input":{"todos":[{"content":"a","status":"pending","activeForm":"a"}]}}`)
		_, turn, got := s.native(t, native{Lines: []string{nativeInit, plan, toolResult("c", "ok", `{"oldTodos":[],"newTodos":[{"content":"a","status":"pending","activeForm":"a"}]}`), nativeResult}})
		if found := ids(got, "itemId"); !slices.Contains(found, turn+":1:0:plan") {
			t.Errorf("got %v", slices.Compact(found))
		}
	})
	add("5", "The items of a subagent have `${turnId}:${parentCallId}/${ordinal}:${index}`", func(t *testing.T, s *nativeServer) {
		work := strings.Replace(textWhole("m$again-2", "work"), `"parent_tool_use_id":null`, `"parent_tool_use_id":"c"`, 1)
		_, turn, got := s.native(t, native{Lines: []string{nativeInit, toolUse("m$again-1", "Task", "c"), work, toolResult("c", "ok", `{}`), nativeResult}})
		if found := ids(got, "itemId"); !slices.Contains(found, turn+":c/1:0") {
			t.Errorf("got %v", slices.Compact(found))
		}
	})
	shown("5", "The same native bytes give the same ids on replay", "test/recordings.TestHistoryEqualsLive")
	add("5", "`turnId` is a UUID", func(t *testing.T, s *nativeServer) {
		if _, turn, _ := s.native(t, native{Lines: said("hi", nativeResult)}); !uuidForm.MatchString(turn) {
			t.Errorf("got %q", turn)
		}
	})
	add("5", "The agent receives `turnId` as the id of the prompt, where its protocol has one", func(t *testing.T, s *nativeServer) {
		_, turn, got := s.native(t, native{Lines: said("$turn", nativeResult)})
		if !slices.ContainsFunc(got, func(f frame) bool { return at(f.payload(), "finalItem", "content") == turn }) {
			t.Errorf("the agent did not receive %s", turn)
		}
	})
	shown("5", "The `turnId` of a conversation that began elsewhere is derived from the native id of the prompt", "cmd/runnel.TestTranslateHistoryGivesTheServersIDs")
	add("5", "The agent's own ids are in `native` and in no id of ours", func(t *testing.T, s *nativeServer) {
		_, _, got := s.native(t, native{Lines: said("hi", nativeResult)})
		if !slices.ContainsFunc(got, func(f frame) bool { return strings.HasPrefix(fmt.Sprint(at(f.payload(), "native", "messageId")), "m") }) {
			t.Error("no native.messageId")
		}
	})
}

func promptsAndMessages(add addRow, shown showRow) {
	add("6", "The user's message is the first item of a turn, with the origin `user`", func(t *testing.T, s *nativeServer) {
		n := native{Lines: said("hi", nativeResult)}
		_, turn, got := s.native(t, n)
		equal(t, "item", got[1].payload(), object{"type": "item_done", "itemId": turn + ":0:0", "finalItem": object{"type": "message", "content": n.prompt(), "origin": "user"}})
	})
	add("6", "It is in the log before the agent answers, when the server accepts the prompt", func(t *testing.T, s *nativeServer) {
		session := s.nativeSession(t)
		turn := s.send(t, session, native{}.prompt())
		got := s.events(t, session, func(f frame) bool { return f.event == "item_done" }).of(turn)
		equal(t, "events", got.names(), "item_start item_done")
		s.post(t, "/api/session/"+session+"/kill", object{}).ok(t, http.StatusOK)
	})
	add("6", "The agent's echo of the user's message is not shown a second time", func(t *testing.T, s *nativeServer) {
		echo := `{"type":"user","uuid":"$turn","isReplay":true,"parent_tool_use_id":null,"message":{"role":"user","content":"again"}}`
		_, _, got := s.native(t, native{Lines: append([]string{nativeInit, echo}, said("hi", nativeResult)[1:]...)})
		users := 0
		for _, f := range got {
			if at(f.payload(), "finalItem", "origin") == "user" {
				users++
			}
		}
		equal(t, "messages of the user", users, 1)
	})
	shown("6", "Nor is it on replay", "test/recordings.TestHistoryEqualsLive")
	add("7", "A turn holds any number of native messages and calls; only the agent's own end of the turn ends it", func(t *testing.T, s *nativeServer) {
		lines := []string{nativeInit}
		for i := range 5 {
			m, c := fmt.Sprintf("m$again-%d", i), fmt.Sprintf("c%d", i)
			lines = append(lines, messageStart(m), textStart(""), textDelta("hi"), textWhole(m, "hi"), streamLine(`{"type":"message_stop"}`), toolUse(m+"t", "Bash", c), toolResult(c, "ok", `{}`))
		}
		_, _, got := s.native(t, native{Lines: append(lines, nativeResult)})
		equal(t, "terminal events", terminal(got), []string{"response_done"})
		equal(t, "items", len(checkItemsEnd(t, got)), 16)
	})
}

func strangeLines(add addRow, shown showRow) {
	const secret = "a-word-of-the-raw-line"
	odd := func(line string) native {
		return native{Lines: append([]string{nativeInit, line}, said("hi", nativeResult)[1:]...)}
	}
	add("8", "An unknown native message is skipped, and the turn goes on", func(t *testing.T, s *nativeServer) {
		_, _, got := s.native(t, odd(`{"type":"`+secret+`"}`))
		equal(t, "status", got[len(got)-1].payload()["status"], "completed")
		if got.find("notice").event != "" {
			t.Errorf("got %v", got.find("notice").payload())
		}
	})
	add("8", "It is counted, in the metric `runnel_agent_dropped_total` with `what=\"message\"`", func(t *testing.T, s *nativeServer) {
		counted(t, s, "message", odd(`{"type":"`+secret+`"}`))
	})
	add("8", "A line that does not decode becomes one notice, and the turn goes on", func(t *testing.T, s *nativeServer) {
		_, _, got := s.native(t, odd(`{"type":`+secret))
		equal(t, "status", got[len(got)-1].payload()["status"], "completed")
		equal(t, "notices", strings.Count(got.names(), "notice"), 1)
	})
	add("8", "It is counted, in the metric `runnel_agent_dropped_total` with `what=\"line\"`", func(t *testing.T, s *nativeServer) {
		counted(t, s, "line", odd(`{"type":`+secret))
	})
	shown("8", "An invalid event is refused with a message that names the field", "event.TestJSONRejectsByName")
	shown("8", "An invalid event of a provider becomes a notice that names the field", "..TestLateAndDoubleEventsAreDroppedAndCounted")
	shown("8", "A turn has at most 8 notices about invalid events", "..TestReplayEnforcesTurnRulesOnAnyEvents")
	add("9", "A raw line never reaches an event", func(t *testing.T, s *nativeServer) {
		_, _, got := s.native(t, odd(`{"type":`+secret))
		for _, f := range got {
			if f.payload()["type"] != "item_done" && strings.Contains(fmt.Sprint(f.data), secret) {
				t.Errorf("%s: %v", f.event, f.data)
			}
		}
	})
	shown("9", "A raw line never reaches an error or a log", "internal/jsonl.TestTooLongErrorHasNoContent")
	add("9", "A debug capture is opt-in: `runnel record -o FILE` writes the raw lines of its run, in both directions, as they were", captures)
	add("9", "The file of a debug capture has the mode 0600, and is never one that existed", capturesPrivately)
}

// capture runs `runnel record` with the native agent. It returns the command's
// error, and the lines of the recording by direction.
func (s *nativeServer) capture(t *testing.T, file string, n native) (failed error, lines map[string][]string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testprogram.Path(t), "record", "--agent", "claude-code", "--dir", s.project, "--output", file, n.prompt())
	cmd.Env = s.Env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out), nil
	}
	lines = make(map[string][]string)
	for _, text := range strings.Split(strings.TrimSpace(string(read(t, file))), "\n") {
		var line struct{ Dir, Line string }
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		lines[line.Dir] = append(lines[line.Dir], line.Line)
	}
	return nil, lines
}

func captures(t *testing.T, s *nativeServer) {
	const odd = `{"type":"no-type-that-we-know"}`
	printed := append([]string{nativeInit, odd}, said("hi", nativeResult)[1:]...)
	err, lines := s.capture(t, filepath.Join(folder(t), "lines"), native{Lines: printed})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range printed {
		if want = strings.ReplaceAll(want, "$again", "1"); !slices.Contains(lines["out"], want) {
			t.Errorf("no line %s of the agent in %q", want, lines["out"])
		}
	}
	if !slices.ContainsFunc(lines["in"], func(line string) bool {
		return strings.Contains(line, `"type":"user"`) && strings.Contains(line, "no-type-that-we-know")
	}) {
		t.Errorf("no prompt among the lines to the agent: %q", lines["in"])
	}
}

func capturesPrivately(t *testing.T, s *nativeServer) {
	file := filepath.Join(folder(t), "lines")
	n := native{Lines: said("hi", nativeResult)}
	if err, _ := s.capture(t, file, n); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	before := read(t, file)
	if err, _ := s.capture(t, file, n); err == nil || !bytes.Equal(read(t, file), before) {
		t.Errorf("an existing file was taken: %v", err)
	}
}

// counted reports an error unless a turn increases the metric of dropped lines.
func counted(t *testing.T, s *nativeServer, what string, n native) {
	t.Helper()
	line := regexp.MustCompile(`(?m)^runnel_agent_dropped_total\{agent="claude-code",what="` + what + `"\} (\d+)$`)
	count := func() string {
		if m := line.FindSubmatch(s.get(t, "/metrics").body); m != nil {
			return string(m[1])
		}
		return "0"
	}
	before := count()
	s.native(t, n)
	if after := count(); after == before {
		t.Errorf("the metric is %s before and after: %s", after, regexp.MustCompile("(?m)^runnel_agent_dropped.*").FindAll(s.get(t, "/metrics").body, -1))
	}
}
