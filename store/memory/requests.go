package memory

import (
	"context"
	"maps"
	"time"

	"github.com/runnel-dev/runnel/store"
)

type requestKey struct{ credential, key string }

// PutRequests implements [store.Requests].
func (c *Catalogue) PutRequests(_ context.Context, rs ...store.Request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range rs {
		c.requests[requestKey{r.Credential, r.Key}] = r
	}
	return nil
}

// Request implements [store.Requests].
func (c *Catalogue) Request(_ context.Context, credential, key string) (store.Request, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.requests[requestKey{credential, key}]
	if !ok {
		return r, store.ErrNotFound
	}
	return r, nil
}

// DeleteRequest implements [store.Requests].
func (c *Catalogue) DeleteRequest(_ context.Context, credential, key string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.requests, requestKey{credential, key})
	return nil
}

// PruneRequests implements [store.Requests].
func (c *Catalogue) PruneRequests(_ context.Context, before time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.requests, func(_ requestKey, r store.Request) bool { return r.Credential != "" && r.At.Before(before) })
	return nil
}

// TurnLocations implements [store.Requests].
func (c *Catalogue) TurnLocations(ctx context.Context, turn string) (places []store.TurnLocation, err error) {
	c.mu.Lock()
	var sessions []string
	for id := range c.sessions {
		sessions = append(sessions, id)
	}
	waiting := make(map[string]bool)
	for _, q := range c.queue {
		if q.Turn == turn {
			waiting[q.Session] = true
		}
	}
	c.mu.Unlock()
	for _, id := range sessions {
		after, found, err := c.begins(ctx, id, turn)
		if err != nil {
			return nil, err
		}
		if found || waiting[id] {
			places = append(places, store.TurnLocation{Session: id, Waiting: waiting[id], After: after})
		}
	}
	return places, nil
}

// begins returns the position just before the first event of a turn.
func (c *Catalogue) begins(ctx context.Context, session, turn string) (after int64, found bool, err error) {
	if c.log == nil || turn == "" {
		return 0, false, nil
	}
	for ev, err := range c.log.Read(ctx, session, 0) {
		if err != nil {
			return 0, false, err
		}
		if ev.Turn == turn {
			return ev.Seq - 1, true, nil
		}
	}
	return 0, false, nil
}
