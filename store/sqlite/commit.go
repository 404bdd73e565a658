package sqlite

import (
	"context"
	"errors"
	"runtime"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/store"
)

// A job is what one caller wants in a transaction.
type job struct {
	do        func(*writer) error // refuses before it writes anything
	committed func()              // what follows, before the caller hears of it; may be nil
	strong    bool                // survives the loss of power
	bytes     int                 // about how much it writes
	err       error               // a refusal
	answer    chan error          // has room for one
}

// maxBatch bounds how many jobs share a transaction, and so how long the first
// of them waits for the others.
const maxBatch = 256

// submit hands j to the committer and waits for its commit. If ctx ends before
// the committer has taken j nothing happens; after that j is seen through.
func (s *Store) submit(ctx context.Context, j *job) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	j.answer = make(chan error, 1)
	select {
	case s.jobs <- j:
		return <-j.answer
	case <-ctx.Done():
		return ctx.Err()
	case <-s.quit:
		return errClosed()
	}
}

// commitLoop is the one goroutine that writes.
func (s *Store) commitLoop() {
	defer close(s.done)
	batch := make([]*job, 0, maxBatch)
	for {
		j := s.next()
		if j == nil {
			return
		}
		// Callers that are about to submit get to do so: one transaction of
		// many is cheaper than one for each.
		runtime.Gosched()
		batch = s.waiting(append(batch[:0], j))
		s.commit(batch)
		clear(batch)
	}
}

// next returns a job, or nil once the store is closed. With nothing to do it
// moves what was written from the write-ahead log into the database.
func (s *Store) next() *job {
	if !s.writer.mustCheckpoint() {
		select {
		case j := <-s.jobs:
			return j
		default:
		}
	}
	s.writer.checkpoint()
	select {
	case j := <-s.jobs:
		return j
	case <-s.quit:
		return nil
	}
}

func (s *Store) waiting(batch []*job) []*job {
	for len(batch) < maxBatch {
		select {
		case j := <-s.jobs:
			batch = append(batch, j)
		default:
			return batch
		}
	}
	return batch
}

// commit makes one transaction of batch and answers every job. If that fails
// each job gets a transaction of its own, so that one does not fail for another.
func (s *Store) commit(batch []*job) {
	err := s.writer.transact(batch)
	if err != nil && len(batch) > 1 && s.writer.failed == nil {
		for _, j := range batch {
			s.commit([]*job{j})
		}
		return
	}
	for _, j := range batch {
		switch {
		case err != nil:
			j.answer <- unavailable(err)
		case j.err != nil:
			j.answer <- j.err
		default:
			if j.committed != nil {
				j.committed()
			}
			j.answer <- nil
		}
	}
}

// refusal reports whether err is a job's own: it wrote nothing, and the
// transaction goes on without it.
func refusal(err error) bool {
	return errors.Is(err, runnel.ErrConflict) || errors.Is(err, store.ErrNotFound)
}
