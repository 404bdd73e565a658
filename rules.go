package runnel

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
)

// rules is the state of one turn. It has no side effects: its methods take
// events and return the events to log. Whatever a provider does, rules ensures
// that
//
//   - the first event after the user's message is ResponseStart;
//   - every item that starts ends, and every approval is resolved;
//   - the last event is the only one for which event.Ends holds;
//   - a turn ends as cancelled if, and only if, the session cancelled it.
type rules struct {
	turn     string
	provider string

	// believe accepts a cancelled end although cancelling is not set. It is set
	// for replayed events, because the turn may have been cancelled earlier.
	believe bool

	// cancelling is set once the session has cancelled the turn.
	cancelling bool

	// unstopped is set once the turn has a notice about a failed interrupt.
	unstopped bool

	// at is the time of the first event. overBudget is set once the turn has a
	// notice that it has passed a budget.
	at         time.Time
	overBudget bool

	// warned is set once the turn has a notice about rejected attachments.
	warned bool

	started bool
	ended   bool
	held    []event.Event // facts that arrived before ResponseStart
	items   map[string]*itemState
	begun   []string // ids of all items, in the order they started
	open    int      // number of items that have not ended
	asked   []event.Approval
	settled map[string]bool // ids of approvals that were asked and resolved
	running map[string]bool // calls, by call id, that have no output yet and have not failed
	invalid int
	dropped int // events that came too late or twice

	finalText string
	usage     event.UsageUpdated
	one       [1]event.Event // buffer for the result of itemDelta
}

type itemState struct {
	typ    event.ItemType
	size   int // bytes of its text so far
	callID string
	parent string
	ended  bool
}

// maxHeld bounds the facts that wait for ResponseStart. One more fact starts
// the response, so that readers see the notices of an agent that only retries.
const maxHeld = 16

// maxInvalid bounds the notices about invalid events of one turn.
const maxInvalid = 8

// UnknownModel is the model of a response whose agent does not report it.
const UnknownModel = "unknown"

func newRules(turn, provider string) *rules {
	return &rules{turn: turn, provider: provider, items: map[string]*itemState{}, settled: map[string]bool{}, running: map[string]bool{}}
}

// user returns the events of the user's own message, with a notice about the
// attachments that were rejected.
func (r *rules) user(at time.Time, in Input) []event.Event {
	msg := event.Message{Content: in.Text, Origin: event.OriginUser}
	for _, a := range in.Attachments {
		msg.Attachments = append(msg.Attachments, event.Attachment{
			Name: a.Name, MediaType: a.MediaType, Size: int64(len(a.Data) + len(a.Text)), Picture: event.PictureID(a.Data),
		})
	}
	id := UserItemID(r.turn)
	out := append(
		r.admit(event.Event{At: at, Body: event.ItemStart{ItemID: id, ItemType: event.TypeMessage}}),
		r.admit(event.Event{At: at, Body: event.ItemDone{ItemID: id, FinalItem: msg}})...)
	if warning := in.Warning(); warning != "" {
		out = append(out, r.admit(event.Event{At: at, Body: event.Notice{Level: event.LevelWarning, Code: AttachmentsRejected, Message: warning}})...)
	}
	return out
}

// admit returns what the log should record for ev. The slice is valid until the
// next call.
func (r *rules) admit(ev event.Event) []event.Event {
	if r.ended {
		r.dropped++
		return nil
	}
	ev.Turn = r.turn
	if r.at.IsZero() {
		r.at = ev.At
	}
	if n, ok := ev.Body.(event.Notice); ok && n.Code == string(BudgetExceeded) {
		r.overBudget = true
	}
	body, left := event.Bounded(ev.Body)
	if len(left) > 0 {
		out := r.warn(event.Event{At: ev.At, Body: tooLong(left)})
		if body == nil {
			return out
		}
		ev.Body = body
		return append(out, r.admit(ev)...) // it is within its bounds now
	}
	ev.Body = body
	if b, ok := ev.Body.(event.ResponseStart); ok {
		b.ProviderID, b.ModelID = r.provider, cmp.Or(b.ModelID, UnknownModel)
		ev.Body = b
	}
	if err := ev.Validate(); err != nil {
		return r.refuse(ev.At, err.Error())
	}
	if n, ok := ev.Body.(event.Notice); ok && r.repeats(n.Code) {
		return r.drop()
	}
	if !r.started {
		if isFact(ev.Body) && len(r.held) < maxHeld {
			r.held = append(r.held, ev)
			return nil
		}
		if !r.beforeStart(ev.Body) {
			return r.start(ev)
		}
	}
	return r.judge(ev)
}

// admitAgent is admit for an event of the agent, which cannot ask the server's
// questions about hosts.
func (r *rules) admitAgent(ev event.Event) []event.Event {
	b, ok := ev.Body.(event.ApprovalRequested)
	switch {
	case !ok || r.ended:
		return r.admit(ev)
	case strings.HasPrefix(b.Approval.ID, reachPrefix(r.turn)):
		return r.refuse(ev.At, "approval_requested: id: is like that of a question of the server")
	case b.Approval.ToolName == event.ToolConnect:
		b.Approval.ToolName = event.ToolAgentConnect
		ev.Body = b
	}
	return r.admit(ev)
}

