package gateway

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/runnel-dev/runnel"
)

// Limits bound what sessions may take of the machine, in all and for one
// credential. Zero means no limit.
type Limits struct {
	Agents                int // that run at once, besides prewarmed ones
	AgentsPerCredential   int // that run at once in sessions which one credential opened
	Sessions              int // that are open at once, with or without an agent
	SessionsPerCredential int // that one credential has open at once

	TurnBytes    int64 // of events that a turn stores, about; it ends beyond that
	SessionBytes int64 // of events that a session stores, about; beyond that its turn ends and there is no other
}

type credentialKey struct{}

// WithCredential returns a context in which sessions are opened, and their
// agents started, on account of a credential.
func WithCredential(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, credentialKey{}, id)
}

// credentialOf returns the id of the credential; "" if the gateway acts by
// itself.
func credentialOf(ctx context.Context) string {
	id, _ := ctx.Value(credentialKey{}).(string)
	return id
}

// A limiter counts agents, and how often each limit was reached.
type limiter struct {
	Limits

	mu      sync.Mutex
	agents  int
	of      map[string]int   // agents by credential
	reached map[string]int64 // by setting
}

func newLimiter(l Limits) *limiter {
	return &limiter{Limits: l, of: make(map[string]int), reached: make(map[string]int64)}
}

// agent counts in an agent of a credential, unless there are as many as there
// may be. One that runs already is counted in any case. The caller calls
// release once the agent has gone; it may do so twice.
func (l *limiter) agent(credential string, running bool) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.full(credential); err != nil && !running {
		return nil, err
	}
	l.agents++
	l.of[credential]++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.agents--
		if l.of[credential]--; l.of[credential] == 0 {
			delete(l.of, credential)
		}
	}), nil
}

// mayStart returns the error with which an agent of the credential could not be
// started now.
func (l *limiter) mayStart(credential string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.full(credential)
}

// full returns the error for one more agent; l.mu is held.
func (l *limiter) full(credential string) error {
	const advice = "end sessions, or wait until idle agents are stopped"
	switch {
	case credential != "" && beyond(l.of[credential], l.AgentsPerCredential):
		return l.count("max-agents-per-credential", int64(l.AgentsPerCredential), runnel.RateLimited, "this credential has as many agents as it may; "+advice)
	case beyond(l.agents, l.Agents):
		return l.count("max-agents", int64(l.Agents), runnel.Overloaded, "the server runs as many agents as it may; "+advice)
	}
	return nil
}

// session returns the error for one more open session, if so many are open in
// all and for the credential.
func (l *limiter) session(credential string, open, own int) error {
	const advice = "end some, or wait until idle ones are closed"
	switch {
	case credential != "" && beyond(own, l.SessionsPerCredential):
		return l.refuse("max-sessions-per-credential", int64(l.SessionsPerCredential), runnel.RateLimited, "this credential has as many open sessions as it may; "+advice)
	case beyond(open, l.Sessions):
		return l.refuse("max-sessions", int64(l.Sessions), runnel.Overloaded, "the server has as many open sessions as it may; "+advice)
	}
	return nil
}

// beyond reports whether one more than n would be more than most.
func beyond(n, most int) bool { return most > 0 && n >= most }

// stored returns the error with which a turn ends that stored so much, in a
// session that stored so much.
func (l *limiter) stored(turn, session int64) *runnel.Error {
	switch {
	case l.TurnBytes > 0 && turn > l.TurnBytes:
		return l.refuse("max-turn-mib", l.TurnBytes>>20, runnel.PayloadTooLarge, "the turn stored more events than a turn may and was ended; send again to go on")
	case l.SessionBytes > 0 && session > l.SessionBytes:
		return l.refuse("max-session-mib", l.SessionBytes>>20, runnel.PayloadTooLarge, "the session has stored as many events as it may; go on in a new session, or raise the setting")
	}
	return nil
}

func (l *limiter) refuse(setting string, limit int64, code runnel.Code, what string) *runnel.Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count(setting, limit, code, what)
}

// count is refuse; l.mu is held.
func (l *limiter) count(setting string, limit int64, code runnel.Code, what string) *runnel.Error {
	l.reached[setting]++
	return &runnel.Error{
		Code: code, Message: fmt.Sprintf("%s (%s: %d)", what, setting, limit),
		Details: map[string]any{"limit": setting, "value": limit},
	}
}

// LimitsReached returns how often each limit was reached, by its setting.
func (g *Gateway) LimitsReached() map[string]int64 {
	l := g.opener.limits
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.reached)
}
