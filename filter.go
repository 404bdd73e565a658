package runnel

import (
	"errors"
	"io"
	"iter"

	"github.com/runnel-dev/runnel/event"
)

// A Filter changes the events of one agent before the session processes them,
// for instance to remove secrets. Its methods are called by one goroutine at a
// time.
type Filter interface {
	// Event returns the events that replace ev, in order. The slice is valid
	// until the next call.
	Event(ev event.Event) []event.Event

	// End returns the events that the filter has held back. It is called after
	// the agent's last event.
	End() []event.Event

	// Text filters a text outside of events, such as the message of an error.
	Text(s string) string
}

// Filtered passes evs through f. A nil f changes nothing.
func Filtered(f Filter, evs iter.Seq2[event.Event, error]) iter.Seq2[event.Event, error] {
	if f == nil {
		return evs
	}
	return func(yield func(event.Event, error) bool) {
		all := func(evs []event.Event) bool {
			for _, ev := range evs {
				if !yield(ev, nil) {
					return false
				}
			}
			return true
		}
		for ev, err := range evs {
			if err != nil {
				if all(f.End()) {
					yield(event.Event{}, filterError(f, err))
				}
				return
			}
			if !all(f.Event(ev)) {
				return
			}
		}
		all(f.End())
	}
}

// filter returns a new Filter for an agent that runs with opt, or nil if opt
// has no Filter.
func (opt Options) filter() Filter {
	if opt.Filter == nil {
		return nil
	}
	return opt.Filter(opt)
}

// screened returns the result of Conn.Next after the session's Filter. The
// slice is valid until the next call.
func (l *link) screened(ev event.Event, err error) []arrival {
	l.out = l.out[:0]
	if l.filter == nil {
		return append(l.out, arrival{ev, err})
	}
	evs := []event.Event(nil)
	if err != nil {
		evs = l.filter.End()
	} else {
		evs = l.filter.Event(ev)
	}
	for _, ev := range evs {
		l.out = append(l.out, arrival{ev: ev})
	}
	if err != nil {
		l.out = append(l.out, arrival{err: filterError(l.filter, err)})
	}
	return l.out
}

// fault returns err, filtered, in the form in which events contain errors.
func (s *Session) fault(err *Error) event.Fault {
	return Safe(filterError(s.opt.filter(), err)).Fault()
}

// filterError filters the message of an *Error, the only part that users see.
func filterError(f Filter, err error) error {
	if f == nil {
		return err
	}
	if _, coded := errors.AsType[*Error](err); !coded && errors.Is(err, io.EOF) {
		return err // it contains no text of the agent
	}
	e := *Safe(err)
	e.Message = f.Text(e.Message)
	return &e
}
