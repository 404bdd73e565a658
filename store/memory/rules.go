package memory

import (
	"context"
	"slices"
	"time"

	"github.com/runnel-dev/runnel/store"
)

// AddRule implements [store.Rules].
func (c *Catalogue) AddRule(_ context.Context, r store.Rule) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastRule++
	r.ID = c.lastRule
	c.rules = append(c.rules, r)
	return r.ID, nil
}

// Rules implements [store.Rules].
func (c *Catalogue) Rules(context.Context) ([]store.Rule, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.rules), nil
}

// UseRule implements [store.Rules].
func (c *Catalogue) UseRule(_ context.Context, id int64, at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.rule(id); i >= 0 {
		c.rules[i].Uses++
		c.rules[i].LastUsedAt = at
	}
	return nil
}

// DeleteRule implements [store.Rules].
func (c *Catalogue) DeleteRule(_ context.Context, id int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.rule(id)
	if i < 0 {
		return store.ErrNotFound
	}
	c.rules = slices.Delete(c.rules, i, i+1)
	return nil
}

// rule returns the index of a rule, or -1 if it does not exist. The caller
// holds c.mu.
func (c *Catalogue) rule(id int64) int {
	return slices.IndexFunc(c.rules, func(r store.Rule) bool { return r.ID == id })
}
