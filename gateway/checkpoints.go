package gateway

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/wake"
)

// checkpoints writes checkpoints into the logs of sessions with long turns, so
// that a reader can start near the end of such a turn. A reader that needs a
// missing checkpoint writes it, too.
type checkpoints struct {
	log    runnel.Log
	ctx    context.Context
	enter  func() (leave func(), err error) // see sessions.enter
	kick   wake.Signal                      // holds a token if behind may have entries
	flight singleflight.Group

	mu     sync.Mutex
	behind map[string]int64 // position up to which a session needs checkpoints, by its id
}

const (
	// checkpointEvery is the number of events of open turns after which a
	// session needs a checkpoint.
	checkpointEvery = 2000
	// checkpointDelay is the pause before the goroutine begins to write
	// checkpoints, because a burst of events may end meanwhile.
	checkpointDelay = time.Second
	// checkpointPause is the pause after a step, as a multiple of its duration.
	checkpointPause = 4
)

// before is [runnel.CheckpointBefore]. Readers that need the same missing
// checkpoint wait for one of them to write it. If ctx ends first, that work
// continues; Gateway.Close waits for it.
func (c *checkpoints) before(ctx context.Context, id string, at int64) (runnel.Checkpoint, error) {
	cache, ok := c.log.(runnel.Checkpointer)
	if !ok || at <= 0 {
		return runnel.Checkpoint{}, nil
	}
	found, err := cache.Checkpoint(ctx, id, at)
	if err != nil {
		return found, storeError(err)
	}
	if at-found.Seq <= checkpointEvery {
		return found, nil
	}
	written := c.flight.DoChan(fmt.Sprint(id, " ", at/checkpointEvery), func() (any, error) {
		leave, err := c.enter()
		if err != nil {
			return nil, err
		}
		defer leave()
		return runnel.CheckpointBefore(c.ctx, c.log, id, at)
	})
	select {
	case r := <-written:
		if r.Err != nil {
			return found, storeError(r.Err)
		}
		if other := r.Val.(runnel.Checkpoint); other.Seq <= at {
			return other, nil
		}
		found, err = runnel.CheckpointBefore(ctx, c.log, id, at) // the other reader asked for a later position
		return found, err
	case <-ctx.Done():
		return found, context.Cause(ctx)
	}
}

// need schedules checkpoints of a session's log up to a position. It does not
// block.
func (c *checkpoints) need(id string, at int64) {
	c.mu.Lock()
	c.behind[id] = at
	c.mu.Unlock()
	c.kick.Send()
}

// run writes checkpoints until the context ends.
func (c *checkpoints) run() {
	for {
		select {
		case <-c.kick:
		case <-c.ctx.Done():
			return
		}
		if !c.pause(checkpointDelay) {
			return
		}
		c.mu.Lock()
		behind := c.behind
		c.behind = make(map[string]int64)
		c.mu.Unlock()
		for id, at := range behind {
			if !c.write(id, at) {
				return
			}
		}
	}
}

// write writes the checkpoints of a session up to a position, one at a time. It
// returns false once the context has ended. After an error, readers write the
// rest.
func (c *checkpoints) write(id string, end int64) bool {
	cache, ok := c.log.(runnel.Checkpointer)
	if !ok {
		return true
	}
	last, err := cache.Checkpoint(c.ctx, id, end)
	for at := last.Seq + checkpointEvery + 1; err == nil && at <= end; at += checkpointEvery {
		start := time.Now()
		_, err = c.before(c.ctx, id, at)
		if !c.pause(checkpointPause * time.Since(start)) {
			return false
		}
	}
	return true
}

func (c *checkpoints) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-c.ctx.Done():
		return false
	}
}
