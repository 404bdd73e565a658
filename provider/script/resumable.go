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

// Resumable is a [Provider] that lists, resumes and forks its conversations. It
// keeps at most 1000 conversations in memory and drops the oldest. The zero
// value is ready to use. Its methods may be called by any goroutine.
//
// It keeps only the id, the directory and the times of a conversation. It does
// not keep messages, because no script depends on them.
type Resumable struct {
	Provider

	mu            sync.Mutex            // guards conversations
	conversations []runnel.Conversation // newest first
}

// maxConversations bounds the conversations of a [Resumable].
const maxConversations = 1000

// Open implements [runnel.Provider]. It fails with [runnel.SessionNotFound] if
// the conversation to resume is unknown.
func (k *Resumable) Open(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	if opt.Resume != "" {
		if err := k.find(opt.Resume); err != nil {
			return nil, err
		}
		return k.Provider.Open(ctx, opt)
	}
	return k.begin(ctx, opt)
}

// Fork implements [runnel.Forker]. It fails with [runnel.SessionNotFound] if
// the conversation is unknown.
func (k *Resumable) Fork(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
	if err := k.find(opt.Resume); err != nil {
		return nil, err
	}
	return k.begin(ctx, opt)
}

// Discover implements [runnel.Discoverer]. It yields the newest conversation
// first.
func (k *Resumable) Discover(_ context.Context, dir string) iter.Seq2[runnel.Conversation, error] {
	return func(yield func(runnel.Conversation, error) bool) {
		k.mu.Lock()
		conversations := slices.Clone(k.conversations)
		k.mu.Unlock()
		for _, c := range conversations {
			if (dir == "" || c.Dir == dir) && !yield(c, nil) {
				return
			}
		}
	}
}

// find fails with SessionNotFound if the conversation is unknown.
func (k *Resumable) find(id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.ContainsFunc(k.conversations, func(c runnel.Conversation) bool { return c.AgentSessionID == id }) {
		return runnel.Fail(runnel.SessionNotFound, "resume: unknown conversation; the script provider keeps only the conversations of this process")
	}
	return nil
}

// begin opens a conversation under a new id.
func (k *Resumable) begin(ctx context.Context, opt runnel.Options) (runnel.Conn, error) {
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
	k.conversations = slices.Insert(k.conversations, 0, runnel.Conversation{AgentSessionID: opt.Resume, Dir: dir, CreatedAt: now, UpdatedAt: now})
	k.conversations = k.conversations[:min(len(k.conversations), maxConversations)]
	return conn, nil
}
