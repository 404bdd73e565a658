package gateway

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
)

// A follows follows conversations that processes outside of Runnel write: what
// they add appears in the log of the session while they write it.
type follows struct {
	opener   *opener
	sessions *sessions
	importer *importer
	writers  *writers
	queue    *promptQueue

	mu     sync.Mutex
	active map[string]*follow   // by session
	missed map[string]time.Time // when a conversation had no session, by kind of agent and id
}

// Bounds of following.
const (
	maxFollowed = 16                     // conversations
	followEvery = 250 * time.Millisecond // shortest pause between two reads of a conversation
	followShare = 9                      // the pause is this many times as long as the read before it
	writerEvery = time.Second            // pause between two checks whether the writer still runs
	watchEvery  = 2 * time.Second        // pause between two searches for writers
	missedFor   = 10 * time.Second       // how long watch remembers that a conversation has no session
)

// A follow is a conversation that is followed.
type follow struct {
	e      *entry
	filter func(runnel.Options) runnel.Filter // Config.Filter
	images *pictureReader

	mu     sync.Mutex
	reader runnel.Following // nil once the follow has ended
	known  map[string]bool  // turns of the session, by the ids that the reader gives them
	ended  chan struct{}    // closed then
}

var errNotFollowed = errors.New("gateway: the conversation cannot be followed")

// begin starts to follow the conversation of a session. First it appends what
// the log lacks. It does nothing if the conversation is followed already. w is
// the writer; nil if none is known, then the follow ends at once. e.sending is
// held, and no turn of the session's own runs.
func (fs *follows) begin(ctx context.Context, e *entry, w *runnel.Writer) error {
	rec, _ := e.snapshot()
	p, ok := fs.follower(rec)
	if !ok || rec.AgentSessionID == "" {
		return errNotFollowed
	}
	leave, err := fs.sessions.enter()
	if err != nil {
		return err
	}
	f := &follow{e: e, filter: fs.opener.cfg.Filter, images: fs.opener.pictures.reader(rec.ID), ended: make(chan struct{})}
	fs.mu.Lock()
	switch other := fs.active[rec.ID]; {
	case other != nil && other.e == e:
		fs.mu.Unlock()
		leave()
		return nil
	case other != nil || len(fs.active) >= maxFollowed:
		fs.mu.Unlock()
		leave()
		return errNotFollowed
	}
	fs.active[rec.ID] = f
	fs.mu.Unlock()
	if err = fs.mark(ctx, e, true); err == nil {
		err = fs.catchUp(ctx, f, p)
	}
	if err != nil {
		fs.forget(f)
		leave()
		return err
	}
	e.change(func() { e.writer = w })
	fs.hold(e)
	go func() {
		defer leave()
		defer fs.sessions.release(e)
		fs.run(f)
	}()
	return nil
}

// mark stores in the session's record whether the turns that its log leaves
// open belong to a process outside of Runnel. It is stored before such a turn
// begins, and before a turn of the session's own begins.
func (fs *follows) mark(ctx context.Context, e *entry, following bool) error {
	rec, _ := e.snapshot()
	if keptOf(rec.Options).Following == following {
		return nil
	}
	e.change(func() { e.edit(func(k *keptCare) { k.Following = following }) })
	return fs.opener.records.write(context.WithoutCancel(ctx), e)
}

// hold keeps the session open until it is released.
func (fs *follows) hold(e *entry) {
	fs.sessions.mu.Lock()
	defer fs.sessions.mu.Unlock()
	e.users++
}

// catchUp opens the conversation and appends the events that the log lacks.
func (fs *follows) catchUp(ctx context.Context, f *follow, p runnel.Follower) error {
	rec, _ := f.e.snapshot()
	n, err := fs.importer.diff(ctx, rec)
	if err != nil {
		return err
	}
	if n.isOurOwn() || !fs.importer.mayRead(ctx, rec) {
		return errNotFollowed
	}
	reading, stop := context.WithTimeout(ctx, refreshTime)
	defer stop()
	reader, err := p.Follow(reading, runnel.Conversation{
		AgentSessionID: rec.AgentSessionID, Dir: workDir(rec),
		Trusted: fs.opener.projects.trusts(rec.ProjectDir), Pictures: f.images.keep, Shown: n.shown(),
	})
	if err != nil {
		return err
	}
	evs, err := reader.Next(reading)
	if err == nil {
		err = f.images.err
	}
	if err == nil {
		for _, ev := range f.filtered(evs) {
			n.historyHas(ev)
		}
		f.known = n.endedInLog()
		err = f.e.session.Follow(ctx, n.found())
	}
	if err != nil {
		reader.Close()
		return err
	}
	f.reader = reader
	return nil
}

