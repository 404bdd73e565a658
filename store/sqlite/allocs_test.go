package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

func TestDeltaTakesFewAllocationsFromAppendToReader(t *testing.T) {
	if raced {
		t.Skip("the race detector makes pools allocate")
	}
	s, err := Open(t.Context(), Config{Dir: filepath.Join(t.TempDir(), "data")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	head := int64(1)
	first := event.Event{Session: "s", Seq: head, At: time.Now(), Turn: "t", Body: event.ResponseStart{ModelID: "m", ProviderID: "p"}}
	if err := s.Append(t.Context(), "s", 0, first); err != nil {
		t.Fatal(err)
	}
	var body event.Body = event.ItemDelta{ItemID: "t:1:0", DeltaContent: "some words"}
	evs := make([]event.Event, 1)
	c := runnel.NewCursor(s, "s", head)
	const golden = 6 // the payload, the text and its body for the tails, the reader's signal, and two for each event that the journal moves to the database
	got := testing.AllocsPerRun(3000, func() {
		grown := s.Grown("s", head)
		evs[0] = event.Event{Session: "s", Seq: head + 1, At: time.Now(), Turn: "t", Body: body}
		if err := s.Append(t.Context(), "s", head, evs...); err != nil {
			t.Fatal(err)
		}
		<-grown
		if read, err := c.Read(t.Context()); err != nil || len(read) != 1 {
			t.Fatal(len(read), err)
		}
		head++
	})
	t.Logf("%v allocations", got)
	if got > golden {
		t.Errorf("%v allocations for a delta, want %v", got, golden)
	}
}
