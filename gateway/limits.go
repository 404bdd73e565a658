package gateway

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/runnel-dev/runnel"
)

// Limits limits the resources that sessions use, in total and for each
// credential. Zero means no limit.
type Limits struct {
	Agents                int // running at once, without prewarmed agents
	AgentsPerCredential   int // running at once in sessions that one credential opened
	Sessions              int // open at once, with or without an agent
	SessionsPerCredential int // open at once that one credential opened

	TurnBytes    int64 // approximate size of the events that a turn may store; a turn that exceeds it ends
	SessionBytes int64 // approximate size of the events that a session may store; beyond it the running turn ends and no other can start
}

type credentialKey struct{}

// WithCredential returns a context with the id of a credential. Sessions that
// are opened with it, and their agents, count towards the limits of that
// credential.
func WithCredential(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, credentialKey{}, id)
}

// credentialOf returns the id of the credential of ctx; "" if the gateway acts
// on its own.
func credentialOf(ctx context.Context) string {
	id, _ := ctx.Value(credentialKey{}).(string)
	return id
}

// A limiter counts running agents, and how often each limit was reached.
type limiter struct {
	Limits

	mu      sync.Mutex
	agents  int
	of      map[string]int   // running agents by credential
	reached map[string]int64 // by name of the setting
}

func newLimiter(l Limits) *limiter {
	return &limiter{Limits: l, of: make(map[string]int), reached: make(map[string]int64)}
}

// agent reserves capacity for an agent of a credential. It returns an error if
// a limit is reached, unless the agent already runs. The caller calls release
// once the agent has exited; further calls of release do nothing.
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

// mayStart returns an error if an agent of the credential could not start now
// because of a limit.
func (l *limiter) mayStart(credential string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.full(credential)
}

// full returns an error if a limit allows no further agent; l.mu is held.
func (l *limiter) full(credential string) error {
	const advice = "end sessions, or wait until idle agents are stopped"
	switch {
	case credential != "" && beyond(l.of[credential], l.AgentsPerCredential):
		return l.count("max-agents-per-credential", int64(l.AgentsPerCredential), runnel.RateLimited, "this credential runs as many agents as allowed; "+advice)
	case beyond(l.agents, l.Agents):
		return l.count("max-agents", int64(l.Agents), runnel.Overloaded, "the server runs as many agents as allowed; "+advice)
	}
	return nil
}

// session returns an error if a limit allows no further open session. open is
// the number of open sessions, and own is how many of them the credential
// opened.
func (l *limiter) session(credential string, open, own int) error {
	const advice = "end some, or wait until idle ones are closed"
	switch {
	case credential != "" && beyond(own, l.SessionsPerCredential):
		return l.refuse("max-sessions-per-credential", int64(l.SessionsPerCredential), runnel.RateLimited, "this credential has as many open sessions as allowed; "+advice)
	case beyond(open, l.Sessions):
		return l.refuse("max-sessions", int64(l.Sessions), runnel.Overloaded, "the server has as many open sessions as allowed; "+advice)
	}
	return nil
}

// beyond reports whether n has reached the limit most, where 0 means no limit.
func beyond(n, most int) bool { return most > 0 && n >= most }

// stored returns an error if the events of a turn or of its session are larger
// than their limit. The arguments are approximate sizes in bytes.
func (l *limiter) stored(turn, session int64) *runnel.Error {
	switch {
	case l.TurnBytes > 0 && turn > l.TurnBytes:
		return l.refuse("max-turn-mib", l.TurnBytes>>20, runnel.PayloadTooLarge, "the turn stored more events than allowed and was stopped; send again to continue")
	case l.SessionBytes > 0 && session > l.SessionBytes:
		return l.refuse("max-session-mib", l.SessionBytes>>20, runnel.PayloadTooLarge, "the session has stored as many events as allowed; continue in a new session, or raise the setting")
	}
	return nil
}

func (l *limiter) refuse(setting string, limit int64, code runnel.Code, what string) *runnel.Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count(setting, limit, code, what)
}

// count counts that a limit was reached and returns the error for it; l.mu is
// held.
func (l *limiter) count(setting string, limit int64, code runnel.Code, what string) *runnel.Error {
	l.reached[setting]++
	return &runnel.Error{
		Code: code, Message: fmt.Sprintf("%s (%s: %d)", what, setting, limit),
		Details: map[string]any{"limit": setting, "value": limit},
	}
}

// counts returns how often each limit was reached, by name of the setting.
func (l *limiter) counts() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.reached)
}
