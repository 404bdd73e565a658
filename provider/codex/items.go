package codex

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// An itemList holds the native items of a turn and what is shown of them. Items
// are numbered from 1 in the order in which they start. One native item may be
// shown as two items.
type itemList struct {
	out    translate.TurnEmitter
	parent string // the call that started the subagent; "" in a turn of the conversation
	prefix string // prefix of the items' ids
	line   *line
	pieces map[string]*piece // by native id
	plans  int
	prompt string            // the native id of a prompt that another client sent
	asked  map[string]string // by native id: digest of the arguments that a question about the item showed
}

// A line is the state that the turns of one thread share.
type line struct {
	next        int    // ordinal of the next item
	lastMessage string // text of the last message
}

// A piece is a native item of a turn.
type piece struct {
	native  string
	kind    string // the native type
	ordinal int
	id      string // id of the item that is shown; the ids of its further items derive from it
	name    string // tool name
	title   string
	phase   string // for messages: commentary, final_answer
	call    bool   // it is a tool call
	started bool   // its ItemStart was emitted
	raw     bool   // for reasoning: the ItemStart of the model's raw reasoning was emitted
	called  bool   // its FunctionCall was emitted
	done    bool

	args    json.RawMessage // arguments of a command or a patch
	changes []event.Change  // changes of a patch, shown in a question about it
	output  translate.Output
	parts   int // for a reasoning summary: index of the part that begins next
}

func newItems(l *line) itemList { return itemList{line: l, pieces: make(map[string]*piece)} }

// setTurn sets the turn that shows all later items.
func (is *itemList) setTurn(out translate.TurnEmitter, parent string) {
	is.out, is.parent, is.prefix = out, parent, translate.Prefix(out.Turn(), "")
	if parent != "" {
		is.prefix = translate.Prefix(out.Turn(), key(parent))
	}
}

// forget drops all items. Later messages about them start new items.
func (is *itemList) forget() { is.pieces = make(map[string]*piece) }

// inOrder returns the pieces in the order in which they started.
func (is *itemList) inOrder() []*piece {
	out := make([]*piece, 0, len(is.pieces))
	for _, c := range is.pieces {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *piece) int { return a.ordinal - b.ordinal })
	return out
}

// piece returns the state of a native item, and adds the item if it is new. It
// returns nil for an item that is not shown.
func (is *itemList) piece(it item) *piece {
	if c := is.pieces[it.ID]; c != nil {
		return c
	}
	if it.ID == "" || it.Type == "userMessage" && is.isEcho(it) {
		return nil
	}
	c := &piece{native: it.ID, kind: it.Type, ordinal: is.line.next}
	c.id = translate.ItemID(is.prefix, c.ordinal, 0)
	is.line.next++
	is.pieces[it.ID] = c
	return c
}

// isEcho reports whether a user message was shown before: it is the turn's
// prompt, or the prompt of a subagent, which is part of the call that started
// the subagent.
func (is *itemList) isEcho(it item) bool {
	return is.parent != "" || it.ClientID == is.out.Turn() || it.ID == is.prompt
}

// noteAsked records the arguments that a question about an item showed.
func (is *itemList) noteAsked(native string, args json.RawMessage) {
	if is.asked == nil {
		is.asked = make(map[string]string)
	}
	is.asked[native] = translate.Digest(args)
	if c := is.pieces[native]; c != nil && c.args != nil {
		is.checkAsked(native, c.name, c.args)
	}
}

// checkAsked emits a notice if an item has other arguments than the question
// about it. Runnel cannot stop the call.
func (is *itemList) checkAsked(native, name string, args json.RawMessage) {
	if asked := is.asked[native]; asked != "" && asked != translate.Digest(args) {
		delete(is.asked, native)
		is.out.Emit(translate.ArgumentsDiffer(name))
	}
}

// begins processes the start of an item.
func (is *itemList) begins(it item) {
	c := is.piece(it)
	if c == nil {
		return
	}
	switch it.Type {
	case "agentMessage", "plan":
		c.phase = it.Phase
		is.begun(c, event.TypeMessage, it.Text)
	case "reasoning", "userMessage", "contextCompaction": // shown once they have content
	default:
		is.callStarted(c, it)
	}
}

// begun emits the start of an item, once.
func (is *itemList) begun(c *piece, typ event.ItemType, text string) {
	if c.started {
		return
	}
	c.started = true
	is.start(c, event.ItemStart{ItemID: c.id, ItemType: typ, InitialContent: text})
}

func (is *itemList) start(c *piece, b event.ItemStart) {
	b.ParentCallID, b.Native = is.parent, c.nativeID()
	if c.phase != "" && !c.call {
		b.Native["phase"] = clip(c.phase, 40)
	}
	is.out.Emit(b)
}

// maxNative bounds a native id in events, in bytes.
const maxNative = 200

// nativeID returns the native id for the Native field of events.
func (c *piece) nativeID() map[string]string {
	return map[string]string{"itemId": clip(c.native, maxNative)}
}

// add processes a delta of an item.
func (is *itemList) add(method string, c *piece, n note) {
	switch method {
	case "item/agentMessage/delta", "item/plan/delta":
		if c.started && !c.call {
			is.grow(c.id, n.Delta)
		}
	case "item/reasoning/summaryPartAdded":
		if n.Index > 0 && c.kind == "reasoning" {
			c.parts = n.Index
		}
	case "item/reasoning/summaryTextDelta":
		is.addSummary(c, n.Delta)
	case "item/reasoning/textDelta":
		if c.kind == "reasoning" && n.Delta != "" {
			is.startRaw(c)
			is.grow(c.rawID(), n.Delta)
		}
	case "item/commandExecution/outputDelta":
		if c.called { // 0.169.0 drops some of the output here; the command's end has all of it
			c.output.Append(is.out, n.Delta)
		}
	}
}

