package gateway

import (
	"context"
	"errors"
	"log/slog"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/store"
)

// isForeign reports whether the conversation of a session is stored as one of
// another project. An agent chooses the id that it reports, and can know those
// of other conversations: a session must not show such a conversation to a
// client that may see only the session's own project, and must not hide it.
// isForeign fails if the agent's conversations cannot be read, and after at
// most 30 seconds. It starts no agent; if an agent stores its conversations
// elsewhere than in files, only the agent itself can read them, and isForeign
// returns false.
func (m *importer) isForeign(ctx context.Context, rec store.Session) (bool, error) {
	p := m.opener.providers.Named(rec.CLIType)
	if p == nil || rec.AgentSessionID == "" {
		return false, nil
	}
	is, err := m.storedElsewhere(ctx, m.writers.owner(p), rec)
	if is {
		m.opener.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "an agent reported a conversation of another project as its own", slog.String("session", rec.ID))
	}
	return is, err
}

// mayRead reports whether the conversation of a session is stored as one of the
// session's own project. If it cannot find out, it returns false.
func (m *importer) mayRead(ctx context.Context, rec store.Session) bool {
	foreign, err := m.isForeign(ctx, rec)
	if err != nil && ctx.Err() == nil {
		m.opener.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the project of a conversation is not known, so the conversation is not read", slog.String("session", rec.ID), slog.String("error", err.Error()))
	}
	return !foreign && err == nil
}

func (m *importer) storedElsewhere(ctx context.Context, owner runnel.Provider, rec store.Session) (bool, error) {
	ctx, stop := context.WithTimeout(ctx, refreshTime)
	defer stop()
	if f, ok := owner.(runnel.Finder); ok {
		c, err := f.Find(ctx, rec.AgentSessionID)
		if runnel.CodeOf(err) == runnel.SessionNotFound {
			return false, nil
		}
		own := c.Dir == "" || canonical(c.Dir) == workDir(rec)
		if c.StoredFor != nil { // the conversation may have begun or continued elsewhere
			own = c.Dir != "" && own || c.StoredFor(workDir(rec))
		}
		return err == nil && !own, err
	}
	d, lists := owner.(runnel.Discoverer)
	if _, inFiles := owner.(runnel.Summarizer); !inFiles || !lists {
		return false, nil
	}
	for _, dir := range []string{workDir(rec), ""} { // a conversation that was continued in several folders has a file in each
		for c, err := range d.Discover(ctx, dir) {
			if err != nil {
				return false, errors.Join(err, ctx.Err())
			}
			if c.AgentSessionID == rec.AgentSessionID {
				return dir == "", nil
			}
		}
	}
	return false, ctx.Err()
}
