package sim

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// A disk holds the log of the one session. Written events survive the death of
// the process. Synced events also survive a power loss.
type disk struct {
	writer chan struct{} // holds a token while an Append is under way

	mu      sync.Mutex // never held while time passes
	rng     *rand.Rand
	events  []event.Event // written events, synced or not
	synced  int           // number of events that are synced
	visible int           // number of events that readers see
	grown   chan struct{} // closed and replaced when visible grows
	gen     int           // number of the process that owns the disk
	slow    time.Duration // mean duration of an access
	failing int           // number of syncs that will fail
	failed  int           // number of syncs that failed
	shown   func(event.Event)
}

func newDisk(seed uint64) *disk {
	return &disk{writer: make(chan struct{}, 1), rng: random(seed, 1), grown: make(chan struct{}), slow: 300 * time.Microsecond}
}

var errSync = errors.New("sim: the disk failed to sync")

// access waits for the random duration of one access.
func (d *disk) access() {
	d.mu.Lock()
	took := time.Duration(d.rng.ExpFloat64() * float64(d.slow))
	d.mu.Unlock()
	time.Sleep(took)
}

func (d *disk) write(gen int, head int64, evs []event.Event) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if gen != d.gen || head != int64(len(d.events)) {
		return runnel.ErrConflict
	}
	d.events = append(d.events, evs...)
	return nil
}

// sync makes the written events durable. If the sync fails, the events after
// head are lost, so that no caller can rely on a retry.
func (d *disk) sync(gen int, head int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if gen != d.gen {
		return runnel.ErrConflict
	}
	if d.failing > 0 {
		d.failing--
		d.failed++
		d.events, d.visible = d.events[:head:head], min(d.visible, int(head))
		return errSync
	}
	d.synced = len(d.events)
	return nil
}

// show makes the written events visible to readers.
func (d *disk) show(gen int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if gen != d.gen {
		return runnel.ErrConflict
	}
	d.visible = len(d.events)
	close(d.grown)
	d.grown = make(chan struct{})
	return nil
}

// publishFrom calls shown for the visible events after the first n.
func (d *disk) publishFrom(n int) {
	for _, ev := range d.snapshot()[n:] {
		d.shown(ev)
	}
}

// fail makes the next n syncs fail.
func (d *disk) fail(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failing = n
}

// restart gives the disk to a new process and returns the number of that
// process. If powerless, it drops the unsynced events. It syncs the events that
// remain, because opening a log makes them durable before anyone reads them.
func (d *disk) restart(powerless bool) (gen int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gen++
	if powerless {
		d.events = d.events[:d.synced:d.synced]
	}
	d.events = slices.Clip(d.events)
	d.synced, d.visible = len(d.events), len(d.events)
	close(d.grown)
	d.grown = make(chan struct{})
	return d.gen
}

// snapshot returns the visible events.
func (d *disk) snapshot() []event.Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.events[:d.visible:d.visible]
}

// A diskLog is the disk as one process sees it.
type diskLog struct {
	d   *disk
	gen int
}

// Append implements [runnel.Log].
func (l *diskLog) Append(ctx context.Context, session string, head int64, evs ...event.Event) error {
	if err := runnel.CheckAppend(session, head, evs); err != nil {
		return err
	}
	d := l.d
	select {
	case d.writer <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-d.writer }()
	d.access()
	if err := d.write(l.gen, head, evs); err != nil {
		return err
	}
	if slices.ContainsFunc(evs, func(ev event.Event) bool { return event.Decides(ev.Body) }) {
		d.access()
		if err := d.sync(l.gen, head); err != nil {
			return err
		}
	}
	if err := d.show(l.gen); err != nil {
		return err
	}
	d.publishFrom(int(head))
	d.access()
	return nil
}

// Read implements [runnel.Log].
func (l *diskLog) Read(ctx context.Context, _ string, after int64) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		evs := l.d.snapshot()
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

// Grown implements [runnel.Log].
func (l *diskLog) Grown(_ string, after int64) <-chan struct{} {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	if int64(l.d.visible) > after {
		c := make(chan struct{})
		close(c)
		return c
	}
	return l.d.grown
}

// State implements [runnel.Log].
func (l *diskLog) State(context.Context, string) (runnel.LogState, error) {
	evs := l.d.snapshot()
	st := runnel.LogState{Head: int64(len(evs))}
	for _, ev := range evs {
		i := slices.IndexFunc(st.Open, func(o runnel.OpenTurn) bool { return o.Turn == ev.Turn })
		switch {
		case ev.Turn == "":
		case event.Ends(ev.Body) && i >= 0:
			st.Open = slices.Delete(st.Open, i, i+1)
		case !event.Ends(ev.Body) && i < 0:
			st.Open = append(st.Open, runnel.OpenTurn{Turn: ev.Turn, After: ev.Seq - 1})
		}
	}
	return st, nil
}
