package gateway

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/store"
)

// An entry is a session that is open, with or without its agent.
type entry struct {
	g       *Gateway
	session *runnel.Session

	// Guarded by Gateway.mu:
	users    int  // who may call session just now
	draining bool // a goroutine is at the queue
	again    bool // it has to look once more

	retired bool // another writes the record from now on; guarded by keeper.writing

	// sending is held from the look at whether a turn runs until the prompt is
	// in the log: options and attachments are judged under the one turn lock.
	sending sync.Mutex

	mu      sync.Mutex
	rec     store.Session
	waiting int    // prompts in the queue
	known   int64  // turns is complete for positions from here on
	head    int64  // and up to here
	turns   []span // where turns lie in the log, oldest first
}

// A span is a turn's place in the log.
type span struct {
	turn       string
	after, end int64 // end is 0 while it runs
}

// recorded is told by the session of what it appended. It does not block.
func (e *entry) recorded(evs []event.Event) {
	e.mu.Lock()
	visible, urgent, ended := false, false, false
	for _, ev := range evs {
		e.place(ev)
		v, u := e.note(ev)
		visible, urgent, ended = visible || v, urgent || u, ended || event.Ends(ev.Body)
	}
	drain := ended && e.waiting > 0
	e.mu.Unlock()
	if visible {
		e.g.feed.touch(e.rec.ID)
		e.g.keeper.dirty(e, urgent)
	}
	if drain {
		e.g.startDrain(e)
	}
}

// place keeps the index of turns.
func (e *entry) place(ev event.Event) {
	e.head = ev.Seq
	if ev.Turn == "" {
		return
	}
	for i := len(e.turns) - 1; i >= 0; i-- {
		if e.turns[i].turn == ev.Turn {
			if event.Ends(ev.Body) {
				e.turns[i].end = ev.Seq
			}
			return
		}
	}
	if len(e.turns) >= turnsIndexed { // those before end are forgotten
		e.known = max(e.known, e.turns[0].end)
		e.turns = slices.Delete(e.turns, 0, 1)
	}
	e.turns = append(e.turns, span{turn: ev.Turn, after: ev.Seq - 1})
}

const turnsIndexed = 256

// note keeps the record current. It reports whether lists show the change, and
// whether a crash must not lose it.
func (e *entry) note(ev event.Event) (visible, urgent bool) {
	switch b := ev.Body.(type) {
	case event.ItemDone:
		return e.noteItem(ev, b), false
	case event.SessionUpdated:
		set(&e.rec.AgentSessionID, b.AgentSessionID)
		set(&e.rec.ModelID, b.ModelID)
		set(&e.rec.PermissionMode, b.PermissionMode)
		set(&e.rec.Title, line(b.Title, titleBytes))
		return true, b.AgentSessionID != ""
	case event.ResponseStart:
		set(&e.rec.ModelID, b.ModelID)
	case event.ResponseDone:
		e.rec.LastTurn = b.Status
	case event.ResponseError:
		e.rec.LastTurn = event.StatusError
		e.rec.LastLine = line(b.Error.Message, lineBytes)
	case event.ApprovalRequested:
		e.rec.LastLine = line(b.Approval.Title, lineBytes)
	case event.ApprovalResolved:
	default:
		return false, false
	}
	e.rec.LastActiveAt = ev.At
	return true, false
}

func (e *entry) noteItem(ev event.Event, b event.ItemDone) bool {
	switch f := b.FinalItem.(type) {
	case event.Message:
		if f.Origin == event.OriginUser && e.rec.Title == "" {
			e.rec.Title = line(f.Content, titleBytes)
		}
		set(&e.rec.LastLine, line(lastLine(f.Content), lineBytes))
	case event.FunctionCall:
		what := f.Title
		if what == "" {
			what = f.Name
		}
		set(&e.rec.LastLine, line(what, lineBytes))
	default:
		return false
	}
	e.rec.LastActiveAt = ev.At
	return true
}

const (
	titleBytes = 120 + len("…")
	lineBytes  = 240 + len("…")
)

func set(to *string, s string) {
	if s != "" {
		*to = s
	}
}

// line returns the first line of s that is not blank, cut to n bytes.
func line(s string, n int) string {
	s = strings.TrimSpace(s)
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		s = strings.TrimSpace(s[:i])
	}
	return text.Shorten(s, n)
}

// lastLine returns the last line of s that is not blank.
func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexAny(s, "\r\n")+1:]
}

// snapshot returns the record as it is now.
func (e *entry) snapshot() (rec store.Session, waiting int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rec, e.waiting
}

// running reports whether the log has a turn without an end.
func (e *entry) running() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.turns, func(t span) bool { return t.end == 0 })
}

// change edits the record and makes the change known.
func (e *entry) change(f func()) {
	e.mu.Lock()
	f()
	e.mu.Unlock()
	e.g.feed.touch(e.rec.ID)
	e.g.keeper.dirty(e, true)
}

// start returns a position at or before the beginning of every turn that holds
// after: a reader that folds items begins there.
func (e *entry) start(after int64) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if after < e.known || after > e.head { // readers may see an event before recorded does
		return 0
	}
	from := after
	for _, t := range e.turns {
		if t.after < after && (t.end == 0 || t.end > after) {
			from = min(from, t.after)
		}
	}
	return from
}

// TurnStart returns a position at or before the beginning of every turn that
// holds position after. A reader that folds items begins there.
func (g *Gateway) TurnStart(ctx context.Context, id string, after int64) (int64, error) {
	if after <= 0 {
		return 0, nil
	}
	if e := g.peek(id); e != nil {
		return e.start(after), nil
	}
	st, err := g.cfg.Log.State(ctx, id)
	if err != nil {
		return 0, storeError(err)
	}
	if after >= st.Head && len(st.Open) == 0 {
		return after, nil
	}
	return 0, nil
}

// reap ends agents that nobody has used for a while, and puts their sessions
// away. What is in the log stays, and the next prompt goes on from there.
func (g *Gateway) reap() {
	var pruned time.Time
	tick := time.NewTicker(max(g.cfg.IdleTimeout/4, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.putAway(time.Now())
			if time.Since(pruned) > time.Hour {
				pruned = time.Now()
				g.pruneUploads(pruned)
			}
		case <-g.ctx.Done():
			return
		}
	}
}

func (g *Gateway) putAway(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing {
		return
	}
	for id, e := range g.live {
		rec, waiting := e.snapshot()
		if e.users > 0 || waiting > 0 || e.running() || now.Sub(rec.LastActiveAt) < g.cfg.IdleTimeout || g.flights[id] != nil {
			continue
		}
		delete(g.live, id)
		g.fly(id, func() (*entry, error) {
			if st := e.session.Status(); st.AgentAlive && !st.Resumes && rec.LastTurn != "" {
				return e, nil // the conversation would end with its agent
			}
			if err := e.session.Release(g.ctx); err != nil {
				return e, nil // a turn runs after all
			}
			if err := g.put(g.ctx, e); err != nil {
				return e, nil // the record would be out of date
			}
			_ = e.session.Close()
			g.retire(e)
			g.feed.touch(id)
			return nil, nil
		})
	}
}
