package gateway

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway/conversations"
	"github.com/runnel-dev/runnel/gateway/detect"
)

// A writers finds processes outside of Runnel, such as agents in a terminal,
// that have conversations open.
type writers struct {
	providers *detect.Index
	started   time.Time // of the server

	mu    sync.Mutex
	taken map[string]takeover // by session
}

// A takeover records that a user took over the conversation of a session. Its
// writers are ignored for takeoverTime, so that no program can lock the user
// out by starting one writer after another. The writers at that time are
// ignored as long as they run.
type takeover struct {
	until  time.Time
	ignore map[string]bool // by identity
}

const (
	takeoverTime = 10 * time.Minute
	maxTaken     = 10_000 // sessions; the oldest takeovers beyond are forgotten
)

func newWriters(providers *detect.Index) *writers {
	return &writers{providers: providers, started: time.Now(), taken: make(map[string]takeover)}
}

// finder returns the WriterFinder of the conversations of a kind of agent. It
// is that of another provider if the two share their conversations. nil means
// that writers cannot be found.
func (w *writers) finder(cliType string) runnel.WriterFinder {
	p := w.providers.Named(cliType)
	if p == nil {
		return nil
	}
	f, _ := w.owner(p).(runnel.WriterFinder)
	return f
}

// owner returns the provider of the agent that stores the conversations of p's
// agent; p if there is none.
func (w *writers) owner(p runnel.Provider) runnel.Provider {
	if owner := w.providers.Named(conversations.Owner(p)); owner != nil {
		return owner
	}
	return p
}

// identity identifies the process of a writer.
func identity(w runnel.Writer) string { return fmt.Sprintf("%d %s", w.PID, w.Start) }

