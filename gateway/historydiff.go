package gateway

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// historyDiff finds the events that an agent's history of a conversation has
// and the log of its session does not have. It first takes the events of the
// log, then those of the history.
//
// A turn of the history is known if the log has a turn with its id. In a
// positional history, a turn that the session itself started has another id
// than in the log. It is then matched to the first of our turns after the last
// known one that has the same prompt or a message with the same native id.
//
// The turns after the last known turn are new, beginning with the first that
// has a prompt. Turns that the history has before the last known turn and that
// the log does not have are ignored, because the log is append-only and in the
// order of events. If the log has turns and none of them is known, nothing is
// new.
//
// A turn that was still running elsewhere when it was copied is closed in the
// log. The items that it gained later become a turn of their own, called the
// rest.
type historyDiff struct {
	positional bool // the provider is a runnel.PositionalHistorian
	copied     bool // the session was copied by another provider, whose turns may have any ids

	logged  []*keptTurn // turns of the log, in the order of their starts
	byID    map[string]*keptTurn
	facts   map[string]bool // keys of the log's out-of-turn events; see factKey
	next    int             // index in logged of the first turn that the next turn of the history can match
	matched bool            // some turn of the history is known
	begun   bool            // the history has a turn with the id of the log's first turn

	turns map[string]*keptTurn // turns of the history after the last known one
	held  []event.Event        // events of these turns and between them
	rests []event.Event        // events of the rests of known turns
}

// A keptTurn is the state that historyDiff keeps of a turn.
type keptTurn struct {
	id       string
	index    int                // index in historyDiff.logged
	prompted bool               // it has a message from the user
	prompt   string             // that message, with each run of white space replaced by one space
	attached bool               // the message has attachments
	native   map[string]bool    // native ids of its messages
	items    []runnel.ShownItem // in the order of their starts; nil once the turn has ended
	lasting  map[string]string  // names of items that do not change when the history gains items, by place; see lastingName
	done     map[string]string  // lasting names of completed items, by place: their id without the turn's id as prefix
	ended    bool
	cut      bool // it was closed because its source ended before the turn did
}

func newHistoryDiff(positional bool) *historyDiff {
	return &historyDiff{
		positional: positional, byID: make(map[string]*keptTurn), facts: make(map[string]bool), turns: make(map[string]*keptTurn),
	}
}

func newKeptTurn(id string) *keptTurn {
	return &keptTurn{id: id, native: make(map[string]bool), lasting: make(map[string]string), done: make(map[string]string)}
}

// note folds an event of the turn into t.
func (t *keptTurn) note(ev event.Event) {
	switch b := ev.Body.(type) {
	case event.ItemStart:
		if id := b.Native["messageId"]; id != "" {
			t.native[id] = true
		}
		place := strings.TrimPrefix(b.ItemID, t.id)
		if b.ItemType != event.TypeFunctionCallOutput && place != ":0:0" {
			t.items = append(t.items, runnel.ShownItem{ID: b.ItemID, Native: cmp.Or(b.Native["itemId"], b.Native["messageId"])})
		}
		if id := b.Native["itemId"]; id != "" {
			t.lasting[place] = id + place[strings.LastIndexByte(place, ':'):]
		}
	case event.ItemDone:
		place := strings.TrimPrefix(b.ItemID, t.id)
		t.done[place] = t.lastingName(place)
		if m, ok := b.FinalItem.(event.Message); ok && m.Origin == event.OriginUser && !t.prompted {
			t.prompted, t.attached = true, len(m.Attachments) > 0
			t.prompt = strings.Join(strings.Fields(m.Content), " ")
		}
	}
	if event.Ends(ev.Body) {
		t.ended, t.items = true, nil
	}
	t.cut = t.cut || runnel.IsCutShort(ev.Body)
}

// lastingName returns the name of an item that later histories also give it. An
// agent that stores an item when it ends may later have items before it, and
// these change its place. The name then comes from the agent's own id.
func (t *keptTurn) lastingName(place string) string {
	call, isOutput := strings.CutSuffix(place, ":output")
	switch name := t.lasting[call]; {
	case name == "":
		return place
	case isOutput:
		return name + ":output"
	default:
		return name
	}
}

