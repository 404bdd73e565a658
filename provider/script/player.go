package script

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// player is the state of a running script.
type player struct {
	turn     string
	queue    []action
	usage    event.Usage // counts words, until the script reports other numbers
	reported bool        // the script has reported the usage
	paused   bool        // the pause before queue[0] has begun; at the next call of advance it is over
	hanging  bool
	asking   string // id of the open approval; "" if there is none
	asked    *ask
}

// action is an event, an approval, a crash or a hang, after a pause.
type action struct {
	after time.Duration
	body  event.Body
	ask   *ask
	crash bool
	hang  bool
}

// ask is an approval of a tool. If the approval is denied, the next skip
// actions are replaced by those of denied.
type ask struct {
	approval event.Approval
	skip     int
	withdraw bool
	call     string
	output   string // id of the tool's output item
}

// denied returns the actions of a tool that did not run.
func (a *ask) denied(reason string) []action {
	if reason == "" {
		reason = "denied"
	}
	return outputActions(a.output, event.FunctionCallOutput{CallID: a.call, Output: reason, IsError: true}, "")
}

// answer returns the actions after a question or a form was answered: the
// tool's output is the answer. It returns nil for other approvals.
func (a *ask) answer(chosen event.Choice, values json.RawMessage) []action {
	if a.approval.Kind != event.ApprovalQuestion && a.approval.Kind != event.ApprovalForm {
		return nil
	}
	text := string(values)
	if text == "" {
		text = chosen.Label
	}
	return outputActions(a.output, event.FunctionCallOutput{CallID: a.call, Output: text}, "")
}

// compiler translates steps into actions.
type compiler struct {
	turn      string
	prefix    string // of item ids: the turn, or the turn and the parent call
	parent    string
	ordinal   int
	approvals *int
	calls     *int
}

// compile translates a script into a player. It is pure: the same turn and
// script give the same events with the same ids.
func compile(turn string, s Script) *player {
	c := compiler{turn: turn, prefix: turn + ":", approvals: new(int), calls: new(int)}
	var queue []action
	for _, st := range s.Steps {
		queue = append(queue, c.step(st)...)
	}
	return &player{turn: turn, queue: queue}
}

func (c *compiler) id() string {
	c.ordinal++
	return fmt.Sprintf("%s%d:0", c.prefix, c.ordinal)
}

func (c *compiler) step(st Step) []action {
	var out []action
	switch {
	case st.Text != "":
		out = c.stream(event.TypeMessage, st)
	case st.Reasoning != "":
		out = c.stream(event.TypeReasoning, st)
	case st.Tool != nil:
		out = c.tools([]Tool{*st.Tool}, st.Rate)
	case len(st.Tools) > 0:
		out = c.tools(st.Tools, st.Rate)
	case len(st.Plan) > 0:
		id := c.id()
		out = []action{
			{body: event.ItemStart{ItemID: id, ItemType: event.TypePlan, ParentCallID: c.parent}},
			{body: event.ItemDone{ItemID: id, FinalItem: event.Plan{Entries: st.Plan}}},
		}
	case st.Notice != nil:
		out = []action{{body: *st.Notice}}
	case st.Usage != nil:
		out = []action{{body: *st.Usage}}
	case st.Session != nil:
		out = []action{{body: *st.Session}}
	case st.Fail != nil:
		out = []action{{body: event.ResponseError{Error: *st.Fail}}}
	case st.Crash:
		out = []action{{crash: true}}
	case st.Hang:
		out = []action{{hang: true}}
	}
	if len(out) > 0 {
		out[0].after += time.Duration(st.PauseMS) * time.Millisecond
	}
	return out
}

// stream returns the actions that emit a text word by word.
func (c *compiler) stream(typ event.ItemType, st Step) []action {
	id := c.id()
	text := st.Text + st.Reasoning
	if st.Repeat > 1 {
		text = strings.Repeat(text, st.Repeat)
	}
	out := []action{{body: event.ItemStart{ItemID: id, ItemType: typ, ParentCallID: c.parent}}}
	out = append(out, deltas(id, text, st.Rate)...)
	if st.Error != nil {
		return append(out, action{body: event.ItemError{ItemID: id, Error: *st.Error}})
	}
	var final event.FinalItem = event.Message{Content: text, Origin: event.OriginAgent}
	if typ == event.TypeReasoning {
		final = event.Reasoning{Content: text, ProviderID: Name}
	}
	return append(out, action{body: event.ItemDone{ItemID: id, FinalItem: final}})
}

func deltas(id, text string, rate float64) []action {
	var out []action
	for _, w := range strings.SplitAfter(text, " ") {
		if w == "" {
			continue
		}
		a := action{body: event.ItemDelta{ItemID: id, DeltaContent: w}}
		if rate > 0 {
			a.after = time.Duration(float64(time.Second) / rate)
		}
		out = append(out, a)
	}
	return out
}

