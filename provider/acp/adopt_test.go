package acp

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
	eachRecording(t, func(t *testing.T, a Agent, _ fixture, _ string, arc *txtar.Archive) {
		one := newTranslator(a)
		var others []*translator
		for l, err := range recorded(t, section(arc, "in")) {
			if err != nil {
				t.Fatal(err)
			}
			if l.Dir == runnel.DirIn && one.About(l.Text).Prompt != "" {
				if state, ok := one.Checkpoint(); ok {
					tr := newTranslator(a)
					if err := tr.Restore(state); err != nil {
						t.Fatal(err)
					}
					others = append(others, tr)
					points++
				}
			}
			want, wantReplies := agentconn.Feed(one, l)
			for _, tr := range others {
				got, replies := agentconn.Feed(tr, l)
				if d := cmp.Diff(want, got); d != "" {
					t.Fatalf("after a checkpoint (-all +since):\n%s\nat %.200s", d, l.Text)
				}
				if d := cmp.Diff(wantReplies, replies); d != "" {
					t.Fatalf("replies: %s", d)
				}
			}
		}
	})
	if points < 20 {
		t.Errorf("only %d turns were begun at a checkpoint", points)
	}
}

// mute is an agent of which only the past matters.
type mute struct{ supervisor.Agent }

func (mute) Stdout() io.Reader        { return strings.NewReader("") }
func (mute) Send([]byte, int64) error { return nil }

// TestRelivedIsWhatWasLived feeds a connection what a supervisor kept of a
// recording up to each of its lines: it says what the recording says so far.
func TestRelivedIsWhatWasLived(t *testing.T) {
	eachRecording(t, func(t *testing.T, a Agent, _ fixture, _ string, arc *txtar.Archive) {
		lived := newTranslator(a)
		var want []event.Event
		var lines []supervisor.Line
		for l, err := range recorded(t, section(arc, "in")) {
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, supervisor.Line{In: l.Dir == runnel.DirIn, At: l.At, Text: append(bytes.Clone(l.Text), '\n')})
			evs, _ := agentconn.Feed(lived, l)
			want = append(want, evs...)
			c := agentconn.New(mute{}, a.conn(), newTranslator(a), runnel.Options{})
			back, err := c.Relive(&supervisor.Backlog{Lines: lines})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, back.Events, cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("after %d lines: %s", len(lines), d)
			}
			if d := cmp.Diff(lived.Waiting(), back.Waiting, cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("after %d lines, questions: %s", len(lines), d)
			}
		}
	})
}
