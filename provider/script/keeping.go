package script

import (
	"context"
	"iter"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
)

// Keeping is a [Provider] that remembers which conversations it had, newest
// first and as long as the value lives: they can be listed and resumed, and
// continued from a copy. The zero value is ready to use.
//
// A conversation is its id and its directory. What was said is not kept, because
// no script depends on it.
type Keeping struct {
	Provider

	mu   sync.Mutex // guards kept
	kept []runnel.Conversation
}

// maxKept bounds what a Keeping remembers.
const maxKept = 1000

// Open implements [runnel.Provider]. It fails with SESSION_NOT_FOUND if the
// conversation to resume is not known.
func (k *Keeping) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	if opt.Resume != "" {
		if err := k.find(opt.Resume); err != nil {
			return nil, err
		}
		return k.Provider.Open(ctx, opt)
	}
	return k.begin(ctx, opt)
}

// Fork implements [runnel.Forker].
func (k *Keeping) Fork(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	if err := k.find(opt.Resume); err != nil {
		return nil, err
	}
	return k.begin(ctx, opt)
}

// Discover implements [runnel.Discoverer].
func (k *Keeping) Discover(_ context.Context, dir string) iter.Seq2[runnel.Conversation, error] {
	return func(yield func(runnel.Conversation, error) bool) {
		k.mu.Lock()
		kept := slices.Clone(k.kept)
		k.mu.Unlock()
		for _, c := range kept {
			if (dir == "" || c.Dir == dir) && !yield(c, nil) {
				return
			}
		}
	}
}

func (k *Keeping) find(id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.ContainsFunc(k.kept, func(c runnel.Conversation) bool { return c.AgentSessionID == id }) {
		return runnel.Fail(runnel.SessionNotFound, "the script remembers no such conversation")
	}
	return nil
}

// begin opens a conversation under a new id.
func (k *Keeping) begin(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	dir, err := filepath.Abs(opt.Dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, runnel.Fail(runnel.WorkingRootInaccessible, "the directory is not accessible", err)
	}
	opt.Resume = uuid.NewString()
	conn, err := k.Provider.Open(ctx, opt)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept = slices.Insert(k.kept, 0, runnel.Conversation{AgentSessionID: opt.Resume, Dir: dir, CreatedAt: now, UpdatedAt: now})
	k.kept = k.kept[:min(len(k.kept), maxKept)]
	return conn, nil
}
