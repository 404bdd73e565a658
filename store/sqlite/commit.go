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

// A job is the part of a transaction that one caller submits.
type job struct {
	do        func(*writer) error // must not write before it returns a refusal; nil does nothing
	committed func()              // runs after the commit and before the caller returns; may be nil
	strong    bool                // the commit must survive a power loss
	closing   bool                // only records ends or removes data, so it may use the reserve
	bytes     int                 // approximate size of the data that it writes
	err       error               // result, set by the leader
	turn      chan bool           // for a waiting job: true makes it the leader, false means it is finished

	// Set for an append, so that the journal can hold its rows.
	session string
	head    int64 // end of the log before rows
	rows    []row
	kept    bool // result: keep wrote the rows into the journal
}

// maxBatch bounds the number of jobs in one transaction, and thereby how long
// the first job waits for the others.
const maxBatch = 256

// A committer lets one caller at a time, the leader, commit the jobs of all
// waiting callers. A single caller commits in its own goroutine. That avoids
// two goroutine switches, which take longer than the commit.
type committer struct {
	writer *writer // used by the leader, or after close
	batch  []*job  // used by the leader only

	mu      sync.Mutex
	waiting []*job // in order of arrival
	led     bool   // a leader exists
	closed  bool
	idle    chan struct{} // closed once closed is set and no leader remains
	free    wake.Signal   // holds a token after a leader finished with no job waiting
}

func newCommitter() committer {
	return committer{idle: make(chan struct{}), free: wake.New()}
}

// submit runs j and waits for its commit. If ctx ends before a leader takes j,
// submit returns the error of ctx and j does not run. After that j runs to
// completion.
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

// submitIdle runs j when no other job is running. After idleTimeout it queues j
// like submit.
func (c *committer) submitIdle(ctx context.Context, j *job) error {
	enough := time.NewTimer(idleTimeout)
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

// wait returns the result of j. If a leader makes j the next leader, wait
// leads.
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

// lead commits j together with the waiting jobs.
func (c *committer) lead(j *job) error {
	if len(c.batch) > 1 {
		// After a batch with several jobs the next batch is likely to have
		// several too. Yield, so that the callers of the last batch can submit
		// again.
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
		go c.checkpointAndHandOver()
	} else {
		c.handOver()
	}
	return j.err
}

// checkpointAndHandOver runs the checkpoint in its own goroutine and then ends
// the leadership. The caller whose job ran last therefore returns without
// waiting for the checkpoint. Only jobs that are submitted meanwhile wait for
// it.
func (c *committer) checkpointAndHandOver() {
	c.writer.checkpoint()
	c.handOver()
}

// handOver ends the leadership. It makes the first waiting job the next leader.
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

// close rejects all waiting and future jobs and returns once no leader remains.
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

// commit writes batch into the journal if possible. Otherwise it runs batch as
// one transaction. If that transaction fails, commit commits each job alone, so
// that one job cannot make another fail.
func (c *committer) commit(batch []*job) {
	w := c.writer
	if batch = w.admit(batch); len(batch) == 0 {
		return
	}
	var err error
	if !w.keep(batch) {
		err = w.transact(batch)
	}
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

// admit returns the jobs that may run. If the reserve was released and cannot
// be acquired again, admit rejects all jobs that may not use it.
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

// refusal reports whether err concerns only the job that returned it. Such a
// job wrote nothing, and the transaction continues without it.
func refusal(err error) bool {
	return errors.Is(err, runnel.ErrConflict) || errors.Is(err, store.ErrNotFound)
}
