package redact

import (
	"container/list"
	"encoding/json"
	"maps"
	"slices"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/filediff"
)

// Events redacts the events of one agent, in their order. The deltas of an item
// are treated as one text, so a secret that spans several deltas is found too.
// Text that was held back is emitted as one more delta before the item ends.
// Text of users is not changed.
//
// An Events must be used by one goroutine only.
type Events struct {
	r     *Redactor
	many  bool                  // items have started beyond maxOpen
	open  map[string]*openItem  // by id; there may be very many
	turns map[string]*list.List // of *openItem, in the order they started, by turn
	out   []event.Event
}

type openItem struct {
	turn, id string
	text     *Stream
	at       *list.Element
}

// maxOpen is the maximum number of open items whose deltas are redacted. Each
// needs more than a kilobyte. The deltas of further items are left out: readers
// receive their text when they end. The bound of one turn is the same.
const maxOpen = event.MaxOpenItems

// Events returns a filter for one agent.
func (r *Redactor) Events() *Events {
	return &Events{r: r, open: make(map[string]*openItem), turns: make(map[string]*list.List)}
}

// Event returns the events that replace ev, in order. The result is valid until
// the next call.
func (e *Events) Event(ev event.Event) []event.Event {
	e.out = e.out[:0]
	switch b := ev.Body.(type) {
	case event.ItemStart:
		e.start(ev, b)
	case event.ItemDelta:
		e.delta(ev, b)
	case event.ItemDone:
		e.finish(ev, b.ItemID)
		b.FinalItem = e.r.final(b.FinalItem)
		e.add(ev, b)
	case event.ItemError:
		e.finish(ev, b.ItemID)
		b.Error.Message = e.r.String(b.Error.Message)
		e.add(ev, b)
	case event.ItemCancelled:
		e.finish(ev, b.ItemID)
		e.add(ev, b)
	case event.ResponseDone, event.ResponseError:
		e.finishTurn(ev)
		e.add(ev, e.r.body(b))
	default:
		e.add(ev, e.r.body(b))
	}
	return e.out
}

// End returns the held-back text of the items that have not ended.
func (e *Events) End() []event.Event {
	e.out = e.out[:0]
	for _, turn := range slices.Sorted(maps.Keys(e.turns)) {
		e.finishTurn(event.Event{Turn: turn})
	}
	return e.out
}

// Text redacts a text that is not part of an event.
func (e *Events) Text(s string) string { return e.r.String(s) }

// Line redacts a raw line of an agent. A line that is valid JSON stays valid.
func (e *Events) Line(line []byte) []byte {
	if json.Valid(line) {
		return e.r.raw(line)
	}
	return e.r.Bytes(line)
}

func (e *Events) add(ev event.Event, b event.Body) {
	ev.Body = b
	e.out = append(e.out, ev)
}

func (e *Events) start(ev event.Event, b event.ItemStart) {
	b.Name = e.r.String(b.Name)
	switch {
	case e.open[b.ItemID] != nil:
		b.InitialContent = e.r.String(b.InitialContent)
	case len(e.open) == maxOpen:
		e.many, b.InitialContent = true, ""
	default:
		o := &openItem{turn: ev.Turn, id: b.ItemID, text: e.r.Stream()}
		if e.turns[o.turn] == nil {
			e.turns[o.turn] = list.New()
		}
		o.at = e.turns[o.turn].PushBack(o)
		e.open[o.id] = o
		b.InitialContent = o.text.Append(b.InitialContent)
	}
	e.add(ev, b)
}

func (e *Events) delta(ev event.Event, b event.ItemDelta) {
	text := ""
	if o := e.open[b.ItemID]; o != nil {
		text = o.text.Append(b.DeltaContent)
	} else if !e.many {
		text = e.r.String(b.DeltaContent)
	}
	switch {
	case text == b.DeltaContent:
		e.out = append(e.out, ev)
	case text != "":
		e.add(ev, event.ItemDelta{ItemID: b.ItemID, DeltaContent: text})
	}
}

// finish emits the held-back text of an item.
func (e *Events) finish(ev event.Event, id string) {
	o := e.open[id]
	if o == nil {
		return
	}
	delete(e.open, id)
	if e.turns[o.turn].Remove(o.at); e.turns[o.turn].Len() == 0 {
		delete(e.turns, o.turn)
	}
	if rest := o.text.End(); rest != "" {
		e.add(ev, event.ItemDelta{ItemID: id, DeltaContent: rest})
	}
}

