package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/runnel-dev/runnel/internal/text"
)

// envelope is the JSON form of an Event.
type envelope struct {
	ID      string          `json:"eventId"`
	Seq     int64           `json:"seq"`
	At      time.Time       `json:"timestamp"`
	Session string          `json:"sessionId"`
	Turn    string          `json:"turnId,omitzero"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload"`
}

// MarshalJSON implements [json.Marshaler].
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// UnmarshalJSON implements [json.Unmarshaler]. It rejects an invalid event with
// an error that names the field.
func (e *Event) UnmarshalJSON(data []byte) error {
	var w envelope
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("event: %w", err)
	}
	b, err := UnmarshalBody(w.Payload)
	if err != nil {
		return err
	}
	if Type(b) != w.Type {
		return fmt.Errorf("event: payload.type %q is not type %q", Type(b), w.Type)
	}
	*e = Event{w.Session, w.Seq, w.At.UTC(), w.Turn, b}
	return e.Validate()
}

// MarshalBody returns the JSON object of b, with "type" as its first member.
func MarshalBody(b Body) ([]byte, error) {
	switch b := b.(type) {
	case nil:
		return nil, fmt.Errorf("event: no body")
	case ItemDelta:
		return appendDelta(make([]byte, 0, len(deltaHead)+len(b.ItemID)+len(b.DeltaContent)+32), b), nil
	case ItemDone:
		return appendDone(nil, b)
	}
	return tagged(b.body(), b)
}

// UnmarshalBody is the inverse of [MarshalBody].
func UnmarshalBody(data []byte) (Body, error) {
	if d, ok := parseDelta(data); ok {
		return d, nil
	}
	if d, ok := parseDone(data); ok {
		return d, nil
	}
	typ, err := tag(data, "payload")
	if err != nil {
		return nil, fmt.Errorf("event: %w", err)
	}
	decode, ok := decoders[typ]
	if !ok {
		return nil, fmt.Errorf("event: type: unknown %q", bounded(typ))
	}
	b, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("event: %s: %w", typ, err)
	}
	return b, nil
}

// bodies is the list of all body types. Decoders and names are derived from it.
var bodies = []func([]byte) (Body, error){
	as[ResponseStart], as[ItemStart], as[ItemDelta], as[ItemDone], as[ItemError], as[ItemCancelled],
	as[ResponseDone], as[ResponseError], as[ApprovalRequested], as[ApprovalResolved],
	as[SessionUpdated], as[UsageUpdated], as[Notice],
}

var decoders = table()

// Bodies returns the zero value of every type of body.
func Bodies() []Body {
	all := make([]Body, 0, len(bodies))
	for _, decode := range bodies {
		b, _ := decode(nil)
		all = append(all, b)
	}
	return all
}

// Types returns the wire names of all event types.
func Types() []string {
	names := make([]string, 0, len(bodies))
	for _, b := range Bodies() {
		names = append(names, b.body())
	}
	return names
}

func as[T Body](data []byte) (Body, error) {
	var b T
	if len(data) == 0 {
		return b, nil
	}
	err := json.Unmarshal(data, &b)
	return b, err
}

func table() map[string]func([]byte) (Body, error) {
	m := make(map[string]func([]byte) (Body, error), len(bodies))
	for i, name := range Types() {
		m[name] = bodies[i]
	}
	return m
}

// MarshalJSON implements [json.Marshaler].
func (d ItemDone) MarshalJSON() ([]byte, error) {
	final, err := MarshalFinal(d.FinalItem)
	if err != nil {
		return nil, err
	}
	return json.Marshal(itemDone{d.ItemID, final})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (d *ItemDone) UnmarshalJSON(data []byte) error {
	var w itemDone
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	final, err := UnmarshalFinal(w.FinalItem)
	if err != nil {
		return err
	}
	*d = ItemDone{w.ItemID, final}
	return nil
}

type itemDone struct {
	ItemID    string          `json:"itemId"`
	FinalItem json.RawMessage `json:"finalItem"`
}

// MarshalFinal returns the JSON object of f, with "type" as its first member.
func MarshalFinal(f FinalItem) ([]byte, error) {
	if f == nil {
		return nil, fmt.Errorf("finalItem: missing")
	}
	return tagged(string(f.ItemType()), f)
}

// UnmarshalFinal is the inverse of [MarshalFinal].
func UnmarshalFinal(data []byte) (FinalItem, error) {
	typ, err := tag(data, "finalItem")
	if err != nil {
		return nil, err
	}
	switch ItemType(typ) {
	case TypeMessage:
		return final[Message](data)
	case TypeReasoning:
		return final[Reasoning](data)
	case TypeFunctionCall:
		return final[FunctionCall](data)
	case TypeFunctionCallOutput:
		return final[FunctionCallOutput](data)
	case TypePlan:
		return final[Plan](data)
	}
	return nil, fmt.Errorf("finalItem.type: unknown %q", bounded(typ))
}

func final[T FinalItem](data []byte) (FinalItem, error) {
	var f T
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("finalItem: %w", err)
	}
	return f, nil
}

// tagged encodes v, which must encode as an object, with "type" as its first
// member.
func tagged(typ string, v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(tagHead)+len(typ)+len(data)+2)
	out = append(out, tagHead...)
	out = append(append(out, typ...), '"')
	if len(data) > 2 {
		out = append(out, ',')
	}
	return append(out, data[1:]...), nil
}

var tagHead = []byte(`{"type":"`)

// tag returns the "type" of the JSON object data. field is the name of the
// object in errors.
func tag(data []byte, field string) (string, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 || string(data) == "null" {
		return "", fmt.Errorf("%s: missing", field)
	}
	if rest, ok := bytes.CutPrefix(data, tagHead); ok { // our own encoding: avoids parsing the whole object
		if i := bytes.IndexByte(rest, '"'); i > 0 && !bytes.ContainsRune(rest[:i], '\\') {
			return string(rest[:i]), nil
		}
	}
	var t struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return "", fmt.Errorf("%s: %w", field, err)
	}
	if t.Type == "" {
		return "", fmt.Errorf("%s.type: missing", field)
	}
	return t.Type, nil
}

func bounded(s string) string { return text.Shorten(s, 64) }

// The MarshalJSON methods below encode a nil list as [], so that clients always
// get a list.

// MarshalJSON implements [json.Marshaler].
func (c Change) MarshalJSON() ([]byte, error) {
	type plain Change
	c.Hunks = listed(c.Hunks)
	return json.Marshal(plain(c))
}

// MarshalJSON implements [json.Marshaler].
func (h Hunk) MarshalJSON() ([]byte, error) {
	type plain Hunk
	h.Lines = listed(h.Lines)
	return json.Marshal(plain(h))
}

// MarshalJSON implements [json.Marshaler].
func (p Plan) MarshalJSON() ([]byte, error) {
	type plain Plan
	p.Entries = listed(p.Entries)
	return json.Marshal(plain(p))
}

// MarshalJSON implements [json.Marshaler].
func (a Approval) MarshalJSON() ([]byte, error) {
	type plain Approval
	a.Choices = listed(a.Choices)
	return json.Marshal(plain(a))
}

func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
