package httpapi

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/upsert"
)

// An entry is one thing of a session's history: a frame as it would be sent
// live, or, for readers of events, an event.
type entry struct {
	Type    string `json:"type"`
	Payload any    `json:"payload"`
}

// chunkEvents is how many events are folded before what has come of them is
// handed on. A chunk ends where no turn is open, so that no item is in two.
const chunkEvents = 2000

// A chunk is a stretch of history, folded.
type chunk struct {
	entries []upsert.Out
	pacer   *upsert.Pacer // where the stretch ends
	last    int64         // its position
	more    bool          // the log goes on
}

// readChunk folds the history from position from, of which the reader has everything
// up to after. Nothing of the store is open when it returns.
func readChunk(ctx context.Context, log runnel.Log, session string, from, after int64) (chunk, error) {
	c := chunk{pacer: new(upsert.Pacer), last: from}
	var err error
	c.entries, err = c.pacer.History(c.stretch(log.Read(ctx, session, from)), after, time.Now())
	return c, err
}

func (c *chunk) stretch(events iter.Seq2[event.Event, error]) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		open := make(map[string]bool)
		n := 0
		for ev, err := range events {
			if n >= chunkEvents && len(open) == 0 && err == nil {
				c.more = true
				return
			}
			if !yield(ev, err) || err != nil {
				return
			}
			n++
			c.last = ev.Seq
			switch {
			case event.Ends(ev.Body):
				delete(open, ev.Turn)
			case ev.Turn != "":
				open[ev.Turn] = true
			}
		}
	}
}

type itemsAnswer struct {
	Items []json.RawMessage `json:"items" doc:"as the entries of session:history"`
	Seq   int64             `json:"seq" doc:"the position to go on after"`
	More  bool              `json:"more"`
}

const maxItems = 1000 // of one answer, about

// items answers with a stretch of the history. Its end is where a chunk ends,
// so there may be more entries than were asked for.
func (s *Server) items(r *http.Request) (itemsAnswer, error) {
	id, err := s.session(r.Context(), r.PathValue("id"))
	if err != nil {
		return itemsAnswer{}, err
	}
	after, err := number(r, "after", 0)
	if err != nil {
		return itemsAnswer{}, err
	}
	limit, err := number(r, "limit", historyEntries)
	if err != nil {
		return itemsAnswer{}, err
	}
	limit = min(limit, maxItems)
	verdict, after, err := s.judgeCursor(r.Context(), id, after)
	if err != nil {
		return itemsAnswer{}, err
	}
	if verdict.Status != "ok" {
		return itemsAnswer{}, invalid("after: " + verdict.Reason)
	}
	from, err := s.gw.TurnStart(r.Context(), id, after)
	if err != nil {
		return itemsAnswer{}, err
	}
	out := itemsAnswer{Items: []json.RawMessage{}, Seq: after}
	for more := true; more && int64(len(out.Items)) < max(limit, 1); {
		c, err := readChunk(r.Context(), s.gw.Log(), id, from, after)
		if err != nil {
			return itemsAnswer{}, err
		}
		for _, o := range c.entries {
			data, err := json.Marshal(entry{o.Frame(), o})
			if err != nil {
				return itemsAnswer{}, err
			}
			out.Items = append(out.Items, data)
		}
		out.Seq, out.More, more, from = max(c.last, after), c.more, c.more, c.last
	}
	return out, nil
}
