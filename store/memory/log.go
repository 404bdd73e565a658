package memory

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// A Log stores events in memory. The zero value is ready to use.
type Log struct {
	mu   sync.Mutex
	logs map[string]*sessionLog
}

var (
	_ store.Log          = (*Log)(nil)
	_ store.Checkpointer = (*Log)(nil)
	_ store.HeadLister   = (*Log)(nil)
)

type sessionLog struct {
	events []event.Event // append-only: a prefix never changes
	open   []store.OpenTurn
	cuts   []int64       // ends of turns after which no turn was open, in order
	grown  chan struct{} // closed and replaced by Append

	checkpoints []store.Checkpoint
}

// of returns the log of a session and creates it if it is missing. The caller
// holds l.mu.
func (l *Log) of(session string) *sessionLog {
	sl := l.logs[session]
	if sl == nil {
		if l.logs == nil {
			l.logs = make(map[string]*sessionLog)
		}
		sl = &sessionLog{grown: make(chan struct{})}
		l.logs[session] = sl
	}
	return sl
}

// Append implements [store.Log].
func (l *Log) Append(ctx context.Context, session string, head int64, evs ...event.Event) error {
	if err := store.CheckAppend(session, head, evs); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	sl := l.of(session)
	if int64(len(sl.events)) != head {
		return store.ErrConflict
	}
	if len(evs) == 0 {
		return nil
	}
	for _, ev := range evs {
		if sl.open = trackOpen(sl.open, ev); event.Ends(ev.Body) && len(sl.open) == 0 {
			sl.cuts = append(sl.cuts, ev.Seq)
		}
	}
	sl.events = append(sl.events, evs...)
	close(sl.grown)
	sl.grown = make(chan struct{})
	return nil
}

// trackOpen folds ev into the list of open turns.
func trackOpen(open []store.OpenTurn, ev event.Event) []store.OpenTurn {
	if ev.Turn == "" {
		return open
	}
	i := slices.IndexFunc(open, func(o store.OpenTurn) bool { return o.Turn == ev.Turn })
	switch {
	case event.Ends(ev.Body) && i >= 0:
		return slices.Delete(open, i, i+1)
	case !event.Ends(ev.Body) && i < 0:
		return append(open, store.OpenTurn{Turn: ev.Turn, After: ev.Seq - 1})
	}
	return open
}

// Heads implements [store.HeadLister].
func (l *Log) Heads(context.Context) (map[string]int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	heads := make(map[string]int64)
	for id, sl := range l.logs {
		if n := len(sl.events); n > 0 {
			heads[id] = int64(n)
		}
	}
	return heads, nil
}

// Cut implements [store.Checkpointer].
func (l *Log) Cut(_ context.Context, session string, at int64) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of(session).cut(at), nil
}

func (sl *sessionLog) cut(at int64) int64 {
	i, found := slices.BinarySearch(sl.cuts, at)
	switch {
	case found:
		return at
	case i == 0:
		return 0
	}
	return sl.cuts[i-1]
}

// Checkpoint implements [store.Checkpointer].
func (l *Log) Checkpoint(_ context.Context, session string, at int64) (store.Checkpoint, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sl := l.of(session)
	newest := store.Checkpoint{Seq: sl.cut(at)}
	for _, c := range sl.checkpoints {
		if c.Seq > newest.Seq && c.Seq <= at {
			newest = c
		}
	}
	return newest, nil
}

// PutCheckpoint implements [store.Checkpointer].
func (l *Log) PutCheckpoint(_ context.Context, session string, c store.Checkpoint) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	sl := l.of(session)
	if c.Seq <= int64(len(sl.events)) {
		c.Events = slices.Clone(c.Events)
		sl.checkpoints = append(slices.DeleteFunc(sl.checkpoints, func(old store.Checkpoint) bool { return old.Seq == c.Seq }), c)
	}
	return nil
}

// Size implements [store.Sizer].
func (l *Log) Size(_ context.Context, session string) (n int64, err error) {
	l.mu.Lock()
	evs := l.of(session).events
	l.mu.Unlock()
	for _, ev := range evs {
		n += int64(event.Weight(ev.Body))
	}
	return n, nil
}

// Read implements [store.Log].
func (l *Log) Read(ctx context.Context, session string, after int64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		l.mu.Lock()
		evs := l.of(session).events
		l.mu.Unlock()
		for _, ev := range evs[min(max(after, 0), int64(len(evs))):] {
			if ctx.Err() != nil {
				yield(event.Event{}, ctx.Err())
				return
			}
			if !yield(ev, nil) {
				return
			}
		}
	}
}

// Grown implements [store.Log].
func (l *Log) Grown(session string, after int64) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	sl := l.of(session)
	if int64(len(sl.events)) > after {
		return closed
	}
	return sl.grown
}

// State implements [store.Log].
func (l *Log) State(_ context.Context, session string) (store.LogState, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sl := l.of(session)
	return store.LogState{Head: int64(len(sl.events)), Open: slices.Clone(sl.open)}, nil
}

var closed = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()
