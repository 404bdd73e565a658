package sqlite

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/wake"
	"github.com/runnel-dev/runnel/store"
)

// A job is what one caller wants in a transaction.
type job struct {
	do        func(*writer) error // refuses before it writes anything
	committed func()              // what follows, before the caller hears of it; may be nil
	strong    bool                // survives the loss of power
	closing   bool                // says how something ended, and may use the reserve for it
	bytes     int                 // about how much it writes
	err       error               // what became of it
	turn      chan bool           // of a job that waits: true if it is to lead, false if it is done
}

// maxBatch bounds how many jobs share a transaction, and so how long the first
// of them waits for the others.
const maxBatch = 256

// A committer has one caller at a time commit for everyone who waits: the
// leader. To a caller alone that spares two switches to another goroutine,
// which take longer than the commit.
type committer struct {
	writer *writer // the leader's, or closed
	batch  []*job  // the leader's

	mu      sync.Mutex
	waiting []*job // in order of arrival
	led     bool   // someone leads
	closed  bool
	idle    chan struct{} // closed once closed is set and nobody leads
	free    wake.Signal   // one token: nobody led a moment ago
}

func newCommitter() committer {
	return committer{idle: make(chan struct{}), free: wake.New()}
}

// submit does j and waits for its commit. If ctx ends before someone has begun
// with j nothing happens; after that j is seen through.
func (c *committer) submit(ctx context.Context, j *job) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.mu.Lock()
	switch {
	case c.closed:
		c.mu.Unlock()
		return errClosed()
	case c.led:
		j.turn = make(chan bool, 1)
		c.waiting = append(c.waiting, j)
		c.mu.Unlock()
		return c.wait(ctx, j)
	}
	c.led = true
	c.mu.Unlock()
	return c.lead(j)
}

// submitIdle is submit for what can wait until nobody else writes.
func (c *committer) submitIdle(ctx context.Context, j *job) error {
	enough := time.NewTimer(patience)
	defer enough.Stop()
	for {
		c.mu.Lock()
		if !c.led && !c.closed {
			c.led = true
			c.mu.Unlock()
			return c.lead(j)
		}
		c.mu.Unlock()
		select {
		case <-c.free:
		case <-enough.C:
			return c.submit(ctx, j)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wait returns what became of j, which others do unless it is to lead itself.
func (c *committer) wait(ctx context.Context, j *job) error {
	var leads bool
	select {
	case leads = <-j.turn:
	case <-ctx.Done():
		c.mu.Lock()
		i := slices.Index(c.waiting, j)
		if i >= 0 {
			c.waiting = slices.Delete(c.waiting, i, i+1)
		}
		c.mu.Unlock()
		if i >= 0 {
			return ctx.Err()
		}
		leads = <-j.turn
	}
	if leads {
		return c.lead(j)
	}
	return j.err
}

// lead commits j together with all that waits.
func (c *committer) lead(j *job) error {
	if len(c.batch) > 1 {
		// Where there were many there will be: those that were answered just now
		// get to submit again.
		runtime.Gosched()
	}
	c.mu.Lock()
	n := min(len(c.waiting), maxBatch-1)
	c.batch = append(append(c.batch[:0], j), c.waiting[:n]...)
	c.waiting = slices.Delete(c.waiting, 0, n)
	alone := len(c.waiting) == 0
	c.mu.Unlock()

	c.commit(c.batch)
	for _, other := range c.batch[1:] {
		other.turn <- false
	}
	clear(c.batch)
	if c.writer.worthCheckpoint(alone) {
		go c.rest()
	} else {
		c.handOver()
	}
	return j.err
}

// rest leads while what was written is moved from the write-ahead log into the
// database, so that no caller waits for that alone.
func (c *committer) rest() {
	c.writer.checkpoint()
	c.handOver()
}

// handOver ends the leadership.
func (c *committer) handOver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) > 0 {
		next := c.waiting[0]
		c.waiting = slices.Delete(c.waiting, 0, 1)
		next.turn <- true
		return
	}
	c.led = false
	c.free.Send()
	if c.closed {
		close(c.idle)
	}
}

// close refuses what waits and what comes, and returns once nobody leads.
func (c *committer) close() {
	c.mu.Lock()
	c.closed = true
	for _, j := range c.waiting {
		j.err = errClosed()
		j.turn <- false
	}
	c.waiting = nil
	if !c.led {
		close(c.idle)
	}
	c.mu.Unlock()
	<-c.idle
}

// commit makes one transaction of batch. If that fails each job gets one of its
// own, so that none fails for another.
func (c *committer) commit(batch []*job) {
	w := c.writer
	if batch = w.admit(batch); len(batch) == 0 {
		return
	}
	err := w.transact(batch)
	if errors.Is(err, errFull) && len(batch) == 1 && batch[0].closing && w.room.give() {
		err = w.transact(batch)
	}
	if err != nil && len(batch) > 1 && w.failed == nil {
		for i := range batch {
			c.commit(batch[i : i+1])
		}
		return
	}
	for _, j := range batch {
		switch {
		case err != nil:
			j.err = unavailable(err)
		case j.err == nil && j.committed != nil:
			j.committed()
		}
	}
}

// admit refuses what may not use the reserve if that was given up and there is
// no room for a new one. It returns the others.
func (w *writer) admit(batch []*job) []*job {
	if !w.room.given || w.failed != nil || w.room.hold() == nil {
		return batch
	}
	return slices.DeleteFunc(slices.Clone(batch), func(j *job) bool {
		if !j.closing {
			j.err = unavailable(errFull)
		}
		return !j.closing
	})
}

// refusal reports whether err is a job's own: it wrote nothing, and the
// transaction goes on without it.
func refusal(err error) bool {
	return errors.Is(err, runnel.ErrConflict) || errors.Is(err, store.ErrNotFound)
}