// filtered returns events of the agent without secrets, and without those of
// turns that the session has under other ids.
func (f *follow) filtered(evs []event.Event) []event.Event {
	evs = slices.DeleteFunc(evs, func(ev event.Event) bool { return f.known[ev.Turn] })
	if f.filter == nil {
		return evs
	}
	rec, _ := f.e.snapshot()
	filter := f.filter(runnel.Options{Dir: workDir(rec)})
	var out []event.Event
	for _, ev := range evs {
		out = append(out, filter.Event(ev)...)
	}
	return append(out, filter.End()...)
}

// run reads the conversation until its writer has ended.
func (fs *follows) run(f *follow) {
	ctx := fs.opener.ctx
	timer := time.NewTimer(followEvery)
	defer timer.Stop()
	var checked time.Time
	for {
		select {
		case <-timer.C:
		case <-f.ended:
			return
		case <-f.e.session.Done():
			fs.leave(f)
			return
		case <-ctx.Done():
			fs.leave(f)
			return
		}
		began := time.Now()
		err := f.step(ctx)
		if runnel.CodeOf(err) == runnel.SessionDead || ctx.Err() != nil {
			fs.leave(f)
			return
		}
		if err != nil {
			fs.opener.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "conversation no longer followed", slog.String("session", f.e.session.ID()), slog.String("error", err.Error()))
			fs.end(ctx, f)
			return
		}
		if time.Since(checked) >= writerEvery {
			checked = time.Now()
			if writes, err := fs.check(ctx, f); err == nil && !writes {
				fs.end(ctx, f)
				return
			}
		}
		timer.Reset(max(followEvery, followShare*time.Since(began)))
	}
}

// step appends what the conversation has gained.
func (f *follow) step(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reader == nil {
		return nil
	}
	evs, err := f.reader.Next(ctx)
	if err = errors.Join(err, f.images.err); err != nil || len(evs) == 0 {
		return err
	}
	return f.e.session.Follow(ctx, f.filtered(evs))
}

// check reports whether a process still writes the conversation, and updates
// the session's writer.
func (fs *follows) check(ctx context.Context, f *follow) (writes bool, err error) {
	list, err := fs.writers.of(ctx, f.e)
	if err != nil || len(list) == 0 {
		return false, err
	}
	f.e.mu.Lock()
	same := f.e.writer != nil && identity(*f.e.writer) == identity(list[0])
	f.e.mu.Unlock()
	if !same {
		f.e.change(func() { f.e.writer = &list[0] })
	}
	return true, nil
}

// end ends a follow whose writer has ended, and starts queued prompts.
func (fs *follows) end(ctx context.Context, f *follow) {
	f.e.sending.Lock()
	defer f.e.sending.Unlock()
	fs.finish(ctx, f.e, false)
	fs.queue.startIfWaiting(f.e)
}

// settle appends what a followed conversation has gained until now, and ends
// the follow if its writer has ended. It does nothing if e is not followed.
// e.sending is held.
func (fs *follows) settle(ctx context.Context, e *entry) error {
	fs.mu.Lock()
	f := fs.active[e.session.ID()]
	fs.mu.Unlock()
	if f == nil || f.e != e {
		return nil
	}
	list, err := fs.writers.of(ctx, e)
	if err != nil {
		return err
	}
	if len(list) > 0 {
		return f.step(ctx)
	}
	fs.finish(ctx, e, false)
	fs.queue.startIfWaiting(e) // the prompts wait for e.sending
	return nil
}

