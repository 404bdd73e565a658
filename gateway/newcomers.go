package gateway

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// newcomers finds what an agent's history of a conversation has and the log of
// its session lacks. It first takes the log, event by event, then the history.
//
// A turn of the history is known if the log has a turn with its id. If the
// history is positional, a turn that the session began has another id there:
// then the first turn of ours behind the last known one that has the same
// prompt, or a message with the same native id, is that turn.
//
// Everything behind the last known turn is new, from the next prompt on. What
// the history has before that and the log lacks stays out: the log is in the
// order of what happened, and a log that was read is not rewritten. If the log
// has turns and none of them is known, nothing is new.
//
// A turn that was still running elsewhere when it was copied is closed in the
// log. What it gained since becomes a turn of its own: the rest.
type newcomers struct {
	positional bool // the provider is a runnel.Positional

	logged  []*keptTurn // turns of the log, in the order in which they began
	byID    map[string]*keptTurn
	facts   map[string]bool // bodies of out-of-turn events of the log
	next    int             // the first turn of the log that the next one of the history can be
	matched bool            // a turn of the history is known

	turns map[string]*keptTurn // turns of the history behind the last known one
	held  []event.Event        // events of these turns, and between them
	rests []event.Event        // rests of known turns
}

// keptTurn is what newcomers remembers of a turn.
type keptTurn struct {
	id       string
	place    int             // among the turns of the log
	prompted bool            // it has a message of the user
	prompt   string          // that message, its runs of white space as one blank
	attached bool            // the message has attachments
	native   map[string]bool // the agent's ids of its messages
	done     map[string]bool // items that are whole, by the part of their id behind the turn's
	ended    bool
	cut      bool // it was closed because its source stopped before its end
}

func newNewcomers(positional bool) *newcomers {
	return &newcomers{
		positional: positional, byID: make(map[string]*keptTurn), facts: make(map[string]bool), turns: make(map[string]*keptTurn),
	}
}

func newKeptTurn(id string) *keptTurn {
	return &keptTurn{id: id, native: make(map[string]bool), done: make(map[string]bool)}
}

// note folds an event of the turn.
func (t *keptTurn) note(ev event.Event) {
	switch b := ev.Body.(type) {
	case event.ItemStart:
		if id := b.Native["messageId"]; id != "" {
			t.native[id] = true
		}
	case event.ItemDone:
		t.done[strings.TrimPrefix(b.ItemID, t.id)] = true
		if m, ok := b.FinalItem.(event.Message); ok && m.Origin == event.OriginUser && !t.prompted {
			t.prompted, t.attached = true, len(m.Attachments) > 0
			t.prompt = strings.Join(strings.Fields(m.Content), " ")
		}
	}
	t.ended = t.ended || event.Ends(ev.Body)
	t.cut = t.cut || runnel.IsCutShort(ev.Body)
}

// isOurs reports whether a turn began in the session: ids that are made of
// native ones are of version 5.
func (t *keptTurn) isOurs() bool {
	id, err := uuid.Parse(t.id)
	return err == nil && id.Version() != 5
}

// logHas takes an event of the log.
func (n *newcomers) logHas(ev event.Event) {
	if ev.Turn == "" {
		n.facts[factKey(ev.Body)] = true
		return
	}
	t := n.byID[ev.Turn]
	if t == nil {
		t = newKeptTurn(ev.Turn)
		t.place = len(n.logged)
		n.logged, n.byID[ev.Turn] = append(n.logged, t), t
	}
	t.note(ev)
}

// factKey is the same for events that say the same.
func factKey(b event.Body) string {
	data, err := json.Marshal(b)
	if err != nil {
		return ""
	}
	return event.Type(b) + string(data)
}

// isOurOwn reports whether the log of a positional conversation begins with a
// turn of ours: then the conversation was not born elsewhere, and no id says
// which turns of the history are in the log.
func (n *newcomers) isOurOwn() bool {
	return n.positional && len(n.logged) > 0 && n.logged[0].isOurs()
}

// historyHas takes an event of the history, which went through runnel.Replay.
func (n *newcomers) historyHas(ev event.Event) {
	if b, ok := ev.Body.(event.SessionUpdated); ok {
		b = event.SessionUpdated{Title: b.Title, Files: b.Files} // the others are of the process that was asked
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
	if k := n.match(t); k != nil {
		n.next, n.matched = max(n.next, k.place+1), true
		n.rests = append(n.rests, n.rest(k, t)...)
		n.drop()
	}
}

// match returns the turn of the log that a turn of the history is, or nil.
func (n *newcomers) match(t *keptTurn) *keptTurn {
	if k := n.byID[t.id]; k != nil || !n.positional {
		return k
	}
	for _, k := range n.logged[n.next:] {
		if k.isOurs() && k.isLike(t) {
			return k
		}
	}
	return nil
}

// isLike reports whether a turn of ours is the one that the history has as t.
// In a history attachments may have become part of the prompt.
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

// drop forgets the turns of the history that have ended: the last of them is
// known.
func (n *newcomers) drop() {
	n.held = slices.DeleteFunc(n.held, func(ev event.Event) bool { return ev.Turn == "" || n.turns[ev.Turn].ended })
	for id, t := range n.turns {
		if t.ended {
			delete(n.turns, id)
		}
	}
}

// rest returns what a known turn of the history has beyond what the log has of
// it, as events of another turn. Turns of ours have no rest: their session
// recorded all of them.
func (n *newcomers) rest(k, t *keptTurn) []event.Event {
	if !k.cut && (!n.positional || k.id != t.id) {
		return nil
	}
	have := make(map[string]bool)
	var id string
	for { // earlier loads may have added rests already
		for place := range k.done {
			have[place] = true
		}
		id = restID(t.id, len(have))
		if k = n.byID[id]; k == nil {
			break
		}
		n.next = max(n.next, k.place+1)
	}
	more := make(map[string]bool)
	for place := range t.done {
		if !have[place] {
			more[place] = true
			if call, isOutput := strings.CutSuffix(place, ":output"); isOutput { // without its call nobody can read it
				more[call] = true
			}
		}
	}
	if len(more) == 0 {
		return nil
	}
	return moved(n.held, t.id, id, more)
}

// restID is the id of the turn for what a turn gained after its first items
// were logged.
func restID(turn string, items int) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "runnel rest %s %d", turn, items)).String()
}

// moved returns the events of a turn that are about some of its items, its
// beginning and its end, as those of another turn.
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
			continue // what is known of it is in the log
		}
		if item == "" || items[item] {
			ev.Turn = to
			out = append(out, ev)
		}
	}
	return out
}

// found returns what is to be appended to the log, in order.
func (n *newcomers) found() []event.Event {
	if len(n.logged) > 0 && !n.matched {
		return nil
	}
	from := slices.IndexFunc(n.held, func(ev event.Event) bool { return ev.Turn != "" && n.turns[ev.Turn].prompted })
	if from < 0 {
		return n.rests
	}
	early := make(map[string]bool) // turns without a prompt: of the last known turn's background work
	for _, ev := range n.held[:from] {
		early[ev.Turn] = true
	}
	return append(n.rests, slices.DeleteFunc(n.held[from:], func(ev event.Event) bool { return ev.Turn != "" && early[ev.Turn] })...)
}
