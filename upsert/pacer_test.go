package upsert_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/upsert"
)

var epoch = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// A reader drives a Pacer with a clock that only the test advances.
type reader struct {
	p   upsert.Pacer
	seq int64
	now time.Duration
	got []upsert.Out
}

func (r *reader) event(b event.Body) event.Event {
	r.seq++
	return event.Event{Session: "s", Seq: r.seq, At: epoch.Add(time.Duration(r.seq) * time.Millisecond), Turn: "t", Body: b}
}

func (r *reader) push(bs ...event.Body) {
	for _, b := range bs {
		r.got = append(r.got, r.p.Push(r.event(b), epoch.Add(r.now))...)
	}
}

// pass advances the clock by d and calls Flush whenever it is due.
func (r *reader) pass(d time.Duration) {
	end := r.now + d
	for {
		at, ok := r.p.Due()
		if !ok || at.After(epoch.Add(end)) {
			r.now = end
			return
		}
		r.now = max(r.now, at.Sub(epoch))
		r.got = append(r.got, r.p.Flush(epoch.Add(r.now))...)
	}
}

func (r *reader) String() string {
	var b strings.Builder
	for _, o := range r.got {
		b.WriteString(describe(o) + "\n")
	}
	return b.String()
}

// describe renders the important fields of an Out on one line.
func describe(o upsert.Out) string {
	switch o := o.(type) {
	case upsert.Upsert:
		s := fmt.Sprintf("%d %s %s %s", o.Seq, o.ItemID, o.Status, o.Type)
		switch {
		case o.Message != nil:
			s += fmt.Sprintf(" %s %q", o.Message.Origin, short(o.Message.Content))
		case o.Thinking != nil:
			s += fmt.Sprintf(" %s %q", o.Thinking.ProviderID, short(o.Thinking.Content))
		case o.Plan != nil:
			s += fmt.Sprintf(" %d entries", len(o.Plan.Entries))
		case o.ToolCall != nil:
			tc := o.ToolCall
			s += fmt.Sprintf(" %s(%s)", tc.ToolName, tc.CallID)
			if tc.ToolArguments != nil {
				s += " " + string(tc.ToolArguments)
			}
			if tc.ToolArgumentsText != "" {
				s += " " + short(tc.ToolArgumentsText) + "…"
			}
			if tc.ToolOutput != nil {
				s += fmt.Sprintf(" -> %q", short(*tc.ToolOutput))
			}
			if tc.ToolOutputIsError != nil {
				s += fmt.Sprintf(" failed=%v", *tc.ToolOutputIsError)
			}
		}
		if o.ErrorCode != "" {
			s += " " + o.ErrorCode + ": " + o.ErrorMessage
		}
		return s
	case upsert.Append:
		return fmt.Sprintf("%d %s %d+%q", o.Seq, o.ItemID, o.Offset, short(o.Text))
	case upsert.TurnEvent:
		s := fmt.Sprintf("%d %s", o.Seq, o.Type)
		for _, p := range []string{o.ModelID, o.ProviderID, string(o.Status), o.ErrorCode, o.ErrorMessage} {
			if p != "" {
				s += " " + p
			}
		}
		return s
	case upsert.Approval:
		s := fmt.Sprintf("%d approval %s %s %q", o.Seq, o.Approval.ID, o.Status, o.Approval.Title)
		if o.Choice != "" {
			s += fmt.Sprintf(" %s by %s", o.Choice, o.By)
		}
		return s
	case upsert.Notice:
		return fmt.Sprintf("%d notice %s", o.Seq, o.Code)
	case upsert.Usage:
		return fmt.Sprintf("%d usage %d", o.Seq, o.ContextTokens)
	}
	return fmt.Sprintf("unknown %T", o)
}

func short(s string) string {
	if len(s) > 24 {
		return fmt.Sprintf("%s…[%d]", s[:8], len(s))
	}
	return s
}

func message(id string) event.Body {
	return event.ItemStart{ItemID: id, ItemType: event.TypeMessage}
}

