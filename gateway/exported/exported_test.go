package exported

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/drawlog"
)

// file returns the export of a log.
func file(t interface{ Fatal(...any) }, evs []event.Event) []byte {
	var out bytes.Buffer
	for _, ev := range evs {
		data, err := ev.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(data, '\n'))
	}
	return out.Bytes()
}

func read(r io.Reader) (evs []event.Event, err error) {
	for ev, err := range Read(r, nil) {
		if err != nil {
			return evs, err
		}
		evs = append(evs, ev)
	}
	return evs, nil
}

// Every log that the engine can write is read as it was written.
func TestReadAcceptsEveryLogOfTheEngine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		evs := drawlog.Draw(t, 60)
		data := file(t, evs)
		got, err := read(iotest.HalfReader(bytes.NewReader(data)))
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if !bytes.Equal(file(t, got), data) {
			t.Fatal("read other events")
		}
	})
}

// A file that lacks a line, has one twice or has two in another order is either
// refused, or its turns still obey the rules of the engine.
func TestReadRefusesWhatTheEngineWouldChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := bytes.SplitAfter(bytes.TrimSuffix(file(t, drawlog.Draw(t, 40)), []byte("\n")), []byte("\n"))
		lines[len(lines)-1] = append(lines[len(lines)-1], '\n')
		i := rapid.IntRange(0, len(lines)-1).Draw(t, "line")
		j := rapid.IntRange(0, len(lines)-1).Draw(t, "other")
		switch rapid.IntRange(0, 1).Draw(t, "damage") {
		case 0:
			lines = append(lines[:i:i], lines[i+1:]...)
		case 1:
			lines[i], lines[j] = lines[j], lines[i]
		}
		evs, err := read(bytes.NewReader(bytes.Join(lines, nil)))
		if err != nil {
			return
		}
		var again []event.Event
		for ev, err := range runnel.Replay("s", "p", func(yield func(event.Event, error) bool) {
			for _, ev := range evs {
				if !yield(ev, nil) {
					return
				}
			}
		}) {
			if err != nil {
				t.Fatal(err)
			}
			ev.Seq = evs[min(len(again), len(evs)-1)].Seq
			again = append(again, ev)
		}
		if !reflect.DeepEqual(again, evs) {
			t.Fatalf("accepted\n%s\nbut the engine writes\n%s", file(t, evs), file(t, again))
		}
	})
}

const head = `{"eventId":"s:%d","seq":%d,"timestamp":"2026-11-01T00:00:00Z","sessionId":"s",`

// line returns a line of an export. rest is what follows sessionId.
func line(seq int, turn, payload string) string {
	typ, _, _ := strings.Cut(strings.TrimPrefix(payload, `{"type":"`), `"`)
	of := ""
	if turn != "" {
		of = `"turnId":"` + turn + `",`
	}
	return fmt.Sprintf(head, seq, seq) + of + `"type":"` + typ + `","payload":` + payload + "}\n"
}

const (
	begins = `{"type":"response_start","modelId":"m","providerId":"p"}`
	ends   = `{"type":"response_done","status":"completed"}`
	starts = `{"type":"item_start","itemId":"t:1:0","itemType":"message"}`
	done   = `{"type":"item_done","itemId":"t:1:0","finalItem":{"type":"message","content":"a","origin":"agent"}}`
	asks   = `{"type":"approval_requested","approval":{"id":"a","kind":"tool","title":"t","choices":[{"id":"y","kind":"allow_once","label":"Y"}]}}`
	says   = `{"type":"approval_resolved","approvalId":"a","choice":"y","by":"user"}`
	note   = `{"type":"notice","level":"info","code":"C","message":"m"}`
	delta  = `{"type":"item_delta","itemId":"t:1:0","deltaContent":"a"}`
)

// of returns a file with the given events of turn t.
func of(payloads ...string) string {
	var b strings.Builder
	for i, p := range payloads {
		b.WriteString(line(i+1, "t", p))
	}
	return b.String()
}

func ofSession(id, line string) string {
	return strings.NewReplacer(`"s:`, `"`+id+`:`, `"s"`, `"`+id+`"`).Replace(line)
}

