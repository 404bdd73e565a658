package supervisor

import (
	"bufio"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// backlog reads a spool as a server that takes over does.
func backlog(t *testing.T, s *spool) *Backlog {
	t.Helper()
	b, err := readBacklog(bufio.NewReader(io.NewSectionReader(s.notes, notesStart, s.noted-notesStart)), s.output, s.end)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func testSpool(t *testing.T, max int64) *spool {
	t.Helper()
	s, err := newSpool(max)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

func TestBacklogHasBothDirectionsInOrder(t *testing.T) {
	s := testSpool(t, 1<<20)
	at := func(n int64) time.Time { return time.Unix(n, 0) }
	s.add([]byte("of the turn before\n"), at(1))
	s.note(note{what: noteLine, place: 0, at: at(2), p: []byte("dropped\n")})
	s.begin([]byte(`{"log":7}`), s.end, 0, at(3))
	s.note(note{what: noteLine, place: s.end, at: at(3), p: []byte("prompt\n")})
	s.add([]byte("one\ntw"), at(4))
	s.add([]byte("o\nthr"), at(5))
	s.note(note{what: noteLine, place: 23, at: at(6), p: []byte("answer to one\n")})
	b := backlog(t, s)
	var got []string
	for _, l := range b.Lines {
		way := "out"
		if l.In {
			way = "in"
		}
		got = append(got, way+" "+strings.TrimSpace(string(l.Text))+" "+l.At.UTC().Format("5"))
	}
	want := "in prompt 3|out one 4|in answer to one 6|out two 5"
	if have := strings.Join(got, "|"); have != want || string(b.Rest) != "thr" || b.From != 19 || b.Log != 7 || b.Lines[3].End != 27 {
		t.Errorf("got %s and %q from %d\nwant %s", have, b.Rest, b.From, want)
	}
}

// A turn that does not fit is not kept. The turn after it is.
func TestSpoolDropsTurnThatDoesNotFit(t *testing.T) {
	s := testSpool(t, 1<<10)
	line := []byte(strings.Repeat("x", 99) + "\n")
	for s.room(100) {
		s.add(line, time.Now())
	}
	if n := s.end; n < 512 || !s.whole() {
		t.Errorf("%d bytes are kept, whole: %v", n, s.whole())
	}
	for range 10 {
		s.add(line, time.Now())
	}
	if s.whole() || s.room(0) {
		t.Error("a turn that does not fit is kept")
	}
	s.begin([]byte("{}"), s.end-50, 0, time.Now()) // the server has not read all of it
	if s.whole() {
		t.Error("a turn whose beginning is missing is kept")
	}
	s.begin([]byte("{}"), s.end, 0, time.Now())
	s.add([]byte("next\n"), time.Now())
	if b := backlog(t, s); !s.whole() || len(b.Lines) != 1 || string(b.Lines[0].Text) != "next\n" {
		t.Errorf("whole: %v, lines: %+v", s.whole(), b.Lines)
	}
	s.note(note{what: noteLine, place: s.end, p: make([]byte, 1<<10)})
	if s.whole() {
		t.Error("a turn whose notes do not fit is kept")
	}
}

// A server has removed output that its turn began with.
func TestSpoolLacksTurnWhoseOutputServerRemoved(t *testing.T) {
	s := testSpool(t, 1<<20)
	s.add(make([]byte, 100), time.Now())
	if s.begin([]byte("{}"), 50, 60, time.Now()); s.whole() {
		t.Error("output from 50 to 60 is missing")
	}
	if s.begin([]byte("{}"), 60, 60, time.Now()); !s.whole() {
		t.Error("nothing is missing")
	}
}

func TestSpoolFreesMemoryOfEarlierTurns(t *testing.T) {
	s := testSpool(t, 1<<30)
	for range 4 {
		s.add(make([]byte, 1<<20), time.Now())
		s.begin([]byte("{}"), s.end-10, 0, time.Now())
	}
	info, err := s.output.Stat()
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(s.output.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	if info.Size() != 4<<20 || st.Blocks*512 > 2*int64(os.Getpagesize()) {
		t.Errorf("a file of %d bytes needs %d", info.Size(), st.Blocks*512)
	}
}

// A position in the file is the position in the output, for ever.
func TestOutputCannotShrink(t *testing.T) {
	s := testSpool(t, 1<<20)
	s.add(make([]byte, 1<<10), time.Now())
	if err := s.output.Truncate(0); err == nil {
		t.Error("it was truncated")
	}
}