func (is *itemList) grow(id, text string) {
	if text != "" {
		is.out.Emit(event.ItemDelta{ItemID: id, DeltaContent: text})
	}
}

// paragraph separates the parts of a summary.
const paragraph = "\n\n"

func (is *itemList) addSummary(c *piece, text string) {
	if c.kind != "reasoning" || text == "" {
		return
	}
	if c.started && c.parts > 0 {
		text = paragraph + text
	}
	c.parts = 0
	is.begun(c, event.TypeReasoning, "")
	is.grow(c.id, text)
}

// rawID returns the id of the item for the model's raw reasoning. The summary
// has the id c.id.
func (c *piece) rawID() string { return strings.TrimSuffix(c.id, "0") + "1" }

// startRaw emits the start of the item for the model's raw reasoning, once.
func (is *itemList) startRaw(c *piece) {
	if !c.raw {
		c.raw = true
		is.start(c, event.ItemStart{ItemID: c.rawID(), ItemType: event.TypeReasoning})
	}
}

// whole processes the end of an item, with or without deltas before it.
func (is *itemList) whole(it item) {
	c := is.piece(it)
	if c == nil || c.done {
		return
	}
	if f, ok := toolCall(it); ok {
		is.checkAsked(it.ID, f.Name, f.Arguments)
	}
	c.done = true
	switch it.Type {
	case "agentMessage", "plan":
		c.phase = it.Phase
		is.begun(c, event.TypeMessage, "")
		is.out.Emit(event.ItemDone{ItemID: c.id, FinalItem: event.Message{Content: it.Text, Origin: event.OriginAgent}})
		is.line.lastMessage = it.Text
	case "userMessage": // not the prompt of this turn
		is.begun(c, event.TypeMessage, "")
		message, _ := userMessage(translate.DecodeLenient[[]userInput](it.Content), is.out.Picture)
		is.out.Emit(event.ItemDone{ItemID: c.id, FinalItem: message})
	case "reasoning":
		is.reasoned(c, it)
	case "contextCompaction":
		is.out.Emit(translate.Compacted)
	default:
		is.callStarted(c, it)
		if it.Type == "subAgentActivity" {
			c.done = !c.call // the call goes on; see subagents.activity
		} else if c.call {
			c.args, c.changes = nil, nil // no more questions about this patch can come
			c.output.Done(is.out, toolOutput(c, it))
		}
	}
}

// reasoned ends a reasoning item. It has a summary, or raw reasoning, or both.
func (is *itemList) reasoned(c *piece, it item) {
	parts := slices.DeleteFunc(slices.Clone(it.Summary), func(s string) bool { return s == "" })
	if text := strings.Join(parts, paragraph); text != "" || c.started {
		is.begun(c, event.TypeReasoning, "")
		is.out.Emit(event.ItemDone{ItemID: c.id, FinalItem: event.Reasoning{Content: text, ProviderID: providerID}})
	}
	if text := strings.Join(translate.DecodeLenient[[]string](it.Content), ""); text != "" || c.raw {
		is.startRaw(c)
		is.out.Emit(event.ItemDone{ItemID: c.rawID(), FinalItem: event.Reasoning{Content: text, ProviderID: providerID}})
	}
}

// abandon cancels a text item that will not be completed.
func (is *itemList) abandon(c *piece, why event.CancelReason) {
	c.done = true
	if c.started {
		is.out.Emit(event.ItemCancelled{ItemID: c.id, Reason: why})
	}
	if c.raw {
		is.out.Emit(event.ItemCancelled{ItemID: c.rawID(), Reason: why})
	}
}

// restart cancels the text items that are not complete. The agent retries the
// request, and the text arrives as new items.
func (is *itemList) restart() {
	for _, c := range is.inOrder() {
		if !c.done && !c.call {
			is.abandon(c, "")
		}
	}
}

// close ends the open items of a turn. If goesOn is true, commands and
// subagents continue in the background: their output ends with the text so far.
// close returns the commands that continue.
func (is *itemList) close(goesOn bool, why event.CancelReason) (commands []*piece) {
	for _, c := range is.inOrder() {
		switch {
		case c.done:
		case !c.call:
			is.abandon(c, why)
		case goesOn && c.kind == "commandExecution":
			is.toBackground(c, c.output.Streamed())
			commands = append(commands, c)
		case goesOn && c.kind == "subAgentActivity":
			is.toBackground(c, "It continues in the background.")
		case !c.called:
			c.done = true
			is.out.Emit(event.ItemCancelled{ItemID: c.id, Reason: why})
		default:
			c.done = true
			c.output.Cancel(is.out, why)
		}
	}
	return commands
}

// planned processes the agent's list of steps. Each list is complete and
// becomes an item.
func (is *itemList) planned(n note) {
	var entries []event.PlanEntry
	for _, s := range n.Plan[:min(len(n.Plan), translate.MaxSteps)] {
		entries = append(entries, translate.PlanEntry(s.Step, s.Status, ""))
	}
	is.plans++
	translate.EmitPlan(is.out, is.prefix+"plan:"+strconv.Itoa(is.plans), is.parent, entries)
}
