package agentconn

import (
	"slices"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// A Reader passes the lines of a recording through a translator, and adds the
// events of the session.
type Reader struct {
	tr      Translator
	replies map[string]bool // due, by name; the recording has not had them yet
	asked   []question      // the open approvals
}

// question is an approval that a recording has open.
type question struct {
	turn, id string
	stops    string // id of the choice that ends the turn; "" if there is none
}

// NewReader returns a Reader for a recording's first line.
func NewReader(tr Translator) *Reader { return &Reader{tr: tr, replies: make(map[string]bool)} }

// Line returns the events of the next line, and whether the user interrupts the
// agent with it.
func (r *Reader) Line(l runnel.Line) (evs []event.Event, interrupts bool) {
	if l.Dir == runnel.DirIn {
		about := r.tr.About(l.Text)
		interrupts = about.Interrupt && !r.replies[about.Settles] // a translator may interrupt, too
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

// follow keeps account of the open approvals. It returns what else a decision
// resolves: one that ends the turn withdraws the turn's other questions.
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

// withdraw resolves the open approvals that are meant, as the session does.
func (r *Reader) withdraw(at time.Time, meant func(question) bool) (evs []event.Event) {
	var kept []question
	for _, q := range r.asked {
		if !meant(q) {
			kept = append(kept, q)
			continue
		}
		evs = append(evs, event.Event{At: at, Turn: q.turn, Body: runnel.WithdrawnByCancel(q.id)})
	}
	r.asked = kept
	return evs
}
