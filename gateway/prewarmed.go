package gateway

import (
	"context"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway/prewarm"
	"github.com/runnel-dev/runnel/store"
)

// startForPool implements prewarm.Config.Start: it starts an agent for a future
// session.
func (o *opener) startForPool(ctx context.Context, k prewarm.Key, id string) (runnel.Conn, error) {
	dir, err := o.projects.check(k.Options.Dir)
	if err != nil {
		return nil, err
	}
	if dir != k.Options.Dir { // a link has replaced the directory; it may lead to one that is not trusted
		return nil, inaccessible("the project directory was replaced by another one")
	}
	return k.Provider.Open(ctx, o.equipped(k.Options, k.Provider.Name(), id))
}

// lastKeys returns the pool keys of the most recently active sessions, newest
// first. Several sessions may have the same key.
func (o *opener) lastKeys(ctx context.Context) []prewarm.Key {
	recs, err := o.cfg.Catalogue.Sessions(ctx, store.SessionFilter{Dead: true, Limit: 10 * o.cfg.Prewarm})
	if err != nil {
		return nil
	}
	var keys []prewarm.Key
	for _, rec := range recs {
		p := o.providers.Named(rec.CLIType)
		if p == nil {
			continue
		}
		if res, err := o.resolveRecord(rec); err == nil && prewarm.Eligible(res.Options) {
			keys = append(keys, prewarm.Key{Provider: p, Options: res.Options})
		}
	}
	return keys
}