func call(id, callID string) event.Body {
	return event.ItemStart{ItemID: id, ItemType: event.TypeFunctionCall, CallID: callID, Name: "Bash"}
}

func called(id, callID string) event.Body {
	return event.ItemDone{ItemID: id, FinalItem: event.FunctionCall{Name: "Bash", CallID: callID, Arguments: json.RawMessage(`{"n":1}`)}}
}

func output(id, callID string) event.Body {
	return event.ItemStart{ItemID: id, ItemType: event.TypeFunctionCallOutput, CallID: callID}
}

func answer(id, callID, text string) event.Body {
	return event.ItemDone{ItemID: id, FinalItem: event.FunctionCallOutput{CallID: callID, Output: text}}
}

func said(id, text string) event.Body {
	return event.ItemDone{ItemID: id, FinalItem: event.Message{Content: text, Origin: event.OriginAgent}}
}

func delta(id, text string) event.Body { return event.ItemDelta{ItemID: id, DeltaContent: text} }

// words is a delta of n tokens.
func words(id string, n int) event.Body { return delta(id, strings.Repeat("w ", n)) }

var (
	begin     = event.ResponseStart{ProviderID: "script", ModelID: "m1"}
	finished  = event.ResponseDone{Status: event.StatusCompleted}
	cancelled = event.ResponseDone{Status: event.StatusCancelled}
	fault     = event.Fault{Code: "AGENT_ERROR", Message: "boom"}
	question  = event.ApprovalRequested{Approval: event.Approval{ID: "a1", Kind: event.ApprovalTool, Title: "run?", Choices: []event.Choice{{ID: "yes"}}}}
)

