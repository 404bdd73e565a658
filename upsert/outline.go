package upsert

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// An Outline reads a log and keeps the events that a fold needs in order to
// continue from here: those of unfinished items, of calls without an output, of
// approvals without an answer, and the starts of open turns. It joins the
// deltas of an item. A fold of [Outline.Events], and then of the later events
// of the log, gives the same unfinished items as a fold of the whole log, with
// the same positions and times.
//
// An Outline drops a call with its output once both have ended. If a faulty
// agent sends another output of that call later, the fold does not find the
// call; see [Pacer.StartWith].
//
// The zero value is ready to use. It holds a small entry for each ended item of
// the open turns; a new Outline of the Events of this one holds none.
type Outline struct {
	reducer reducer
	turns   map[string]event.Event // the ResponseStart of each open turn
	asked   map[string]event.Event // by askedKey
	items   map[string]*outlined   // by id of the item
	ids     map[*entry][]string    // the keys of items, by what readers see as one item
	size    int

	begun map[string]bool // open turns of which another Outline has read the beginning
}

// An outlined is an item whose events are kept.
type outlined struct {
	entry  *entry
	events []event.Event   // in order
	rest   strings.Builder // the text of the last of events, if joined is set
	joined bool            // the last of events is an ItemDelta that stands for all deltas after the first
	size   int
}

// OutlineOf returns an Outline that continues one with these Events.
func OutlineOf(evs []event.Event) *Outline {
	o := new(Outline)
	begun := make(map[string]bool)
	for _, ev := range evs {
		o.Add(ev)
		begun[ev.Turn] = true
	}
	o.begun = begun
	return o
}

// Add reads the next event of the log.
func (o *Outline) Add(ev event.Event) {
	if o.begun[ev.Turn] && o.reducer.unpaired(ev) {
		return // in the whole fold, the item is ignored or ends where it becomes visible
	}
	_, _ = o.reducer.fold(ev)
	switch b := ev.Body.(type) {
	case event.ResponseStart:
		keep(&o.turns, ev.Turn, ev)
	case event.ApprovalRequested:
		keep(&o.asked, askedKey(ev.Turn, b.Approval.ID), ev)
	case event.ApprovalResolved:
		delete(o.asked, askedKey(ev.Turn, b.ApprovalID))
	case event.ItemStart:
		o.add(b.ItemID, ev)
	case event.ItemDelta:
		o.grow(b, ev)
	case event.ItemDone:
		o.add(b.ItemID, ev)
	case event.ItemError:
		o.add(b.ItemID, ev)
	case event.ItemCancelled:
		o.add(b.ItemID, ev)
	case event.ResponseDone, event.ResponseError:
		o.end(ev.Turn)
	}
}

// askedKey returns the key of an approval. Turns that are open at once may have
// approvals with the same id.
func askedKey(turn, approval string) string { return turn + "\n" + approval }

func keep(m *map[string]event.Event, key string, ev event.Event) {
	if *m == nil {
		*m = make(map[string]event.Event)
	}
	if _, ok := (*m)[key]; !ok {
		(*m)[key] = ev
	}
}

// add keeps an event that starts or ends an item, or drops the item.
func (o *Outline) add(id string, ev event.Event) {
	e := o.reducer.entries[id]
	if e == nil {
		return
	}
	if o.reducer.releaseEntry(e) {
		o.drop(e)
		return
	}
	it := o.items[id]
	if it == nil {
		it = &outlined{entry: e}
		if o.items == nil {
			o.items, o.ids = make(map[string]*outlined), make(map[*entry][]string)
		}
		o.items[id], o.ids[e] = it, append(o.ids[e], id)
	}
	it.join()
	if _, done := ev.Body.(event.ItemDone); done { // it repeats the content of the deltas
		o.weigh(it, -it.size)
		it.events = slices.DeleteFunc(it.events, func(ev event.Event) bool { _, delta := ev.Body.(event.ItemDelta); return delta })
	}
	it.events = append(it.events, ev)
	o.weigh(it, event.Weight(ev.Body))
}

