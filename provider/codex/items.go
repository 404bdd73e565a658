package codex

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel/event"
)

// piece is a native item of a turn, or what is shown of it.
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

	outputOpen bool
	text       []byte // of the output, as far as it was streamed
	parts      int    // of a summary, the number of the one that begins next
}

// inOrder returns the pieces in the order in which they started.
func (tn *turn) inOrder() []*piece {
	out := make([]*piece, 0, len(tn.items))
	for _, c := range tn.items {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *piece) int { return a.ordinal - b.ordinal })
	return out
}

// piece returns what is known of a native item, and begins it if it is new. It
// is nil for what nobody is shown.
func (t *translator) piece(tn *turn, it item) *piece {
	if c := tn.items[it.ID]; c != nil {
		return c
	}
	if it.ID == "" || it.Type == "userMessage" && t.isEcho(tn, it) {
		return nil
	}
	next := &tn.next
	if tn.agent != nil {
		next = &tn.agent.next
	}
	c := &piece{native: it.ID, kind: it.Type, ordinal: *next}
	c.id = tn.prefix + strconv.Itoa(c.ordinal) + ":0"
	*next++
	tn.items[it.ID] = c
	return c
}

// isEcho reports whether a message of the user's was shown already: the prompt
// of the turn, or a subagent's, which the call that started it shows.
func (t *translator) isEcho(tn *turn, it item) bool {
	return tn.main != nil || it.ClientID == tn.id || it.ID == tn.prompt
}

func (t *translator) itemStarted(n note) {
	tn := t.turnOf(n)
	if tn == nil || n.Item == nil || tn.items[n.Item.ID] != nil {
		t.skipped++
		return
	}
	tn.told, tn.retry = 0, ""
	t.begins(tn, *n.Item)
}

// begins takes an item that is not whole yet.
func (t *translator) begins(tn *turn, it item) {
	c := t.piece(tn, it)
	if c == nil {
		return
	}
	switch it.Type {
	case "agentMessage", "plan":
		c.phase = it.Phase
		t.begun(tn, c, event.TypeMessage, it.Text)
	case "reasoning", "userMessage", "contextCompaction": // shown as soon as there is something to show
	default:
		t.callStarted(tn, c, it)
	}
}

// begun announces an item.
func (t *translator) begun(tn *turn, c *piece, typ event.ItemType, text string) {
	if c.started {
		return
	}
	c.started = true
	t.start(tn, c, event.ItemStart{ItemID: c.id, ItemType: typ, InitialContent: text})
}

func (t *translator) start(tn *turn, c *piece, b event.ItemStart) {
	b.ParentCallID = tn.parent
	b.Native = map[string]string{"itemId": clip(c.native, 200)}
	if c.phase != "" && !c.call {
		b.Native["phase"] = clip(c.phase, 40)
	}
	t.emit(tn, b)
}

// delta takes what is added to an item that is not whole yet.
func (t *translator) delta(method string, n note) {
	tn := t.turns[n.TurnID]
	if tn == nil || tn.items[n.ItemID] == nil {
		t.skipped++ // of a turn that is over, or before its item
		return
	}
	tn.told, tn.retry = 0, ""
	c := tn.items[n.ItemID]
	if c.done {
		return
	}
	switch method {
	case "item/agentMessage/delta", "item/plan/delta":
		if c.started && !c.call {
			t.add(tn, c.id, n.Delta)
		}
	case "item/reasoning/summaryPartAdded":
		if n.Index > 0 && c.kind == "reasoning" {
			c.parts = n.Index
		}
	case "item/reasoning/summaryTextDelta":
		t.summaryDelta(tn, c, n)
	case "item/reasoning/textDelta":
		t.rawDelta(tn, c, n)
	case "item/commandExecution/outputDelta":
		t.outputDelta(tn, c, n.Delta)
	}
}

func (t *translator) add(tn *turn, id, text string) {
	if text != "" {
		t.emit(tn, event.ItemDelta{ItemID: id, DeltaContent: text})
	}
}

// paragraph stands between the parts of a summary.
const paragraph = "\n\n"

func (t *translator) summaryDelta(tn *turn, c *piece, n note) {
	if c.kind != "reasoning" || n.Delta == "" {
		return
	}
	if c.started && c.parts > 0 {
		n.Delta = paragraph + n.Delta
	}
	c.parts = 0
	t.begun(tn, c, event.TypeReasoning, "")
	t.add(tn, c.id, n.Delta)
}

// rawID is the item of a model's own words, beside that of their summary.
func (c *piece) rawID() string { return strings.TrimSuffix(c.id, "0") + "1" }

func (t *translator) rawDelta(tn *turn, c *piece, n note) {
	if c.kind != "reasoning" || n.Delta == "" {
		return
	}
	if !c.raw {
		c.raw = true
		t.start(tn, c, event.ItemStart{ItemID: c.rawID(), ItemType: event.TypeReasoning})
	}
	t.add(tn, c.rawID(), n.Delta)
}

// outputDelta takes what a command printed. 0.169 leaves out some of it; what
// the command printed in all comes with its end.
func (t *translator) outputDelta(tn *turn, c *piece, text string) {
	if !c.called || text == "" || len(c.text)+len(text) > event.MaxOutput {
		return
	}
	t.openOutput(tn, c)
	c.text = append(c.text, text...)
	t.add(tn, c.id+":output", text)
}

func (t *translator) openOutput(tn *turn, c *piece) {
	if c.outputOpen {
		return
	}
	c.outputOpen = true
	t.start(tn, c, event.ItemStart{ItemID: c.id + ":output", ItemType: event.TypeFunctionCallOutput, CallID: c.native, Name: c.name})
}