func TestReadNamesTheWrongLine(t *testing.T) {
	whole := of(begins, starts, done, asks, says, ends)
	if evs, err := read(strings.NewReader(whole)); err != nil || len(evs) != 6 {
		t.Fatal(len(evs), err)
	}
	for _, tt := range []struct{ name, file, want string }{
		{"empty", "", "the file has no events"},
		{"no JSON", whole + "x\n", "line 7: "},
		{"array", "[]\n", "line 1: "},
		{"unknown type", line(1, "", `{"type":"x"}`), `line 1: event: type: unknown "x"`},
		{"torn line", strings.TrimSuffix(whole, "\n"), "line 6: is incomplete"},
		{"not UTF-8", line(1, "", strings.Replace(note, `"m"`, "\"\xff\"", 1)), "line 1: is not UTF-8"},
		{"added member", strings.Replace(whole, `"modelId"`, `"x":1,"modelId"`, 1), "line 1: differs from what an export writes, at byte"},
		{"member twice", strings.Replace(whole, `"modelId":"m"`, `"modelId":"m","modelId":"m"`, 1), "line 1: differs"},
		{"key in capitals", strings.Replace(whole, `"modelId"`, `"MODELID"`, 1), "line 1: differs"},
		{"other eventId", strings.Replace(whole, `"s:3"`, `"s:4"`, 1), "line 3: differs"},
		{"other type", strings.Replace(whole, `"type":"response_start","payload"`, `"type":"notice","payload"`, 1), "line 1: event: payload.type"},
		{"spaces", strings.Replace(whole, `,"seq"`, `, "seq"`, 1), "line 1: differs"},
		{"long title", line(1, "", `{"type":"session_updated","title":"`+strings.Repeat("x", 2*event.MaxTitle)+`"}`), "line 1: "},
		{"other session", whole + ofSession("r", line(7, "", note)), "line 7: sessionId: is not that of the first line"},
		{"session is no id", ofSession("../s", line(1, "", note)), "line 1: sessionId: is not an id"},
		{"turn is no id", line(1, "t:1", begins), "line 1: turnId: is not an id"},
		{"seq is zero", line(0, "", note), "line 1: seq: 0 does not follow 0"},
		{"seq repeats", line(3, "", note) + line(3, "", note), "line 2: seq: 3 does not follow 3"},
		{"turn without an end", of(begins), "line 1: the turn that begins here has no end"},
		{"turn without a start", of(starts), "line 1: item_start: its turn has not begun"},
		{"second start", of(begins, begins, ends), "line 2: response_start: the turn already has one"},
		{"two ends", of(begins, ends, ends), "line 3: turnId: this turn ended on line 2"},
		{"item after the end", of(begins, ends, starts), "line 3: turnId: this turn ended on line 2"},
		{"event without its turn", line(1, "", begins), "line 1: turnId: is missing"},
		{"item without an end", of(begins, starts, ends), "line 3: response_done: what begins on line 2 has not ended"},
		{"item twice", of(begins, starts, done, starts, done, ends), "line 4: item_start: itemId: occurs twice"},
		{"item ends twice", of(begins, starts, done, done, ends), "line 4: item_done: itemId: none with this id is open"},
		{"delta after the item", of(begins, starts, done, delta, ends), "line 4: item_delta: itemId: no such item is open"},
		{"item of another turn", of(begins, strings.Replace(starts, "t:1:0", "u:1:0", 1), ends), "line 2: item_start: itemId: does not begin with"},
		{"item of another type", of(begins, strings.Replace(starts, "message", "plan", 1), done, ends), "line 3: item_done: finalItem.type: is not that"},
		{"item before the response", line(1, "t", `{"type":"item_start","itemId":"t:0:0","itemType":"message"}`) + line(2, "t", starts), "line 2: item_start: response_start is missing"},
		{"approval without an end", of(begins, asks, ends), "line 3: response_done: what begins on line 2 has not ended"},
		{"approval twice", of(begins, asks, says, asks, says, ends), "line 4: approval_requested: approval.id: occurs twice"},
		{"answer without a question", of(begins, says, ends), "line 2: approval_resolved: approvalId: none with this id is open"},
		{"response_done for an error", of(begins, `{"type":"response_done","status":"error"}`), "line 2: response_done: status:"},
		{"too many values", strings.Repeat("[", maxParts+1) + "\n", "line 1: has more than"},
	} {
		_, err := read(strings.NewReader(tt.file))
		if err == nil || !strings.Contains(err.Error(), tt.want) || runnel.CodeOf(err) != runnel.InvalidRequest {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

func TestReadIsBounded(t *testing.T) {
	_, err := read(strings.NewReader(`"` + strings.Repeat("x", MaxLine)))
	if runnel.CodeOf(err) != runnel.PayloadTooLarge || !strings.Contains(err.Error(), "line 1: ") {
		t.Error(err)
	}
	if _, err := io.Copy(io.Discard, &bounded{rand{}, 1 << 20}); runnel.CodeOf(err) != runnel.PayloadTooLarge {
		t.Error(err)
	}
	broken := errors.New("connection lost")
	if _, err := read(io.MultiReader(strings.NewReader(of(begins)), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Error(err)
	}
	log := newChecker()
	for i := range maxTurns + 1 {
		ev := event.Event{Session: "s", Seq: int64(2*i + 1), Turn: fmt.Sprint("t", i), Body: event.ResponseStart{}}
		err = log.check(i+1, ev)
		ev.Seq, ev.Body = ev.Seq+1, event.ResponseDone{Status: event.StatusCompleted}
		if err == nil {
			err = log.check(i+1, ev)
		}
		if i < maxTurns && err != nil {
			t.Fatal(err)
		}
	}
	if runnel.CodeOf(err) != runnel.PayloadTooLarge {
		t.Error(err)
	}
}

// What is in memory about a turn is bounded, also if the turn never ends.
func TestItemsOfOpenTurnsAreBounded(t *testing.T) {
	log, seq := newChecker(), 0
	log.most = 10
	check := func(turn string, b event.Body) error {
		seq++
		return log.check(seq, event.Event{Session: "s", Seq: int64(seq), Turn: turn, Body: b})
	}
	for turn := range 3 { // what has ended does not count
		id := fmt.Sprint("t", turn)
		err := check(id, event.ResponseStart{})
		for i := range log.most {
			item := fmt.Sprintf("%s:%d", id, i)
			err = errors.Join(err, check(id, event.ItemStart{ItemID: item, ItemType: event.TypeMessage}), check(id, event.ItemCancelled{ItemID: item}))
		}
		if err = errors.Join(err, check(id, event.ResponseDone{Status: event.StatusCompleted})); err != nil {
			t.Fatal(err)
		}
	}
	for _, turn := range []string{"u", "v"} {
		err := check(turn, event.ResponseStart{})
		for i := range log.most / 2 {
			err = errors.Join(err, check(turn, event.ItemStart{ItemID: fmt.Sprintf("%s:%d", turn, i), ItemType: event.TypeMessage}))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := check("u", event.ApprovalRequested{Approval: event.Approval{ID: "a"}}); runnel.CodeOf(err) != runnel.PayloadTooLarge {
		t.Errorf("got %v", err)
	}
	log.most = maxItems
	for i := range event.MaxOpenItems + 1 {
		if err := check("u", event.ItemStart{ItemID: fmt.Sprint("u:x", i), ItemType: event.TypeMessage}); err != nil {
			if runnel.CodeOf(err) != runnel.PayloadTooLarge {
				t.Error(err)
			}
			return
		}
	}
	t.Error("more items are open than a turn may have")
}

// Every reader of a session has the text of each unfinished item in memory. The
// engine cuts longer texts, so no export contains one.
func TestTextsOfItemsAreBounded(t *testing.T) {
	piece := strings.Repeat("x", event.MaxText/4)
	item := func(log *checker, seq *int64, id string, pieces int) (err error) {
		check := func(b event.Body) {
			*seq++
			if err == nil {
				err = log.check(int(*seq), event.Event{Session: "s", Seq: *seq, Turn: "t", Body: b})
			}
		}
		check(event.ItemStart{ItemID: id, ItemType: event.TypeMessage, InitialContent: piece})
		for range pieces - 1 {
			check(event.ItemDelta{ItemID: id, DeltaContent: piece})
		}
		return err
	}
	begin := func() (*checker, *int64) {
		log, seq := newChecker(), new(int64(1))
		if err := log.check(1, event.Event{Session: "s", Seq: 1, Turn: "t", Body: event.ResponseStart{}}); err != nil {
			t.Fatal(err)
		}
		return log, seq
	}
	log, seq := begin()
	if err := item(log, seq, "t:long", 4); err != nil {
		t.Errorf("an item of the engine is refused: %v", err)
	}
	if err := item(log, seq, "t:longer", 4*maxText/event.MaxText+1); runnel.CodeOf(err) != runnel.PayloadTooLarge {
		t.Errorf("an item of more than %d bytes: got %v", maxText, err)
	}
	log, seq = begin()
	for i := range 3 * maxOpenText / event.MaxText { // what has ended does not count
		id := fmt.Sprint("t:ended", i)
		err := item(log, seq, id, 4)
		*seq++
		err = errors.Join(err, log.check(int(*seq), event.Event{Session: "s", Seq: *seq, Turn: "t", Body: event.ItemCancelled{ItemID: id}}))
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range maxOpenText/event.MaxText + 1 {
		if err := item(log, seq, fmt.Sprint("t:open", i), 4); err != nil {
			if runnel.CodeOf(err) != runnel.PayloadTooLarge || i < maxOpenText/event.MaxText {
				t.Errorf("item %d: got %v", i, err)
			}
			return
		}
	}
	t.Errorf("more than %d bytes of text are in items that have not ended", maxOpenText)
}

type rand struct{}

func (rand) Read(p []byte) (int, error) { return len(p), nil }

func FuzzRead(f *testing.F) {
	f.Add([]byte(of(begins, starts, delta, done, asks, says, ends)))
	f.Fuzz(func(t *testing.T, data []byte) {
		evs, err := read(bytes.NewReader(data))
		if err == nil && !bytes.Equal(file(t, evs), clean(data)) {
			t.Errorf("accepted %q, which is the export of %q", data, file(t, evs))
		}
	})
}

// clean removes carriage returns and blank lines, which Read skips.
func clean(data []byte) (out []byte) {
	for line := range bytes.Lines(data) {
		if line = bytes.TrimRight(line, "\r\n"); len(bytes.TrimLeft(line, " \t\r")) > 0 {
			out = append(append(out, line...), '\n')
		}
	}
	return out
}