// grow keeps a delta. It keeps the first delta of an item as it is, because an
// item that changed once is new to readers, and joins the others.
func (o *Outline) grow(b event.ItemDelta, ev event.Event) {
	it := o.items[b.ItemID]
	if it == nil || it.entry.released {
		return
	}
	last := &it.events[len(it.events)-1]
	_, again := last.Body.(event.ItemDelta)
	switch {
	case it.joined:
		last.Seq, last.At = ev.Seq, ev.At
		it.rest.WriteString(b.DeltaContent)
		o.weigh(it, len(b.DeltaContent))
	default:
		it.events = append(it.events, ev)
		if it.joined = again; again {
			it.rest.WriteString(b.DeltaContent)
		}
		o.weigh(it, event.Weight(b))
	}
}

func (o *Outline) weigh(it *outlined, n int) {
	it.size += n
	o.size += n
}

// join writes the text of the joined deltas into their event.
func (it *outlined) join() {
	if it.joined {
		last := &it.events[len(it.events)-1]
		b := last.Body.(event.ItemDelta)
		b.DeltaContent = it.rest.String()
		last.Body = b
		it.rest.Reset()
		it.joined = false
	}
}

// drop drops the items that e consists of.
func (o *Outline) drop(e *entry) {
	for _, id := range o.ids[e] {
		o.size -= o.items[id].size
		delete(o.items, id)
	}
	delete(o.ids, e)
}

// end drops everything of a turn.
func (o *Outline) end(turn string) {
	for e := range o.ids {
		if e.turn.id == turn {
			o.drop(e)
		}
	}
	for key, ev := range o.asked {
		if ev.Turn == turn {
			delete(o.asked, key)
		}
	}
	delete(o.turns, turn)
	delete(o.begun, turn)
	o.reducer.dropTurn(turn)
}

// Size estimates the size of Events, in bytes.
func (o *Outline) Size() int { return o.size + 200*(len(o.turns)+len(o.asked)) }

// Events returns the events that are kept, in the order of the log. They are
// valid until the next call of Add.
func (o *Outline) Events() []event.Event {
	var evs []event.Event
	for _, it := range o.items {
		evs = append(evs, it.events...)
		if it.joined {
			last := &evs[len(evs)-1]
			b := last.Body.(event.ItemDelta)
			b.DeltaContent = it.rest.String()
			last.Body = b
		}
	}
	for _, m := range []map[string]event.Event{o.turns, o.asked} {
		for _, ev := range m {
			evs = append(evs, ev)
		}
	}
	slices.SortFunc(evs, func(a, b event.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return evs
}

// ErrUnpaired means that a fold that began with an [Outline] has read an event
// of a call that the Outline has dropped. Only a fold of the whole turn gives
// the right result.
var ErrUnpaired = errors.New("upsert: the outline does not have the call of an output")

// StartWith declares that the first events that p reads are those of an Outline.
// p then detects later events that refer to calls that the Outline has dropped:
// History and Changes return [ErrUnpaired], and PushPaired stops.
func (p *Pacer) StartWith(outline []event.Event) {
	p.outline = len(outline)
	p.begun = make(map[string]bool)
	for _, ev := range outline {
		p.begun[ev.Turn] = true
	}
}

// unpaired reports whether ev refers to a call that the Outline has dropped. If
// not, it counts ev as read.
func (p *Pacer) unpaired(ev event.Event) bool {
	switch {
	case p.outline > 0:
		p.outline--
	case len(p.begun) == 0:
	case p.begun[ev.Turn] && p.reducer.unpaired(ev):
		return true
	case event.Ends(ev.Body):
		delete(p.begun, ev.Turn)
	}
	return false
}

// PushPaired is [Pacer.PushAll], but stops before an event for which a fold of
// the whole turn is needed. It returns the number of events that it has folded.
// See [Pacer.StartWith].
func (p *Pacer) PushPaired(evs []event.Event, now time.Time) (outs []Out, n int) {
	for _, ev := range evs {
		if p.unpaired(ev) {
			break
		}
		outs = append(outs, p.Push(ev, now)...)
		n++
	}
	return newest(outs), n
}

// unpaired reports whether ev refers to an item or a call that b does not know.
// The engine logs the start of every item.
func (b *reducer) unpaired(ev event.Event) bool {
	if s, ok := ev.Body.(event.ItemStart); ok {
		return s.ItemType == event.TypeFunctionCallOutput && !b.knows(ev.Turn, s.CallID)
	}
	id := endedItem(ev.Body)
	return id != "" && b.entries[id] == nil
}

// knows reports whether the turn has a call with this id.
func (b *reducer) knows(turn, call string) bool {
	for _, t := range b.turns {
		if t.id == turn {
			return len(t.calls[call]) > 0
		}
	}
	return false
}
