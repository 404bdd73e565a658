package sqlite

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// fillDeltas appends a finished turn whose deltas have much text.
func fillDeltas(t *testing.T, s *Store, session string) {
	t.Helper()
	text := strings.Repeat("text ", 200)
	bodies := []event.Body{event.ItemStart{ItemID: "t:1:0", ItemType: event.TypeMessage}}
	for range 500 {
		bodies = append(bodies, event.ItemDelta{ItemID: "t:1:0", DeltaContent: text})
	}
	bodies = append(bodies,
		event.ItemDone{ItemID: "t:1:0", FinalItem: event.Message{Content: "all of " + session, Origin: event.OriginAgent}},
		event.ResponseDone{Status: event.StatusCompleted})
	evs := make([]event.Event, len(bodies))
	for i, b := range bodies {
		evs[i] = event.Event{Session: session, Seq: int64(i) + 1, Turn: "t", Body: b}
	}
	if err := s.Append(t.Context(), session, 0, evs...); err != nil {
		t.Fatal(err)
	}
}

// contentOf returns the events of a session, without deltas.
func contentOf(t *testing.T, s *Store, session string) (out []string) {
	t.Helper()
	for ev, err := range s.Read(t.Context(), session, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if _, delta := ev.Body.(event.ItemDelta); !delta {
			out = append(out, fmt.Sprintf("%d %s %+v", ev.Seq, ev.Turn, ev.Body))
		}
	}
	return out
}

func TestCompactDirReturnsSpaceAndLosesNothing(t *testing.T) {
	dir := ownDir(t)
	s, err := open(t.Context(), Config{Dir: dir, CompactAfter: -1}, small)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		fillDeltas(t, s, fmt.Sprint("s", i))
	}
	want, id := contentOf(t, s, "s0"), s.LogID()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before, after, err := CompactDir(t.Context(), Config{Dir: dir})
	if err != nil || before < 4<<20 || after > 1<<20 {
		t.Fatalf("from %d to %d bytes, %v", before, after, err)
	}
	if st, err := os.Stat(filepath.Join(dir, "runnel.db")); err != nil || st.Size() != after {
		t.Errorf("the file has %d bytes, reported are %d (%v)", st.Size(), after, err)
	}
	s = openTest(t, dir, small)
	if d := cmp.Diff(want, contentOf(t, s, "s0")); d != "" {
		t.Errorf("content (-want +got):\n%s", d)
	}
	if s.LogID() != id {
		t.Error("the log has another id, so readers would begin again")
	}
	if got := pragma(t, s.writer.conn, "auto_vacuum"); got != "2" {
		t.Errorf("auto_vacuum is %s", got)
	}
	if _, _, err := CompactDir(t.Context(), Config{Dir: dir}); runnel.CodeOf(err) != runnel.StoreUnavailable {
		t.Errorf("while a server uses the directory: %v", err)
	}
}

func TestCompactDirReturnsTheSpaceOfTheSearchIndex(t *testing.T) {
	dir := ownDir(t)
	if err := openTest(t, dir, small).Close(); err != nil {
		t.Fatal(err)
	}
	x := openSearch(t, dir, "log")
	s := store.SearchSession{ID: "a", CLIType: "script"}
	for i := range 200 {
		it := store.SearchItem{Item: fmt.Sprint(i), Kind: store.SearchAnswer, Text: fmt.Sprint("word", i, strings.Repeat(" filler", 500)), At: searchStart}
		if err := x.AddItems(t.Context(), s, int64(i), int64(i+1), it); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	before, after, err := CompactDir(t.Context(), Config{Dir: dir})
	if err != nil || before-after < 100<<10 {
		t.Errorf("from %d to %d bytes, %v", before, after, err)
	}
	x = openSearch(t, dir, "log")
	wantFound(t, x, store.SearchQuery{Text: "word7"}, "[word7]"+strings.Repeat(" filler", 33)+"…")
	if size := x.Size(); size < 100<<10 || size > after {
		t.Errorf("the index has %d of %d bytes", size, after)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}

	// A damaged index is left to the server, which makes it again.
	damaged := bytes.Repeat([]byte("damaged "), 1000)
	if err := os.WriteFile(filepath.Join(dir, searchFile), damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := CompactDir(t.Context(), Config{Dir: dir}); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, searchFile)); err != nil || !bytes.Equal(got, damaged) {
		t.Errorf("the damaged index was changed (%v)", err)
	}
}
