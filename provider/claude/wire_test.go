package claude

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentrig"
	"github.com/runnel-dev/runnel/internal/recordtest"
	"github.com/runnel-dev/runnel/internal/testexec"
)

// This file tests the translator with damaged, hostile and unknown lines.

const testTurn = "11111111-2222-4333-8444-555555555555"

// Lines that an agent prints.
const (
	initLine   = `{"type":"system","subtype":"init","session_id":"s","model":"m","permissionMode":"default","apiKeySource":"none","tools":["Bash"]}`
	startLine  = `{"type":"stream_event","session_id":"s","event":{"type":"message_start","message":{"id":"msg_1","role":"assistant","usage":{"input_tokens":1,"output_tokens":1}}}}`
	blockLine  = `{"type":"stream_event","session_id":"s","event":{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}}`
	deltaLine  = `{"type":"stream_event","session_id":"s","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}}`
	wholeLine  = `{"type":"assistant","session_id":"s","message":{"id":"msg_1","role":"assistant","content":[{"type":"text","text":"hi"}]}}`
	resultLine = `{"type":"result","subtype":"success","is_error":false,"stop_reason":"end_turn","session_id":"s","usage":{"input_tokens":1,"output_tokens":2}}`
)

// answersSetup is a script of sh that answers the two control requests which every
// session sends first.
const answersSetup = "read -r line\n" + answersLine + "\nread -r line\n" + answersLine + "\n"

// answersLine is a line of sh that answers the control request in $line.
const answersLine = `echo '{"type":"control_response","response":{"subtype":"success","request_id":"'"$(printf '%s' "$line" | sed 's/.*"request_id":"\([^"]*\)".*/\1/')"'","response":{"commands":[],"models":[]}}}'`

func promptLine(text string) string {
	b, err := json.Marshal(prompt(testTurn, "", runnel.Text(text), func(string) bool { return false }))
	if err != nil {
		panic(err)
	}
	return string(b)
}

// run returns the events of a new translator for a prompt and the agent's
// lines.
func run(lines ...string) []event.Event { return feed(newTranslator(), lines...) }

func feed(t *translator, lines ...string) []event.Event {
	at := fixtureStart
	evs := t.Sent([]byte(promptLine("go")), at)
	for _, l := range lines {
		out, _ := t.Printed([]byte(l), at)
		evs = append(evs, out...)
	}
	return evs
}

func TestUnknownMessagesChangeNothing(t *testing.T) {
	plain := run(initLine, startLine, blockLine, deltaLine, wholeLine, resultLine)
	tr := newTranslator()
	odd := feed(tr,
		`{"type":"session_weather","forecast":{"deep":[[[{}]]]}}`, initLine, `{"type":"system","subtype":"never_seen","x":1}`,
		`{"type":"stream_event","event":{"type":"content_block_wobble","index":0}}`, startLine,
		strings.Replace(blockLine, `"index":0`, `"index":0,"new_field":{"a":[1,2]}`, 1),
		`{"type":"stream_event","event":{"type":"content_block_start","index":7,"content_block":{"type":"server_tool_use","id":"x","name":"y"}}}`,
		`{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{}}}}`,
		deltaLine, `{"type":"stream_event","event":{"type":"content_block_stop","index":7}}`, `{"type":"stream_event"}`, `{"type":"user"}`,
		`{"type":"assistant"}`, `{"type":"control_request"}`, `{"type":"control_response"}`, `{"type":"rate_limit_event"}`, `{"type":"result_preview"}`, `{}`, `[]`[:0]+`{"type":5}`,
		strings.Replace(wholeLine, `"session_id":"s"`, `"session_id":"s","error":{"an":"object"},"timestamp":17,"tool_use_meta":[1]`, 1), resultLine,
	)
	var notices int
	kept := odd[:0:0]
	for _, ev := range odd {
		if _, ok := ev.Body.(event.Notice); ok {
			notices++
			continue
		}
		kept = append(kept, ev)
	}
	if d := cmp.Diff(dump(plain), dump(kept)); d != "" {
		t.Error(d)
	}
	if notices != 1 { // {"type":5} is not of the protocol
		t.Errorf("%d notices", notices)
	}
	if messages, lines := tr.Skipped(); messages != 4 || lines != 1 {
		t.Errorf("%d messages and %d lines were skipped", messages, lines)
	}
}

