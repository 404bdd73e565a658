package acp

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/testload"
)

// An agent can describe thousands of calls of a turn, and end none of them. The
// turn must not hold whatever is in these descriptions.
func TestCallsOfATurnHoldLittleMemory(t *testing.T) {
	const size = 1 << 20
	long := strings.Repeat("x", size)
	for name, line := range map[string]func(i string) runnel.Line{
		"arguments": func(i string) runnel.Line {
			return upd("tool_call", `"toolCallId":"c`+i+`","status":"pending","rawInput":{"command":"`+long+`"}`)
		},
		"content": func(i string) runnel.Line {
			return upd("tool_call", `"toolCallId":"c`+i+`","status":"in_progress","content":[{"type":"content","content":{"type":"text","text":"`+long+`"}}]`)
		},
		"pieces of content": func(i string) runnel.Line {
			return upd("tool_call_content_chunk", `"toolCallId":"begun","content":{"type":"content","content":{"type":"text","text":"`+long+`"}}`)
		},
		"ids of calls": func(i string) runnel.Line {
			return upd("tool_call", `"toolCallId":"`+long+i+`","status":"pending"`)
		},
		"ids of messages": func(i string) runnel.Line {
			return upd("agent_message_chunk", `"messageId":"`+long+i+`","content":{"type":"text","text":"x"}`)
		},
		"ids of terminals": func(i string) runnel.Line {
			return upd("tool_call_update", `"toolCallId":"begun","_meta":{"terminal_output_delta":{"terminal_id":"`+long+i+`","data":"x"}}`)
		},
		"terminals": func(i string) runnel.Line {
			return upd("tool_call_update", `"toolCallId":"begun","_meta":{"terminal_output_delta":{"terminal_id":"`+i+`","data":"`+long+`"}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "pieces of content" {
				testload.TakesLong(t)
			}
			tr := newTranslator(Agent{Name: "unknown"})
			for _, l := range withBegun(upd("tool_call", `"toolCallId":"begun","status":"pending"`)) {
				agentconn.Feed(tr, l)
			}
			heap := func() uint64 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				return m.HeapAlloc
			}
			before := heap()
			lines, most := maxHeld/size+8, uint64(maxHeld+4*size)
			switch {
			case strings.HasPrefix(name, "ids"):
				lines, most = 12, 4*size
			case name != "arguments" && os.Getenv("RUNNEL_LONG") == "": // as if other calls held most of what a turn may hold
				tr.turns.now.calls.held, tr.turns.now.calls.terminalData = maxHeld-4*size, maxTerminalData-4*size
				lines, most = 12, 8*size
			}
			for i := range lines {
				agentconn.Feed(tr, line(strconv.Itoa(i)))
			}
			if after := heap(); after > before+most {
				t.Errorf("%d MiB of lines hold %d MiB", lines*size>>20, (after-before)>>20)
			}
			runtime.KeepAlive(tr)
		})
	}
}

// A question must show the arguments of its call. If these were dropped, the
// question is denied.
func TestQuestionAboutDroppedArgumentsIsDenied(t *testing.T) {
	tr := newTranslator(Agent{Name: "unknown"})
	feed := func(l runnel.Line) []event.Event {
		evs, _ := agentconn.Feed(tr, l)
		return evs
	}
	for _, l := range withBegun() {
		feed(l)
	}
	noticed := 0
	for i := range 10 {
		evs := feed(upd("tool_call", `"toolCallId":"c`+strconv.Itoa(i)+`","status":"pending","rawInput":{"command":"`+strings.Repeat("x", 4<<20)+`"}`))
		noticed += len(bodies[event.Notice](evs))
	}
	if noticed != 1 {
		t.Errorf("%d notices", noticed)
	}
	asked := out(`{"jsonrpc":"2.0","id":77,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c9","title":"List files"},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}}`)
	evs, replies := agentconn.Feed(tr, asked)
	if got := bodies[event.ApprovalRequested](evs); len(got) != 0 || len(replies) != 1 {
		t.Errorf("asked %+v, %d replies", got, len(replies))
	}
}