// tools returns the actions of parallel calls. They start all calls and then
// emit the outputs in reverse order, because parallel tools can end in any
// order.
func (c *compiler) tools(tools []Tool, rate float64) []action {
	var starts, ends []action
	for i, t := range tools {
		*c.calls++
		call := fmt.Sprintf("%s:call-%d", c.turn, *c.calls)
		id := c.id()
		starts = append(starts, c.call(id, call, t, rate)...)
		end := c.output(id, call, t)
		if i == 0 {
			ends = end
			continue
		}
		ends = append(end, ends...)
	}
	return append(starts, ends...)
}

func (c *compiler) call(id, call string, t Tool, rate float64) []action {
	args := t.arguments()
	kind := t.Kind
	if kind == "" {
		kind = event.KindOther
	}
	out := []action{{body: event.ItemStart{ItemID: id, ItemType: event.TypeFunctionCall, CallID: call, Name: t.Name, ParentCallID: c.parent}}}
	out = append(out, deltas(id, string(args), rate)...)
	return append(out, action{body: event.ItemDone{ItemID: id, FinalItem: event.FunctionCall{
		Name: t.Name, CallID: call, Arguments: args, Kind: kind, Title: t.Title, Locations: locations(t.Changes),
	}}})
}

func (c *compiler) output(id, call string, t Tool) []action {
	var work []action
	if len(t.Steps) > 0 {
		sub := compiler{turn: c.turn, prefix: c.turn + ":" + call + "/", parent: call, approvals: c.approvals, calls: c.calls}
		for _, st := range t.Steps {
			work = append(work, sub.step(st)...)
		}
	}
	out := append(work, outputActions(id+":output", event.FunctionCallOutput{
		CallID: call, Output: t.Output + strings.Join(t.Pieces, ""), IsError: t.IsError, Changes: t.Changes, ExitCode: t.ExitCode,
	}, c.parent)...)
	if len(t.Pieces) > 0 {
		out = slices.Insert(out, len(out)-1, t.pieces(id+":output")...)
	}
	out[0].after += time.Duration(t.TakesMS) * time.Millisecond
	if t.Ask == nil {
		return out
	}
	*c.approvals++
	return append([]action{{ask: &ask{
		approval: approval(fmt.Sprintf("%s:a%d", c.turn, *c.approvals), id, call, t),
		skip:     len(out), withdraw: t.Ask.Withdraw, call: call, output: id + ":output",
	}}}, out...)
}

func outputActions(id string, f event.FunctionCallOutput, parent string) []action {
	return []action{
		{body: event.ItemStart{ItemID: id, ItemType: event.TypeFunctionCallOutput, CallID: f.CallID, ParentCallID: parent}},
		{body: event.ItemDone{ItemID: id, FinalItem: f}},
	}
}

// pieces returns the actions that emit the output piece by piece.
func (t Tool) pieces(id string) []action {
	var out []action
	for _, piece := range append([]string{t.Output}, t.Pieces...) {
		if piece != "" {
			after := time.Duration(t.PieceMS) * time.Millisecond
			out = append(out, action{after: after, body: event.ItemDelta{ItemID: id, DeltaContent: piece}})
		}
	}
	return out
}

func approval(id, item, call string, t Tool) event.Approval {
	args := t.Ask.Arguments
	if len(args) == 0 {
		args = t.arguments()
	}
	a := event.Approval{
		ID: id, ItemID: item, CallID: call, Kind: t.Ask.Kind, Title: t.Ask.Title, ToolName: t.Name, Why: t.Ask.Why,
		Arguments: args, ArgumentsDigest: digest(args), Changes: t.Changes, Choices: t.Ask.Choices,
	}
	if a.Kind == "" {
		a.Kind = event.ApprovalTool
	}
	a.ArgumentsEditable = a.Kind == event.ApprovalQuestion || a.Kind == event.ApprovalForm || t.Ask.Editable
	if len(a.Choices) == 0 {
		a.Choices = choices(a.Kind)
	}
	if a.Title == "" {
		a.Title = t.Name
	}
	return a
}

func choices(kind event.ApprovalKind) []event.Choice {
	once := event.Choice{ID: "allow", Kind: event.ChoiceAllowOnce, Label: "Allow once"}
	no := event.Choice{ID: "deny", Kind: event.ChoiceDeny, Label: "Deny"}
	stop := event.Choice{ID: "deny_stop", Kind: event.ChoiceDenyStop, Label: "Deny and stop"}
	switch kind {
	case event.ApprovalQuestion:
		once.Label, no.Label, stop.Label = "Answer", "Do not answer", "Stop"
	case event.ApprovalForm:
		once.Label, no.Label, stop.Label = "Send", "Decline", "Stop"
	default:
		return []event.Choice{once, {ID: "allow_session", Kind: event.ChoiceAllowSession, Label: "Allow for this session"}, no, stop}
	}
	return []event.Choice{once, no, stop}
}

func (t Tool) arguments() json.RawMessage {
	if len(t.Arguments) == 0 {
		return json.RawMessage("{}")
	}
	return t.Arguments
}

func locations(changes []event.Change) []event.Location {
	var out []event.Location
	for _, c := range changes {
		out = append(out, event.Location{Path: c.Path})
	}
	return out
}

func words(s string) int { return len(strings.Fields(s)) }
