package stream

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"

	"github.com/coder/websocket"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/httpapi/reply"
)

// A pump serves one subscription of a WebSocket: it sends the session's history
// up to the present end of the log, then new events as they are appended.
//
// A pump holds events and items in its work. If the client does not read, the
// pump drops the work and holds only the message that is being written. Once
// the client reads again, the pump continues after the position that the client
// has reached, like a client that connects again.
type pump struct {
	k       *socket
	session string
	stop    context.CancelFunc
	done    chan struct{} // closed when run has returned
	sent    atomic.Int64  // position up to which the client has all events
	lag     lagMeter

	// The fields below are used by run only.
	limit  int     // number of newest entries that the history has, see upsertsFromEnd; 0: all
	first  *Resume // sent with the first message; then nil
	older  int64   // sent with the first message: position before which the log has older entries; 0: none
	loaded bool    // the client has received the last message of the history
	sending
}

// Messages about a session.
type (
	historyMessage struct {
		Type      string            `json:"type"`
		SessionID string            `json:"sessionId"`
		Entries   []json.RawMessage `json:"entries"`
		Seq       int64             `json:"seq"`
		First     int64             `json:"first,omitempty"`
		Resume    *Resume           `json:"resume,omitempty"`
		Done      bool              `json:"done"`
	}
	liveMessage struct {
		Type      string `json:"type"`
		SessionID string `json:"sessionId"`
		Payload   any    `json:"payload"`
	}
)

// Bounds of a history message: the number of entries, and their bytes unless
// there is only one.
const (
	historyEntries = 200
	historyBytes   = 16 << 10
)

func (k *socket) subscribe(data []byte) error {
	var in subscribeMessage
	if err := reply.Strict(data, &in); err != nil {
		return err
	}
	id, err := k.s.cfg.Sessions.Resolve(k.ctx, in.SessionID)
	if err != nil {
		return err
	}
	after := int64(0)
	if in.After != nil {
		after = *in.After
	}
	if after < 0 {
		return reply.Invalid("after: must be a whole number of zero or more")
	}
	if in.Limit != nil && *in.Limit < 1 {
		return reply.Invalid("limit: must be a whole number of one or more")
	}
	if in.Limit != nil && k.family != FamilyUpsert {
		return reply.Invalid("limit: only the family " + FamilyUpsert + " has entries that can be limited")
	}
	k.unsubscribe(id)
	l := k.s.cfg.Limits
	if most := each(l.SubscriptionsPerConnection, "max-subscriptions-per-connection"); len(k.pumps) >= most.n {
		return k.s.refuse("subscriptions of this connection; unsubscribe from some", &most)
	}
	verdict, after, err := k.s.judgeCursor(k.ctx, id, after, in.LogID)
	if err != nil {
		return err
	}
	caller := k.id.ID
	if err := k.s.follows.add(caller, total(l.Subscriptions, "max-subscriptions"), each(l.SubscriptionsPerCredential, "max-subscriptions-per-credential")); err != nil {
		return k.s.refuse("subscriptions; unsubscribe from some", err)
	}
	p := &pump{k: k, session: id, done: make(chan struct{}), lag: k.s.lagOf(k.family)}
	ctx, end := context.WithCancelCause(k.ctx)
	p.stop = func() { end(context.Canceled) }
	p.sent.Store(after)
	p.first = &verdict
	if in.Limit != nil && after == 0 {
		p.limit = min(*in.Limit, maxItems)
	}
	k.mu.Lock()
	k.pumps[id] = p
	k.mu.Unlock()
	k.watch().one(id)
	upserts := k.family == FamilyUpsert
	forget := k.s.deletions.add(id, end)
	k.work.Go(func() {
		defer close(p.done)
		defer k.s.follows.remove(caller)
		defer forget()
		p.run(ctx, in.RequestID, upserts)
	})
	return nil
}

// unsubscribe ends the subscription to a session, if there is one. Once it has
// returned, nothing more is sent about the session, except its status if the
// connection watches all sessions.
func (k *socket) unsubscribe(session string) {
	if p := k.pumps[session]; p != nil {
		p.stop()
		<-p.done
		k.mu.Lock()
		delete(k.pumps, session)
		k.mu.Unlock()
		k.watch().none(session)
	}
}

// run sends events until ctx ends. If the session is deleted, only the
// subscription ends. Any other error closes the connection, so that a dead
// subscription cannot look idle.
func (p *pump) run(ctx context.Context, requestID string, upserts bool) {
	var err error
	if upserts {
		err = p.upserts(ctx)
	} else {
		err = p.events(ctx)
	}
	if errors.Is(context.Cause(ctx), errDeleted) {
		_ = p.k.refuse(Message{RequestID: requestID}, errDeleted)
		return
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	_ = p.k.refuse(Message{RequestID: requestID}, err)
	if runnel.CodeOf(err) == runnel.StoreUnavailable {
		err = errors.Join(errStore, err)
	}
	p.k.end(errors.Join(errBroken, err))
}

// send sends a message. With it the client has all events up to position seq.
// The caller ends the connection if that takes too long.
func (p *pump) send(data []byte, seq int64) error {
	err := p.k.sendUntimed(data)
	if err == nil {
		p.sent.Store(max(p.sent.Load(), seq))
	}
	return err
}

// goodbye sends the last message of each subscription: the position to resume
// after.
func (k *socket) goodbye(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, p := range k.pumps {
		select {
		case <-p.done:
		case <-ctx.Done(): // the pump is blocked in a write, and this write would block, too
			return
		}
		data, err := json.Marshal(endMessage{"session:end", id, p.sent.Load(), reasonShutdown, nil})
		if err != nil || k.conn.Write(ctx, websocket.MessageText, data) != nil {
			return
		}
	}
}
