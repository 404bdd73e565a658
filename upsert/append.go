package upsert

import (
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// An Append is text to add to an item that the reader has. A Pacer makes
// Appends if its field Append is set.
//
// The text continues the content of a message or of thinking. Of a tool call it
// continues ToolOutput, or ToolArgumentsText as long as ToolArguments is not
// set. [Append.To] adds it.
type Append struct {
	ItemID string `json:"itemId"`
	Offset int    `json:"offset"` // UTF-8 bytes of the text that the reader has
	Text   string `json:"text"`
	Seq    int64  `json:"seq"` // position of the newest event folded in, as in an Upsert
}

// To returns u with the text of a at its end, and true. If u is another item or
// does not end where a begins, it returns u unchanged, and false.
func (a Append) To(u Upsert) (Upsert, bool) {
	if u.ItemID != a.ItemID {
		return u, false
	}
	extend := func(s string) (string, bool) { return s + a.Text, len(s) == a.Offset }
	var ok bool
	switch {
	case u.Message != nil:
		m := *u.Message
		m.Content, ok = extend(m.Content)
		u.Message = &m
	case u.Thinking != nil:
		r := *u.Thinking
		r.Content, ok = extend(r.Content)
		u.Thinking = &r
	case u.ToolCall != nil:
		tc := *u.ToolCall
		if tc.ToolArguments == nil {
			tc.ToolArgumentsText, ok = extend(tc.ToolArgumentsText)
		} else {
			output := ""
			if tc.ToolOutput != nil {
				output = *tc.ToolOutput
			}
			output, ok = extend(output)
			tc.ToolOutput = &output
		}
		u.ToolCall = &tc
	}
	if !ok {
		return u, false
	}
	u.Seq = a.Seq
	return u, true
}

// shown is what a reader has of an entry whose growth is sent as Appends.
type shown struct {
	known   bool // the rest is valid: the reader received the whole entry, and then every Append
	bytes   int  // of the growing text
	atWhole int  // the same, when the whole entry was last sent
}

// growth returns the text that was added to e since e was last sent. It returns
// false if e must be sent as a whole: the reader does not have e, something
// other than the text has changed, e is over, or the text has doubled since e
// was last sent as a whole.
func (p *Pacer) growth(e *entry) (Append, bool) {
	if !p.Append || !e.shown.known || e.reshaped || e.state.over() {
		return Append{}, false
	}
	s, ok := p.reducer.growing(e)
	if !ok || len(s) >= 2*e.shown.atWhole {
		return Append{}, false
	}
	a := Append{ItemID: e.id, Offset: e.shown.bytes, Text: s[e.shown.bytes:], Seq: e.seq}
	e.shown.bytes = len(s)
	return a, true
}

// showed records that the whole of e is sent to the reader.
func (p *Pacer) showed(e *entry) {
	e.reshaped, e.shown = false, shown{}
	if !p.Append {
		return
	}
	if s, ok := p.reducer.growing(e); ok {
		e.shown = shown{known: true, bytes: len(s), atWhole: len(s)}
	}
}

// growing returns the text of e that a reader extends by an Append. It returns
// false if e has none, or if a reader could not tell which text it is.
func (b *reducer) growing(e *entry) (string, bool) {
	from := b.sources(e)
	switch e.kind {
	case KindMessage, KindThinking:
		return text.TrimPartial(from.item.Content), from.item.Final == nil
	case KindToolCall:
		if call, ok := from.item.Final.(event.FunctionCall); ok {
			return text.TrimPartial(from.output.Content), len(call.Arguments) > 0 && from.output.Final == nil
		}
		return text.TrimPartial(from.item.Content), from.item.Final == nil && e.outputID == ""
	}
	return "", false
}
