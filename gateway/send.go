package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/attach"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// A Prompt is what a client sends to a session.
type Prompt struct {
	Text        string
	Attachments []attach.Ref
	Settings    runnel.Settings // to change before the turn. Default: nothing
	Persona     string          // a profile. Default: none
	Queue       bool            // wait for the running turn instead of failing
}

// Sent says what became of a prompt.
type Sent struct {
	SessionID string
	TurnID    string
	Queued    bool
	After     int64  // position in the log at or before the turn's first event
	Warning   string // about attachments that were left out
}

// queued is a prompt in the catalogue.
type queued struct {
	Input    runnel.Input    `json:"input"`
	Settings runnel.Settings `json:"settings,omitzero"`
}

const maxQueue = 50 // prompts of one session

// Send begins a turn, or lets the prompt wait for its turn. It returns once
// that is durable, and never waits for the agent. Everything about the prompt
// is judged under the session's turn lock, in the order of the contract.
func (g *Gateway) Send(ctx context.Context, ref string, p Prompt) (Sent, error) {
	g.pool.Use()
	e, err := g.lock(ctx, ref)
	if err != nil {
		return Sent{}, err
	}
	defer g.unlock(e)
	st := e.session.Status()
	rec, waiting := e.snapshot()
	busy := st.Turn != "" || waiting > 0
	if st.Turn == "" && waiting > 0 {
		g.startDrain(e) // something kept the queue from going on
	}
	if busy && !p.Queue {
		return Sent{}, inProgress(st.Turn)
	}
	if waiting >= maxQueue {
		return Sent{}, runnel.Fail(runnel.RateLimited, "too many prompts wait in this session; cancel its turn, or wait for some of them")
	}
	if err := g.allowed(p.Settings); err != nil {
		return Sent{}, err
	}
	in, warning, err := g.input(p, rec.ProjectDir)
	if err != nil {
		return Sent{}, err
	}
	if err := g.profile(p.Persona); err != nil {
		return Sent{}, err
	}
	if !st.AgentAlive { // it is about to be started, there
		if _, err := g.projectDir(rec.ProjectDir); err != nil {
			return Sent{}, err
		}
	}
	sent := Sent{SessionID: rec.ID, TurnID: in.Turn, After: st.Head, Warning: warning}
	if !busy {
		_, err = g.prompt(ctx, e, in, p.Settings)
		if !p.Queue || runnel.CodeOf(err) != runnel.TurnInProgress { // else the agent began one
			return sent, err
		}
	}
	sent.Queued = true
	return sent, g.enqueue(ctx, e, in, p.Settings)
}

// allowed judges settings before anything is changed.
func (g *Gateway) allowed(s runnel.Settings) error {
	switch s.PermissionMode {
	case "", runnel.ModeDefault, runnel.ModeAcceptEdits, runnel.ModePlan, runnel.ModeDontAsk:
		return nil
	case runnel.ModeBypass:
		if g.cfg.AllowBypass {
			return nil
		}
		return runnel.Fail(runnel.InvalidRequest, "permissionMode: bypass runs every tool without asking; it has to be allowed on the server first")
	}
	return runnel.Fail(runnel.InvalidRequest, "permissionMode: not one of default, acceptEdits, plan, dontAsk, bypass")
}

// lock opens the session that a client named and takes its turn lock.
func (g *Gateway) lock(ctx context.Context, ref string) (*entry, error) {
	for {
		e, err := g.find(ctx, ref)
		if err != nil {
			return nil, err
		}
		e.sending.Lock()
		if g.peek(e.session.ID()) == e {
			return e, nil
		}
		g.unlock(e) // it was ended or opened anew while we waited
	}
}

func (g *Gateway) unlock(e *entry) {
	e.sending.Unlock()
	g.release(e)
}

func inProgress(turn string) error {
	err := &runnel.Error{Code: runnel.TurnInProgress, Message: "a turn is already running; wait for its end, cancel it, or send with queue:true"}
	if turn != "" {
		err.Details = map[string]string{"turnId": turn}
	}
	return err
}

// prompt begins a turn; e.sending is held.
func (g *Gateway) prompt(ctx context.Context, e *entry, in runnel.Input, set runnel.Settings) (*runnel.Turn, error) {
	if !set.IsZero() {
		if err := g.set(ctx, e, set); err != nil {
			return nil, err
		}
	}
	return e.session.Send(ctx, in)
}

