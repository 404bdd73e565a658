package codex

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/jsonl"
	"github.com/runnel-dev/runnel/internal/jsonrpc"
)

// A storedAgent answers requests for stored turns. turns returns the JSON of
// the list of at most limit turns of a thread.
type storedAgent struct {
	out   *io.PipeWriter
	turns func(thread string, limit int) string
}

func (s storedAgent) Send(line []byte, _ int64) error {
	m, err := jsonrpc.Decode(line)
	if err != nil {
		return err
	}
	var p struct {
		ThreadID string
		Limit    int
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return err
	}
	id, err := m.ID.MarshalJSON()
	go fmt.Fprintf(s.out, `{"id":%s,"result":{"data":%s}}`+"\n", id, s.turns(p.ThreadID, p.Limit))
	return err
}

// storedHistory reads a conversation whose turns are stored. most bounds the
// memory of the turns of subagents. It returns the events, and how many bytes
// were allocated.
func storedHistory(t *testing.T, most int64, turns func(thread string, limit int) string) (evs []event.Event, took uint64, err error) {
	t.Helper()
	in, out := io.Pipe()
	defer in.Close()
	a := &asker{process: storedAgent{out, turns}, lines: jsonl.NewReader(in, maxStored)}
	h := newHistorian("main", a.turns)
	h.took, h.most = func() int64 { return a.took }, most
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = h.all(func(more []event.Event) error {
		evs = append(evs, more...)
		return nil
	})
	runtime.ReadMemStats(&after)
	return evs, after.TotalAlloc - before.TotalAlloc, err
}

func jsonList(element string, n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}

// An agent can change the files of its conversations. A value in them takes two
// bytes, and up to hundreds once it is decoded.
func TestStoredTurnWithManyValuesIsRejected(t *testing.T) {
	_, took, err := storedHistory(t, maxKept, func(string, int) string {
		return `[{"id":"t","status":"completed","items":` + jsonList(`{}`, 4_000_000) + `}]`
	})
	if runnel.CodeOf(err) != runnel.AgentError {
		t.Errorf("read with error %v", err)
	}
	if took > 512<<20 {
		t.Errorf("it took %d MiB of allocations", took>>20)
	}
}

// Turns that are too large together are read one by one.
func TestLargeStoredTurnsAreReadInSmallerPages(t *testing.T) {
	turn := `{"id":"t","status":"completed","items":[{"id":"m","type":"agentMessage","text":"said"}],"other":` + jsonList(`{}`, 300_000) + `}`
	evs, _, err := storedHistory(t, maxKept, func(_ string, limit int) string { return jsonList(turn, min(limit, 2)) })
	if got := bodies[event.ItemDone](evs); len(got) != 1 || err != nil {
		t.Errorf("%d items, %v", len(got), err)
	}
}

func TestTurnsOfSubagentsAreBounded(t *testing.T) {
	const threads, each, most = 20, 1 << 20, 5 << 20
	text := strings.Repeat("x", each)
	read := 0
	evs, _, err := storedHistory(t, most, func(thread string, _ int) string {
		if thread != "main" {
			read++
			return `[{"id":"inner","rootTurnId":"t","status":"completed","items":[{"id":"m","type":"agentMessage","text":"` + text + `"}]}]`
		}
		var items []string
		for i := range threads {
			items = append(items, fmt.Sprintf(`{"id":"s%d","type":"subAgentActivity","kind":"started","agentThreadId":"thread%d"}`, i, i))
		}
		return `[{"id":"t","status":"completed","items":[` + strings.Join(items, ",") + `]}]`
	})
	if err != nil || read != most/each {
		t.Errorf("the turns of %d subagents were read; %v", read, err)
	}
	warned := 0
	for _, n := range bodies[event.Notice](evs) {
		if n.Code == "HISTORY_TOO_LARGE" {
			warned++
		}
	}
	if warned != 1 {
		t.Errorf("%d notices report that turns were left out", warned)
	}
}
