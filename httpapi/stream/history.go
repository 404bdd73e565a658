package stream

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/upsert"
)

// An entry is one message of a session's history, as it would be sent live.
type entry struct {
	Type    string `json:"type"`
	Payload any    `json:"payload"`
}

// Bounds of the events that are folded into one chunk. A chunk has at most
// about chunkEvents events or chunkBytes bytes. In an answer of Items, a chunk
// already ends after pageChunk bytes if no item is unfinished there, and in a
// subscription after followedBytes. Exports use the largest chunks, because a
// client may have only a few exports at a time.
const (
	chunkEvents   = 2000
	chunkBytes    = 1 << 20
	pageChunk     = 256 << 10
	followedBytes = 32 << 10

	followedEvents = 500 // most events of a chunk in a subscription
)

// A chunk is a part of a session's history, folded into items.
type chunk struct {
	entries []upsert.Out
	pacer   *upsert.Pacer // continues after the chunk
	last    int64         // position of the newest event in the chunk
	more    bool          // the history has further events
}

// ItemsAnswer is a part of a session's history.
type ItemsAnswer struct {
	Items []json.RawMessage `json:"items" doc:"The entries, oldest first, in the form of session:history."`
	Seq   int64             `json:"seq" doc:"Position to continue after."`
	First int64             `json:"first,omitempty" doc:"Only if the request had before: position to send as before for the preceding page."`
	More  bool              `json:"more" doc:"Whether the log has further entries in the direction of the request: after seq, or before first."`
}

// An itemList writes the entries of an answer while later ones are still being
// read. Each item is listed once, in its final state, where it first appeared.
// Entries behind an unfinished item wait until that item ends.
type itemList struct {
	out     *bufio.Writer
	count   int            // entries so far, written or waiting
	waiting []listed       // entries not written yet; the first one is not final
	bytes   int            // bytes of waiting
	index   map[string]int // index in the whole list of each unfinished item, by its id
}

type listed struct {
	data   json.RawMessage
	turn   string
	item   string // "" if the entry is final
	status upsert.Status
}

func (l *itemList) add(o upsert.Out) error {
	switch o := o.(type) {
	case upsert.Upsert:
		return l.addItem(o)
	case upsert.TurnEvent:
		if o.Type != upsert.TurnStarted { // the turn has ended; its cancelled items have no end of their own
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

// end marks a waiting entry as final.
func (l *itemList) end(at int) {
	delete(l.index, l.waiting[at].item)
	l.waiting[at].item = ""
}

// write writes the waiting entries before the first that is not final, or all
// of them.
func (l *itemList) write(all bool) error {
	n := 0
	for n < len(l.waiting) && (all || l.waiting[n].item == "") {
		if l.count-len(l.waiting)+n > 0 {
			_ = l.out.WriteByte(',') // out keeps an error for the next call
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

// Bounds of one answer. They are approximate, because an answer ends where a
// chunk ends.
const (
	maxItems     = 1000
	waitingBytes = 4 << 20 // bytes of entries that wait for an item to end
)

// Items answers with a part of the history, which it writes while it reads. The
// answer ends where a chunk ends, so it may have more entries than the client
// asked for.
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
	caller := access.Caller(r.Context()).ID
	if q := r.URL.Query(); q.Has("before") {
		if q.Has("after") {
			return reply.Invalid("before: not together with after")
		}
		before, err := reply.Number(r, "before", 0)
		if err != nil {
			return err
		}
		page, err := s.itemsBefore(r.Context(), caller, id, before, limit)
		if err != nil {
			return err
		}
		return reply.JSON(unreadResponse{w, s}, http.StatusOK, page)
	}
	verdict, after, err := s.judgeCursor(r.Context(), id, after, "")
	if err != nil {
		return err
	}
	if verdict.Status != "ok" {
		return reply.Invalid("after: " + verdict.Reason)
	}
	from, err := s.cfg.Gateway.Past(id).Start(r.Context(), after)
	if err != nil {
		return err
	}
	history := newHistoryReader(s.cfg.Gateway.Log(), id, from, after)
	history.bytes = pageChunk
	c, err := s.nextInTurn(r.Context(), caller, history)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	if err := s.items(w, r, history, c, int(min(max(limit, 1), maxItems))); err != nil {
		panic(http.ErrAbortHandler) // the answer has begun: abort it, so that it does not look complete
	}
	return nil
}

// PagesAtOnce is how many pages of the history of sessions, or parts of them, the
// server reads for one credential at the same time, also for its streams; further
// ones wait. A page takes as much memory as the items that it is made from, of
// which each may have some megabytes, and one of the few connections with which
// everything is read from the database. A page that was read no longer counts,
// because its client decides how long the answer takes: the answer counts for
// [Limits.UnreadBytes].
const PagesAtOnce = 4

// nextInTurn reads the next part of a history for a credential.
func (s *Streams) nextInTurn(ctx context.Context, credential string, history *historyReader) (chunk, error) {
	leave, err := s.pages.Enter(ctx, credential)
	if err != nil {
		return chunk{}, err
	}
	defer leave()
	return history.next(ctx)
}

// itemsBefore returns the page of the history that ends before a position, for a
// credential. 0 stands for the end of the log, and so does every position beyond
// it.
func (s *Streams) itemsBefore(ctx context.Context, credential, id string, before, limit int64) (ItemsAnswer, error) {
	leave, err := s.pages.Enter(ctx, credential)
	if err != nil {
		return ItemsAnswer{}, err
	}
	defer leave()
	st, err := s.cfg.Gateway.Log().State(ctx, id)
	if err != nil {
		return ItemsAnswer{}, errUnreadable(ctx, err)
	}
	end := before - 1
	newest := before == 0 || end >= st.Head
	var page runnel.Page
	if past, limit := s.cfg.Gateway.Past(id), int(min(max(limit, 1), maxItems)); newest {
		page, err = past.Tail(ctx, new(upsert.Pacer), st.Head, limit)
	} else {
		page, err = past.Before(ctx, end, limit)
	}
	if err != nil {
		return ItemsAnswer{}, errUnreadable(ctx, err)
	}
	answer := ItemsAnswer{Items: make([]json.RawMessage, 0, len(page.Outs)), Seq: page.Seq, First: page.First, More: page.More()}
	for i, o := range page.Outs {
		page.Outs[i] = nil // the answer has it
		data, err := json.Marshal(entry{o.Frame(), o})
		if err != nil {
			return answer, err
		}
		answer.Items = append(answer.Items, data)
	}
	return answer, nil
}

// An unreadResponse counts the bytes of each Write as unread until Write
// returns.
type unreadResponse struct {
	http.ResponseWriter
	s *Streams
}

func (u unreadResponse) Unwrap() http.ResponseWriter { return u.ResponseWriter }

func (u unreadResponse) Write(p []byte) (int, error) {
	rc := http.NewResponseController(u.ResponseWriter)
	defer u.s.unread.begin(len(p), func() { _ = rc.SetWriteDeadline(time.Now()) })()
	return u.ResponseWriter.Write(p)
}

// items writes the answer, whose first chunk is c.
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
		if c, err = s.nextInTurn(r.Context(), access.Caller(r.Context()).ID, history); err != nil {
			if r.Context().Err() == nil {
				s.cfg.Reply.Explain(r.Context(), err) // logs err
			}
			return err
		}
	}
	_, _ = fmt.Fprintf(list.out, `],"seq":%d,"more":%t}`+"\n", max(c.last, history.after), c.more)
	return list.out.Flush()
}
