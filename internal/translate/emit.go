// Package translate is what the translators of all providers share: emitting
// events, approvals, items, lenient decoding.
//
// A translator turns the lines that pass between us and one agent into events.
// It keeps what is particular to its agent in small structs that own their
// state, and takes from here what is the same for every agent:
//
//   - an [Emitter] collects the events and the replies of the line in hand;
//   - a [TurnEmitter] is the same, bound to one turn;
//   - [Approvals] are the questions of the agent that wait for an answer;
//   - [Numbering] and [Output] are the ids and the life of items;
//   - [Loose], [Each] and the other decoders read what the agent wrote.
//
// Nothing here reads a clock, starts a goroutine or does I/O: the same lines in
// the same order give the same events with the same ids. Nothing here is safe
// for use by several goroutines at once.
package translate

import (
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// An Emitter collects what a translator makes of the line in hand: events for
// the reader, and replies for the agent. The zero value is ready to use.
type Emitter struct {
	at       time.Time
	events   []event.Event
	replies  []any
	deferred []event.Event
	messages int // that mean nothing
	lines    int // that cannot be decoded
}

// Begin sets the time of the line in hand. Every event that is emitted from
// here on carries it.
func (e *Emitter) Begin(at time.Time) { e.at = at }

// At returns the time of the line in hand.
func (e *Emitter) At() time.Time { return e.at }

// Emit emits an event. turn is the id of the turn that it belongs to, "" for an
// out-of-turn event.
func (e *Emitter) Emit(turn string, b event.Body) {
	e.events = append(e.events, event.Event{At: e.at, Turn: turn, Body: b})
}

// Notice emits a notice.
func (e *Emitter) Notice(turn string, level event.Level, code, message string) {
	e.Emit(turn, event.Notice{Level: level, Code: code, Message: message})
}

// UserMessage emits a prompt of the user's, whole, as an item of its turn.
// warning is the text about rejected attachments that went before the prompt,
// "" if there was none: it becomes a notice, since the user did not write it.
func (e *Emitter) UserMessage(turn, item string, m event.Message, warning string) {
	e.Emit(turn, event.ItemStart{ItemID: item, ItemType: event.TypeMessage})
	e.Emit(turn, event.ItemDone{ItemID: item, FinalItem: m})
	if warning != "" {
		e.Notice(turn, event.LevelWarning, runnel.AttachmentsRejected, warning)
	}
}

// Add emits events that carry their turn and their time already.
func (e *Emitter) Add(events ...event.Event) { e.events = append(e.events, events...) }

// Reply has a message written to the agent at once, without asking anyone.
func (e *Emitter) Reply(message any) { e.replies = append(e.replies, message) }

// Skip counts a message of the agent's that means nothing to the translator.
func (e *Emitter) Skip() { e.messages++ }

// SkipLine counts a line of the agent's that cannot be decoded.
func (e *Emitter) SkipLine() { e.lines++ }

// Skipped returns how often Skip and SkipLine were called.
func (e *Emitter) Skipped() (messages, lines int) { return e.messages, e.lines }

// Capture returns what do emits, in place of emitting it.
func (e *Emitter) Capture(do func()) []event.Event {
	before := e.events
	e.events = nil
	do()
	captured := e.events
	e.events = before
	return captured
}

// Defer holds events back until the agent prints its next line. It is for what
// a line of ours causes: events that a sent line gives reach only readers of a
// recording.
func (e *Emitter) Defer(events ...event.Event) { e.deferred = append(e.deferred, events...) }

// EmitDeferred emits what Defer held back. A translator calls it first when the
// agent prints a line, and when the agent has gone.
func (e *Emitter) EmitDeferred() {
	e.events = append(e.events, e.deferred...)
	e.deferred = nil
}

// Take returns what was emitted since it was called last.
func (e *Emitter) Take() []event.Event {
	events := e.events
	e.events = nil
	return events
}

// Replies returns the messages of Reply since it was called last.
func (e *Emitter) Replies() []any {
	replies := e.replies
	e.replies = nil
	return replies
}

// ForTurn returns an emitter of the events of one turn; id may be "" for
// out-of-turn events.
func (e *Emitter) ForTurn(id string) TurnEmitter { return TurnEmitter{emitter: e, turn: id} }

// A TurnEmitter emits the events of one turn, at the time of the line in hand.
// Only [Emitter.ForTurn] makes one.
type TurnEmitter struct {
	emitter *Emitter
	turn    string
	hold    func(event.Event)
}

// Holding returns an emitter that gives each event to hold in place of emitting
// it. It is for background work, see [Held].
func (t TurnEmitter) Holding(hold func(event.Event)) TurnEmitter {
	t.hold = hold
	return t
}

// Turn returns the id of the turn.
func (t TurnEmitter) Turn() string { return t.turn }

// Emit emits an event of the turn.
func (t TurnEmitter) Emit(b event.Body) {
	if t.hold != nil {
		t.hold(event.Event{At: t.emitter.at, Turn: t.turn, Body: b})
		return
	}
	t.emitter.Emit(t.turn, b)
}

// Skip counts a part of the turn that means nothing to the translator.
func (t TurnEmitter) Skip() { t.emitter.Skip() }

// Notice emits a notice in the turn.
func (t TurnEmitter) Notice(level event.Level, code, message string) {
	t.Emit(event.Notice{Level: level, Code: code, Message: message})
}

// Held are the events of background work. They are held back until the work
// ends and given out whole: a turn that is open holds the conversation, and
// background work may take an hour. What happens beyond the bound is the
// provider's to decide.
type Held struct {
	events []event.Event
	size   int
}

// Add holds an event that counts as size bytes.
func (h *Held) Add(ev event.Event, size int) {
	h.events = append(h.events, ev)
	h.size += size
}

// Size returns how many bytes the held events count as.
func (h *Held) Size() int { return h.size }

// Take returns the held events, and holds none from then on.
func (h *Held) Take() []event.Event {
	events := h.events
	*h = Held{}
	return events
}
