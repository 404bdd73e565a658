package recordtest

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// Undisguised fails the test if an unknown member in every line of the agent
// changes the events. A translator decodes frequent lines of a known form
// without encoding/json, and lines with an unknown member with encoding/json, so
// this compares both ways.
func Undisguised[T agentconn.Translator](t testing.TB, lines []runnel.Line, fresh func() T) {
	t.Helper()
	disguised := slices.Clone(lines)
	for i, l := range disguised {
		if text := bytes.TrimSpace(l.Text); l.Dir == runnel.DirOut && len(text) > 2 && text[0] == '{' && text[len(text)-1] == '}' {
			disguised[i].Text = append(bytes.Clone(text[:len(text)-1]), `,"unknownMember":0}`...)
		}
	}
	if d := cmp.Diff(translated(lines, fresh()), translated(disguised, fresh())); d != "" {
		t.Errorf("an unknown member changes the events (-without +with):\n%s", d)
	}
}

// translated returns the events of tr for lines.
func translated(lines []runnel.Line, tr agentconn.Translator) (evs []event.Event) {
	for _, l := range lines {
		out, _ := agentconn.Feed(tr, l)
		evs = append(evs, out...)
	}
	return append(evs, tr.Flush()...)
}
