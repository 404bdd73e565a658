package runnel

import (
	"iter"
	"slices"
	"time"

	"github.com/runnel-dev/runnel/event"
)

// Replay applies the rules of a turn to events that a provider made from a
// history or a recording, and sets their session and Seq. It yields the events
// that a session would have logged, with one exception: Replay always accepts
// that a turn ended as cancelled. Turns may overlap, as in a session. Replay
// closes a turn without a terminal event when the next prompt begins, at the
// end of evs, or at an error.
func Replay(session, provider string, evs iter.Seq2[event.Event, error]) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		p := replay{session: session, provider: provider, over: map[string]bool{}, yield: yield}
		for ev, err := range evs {
			if err != nil {
				if p.close() {
					yield(event.Event{}, Safe(err))
				}
				return
			}
			if !p.push(ev) {
				return
			}
		}
		p.close()
	}
}

const cutShort = "what is known of this turn stops before its end"

// IsCutShort reports whether b is the terminal event that [Replay] makes for a
// turn whose source ends before the turn does. The agent may have continued
// that turn after the source was written.
func IsCutShort(b event.Body) bool {
	e, ok := b.(event.ResponseError)
	return ok && e.Error.Code == string(ProcessCrash) && e.Error.Message == cutShort
}

type replay struct {
	session, provider string
	seq               int64
	open              []*rules
	over              map[string]bool
	last              time.Time
	yield             func(event.Event, error) bool
}

// push applies the rules to ev and yields the events that a log would have. It
// returns false if the reader wants no more.
func (p *replay) push(ev event.Event) bool {
	p.last = ev.At
	if ev.Turn == "" {
		switch {
		case !isFact(ev.Body):
			return true
		case len(p.open) > 0:
			return p.emit(p.open[0].admit(ev))
		}
		return p.emit(boundedFact(ev))
	}
	if p.over[ev.Turn] {
		return true
	}
	r := p.find(ev.Turn)
	if r == nil {
		prompt := isPrompt(ev)
		if _, response := ev.Body.(event.ResponseStart); !prompt && !response {
			return true // its turn has not begun
		}
		// A session runs one prompt at a time, so the turn of an earlier prompt
		// has ended. A turn without a prompt may overlap it.
		if prompt && !p.endAll(func(r *rules) bool { return r.started && r.prompted() }) {
			return false
		}
		r = newRules(ev.Turn, p.provider)
		r.believe = true
		p.open = append(p.open, r)
	}
	ok := p.emit(r.admitAgent(ev))
	if r.ended {
		p.forget(r)
	}
	return ok
}

func (p *replay) find(turn string) *rules {
	for _, r := range p.open {
		if r.turn == turn {
			return r
		}
	}
	return nil
}

// isPrompt reports whether an event begins the user's message of its turn.
func isPrompt(ev event.Event) bool {
	b, ok := ev.Body.(event.ItemStart)
	return ok && b.ItemID == UserItemID(ev.Turn)
}

// close ends the turns that the source left open.
func (p *replay) close() bool { return p.endAll(func(*rules) bool { return true }) }

func (p *replay) endAll(which func(*rules) bool) bool {
	for _, r := range slices.Clone(p.open) {
		if !which(r) {
			continue
		}
		p.forget(r)
		if !p.emit(r.end(p.last, event.ResponseError{Error: event.Fault{Code: string(ProcessCrash), Message: cutShort}})) {
			return false
		}
	}
	return true
}

func (p *replay) forget(r *rules) {
	p.open = slices.DeleteFunc(p.open, func(o *rules) bool { return o == r })
	p.over[r.turn] = true
}

func (p *replay) emit(evs []event.Event) bool {
	for _, ev := range evs {
		p.seq++
		ev.Session, ev.Seq = p.session, p.seq
		if !p.yield(ev, nil) {
			return false
		}
	}
	return true
}
