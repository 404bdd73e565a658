// Package translate contains what the translators of all providers share:
// emitting events, approvals, items and lenient decoding.
//
// A translator translates the lines between Runnel and one agent to events. Its
// agent-specific state is in small structs. This package provides the parts
// that are the same for every agent:
//
//   - an [Emitter] collects the events and the replies of the current line;
//   - a [TurnEmitter] is the same for one turn;
//   - [Skips] count the messages and lines that have no meaning;
//   - [Approvals] are the open questions of the agent;
//   - [AnswerChoice], [OptionChoices] and [Answer] are for questions to the
//     user;
//   - [Numbering] and [Output] provide ids and the life cycle of items;
//   - [DecodeLenient], [Each] and the other decoders read the agent's messages.
//
// This package reads no clock, starts no goroutine and does no I/O: the same
// lines in the same order give the same events with the same ids. Its types are
// not safe for concurrent use.
package translate

import (
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// An Emitter collects the results of the current line: events for readers and
// replies for the agent. The zero value is ready to use.
type Emitter struct {
	Skips

	Pictures func(data []byte) // receives each image of which Picture returns an id. Default: images are dropped

	at       time.Time
	events   []event.Event
	replies  []any
	deferred []event.Event
}

// eventsAtOnce is the number of events for which an Emitter allocates memory at
// once.
const eventsAtOnce = 16

// Begin sets the time of the current line. Events that are emitted from here on
// carry it.
func (e *Emitter) Begin(at time.Time) { e.at = at }

// At returns the time of the current line.
func (e *Emitter) At() time.Time { return e.at }

// Emit emits an event. turn is the id of its turn, "" for an out-of-turn event.
func (e *Emitter) Emit(turn string, b event.Body) {
	if len(e.events) == cap(e.events) {
		e.events = append(make([]event.Event, 0, len(e.events)+eventsAtOnce), e.events...)
	}
	e.events = append(e.events, event.Event{At: e.at, Turn: turn, Body: b})
}

// Notice emits a notice.
func (e *Emitter) Notice(turn string, level event.Level, code, message string) {
	e.Emit(turn, event.Notice{Level: level, Code: code, Message: message})
}

// UserMessage emits a prompt of the user as a complete item of its turn.
// warning is the text about rejected attachments that precedes the prompt, ""
// if there is none. It becomes a notice, since the user did not write it.
func (e *Emitter) UserMessage(turn, item string, m event.Message, warning string) {
	e.Emit(turn, event.ItemStart{ItemID: item, ItemType: event.TypeMessage})
	e.Emit(turn, event.ItemDone{ItemID: item, FinalItem: m})
	if warning != "" {
		e.Notice(turn, event.LevelWarning, runnel.AttachmentsRejected, warning)
	}
}

// Picture is [Picture] with the function in Pictures.
func (e *Emitter) Picture(text string) string { return Picture(text, e.Pictures) }

// Add emits events that already have a turn and a time.
func (e *Emitter) Add(events ...event.Event) { e.events = append(e.events, events...) }

// Reply queues a message that is written to the agent at once.
func (e *Emitter) Reply(message any) { e.replies = append(e.replies, message) }

// Capture calls do, and returns the events that do emits instead of emitting
// them.
func (e *Emitter) Capture(do func()) []event.Event {
	before := e.events
	e.events = nil
	do()
	captured := e.events
	e.events = before
	return captured
}

// Defer holds events until the agent prints its next line. It is for events
// that a sent line causes: a live session does not receive the events of a sent
// line.
func (e *Emitter) Defer(events ...event.Event) { e.deferred = append(e.deferred, events...) }

// EmitDeferred emits the events that Defer holds. A translator calls it before
// it processes a printed line, and after the agent has exited.
func (e *Emitter) EmitDeferred() {
	e.events = append(e.events, e.deferred...)
	e.deferred = nil
}

// Take returns the events emitted since the last call.
func (e *Emitter) Take() []event.Event {
	n := len(e.events)
	if n == 0 {
		return nil
	}
	events := e.events[:n:n]
	e.events = e.events[n:] // the next events use the rest of the memory
	return events
}

// Results returns the events emitted and the messages queued by Reply since the
// last call. They are what a printed line leads to.
func (e *Emitter) Results() ([]event.Event, []any) {
	replies := e.replies
	e.replies = nil
	return e.Take(), replies
}

// ForTurn returns an emitter for the events of one turn. id is "" for
// out-of-turn events.
func (e *Emitter) ForTurn(id string) TurnEmitter { return TurnEmitter{emitter: e, turn: id} }

// Picture is [Emitter.Picture].
func (t TurnEmitter) Picture(text string) string { return t.emitter.Picture(text) }

// A TurnEmitter emits the events of one turn with the time of the current line.
// Use [Emitter.ForTurn] to create one.
type TurnEmitter struct {
	emitter *Emitter
	turn    string
	hold    func(event.Event)
}

// Holding returns an emitter that passes each event to hold instead of emitting
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

// Skip counts a part of the turn that has no meaning for the translator.
func (t TurnEmitter) Skip() { t.emitter.Skip() }

// SkipUnknown is [Emitter.SkipUnknown].
func (t TurnEmitter) SkipUnknown(typ string) { t.emitter.SkipUnknown(typ) }

// Notice emits a notice in the turn.
func (t TurnEmitter) Notice(level event.Level, code, message string) {
	t.Emit(event.Notice{Level: level, Code: code, Message: message})
}

// Held collects the events of background work. They are emitted together when
// the work ends, because an open turn would block the next prompt, and
// background work may take an hour. The provider bounds the size.
type Held struct {
	events []event.Event
	size   int
}

// Add adds an event that counts as size bytes.
func (h *Held) Add(ev event.Event, size int) {
	h.events = append(h.events, ev)
	h.size += size
}

// Size returns the size of the held events in bytes.
func (h *Held) Size() int { return h.size }

// Take removes and returns the held events.
func (h *Held) Take() []event.Event {
	events := h.events
	*h = Held{}
	return events
}