// finish ends the follow of a session, if there is one, and the turns that it
// left open, also if ctx ends meanwhile. If cut is set, the writer goes on, and
// its turn is cut short. If the session has ended, the turns stay as they are.
// e.sending is held.
func (fs *follows) finish(ctx context.Context, e *entry, cut bool) {
	fs.mu.Lock()
	f := fs.active[e.session.ID()]
	fs.mu.Unlock()
	if f == nil || f.e != e {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), refreshTime)
	defer stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reader == nil {
		return
	}
	err := f.readRest(ctx, cut)
	ended := e.session.Unfollow(ctx)
	f.close()
	fs.forget(f)
	if runnel.CodeOf(ended) == runnel.SessionDead {
		return // as in leave
	}
	if err != nil {
		fs.opener.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "end of a followed conversation not read", slog.String("session", e.session.ID()), slog.String("error", err.Error()))
	}
	if ended != nil {
		fs.opener.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "followed turn not ended", slog.String("session", e.session.ID()), slog.String("error", ended.Error()))
	}
	if err := fs.mark(ctx, e, false); err != nil {
		fs.opener.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "end of a follow not stored", slog.String("session", e.session.ID()), slog.String("error", err.Error()))
	}
}

// readRest appends what the conversation has gained since the last step; f.mu
// is held.
func (f *follow) readRest(ctx context.Context, cut bool) error {
	evs, err := f.reader.Next(ctx)
	if err != nil {
		return err
	}
	if !cut {
		evs = append(evs, f.reader.Finish()...)
	}
	return f.e.session.Follow(ctx, f.filtered(evs))
}

// leave ends a follow and leaves its turns as they are, because the session was
// closed.
func (fs *follows) leave(f *follow) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.close()
	fs.forget(f)
}

// close closes the reader; f.mu is held.
func (f *follow) close() {
	if f.reader != nil {
		f.reader.Close()
		f.reader = nil
		close(f.ended)
	}
}

// forget removes a follow that has ended.
func (fs *follows) forget(f *follow) {
	fs.mu.Lock()
	if id := f.e.session.ID(); fs.active[id] == f {
		delete(fs.active, id)
	}
	fs.mu.Unlock()
	f.e.change(func() { f.e.writer = nil })
}

// watch searches for writers until the gateway closes, and follows the
// conversations that are sessions.
func (fs *follows) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			fs.search(fs.opener.ctx)
		case <-fs.opener.ctx.Done():
			return
		}
	}
}

// search follows the conversations of sessions that now have a writer.
func (fs *follows) search(ctx context.Context) {
	found := make(map[string][]runnel.Writer) // by the name of the provider of the agent that stores the conversations
	for _, p := range fs.opener.cfg.Providers {
		owner := fs.writers.owner(p)
		f, ok := owner.(runnel.WriterFinder)
		if _, follows := owner.(runnel.Follower); !ok || !follows {
			continue
		}
		list, searched := found[owner.Name()]
		if !searched {
			list, _ = f.Writers(ctx)
			found[owner.Name()] = list
		}
		for _, w := range list {
			if id := fs.sessionOf(ctx, p, w); id != "" {
				fs.start(ctx, id)
			}
		}
	}
}

// sessionOf returns the session whose conversation w has open, or "".
func (fs *follows) sessionOf(ctx context.Context, p runnel.Provider, w runnel.Writer) string {
	if w.Session != "" {
		if e := fs.sessions.peek(w.Session); e != nil {
			if rec, _ := e.snapshot(); rec.AgentSessionID == w.AgentSessionID {
				return "" // the session's own agent
			}
		}
	}
	key := p.Name() + " " + w.AgentSessionID
	fs.mu.Lock()
	for k, at := range fs.missed {
		if time.Since(at) > missedFor {
			delete(fs.missed, k)
		}
	}
	_, missed := fs.missed[key]
	fs.mu.Unlock()
	if w.Own || missed {
		return ""
	}
	rec, err := fs.importer.continuing(ctx, p, w.AgentSessionID, "")
	if _, follows := fs.follower(rec); err == nil && follows && rec.State == event.StateOpen && rec.ID != w.Session && !fs.writers.isTaken(rec.ID) {
		return rec.ID
	}
	fs.mu.Lock()
	fs.missed[key] = time.Now()
	fs.mu.Unlock()
	return ""
}

