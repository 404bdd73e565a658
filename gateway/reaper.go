package gateway

import (
	"context"
	"log/slog"
	"time"

	"github.com/runnel-dev/runnel/gateway/once"
)

// A reaper stops agents that nobody has used for a while, and closes their
// sessions. The log stays, and the next prompt continues from there. It also
// removes old uploads, and old answers to requests.
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

// run works until ctx ends.
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
					r.log.LogAttrs(r.ctx, slog.LevelWarn, "old answers to requests not removed", slog.String("error", err.Error()))
				}
			}
		case <-r.ctx.Done():
			return
		}
	}
}

// closeIdle closes the sessions that are idle now.
func (r *reaper) closeIdle(now time.Time) {
	r.sessions.closeIf(func(e *entry) bool {
		rec, waiting := e.snapshot()
		return waiting == 0 && !e.running() && now.Sub(rec.LastActiveAt) >= r.timeout
	}, r.shut)
}

// shut closes a session that is idle. It returns the session if it has to stay
// open.
func (r *reaper) shut(id string, e *entry) *entry {
	rec, _ := e.snapshot()
	if st := e.session.Status(); st.AgentAlive && !st.Resumes && rec.LastTurn != "" {
		return e // the conversation would end with its agent
	}
	if err := e.session.Release(r.ctx); err != nil {
		return e // a turn runs after all
	}
	if err := r.records.write(r.ctx, e); err != nil {
		return e // the record would be out of date
	}
	_ = e.session.Close()
	r.records.retire(e)
	r.feed.touch(id)
	return nil
}
