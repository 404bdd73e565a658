package codex

import (
	"context"
	"slices"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/translate"
)

// Follow implements [runnel.Follower]. While the conversation changes, an
// app-server reads its newest turns.
func (p *Provider) Follow(ctx context.Context, ref runnel.Conversation) (runnel.Following, error) {
	c, err := p.Find(ctx, ref.AgentSessionID)
	if err != nil {
		return nil, err
	}
	return &following{
		provider: p, thread: c.AgentSessionID, pictures: ref.Pictures, file: agentconn.FollowFile(ctx, c, p.Find),
		over: make(map[string]bool), emitted: make(map[string]map[string]int), places: make(map[string]*places), shown: ref.Shown,
	}, nil
}

const (
	// settle is how long after a change of the conversation's file the
	// conversation is read again: Codex writes its database later.
	settle = 2 * time.Second

	// keepAsker is how long the app-server runs after the last change.
	keepAsker = 30 * time.Second
)

// A following reads the turns of a conversation that have changed.
type following struct {
	provider *Provider
	thread   string
	pictures func(data []byte) // see runnel.Conversation
	file     agentconn.FollowedFile
	changed  time.Time // when a change of the file was last seen
	asker    *asker    // nil if no app-server runs

	over    map[string]bool           // native ids of turns that ended and were returned
	emitted map[string]map[string]int // events of other turns that were returned, by native id
	places  map[string]*places        // of the items of these turns, by native id
	shown   []runnel.ShownItem        // see runnel.Conversation
	running *nativeTurn               // the last turn, if it has not ended
	lists   bool                      // the last list had a turn that ended before
	missing time.Time                 // since when the conversation lacks that turn; zero if it has it
	ending  []event.Event             // end of that turn, if its process stores nothing more
}

// Next implements [runnel.Following].
func (f *following) Next(ctx context.Context) ([]event.Event, error) {
	first := len(f.over) == 0 && len(f.emitted) == 0
	if !f.hasChanged() && !first && (f.missing.IsZero() || time.Since(f.missing) > keepAsker) {
		if time.Since(f.changed) > keepAsker {
			f.Close()
		}
		return nil, nil
	}
	if f.asker == nil {
		var err error
		if f.asker, err = f.provider.start(context.WithoutCancel(ctx), runnel.Options{}); err != nil {
			return nil, err
		}
		if err := f.asker.initialize(); err != nil {
			f.Close()
			return nil, err
		}
	}
	defer context.AfterFunc(ctx, f.asker.stop)()
	evs, err := f.read()
	if err != nil {
		f.Close()
		return nil, historyFault(err)
	}
	return evs, nil
}

// hasChanged reports whether the conversation may have changed since the last
// call.
func (f *following) hasChanged() bool {
	if changed, err := f.file.HasChanged(); err != nil {
		return false
	} else if changed {
		f.changed = time.Now()
	}
	return time.Since(f.changed) < settle
}

// read returns the new events of the turns that have not ended before.
func (f *following) read() (all []event.Event, err error) {
	turns, err := f.newest()
	if err != nil {
		return nil, err
	}
	if f.isReverted(turns) {
		if all, err = f.reverted(); err != nil {
			return nil, err
		}
	}
	h := newHistorian(f.thread, f.asker.turns)
	h.t.out.Pictures = f.pictures
	for i, tn := range turns {
		var evs []event.Event
		if i == len(turns)-1 && isUnfinished(tn) {
			evs, err = f.unfinished(h, tn)
		} else {
			h.places = f.placesOf(tn)
			if evs, err = h.turn(tn); err == nil {
				evs = f.unseen(tn, evs)
			}
		}
		if err != nil && len(all) > 0 {
			return all, nil // no later read returns them; the error comes again
		}
		if err != nil {
			return nil, err
		}
		all = append(all, evs...)
	}
	return all, nil
}

