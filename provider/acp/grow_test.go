package acp

import (
	"testing"
	"time"
)

func TestChunkTakesFewAllocations(t *testing.T) {
	tr, at := newTranslator(Agent{Name: "agent"}), time.Unix(1, 0)
	tr.session.id = "s"
	tr.Sent([]byte(`{"jsonrpc":"2.0","id":"prompt:u","method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"go"}]}}`), at)
	line := []byte(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"some\nwords"}}}}`)
	tr.Printed(line, at)
	const golden = 2 // the text and the body of the event
	if got := testing.AllocsPerRun(1000, func() {
		if evs, _ := tr.Printed(line, at); len(evs) != 1 {
			t.Fatal(len(evs))
		}
	}); got > golden {
		t.Errorf("%v allocations for a chunk, want %v", got, golden)
	}
}