// repeats reports whether the turn already has a notice with this code, if a
// turn may have only one of them.
func (r *rules) repeats(code string) (again bool) {
	switch code {
	case string(InterruptFailed):
		again, r.unstopped = r.unstopped, true
	case AttachmentsRejected: // the translator reads the warning in the prompt, too
		again, r.warned = r.warned, true
	}
	return again
}

// start begins the response. If ev is not ResponseStart itself, start adds one.
func (r *rules) start(ev event.Event) []event.Event {
	r.started = true
	begin, ok := ev.Body.(event.ResponseStart)
	if !ok {
		begin.ProviderID, begin.ModelID = r.provider, UnknownModel
	}
	out := append([]event.Event{{At: ev.At, Turn: r.turn, Body: begin}}, r.held...)
	r.held = nil
	if !ok {
		out = append(out, r.judge(ev)...)
	}
	return out
}

// beforeStart reports whether b belongs to the user's message, the only thing
// that precedes ResponseStart.
func (r *rules) beforeStart(b event.Body) bool {
	switch b := b.(type) {
	case event.ItemStart:
		return b.ItemID == UserItemID(r.turn)
	case event.ItemDone:
		return b.ItemID == UserItemID(r.turn)
	}
	return false
}

// prompted reports whether the turn has a message of the user.
func (r *rules) prompted() bool { return r.items[UserItemID(r.turn)] != nil }

func isFact(b event.Body) bool {
	switch b.(type) {
	case event.SessionUpdated, event.UsageUpdated, event.Notice:
		return true
	}
	return false
}

// judge applies the rules of a turn that has started.
func (r *rules) judge(ev event.Event) []event.Event {
	switch b := ev.Body.(type) {
	case event.ResponseStart:
		return r.drop()
	case event.ItemStart:
		return r.itemStart(ev, b)
	case event.ItemDelta:
		return r.itemDelta(ev, b)
	case event.ItemDone:
		return r.itemDone(ev, b)
	case event.ItemError:
		return r.itemEnd(ev, b.ItemID)
	case event.ItemCancelled:
		return r.itemEnd(ev, b.ItemID)
	case event.ApprovalRequested:
		if r.settled[b.Approval.ID] || r.pending(b.Approval.ID) >= 0 {
			return r.drop()
		}
		r.asked = append(r.asked, b.Approval)
	case event.ApprovalResolved:
		i := r.pending(b.ApprovalID)
		if i < 0 {
			return r.drop()
		}
		r.asked = slices.Delete(r.asked, i, i+1)
		r.settled[b.ApprovalID] = true
	case event.UsageUpdated:
		r.keepUsage(b)
	case event.ResponseDone, event.ResponseError:
		return r.finish(ev)
	}
	return []event.Event{ev}
}

func (r *rules) itemStart(ev event.Event, b event.ItemStart) []event.Event {
	if r.items[b.ItemID] != nil {
		return r.drop() // an echo of the user's message, or the agent repeats itself
	}
	if !strings.HasPrefix(b.ItemID, r.turn+":") {
		return r.refuse(ev.At, "item_start: itemId: does not begin with the id of its turn")
	}
	if r.open >= event.MaxOpenItems { // it is shown when it ends, if others have ended by then
		return r.refuse(ev.At, "item_start: the turn has too many items that have not ended")
	}
	r.open++
	r.items[b.ItemID] = &itemState{typ: b.ItemType, size: len(b.InitialContent), callID: b.CallID, parent: b.ParentCallID}
	r.begun = append(r.begun, b.ItemID)
	switch b.ItemType {
	case event.TypeFunctionCall:
		r.running[b.CallID] = true
	case event.TypeFunctionCallOutput:
		delete(r.running, b.CallID)
	}
	return []event.Event{ev}
}

func (r *rules) itemDelta(ev event.Event, b event.ItemDelta) []event.Event {
	switch it := r.items[b.ItemID]; {
	case it == nil:
		return r.refuse(ev.At, "item_delta: itemId: no such item has started")
	case it.ended:
		return r.drop()
	case it.size+len(b.DeltaContent) > event.MaxText: // the whole is cut there, too
		b.DeltaContent, _ = text.Cut(b.DeltaContent, event.MaxText-it.size)
		it.size, ev.Body = event.MaxText, b
		if b.DeltaContent == "" {
			return r.drop()
		}
	default:
		it.size += len(b.DeltaContent)
	}
	r.one[0] = ev
	return r.one[:]
}

