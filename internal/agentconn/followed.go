package agentconn

import (
	"context"
	"os"
	"time"

	"github.com/runnel-dev/runnel"
)

// refind is how often the newest file of a followed conversation is looked up.
const refind = 5 * time.Second

// A FollowedFile is the file of a conversation that another process writes. The
// agent may start another file for the same conversation, for instance when it
// reverts the conversation to an earlier turn.
type FollowedFile struct {
	Path string // the file that was found last

	find  func() (runnel.Conversation, error)
	found time.Time // when find was called last
	state os.FileInfo
}

// FollowFile returns the FollowedFile of a conversation. find looks up the
// conversation with its newest file by its id, also after ctx has ended.
func FollowFile(ctx context.Context, c runnel.Conversation, find func(context.Context, string) (runnel.Conversation, error)) FollowedFile {
	ctx = context.WithoutCancel(ctx)
	return FollowedFile{Path: c.File, found: time.Now(), find: func() (runnel.Conversation, error) { return find(ctx, c.AgentSessionID) }}
}

// HasChanged reports whether the file has changed since the last call. The
// first call reports true. It returns an error if the file cannot be read.
func (f *FollowedFile) HasChanged() (bool, error) {
	if now := time.Now(); now.Sub(f.found) > refind {
		f.found = now
		if c, err := f.find(); err == nil {
			f.Path = c.File
		}
	}
	st, err := os.Lstat(f.Path)
	if err != nil {
		return false, err
	}
	last := f.state
	f.state = st
	return last == nil || !os.SameFile(last, st) || last.Size() != st.Size() || !last.ModTime().Equal(st.ModTime()), nil
}
