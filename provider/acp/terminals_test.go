package acp

import (
	"runtime"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// Output arrives in many small pieces. A piece must not cost as much as the
// whole output so far.
func TestPiecesOfTerminalOutputAreCheap(t *testing.T) {
	const size, beyond = 1000, 2000
	tr := newTranslator(Agent{Name: "unknown"})
	piece := upd("tool_call_update", `"toolCallId":"c1","_meta":{"terminal_output_delta":{"terminal_id":"t1","data":"`+strings.Repeat("x", size)+`"}}`)
	for _, l := range withBegun(upd("tool_call", `"toolCallId":"c1","status":"in_progress","rawInput":{"command":"x"}`)) {
		agentconn.Feed(tr, l)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	shown := 0
	for range event.MaxOutput/size + beyond {
		evs, _ := agentconn.Feed(tr, piece)
		for _, d := range bodies[event.ItemDelta](evs) {
			shown += len(d.DeltaContent)
		}
	}
	runtime.ReadMemStats(&after)
	if shown < event.MaxOutput-size || shown > event.MaxOutput {
		t.Errorf("%d bytes of output were shown", shown)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
		t.Errorf("the pieces took %d MiB of allocations", used>>20)
	}
}
