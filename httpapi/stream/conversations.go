package stream

import (
	"errors"
	"time"

	"github.com/runnel-dev/runnel/gateway"
)

// conversationsMessage tells a client that the list of stored conversations has
// changed.
type conversationsMessage struct {
	Type string `json:"type"`
}

// conversationsPause is the shortest time between two conversationsMessages of a
// connection.
const conversationsPause = 250 * time.Millisecond

// watchConversations starts to send conversationsMessages. Only the goroutine
// that reads the connection calls it.
func (k *socket) watchConversations() {
	if k.listens {
		return
	}
	k.listens = true
	list := gateway.ConversationsOf(k.s.cfg.Gateway)
	_, version := list.Changes(-1, k.id.Project)
	k.work.Go(func() {
		if err := k.sendConversations(list, version); err != nil && k.ctx.Err() == nil {
			k.end(errors.Join(errBroken, err))
		}
	})
}

// sendConversations sends a conversationsMessage after changes after version,
// until the connection ends.
func (k *socket) sendConversations(list gateway.Conversations, version int64) error {
	for {
		select {
		case <-list.Changed(version):
		case <-k.ctx.Done():
			return nil
		}
		changed, now := list.Changes(version, k.id.Project)
		version = now
		if !changed {
			continue
		}
		if err := k.write(conversationsMessage{"conversations:changed"}); err != nil {
			return err
		}
		select {
		case <-time.After(conversationsPause):
		case <-k.ctx.Done():
			return nil
		}
	}
}
