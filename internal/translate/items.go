package translate

import (
	"strconv"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// A Numbering gives the items of one line of native messages their ids: the
// main one of a turn, or a subagent's. Native messages and calls count from 1
// in the order in which they are first named, and the blocks of each from 0.
type Numbering struct {
	prefix   string
	ordinals map[string]int // by native message or call
	blocks   map[string]int // by native message or call: index of its next block
}

// NewNumbering returns the numbering of the items of a turn. parent is the call
// that started the subagent, as [Key] returns it; "" for the main line.
func NewNumbering(turn, parent string) *Numbering {
	return &Numbering{prefix: Prefix(turn, parent), ordinals: make(map[string]int), blocks: make(map[string]int)}
}

// Prefix returns how the ids of a turn's items begin. parent is the call that
// started the subagent, as [Key] returns it; "" for the turn's own items.
func Prefix(turn, parent string) string {
	if parent == "" {
		return turn + ":"
	}
	return turn + ":" + parent + "/"
}

// ID returns the id of a block of a native message or call.
func (n *Numbering) ID(native string, block int) string {
	if n.ordinals[native] == 0 {
		n.ordinals[native] = len(n.ordinals) + 1
	}
	return ItemID(n.prefix, n.ordinals[native], block)
}

// Next returns the id of the next block of a native message or call.
func (n *Numbering) Next(native string) string {
	block := n.blocks[native]
	n.blocks[native]++
	return n.ID(native, block)
}

// ItemID returns the id of a block of the message or call with an ordinal.
func ItemID(prefix string, ordinal, block int) string {
	return prefix + strconv.Itoa(ordinal) + ":" + strconv.Itoa(block)
}

// outputID returns the id of the output of a call's item.
func outputID(item string) string { return item + ":output" }

// An Output is the item of what a call printed. It opens once, may grow, and
// ends once: done or cancelled.
type Output struct {
	Start event.ItemStart // all of it but its type

	opened, ended bool
	streamed      []byte
}

// NewOutput returns the output of a call that is an item of its own.
func NewOutput(item, call, name, parent string) Output {
	return Output{Start: event.ItemStart{ItemID: outputID(item), CallID: call, Name: name, ParentCallID: parent}}
}

// Opened reports whether the output's item has begun.
func (o *Output) Opened() bool { return o.opened }

// Ended reports whether the output's item has ended.
func (o *Output) Ended() bool { return o.ended }

// Streamed returns what the output showed so far.
func (o *Output) Streamed() string { return string(o.streamed) }

// Open begins the item if it has not begun.
func (o *Output) Open(e TurnEmitter) {
	if o.opened {
		return
	}
	o.opened = true
	o.Start.ItemType = event.TypeFunctionCallOutput
	e.Emit(o.Start)
}

// Append shows further text. Text that would make it more than
// [event.MaxOutput] bytes is left out.
func (o *Output) Append(e TurnEmitter, text string) {
	if text == "" || o.ended || len(o.streamed)+len(text) > event.MaxOutput {
		return
	}
	o.Open(e)
	o.streamed = append(o.streamed, text...)
	e.Emit(event.ItemDelta{ItemID: o.Start.ItemID, DeltaContent: text})
}

// Grow shows text as it stands now, at most [event.MaxOutput] bytes of it. It
// shows nothing if text does not begin with what was shown.
func (o *Output) Grow(e TurnEmitter, all string) { o.Append(e, o.rest(all)) }

// Grows reports whether [Output.Grow] shows anything of a text. Some agents
// show output before the item of the call has ended, which has to end first.
func (o *Output) Grows(all string) bool { return !o.ended && o.rest(all) != "" }

// rest returns the text after what was shown, as far as it may be shown.
func (o *Output) rest(all string) string {
	all, _ = text.Cut(all, event.MaxOutput)
	if n := len(o.streamed); len(all) > n && all[:n] == string(o.streamed) {
		return all[n:]
	}
	return ""
}

// Done ends the item.
func (o *Output) Done(e TurnEmitter, final event.FunctionCallOutput) {
	if o.ended {
		return
	}
	o.Open(e)
	o.ended, o.streamed = true, nil
	e.Emit(event.ItemDone{ItemID: o.Start.ItemID, FinalItem: final})
}

// Cancel ends the item unfinished; it does nothing if the item has not begun.
func (o *Output) Cancel(e TurnEmitter, why event.CancelReason) {
	if !o.opened || o.ended {
		return
	}
	o.ended, o.streamed = true, nil
	e.Emit(event.ItemCancelled{ItemID: o.Start.ItemID, Reason: why})
}

// MaxText bounds what is kept of the text of an item, in bytes.
const MaxText = event.MaxText

// Bounds of a plan: its entries, and the text of each in bytes.
const (
	MaxSteps    = event.MaxOffered
	MaxStepText = event.MaxDescription
)

// MaxDetail bounds the structured result of a call that is passed on, in bytes.
const MaxDetail = event.MaxDetail

// EmitPlan emits a plan, which is whole each time, as an item of its own.
// parent is the call of the subagent that made it, "" if there is none.
func EmitPlan(e TurnEmitter, item, parent string, entries []event.PlanEntry) {
	e.Emit(event.ItemStart{ItemID: item, ItemType: event.TypePlan, ParentCallID: parent})
	e.Emit(event.ItemDone{ItemID: item, FinalItem: event.Plan{Entries: entries}})
}

// PlanEntry returns an entry of a plan. A state that is unknown counts as
// pending.
func PlanEntry(content, status, priority string) event.PlanEntry {
	e := event.PlanEntry{Content: text.OneLine(content, MaxStepText), Status: "pending", Priority: text.OneLine(priority, 40)}
	switch status {
	case "inProgress", "in_progress":
		e.Status = "in_progress"
	case "completed":
		e.Status = "completed"
	}
	return e
}

// SetOutput sets what a call printed, at most [event.MaxOutput] bytes of it.
// total is how many bytes the call printed in all, of which all may be a part.
func SetOutput(out *event.FunctionCallOutput, all string, total int64) {
	out.Output, _ = text.Cut(all, event.MaxOutput)
	if int64(len(out.Output)) < total {
		out.Truncated, out.TotalBytes = true, total
	}
}
