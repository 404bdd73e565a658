package runnel

import (
	"errors"
	"io"
	"iter"

	"github.com/runnel-dev/runnel/event"
)

// A Filter changes what one agent says before anything else sees it, such as to
// take secrets out. It is called from one goroutine.
type Filter interface {
	// Event returns what takes ev's place, in order; valid until the next call.
	Event(ev event.Event) []event.Event

	// End returns what was held back, once the agent says nothing more.
	End() []event.Event

	// Text changes a text that stands alone, such as the message of an error.
	Text(s string) string
}

// Filtered passes events through a Filter. A nil one changes nothing.
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

// filter returns the Filter for an agent that is run with opt; nil for none.
func (opt Options) filter() Filter {
	if opt.Filter == nil {
		return nil
	}
	return opt.Filter(opt)
}

// screened is what becomes of what Conn.Next returned.
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

// fault is err in the form in which the log has it.
func (s *Session) fault(err *Error) event.Fault {
	return Safe(filterError(s.opt.filter(), err)).Fault()
}

// filterError changes the message of an *Error, the only part that is shown.
func filterError(f Filter, err error) error {
	if f == nil {
		return err
	}
	if _, coded := errors.AsType[*Error](err); !coded && errors.Is(err, io.EOF) {
		return err // it says only that the agent has gone
	}
	e := *Safe(err)
	e.Message = f.Text(e.Message)
	return &e
}
