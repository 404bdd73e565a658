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
	"github.com/runnel-dev/runnel/internal/supervisor"
)

// Checkpoints begins every turn of a recording a second time, with a translator
// that is restored from the checkpoint before the turn. From there on both
// translators must give the same events. It returns how many turns it began.
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
				t.Fatalf("what is due after a checkpoint (-all +since): %s", d)
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

// mute is an agent that prints nothing. It counts the lines that it is sent.
type mute struct {
	supervisor.Agent
	told *int
}

func (mute) Stdout() io.Reader { return strings.NewReader("") }

func (m mute) Send([]byte, int64) error { *m.told++; return nil }

// Relive takes over an agent of which the supervisor kept the first lines of a
// recording, again and again with more of them. Each connection must emit the
// events of those lines, write the replies that were due and not yet written
// and no others, and have the same questions open. Relive returns the backlog
// that taking over the whole recording gives.
func Relive[T agentconn.Translator](t *testing.T, in []byte, fresh func() T) (back runnel.Backlog) {
	t.Helper()
	lived := fresh()
	var lines []supervisor.Line
	var want []event.Event
	due := make(map[string]bool)
	for l, err := range Lines(t, in) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, supervisor.Line{In: l.Dir == runnel.DirIn, At: l.At, Text: append(bytes.Clone(l.Text), '\n')})
		if l.Dir == runnel.DirIn {
			delete(due, lived.About(l.Text).Settles)
		}
		evs, messages := agentconn.Feed(lived, l)
		want = append(want, evs...)
		for _, text := range texts(t, messages) {
			due[lived.About([]byte(text)).Settles] = true
		}
		if len(lines)%7 == 1 || len(due) > 0 { // each is a run of its own
			relived(t, lines, fresh, lived, want, len(due))
		}
	}
	return relived(t, lines, fresh, lived, want, len(due))
}

func relived[T agentconn.Translator](t *testing.T, lines []supervisor.Line, fresh func() T, lived T, want []event.Event, due int) runnel.Backlog {
	t.Helper()
	told := 0
	tr := fresh()
	back, err := agentconn.New(mute{told: &told}, agentconn.Agent{Name: "It"}, tr, runnel.Options{}).Relive(&supervisor.Backlog{Lines: lines})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, back.Events, cmpopts.EquateEmpty()); d != "" {
		t.Fatalf("after %d lines (-lived +relived):\n%s", len(lines), d)
	}
	if told != due {
		t.Fatalf("after %d lines: %d were due, and %d were told", len(lines), due, told)
	}
	if d := cmp.Diff(lived.Waiting(), tr.Waiting(), cmpopts.EquateEmpty()); d != "" {
		t.Fatalf("after %d lines, open questions: %s", len(lines), d)
	}
	if back.After != -1 {
		t.Fatalf("no turn was marked, and the log begins at %d", back.After)
	}
	return back
}
