package stream

import (
	"encoding/json"
	"net/http"

	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/upsert"
)

// An entry is one frame of a session's history, as it would be sent live.
type entry struct {
	Type    string `json:"type"`
	Payload any    `json:"payload"`
}

// Bounds of the events that are folded before their items are passed on.
const (
	chunkEvents = 2000
	chunkBytes  = 4 << 20
)

// A chunk is a stretch of history, folded into items.
type chunk struct {
	entries []upsert.Out
	pacer   *upsert.Pacer // goes on where the stretch ends
	last    int64         // position of the newest event in it
	more    bool          // the log has further events
}

// ItemsAnswer is a stretch of a session's history.
type ItemsAnswer struct {
	Items []json.RawMessage `json:"items" doc:"as the entries of session:history"`
	Seq   int64             `json:"seq" doc:"the position to go on after"`
	More  bool              `json:"more"`
}

// An itemList is the list of entries of an answer. An item stands in it once, as
// it is at the end.
type itemList struct {
	entries []json.RawMessage
	items   map[string]listed // by id
}

// listed is an item in the list: its index, and the status it was listed with.
type listed struct {
	index  int
	status upsert.Status
}

func (l *itemList) add(o upsert.Out) error {
	index := len(l.entries)
	if u, ok := o.(upsert.Upsert); ok {
		if first, again := l.items[u.ItemID]; again {
			index = first.index
			if u.Status == upsert.StatusUpdate {
				u.Status = first.status
			}
			o = u
		} else {
			l.items[u.ItemID] = listed{index, u.Status}
		}
	}
	data, err := json.Marshal(entry{o.Frame(), o})
	if err != nil {
		return err
	}
	if index == len(l.entries) {
		l.entries = append(l.entries, nil)
	}
	l.entries[index] = data
	return nil
}

// maxItems bounds the items of one answer, about.
const maxItems = 1000

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
	limit = min(limit, maxItems)
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
	history := newHistoryReader(s.cfg.Gateway.Log(), id, from, after)
	list := itemList{entries: []json.RawMessage{}, items: make(map[string]listed)}
	c := chunk{more: true}
	for c.more && int64(len(list.entries)) < max(limit, 1) {
		if c, err = history.next(r.Context()); err != nil {
			return ItemsAnswer{}, err
		}
		for _, o := range c.entries {
			if err := list.add(o); err != nil {
				return ItemsAnswer{}, err
			}
		}
	}
	return ItemsAnswer{Items: list.entries, Seq: max(c.last, after), More: c.more}, nil
}
