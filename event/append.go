package event

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// AppendJSON appends the JSON of e to b. It gives the bytes that
// [json.Marshal] gives, with less work for ItemDelta, the most common event, and
// ItemDone, which has the longest texts.
func (e Event) AppendJSON(b []byte) ([]byte, error) {
	at := e.At.UTC()
	if y := at.Year(); y < 0 || y > 9999 { // the error of MarshalJSON
		_, err := at.MarshalJSON()
		return b, err
	}
	b = append(b, `{"eventId":`...)
	if plain(e.Session) { // as appendString(b, e.ID()), without making that string
		b = append(append(append(b, '"'), e.Session...), ':')
		b = append(strconv.AppendInt(b, e.Seq, 10), '"')
	} else {
		b = appendString(b, e.ID())
	}
	b = strconv.AppendInt(append(b, `,"seq":`...), e.Seq, 10)
	b = at.AppendFormat(append(b, `,"timestamp":"`...), time.RFC3339Nano)
	b = appendString(append(b, `","sessionId":`...), e.Session)
	if e.Turn != "" {
		b = appendString(append(b, `,"turnId":`...), e.Turn)
	}
	b = appendString(append(b, `,"type":`...), Type(e.Body))
	b, err := appendBody(append(b, `,"payload":`...), e.Body)
	return append(b, '}'), err
}

// appendBody appends the JSON of [MarshalBody].
func appendBody(b []byte, body Body) ([]byte, error) {
	switch d := body.(type) {
	case ItemDelta:
		return appendDelta(b, d), nil
	case ItemDone:
		return appendDone(b, d)
	}
	data, err := MarshalBody(body)
	return append(b, data...), err
}

// The parts of an encoded ItemDelta before its strings.
const (
	deltaHead = `{"type":"item_delta","itemId":`
	deltaNext = `,"deltaContent":`
)

func appendDelta(b []byte, d ItemDelta) []byte {
	b = appendString(append(b, deltaHead...), d.ItemID)
	b = appendString(append(b, deltaNext...), d.DeltaContent)
	return append(b, '}')
}

// parseDelta decodes what appendDelta appends. It reports false for other data,
// and for strings with characters that JSON escapes.
func parseDelta(data []byte) (d ItemDelta, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(deltaHead))
	if !ok {
		return d, false
	}
	if d.ItemID, rest, ok = cutString(rest); !ok {
		return d, false
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(deltaNext)); !ok {
		return d, false
	}
	d.DeltaContent, rest, ok = cutString(rest)
	return d, ok && string(rest) == "}"
}

// The parts of an encoded ItemDone before its id and its item.
const (
	doneHead = `{"type":"item_done","itemId":`
	doneNext = `,"finalItem":`
)

// appendDone appends the bytes that [json.Marshal] gives. That would read the
// item's JSON twice more, which may have megabytes.
func appendDone(b []byte, d ItemDone) ([]byte, error) {
	final, err := MarshalFinal(d.FinalItem)
	if err != nil {
		return b, err
	}
	b = slices.Grow(b, len(doneHead)+len(d.ItemID)+len(doneNext)+len(final)+3)
	b = appendString(append(b, doneHead...), d.ItemID)
	b = append(append(b, doneNext...), final...)
	return append(b, '}'), nil
}

// parseDone decodes what appendDone appends, and reads the item's JSON once
// instead of three times. It reports false for other data, and for ids with
// characters that JSON escapes.
func parseDone(data []byte) (d ItemDone, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(doneHead))
	if !ok {
		return d, false
	}
	if d.ItemID, rest, ok = cutString(rest); !ok {
		return d, false
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(doneNext)); !ok {
		return d, false
	}
	if rest, ok = bytes.CutSuffix(rest, []byte("}")); !ok {
		return d, false
	}
	var err error
	d.FinalItem, err = UnmarshalFinal(rest) // fails if another member follows
	return d, err == nil
}

// cutString returns the JSON string at the start of data, and the data after
// it. It reports false if data does not begin with a string that is plain.
func cutString(data []byte) (s string, rest []byte, ok bool) {
	if len(data) == 0 || data[0] != '"' {
		return "", nil, false
	}
	n := bytes.IndexByte(data[1:], '"')
	if n < 0 {
		return "", nil, false
	}
	s = string(data[1 : 1+n])
	return s, data[n+2:], plain(s)
}

// appendString appends s as a JSON string, as [json.Marshal] writes it: it
// escapes characters that have a meaning in HTML.
func appendString(b []byte, s string) []byte {
	if !plain(s) {
		data, _ := json.Marshal(s) // strings never fail
		return append(b, data...)
	}
	return append(append(append(b, '"'), s...), '"')
}

// plain reports whether JSON has s unchanged, between quotation marks. It may
// report false for such a string, too.
func plain(s string) bool {
	ascii := true
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c == '"', c == '\\', c == '<', c == '>', c == '&', c == 0x7f:
			return false
		case c >= utf8.RuneSelf:
			if c == 0xe2 { // begins U+2028 and U+2029, which are escaped
				return false
			}
			ascii = false
		}
	}
	return ascii || utf8.ValidString(s)
}