func (e *Events) finishTurn(ev event.Event) {
	for items := e.turns[ev.Turn]; items != nil && items.Len() > 0; {
		o, _ := items.Front().Value.(*openItem)
		e.finish(ev, o.id)
	}
}

// body redacts a body that does not belong to a stream of deltas.
func (r *Redactor) body(b event.Body) event.Body {
	switch b := b.(type) {
	case event.ResponseDone:
		b.FinishReason, b.Error = r.String(b.FinishReason), r.fault(b.Error)
		return b
	case event.ResponseError:
		b.Error = *r.fault(&b.Error)
		return b
	case event.ApprovalRequested:
		b.Approval = r.approval(b.Approval)
		return b
	case event.ApprovalResolved:
		b.Reason = r.String(b.Reason)
		return b
	case event.SessionUpdated:
		b.Title, b.Tools = r.String(b.Title), each(b.Tools, r.String)
		b.Commands = each(b.Commands, func(c event.AgentCommand) event.AgentCommand {
			c.Name, c.Description, c.Hint = r.String(c.Name), r.String(c.Description), r.String(c.Hint)
			return c
		})
		b.Config = each(b.Config, r.option)
		return b
	case event.Notice:
		b.Message = r.String(b.Message)
		return b
	}
	return b
}

func (r *Redactor) option(o event.ConfigOption) event.ConfigOption {
	o.Name, o.Description, o.Value = r.String(o.Name), r.String(o.Description), r.String(o.Value)
	o.Choices = each(o.Choices, func(c event.ConfigChoice) event.ConfigChoice {
		c.Value, c.Name, c.Description, c.Group = r.String(c.Value), r.String(c.Name), r.String(c.Description), r.String(c.Group)
		return c
	})
	return o
}

func (r *Redactor) fault(f *event.Fault) *event.Fault {
	if f == nil {
		return nil
	}
	return &event.Fault{Code: f.Code, Message: r.String(f.Message), Details: r.raw(f.Details)}
}

// approval redacts an approval but keeps its digest, which is that of the
// original arguments. It makes redacted arguments read-only; an edit would
// otherwise pass the marker to the tool instead of the secret.
func (r *Redactor) approval(a event.Approval) event.Approval {
	args := r.raw(a.Arguments)
	a.ArgumentsEditable = a.ArgumentsEditable && string(args) == string(a.Arguments)
	a.Title, a.ToolName, a.Arguments, a.Why = r.String(a.Title), r.String(a.ToolName), args, r.String(a.Why)
	a.Changes = each(a.Changes, r.change)
	a.Choices = each(a.Choices, func(c event.Choice) event.Choice { c.Label = r.String(c.Label); return c })
	return a
}

func (r *Redactor) final(f event.FinalItem) event.FinalItem {
	switch f := f.(type) {
	case event.Message:
		if f.Origin != event.OriginUser {
			f.Content = r.String(f.Content)
		}
		return f
	case event.Reasoning:
		f.Content = r.String(f.Content)
		return f
	case event.FunctionCall:
		f.Name, f.Title, f.Arguments = r.String(f.Name), r.String(f.Title), r.raw(f.Arguments)
		f.Locations = each(f.Locations, func(l event.Location) event.Location { l.Path = r.String(l.Path); return l })
		return f
	case event.FunctionCallOutput:
		f.Output, f.Detail, f.Changes = r.String(f.Output), r.raw(f.Detail), each(f.Changes, r.change)
		return f
	case event.Plan:
		f.Entries = each(f.Entries, func(p event.PlanEntry) event.PlanEntry { p.Content = r.String(p.Content); return p })
		return f
	}
	return f
}

func (r *Redactor) change(c event.Change) event.Change {
	c.Path, c.MovedTo = r.String(c.Path), r.String(c.MovedTo)
	c.OldText, c.NewText = r.optional(c.OldText), r.optional(c.NewText)
	c.Hunks = each(c.Hunks, r.hunk)
	c.Edits = each(c.Edits, func(e event.Edit) event.Edit { e.Old, e.New = r.String(e.Old), r.String(e.New); return e })
	return c
}

func (r *Redactor) optional(s *string) *string {
	if s == nil {
		return nil
	}
	text := r.String(*s)
	return &text
}

func (r *Redactor) hunk(h event.Hunk) event.Hunk { return filediff.Redact(h, r.String, Marker) }

// each returns a copy of s with f applied. It does not change s, which others
// may share.
func each[T any](s []T, f func(T) T) []T {
	if len(s) == 0 {
		return s
	}
	out := make([]T, len(s))
	for i, v := range s {
		out[i] = f(v)
	}
	return out
}