// of returns the processes outside of the session that have its conversation
// open, and that its user has not taken over. If there are any, of waits for the
// exit of the session's last agent and looks again: that agent's processes have
// the conversation open until then, and may have lost the supervisor by which
// they are recognised. of also waits, for at most endTime, for processes that are
// about to end: if a supervisor was killed, its agent runs for another moment. It then
// waits until the session has noticed the end of its agent. of fails if ctx ends,
// because the list may then be incomplete.
func (w *writers) of(ctx context.Context, e *entry) ([]runnel.Writer, error) {
	list := w.now(ctx, e)
	if len(list) > 0 && e.session.AwaitExit(ctx) == nil {
		list = w.now(ctx, e)
	}
	ended := false // a process was about to end
	for late := time.Now().Add(endTime); time.Now().Before(late); list = w.now(ctx, e) {
		if slices.ContainsFunc(list, func(o runnel.Writer) bool { return o.Ends }) {
			ended = true
		} else if !ended || !e.session.Status().AgentAlive {
			break // while ended and AgentAlive, the session would send a prompt to the agent that has ended
		}
		select {
		case <-time.After(endEvery):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return list, ctx.Err()
}

// Bounds of the wait for processes that are about to end.
const (
	endTime  = 2 * time.Second
	endEvery = 10 * time.Millisecond // pause between two looks
)

func (w *writers) now(ctx context.Context, e *entry) []runnel.Writer {
	rec, _ := e.snapshot()
	f := w.finder(rec.CLIType)
	if f == nil || rec.AgentSessionID == "" {
		return nil
	}
	alive := e.session.Status().AgentAlive
	all, known := f.Writers(ctx)
	list := slices.DeleteFunc(all, func(o runnel.Writer) bool {
		return o.AgentSessionID != rec.AgentSessionID || o.Own || o.Session == rec.ID || alive && o.Start == "" // without a start time, it may be the session's own agent
	})
	if !known && !alive {
		at := f.Written(ctx, runnel.Conversation{AgentSessionID: rec.AgentSessionID, Dir: workDir(rec)})
		if isRecent(at) && (rec.BootedAt.IsZero() || e.followed() || at.After(rec.LastActiveAt.Add(ownWrites)) && at.After(w.started)) {
			list = append(list, runnel.Writer{AgentSessionID: rec.AgentSessionID, Source: runnel.WriterRecent})
		}
	}
	return w.unknown(rec.ID, list)
}

// ownWrites is how long after its last event a session's own agent may write
// the conversation's file. An agent of the server before may have written it
// until this one started.
const ownWrites = 5 * time.Second

// isRecent reports whether a file that was changed at this time counts as in
// use.
func isRecent(at time.Time) bool { return !at.IsZero() && time.Since(at) < runnel.WriterRecency }

// unknown returns the writers that the user has not taken over.
func (w *writers) unknown(session string, list []runnel.Writer) []runnel.Writer {
	w.mu.Lock()
	defer w.mu.Unlock()
	t, ok := w.taken[session]
	if !ok {
		return list
	}
	if time.Now().Before(t.until) {
		return nil
	}
	return slices.DeleteFunc(list, func(o runnel.Writer) bool { return t.ignore[identity(o)] })
}

// take records that the user took over the conversation from these writers.
func (w *writers) take(session string, list []runnel.Writer) {
	t := takeover{until: time.Now().Add(takeoverTime), ignore: make(map[string]bool)}
	for _, o := range list {
		if o.Source != runnel.WriterRecent {
			t.ignore[identity(o)] = true
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.taken) >= maxTaken {
		for id, old := range w.taken {
			if time.Now().After(old.until) {
				delete(w.taken, id)
			}
		}
	}
	w.taken[session] = t
}

// isTaken reports whether the user took over the conversation of a session.
func (w *writers) isTaken(session string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.taken[session]
	return ok
}

// inUse reports whether a process has a conversation open that is no session
// yet, and can be followed.
func (w *writers) inUse(ctx context.Context, p runnel.Provider, c runnel.Conversation) bool {
	f, ok := p.(runnel.WriterFinder)
	if _, follows := p.(runnel.Follower); !ok || !follows {
		return false
	}
	list, known := f.Writers(ctx)
	return slices.ContainsFunc(list, func(o runnel.Writer) bool { return o.AgentSessionID == c.AgentSessionID && !o.Own }) || !known && isRecent(f.Written(ctx, c))
}

// Ways to continue a conversation that another process has open.
const (
	choiceWait     = "wait"
	choiceTakeOver = "takeOver"
	choiceFork     = "fork"
)

// inUse returns the error for a prompt to a conversation that w has open.
func inUse(session string, w runnel.Writer) error {
	who := "another program changed it in the last 30 seconds"
	if w.PID != 0 {
		who = fmt.Sprintf("process %d has it open", w.PID)
	}
	return &runnel.Error{
		Code:    runnel.ConversationInUse,
		Message: "the conversation is in use: " + who + "; wait until that ends, take the conversation over (load with takeOver), or fork the session",
		Details: map[string]any{"sessionId": session, "writer": w, "choices": []string{choiceWait, choiceTakeOver, choiceFork}},
	}
}

// listed returns the writers of the conversations of one kind of agent, by
// agent id, for lists. recent decides about conversations whose writers cannot
// be known.
func (w *writers) listed(ctx context.Context, cliType string) (by map[string]runnel.Writer, known bool) {
	f := w.finder(cliType)
	if f == nil {
		return nil, true
	}
	list, known := f.Writers(ctx)
	by = make(map[string]runnel.Writer)
	slices.SortFunc(list, func(a, b runnel.Writer) int { return cmp.Compare(a.PID, b.PID) })
	for _, o := range list {
		if _, ok := by[o.AgentSessionID]; !ok && !o.Own && o.Session == "" {
			by[o.AgentSessionID] = o
		}
	}
	return by, known
}

// WritersOf returns, for a list without a server, who writes the conversations
// of these agents.
func WritersOf(ctx context.Context, providers []runnel.Provider, list []Conversation) {
	newWriters(detect.NewIndex(providers)).mark(ctx, list)
}

// mark sets the writers of conversations.
func (w *writers) mark(ctx context.Context, list []Conversation) {
	type facts struct {
		by    map[string]runnel.Writer
		known bool
	}
	read := make(map[string]facts)
	for i := range list {
		c := &list[i]
		f, ok := read[c.CLIType]
		if !ok {
			f.by, f.known = w.listed(ctx, c.CLIType)
			read[c.CLIType] = f
		}
		if o, ok := f.by[c.AgentSessionID]; ok {
			c.Writer = &o
		} else if !f.known && c.SessionID == "" && isRecent(c.UpdatedAt) {
			c.Writer = &runnel.Writer{Source: runnel.WriterRecent}
		}
	}
}
