package recordtest

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/supervisor"
)

// Checkpoints starts another translator at every turn of a recording, from the
// checkpoint before the turn. From there on, all translators must return the
// same events. Checkpoints returns the number of turns that have a checkpoint.
func Checkpoints[T agentconn.Translator](t *testing.T, in []byte, fresh func() T) (points int) {
	t.Helper()
	one := fresh()
	var others []T
	for l, err := range Lines(t, in) {
		if err != nil {
			t.Fatal(err)
		}
		if l.Dir == runnel.DirIn && one.About(l.Text).Prompt != "" {
			if state, ok := one.Checkpoint(); ok {
				other := fresh()
				if err := other.Restore(state); err != nil {
					t.Fatal(err)
				}
				others = append(others, other)
				points++
			}
		}
		want, wantDue := agentconn.Feed(one, l)
		for _, other := range others {
			got, due := agentconn.Feed(other, l)
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("after a checkpoint (-all +since):\n%s\nat %.200s", d, l.Text)
			}
			if d := cmp.Diff(texts(t, wantDue), texts(t, due)); d != "" {
				t.Fatalf("due replies after a checkpoint (-all +since): %s", d)
			}
		}
	}
	return points
}

func texts(t testing.TB, messages []any) (out []string) {
	t.Helper()
	for _, m := range messages {
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(b))
	}
	return out
}

// silentAgent is an agent that prints nothing and counts the lines that it
// receives.
type silentAgent struct {
	supervisor.Agent
	sent *int
}

func (silentAgent) Stdout() io.Reader { return strings.NewReader("") }

func (silentAgent) Limits() proc.Limits { return proc.Limits{} }

func (m silentAgent) Send([]byte, int64) error { *m.sent++; return nil }

// CheckTakeovers simulates takeovers of an agent whose supervisor kept the
// first lines of a recording, with more lines each time. Each new connection
// must emit the events of those lines, write exactly the replies that are due
// and unwritten, and have the same open approvals. CheckTakeovers returns the
// backlog of the takeover after the last line.
func CheckTakeovers[T agentconn.Translator](t *testing.T, in []byte, fresh func() T) (back runnel.Backlog) {
	t.Helper()
	original := fresh()
	var lines []supervisor.Line
	var want []event.Event
	due := make(map[string]bool)
	for l, err := range Lines(t, in) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, supervisor.Line{In: l.Dir == runnel.DirIn, At: l.At, Text: append(bytes.Clone(l.Text), '\n')})
		if l.Dir == runnel.DirIn {
			delete(due, original.About(l.Text).Settles)
		}
		evs, messages := agentconn.Feed(original, l)
		want = append(want, evs...)
		for _, text := range texts(t, messages) {
			due[original.About([]byte(text)).Settles] = true
		}
		if len(lines)%7 == 1 || len(due) > 0 { // each takeover is slow, so only some positions are tested
			takeover(t, lines, fresh, original, want, len(due))
		}
	}
	return takeover(t, lines, fresh, original, want, len(due))
}

func takeover[T agentconn.Translator](t *testing.T, lines []supervisor.Line, fresh func() T, original T, want []event.Event, due int) runnel.Backlog {
	t.Helper()
	sent := 0
	tr := fresh()
	back, err := agentconn.New(silentAgent{sent: &sent}, agentconn.Agent{Name: "Agent"}, tr, runnel.Options{}).RestoreBacklog(&supervisor.Backlog{Lines: lines})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, back.Events, cmpopts.EquateEmpty()); d != "" {
		t.Fatalf("after %d lines (-original +takeover):\n%s", len(lines), d)
	}
	if sent != due {
		t.Fatalf("after %d lines: %d replies were due, and %d were sent", len(lines), due, sent)
	}
	if d := cmp.Diff(original.Waiting(), tr.Waiting(), cmpopts.EquateEmpty()); d != "" {
		t.Fatalf("after %d lines, open questions: %s", len(lines), d)
	}
	if back.After != -1 {
		t.Fatalf("the backlog without a marked turn has After = %d, want -1", back.After)
	}
	return back
}
