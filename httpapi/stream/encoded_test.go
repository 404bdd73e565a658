package stream

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/event"
)

func TestEncodedEventIsTheSameForEveryReader(t *testing.T) {
	var e encoded
	at := time.Unix(1_700_000_000, 5).UTC()
	for seq := int64(1); seq <= 3*encodedEvents; seq++ {
		text := strings.Repeat("word <é> ", int(seq)*3) // some are larger than encodedBytes
		ev := event.Event{Session: fmt.Sprint("s", seq%3), Seq: seq, At: at, Turn: "t", Body: event.ItemDelta{ItemID: "t:1:0", DeltaContent: text}}
		want, err := ev.AppendJSON([]byte("before "))
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if got, err := e.append([]byte("before "), ev); err != nil || string(got) != string(want) {
				t.Fatalf("%s, %v; want %s", got, err, want)
			}
		}
	}
}

func TestEventOfDeletedSessionIsNotSentAgain(t *testing.T) {
	var e encoded
	old := event.Event{Session: "s", Seq: 1, At: time.Unix(1, 0), Turn: "t", Body: event.Notice{Level: event.LevelInfo, Code: "OLD", Message: "old"}}
	if _, err := e.append(nil, old); err != nil {
		t.Fatal(err)
	}
	other := old
	other.At, other.Body = time.Unix(2, 0), event.Notice{Level: event.LevelInfo, Code: "NEW", Message: "new"}
	if got, err := e.append(nil, other); err != nil || !strings.Contains(string(got), "NEW") {
		t.Errorf("%s, %v", got, err)
	}
}

func TestEventWithSeveralReadersIsEncodedOnce(t *testing.T) {
	var e encoded
	ev := event.Event{Session: "s", Seq: 1, At: time.Unix(1, 0), Turn: "t", Body: event.ItemDone{ItemID: "t:1:0", FinalItem: event.Message{Content: "text", Origin: event.OriginAgent}}}
	buf := make([]byte, 0, 1<<10)
	if _, err := e.append(buf, ev); err != nil {
		t.Fatal(err)
	}
	if got := testing.AllocsPerRun(100, func() { _, _ = e.append(buf, ev) }); got > 0 {
		t.Errorf("%v allocations for the second reader, want 0", got)
	}
}
