package codex

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/translate"
)

// An itemList is the native items of a turn, and what is shown of them. They
// are numbered from 1, in the order in which they start; a native item may be
// shown as two.
type itemList struct {
	out    translate.TurnEmitter
	parent string // the call of the subagent that they are of; "" for the conversation's own
	prefix string // of their ids
	line   *line
	pieces map[string]*piece // by the agent's ids
	plans  int
	prompt string // the agent's id of the prompt, where it has no id of ours
}

// A line is what the turns of one thread have in common.
type line struct {
	next int    // ordinal of the item that starts next
	said string // the last message
}

// A piece is a native item of a turn.
type piece struct {
	native  string
	kind    string // the native type
	ordinal int
	id      string // of the item that is shown; further ones derive from it
	name    string // of the tool
	title   string
	phase   string // of a message: commentary, final_answer
	call    bool   // a tool call, with an output
	started bool   // its ItemStart is out
	raw     bool   // that of a second item is, for reasoning in the model's own words
	called  bool   // its FunctionCall is final
	done    bool

	args    json.RawMessage // of a patch, with
	changes []event.Change  // what it would do; for a question about it
	output  translate.Output
	parts   int // of a summary, the number of the one that begins next
}

func newItems(l *line) itemList { return itemList{line: l, pieces: make(map[string]*piece)} }

// place decides which turn shows the items that start from here on.
func (is *itemList) place(out translate.TurnEmitter, parent string) {
	is.out, is.parent, is.prefix = out, parent, translate.Prefix(out.Turn(), "")
	if parent != "" {
		is.prefix = translate.Prefix(out.Turn(), key(parent))
	}
}

// forget drops the items so far: what comes of them is shown as new.
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

// piece returns what is known of a native item, and begins it if it is new. It
// is nil for what nobody is shown.
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

// isEcho reports whether a message of the user's was shown already: the prompt
// of the turn, or a subagent's, which the call that started it shows.
func (is *itemList) isEcho(it item) bool {
	return is.parent != "" || it.ClientID == is.out.Turn() || it.ID == is.prompt
}

// begins takes an item that is not whole yet.
func (is *itemList) begins(it item) {
	c := is.piece(it)
	if c == nil {
		return
	}
	switch it.Type {
	case "agentMessage", "plan":
		c.phase = it.Phase
		is.begun(c, event.TypeMessage, it.Text)
	case "reasoning", "userMessage", "contextCompaction": // shown as soon as there is something to show
	default:
		is.callStarted(c, it)
	}
}

// begun announces an item.
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

// nativeID is how events name the native item.
func (c *piece) nativeID() map[string]string { return map[string]string{"itemId": clip(c.native, 200)} }

// add takes what is added to an item that is not whole yet.
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
		if c.called { // 0.169 leaves out some of the output; all of it comes with the command's end
			c.output.Append(is.out, n.Delta)
		}
	}
}

func (is *itemList) grow(id, text string) {
	if text != "" {
		is.out.Emit(event.ItemDelta{ItemID: id, DeltaContent: text})
	}
}

// paragraph stands between the parts of a summary.
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

// rawID is the item of a model's own words, beside that of their summary.
func (c *piece) rawID() string { return strings.TrimSuffix(c.id, "0") + "1" }

// startRaw announces the item of a model's own words.
func (is *itemList) startRaw(c *piece) {
	if !c.raw {
		c.raw = true
		is.start(c, event.ItemStart{ItemID: c.rawID(), ItemType: event.TypeReasoning})
	}
}

// whole takes a finished item, whether it was streamed before or not.
func (is *itemList) whole(it item) {
	c := is.piece(it)
	if c == nil || c.done {
		return
	}
	c.done = true
	switch it.Type {
	case "agentMessage", "plan":
		c.phase = it.Phase
		is.begun(c, event.TypeMessage, "")
		is.out.Emit(event.ItemDone{ItemID: c.id, FinalItem: event.Message{Content: it.Text, Origin: event.OriginAgent}})
		is.line.said = it.Text
	case "userMessage": // one that is not the prompt of its turn
		is.begun(c, event.TypeMessage, "")
		said, _ := userMessage(translate.Loose[[]userInput](it.Content))
		is.out.Emit(event.ItemDone{ItemID: c.id, FinalItem: said})
	case "reasoning":
		is.reasoned(c, it)
	case "contextCompaction":
		is.out.Emit(translate.Compacted)
	default:
		is.callStarted(c, it)
		if it.Type == "subAgentActivity" {
			c.done = !c.call // the call goes on; see subagents.acts
		} else if c.call {
			c.args, c.changes = nil, nil // nobody asks for them any more
			c.output.Done(is.out, toolOutput(c, it))
		}
	}
}

// reasoned ends reasoning, which is a summary, or the model's own words, or
// both.
func (is *itemList) reasoned(c *piece, it item) {
	parts := slices.DeleteFunc(slices.Clone(it.Summary), func(s string) bool { return s == "" })
	if text := strings.Join(parts, paragraph); text != "" || c.started {
		is.begun(c, event.TypeReasoning, "")
		is.out.Emit(event.ItemDone{ItemID: c.id, FinalItem: event.Reasoning{Content: text, ProviderID: providerID}})
	}
	if text := strings.Join(translate.Loose[[]string](it.Content), ""); text != "" || c.raw {
		is.startRaw(c)
		is.out.Emit(event.ItemDone{ItemID: c.rawID(), FinalItem: event.Reasoning{Content: text, ProviderID: providerID}})
	}
}

// abandon cancels an item of text that will not become whole.
func (is *itemList) abandon(c *piece, why event.CancelReason) {
	c.done = true
	if c.started {
		is.out.Emit(event.ItemCancelled{ItemID: c.id, Reason: why})
	}
	if c.raw {
		is.out.Emit(event.ItemCancelled{ItemID: c.rawID(), Reason: why})
	}
}

// restart abandons the text that was streamed: the agent tries again, and the
// text comes as another item.
func (is *itemList) restart() {
	for _, c := range is.inOrder() {
		if !c.done && !c.call {
			is.abandon(c, "")
		}
	}
}

// close ends what is open when the turn is over. If calls may go on, their
// output is what they printed so far; the commands among them are returned.
func (is *itemList) close(goesOn bool, why event.CancelReason) (commands []*piece) {
	for _, c := range is.inOrder() {
		switch {
		case c.done:
		case !c.call:
			is.abandon(c, why)
		case goesOn && c.kind == "commandExecution":
			is.leave(c, c.output.Streamed())
			commands = append(commands, c)
		case goesOn && c.kind == "subAgentActivity":
			is.leave(c, "It goes on in the background.")
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

// planned takes the agent's list of what it means to do. Each list is whole and
// an item of its own.
func (is *itemList) planned(n note) {
	var entries []event.PlanEntry
	for _, s := range n.Plan[:min(len(n.Plan), translate.MaxSteps)] {
		entries = append(entries, translate.PlanEntry(s.Step, s.Status, ""))
	}
	is.plans++
	translate.EmitPlan(is.out, is.prefix+"plan:"+strconv.Itoa(is.plans), is.parent, entries)
}
