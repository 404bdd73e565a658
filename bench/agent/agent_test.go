package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/runnel-dev/runnel/bench/load"
)

// ended is a writer that reports when a line that contains a mark was written.
type ended struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	mark string
	done chan struct{}
}

func (e *ended) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if bytes.Contains(p, []byte(e.mark)) {
		close(e.done)
	}
	return e.buf.Write(p)
}

func (e *ended) stamps(t *testing.T, delta string) (numbers []int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for line := range strings.Lines(e.buf.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
		if !strings.Contains(line, delta) {
			continue
		}
		_, text, _ := strings.Cut(line, `"text":"`)
		text, _, _ = strings.Cut(text, `"`)
		for _, s := range load.Stamps(text) {
			numbers = append(numbers, s.N)
		}
	}
	return numbers
}

func TestBothProtocolsWriteThePlan(t *testing.T) {
	plan := load.Plan{Events: 3}.Prompt()
	for name, tt := range map[string]struct {
		handler     func(*output) func(json.RawMessage) error
		lines       []string
		delta, last string
	}{
		"stream-json": {
			func(o *output) func(json.RawMessage) error { return (&streamJSON{out: o}).handle },
			[]string{`{"type":"control_request","request_id":"1","request":{"subtype":"initialize"}}`, `{"type":"user","message":{"role":"user","content":"` + plan + `"}}`},
			`"text_delta"`, `"type":"result"`,
		},
		"acp": {
			func(o *output) func(json.RawMessage) error { return (&acp{out: o}).handle },
			[]string{`{"jsonrpc":"2.0","id":1,"method":"initialize"}`, `{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"prompt":[{"type":"text","text":"` + plan + `"}]}}`},
			`"agent_message_chunk"`, `"stopReason":"end_turn"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := &ended{mark: tt.last, done: make(chan struct{})}
			if err := eachLine(strings.NewReader(strings.Join(tt.lines, "\n")), tt.handler(&output{w: e})); err != nil {
				t.Fatal(err)
			}
			<-e.done
			if got := e.stamps(t, tt.delta); !slices.Equal(got, []int{0, 1, 2}) {
				t.Errorf("deltas %v", got)
			}
		})
	}
}