func TestUndecodableLinesBecomeNotices(t *testing.T) {
	secret := "sk-ant-canary"
	for _, junk := range []string{
		"not json " + secret, `{"type":"assistant","message":` + secret, "\x1b[31m" + secret, `"` + secret + `"`, "[1,2]", "null", "17",
		"\xff\xfe{\x00}\x00" + secret, `{"type":"assistant"}{"type":"x"}` + secret, strings.Repeat("[", 100000),
	} {
		evs := run(initLine, startLine, blockLine, junk, deltaLine, wholeLine, resultLine)
		sound(t, evs)
		if strings.Contains(dump(evs), secret) {
			t.Errorf("%q: an event contains the line", junk)
		}
		got := summary(evs)
		if got[len(got)-1] != "completed end_turn" || !strings.Contains(strings.Join(got, "\n"), "message hi") {
			t.Errorf("%.40q: %q", junk, got)
		}
		if junk == "null" {
			continue // JSON null decodes to a frame without fields, so no notice is emitted
		}
		if n := bodies[event.Notice](evs); len(n) != 1 || n[0].Code != "UNDECODABLE_LINE" {
			t.Errorf("%.40q: notices %+v", junk, n)
		}
	}
}

func TestInvalidIDsOfAnAgentAreContained(t *testing.T) {
	result := func(id string) string {
		return `{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":"x"}]}}`
	}
	callLine := strings.Replace(wholeLine, `{"type":"text","text":"hi"}`, `{"type":"tool_use","id":"c1","name":"Bash","input":{"command":"ls"}}`, 1)
	evs := run(initLine, startLine, blockLine, blockLine, deltaLine, wholeLine, wholeLine, callLine, callLine, result("c1"), result("c1"),
		result("nobody"), result(strings.Repeat("z", 100000)), resultLine, resultLine, wholeLine, deltaLine)
	for ev, err := range runnel.Replay("s", providerID, yieldAll(evs)) {
		if err != nil || len(dump([]event.Event{ev})) > 300000 {
			t.Errorf("%v, %d bytes", err, len(dump([]event.Event{ev})))
		}
	}
	calls := 0
	for _, b := range bodies[event.ItemDone](evs) {
		if m, ok := b.FinalItem.(event.Message); ok && m.Origin == event.OriginAgent && m.Content != "hi" {
			t.Errorf("message %q", m.Content)
		}
		if f, ok := b.FinalItem.(event.FunctionCall); ok && f.CallID == "c1" {
			calls++
		}
	}
	if calls != 1 {
		t.Errorf("%d items for the call, want 1", calls)
	}
}

// damages are faults that the test applies to the streams of recordings.
var damages = map[string]recordtest.Damage{
	"every line twice":            recordtest.Twice(`.`),
	"blocks start twice":          recordtest.Twice(`content_block_start`),
	"blocks grow twice":           recordtest.Twice(`content_block_delta`),
	"blocks stop twice":           recordtest.Twice(`content_block_stop`),
	"messages start twice":        recordtest.Twice(`message_start`),
	"messages are sent twice":     recordtest.Twice(`"type\\?":\\?"assistant"`),
	"no block starts":             recordtest.DropLines(`content_block_start`),
	"no block grows":              recordtest.DropLines(`content_block_delta`),
	"no block stops":              recordtest.DropLines(`content_block_stop`),
	"no message starts":           recordtest.DropLines(`message_start`),
	"no message stops":            recordtest.DropLines(`message_stop|message_delta`),
	"nothing but whole frames":    recordtest.DropLines(`stream_event`),
	"no whole text":               wholeTexts,
	"no whole text, no starts":    recordtest.Both(wholeTexts, recordtest.DropLines(`content_block_start`)),
	"no whole text, no stops":     recordtest.Both(wholeTexts, recordtest.DropLines(`content_block_stop`)),
	"no whole text, starts twice": recordtest.Both(wholeTexts, recordtest.Twice(`content_block_start`)),
	"one block index":             recordtest.Replaced(`"index":1`, `"index":0`),
}