// isOurs reports whether the id of a turn shows that the turn was started in
// the session. The ids of other turns are made from native ids and are UUIDs of
// version 5. The ids of our turns have other versions, unless a client chose
// such an id.
func (t *keptTurn) isOurs() bool {
	id, err := uuid.Parse(t.id)
	return err == nil && id.Version() != 5
}

// logHas adds an event of the log.
func (n *historyDiff) logHas(ev event.Event) {
	if ev.Turn == "" {
		n.facts[factKey(ev.Body)] = true
		return
	}
	t := n.byID[ev.Turn]
	if t == nil {
		t = newKeptTurn(ev.Turn)
		t.index = len(n.logged)
		n.logged, n.byID[ev.Turn] = append(n.logged, t), t
	}
	t.note(ev)
}

// shown returns the items of turns that the log leaves open, in the order of
// their starts.
func (n *historyDiff) shown() (items []runnel.ShownItem) {
	for _, t := range n.logged {
		if !t.ended {
			items = append(items, t.items...)
		}
	}
	return items
}

// factKey returns a key that is equal for events with equal bodies.
func factKey(b event.Body) string {
	data, err := json.Marshal(b)
	if err != nil {
		return ""
	}
	return event.Type(b) + string(data)
}

// isOurOwn reports whether the session started the conversation, which is
// positional, so that ids do not tell which turns of the history are in the
// log. The id of the log's first turn shows it.
func (n *historyDiff) isOurOwn() bool {
	return n.positional && !n.copied && len(n.logged) > 0 && n.logged[0].isOurs()
}

// historyHas adds an event of the history. The history must come from
// runnel.Replay.
func (n *historyDiff) historyHas(ev event.Event) {
	if b, ok := ev.Body.(event.SessionUpdated); ok {
		b = event.SessionUpdated{Title: b.Title, Files: b.Files} // the other fields describe the process that read the history
		if b.Title == "" && b.Files == nil {
			return
		}
		ev.Body = b
	}
	if ev.Turn == "" {
		if !n.facts[factKey(ev.Body)] {
			n.held = append(n.held, ev)
		}
		return
	}
	if k := n.byID[ev.Turn]; k != nil && !k.ended && n.turns[ev.Turn] == nil {
		n.drop() // the log has the beginning of this turn
		n.next, n.matched = max(n.next, k.index+1), true
	}
	n.begun = n.begun || len(n.logged) > 0 && n.logged[0].id == ev.Turn
	t := n.turns[ev.Turn]
	if t == nil {
		t = newKeptTurn(ev.Turn)
		n.turns[ev.Turn] = t
	}
	t.note(ev)
	n.held = append(n.held, ev)
	if !t.ended {
		return
	}
	if k := n.match(t); k != nil && k.ended {
		n.next, n.matched = max(n.next, k.index+1), true
		n.rests = append(n.rests, n.rest(k, t)...)
		n.drop()
	}
}

// endedInLog returns the turns that the history does not end and that have
// ended in the log under another id. It removes them and the turns before them
// from what is new. Call it after the last event of a history that comes from a
// [runnel.Follower], which leaves its last turn open.
func (n *historyDiff) endedInLog() map[string]bool {
	known := make(map[string]bool)
	for _, ev := range slices.Clone(n.held) {
		t := n.turns[ev.Turn]
		if t == nil || t.ended || !t.prompted {
			continue
		}
		k := n.match(t)
		if k == nil || !k.ended || k.id == t.id {
			continue
		}
		n.next, n.matched = max(n.next, k.index+1), true
		known[t.id], t.ended = true, true
		n.drop()
	}
	return known
}

// match returns the turn of the log that is the turn t of the history, or nil.
func (n *historyDiff) match(t *keptTurn) *keptTurn {
	if k := n.byID[t.id]; k != nil || !n.positional {
		return k
	}
	for _, k := range n.logged[n.next:] {
		// A turn that is not ours matches by its id too, later in the history.
		// Until then the match only makes t known, and t is older.
		if (k.isOurs() || !k.cut) && k.isLike(t) {
			return k
		}
	}
	return nil
}

