package codex

import (
	"context"
	"time"

	"github.com/runnel-dev/runnel"
)

// Written implements [runnel.WriterFinder].
func (p *Provider) Written(ctx context.Context, ref runnel.Conversation) time.Time {
	c, err := p.Find(ctx, ref.AgentSessionID)
	if err != nil {
		return time.Time{}
	}
	return c.UpdatedAt
}
