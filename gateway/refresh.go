package gateway

import (
	"context"
	"log/slog"
	"time"

	"github.com/runnel-dev/runnel"
)

// refreshTime limits how long refresh reads a conversation. The session accepts
// no prompts meanwhile.
const refreshTime = 30 * time.Second

// refresh appends turns to a session's log that its conversation has gained
// outside of the session since it was copied, for example in a terminal. It
// does nothing while a turn runs. If the conversation cannot be read, the
// session stays unchanged; refresh returns that error only if the client named
// file or ctx has ended. e.sending is held.
func (m *importer) refresh(ctx context.Context, e *entry, file string) error {
	rec, _ := e.snapshot()
	p := m.opener.providers.Named(rec.CLIType)
	from := m.readerOf(rec)
	h, ok := from.(runnel.Historian)
	if !ok || rec.AgentSessionID == "" || e.session.Status().Turn != "" {
		return nil
	}
	n, err := m.diff(ctx, rec)
	if err != nil || n.isOurOwn() {
		return err
	}
	if !m.mayRead(ctx, rec) {
		return ctx.Err()
	}
	if file != "" { // it is only checked: the newest file of the conversation may be one of another project
		if _, err = discover(ctx, from, rec.AgentSessionID, file); err != nil {
			return err
		}
	}
	c := runnel.Conversation{AgentSessionID: rec.AgentSessionID, Dir: workDir(rec)}
	reading, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	for ev, err := range m.historyOf(reading, h, p.Name(), rec.ID, c) {
		switch {
		case err == nil:
			n.historyHas(ev)
		case file != "" || ctx.Err() != nil:
			return runnel.Safe(err)
		default:
			m.opener.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "conversation not refreshed from the agent", slog.String("session", rec.ID), slog.String("error", err.Error()))
			return nil
		}
	}
	evs := n.found()
	if len(evs) == 0 {
		return nil
	}
	return e.session.Import(ctx, evs)
}