// isLike reports whether k, one of our turns in the log, is the turn t of the
// history. The history may contain attachments as part of the prompt.
func (k *keptTurn) isLike(t *keptTurn) bool {
	if len(k.native) > 0 && len(t.native) > 0 {
		for id := range k.native {
			if t.native[id] {
				return true
			}
		}
		return false
	}
	return k.prompted && t.prompted && (k.prompt == t.prompt || k.attached && strings.Contains(t.prompt, k.prompt))
}

// drop removes the ended turns of the history and their events. It is called
// when the log has the last of these turns, so the log needs none of their
// events.
func (n *historyDiff) drop() {
	n.held = slices.DeleteFunc(n.held, func(ev event.Event) bool { return ev.Turn == "" || n.turns[ev.Turn].ended })
	for id, t := range n.turns {
		if t.ended {
			delete(n.turns, id)
		}
	}
}

// rest returns the items of t that the log does not have, as events of a new
// turn. t is a turn of the history, and k is the same turn in the log. Our own
// turns have no rest, because the session recorded all their events.
func (n *historyDiff) rest(k, t *keptTurn) []event.Event {
	if !k.cut && (!n.positional || k.id != t.id) {
		return nil
	}
	have := make(map[string]bool)
	var id string
	for { // earlier loads may already have added rests
		for _, name := range k.done {
			have[name] = true
		}
		id = restID(t.id, len(have))
		if k = n.byID[id]; k == nil {
			break
		}
		n.next = max(n.next, k.index+1)
	}
	more := make(map[string]bool)
	for place, name := range t.done {
		if !have[name] {
			more[place] = true
			if call, isOutput := strings.CutSuffix(place, ":output"); isOutput { // an output needs its call
				more[call] = true
			}
		}
	}
	if len(more) == 0 {
		return nil
	}
	return moved(n.held, t.id, id, more)
}

// restID returns the id of the new turn that holds the rest of a turn; see
// [historyDiff]. items is the number of the turn's items that the log already
// has.
func restID(turn string, items int) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "runnel rest %s %d", turn, items)).String()
}

// moved returns the events that start and end the turn from, and those of the
// given items, as events of the turn to.
func moved(evs []event.Event, from, to string, items map[string]bool) (out []event.Event) {
	for _, ev := range evs {
		if ev.Turn != from {
			continue
		}
		item := ""
		rename := func(id string) string {
			item = strings.TrimPrefix(id, from)
			return to + item
		}
		switch b := ev.Body.(type) {
		case event.ItemStart:
			b.ItemID = rename(b.ItemID)
			ev.Body = b
		case event.ItemDelta:
			b.ItemID = rename(b.ItemID)
			ev.Body = b
		case event.ItemDone:
			b.ItemID = rename(b.ItemID)
			ev.Body = b
		case event.ResponseStart, event.ResponseDone, event.ResponseError:
		default:
			continue // other events were logged with the turn
		}
		if item == "" || items[item] {
			ev.Turn = to
			out = append(out, ev)
		}
	}
	return out
}

// found returns the events to append to the log, in order.
func (n *historyDiff) found() []event.Event {
	if len(n.logged) > 0 && (!n.matched || n.positional && !n.begun) {
		return nil // of a positional history without the log's first turn: the session started the conversation
	}
	from := slices.IndexFunc(n.held, func(ev event.Event) bool { return ev.Turn != "" && n.turns[ev.Turn].prompted })
	if from < 0 {
		return n.rests
	}
	early := make(map[string]bool) // turns without a prompt; they are background work of the last known turn
	for _, ev := range n.held[:from] {
		early[ev.Turn] = true
	}
	return append(n.rests, slices.DeleteFunc(n.held[from:], func(ev event.Event) bool { return ev.Turn != "" && early[ev.Turn] })...)
}