func (g *Gateway) enqueue(ctx context.Context, e *entry, in runnel.Input, set runnel.Settings) error {
	data, err := json.Marshal(queued{in, set})
	if err != nil {
		return runnel.Fail(runnel.InvalidRequest, "the prompt cannot be kept", err)
	}
	q := store.Queued{Session: e.session.ID(), Turn: in.Turn, Input: data, At: time.Now().UTC()}
	if err := g.cfg.Catalogue.Enqueue(ctx, q); err != nil {
		return storeError(err)
	}
	e.change(func() { e.waiting++ })
	g.startDrain(e) // the turn it waits for may be over by now
	return nil
}

// startDrain takes up the queue of e on a goroutine of its own, unless one is
// at it already.
func (g *Gateway) startDrain(e *entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.takeUp(e)
}

// takeUp is startDrain; g.mu is held.
func (g *Gateway) takeUp(e *entry) {
	if g.closing || e.draining {
		e.again = e.draining
		return
	}
	e.draining = true
	e.users++
	g.work.Go(func() {
		pause := keepRetry
		for more := true; more; {
			retry := g.drain(g.ctx, e)
			if retry {
				select {
				case <-time.After(pause):
				case <-g.ctx.Done():
				}
				pause = min(2*pause, time.Minute)
			}
			g.mu.Lock()
			more, e.again = (e.again || retry) && !g.closing, false
			if !more {
				e.draining = false
				e.users--
			}
			g.mu.Unlock()
		}
	})
}

// drain begins the turn of the prompt that waits longest, if none runs. The end
// of that turn brings the next one here; retry is set if nothing else will.
func (g *Gateway) drain(ctx context.Context, e *entry) (retry bool) {
	e.sending.Lock()
	defer e.sending.Unlock()
	if g.peek(e.rec.ID) != e {
		return false // not there yet, or no more: who opens it next drains
	}
	waiting, err := g.cfg.Catalogue.Queue(ctx, e.session.ID())
	for _, q := range waiting {
		if e.session.Status().Turn != "" {
			return false
		}
		var p queued
		if err = json.Unmarshal(q.Input, &p); err == nil {
			p.Input.Turn = q.Turn
			err = g.resume(ctx, e, p)
		}
		if !final(err) {
			break
		}
		if err != nil {
			g.log.LogAttrs(ctx, slog.LevelError, "waiting prompt refused", slog.String("session", q.Session), slog.String("turn", q.Turn), slog.String("error", err.Error()))
		}
		if err = g.cfg.Catalogue.Dequeue(ctx, q.Session, q.Turn); err != nil {
			break
		}
		e.change(func() { e.waiting = max(e.waiting-1, 0) }) // it may have been cleared meanwhile
	}
	if err == nil || runnel.CodeOf(err) == runnel.TurnInProgress {
		return false
	}
	g.log.LogAttrs(ctx, slog.LevelWarn, "waiting prompts stay where they are", slog.String("session", e.session.ID()), slog.String("error", err.Error()))
	return true
}

// resume begins the turn of a prompt that waited. The project directory may
// have changed since it was accepted, so it is judged again before an agent
// starts there; e.sending is held.
func (g *Gateway) resume(ctx context.Context, e *entry, p queued) error {
	if !e.session.Status().AgentAlive {
		rec, _ := e.snapshot()
		if _, err := g.projectDir(rec.ProjectDir); err != nil {
			return err
		}
	}
	_, err := g.prompt(ctx, e, p.Input, p.Settings)
	return err
}

// final reports whether a waiting prompt is done with: it began, or it never can.
func final(err error) bool {
	switch runnel.CodeOf(err) {
	case "", runnel.InvalidRequest, runnel.UnsupportedCapability, runnel.AttachmentFailure:
		return true
	}
	return false
}

// recoverQueues returns the sessions in which prompts waited when the process
// before us ended. A prompt whose turn is in the log began already: it waits no
// longer.
func (g *Gateway) recoverQueues(ctx context.Context) (sessions []string, err error) {
	all, err := g.cfg.Catalogue.Queue(ctx, "")
	if err != nil {
		return nil, storeError(err)
	}
	seen := make(map[string]map[string]bool)
	for _, q := range all {
		if seen[q.Session] == nil {
			seen[q.Session] = make(map[string]bool)
			for ev, err := range g.cfg.Log.Read(ctx, q.Session, 0) {
				if err != nil {
					return nil, storeError(err)
				}
				seen[q.Session][ev.Turn] = true
			}
		}
		if seen[q.Session][q.Turn] {
			if err := g.cfg.Catalogue.Dequeue(ctx, q.Session, q.Turn); err != nil {
				return nil, storeError(err)
			}
		}
	}
	return slices.Collect(maps.Keys(seen)), nil
}

