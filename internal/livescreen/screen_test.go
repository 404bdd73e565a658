package livescreen

import (
	"fmt"
	"strings"
	"testing"

	"github.com/charmbracelet/x/vt"
)

// monitor is a terminal with a screen.
type monitor struct {
	*vt.Emulator
	*Screen
}

func newMonitor(width, height int) *monitor {
	m := &monitor{Emulator: vt.NewEmulator(width, height)}
	m.Screen = New(m.Emulator, func() (int, int) { return m.Width(), m.Height() }, true)
	return m
}

// shows fails unless the terminal shows these rows, and nothing below.
func (m *monitor) shows(t *testing.T, rows ...string) {
	t.Helper()
	var got []string
	for row := range strings.Lines(m.String()) {
		got = append(got, strings.TrimRight(row, " \n"))
	}
	want := strings.TrimRight(strings.Join(rows, "\n"), "\n")
	if text := strings.TrimRight(strings.Join(got, "\n"), "\n"); text != want {
		t.Errorf("the terminal shows\n%s\nwant\n%s", text, want)
	}
}

func (m *monitor) draw(t *testing.T, done, live []Line, cursor *Cursor) {
	t.Helper()
	if err := m.Screen.Draw(done, live, cursor); err != nil {
		t.Fatal(err)
	}
}

func lines(texts ...string) (out []Line) {
	for _, text := range texts {
		out = append(out, Text(text, Green))
	}
	return out
}

func TestLiveLinesAreReplaced(t *testing.T) {
	m := newMonitor(20, 8)
	m.draw(t, nil, lines("one", "two", "three"), nil)
	m.shows(t, "one", "two", "three")
	m.draw(t, lines("done"), lines("two"), nil)
	m.shows(t, "done", "two")
	m.draw(t, lines("more", "and more"), lines("a", "b"), nil)
	m.shows(t, "done", "more", "and more", "a", "b")
	if err := m.Screen.Clear(); err != nil {
		t.Fatal(err)
	}
	m.shows(t, "done", "more", "and more")
	fmt.Fprint(m.Emulator, "other output\r\n")
	m.draw(t, nil, lines("c"), nil)
	m.shows(t, "done", "more", "and more", "other output", "c")
}

func TestCursorIsPlacedInTheLiveLines(t *testing.T) {
	m := newMonitor(20, 8)
	m.draw(t, lines("done"), lines("status", "> 世界", "hint"), &Cursor{1, 4})
	if at := m.CursorPosition(); at.X != 4 || at.Y != 2 {
		t.Errorf("the cursor is at %v", at)
	}
	m.draw(t, lines("more"), lines("> 世", "hint"), &Cursor{0, 4})
	m.shows(t, "done", "more", "> 世", "hint")
	if at := m.CursorPosition(); at.X != 4 || at.Y != 2 {
		t.Errorf("the cursor is at %v", at)
	}
}

// Finished lines that are wider than the terminal are wrapped by it, and live
// lines are cut, also lines whose width the terminal counts differently.
func TestWideLinesDoNotDisturbTheScreen(t *testing.T) {
	m := newMonitor(10, 8)
	m.draw(t, lines("0123456789", "abcdefghijklm"), lines("a live line that is too wide", "世界世界世界世界"), nil)
	m.shows(t, "0123456789", "abcdefghij", "klm", "a live l…", "世界世界…")
	m.draw(t, lines("end"), nil, nil)
	m.shows(t, "0123456789", "abcdefghij", "klm", "end")
}

func TestLowTerminalShowsTheLastLiveLines(t *testing.T) {
	m := newMonitor(20, 4)
	m.draw(t, lines("done"), lines("1", "2", "3", "4", "5"), nil)
	m.shows(t, "done", "3", "4", "5")
	m.draw(t, lines("more"), lines("6"), nil)
	m.shows(t, "done", "more", "6")
}

func TestNarrowerTerminalKeepsFinishedLines(t *testing.T) {
	m := newMonitor(30, 8)
	m.draw(t, lines("first", "second"), lines("a live line of 26 columns!", "status"), nil)
	m.Resize(12, 8)
	m.draw(t, lines("third"), lines("a live line of 26 columns!", "status"), nil)
	m.shows(t, "first", "second", "third", "a live lin…", "status")
	m.Resize(40, 8)
	m.draw(t, nil, lines("a live line of 26 columns!"), nil)
	m.shows(t, "first", "second", "third", "a live line of 26 columns!")
}

func TestUnchangedFrameWritesNothing(t *testing.T) {
	var out strings.Builder
	s := New(&out, func() (int, int) { return 0, 0 }, false)
	for range 3 {
		if err := s.Draw(nil, lines("same"), nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(out.String(), "same"); n != 1 {
		t.Errorf("drawn %d times: %q", n, out.String())
	}
	if strings.Contains(out.String(), "\x1b[3") {
		t.Errorf("colours without colours: %q", out.String())
	}
}
