package claude

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/recordtest"
)

// shownOf returns the events of the conversations in a recording's files.
func shownOf(t *testing.T, a *txtar.Archive) []byte {
	t.Helper()
	var out bytes.Buffer
	recordtest.Write(t, &out, history(t, unpack(t, a)...))
	return out.Bytes()
}

// History shows the text that a user typed in a terminal unchanged, and the
// output of commands. No turn fails.
func TestHistoryShowsTextTypedInATerminal(t *testing.T) {
	names := recordtest.Each(t, "testdata/terminal", map[string]struct{}{}, func(t *testing.T, _ struct{}, path string, a *txtar.Archive) {
		recordtest.Compare(t, path, a, shownOf(t, a), *update)
		evs := history(t, unpack(t, a)...)
		sound(t, evs)
		var got []string
		for _, it := range items(evs) {
			if m, ok := it.Final.(event.Message); ok {
				got = append(got, string(m.Origin)+": "+m.Content)
			}
		}
		for i, want := range []string{
			"user: !echo from-bash; echo wrong >&2", "system: from-bash\nwrong", "agent: ok",
			"user: /greet the <world> & all", "agent: ok", "user: /model", "system: Kept model as ",
		} {
			if i >= len(got) || !strings.HasPrefix(got[i], want) {
				t.Errorf("messages %q, want %q", got, want)
			}
		}
		for _, b := range bodies[event.ResponseError](evs) {
			t.Errorf("a turn ended as %s", b.Error.Code)
		}
	})
	if len(names) == 0 {
		t.Error("there are no recordings")
	}
}
