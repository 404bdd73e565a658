package codex

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/supervisor"
)

// TestCheckpointHoldsAllThatATurnNeeds begins every turn of every recording a
// second time, with a translator that knows of what came before only what the
// checkpoint says. From there on both say the same.
func TestCheckpointHoldsAllThatATurnNeeds(t *testing.T) {
	points := 0
	eachRecording(t, func(t *testing.T, _ fixture, _ string, a *txtar.Archive) {
		one := newTranslator()
		var others []*translator
		for l, err := range recorded(t, section(a, "in")) {
			if err != nil {
				t.Fatal(err)
			}
			if l.Dir == runnel.DirIn && one.About(l.Text).Prompt != "" {
				if state, ok := one.Checkpoint(); ok {
					other := newTranslator()
					if err := other.Restore(state); err != nil {
						t.Fatal(err)
					}
					others = append(others, other)
					points++
				}
			}
			want, wantReplies := agentconn.Feed(one, l)
			for _, other := range others {
				got, replies := agentconn.Feed(other, l)
				if d := cmp.Diff(want, got); d != "" {
					t.Fatalf("after a checkpoint (-all +since):\n%s\nat %.200s", d, l.Text)
				}
				if d := cmp.Diff(wantReplies, replies); d != "" {
					t.Fatalf("replies: %s", d)
				}
			}
		}
	})
	if points < 40 {
		t.Errorf("only %d turns were begun at a checkpoint", points)
	}
}

// mute is an agent of which only the past matters. It notes what it is told.
type mute struct {
	supervisor.Agent
	told *[]string
}

func (mute) Stdout() io.Reader { return strings.NewReader("") }

func (m mute) Send(line []byte, _ int64) error {
	*m.told = append(*m.told, string(line))
	return nil
}

func keptLines(t *testing.T, a *txtar.Archive) (lines []supervisor.Line) {
	t.Helper()
	for l, err := range recorded(t, section(a, "in")) {
		if err != nil {
			t.Fatal(err)
		}
		if l.Dir == runnel.DirIn || l.Dir == runnel.DirOut {
			lines = append(lines, supervisor.Line{In: l.Dir == runnel.DirIn, At: l.At, Text: append(bytes.Clone(l.Text), '\n')})
		}
	}
	return lines
}

func relived(t *testing.T, lines []supervisor.Line) (*translator, runnel.Backlog, []string) {
	t.Helper()
	var told []string
	tr := newTranslator()
	c := agentconn.New(mute{told: &told}, product, tr, runnel.Options{})
	back, err := c.Relive(&supervisor.Backlog{Lines: lines})
	if err != nil {
		t.Fatal(err)
	}
	return tr, back, told
}

// TestRelivedIsWhatWasLived feeds a connection what a supervisor kept of a
// recording, up to every line of it: it says what the recording says until
// there, it tells the agent again what was due and was not told, and only that,
// and it goes on as the one before it.
func TestRelivedIsWhatWasLived(t *testing.T) {
	eachRecording(t, func(t *testing.T, _ fixture, _ string, a *txtar.Archive) {
		lines := keptLines(t, a)
		lived := newTranslator()
		var want []event.Event
		due := map[string]bool{}
		for i, l := range lines {
			dir := runnel.DirOut
			if l.In {
				dir = runnel.DirIn
				delete(due, lived.About(l.Text).Settles)
			}
			evs, replies := agentconn.Feed(lived, runnel.Line{At: l.At, Dir: dir, Text: bytes.TrimRight(l.Text, "\n")})
			want = append(want, evs...)
			for _, r := range replies {
				due[lived.About(object(r)).Settles] = true
			}
			if i%7 != 0 && i != len(lines)-1 && len(due) == 0 { // each is a run of its own
				continue
			}
			tr, back, told := relived(t, lines[:i+1])
			if d := cmp.Diff(want, back.Events, cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("line %d:\n%s", i, d)
			}
			if len(told) != len(due) {
				t.Fatalf("line %d: %d were due, and told was %q", i, len(due), told)
			}
			if d := cmp.Diff(lived.Waiting(), tr.Waiting(), cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("line %d: open approvals: %s", i, d)
			}
		}
	})
}

// TestRelivedPrompts: who takes over learns which turns the agent was given.
func TestRelivedPrompts(t *testing.T) {
	eachRecording(t, func(t *testing.T, _ fixture, _ string, a *txtar.Archive) {
		_, back, _ := relived(t, keptLines(t, a))
		var prompts []string
		for _, ev := range translated(t, a) {
			if b, ok := ev.Body.(event.ItemStart); ok && b.ItemID == runnel.UserItemID(ev.Turn) {
				prompts = append(prompts, ev.Turn)
			}
		}
		if d := cmp.Diff(prompts, back.Prompts, cmpopts.EquateEmpty()); d != "" {
			t.Error(d)
		}
	})
}