func TestPacerRules(t *testing.T) {
	bare := upsert.Pacer{NoFirstPaint: true}
	const ms = time.Millisecond
	for _, c := range []struct {
		name  string
		p     upsert.Pacer
		steps []any // events, and durations for which the clock advances
		want  string
	}{
		{"first paint: the first non-empty delta creates at once", upsert.Pacer{},
			[]any{begin, message("i"), delta("i", ""), delta("i", "H"), delta("i", "i")}, `
1 turn_started m1 script
4 i create message agent "H"`},
		{"first paint: initial content counts as the first delta", upsert.Pacer{},
			[]any{event.ItemStart{ItemID: "i", ItemType: event.TypeMessage, InitialContent: "Hi"}}, `
1 i create message agent "Hi"`},
		{"first paint: white space is content", upsert.Pacer{},
			[]any{message("i"), delta("i", "\n")}, `
2 i create message agent "\n"`},
		{"first paint: can be turned off", bare,
			[]any{message("i"), delta("i", "H")}, ``},
		{"gradient: strictly more than the threshold", bare,
			[]any{message("i"), words("i", 10), words("i", 1)}, `
3 i create message agent "w w w w w w w w w w w "`},
		{"gradient: thresholds follow each other and the last repeats", upsert.Pacer{NoFirstPaint: true, Gradient: []int{1, 3}},
			[]any{message("i"), words("i", 2), words("i", 3), words("i", 1), words("i", 3), words("i", 1)}, `
2 i create message agent "w w "
4 i update message agent "w w w w w w "
6 i update message agent "w w w w w w w w w w "`},
		{"gradient: an empty one is the default", upsert.Pacer{NoFirstPaint: true, Gradient: []int{}},
			[]any{message("i"), words("i", 10), words("i", 1), words("i", 20), words("i", 1)}, `
3 i create message agent "w w w w w w w w w w w "
5 i update message agent "w w w w …[64]"`},
		{"gradient: one large delta emits once and advances past the thresholds it crossed", bare,
			[]any{message("i"), words("i", 90), words("i", 120), words("i", 1)}, `
2 i create message agent "w w w w …[180]"
4 i update message agent "w w w w …[422]"`},
		{"gradient: counts from the last emission, whatever caused it", upsert.Pacer{},
			[]any{message("i"), words("i", 1), words("i", 10), 1000 * ms, words("i", 10), words("i", 1)}, `
2 i create message agent "w "
3 i update message agent "w w w w w w w w w w w "
5 i update message agent "w w w w …[44]"`},
		{"token: a run that is cut is one", bare,
			[]any{message("i"), words("i", 9), delta("i", "loc"), delta("i", "omot"), delta("i", "ive"), delta("i", " x")}, `
6 i create message agent "w w w w …[30]"`},
		{"token: a run longer than 16 bytes counts a token for each four", bare,
			[]any{message("a"), delta("a", strings.Repeat("x", 40)), delta("a", "x"), message("b"), delta("b", strings.Repeat("世", 13)), delta("b", "世")}, `
3 a create message agent "xxxxxxxx…[41]"
6 b create message agent "` + "世世" + `\xe4\xb8…[42]"`},
		{"age: text waits a second, no longer", upsert.Pacer{},
			[]any{message("i"), delta("i", "a"), delta("i", "b"), 999 * ms, delta("i", "c"), 1 * ms}, `
2 i create message agent "a"
4 i update message agent "abc"`},
		{"age: from the oldest delta, not the newest", upsert.Pacer{},
			[]any{message("i"), delta("i", "a"), delta("i", "b"), 600 * ms, delta("i", "c"), 600 * ms, delta("i", "d"), 600 * ms, delta("i", "e")}, `
2 i create message agent "a"
4 i update message agent "abc"`},
		{"age: nothing waits, nothing comes", upsert.Pacer{},
			[]any{message("i"), delta("i", "a"), 3000 * ms}, `
2 i create message agent "a"`},
		{"age: has its own setting", upsert.Pacer{BatchTimeout: 5 * ms},
			[]any{message("i"), delta("i", "a"), delta("i", "b"), 5 * ms}, `
2 i create message agent "a"
3 i update message agent "ab"`},
		{"age: items wait side by side", upsert.Pacer{},
			[]any{message("i"), message("j"), delta("i", "a"), delta("j", "x"), delta("j", "y"), 500 * ms, delta("i", "b"), 500 * ms, 500 * ms}, `
3 i create message agent "a"
4 j create message agent "x"
5 j update message agent "xy"
6 i update message agent "ab"`},
		{"age: an emission for another reason ends the wait", upsert.Pacer{},
			[]any{message("i"), delta("i", "a "), delta("i", "b "), 900 * ms, words("i", 10), 900 * ms, 900 * ms}, `
2 i create message agent "a "
4 i update message agent "a b w w w w w w w w w w "`},
		{"done: complete at once, with the final content", upsert.Pacer{},
			[]any{message("i"), delta("i", "dra"), delta("i", "ft"), said("i", "final"), 5000 * ms}, `
2 i create message agent "dra"
4 i complete message agent "final"`},
		{"done: one complete for empty content", upsert.Pacer{},
			[]any{message("i"), said("i", ""), 5000 * ms}, `
2 i complete message agent ""`},
		{"done: without a start", upsert.Pacer{},
			[]any{event.ItemDone{ItemID: "u", FinalItem: event.Message{Content: "do it", Origin: event.OriginUser}}, begin}, `
1 u complete message user "do it"
2 turn_started m1 script`},
		{"error: with the content so far", upsert.Pacer{},
			[]any{message("i"), delta("i", "a"), delta("i", "b"), event.ItemError{ItemID: "i", Error: fault}}, `
2 i create message agent "a"
4 i error message agent "ab" AGENT_ERROR: boom`},
		{"error: of an item that has no content", upsert.Pacer{},
			[]any{message("i"), event.ItemError{ItemID: "i", Error: fault}}, `
2 i error message agent "" AGENT_ERROR: boom`},
		{"cancelled: nothing more is emitted", upsert.Pacer{},
			[]any{begin, message("i"), delta("i", "a"), delta("i", "b"), event.ItemCancelled{ItemID: "i", Reason: event.ReasonUserCancel}, 5000 * ms, cancelled}, `
1 turn_started m1 script
3 i create message agent "a"
6 turn_complete cancelled`},
		{"interrupted: an error with the content so far", upsert.Pacer{},
			[]any{message("i"), delta("i", "a"), delta("i", "b"), event.ItemCancelled{ItemID: "i", Reason: event.ReasonProcessDeath},
				message("j"), event.ItemCancelled{ItemID: "j", Reason: event.ReasonTimeout}}, `
2 i create message agent "a"
4 i error message agent "ab" PROCESS_CRASH: the agent ended before this was finished
6 j error message agent "" TIMEOUT: time was up before this was finished`},
		{"an ended item never changes", upsert.Pacer{},
			[]any{said("i", "x"), delta("i", "y"), said("i", "z"), event.ItemError{ItemID: "i", Error: fault}, event.ItemCancelled{ItemID: "i"}, message("i"), 5000 * ms}, `
1 i complete message agent "x"`},
		{"thinking names its provider", upsert.Pacer{},
			[]any{begin, event.ItemStart{ItemID: "i", ItemType: event.TypeReasoning}, delta("i", "hm"), event.ItemDone{ItemID: "i", FinalItem: event.Reasoning{Content: "hmm", ProviderID: "p"}}}, `
1 turn_started m1 script
3 i create thinking script "hm"
4 i complete thinking p "hmm"`},
		{"plan: whole or not at all", upsert.Pacer{},
			[]any{event.ItemStart{ItemID: "i", ItemType: event.TypePlan}, delta("i", "x"), event.ItemDone{ItemID: "i", FinalItem: event.Plan{Entries: make([]event.PlanEntry, 2)}}}, `
3 i complete plan 2 entries`},

		{"call: create, update, complete under the call's id", upsert.Pacer{},
			[]any{call("c", "1"), delta("c", `{"n"`), delta("c", `:1}`), called("c", "1"), output("o", "1"), answer("o", "1", "ok")}, `
1 c create tool_call Bash(1)
4 c update tool_call Bash(1) {"n":1}
6 c complete tool_call Bash(1) {"n":1} -> "ok" failed=false`},
		{"call: an empty output is an output", upsert.Pacer{},
			[]any{call("c", "1"), called("c", "1"), answer("o", "1", "")}, `
1 c create tool_call Bash(1)
2 c update tool_call Bash(1) {"n":1}
3 c complete tool_call Bash(1) {"n":1} -> "" failed=false`},
		{"call: a failed tool is complete and says so", upsert.Pacer{},
			[]any{called("c", "1"), event.ItemDone{ItemID: "o", FinalItem: event.FunctionCallOutput{CallID: "1", Output: "no", IsError: true}}}, `
1 c create tool_call Bash(1) {"n":1}
2 c complete tool_call Bash(1) {"n":1} -> "no" failed=true`},
		{"call: long arguments show while they stream", upsert.Pacer{},
			[]any{call("c", "1"), delta("c", strings.Repeat("x", 41)), called("c", "1")}, `
1 c create tool_call Bash(1)
2 c update tool_call Bash(1) xxxxxxxx…[41]…
3 c update tool_call Bash(1) {"n":1}`},
		{"call: output shows while it streams", upsert.Pacer{},
			[]any{called("c", "1"), output("o", "1"), words("o", 5), 1000 * ms, words("o", 11), answer("o", "1", "done")}, `
1 c create tool_call Bash(1) {"n":1}
3 c update tool_call Bash(1) {"n":1} -> "w w w w w "
4 c update tool_call Bash(1) {"n":1} -> "w w w w …[32]"
5 c complete tool_call Bash(1) {"n":1} -> "done" failed=false`},
		{"call: output item that fails", upsert.Pacer{},
			[]any{called("c", "1"), output("o", "1"), delta("o", "half"), event.ItemError{ItemID: "o", Error: fault}, finished}, `
1 c create tool_call Bash(1) {"n":1}
4 c error tool_call Bash(1) {"n":1} -> "half" AGENT_ERROR: boom
5 turn_complete completed`},
		{"call: concurrent ones are independent", upsert.Pacer{},
			[]any{call("c", "1"), call("d", "2"), called("d", "2"), answer("o", "2", "two"), called("c", "1"), answer("p", "1", "one")}, `
1 c create tool_call Bash(1)
2 d create tool_call Bash(2)
3 d update tool_call Bash(2) {"n":1}
4 d complete tool_call Bash(2) {"n":1} -> "two" failed=false
5 c update tool_call Bash(1) {"n":1}
6 c complete tool_call Bash(1) {"n":1} -> "one" failed=false`},
		{"call: two with one id are answered in order", upsert.Pacer{},
			[]any{called("c", "1"), called("d", "1"), answer("o", "1", "one"), answer("p", "1", "two"), answer("q", "1", "three")}, `
1 c create tool_call Bash(1) {"n":1}
2 d create tool_call Bash(1) {"n":1}
3 c complete tool_call Bash(1) {"n":1} -> "one" failed=false
4 d complete tool_call Bash(1) {"n":1} -> "two" failed=false`},
		{"call: an output whose call is unknown is a defensive complete", upsert.Pacer{},
			[]any{output("o", "9"), delta("o", "x"), 5000 * ms, answer("o", "9", "xy"), answer("p", "8", "z")}, `
3 o complete tool_call (9) -> "xy" failed=false
4 p complete tool_call (8) -> "z" failed=false`},
		{"call: never answered is an error when its turn ends", upsert.Pacer{},
			[]any{begin, called("c", "1"), finished}, `
1 turn_started m1 script
2 c create tool_call Bash(1) {"n":1}
2 c error tool_call Bash(1) {"n":1} PROTOCOL_ERROR: the turn ended before this was finished
3 turn_complete completed`},
		{"call: never answered in a failed turn has the turn's error", upsert.Pacer{},
			[]any{begin, call("c", "1"), event.ResponseError{Error: fault}}, `
1 turn_started m1 script
2 c create tool_call Bash(1)
2 c error tool_call Bash(1) AGENT_ERROR: boom
3 turn_error AGENT_ERROR boom`},
		{"call: never answered in a cancelled turn says nothing more", upsert.Pacer{},
			[]any{begin, called("c", "1"), cancelled, 5000 * ms}, `
1 turn_started m1 script
2 c create tool_call Bash(1) {"n":1}
3 turn_complete cancelled`},
		{"call: cancelled output leaves the call open for another", upsert.Pacer{},
			[]any{called("c", "1"), output("o", "1"), event.ItemCancelled{ItemID: "o"}, answer("p", "1", "x")}, `
1 c create tool_call Bash(1) {"n":1}
4 c complete tool_call Bash(1) {"n":1} -> "x" failed=false`},
		{"call: arguments that come after the answer are not lost", upsert.Pacer{},
			[]any{call("c", "1"), answer("o", "1", "x"), called("c", "1")}, `
1 c create tool_call Bash(1)
2 c complete tool_call Bash(1) -> "x" failed=false
3 c complete tool_call Bash(1) {"n":1} -> "x" failed=false`},

		{"turn: done with status error is an error, made from finishReason", upsert.Pacer{},
			[]any{begin, event.ResponseDone{Status: event.StatusError, FinishReason: "max_tokens"}}, `
1 turn_started m1 script
2 turn_error AGENT_ERROR max_tokens`},
		{"turn: done with status error keeps its error", upsert.Pacer{},
			[]any{begin, event.ResponseDone{Status: event.StatusError, FinishReason: "x", Error: &fault}}, `
1 turn_started m1 script
2 turn_error AGENT_ERROR boom`},
		{"turn: the first terminal event wins and late items are dropped", upsert.Pacer{},
			[]any{begin, cancelled, event.ResponseError{Error: fault}, message("i"), delta("i", "x"), said("j", "y"), question,
				event.Notice{Code: "late"}, event.UsageUpdated{ContextTokens: 7}}, `
1 turn_started m1 script
2 turn_complete cancelled
8 notice late
9 usage 7`},
		{"turn: open items are errors, if it was not cancelled", upsert.Pacer{},
			[]any{begin, message("i"), delta("i", "a"), delta("i", "b"), message("j"), finished}, `
1 turn_started m1 script
3 i create message agent "a"
5 i error message agent "ab" PROTOCOL_ERROR: the turn ended before this was finished
5 j error message agent "" PROTOCOL_ERROR: the turn ended before this was finished
6 turn_complete completed`},
		{"approvals, notices and usage come at once and do not flush text", upsert.Pacer{},
			[]any{message("i"), delta("i", "a"), delta("i", "b"), question, event.ApprovalResolved{ApprovalID: "a1", Choice: "yes", By: event.ByUser},
				event.Notice{Code: "RETRY"}, event.UsageUpdated{ContextTokens: 5}, event.SessionUpdated{Title: "x"}}, `
2 i create message agent "a"
4 approval a1 pending "run?"
5 approval a1 resolved "run?" yes by user
6 notice RETRY
7 usage 5`},
		{"approval: an answer to an unknown question", upsert.Pacer{},
			[]any{event.ApprovalResolved{ApprovalID: "a9", Choice: "no", By: event.ByTimeout}}, `
1 approval a9 resolved "" no by timeout`},
		{"events of items that were never announced are ignored", upsert.Pacer{},
			[]any{delta("i", "x"), event.ItemError{ItemID: "i", Error: fault}, event.ItemCancelled{ItemID: "i"}, 5000 * ms}, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := reader{p: c.p}
			for _, s := range c.steps {
				switch s := s.(type) {
				case time.Duration:
					r.pass(s)
				case event.Body:
					r.push(s)
				}
			}
			if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), strings.TrimSuffix(r.String(), "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCloseReportsOpenItemsAsErrors(t *testing.T) {
	var r reader
	r.push(begin, message("i"), delta("i", "a"), delta("i", "b"), said("j", "whole"), message("k"), event.ItemCancelled{ItemID: "k"}, called("c", "1"))
	r.got = r.p.Close(epoch)
	want := `4 i error message agent "ab" PROTOCOL_ERROR: the stream ended before this was finished
8 c error tool_call Bash(1) {"n":1} PROTOCOL_ERROR: the stream ended before this was finished
`
	if diff := cmp.Diff(want, r.String()); diff != "" {
		t.Error(diff)
	}
	if at, ok := r.p.Due(); ok {
		t.Errorf("something is due at %v after Close", at)
	}
	if outs := r.p.Close(epoch); len(outs) != 0 {
		t.Errorf("a second Close gave %d", len(outs))
	}
}

func TestDestroyClosesOpenItemsWithItsReason(t *testing.T) {
	for reason, want := range map[string]event.Fault{
		"the window was closed":           {Code: "PROTOCOL_ERROR", Message: "the window was closed"},
		string(event.ReasonTimeout):       {Code: "TIMEOUT", Message: "time was up before this was finished"},
		string(event.ReasonProcessDeath):  {Code: "PROCESS_CRASH", Message: "the agent ended before this was finished"},
		string(event.ReasonUserCancel):    {},
		"user_cancel, but in other words": {Code: "PROTOCOL_ERROR", Message: "user_cancel, but in other words"},
	} {
		var r reader
		r.push(message("done"), said("done", "whole"), message("open"), words("open", 3), call("call", "c"))
		var got []string
		for _, out := range r.p.Destroy(reason, epoch) {
			u := out.(upsert.Upsert)
			if u.Status != upsert.StatusError || u.ErrorCode != want.Code || u.ErrorMessage != want.Message {
				t.Errorf("%s: %s %s %s", reason, u.Status, u.ErrorCode, u.ErrorMessage)
			}
			got = append(got, u.ItemID)
		}
		open := "open call"
		if want.Code == "" {
			open = ""
		}
		if strings.Join(got, " ") != open {
			t.Errorf("%s: closed %q, want %q", reason, got, open)
		}
		if outs := r.p.Destroy("again", epoch); len(outs) > 0 {
			t.Errorf("%s: closed twice", reason)
		}
	}
}

func TestLateCursorFoldsSeveralTurns(t *testing.T) {
	var r reader
	for _, turn := range []string{"t1", "t2", "t3"} {
		for _, b := range []event.Body{begin, message("m"), delta("m", "a"), said("m", turn), called("c", "1"), answer("o", "1", turn), finished} {
			ev := r.event(b)
			ev.Turn = turn
			r.got = append(r.got, r.p.Push(ev, epoch)...)
		}
	}
	var got []string
	for _, o := range r.got {
		if u, ok := o.(upsert.Upsert); ok && u.Status == upsert.StatusComplete {
			got = append(got, u.TurnID+" "+u.ItemID)
		}
	}
	want := []string{"t1 m", "t1 c", "t2 m", "t2 c", "t3 m", "t3 c"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestUpsertTimes(t *testing.T) {
	var r reader
	r.now = time.Hour
	r.push(message("i"), delta("i", "a"))
	u := r.got[0].(upsert.Upsert)
	if want := epoch.Add(2 * time.Millisecond); !u.SourceTimestamp.Equal(want) {
		t.Errorf("sourceTimestamp %v, want that of the newest event, %v", u.SourceTimestamp, want)
	}
	if want := epoch.Add(time.Hour); !u.EmittedAt.Equal(want) {
		t.Errorf("emittedAt %v, want %v", u.EmittedAt, want)
	}
}

// Between two approvals, a busy reader gets each item at most once. It gets
// every approval and turn event.
func TestCoalesce(t *testing.T) {
	var r reader
	evs := []event.Event{r.event(begin), r.event(message("i"))}
	for range 500 {
		evs = append(evs, r.event(delta("i", "word ")))
	}
	evs = append(evs, r.event(call("c", "1")), r.event(called("c", "1")), r.event(question), r.event(delta("i", "end")),
		r.event(event.ApprovalResolved{ApprovalID: "a1", Choice: "yes", By: event.ByUser}), r.event(answer("o", "1", "ok")))
	r.got = r.p.PushAll(evs, epoch)
	want := `1 turn_started m1 script
399 i create message agent "word wor…[1985]"
504 c create tool_call Bash(1) {"n":1}
505 approval a1 pending "run?"
507 approval a1 resolved "run?" yes by user
508 c complete tool_call Bash(1) {"n":1} -> "ok" failed=false
`
	if diff := cmp.Diff(want, r.String()); diff != "" {
		t.Error(diff)
	}
	r.got = r.p.PushAll([]event.Event{r.event(delta("i", "!")), r.event(said("i", "all")), r.event(finished)}, epoch.Add(time.Minute))
	want = `510 i complete message agent "all"
511 turn_complete completed
`
	if diff := cmp.Diff(want, r.String()); diff != "" {
		t.Error(diff)
	}
}

func TestEndsAreNeverCoalesced(t *testing.T) {
	var r reader
	r.got = r.p.PushAll([]event.Event{r.event(call("c", "1")), r.event(answer("o", "1", "x")), r.event(called("c", "1"))}, epoch)
	want := `2 c complete tool_call Bash(1) -> "x" failed=false
3 c complete tool_call Bash(1) {"n":1} -> "x" failed=false
`
	if diff := cmp.Diff(want, r.String()); diff != "" {
		t.Error(diff)
	}
}

// A reader disconnects while text is held back, and a later frame has already
// reached it. The reader resumes after that frame and still gets the text.
func TestResumedReaderGetsHeldText(t *testing.T) {
	var left, back reader
	var evs []event.Event
	for _, b := range []event.Body{message("i"), delta("i", "a"), delta("i", "b"), event.Notice{Code: "N"}} {
		evs = append(evs, left.event(b))
		left.got = append(left.got, left.p.Push(evs[len(evs)-1], epoch)...)
	}
	if got, want := left.String(), "2 i create message agent \"a\"\n4 notice N\n"; got != want {
		t.Fatalf("the reader saw %s", got)
	}
	outs, err := back.p.History(seq(evs), 4, epoch)
	if err != nil || len(outs) != 0 {
		t.Fatalf("history after 4: %v, %v", outs, err)
	}
	back.pass(time.Second)
	if got, want := back.String(), "3 i update message agent \"ab\"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