// wholeTexts removes the assistant frames with text.
var wholeTexts = recordtest.DropLines(`^\{"type":"assistant".*"type":"text"|^\{.*"type":"text".*"type":"assistant"`)

// For each damage to the stream of a message, the text is the text of the
// complete message, or the turn fails.
func TestDamagedStreamsKeepTheirTextOrFail(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			eachRecording(t, func(t *testing.T, _ fixture, path string, a *txtar.Archive) {
				if strings.Contains(path, "@2.1.197") && name != "every line twice" {
					return // the older version has the same stream
				}
				whole := recordtest.Translated(t, New(), section(a, "in"))
				damaged := recordtest.Events(t, New(), damage(recordtest.All(t, section(a, "in"))))
				closed(t, damaged)
				recordtest.SameTexts(t, whole, damaged)
			})
		})
	}
}

// The turn fails if neither the stream nor the result has the complete text.
func TestUnknownTextFailsTheTurn(t *testing.T) {
	const stopLine = `{"type":"stream_event","session_id":"s","event":{"type":"content_block_stop","index":0}}`
	withText := strings.Replace(resultLine, `"subtype"`, `"result":"hi","subtype"`, 1)
	for name, lines := range map[string][]string{
		"a block starts twice":             {blockLine, deltaLine, blockLine, deltaLine, stopLine},
		"a block stops that never started": {stopLine},
		"a block grows after its end":      {blockLine, stopLine, deltaLine},
		"a block grows before its message": nil,
	} {
		before := []string{initLine, startLine}
		if lines == nil {
			before, lines = []string{initLine}, []string{deltaLine}
		}
		stream := append(before, lines...)
		evs := run(append(slices.Clone(stream), resultLine)...)
		closed(t, evs)
		end, failed := last(evs).(event.ResponseError)
		if n := bodies[event.Notice](evs); !failed || end.Error.Code != string(runnel.ProtocolError) || len(n) != 1 || n[0].Code != string(runnel.ProtocolError) {
			t.Errorf("%s: %s", name, dump(evs))
		}
		// The turn completes if the result or an assistant frame has the text.
		for _, later := range [][]string{{withText}, {wholeLine, resultLine}} {
			evs := run(append(slices.Clone(stream), later...)...)
			closed(t, evs)
			if got := summary(evs); !slices.Contains(got, "message hi") || got[len(got)-1] != "completed end_turn" || len(bodies[event.Notice](evs)) != 0 {
				t.Errorf("%s, with %.60s: %q", name, later[0], got)
			}
		}
	}
}

