package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/runnel-dev/runnel/store"
)

// PutPushKey implements [store.Pushes].
func (c *Catalogue) PutPushKey(_ context.Context, sealed string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pushKey = sealed
	clear(c.pushes)
	return nil
}

// PushKey implements [store.Pushes].
func (c *Catalogue) PushKey(context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pushKey == "" {
		return "", store.ErrNotFound
	}
	return c.pushKey, nil
}

// PutPushSubscription implements [store.Pushes].
func (c *Catalogue) PutPushSubscription(_ context.Context, s store.PushSubscription) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.tokens[s.Credential]; !ok {
		return store.ErrNotFound
	}
	maps.DeleteFunc(c.pushes, func(_ string, other store.PushSubscription) bool { return other.Endpoint == s.Endpoint })
	c.pushes[s.Credential] = s
	return nil
}

// PushSubscriptions implements [store.Pushes].
func (c *Catalogue) PushSubscriptions(context.Context) ([]store.PushSubscription, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []store.PushSubscription
	for id, s := range c.pushes {
		if t, ok := c.tokens[id]; ok {
			s.Project, s.ExpiresAt = t.Project, t.ExpiresAt
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b store.PushSubscription) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Credential, b.Credential))
	})
	return list, nil
}

// DeletePushSubscription implements [store.Pushes].
func (c *Catalogue) DeletePushSubscription(_ context.Context, credential string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pushes, credential)
	return nil
}
