package stream

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/upsert"
)

// An entry is one frame of a session's history, as it would be sent live.
type entry struct {
	Type    string `json:"type"`
	Payload any    `json:"payload"`
}

// Bounds of the events that are folded before their items are passed on. An
// export, of which a client has few at a time, folds more than a page of items,
// and that more than a subscription.
const (
	chunkEvents   = 2000
	chunkBytes    = 1 << 20
	pageChunk     = 256 << 10
	followedBytes = 32 << 10
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

// An itemList is the list of entries of an answer that is written while it is
// made. An item stands in it once, as it is at the end, in the place where it
// appeared: what comes after an item that has not ended waits for that.
type itemList struct {
	out     *bufio.Writer
	count   int            // entries so far, written or not
	waiting []listed       // not written yet; the first of them has not ended
	bytes   int            // of those
	index   map[string]int // items that have not ended, by id: index in the list
}

type listed struct {
	data   json.RawMessage
	turn   string
	item   string // "" for what is final
	status upsert.Status
}

func (l *itemList) add(o upsert.Out) error {
	switch o := o.(type) {
	case upsert.Upsert:
		return l.addItem(o)
	case upsert.TurnEvent:
		if o.Type != upsert.TurnStarted { // a cancelled item has no end of its own
			for i, e := range l.waiting {
				if e.turn == o.TurnID {
					l.end(i)
				}
			}
		}
	}
	data, err := json.Marshal(entry{o.Frame(), o})
	l.append(listed{data: data})
	return err
}

func (l *itemList) addItem(u upsert.Upsert) error {
	at, again := l.index[u.ItemID]
	at -= l.count - len(l.waiting)
	if again && u.Status == upsert.StatusUpdate {
		u.Status = l.waiting[at].status
	}
	data, err := json.Marshal(entry{u.Frame(), u})
	if err != nil {
		return err
	}
	e := listed{data, u.TurnID, u.ItemID, u.Status}
	if again {
		l.bytes += len(data) - len(l.waiting[at].data)
		l.waiting[at] = e
	} else {
		l.index[u.ItemID] = l.count
		at = len(l.waiting)
		l.append(e)
	}
	if u.Status == upsert.StatusComplete || u.Status == upsert.StatusError {
		l.end(at)
	}
	return nil
}

func (l *itemList) append(e listed) {
	l.waiting = append(l.waiting, e)
	l.bytes += len(e.data)
	l.count++
}

// end makes an entry that waits final.
func (l *itemList) end(at int) {
	delete(l.index, l.waiting[at].item)
	l.waiting[at].item = ""
}

// write writes the entries that are final, up to the first that is not; all of
// them if that is the end of the list.
func (l *itemList) write(all bool) error {
	n := 0
	for n < len(l.waiting) && (all || l.waiting[n].item == "") {
		if l.count-len(l.waiting)+n > 0 {
			_ = l.out.WriteByte(',') // an error is kept for the next call
		}
		if _, err := l.out.Write(l.waiting[n].data); err != nil {
			return err
		}
		l.bytes -= len(l.waiting[n].data)
		n++
	}
	l.waiting = slices.Delete(l.waiting, 0, n)
	return l.out.Flush()
}

// Bounds of one answer, about: it ends where the events of a chunk do.
const (
	maxItems     = 1000
	waitingBytes = 4 << 20 // of entries that wait for an item to end
)

// Items answers with a stretch of the history, which it writes as it reads it.
// Its end is where a chunk ends, so there may be more entries than were asked
// for.
func (s *Streams) Items(w http.ResponseWriter, r *http.Request) error {
	id, err := s.cfg.Sessions.Resolve(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	after, err := reply.Number(r, "after", 0)
	if err != nil {
		return err
	}
	limit, err := reply.Number(r, "limit", historyEntries)
	if err != nil {
		return err
	}
	verdict, after, err := s.judgeCursor(r.Context(), id, after, "")
	if err != nil {
		return err
	}
	if verdict.Status != "ok" {
		return reply.Invalid("after: " + verdict.Reason)
	}
	from, err := s.cfg.Gateway.TurnStart(r.Context(), id, after)
	if err != nil {
		return err
	}
	history := newHistoryReader(s.cfg.Gateway.Log(), id, from, after)
	history.bytes = pageChunk
	c, err := history.next(r.Context())
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	if err := s.items(w, r, history, c, int(min(max(limit, 1), maxItems))); err != nil {
		panic(http.ErrAbortHandler) // it has begun: cut it off, so that it does not look whole
	}
	return nil
}

// items writes the answer, of which c is the first chunk.
func (s *Streams) items(w http.ResponseWriter, r *http.Request, history *historyReader, c chunk, limit int) error {
	rc := http.NewResponseController(w)
	list := itemList{out: bufio.NewWriter(w), index: make(map[string]int)}
	_, _ = list.out.WriteString(`{"items":[`)
	for {
		for _, o := range c.entries {
			if err := list.add(o); err != nil {
				return err
			}
		}
		last := !c.more || list.count >= limit || list.bytes > waitingBytes
		_ = rc.SetWriteDeadline(time.Now().Add(s.cfg.WriteStall))
		written := s.unread.begin(list.bytes, func() { _ = rc.SetWriteDeadline(time.Now()) })
		err := list.write(last)
		written()
		if err != nil {
			return err
		}
		if last {
			break
		}
		if c, err = history.next(r.Context()); err != nil {
			if r.Context().Err() == nil {
				s.cfg.Reply.Explain(r.Context(), err) // logs it
			}
			return err
		}
	}
	_, _ = fmt.Fprintf(list.out, `],"seq":%d,"more":%t}`+"\n", max(c.last, history.after), c.more)
	return list.out.Flush()
}