func TestFilesThatTheAgentNamesAreReported(t *testing.T) {
	plan := func(isError bool, text, record string) []string {
		return []string{
			strings.Replace(wholeLine, `{"type":"text","text":"hi"}`, `{"type":"tool_use","id":"c1","name":"ExitPlanMode","input":{}}`, 1),
			fmt.Sprintf(`{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","is_error":%v,"content":%q}]},"tool_use_result":%s}`, isError, text, record),
		}
	}
	const saved = "Approved.\n\nYour plan has been saved to: /plans/a b.md\nYou can refer to it."
	a := []event.AgentFile{{Path: "/plans/a b.md", Kind: "plan"}}
	for name, c := range map[string]struct {
		lines []string
		want  []event.AgentFile
	}{
		"a plan in the record": {plan(false, "Approved.", `{"plan":"p","filePath":"/plans/a b.md"}`), a},
		"a plan in the output": {plan(false, saved, `null`), a},
		"a plan in both":       {plan(false, saved, `{"plan":"p","filePath":"/plans/a b.md"}`), a},
		"a plan without file":  {plan(false, "Approved.", `{"plan":"p"}`), nil},
		"a denied plan":        {plan(true, saved, `"Error"`), nil},
		"skills among text": {
			[]string{`{"type":"user","message":{"role":"user","content":[{"type":"text","text":"Two skills.\nBase directory for this skill: /s/one\n\nGreet.\nBase directory for this skill: /s/two \n"}]}}`},
			[]event.AgentFile{{Path: "/s/one/SKILL.md", Kind: "skill"}, {Path: "/s/two/SKILL.md", Kind: "skill"}},
		},
	} {
		var got []event.AgentFile
		for _, b := range bodies[event.SessionUpdated](run(append(append([]string{initLine}, c.lines...), resultLine)...)) {
			got = append(got, b.Files...)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func yieldAll(evs []event.Event) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for _, ev := range evs {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// closed applies the rules of a turn as the engine does, and checks them.
func closed(t testing.TB, evs []event.Event) {
	t.Helper()
	agentrig.Closed(t, agentrig.Ruled(t, providerID, evs))
}

// The test cuts recordings after every line. For cuts within a line it checks
// that the incomplete line changes nothing.
func TestTurnEndsOnceWhenOutputIsCutAtAnyByte(t *testing.T) {
	for _, name := range []string{"text@2.1.197", "tools@2.1.330", "interrupt-approval@2.1.330"} {
		a, err := txtar.ParseFile("testdata/" + name + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		tr := newTranslator()
		var evs []event.Event
		for l, err := range recorded(t, section(a, "in")) {
			if err != nil {
				t.Fatal(err)
			}
			if l.Dir == runnel.DirIn {
				evs = append(evs, tr.Sent(l.Text, l.At)...)
				continue
			}
			recordtest.Torn(t, tr, l)
			got, _ := tr.Printed(l.Text, l.At)
			evs = append(evs, got...)
			closed(t, evs)
		}
	}
}

// The test ends recordings after every line, as if the agent had exited there.
// Held events must be emitted, and every item and turn must end.
func TestTurnEndsOnceWhenTheAgentDiesBetweenLines(t *testing.T) {
	for _, name := range []string{"background-agent@2.1.197", "background-meanwhile@2.1.330", "subagents@2.1.330", "background-left@2.1.330"} {
		a, err := txtar.ParseFile("testdata/" + name + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		lines := recordtest.All(t, section(a, "in"))
		for n := range lines {
			closed(t, recordtest.Events(t, New(), lines[:n]))
		}
	}
}

// fakeAgent returns options for a program that answers the handshake and then
// runs a shell script. The program's directory has the file "out".
func fakeAgent(t *testing.T, script, out string) runnel.Options {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell script")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "claude")
	text := "#!/bin/sh\ncd " + dir + "\n" + answersSetup + script + "\n"
	if err := os.WriteFile(filepath.Join(dir, "out"), []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := testexec.Write(path, text); err != nil {
		t.Fatal(err)
	}
	// Without a folder of its own, the agent works in this repository, and go
	// test runs the tests again after each change of its .git.
	return runnel.Options{Path: path, Dir: t.TempDir()}
}

// drainAll runs a fake agent, sends a prompt and collects events to the end.
func drainAll(t *testing.T, opt runnel.Options) ([]event.Event, error) {
	t.Helper()
	c, err := New().Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.Prompt(t.Context(), testTurn, runnel.Text("go")) // fails if the agent has exited
	timer := time.AfterFunc(waitTimeout, func() { c.Close() })
	defer timer.Stop()
	var evs []event.Event
	for {
		ev, err := c.Next(t.Context())
		if err != nil {
			if !timer.Stop() {
				t.Fatal("the connection does not end by itself")
			}
			return evs, err
		}
		evs = append(evs, ev)
	}
}

func turnOf(lines ...string) string {
	all := append([]string{initLine, startLine, blockLine, deltaLine}, lines...)
	return strings.Join(append(all, wholeLine, resultLine), "\n") + "\n"
}

func TestLineBeyondTheBoundIsReportedAndSkipped(t *testing.T) {
	long := `{"type":"x","y":"` + strings.Repeat("z", 17<<20) + `"}`
	evs, err := drainAll(t, fakeAgent(t, "read -r p; cat out", turnOf(long)))
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	sound(t, evs)
	got := summary(evs)
	if got[len(got)-1] != "completed end_turn" {
		t.Errorf("got %q", got)
	}
	if n := bodies[event.Notice](evs); len(n) != 1 || n[0].Code != "LINE_TOO_LONG" {
		t.Errorf("notices %+v", n)
	}
}

func TestTornAndForeignLinesChangeNothing(t *testing.T) {
	out := "\r\n\n" + strings.ReplaceAll(turnOf("\xff\xfe broken", "Warning: something\x00"), "\n", "\r\n") + `{"type":"assistant","mess`
	evs, err := drainAll(t, fakeAgent(t, "read -r p; cat out; echo noise >&2", out))
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if n := bodies[event.Notice](evs); len(n) != 2 || strings.Contains(dump(evs), "Warning") {
		t.Errorf("notices %+v", n)
	}
	if !strings.Contains(strings.Join(summary(evs), "\n"), "message hi") {
		t.Errorf("got %q", summary(evs))
	}
}

func TestStdoutHeldByADescendantDoesNotBlockTheTurn(t *testing.T) {
	t.Parallel()
	evs, err := drainAll(t, fakeAgent(t, "read -r p; cat out; sleep 600 & exit 3", turnOf()))
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if got := summary(evs); got[len(got)-1] != "completed end_turn" {
		t.Errorf("got %q", got)
	}
}

func TestExitWithoutResultIsACrash(t *testing.T) {
	untilPrompt := `while read -r p; do case $p in *'"user"'*) break ;; esac; done`
	opt := fakeAgent(t, untilPrompt+"; cat out; exit 7", strings.Join([]string{initLine, startLine, blockLine, deltaLine}, "\n")+"\n")
	c, err := New().Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Prompt(t.Context(), testTurn, runnel.Text("go")); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = c.Next(t.Context())
	}
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	c.Close()
	if st, ok := c.(runnel.Exiter).ExitStatus(); !ok || st.Code != 7 {
		t.Errorf("exit status %+v, %v", st, ok)
	}
}

func TestBlockedStdinDoesNotBlockOtherWork(t *testing.T) {
	t.Parallel()
	c, err := New().Open(t.Context(), fakeAgent(t, "sleep 600", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	text := strings.Repeat("x", 8<<20)
	for n := 0; ; n++ {
		err := c.Prompt(t.Context(), testTurn, runnel.Text(text))
		if runnel.CodeOf(err) == runnel.AgentStalled {
			break
		}
		if err != nil || n > 100 {
			t.Fatalf("prompt %d: %v", n, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestUnsupportedControlRequestsAreRejectedAtOnce(t *testing.T) {
	tr := newTranslator()
	_, replies := tr.Printed([]byte(`{"type":"control_request","request_id":"q","request":{"subtype":"elicitation"}}`), fixtureStart)
	b, err := json.Marshal(replies)
	if err != nil || string(b) != `[{"type":"control_response","response":{"subtype":"error","request_id":"q","error":"not supported by this client"}}]` {
		t.Errorf("%s, %v", b, err)
	}
}

func TestQuestionBetweenTurnsGetsItsOwnTurn(t *testing.T) {
	tr := newTranslator()
	ask := `{"type":"control_request","request_id":"q","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"},"tool_use_id":"c"}}`
	evs, _ := tr.Printed([]byte(ask), fixtureStart)
	a := bodies[event.ApprovalRequested](evs)
	if len(a) != 1 || evs[0].Turn == "" || event.Type(evs[0].Body) != "response_start" {
		t.Fatalf("events\n%s", dump(evs))
	}
	r, err := tr.approvals.answer(a[0].Approval.ID, runnel.Decision{Choice: allowOnce})
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	evs = append(evs, tr.Sent(line, fixtureStart)...)
	more, _ := tr.Printed([]byte(`{"type":"system","subtype":"status"}`), fixtureStart)
	evs = append(evs, more...)
	sound(t, evs)
	if got := summary(evs); got[len(got)-1] != "completed " {
		t.Errorf("got %q", got)
	}
}

func TestResultOfAnotherTurnDoesNotEndThePromptsTurn(t *testing.T) {
	foreign := strings.Replace(resultLine, `"type":"result"`, `"type":"result","origin":{"kind":"task-notification"}`, 1)
	newer := strings.Replace(resultLine, `"type":"result"`, `"type":"result","user_message_uuids":["someone-else"]`, 1)
	for _, l := range []string{foreign, newer} {
		evs := run(initLine, startLine, blockLine, deltaLine, l, wholeLine, resultLine)
		sound(t, evs)
		if n := len(bodies[event.ResponseDone](evs)); n != 1 || event.Type(last(evs)) != "response_done" {
			t.Errorf("%d ends\n%s", n, dump(evs))
		}
	}
}

func TestDecideRejectsChoicesThatTheApprovalDoesNotOffer(t *testing.T) {
	tr := newTranslator()
	tr.Sent([]byte(promptLine("go")), fixtureStart)
	tr.Printed([]byte(initLine), fixtureStart)
	evs, _ := tr.Printed([]byte(`{"type":"control_request","request_id":"q","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"},"tool_use_id":"c"}}`), fixtureStart)
	id := bodies[event.ApprovalRequested](evs)[0].Approval.ID
	for _, d := range []runnel.Decision{
		{Choice: "allow_always"}, {Choice: allowSession}, {Choice: option + "1"}, {}, {Choice: allowOnce, UpdatedArguments: []byte(`[1]`)},
		{Choice: allowOnce, UpdatedArguments: []byte(`null`)}, {Choice: allowOnce, UpdatedArguments: []byte(`{`)},
	} {
		if _, err := tr.approvals.answer(id, d); runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("%+v: %v", d, err)
		}
	}
	if _, err := tr.approvals.answer("another", runnel.Decision{Choice: allowOnce}); runnel.CodeOf(err) != runnel.ApprovalGone {
		t.Errorf("unknown approval: %v", err)
	}
}

func TestOpenStopsWhenTheContextExpires(t *testing.T) {
	opt := fakeAgent(t, "", "")
	script := "#!/bin/sh\nsleep 600\n"
	if err := testexec.Write(opt.Path, script); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := New().Open(ctx, opt); runnel.CodeOf(err) != runnel.Timeout {
		t.Errorf("got %v", err)
	}
}

// The notice about a rejected interrupt is part of the running turn.
func TestRejectedInterruptIsReported(t *testing.T) {
	const (
		ask     = `{"type":"control_request","request_id":"runnel-9","request":{"subtype":"interrupt"}}`
		refusal = `{"type":"control_response","response":{"subtype":"error","request_id":"runnel-9","error":"not now"}}`
	)
	for name, c := range map[string]struct {
		lines []string
		want  int
	}{
		"refused":         {[]string{initLine, startLine}, 1},
		"before it began": {nil, 1},
		"after the turn":  {[]string{initLine, startLine, resultLine}, 0},
	} {
		tr := newTranslator()
		feed(tr, c.lines...)
		tr.Sent([]byte(ask), fixtureStart)
		evs, _ := tr.Printed([]byte(refusal), fixtureStart)
		if len(evs) != c.want || c.want == 1 && evs[0].Body.(event.Notice).Code != string(runnel.InterruptFailed) {
			t.Errorf("%s: %+v", name, evs)
		}
	}
}
