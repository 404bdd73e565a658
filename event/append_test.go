package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// marshalled returns the JSON that package encoding/json produces for an event
// without AppendJSON.
func marshalled(e Event) ([]byte, error) {
	if e.Body == nil {
		return nil, fmt.Errorf("no body")
	}
	payload, err := tagged(e.Body.body(), e.Body)
	if err != nil {
		return nil, err
	}
	return json.Marshal(envelope{e.ID(), e.Seq, e.At.UTC(), e.Session, e.Turn, Type(e.Body), payload})
}

func sameAsPackageJSON(t *testing.T, e Event) {
	t.Helper()
	want, failed := marshalled(e)
	got, err := e.AppendJSON([]byte("before"))
	if (err != nil) != (failed != nil) {
		t.Fatalf("%+v: error %v, of package json %v", e, err, failed)
	}
	if err == nil && string(got) != "before"+string(want) {
		t.Errorf("%+v:\n got %s\nwant %s", e, got[len("before"):], want)
	}
	if err != nil {
		return
	}
	body, _ := MarshalBody(e.Body)
	if !bytes.Contains(want, body) {
		t.Errorf("body %s is not in %s", body, want)
	}
	sameAsDecoded(t, body)
}

// sameAsDecoded compares how a body is decoded with how package encoding/json
// decodes it.
func sameAsDecoded(t *testing.T, body []byte) {
	t.Helper()
	typ, err := tag(body, "payload")
	if err != nil {
		t.Fatal(err)
	}
	want, failed := decoders[typ](body)
	got, err := UnmarshalBody(body)
	if (err != nil) != (failed != nil) {
		t.Fatalf("%s: error %v, of package json %v", body, err, failed)
	}
	if err == nil && !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", body, got, want)
	}
}

func TestAppendedJSONIsThatOfPackageJSON(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 600, time.FixedZone("", 3600))
	for _, text := range []string{"", "plain", "two\nlines", `"quoted" \ and`, "<b>&amp;</b>", "\x00\x1f\x7f", "ünï 🎉", "a\u2028b\u2029c", "…", "bad \xff\xe2 utf8", strings.Repeat("é", 1000)} {
		for _, b := range []Body{ItemDelta{"i" + text, text}, ItemDone{"i" + text, Message{Content: text, Origin: OriginAgent}}, ItemDone{"i", FunctionCall{Name: "n", CallID: "c", Arguments: json.RawMessage(`{ "<" : 1}`)}}, Notice{Level: LevelInfo, Code: "C", Message: text}} {
			sameAsPackageJSON(t, Event{"s" + text, 7, at, "t" + text, b})
			sameAsPackageJSON(t, Event{text, -1, time.Time{}, "", b})
		}
	}
	for _, year := range []int{-1, 0, 1, 9999, 10000} {
		sameAsPackageJSON(t, Event{"s", 1, time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), "t", ItemDelta{"i", "x"}})
	}
	for _, b := range append(Bodies(), nil) {
		if _, ok := b.(ItemDone); !ok { // an ItemDone without an item cannot be encoded
			sameAsPackageJSON(t, Event{"s", 1, at, "t", b})
		}
	}
}

func TestDoneItemIsDecodedAsByPackageJSON(t *testing.T) {
	const item = `{"type":"message","content":"c","origin":"agent"}`
	for _, rest := range []string{
		`"i","finalItem":` + item + `}`, `"i","finalItem":` + item + `} `, `"i","finalItem": ` + item + `}`, `"i" ,"finalItem":` + item + `}`,
		`"i","finalItem":` + item + `,"new":1}`, `"i","finalItem":` + item + `,"itemId":"j"}`, `"i","finalItem":` + item + `,"finalItem":{"type":"plan","entries":[]}}`,
		`"\u0069","finalItem":` + item + `}`, "\"\xff\",\"finalItem\":" + item + `}`, `"i","new":1,"finalItem":` + item + `}`,
		`"i","finalItem":{"content":"c","type":"message"}}`, `"i","finalItem":{"type":"message","content":"\ud83d"}}`,
		`"i","finalItem":null}`, `"i","finalItem":{}}`, `"i","finalItem":` + item, `"i","finalItem":` + item + `}}`, `"i"}`, `1}`, ``,
	} {
		sameAsDecoded(t, []byte(doneHead+rest))
	}
}

func FuzzAppendedJSONIsThatOfPackageJSON(f *testing.F) {
	f.Add("a", "b\u2028", int64(0))
	f.Add("\xe2\x80", "<&>", int64(1<<40))
	f.Fuzz(func(t *testing.T, item, text string, at int64) {
		sameAsPackageJSON(t, Event{item, at, time.Unix(at>>20, at).UTC(), text, ItemDelta{item, text}})
		sameAsPackageJSON(t, Event{item, at, time.Unix(at>>20, at).UTC(), text, ItemDone{item, Reasoning{Content: text}}})
	})
}

// Each delta is encoded once for every reader, so the encoding must be cheap.
func TestAppendingADeltaAllocatesNothing(t *testing.T) {
	ev := Event{"01890c7c-0000-7000-8000-000000000000", 12345, time.Now(), "01890c7c-0000-7000-8000-000000000001", ItemDelta{"01890c7c-0000-7000-8000-000000000001:1:0", " and then some"}}
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { buf, _ = ev.AppendJSON(buf[:0]) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