func (t *translator) itemCompleted(n note) {
	if n.Item == nil || t.ended(n) {
		return
	}
	tn := t.turnOf(n)
	if tn == nil {
		t.skipped++ // of a turn that was interrupted, as a rule
		return
	}
	t.whole(tn, *n.Item)
}

// whole takes a finished item, whether it was streamed before or not.
func (t *translator) whole(tn *turn, it item) {
	c := t.piece(tn, it)
	if c == nil || c.done {
		return
	}
	c.done = true
	switch it.Type {
	case "agentMessage", "plan":
		c.phase = it.Phase
		t.begun(tn, c, event.TypeMessage, "")
		t.emit(tn, event.ItemDone{ItemID: c.id, FinalItem: event.Message{Content: it.Text, Origin: event.OriginAgent}})
		if tn.agent != nil {
			tn.agent.said = it.Text
		}
	case "userMessage":
		t.steered(tn, c, it)
	case "reasoning":
		t.reasoned(tn, c, it)
	case "contextCompaction":
		t.emit(tn, event.Notice{Level: event.LevelInfo, Code: "COMPACTED", Message: "The agent summarised the conversation to make room in its context."})
	default:
		t.callStarted(tn, c, it)
		if c.call {
			t.finish(tn, c, it)
		}
	}
}

// steered takes a message of the user's that is not the prompt of its turn.
func (t *translator) steered(tn *turn, c *piece, it item) {
	text, files := spoken(loose[[]userInput](it.Content))
	t.begun(tn, c, event.TypeMessage, "")
	t.emit(tn, event.ItemDone{ItemID: c.id, FinalItem: event.Message{Content: text, Origin: event.OriginUser, Attachments: files}})
}

func (t *translator) reasoned(tn *turn, c *piece, it item) {
	parts := slices.DeleteFunc(slices.Clone(it.Summary), func(s string) bool { return s == "" })
	if text := strings.Join(parts, paragraph); text != "" || c.started {
		t.begun(tn, c, event.TypeReasoning, "")
		t.emit(tn, event.ItemDone{ItemID: c.id, FinalItem: event.Reasoning{Content: text, ProviderID: providerID}})
	}
	if text := strings.Join(loose[[]string](it.Content), ""); text != "" || c.raw {
		if !c.raw {
			c.raw = true
			t.start(tn, c, event.ItemStart{ItemID: c.rawID(), ItemType: event.TypeReasoning})
		}
		t.emit(tn, event.ItemDone{ItemID: c.rawID(), FinalItem: event.Reasoning{Content: text, ProviderID: providerID}})
	}
}

// abandon cancels an item that will not become whole.
func (t *translator) abandon(tn *turn, c *piece, why event.CancelReason) {
	if c.started {
		t.emit(tn, event.ItemCancelled{ItemID: c.id, Reason: why})
	}
	if c.raw {
		t.emit(tn, event.ItemCancelled{ItemID: c.rawID(), Reason: why})
	}
}

// callStarted announces a tool call, and finishes it if its arguments are known.
func (t *translator) callStarted(tn *turn, c *piece, it item) {
	f, ok := toolCall(it)
	if !ok {
		t.skipped++
		return
	}
	if it.Type == "subAgentActivity" && !t.agentActs(tn, c, it) {
		return
	}
	if !c.started {
		c.started, c.call = true, true
		c.name, c.title = f.Name, f.Title
		if it.Type == "fileChange" {
			c.args, c.changes = f.Arguments, changes(it.Changes)
		}
		t.start(tn, c, event.ItemStart{ItemID: c.id, ItemType: event.TypeFunctionCall, CallID: f.CallID, Name: f.Name})
	}
	late := it.Type == "webSearch" || it.Type == "imageGeneration" // what it is about is known at its end
	if !c.called && (!late || c.done) {
		c.called = true
		t.emit(tn, event.ItemDone{ItemID: c.id, FinalItem: f})
	}
}

// finish ends a call with its output.
func (t *translator) finish(tn *turn, c *piece, it item) {
	if it.Type == "subAgentActivity" {
		c.done = false // it goes on; see agentActs
		return
	}
	t.output(tn, c, it)
}

func (t *translator) output(tn *turn, c *piece, it item) {
	t.openOutput(tn, c)
	c.text, c.args, c.changes = nil, nil, nil // nobody asks for them any more
	t.emit(tn, event.ItemDone{ItemID: c.id + ":output", FinalItem: toolOutput(c, it)})
}

// maxSteps and maxStepText bound a plan: its entries, and the text of each in bytes.
const (
	maxSteps    = 500
	maxStepText = 1000
)

// planned takes the agent's list of what it means to do. Each is whole and an
// item of its own.
func (t *translator) planned(n note) {
	tn := t.turnOf(n)
	if tn == nil {
		return
	}
	var plan event.Plan
	for _, s := range n.Plan[:min(len(n.Plan), maxSteps)] {
		e := event.PlanEntry{Content: oneLine(s.Step, maxStepText), Status: "pending"}
		switch s.Status {
		case "inProgress":
			e.Status = "in_progress"
		case "completed":
			e.Status = "completed"
		}
		plan.Entries = append(plan.Entries, e)
	}
	tn.plans++
	id := tn.prefix + "plan:" + strconv.Itoa(tn.plans)
	t.emit(tn, event.ItemStart{ItemID: id, ItemType: event.TypePlan, ParentCallID: tn.parent})
	t.emit(tn, event.ItemDone{ItemID: id, FinalItem: plan})
}

// object encodes what a call is about.
func object(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("{}")
	}
	return b
}
