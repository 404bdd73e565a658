package recordtest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/universal"
)

// Universal fails the test unless the universal events of a conversation are
// complete. The texts must be exactly the agent's answer. Every tool call and
// result must have its facet. The agent's session id must occur at most once,
// and no event may be of kind Unknown.
func Universal(t testing.TB, evs []event.Event) {
	t.Helper()
	var answer, want strings.Builder
	var calls, results, done, handles int
	var items event.Transcript
	var s universal.Stream
	for _, ev := range evs {
		want.WriteString(answerText(&items, ev))
		if b, ok := ev.Body.(event.ItemDone); ok {
			switch b.FinalItem.(type) {
			case event.FunctionCall:
				calls++
			case event.FunctionCallOutput:
				done++
			}
		}
		for _, u := range s.Push(ev) {
			switch u.Kind {
			case universal.TextOutput:
				if u.Channel == universal.Assistant {
					answer.WriteString(u.Text)
				}
			case universal.ToolCall, universal.ToolResult:
				var f universal.ToolFacet
				if err := json.Unmarshal(u.Data, &f); err != nil || f.Schema != universal.ToolsSchema || f.Results != nil {
					t.Errorf("%d: %s %s: %v", ev.Seq, u.Kind, u.Data, err)
				}
				if u.Kind == universal.ToolCall {
					calls--
				} else {
					results++
				}
			case universal.Unknown:
				t.Errorf("%d: unknown: %s", ev.Seq, u.Data)
			}
			if bytes.Contains(u.Data, []byte(`"schema":"`+universal.HandleSchema)) {
				handles++
			}
		}
	}
	if answer.String() != want.String() {
		t.Errorf("the universal answer is\n%q, want\n%q", answer.String(), want.String())
	}
	if calls != 0 || results < done || handles > 1 {
		t.Errorf("calls without an event: %d; results: %d of %d; handles: %d", calls, results, done, handles)
	}
}

// answerText returns the text that an event adds to the agent's answer: a
// message that ends or is cut off.
func answerText(items *event.Transcript, ev event.Event) string {
	id := items.Apply(ev)
	it, _ := items.Item(id)
	m, whole := it.Final.(event.Message)
	switch {
	case id == "" || it.Status == event.ItemOpen || it.Type != event.TypeMessage || it.ParentCallID != "":
		return ""
	case whole && m.Origin != event.OriginAgent:
		return ""
	}
	return it.Content
}
