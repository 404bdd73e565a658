package runnel

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/upsert"
)

// A Past reads the history of one session as whole items, page by page from its
// end backward. The time that a page takes does not depend on the length of the
// session if Log is a [Checkpointer].
type Past struct {
	Log     Log
	Session string

	// Start returns a checkpoint at or before a position, where a fold starts.
	// Default: [CheckpointBefore].
	Start func(ctx context.Context, at int64) (Checkpoint, error)
}

// A Page is a part of a session's history. Consecutive pages have no event
// between them, and each frame of the history is on one page.
type Page struct {
	// Outs are the frames of the page, in the order in which they began. An item
	// is on the page with the event that ended it.
	Outs []upsert.Out

	First int64 // position of the first event of the page; the preceding page ends before it
	Seq   int64 // position of the last event of the page
}

// More reports whether the log has events before the page.
func (p Page) More() bool { return p.First > 1 }

const (
	// A page ends early once pageEvents events have been read for it, even if it
	// has fewer frames than the caller asked for.
	pageEvents = 4000
	// pageBytes bounds the content of a page of more than one frame.
	pageBytes = 1 << 20
	// stretchBytes is about how much of the log is folded at a time.
	stretchBytes = 256 << 10
)

// checkpointEvents is about how many events lie between two checkpoints within
// a turn.
const checkpointEvents = 2000

// CheckpointBefore returns a checkpoint at most a few thousand events before
// position at. If the log lacks one, CheckpointBefore reads the log from the
// newest earlier one on, and adds the missing ones.
func CheckpointBefore(ctx context.Context, log Log, session string, at int64) (Checkpoint, error) {
	cache, ok := log.(Checkpointer)
	if !ok || at <= 0 {
		return Checkpoint{}, nil
	}
	c, err := cache.Checkpoint(ctx, session, at)
	if err != nil || at-c.Seq <= checkpointEvents {
		return c, err
	}
	outline, n, bytes := upsert.OutlineOf(c.Events), 0, 0
	for ev, err := range log.Read(ctx, session, c.Seq) {
		if err != nil {
			return c, err
		}
		if ev.Seq > at {
			break
		}
		outline.Add(ev)
		n++
		bytes += event.Weight(ev.Body)
		// A checkpoint is smaller than the events between it and the previous
		// one. So all checkpoints together are smaller than the log.
		if n >= checkpointEvents && bytes >= outline.Size() {
			c = Checkpoint{Seq: ev.Seq, Events: outline.Events()}
			if err := cache.PutCheckpoint(ctx, session, c); err != nil && ctx.Err() != nil {
				return c, ctx.Err()
			} // after any other error, the next reader makes the checkpoint again
			outline, n, bytes = upsert.OutlineOf(c.Events), 0, 0
		}
	}
	return c, nil
}

// Before returns the page that ends at position end, with about limit frames.
func (p Past) Before(ctx context.Context, end int64, limit int) (Page, error) {
	s := shelf{limit: max(limit, 1), low: end}
	err := p.fill(ctx, &s, end)
	return s.page(end), err
}

// Tail returns the newest page of a log that ends at position end, with about
// limit frames. In addition to the frames of its range, the page has everything
// that is unfinished: items, approvals and the starts of turns. Tail folds the
// page into pacer, which must be new; later events of the log continue the
// fold.
func (p Past) Tail(ctx context.Context, pacer *upsert.Pacer, end int64, limit int) (Page, error) {
	s := shelf{limit: max(limit, 1), low: end, unfinished: true}
	if end > 0 {
		if err := p.window(ctx, pacer, &s, end); err != nil {
			return Page{}, err
		}
	}
	s.unfinished = false // the first window has all of it
	err := p.fill(ctx, &s, s.low)
	return s.page(end), err
}

// TailFrom returns the page that [Past.Tail] returned with this First for a log
// that ended at position end.
func (p Past) TailFrom(ctx context.Context, pacer *upsert.Pacer, first, end int64) (Page, error) {
	s := shelf{low: max(first-1, 0), unfinished: true}
	c, err := p.start(ctx, s.low)
	if err == nil {
		err = p.foldWhole(ctx, pacer, &s, c, end)
	}
	return s.page(end), err
}

// fill adds windows of the log before position end until s is full.
func (p Past) fill(ctx context.Context, s *shelf, end int64) error {
	for end > 0 && !s.full() {
		older := shelf{limit: s.limit, low: end, span: s.span, events: s.events}
		if err := p.window(ctx, new(upsert.Pacer), &older, end); err != nil {
			return err
		}
		s.add(older)
		end = s.low
	}
	return nil
}

// window adds a window that ends at position end. The first window is small.
// Every further one is twice as long as the one before, because positions of
// removed events may lie between those of others.
func (p Past) window(ctx context.Context, pacer *upsert.Pacer, s *shelf, end int64) error {
	s.span = max(2*s.span, int64(4*s.limit))
	c, err := p.start(ctx, max(end-s.span, 0))
	if err != nil {
		return err
	}
	s.low = c.Seq
	return p.foldWhole(ctx, pacer, s, c, end)
}

// foldWhole is fold, but starts where no turn is open if checkpoint c lacks what
// the fold needs.
func (p Past) foldWhole(ctx context.Context, pacer *upsert.Pacer, s *shelf, c Checkpoint, end int64) error {
	low, settings := s.low, *pacer
	err := p.fold(ctx, pacer, s, c, end)
	if !errors.Is(err, upsert.ErrUnpaired) {
		return err
	}
	*pacer = settings
	s.entries, s.open, s.low = nil, nil, low
	if c, err = CutBefore(ctx, p.Log, p.Session, c.Seq); err != nil {
		return err
	}
	return p.fold(ctx, pacer, s, c, end)
}