// start follows the conversation of a session if a process writes it and no
// turn of the session runs.
func (fs *follows) start(ctx context.Context, id string) {
	fs.mu.Lock()
	known := fs.active[id] != nil
	fs.mu.Unlock()
	if known {
		return
	}
	e, err := fs.sessions.acquire(ctx, id, func() (*entry, error) { return fs.opener.open(id, "") })
	if err != nil {
		return
	}
	defer fs.sessions.release(e)
	if !e.sending.TryLock() {
		return // the next search tries it again
	}
	defer e.sending.Unlock()
	if err := fs.follow(ctx, e); err != nil && !errors.Is(err, errNotFollowed) {
		fs.opener.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "conversation not followed", slog.String("session", id), slog.String("error", err.Error()))
	}
}

// follow follows the conversation of a session that a process writes. It fails
// with errNotFollowed if no process does; e.sending is held.
func (fs *follows) follow(ctx context.Context, e *entry) error {
	if fs.sessions.peek(e.session.ID()) != e || e.session.Status().Turn != "" && !e.followed() {
		return errNotFollowed
	}
	list, err := fs.writers.of(ctx, e)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return errNotFollowed
	}
	return fs.begin(ctx, e, &list[0])
}

// resume continues the turns of a session that an earlier process followed. If
// that is impossible, it ends them. It is called during recovery.
func (fs *follows) resume(ctx context.Context, id string) error {
	e, err := fs.sessions.acquire(ctx, id, func() (*entry, error) { return fs.opener.reopen(id) })
	if err != nil {
		return err
	}
	defer fs.sessions.release(e)
	e.sending.Lock()
	defer e.sending.Unlock()
	list, err := fs.writers.of(ctx, e)
	if err != nil {
		return err
	}
	var writer *runnel.Writer
	if len(list) > 0 {
		writer = &list[0]
	}
	if err = fs.begin(ctx, e, writer); err != nil && ctx.Err() != nil {
		return err // the next server tries it again
	}
	if err != nil {
		return errors.Join(err, e.session.Unfollow(ctx), fs.mark(ctx, e, false))
	}
	if writer == nil {
		fs.finish(ctx, e, false)
	}
	return nil
}

// follower returns the Follower of the conversation of a session.
func (fs *follows) follower(rec store.Session) (f runnel.Follower, ok bool) {
	f, ok = fs.importer.readerOf(rec).(runnel.Follower)
	return f, ok
}

// isFollowed reports whether the turns that a log left open belong to a process
// outside of Runnel.
func (fs *follows) isFollowed(rec store.Session) bool {
	_, ok := fs.follower(rec)
	return ok && keptOf(rec.Options).Following
}

// free returns CONVERSATION_IN_USE if a process outside of the session has its
// conversation open, and follows the conversation then. Otherwise it ends an
// earlier follow. e.sending is held, and no turn of the session's own runs.
func (fs *follows) free(ctx context.Context, e *entry) error {
	list, err := fs.writers.of(ctx, e)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		fs.finish(ctx, e, false)
		return fs.mark(ctx, e, false)
	}
	if err := fs.begin(ctx, e, &list[0]); err != nil && !errors.Is(err, errNotFollowed) {
		fs.opener.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "conversation not followed", slog.String("session", e.session.ID()), slog.String("error", err.Error()))
	}
	return inUse(e.session.ID(), list[0])
}

// loaded appends to the log what the conversation of a loaded session has
// gained, and follows the conversation if a process writes it. copied is set if
// the session was copied from the conversation just now. e.sending is held.
func (fs *follows) loaded(ctx context.Context, e *entry, file string, copied bool) error {
	err := fs.settle(ctx, e)
	switch {
	case err != nil:
	case file == "":
		err = fs.follow(ctx, e)
	default:
		err = errNotFollowed // the client wants this file to be read
	}
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if !errors.Is(err, errNotFollowed) {
		fs.opener.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "conversation not followed", slog.String("session", e.session.ID()), slog.String("error", err.Error()))
	}
	if copied && e.session.Status().Head > 0 {
		return nil
	}
	return fs.importer.refresh(ctx, e, file)
}

// checkCancel returns CONVERSATION_IN_USE if a process outside of the session
// runs its turn: Runnel cannot cancel that turn.
func (fs *follows) checkCancel(e *entry) error {
	e.mu.Lock()
	w := e.writer
	e.mu.Unlock()
	if w == nil || !e.session.Status().Followed {
		return nil
	}
	return inUse(e.session.ID(), *w)
}