func (r *rules) itemDone(ev event.Event, b event.ItemDone) []event.Event {
	it := r.items[b.ItemID]
	if it == nil { // without a start, one is made from the final item
		start := event.ItemStart{ItemID: b.ItemID, ItemType: b.FinalItem.ItemType()}
		switch f := b.FinalItem.(type) {
		case event.FunctionCall:
			start.Name, start.CallID = f.Name, f.CallID
		case event.FunctionCallOutput:
			start.CallID = f.CallID
		}
		out := r.itemStart(event.Event{At: ev.At, Turn: ev.Turn, Body: start}, start)
		if r.items[b.ItemID] == nil {
			return out
		}
		return append(out, r.itemDone(ev, b)...)
	}
	if it.ended {
		return r.drop()
	}
	if it.typ != b.FinalItem.ItemType() {
		return r.refuse(ev.At, "item_done: finalItem.type: not that of the item's start")
	}
	if m, ok := b.FinalItem.(event.Message); ok && m.Origin == event.OriginAgent && it.parent == "" {
		r.finalText = m.Content
	}
	return r.itemEnd(ev, b.ItemID)
}

func (r *rules) itemEnd(ev event.Event, id string) []event.Event {
	it := r.items[id]
	if it == nil || it.ended {
		return r.drop()
	}
	it.ended = true
	r.open--
	if _, done := ev.Body.(event.ItemDone); !done && it.typ == event.TypeFunctionCall {
		delete(r.running, it.callID)
	}
	return []event.Event{ev}
}

// finish closes the open items and approvals and returns the terminal event
// last.
func (r *rules) finish(ev event.Event) []event.Event {
	if !r.started {
		return r.start(ev)
	}
	end := r.terminal(ev.Body)
	if b, ok := end.(event.ResponseError); ok {
		end = withCredentialDetails(r.provider, b)
	}
	var out []event.Event
	for _, id := range r.begun {
		if r.items[id].ended {
			continue
		}
		out = append(out, r.itemEnd(event.Event{At: ev.At, Turn: r.turn, Body: event.ItemCancelled{ItemID: id, Reason: reasonFor(end)}}, id)...)
	}
	out = append(out, r.withdraw(ev.At, func(id string) event.ApprovalResolved { return withdrawn(id, "the turn is over") })...)
	r.ended = true
	return append(out, event.Event{At: ev.At, Turn: r.turn, Body: end})
}

// WithdrawnByCancel returns the event that withdraws an approval because the
// user cancelled its turn.
func WithdrawnByCancel(approval string) event.ApprovalResolved {
	return withdrawn(approval, "the turn was cancelled")
}

func withdrawn(approval, why string) event.ApprovalResolved {
	return event.ApprovalResolved{ApprovalID: approval, Choice: event.ChoiceWithdrawn, By: event.ByPolicy, Reason: why}
}

// withdraw resolves every open approval without an answer.
func (r *rules) withdraw(at time.Time, resolved func(approval string) event.ApprovalResolved) []event.Event {
	var out []event.Event
	for len(r.asked) > 0 {
		out = append(out, r.judge(event.Event{At: at, Turn: r.turn, Body: resolved(r.asked[0].ID)})...)
	}
	return out
}

// terminal returns the terminal event to log if the agent emits b.
func (r *rules) terminal(b event.Body) event.Body {
	done, _ := b.(event.ResponseDone)
	if r.cancelling {
		return event.ResponseDone{Status: event.StatusCancelled, FinishReason: done.FinishReason, Usage: done.Usage}
	}
	switch {
	case done.Status == event.StatusError:
		fault := event.Fault{Code: string(AgentError), Message: done.FinishReason}
		if done.Error != nil {
			fault = *done.Error
		}
		if fault.Message == "" {
			fault.Message = "the agent ended the turn with an error and gave no reason"
		}
		return event.ResponseError{Error: fault}
	case done.Status == event.StatusCancelled && !r.believe:
		return event.ResponseError{Error: event.Fault{Code: string(AgentError), Message: "the agent stopped the turn although nobody asked it to; send the prompt again"}}
	}
	return b
}

// end ends the turn with b, which the session and not the agent emits.
func (r *rules) end(at time.Time, b event.Body) []event.Event {
	return r.admit(event.Event{At: at, Body: b})
}

func (r *rules) keepUsage(b event.UsageUpdated) {
	if b.Usage != nil {
		r.usage.Usage = b.Usage
	}
	if b.CostUSD != nil {
		r.usage.CostUSD = b.CostUSD
	}
}

func (r *rules) pending(id string) int {
	return slices.IndexFunc(r.asked, func(a event.Approval) bool { return a.ID == id })
}

func (r *rules) drop() []event.Event { r.dropped++; return nil }

func (r *rules) refuse(at time.Time, why string) []event.Event {
	return r.warn(event.Event{At: at, Body: event.Notice{
		Level: event.LevelWarning, Code: string(InvalidStreamEvent), Message: "rejected an invalid event of the agent: " + why,
	}})
}

// warn admits a notice about an invalid event, at most maxInvalid in a turn.
func (r *rules) warn(notice event.Event) []event.Event {
	if r.invalid++; r.invalid > maxInvalid {
		return r.drop()
	}
	return r.admit(notice)
}

func reasonFor(end event.Body) event.CancelReason {
	switch b := end.(type) {
	case event.ResponseDone:
		if b.Status == event.StatusCancelled {
			return event.ReasonUserCancel
		}
	case event.ResponseError:
		switch Code(b.Error.Code) {
		case Timeout, AgentStalled:
			return event.ReasonTimeout
		case ProcessCrash:
			return event.ReasonProcessDeath
		}
	}
	return ""
}