// CutBefore returns the newest position at or before at at which no turn is
// open. A fold that ended with [upsert.ErrUnpaired] starts there again.
func CutBefore(ctx context.Context, log Log, session string, at int64) (c Checkpoint, err error) {
	if cache, ok := log.(Checkpointer); ok {
		c.Seq, err = cache.Cut(ctx, session, at)
	}
	return c, err
}

func (p Past) start(ctx context.Context, at int64) (Checkpoint, error) {
	if p.Start != nil {
		return p.Start(ctx, at)
	}
	return CheckpointBefore(ctx, p.Log, p.Session, at)
}

// fold folds the events after checkpoint c and up to position end, and adds
// their changes to s.
func (p Past) fold(ctx context.Context, pacer *upsert.Pacer, s *shelf, c Checkpoint, end int64) error {
	pacer.StartWith(c.Events)
	before, at := c.Events, c.Seq
	for more := true; more; {
		more = false
		stretch := func(yield func(event.Event, error) bool) {
			for _, ev := range before {
				if !yield(ev, nil) {
					return
				}
			}
			before = nil
			bytes := 0
			for ev, err := range p.Log.Read(ctx, p.Session, at) {
				switch {
				case err != nil:
				case ev.Seq > end:
					return
				case bytes >= stretchBytes:
					more = true
					return
				}
				if !yield(ev, err) || err != nil {
					return
				}
				at = ev.Seq
				bytes += event.Weight(ev.Body)
				s.events++
			}
		}
		changes, err := pacer.Changes(stretch, time.Now())
		if err != nil {
			return err
		}
		s.put(changes, !more)
	}
	s.open = slices.DeleteFunc(s.open, func(c upsert.Change) bool { return !pacer.Open(c.Out) })
	return nil
}

// A shelf collects the frames of a page.
type shelf struct {
	limit      int  // number of frames; 0: all frames after low
	unfinished bool // the page has what is unfinished at its end

	low     int64           // the page has all frames after this position
	entries []upsert.Change // these frames
	open    []upsert.Change // what else is unfinished
	bytes   int             // of the content of entries

	span   int64 // positions of the last window
	events int   // read so far
}

// put adds the changes of a stretch. It ignores an item that is unfinished at
// the end of the stretch, unless the stretch is the last one.
func (s *shelf) put(changes []upsert.Change, last bool) {
	for _, c := range changes {
		_, item := c.Out.(upsert.Upsert)
		switch {
		case item && c.Open:
			if s.unfinished && last {
				s.open = append(s.open, c)
			}
		case c.Seq > s.low:
			s.entries = append(s.entries, c)
		case s.unfinished && !item:
			s.open = append(s.open, c)
		}
	}
	s.trim()
}

// add adds the frames of the window before those of s.
func (s *shelf) add(older shelf) {
	s.entries = append(s.entries, older.entries...)
	s.low, s.span, s.events = older.low, older.span, older.events
	s.trim()
}

// trim removes the oldest frames beyond the bounds of a page. Frames with the
// same position stay together.
func (s *shelf) trim() {
	if s.limit == 0 {
		return
	}
	slices.SortStableFunc(s.entries, func(a, b upsert.Change) int { return cmp.Compare(b.Seq, a.Seq) })
	s.bytes = 0
	n := 0
	for n < len(s.entries) {
		fits := n < s.limit && s.bytes < pageBytes
		if n > 0 && !fits && s.entries[n].Seq != s.entries[n-1].Seq {
			break
		}
		s.bytes += weightOf(s.entries[n].Out)
		n++
	}
	if n == len(s.entries) {
		return
	}
	s.low = s.entries[n].Seq
	if s.unfinished {
		for _, c := range s.entries[n:] {
			if _, item := c.Out.(upsert.Upsert); !item {
				s.open = append(s.open, c) // fold removes those that are not open
			}
		}
	}
	clear(s.entries[n:])
	s.entries = s.entries[:n]
}

// full reports whether the page has enough frames, or whether enough of the log
// was read for it.
func (s *shelf) full() bool {
	enough := pageEvents
	if len(s.entries) == 0 { // read more, so that the page is not empty
		enough *= 5
	}
	return len(s.entries) >= s.limit || s.bytes >= pageBytes || s.events >= enough
}

// page returns the page that ends at position end.
func (s *shelf) page(end int64) Page {
	all := slices.Clone(s.entries)
	for _, c := range s.open {
		if _, item := c.Out.(upsert.Upsert); item || c.Seq <= s.low { // else it is in entries
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b upsert.Change) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Seq, b.Seq))
	})
	p := Page{Outs: make([]upsert.Out, len(all)), First: s.low + 1, Seq: end}
	for i, c := range all {
		p.Outs[i] = c.Out
	}
	return p
}

// weightOf estimates the size of a frame, in bytes.
func weightOf(o upsert.Out) int {
	u, ok := o.(upsert.Upsert)
	if !ok {
		return event.Weight(event.Notice{})
	}
	switch {
	case u.Message != nil:
		return event.Weight(event.ItemDone{FinalItem: *u.Message})
	case u.Thinking != nil:
		return event.Weight(event.ItemDone{FinalItem: *u.Thinking})
	case u.ToolCall != nil:
		out := event.FunctionCallOutput{Changes: u.ToolCall.Changes}
		if u.ToolCall.ToolOutput != nil {
			out.Output = *u.ToolCall.ToolOutput
		}
		return event.Weight(event.ItemDone{FinalItem: out}) + len(u.ToolCall.ToolArguments) + len(u.ToolCall.ToolArgumentsText)
	}
	return event.Weight(event.Notice{})
}
