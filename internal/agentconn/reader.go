package agentconn

import (
	"slices"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// A Reader passes the lines of a recording through a translator. It adds the
// approval events that a live session would log itself.
type Reader struct {
	tr      Translator
	replies map[string]bool // names of due replies that are still to come in the recording
	asked   []question      // the open approvals
}

// question is an open approval in a recording.
type question struct {
	turn, id string
	stops    string // id of the choice that ends the turn; "" if there is none
}

// NewReader returns a Reader that starts at a recording's first line.
func NewReader(tr Translator) *Reader { return &Reader{tr: tr, replies: make(map[string]bool)} }

// Line returns the events of the next line. interrupts is true if the user
// interrupts the agent with this line.
func (r *Reader) Line(l runnel.Line) (evs []event.Event, interrupts bool) {
	if l.Dir == runnel.DirIn {
		about := r.tr.About(l.Text)
		interrupts = about.Interrupt && !r.replies[about.Settles] // the translator's own interrupts do not count
		delete(r.replies, about.Settles)
	}
	evs, due := Feed(r.tr, l)
	for _, m := range due {
		if text, err := encode(m); err == nil {
			r.replies[r.tr.About(text).Settles] = true
		}
	}
	for _, ev := range slices.Clone(evs) {
		evs = append(evs, r.follow(ev)...)
	}
	if interrupts {
		evs = append(evs, r.withdraw(l.At, func(question) bool { return true })...)
	}
	return evs, interrupts
}

// follow updates the open approvals. If ev is a decision that ends its turn,
// follow returns the events that withdraw the turn's other approvals.
func (r *Reader) follow(ev event.Event) []event.Event {
	switch b := ev.Body.(type) {
	case event.ApprovalRequested:
		q := question{turn: ev.Turn, id: b.Approval.ID}
		if i := slices.IndexFunc(b.Approval.Choices, func(c event.Choice) bool { return c.Kind == event.ChoiceDenyStop }); i >= 0 {
			q.stops = b.Approval.Choices[i].ID
		}
		r.asked = append(r.asked, q)
	case event.ApprovalResolved:
		i := slices.IndexFunc(r.asked, func(q question) bool { return q.id == b.ApprovalID })
		if i < 0 {
			return nil
		}
		q := r.asked[i]
		r.asked = slices.Delete(r.asked, i, i+1)
		if b.Choice == q.stops {
			return r.withdraw(ev.At, func(other question) bool { return other.turn == q.turn })
		}
	case event.ResponseDone, event.ResponseError:
		r.asked = slices.DeleteFunc(r.asked, func(q question) bool { return q.turn == ev.Turn })
	}
	return nil
}

// withdraw resolves the open approvals for which matches holds, as a session
// does.
func (r *Reader) withdraw(at time.Time, matches func(question) bool) (evs []event.Event) {
	var kept []question
	for _, q := range r.asked {
		if !matches(q) {
			kept = append(kept, q)
			continue
		}
		evs = append(evs, event.Event{At: at, Turn: q.turn, Body: runnel.WithdrawnByCancel(q.id)})
	}
	r.asked = kept
	return evs
}