// resumeQueues goes on with the prompts that wait in these sessions.
func (g *Gateway) resumeQueues(ctx context.Context, sessions []string) {
	for _, id := range sessions {
		e, err := g.acquire(ctx, id)
		if err != nil {
			g.log.LogAttrs(ctx, slog.LevelWarn, "waiting prompts not taken up", slog.String("session", id), slog.String("error", err.Error()))
			continue
		}
		if _, waiting := e.snapshot(); waiting > 0 {
			g.startDrain(e)
		}
		g.release(e)
	}
}

// Cancel ends the running turn; none is not an error.
func (g *Gateway) Cancel(ctx context.Context, ref string) error {
	e, err := g.opened(ctx, ref)
	if e == nil || err != nil {
		return err
	}
	defer g.release(e)
	return e.session.Cancel(ctx)
}

// Decide answers an approval.
func (g *Gateway) Decide(ctx context.Context, ref, approval string, d runnel.Decision) error {
	if d.Choice == event.ChoiceWithdrawn {
		return runnel.Fail(runnel.InvalidRequest, "choice: not one of the approval's choices")
	}
	e, err := g.opened(ctx, ref)
	if err != nil {
		return err
	}
	if e == nil {
		return runnel.Fail(runnel.ApprovalGone, "this approval is already resolved, withdrawn or not of this session")
	}
	defer g.release(e)
	return e.session.Decide(ctx, approval, d)
}

// Set changes settings, now and for later.
func (g *Gateway) Set(ctx context.Context, ref string, s runnel.Settings) (Status, error) {
	e, err := g.lock(ctx, ref)
	if err != nil {
		return Status{}, err
	}
	defer g.unlock(e)
	if err := g.set(ctx, e, s); err != nil {
		return Status{}, err
	}
	return g.status(e), nil
}

// set changes settings; e.sending is held.
func (g *Gateway) set(ctx context.Context, e *entry, s runnel.Settings) error {
	if err := e.session.Set(ctx, s); err != nil {
		return err
	}
	var err error
	e.change(func() {
		var opt runnel.Options
		if err = json.Unmarshal(e.rec.Options, &opt); err != nil {
			return
		}
		e.rec.Options, err = json.Marshal(s.Apply(opt))
	})
	return err
}

// Kill ends a session and everything it started. Its transcript stays.
func (g *Gateway) Kill(ctx context.Context, ref string) error {
	id, err := g.resolve(ctx, ref, "", false)
	if err != nil {
		return err
	}
	rec, err := g.record(ctx, id)
	if err != nil || rec.State == event.StateDead {
		return err
	}
	e, err := g.lock(ctx, id) // nobody starts its agent anew meanwhile
	if err != nil {
		return err
	}
	defer g.unlock(e)
	if err := g.clearQueue(ctx, e); err != nil {
		return err
	}
	e.mu.Lock()
	e.rec.State = event.StateDead
	e.mu.Unlock()
	// Recorded first: until then nobody may find it open again.
	err = g.put(context.WithoutCancel(ctx), e)
	err = errors.Join(err, e.session.Close())
	g.mu.Lock()
	delete(g.live, id)
	g.mu.Unlock()
	err = errors.Join(err, g.put(context.WithoutCancel(ctx), e))
	g.retire(e)
	g.feed.touch(id)
	return err
}

func (g *Gateway) clearQueue(ctx context.Context, e *entry) error {
	waiting, err := g.cfg.Catalogue.Queue(ctx, e.session.ID())
	if err != nil {
		return storeError(err)
	}
	for _, q := range waiting {
		if err := g.cfg.Catalogue.Dequeue(ctx, q.Session, q.Turn); err != nil {
			return storeError(err)
		}
	}
	e.change(func() { e.waiting = 0 })
	return nil
}

// opened returns the session if it is open, and nil if it exists but is not:
// then nothing runs in it that could be cancelled or answered.
func (g *Gateway) opened(ctx context.Context, ref string) (*entry, error) {
	id, err := g.resolve(ctx, ref, "", false)
	if err != nil {
		return nil, err
	}
	for {
		g.mu.Lock()
		e, f := g.live[id], g.flights[id]
		if e != nil {
			e.users++
		}
		g.mu.Unlock()
		switch {
		case e != nil:
			return e, nil
		case f == nil:
			_, err = g.record(ctx, id)
			return nil, err
		}
		select {
		case <-f.done: // only now it is known what it is
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