// isReverted reports whether the conversation no longer has the running turn: its list
// has a later turn instead, or has ended with an earlier turn for some time. An empty
// list proves nothing, because Codex may not have filled it yet.
func (f *following) isReverted(turns []nativeTurn) bool {
	if f.running == nil || slices.ContainsFunc(turns, func(tn nativeTurn) bool { return tn.ID == f.running.ID }) {
		f.missing = time.Time{}
		return false
	}
	if f.missing.IsZero() {
		f.missing = time.Now()
	}
	return len(turns) > 0 || f.lists && time.Since(f.missing) >= settle
}

// reverted returns the end of the turn that ran. Its user has interrupted it and
// taken it back, so the conversation no longer has it.
func (f *following) reverted() ([]event.Event, error) {
	tn := *f.running
	f.missing = time.Time{}
	tn.Status, tn.EndedAt = "interrupted", time.Now().Unix()
	h := newHistorian(f.thread, f.asker.turns)
	h.places = f.placesOf(tn)
	evs, err := h.turn(tn)
	if err != nil {
		return nil, err
	}
	return f.unseen(tn, evs), nil
}

// placesOf returns the places of a turn's items.
func (f *following) placesOf(tn nativeTurn) *places {
	p := f.places[tn.ID]
	if p == nil {
		p = newPlaces(f.shown)
		f.places[tn.ID] = p
	}
	return p
}

// isUnfinished reports whether the process of a stored turn did not store its
// end. Another app-server (0.169.0) calls such a turn interrupted.
func isUnfinished(tn nativeTurn) bool {
	return tn.Status == "inProgress" || tn.Status == "interrupted" && tn.EndedAt == 0
}

// unfinished returns the new events of the turn that the other process runs,
// and sets running and ending.
func (f *following) unfinished(h *historian, tn nativeTurn) ([]event.Event, error) {
	whole := newHistorian(f.thread, f.asker.turns)
	whole.places = f.placesOf(tn)
	end, err := whole.turn(tn)
	if err != nil {
		return nil, err
	}
	h.places, tn.Status = whole.places, "inProgress"
	evs, err := h.turn(tn)
	if err != nil {
		return nil, err
	}
	evs = f.unseen(tn, evs)
	f.running = &tn
	f.ending = translate.NewEvents(end, f.emitted[tn.ID], make(map[string]int))
	return evs, nil
}

// newest returns the turns that have not ended before, oldest first.
func (f *following) newest() (turns []nativeTurn, err error) {
	f.lists = false
	limit := followedTurns
	if len(f.over) == 0 {
		limit = pages[0]
	}
	var cursor *string
	for {
		page, next, err := f.asker.listed(f.thread, cursor, "desc", limit)
		if err != nil {
			return nil, err
		}
		known := slices.IndexFunc(page, func(tn nativeTurn) bool { return f.over[tn.ID] })
		if known >= 0 {
			f.lists = true
			page = page[:known]
		}
		turns = append(turns, page...)
		if known >= 0 || next == nil || cursor != nil && *next == *cursor {
			slices.Reverse(turns)
			return turns, nil
		}
		cursor = next
	}
}

// followedTurns is the number of turns in one response while a conversation is
// followed.
const followedTurns = 2

// unseen returns the events of a turn that were not returned before.
func (f *following) unseen(tn nativeTurn, evs []event.Event) []event.Event {
	f.running, f.ending = nil, nil
	has := make(map[string]int)
	out := translate.NewEvents(evs, f.emitted[tn.ID], has)
	if tn.Status == "inProgress" {
		f.emitted[tn.ID] = has
	} else {
		f.over[tn.ID] = true
		delete(f.emitted, tn.ID)
		delete(f.places, tn.ID)
	}
	return out
}

// Finish implements [runnel.Following].
func (f *following) Finish() []event.Event { return f.ending }

// Close implements [runnel.Following].
func (f *following) Close() {
	if f.asker != nil {
		f.asker.stop()
		f.asker = nil
	}
}
