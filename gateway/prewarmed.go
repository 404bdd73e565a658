package gateway

import (
	"context"
	"encoding/json"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway/prewarm"
	"github.com/runnel-dev/runnel/store"
)

// Prewarmed returns how many agents are prewarmed, and how many were used.
func (g *Gateway) Prewarmed() prewarm.Stats { return g.pool.Stats() }

// startForPool starts an agent for a session that does not exist yet.
func (g *Gateway) startForPool(ctx context.Context, k prewarm.Key, id string) (runnel.Conn, error) {
	dir, err := g.projectDir(k.Options.Dir)
	if err != nil {
		return nil, err
	}
	if dir != k.Options.Dir { // a link replaced it: it leads to another directory, which may not be trusted
		return nil, inaccessible("the project directory is another one now")
	}
	opt := k.Options
	opt.Keep = g.keepOf(id)
	return k.Provider.Open(ctx, opt)
}

// lastKeys returns the pool keys of the newest sessions.
func (g *Gateway) lastKeys(ctx context.Context) []prewarm.Key {
	recs, err := g.cfg.Catalogue.Sessions(ctx, store.SessionFilter{Dead: true, Limit: 10 * g.cfg.Prewarm})
	if err != nil {
		return nil
	}
	var keys []prewarm.Key
	for _, rec := range recs {
		p := g.providers.Named(rec.CLIType)
		if p == nil {
			continue
		}
		var opt runnel.Options
		if len(rec.Options) > 0 && json.Unmarshal(rec.Options, &opt) != nil {
			continue
		}
		if opt, err = g.completed(opt, rec.ProjectDir); err == nil && prewarm.Eligible(opt) {
			keys = append(keys, prewarm.Key{Provider: p, Options: opt})
		}
	}
	return keys
}
