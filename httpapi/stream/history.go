package stream

import (
	"encoding/json"
	"net/http"

	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/upsert"
)

// An entry is one thing of a session's history: a frame as it would be sent
// live, or, for readers of events, an event.
type entry struct {
	Type    string `json:"type"`
	Payload any    `json:"payload"`
}

// Bounds of what is folded before what has come of it is handed on.
const (
	chunkEvents = 2000
	chunkBytes  = 4 << 20
)

// A chunk is a stretch of history, folded.
type chunk struct {
	entries []upsert.Out
	pacer   *upsert.Pacer // where the stretch ends
	last    int64         // its position
	more    bool          // the log goes on
}

// ItemsAnswer is a stretch of a session's history.
type ItemsAnswer struct {
	Items []json.RawMessage `json:"items" doc:"as the entries of session:history"`
	Seq   int64             `json:"seq" doc:"the position to go on after"`
	More  bool              `json:"more"`
}

// placed is where an item stands in an answer, and how it came there.
type placed struct {
	place  int
	status upsert.Status
}

// MaxItems bounds the items of one answer, about.
const MaxItems = 1000

// Items answers with a stretch of the history. Its end is where a chunk ends,
// so there may be more entries than were asked for.
func (s *Streams) Items(r *http.Request) (ItemsAnswer, error) {
	id, err := s.cfg.Sessions.Resolve(r.Context(), r.PathValue("id"))
	if err != nil {
		return ItemsAnswer{}, err
	}
	after, err := reply.Number(r, "after", 0)
	if err != nil {
		return ItemsAnswer{}, err
	}
	limit, err := reply.Number(r, "limit", historyEntries)
	if err != nil {
		return ItemsAnswer{}, err
	}
	limit = min(limit, MaxItems)
	verdict, after, err := s.judgeCursor(r.Context(), id, after)
	if err != nil {
		return ItemsAnswer{}, err
	}
	if verdict.Status != "ok" {
		return ItemsAnswer{}, reply.Invalid("after: " + verdict.Reason)
	}
	from, err := s.cfg.Gateway.TurnStart(r.Context(), id, after)
	if err != nil {
		return ItemsAnswer{}, err
	}
	out := ItemsAnswer{Items: []json.RawMessage{}, Seq: after}
	history, places := newHistoryReader(s.cfg.Gateway.Log(), id, from, after), make(map[string]placed)
	for more := true; more && int64(len(out.Items)) < max(limit, 1); {
		c, err := history.next(r.Context())
		if err != nil {
			return ItemsAnswer{}, err
		}
		for _, o := range c.entries {
			place := len(out.Items)
			if u, ok := o.(upsert.Upsert); ok { // an item stands once, as it is at the end
				if first, again := places[u.ItemID]; again {
					place = first.place
					if u.Status == upsert.StatusUpdate {
						u.Status = first.status
					}
					o = u
				} else {
					places[u.ItemID] = placed{place, u.Status}
				}
			}
			data, err := json.Marshal(entry{o.Frame(), o})
			if err != nil {
				return ItemsAnswer{}, err
			}
			if place == len(out.Items) {
				out.Items = append(out.Items, nil)
			}
			out.Items[place] = data
		}
		out.Seq, out.More, more = max(c.last, after), c.more, c.more
	}
	return out, nil
}
