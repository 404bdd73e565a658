package gateway

import (
	"context"
	"log/slog"
	"time"

	"github.com/runnel-dev/runnel/gateway/once"
)

// A reaper closes sessions that have been idle for timeout, and stops their
// agents. The log stays, and the next prompt resumes the session. The reaper
// also removes old uploads and old answers to requests.
type reaper struct {
	timeout  time.Duration
	ctx      context.Context
	sessions *sessions
	records  *recordWriter
	feed     *feed
	uploads  *uploads
	requests *once.Requests
	log      *slog.Logger
}

// run runs until ctx ends.
func (r *reaper) run() {
	var pruned time.Time
	tick := time.NewTicker(max(r.timeout/4, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.closeIdle(time.Now())
			if time.Since(pruned) > time.Hour {
				pruned = time.Now()
				r.uploads.prune(pruned)
				if err := r.requests.Prune(r.ctx, pruned); err != nil {
					r.log.LogAttrs(r.ctx, slog.LevelWarn, "stored responses to old requests not removed", slog.String("error", err.Error()))
				}
			}
		case <-r.ctx.Done():
			return
		}
	}
}

// closeIdle closes the sessions that are idle at now.
func (r *reaper) closeIdle(now time.Time) {
	r.sessions.closeIf(func(e *entry) bool {
		rec, waiting := e.snapshot()
		return (waiting == 0 || rec.QueueHeld) && !e.running() && now.Sub(rec.LastActiveAt) >= r.timeout
	}, r.shut)
}

// shut closes an idle session. It returns e if the session has to stay open,
// and nil otherwise.
func (r *reaper) shut(id string, e *entry) *entry {
	rec, _ := e.snapshot()
	if st := e.session.Status(); st.AgentAlive && !st.Resumes && rec.LastTurn != "" {
		return e // this agent cannot resume its conversation after a restart
	}
	if err := e.session.Release(r.ctx); err != nil {
		return e // a turn has started meanwhile
	}
	if err := r.records.write(r.ctx, e); err != nil {
		return e // otherwise the record would be out of date
	}
	_ = e.session.Close()
	r.records.retire(e)
	r.feed.touch(id)
	return nil
}
