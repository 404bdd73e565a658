package upsert

import (
	"maps"
	"slices"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// A reducer folds events into entries. An entry is an item as readers see it:
// one item, or a tool call together with its output. The reducer decides the
// content of an entry; the Pacer decides when it is sent.
type reducer struct {
	items   event.Transcript
	turns   []*turn // turns that have not ended, in order of appearance
	entries map[string]*entry
	asked   map[string]question // approvals without an answer, by askedKey
	ended   string              // the turn that ended last; later events of it are ignored
	changed []*entry            // result of fold, reused
}

type question struct {
	turn     string
	approval event.Approval
}

type turn struct {
	id       string
	provider string
	entries  []*entry
	calls    map[string][]*entry // by call id, in order; answered calls are dropped from the front, except the last
}

// An entry is the state of one item as readers see it. The reducer finds it by
// the id of the item. It finds a tool call also by the id of the item that
// holds its output.
type entry struct {
	turn            *turn
	session         string
	id              string
	kind            Kind
	callID          string
	outputID        string // item with the output of this call; "" if it has none
	outputCancelled bool   // the output item was cancelled; another may replace it
	state           state
	fault           event.Fault // if state is failed
	last            *sources    // the items it consists of; set once state is over
	released        bool        // it cannot change any more, and its content was dropped
	settled         int64       // position of the event after which it cannot change any more; 0 if it can, or in a fold by Push

	first    int64 // position of its first event
	seq      int64 // position of the newest event that changed what readers see
	at       time.Time
	atEnd    bool // that event ended the turn
	versions int  // number of events that changed what readers see
	urgent   bool // the newest of these events must be sent at once
	reshaped bool // something else than the growing text changed since the whole entry was sent
	tokens   counter

	pacing
}

// sources are the items that an entry consists of.
type sources struct{ item, output event.Item }

type state int

const (
	running  state = iota // may grow
	called                // a tool call with final arguments and without output
	complete              // the final content is known
	failed
	silent // cancelled: readers get no further upsert for it
)

func (s state) over() bool { return s >= complete }

// fold applies ev. It returns the changed entries, which are valid until the
// next call. It also returns the frame that represents ev itself, or nil if ev
// has none.
func (b *reducer) fold(ev event.Event) ([]*entry, Out) {
	b.changed = b.changed[:0]
	if ev.Turn != "" && ev.Turn == b.ended && ofTurn(ev.Body) {
		return nil, nil
	}
	var out Out
	switch body := ev.Body.(type) {
	case event.ItemStart:
		if b.items.Apply(ev) != "" {
			b.start(ev, body)
		}
	case event.ItemDelta:
		if b.items.Apply(ev) != "" {
			b.grow(ev, body.ItemID, body.DeltaContent)
		}
	case event.ItemDone:
		if b.items.Apply(ev) != "" {
			b.done(ev, body)
		}
	case event.ItemError:
		if b.items.Apply(ev) != "" {
			b.fail(ev, body.ItemID, body.Error)
		}
	case event.ItemCancelled:
		if b.items.Apply(ev) != "" {
			b.cancel(ev, body)
		}
	case event.ResponseStart:
		b.turn(ev.Turn).provider = body.ProviderID
		out = turnEvent(ev)
	case event.ResponseDone, event.ResponseError:
		te := turnEvent(ev)
		b.end(ev, te)
		out = te
	case event.ApprovalRequested:
		out = b.ask(ev, body)
	case event.ApprovalResolved:
		out = b.answer(ev, body)
	case event.Notice:
		out = Notice{ev.Turn, ev.Seq, ev.At.UTC(), body}
	case event.UsageUpdated:
		out = Usage{ev.Turn, ev.Seq, ev.At.UTC(), body}
	}
	return b.changed, out
}

// ofTurn reports whether an event with body b is ignored after the end of its
// turn.
func ofTurn(b event.Body) bool {
	switch b.(type) {
	case event.ApprovalResolved, event.Notice, event.UsageUpdated, event.SessionUpdated:
		return false
	}
	return true
}

func (b *reducer) start(ev event.Event, s event.ItemStart) {
	switch s.ItemType {
	case event.TypeFunctionCall:
		e := b.add(ev, s.ItemID, KindToolCall)
		e.turn.offer(s.CallID, e)
		e.tokens.add(s.InitialContent)
		b.touch(e, ev, true)
	case event.TypeFunctionCallOutput:
		if e := b.turn(ev.Turn).call(s.CallID); e != nil {
			b.attach(e, ev, s.ItemID)
		} else {
			b.add(ev, s.ItemID, KindToolCall).outputID = s.ItemID
		}
		b.grow(ev, s.ItemID, s.InitialContent)
	case event.TypeReasoning:
		b.add(ev, s.ItemID, KindThinking)
		b.grow(ev, s.ItemID, s.InitialContent)
	case event.TypePlan:
		b.add(ev, s.ItemID, KindPlan)
	default:
		b.add(ev, s.ItemID, KindMessage)
		b.grow(ev, s.ItemID, s.InitialContent)
	}
}

func (b *reducer) grow(ev event.Event, item, text string) {
	e := b.entries[item]
	if e == nil || text == "" || e.state.over() || e.kind == KindPlan {
		return
	}
	if e.outputID == e.id {
		return // output of an unknown call: sent once it is complete
	}
	if item != e.id && item != e.outputID {
		return
	}
	e.tokens.add(text)
	b.record(e, ev, false)
}

func (b *reducer) done(ev event.Event, d event.ItemDone) {
	switch final := d.FinalItem.(type) {
	case event.FunctionCallOutput:
		b.answered(ev, d.ItemID, final)
	case event.FunctionCall:
		e := b.own(ev, d.ItemID)
		e.kind = KindToolCall
		e.turn.offer(final.CallID, e)
		if e.state == running {
			e.state = called
		}
		b.touch(e, ev, true) // also if the output came first: now the arguments are known
	default:
		e := b.own(ev, d.ItemID)
		e.kind, e.state = kindOf(final), complete
		b.touch(e, ev, true)
	}
}

// own returns the entry of an item that is not the output of a call. It creates
// the entry if necessary.
func (b *reducer) own(ev event.Event, item string) *entry {
	e := b.entries[item]
	if e != nil && e.id == item {
		return e
	}
	if e != nil && e.outputID == item { // ItemStart announced it as an output
		e.outputID = ""
		b.touch(e, ev, false)
	}
	return b.add(ev, item, KindMessage)
}

// answered records the output of a call. An output of an unknown call becomes
// an entry of its own.
func (b *reducer) answered(ev event.Event, item string, out event.FunctionCallOutput) {
	e := b.entries[item]
	if e == nil {
		if e = b.turn(ev.Turn).call(out.CallID); e != nil {
			b.attach(e, ev, item)
		} else {
			e = b.add(ev, item, KindToolCall)
		}
	}
	if e.state.over() || item != e.id && item != e.outputID {
		return
	}
	if e.id == item { // the final item overrides the announced type
		e.kind, e.outputID = KindToolCall, item
	}
	e.state = complete
	b.touch(e, ev, true)
}

func (b *reducer) fail(ev event.Event, item string, f event.Fault) {
	e := b.entries[item]
	if e == nil || e.state.over() || item != e.id && item != e.outputID {
		return
	}
	e.state, e.fault = failed, f
	b.touch(e, ev, true)
}

func (b *reducer) cancel(ev event.Event, c event.ItemCancelled) {
	if f, ok := faultOf(c.Reason); ok {
		b.fail(ev, c.ItemID, f)
		return
	}
	e := b.entries[c.ItemID]
	switch {
	case e == nil || e.state.over():
	case e.id == c.ItemID:
		b.silence(e)
	case e.outputID == c.ItemID:
		e.outputCancelled = true
	}
}

// end closes the open entries of the turn: silently if the turn was cancelled,
// otherwise as failed.
func (b *reducer) end(ev event.Event, how TurnEvent) {
	for _, e := range b.turn(ev.Turn).entries {
		if e.state.over() {
			continue
		}
		if how.Status == event.StatusCancelled {
			b.silence(e)
			continue
		}
		e.state = failed
		e.fault = event.Fault{Code: how.ErrorCode, Message: how.ErrorMessage}
		if how.Type == TurnComplete {
			e.fault = unfinished("the turn ended before this was finished")
		}
		b.touch(e, ev, true)
		e.atEnd = true
	}
}

// faultOf returns the error for a cancelled item. It returns false if the
// reason does not count as an error.
func faultOf(reason event.CancelReason) (event.Fault, bool) {
	switch reason {
	case event.ReasonProcessDeath:
		return event.Fault{Code: "PROCESS_CRASH", Message: "the agent ended before this was finished"}, true
	case event.ReasonTimeout:
		return event.Fault{Code: "TIMEOUT", Message: "time was up before this was finished"}, true
	}
	return event.Fault{}, false
}

func unfinished(why string) event.Fault { return event.Fault{Code: "PROTOCOL_ERROR", Message: why} }

// dropTurn drops the state of a turn that ended.
func (b *reducer) dropTurn(id string) {
	b.ended = id
	i := slices.IndexFunc(b.turns, func(t *turn) bool { return t.id == id })
	if i < 0 {
		return
	}
	gone := func(_ string, e *entry) bool { return e.turn == b.turns[i] }
	if len(b.turns) == 1 {
		b.entries = nil
	} else {
		maps.DeleteFunc(b.entries, gone)
	}
	maps.DeleteFunc(b.asked, func(_ string, q question) bool { return q.turn == id })
	b.turns = slices.Delete(b.turns, i, i+1)
	b.items.DropTurn(id)
	b.changed = nil
}

// release drops the content of the entries of t that no event can change any
// more. It keeps the entries, because late events still belong to them.
func (b *reducer) release(t *turn) {
	for _, e := range t.entries {
		b.releaseEntry(e)
	}
}

// releaseEntry drops the content of e if no event can change e any more. It
// reports whether that is so.
func (b *reducer) releaseEntry(e *entry) bool {
	if !e.released && b.final(e) {
		e.released, e.last = true, nil
		b.items.Release(e.id)
		b.items.Release(e.outputID)
	}
	return e.released
}

// final reports whether no event can change e any more.
func (b *reducer) final(e *entry) bool {
	return e.state.over() && !b.items.Open(e.id) && !b.items.Open(e.outputID)
}

// open implements [Pacer.Open].
func (b *reducer) open(o Out) bool {
	switch o := o.(type) {
	case Upsert:
		e := b.entries[o.ItemID]
		return e != nil && !b.final(e)
	case Approval:
		_, asked := b.asked[askedKey(o.TurnID, o.Approval.ID)]
		return asked && o.Status == ApprovalPending
	case TurnEvent:
		return o.Type == TurnStarted && slices.ContainsFunc(b.turns, func(t *turn) bool { return t.id == o.TurnID })
	}
	return false
}

// turn returns the turn with this id and creates it if necessary. It searches
// from the end, where most matches are.
func (b *reducer) turn(id string) *turn {
	for _, t := range slices.Backward(b.turns) {
		if t.id == id {
			return t
		}
	}
	t := &turn{id: id, calls: make(map[string][]*entry)}
	b.turns = append(b.turns, t)
	return t
}

func (b *reducer) add(ev event.Event, item string, k Kind) *entry {
	if b.entries == nil {
		b.entries = make(map[string]*entry)
	}
	e := &entry{turn: b.turn(ev.Turn), session: ev.Session, id: item, kind: k, first: ev.Seq, seq: ev.Seq, at: ev.At}
	e.turn.entries = append(e.turn.entries, e)
	b.entries[item] = e
	return e
}

// attach makes item the output of e, unless e already has an output.
func (b *reducer) attach(e *entry, ev event.Event, item string) {
	b.entries[item] = e
	if !e.answerable() {
		return
	}
	if e.outputCancelled { // the text of the cancelled output disappears
		b.touch(e, ev, false)
	}
	e.outputID, e.outputCancelled = item, false
	e.tokens.run, e.tokens.carry = 0, ""
}

// touch records that ev changed e for readers, and not only by growing its
// text.
func (b *reducer) touch(e *entry, ev event.Event, urgent bool) {
	e.reshaped = true
	b.record(e, ev, urgent)
}

// record records that ev changed e for readers.
func (b *reducer) record(e *entry, ev event.Event, urgent bool) {
	e.seq, e.at, e.urgent = ev.Seq, ev.At, urgent
	e.versions++
	e.last = nil
	if e.state.over() {
		e.last = b.sources(e)
	}
	if n := len(b.changed); n == 0 || b.changed[n-1] != e {
		b.changed = append(b.changed, e)
	}
}

// silence ends e without a further upsert.
func (b *reducer) silence(e *entry) {
	e.last, e.state = b.sources(e), silent
	e.undirty()
}

// sources returns the items that e consists of. Once e is over the result is
// fixed, even if a late event changes one of the items.
func (b *reducer) sources(e *entry) *sources {
	if e.last != nil {
		return e.last
	}
	item, _ := b.items.Item(e.id)
	output, _ := b.items.Item(e.outputID)
	return &sources{item, output}
}

// offer adds e to the calls that an output with this call id can answer.
func (t *turn) offer(call string, e *entry) {
	if e.callID != call {
		e.callID = call
		t.calls[call] = append(t.calls[call], e)
	}
}

// call returns the call that an output with this call id answers, or nil if the
// id is unknown. If all calls with this id have an output, it returns one of
// them.
func (t *turn) call(id string) *entry {
	q := t.calls[id]
	if len(q) == 0 {
		return nil
	}
	for len(q) > 1 && !q[0].answerable() {
		q = q[1:]
	}
	t.calls[id] = q
	return q[0]
}

func (e *entry) answerable() bool { return !e.state.over() && (e.outputID == "" || e.outputCancelled) }

func kindOf(f event.FinalItem) Kind {
	switch f.(type) {
	case event.Reasoning:
		return KindThinking
	case event.Plan:
		return KindPlan
	}
	return KindMessage
}
