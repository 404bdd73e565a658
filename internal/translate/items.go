package translate

import (
	"maps"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// A Numbering assigns ids to the items of one sequence of native messages: a
// turn's own, or a subagent's. Native messages and calls are numbered from 1 in
// the order in which they first occur. The blocks of each are numbered from 0.
type Numbering struct {
	prefix   string
	last     int            // the last number that was assigned
	ordinals map[string]int // by native message or call
	blocks   map[string]int // by native message or call: index of the next block
}

// NewNumbering returns the numbering for a turn's items. parent is the call
// that started the subagent, in the form that [Key] returns. It is "" for the
// turn's own items.
func NewNumbering(turn, parent string) *Numbering {
	return &Numbering{prefix: Prefix(turn, parent), ordinals: make(map[string]int), blocks: make(map[string]int)}
}

// Prefix returns the beginning of the ids of a turn's items. parent is the call
// that started the subagent, in the form that [Key] returns. It is "" for the
// turn's own items.
func Prefix(turn, parent string) string {
	if parent == "" {
		return turn + ":"
	}
	return turn + ":" + parent + "/"
}

// ID returns the id of a block of a native message or call.
func (n *Numbering) ID(native string, block int) string {
	if n.ordinals[native] == 0 {
		n.last++
		n.ordinals[native] = n.last
	}
	return ItemID(n.prefix, n.ordinals[native], block)
}

// Keep assigns numbers that items already have. It assigns none if the native
// message of an item is unknown, because that item would get another number.
func (n *Numbering) Keep(items []runnel.ShownItem) {
	kept, last := make(map[string]int), 0
	for _, it := range items {
		place, ours := strings.CutPrefix(it.ID, n.prefix)
		number, _, _ := strings.Cut(place, ":")
		ordinal, err := strconv.Atoi(number)
		if !ours || err != nil { // of another turn or of a subagent
			continue
		}
		if it.Native == "" {
			return
		}
		kept[it.Native], last = ordinal, max(last, ordinal)
	}
	maps.Copy(n.ordinals, kept)
	n.last = max(n.last, last)
}

// Next returns the id of the next block of a native message or call.
func (n *Numbering) Next(native string) string {
	block := n.blocks[native]
	n.blocks[native]++
	return n.ID(native, block)
}

// ItemID returns the id of a block of the message or call with the given
// ordinal.
func ItemID(prefix string, ordinal, block int) string {
	return prefix + strconv.Itoa(ordinal) + ":" + strconv.Itoa(block)
}

// outputID returns the id of the output of a call's item.
func outputID(item string) string { return item + ":output" }

// An Output is the item for the output of a call. It starts once, may grow, and
// ends once: done or cancelled.
type Output struct {
	Start event.ItemStart // complete except for the type

	opened, ended bool
	streamed      []byte
}

// NewOutput returns the output for the call whose item has the id item.
func NewOutput(item, call, name, parent string) Output {
	return Output{Start: event.ItemStart{ItemID: outputID(item), CallID: call, Name: name, ParentCallID: parent}}
}

// Opened reports whether the item has started.
func (o *Output) Opened() bool { return o.opened }

// Ended reports whether the item has ended.
func (o *Output) Ended() bool { return o.ended }

// Streamed returns the text shown so far.
func (o *Output) Streamed() string { return string(o.streamed) }

// Open starts the item if it has not started.
func (o *Output) Open(e TurnEmitter) {
	if o.opened {
		return
	}
	o.opened = true
	o.Start.ItemType = event.TypeFunctionCallOutput
	e.Emit(o.Start)
}

// Append shows further text. It drops text that would exceed [event.MaxOutput]
// bytes in total.
func (o *Output) Append(e TurnEmitter, text string) {
	if text == "" || o.ended || len(o.streamed)+len(text) > event.MaxOutput {
		return
	}
	o.Open(e)
	o.streamed = append(o.streamed, text...)
	e.Emit(event.ItemDelta{ItemID: o.Start.ItemID, DeltaContent: text})
}

// Grow shows the part of all that was not shown yet, up to [event.MaxOutput]
// bytes in total. It shows nothing if all does not begin with the text shown so
// far.
func (o *Output) Grow(e TurnEmitter, all string) { o.Append(e, o.rest(all)) }

// Grows reports whether [Output.Grow] would show anything. Some agents print
// output before the item of the call has ended, and the caller must end that
// item first.
func (o *Output) Grows(all string) bool { return !o.ended && o.rest(all) != "" }

// rest returns the part of all that Grow would show.
func (o *Output) rest(all string) string {
	all, _ = text.Cut(all, event.MaxOutput)
	if n := len(o.streamed); len(all) > n && all[:n] == string(o.streamed) {
		return strings.Clone(all[n:]) // the event must not keep the whole text in memory
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

// Cancel cancels the item if it is open.
func (o *Output) Cancel(e TurnEmitter, why event.CancelReason) {
	if !o.opened || o.ended {
		return
	}
	o.ended, o.streamed = true, nil
	e.Emit(event.ItemCancelled{ItemID: o.Start.ItemID, Reason: why})
}

// MaxText bounds the text of an item, in bytes.
const MaxText = event.MaxText

// Bounds of a plan: the number of entries, and the bytes of an entry's text.
const (
	MaxSteps    = event.MaxOffered
	MaxStepText = event.MaxDescription
)

// MaxDetail bounds the structured result of a call, in bytes.
const MaxDetail = event.MaxDetail

// EmitPlan emits a complete plan as a new item. parent is the call of the
// subagent that made it, "" if there is none.
func EmitPlan(e TurnEmitter, item, parent string, entries []event.PlanEntry) {
	e.Emit(event.ItemStart{ItemID: item, ItemType: event.TypePlan, ParentCallID: parent})
	e.Emit(event.ItemDone{ItemID: item, FinalItem: event.Plan{Entries: entries}})
}

// PlanEntry returns an entry of a plan. An unknown status counts as pending.
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

// SetOutput sets the output of a call, at most [event.MaxOutput] bytes of it.
// all may be a part of the whole output, which has total bytes.
func SetOutput(out *event.FunctionCallOutput, all string, total int64) {
	out.Output, _ = text.Cut(all, event.MaxOutput)
	if int64(len(out.Output)) < total {
		out.Truncated, out.TotalBytes = true, total
	}
}
