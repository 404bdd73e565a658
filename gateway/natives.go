package gateway

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway/conversations"
	"github.com/runnel-dev/runnel/internal/wake"
	"github.com/runnel-dev/runnel/store"
)

// natives adds the conversations that agents have stored in files or in a
// database, and that are no sessions, to the search index. It reads only
// conversations that have changed since, through the same translators and
// filters as an import, so that an import gives the items the same ids.
//
// The index has such a conversation under the name cliType:agentSessionId, with
// the state of its files. A conversation that becomes a session, or whose files
// disappear, is no longer found at once, because [Search.Query] checks both.
type natives struct {
	index     store.SearchIndex
	stored    *conversations.Index
	importer  *importer
	continued func(context.Context, []conversations.Conversation) (map[string]store.Session, error)
	dir       string // the data directory; "" if unknown
	ctx       context.Context
	logger    *slog.Logger
	working   func() bool // whether a session has a turn

	behind   atomic.Bool  // the first pass has not ended
	asked    wake.Signal  // somebody searches
	searched atomic.Int64 // time of the last search, in Unix nanoseconds
	hides    wake.Signal  // hidden has a new name

	mu     sync.Mutex // guards hidden
	hidden []string   // names of conversations whose sessions were deleted; the index may have them

	// The rest belongs to the goroutine that calls run.
	later   map[string]time.Time       // when a conversation may be read again
	forgot  time.Time                  // when conversations were last removed
	whole   bool                       // the next pass compares all conversations
	version int64                      // of stored; earlier changes are known
	changed map[conversations.Key]bool // changed conversations that were not read yet
}

const (
	// nativesEvery is the pause between two comparisons of all conversations.
	// If the system reports all changes of their files, it is nativesWatched, else
	// nativesAsked if somebody searches. A pass for changed conversations comes
	// nativesAsked after the last one.
	nativesEvery   = time.Minute
	nativesWatched = 10 * time.Minute
	nativesAsked   = 2 * time.Second
	// maxNative is the greatest size of a conversation that natives reads, in
	// bytes. The translators keep a whole conversation in memory.
	maxNative = 32 << 20
	// After a conversation was read, natives pauses this many times as long as
	// that took: a tenth of the time goes to reading, a hundredth while a
	// session has a turn. While the first pass has not ended and somebody has
	// searched in the last nativesSearch, the pause is a quarter of that time.
	nativesIdleShare = 9
	nativesTurnShare = 99
	nativesSearch    = time.Minute
	// A conversation that changes all the time is read again after
	// nativesAgain times as long as the reading took.
	nativesAgain = 100
	// nativesRecheck is how long natives remembers that a conversation is a
	// session.
	nativesRecheck = 10 * time.Minute
	// forgetEvery is the shortest pause between two removals, because each
	// writes the whole index again.
	forgetEvery = time.Hour
	// nativeChunk is how many conversations are looked up in the catalogue at a
	// time.
	nativeChunk = 100
)

// partlyIndexed is the state of a conversation of which the index has a part.
const partlyIndexed = "partly"

// isNative reports whether a name in the search index is that of a conversation
// that is no session. Ids of sessions are UUIDs.
func isNative(id string) bool { return strings.Contains(id, ":") }

// startNatives starts natives if conversations are listed.
func (g *Gateway) startNatives() {
	if g.stored == nil {
		return
	}
	g.natives = &natives{
		index: g.cfg.Search, stored: g.stored, importer: g.importer, dir: g.cfg.DataDir, ctx: g.ctx, logger: g.cfg.Logger,
		continued: func(ctx context.Context, list []conversations.Conversation) (map[string]store.Session, error) {
			return ConversationsOf(g).continued(ctx, list, "")
		},
		working: g.sessions.working, asked: wake.New(), hides: wake.New(), later: make(map[string]time.Time), whole: true, changed: make(map[conversations.Key]bool),
	}
	g.natives.behind.Store(true)
	g.work.Go(g.natives.run)
}

// run indexes until the context ends.
func (n *natives) run() {
	retry := indexRetry
	for n.ctx.Err() == nil {
		err := n.pass()
		if n.ctx.Err() != nil {
			return
		}
		if err != nil {
			level := slog.LevelDebug // reported before
			if retry == indexRetry {
				level = slog.LevelWarn
			}
			n.logger.Log(n.ctx, level, "the conversations of agents cannot be added to the search index; the server tries again", slog.Any("error", err))
			n.pause(retry)
			retry = min(2*retry, maxIndexRetry)
			continue
		}
		retry = indexRetry
		n.wait()
	}
}

// wait waits for the time of the next pass.
func (n *natives) wait() {
	n.pause(nativesAsked)
	every, watched := nativesEvery, n.stored.IsWatched(n.isReadable)
	if watched {
		every = nativesWatched
	}
	var readable <-chan time.Time // again, after a pause for a conversation that changes all the time
	if until := n.next(); !until.IsZero() {
		readable = time.After(time.Until(until))
	}
	select {
	case <-time.After(every - nativesAsked):
		n.whole = true
	case <-n.asked:
		n.whole = !watched
	case <-n.hides: // pass removes them
	case <-n.stored.Grown(n.version):
	case <-readable:
	case <-n.ctx.Done():
	}
}

// next returns when the first of the changed conversations may be read.
func (n *natives) next() (at time.Time) {
	for key := range n.changed {
		if until := n.later[key.CLIType+":"+key.AgentSessionID]; at.IsZero() || until.Before(at) {
			at = until
		}
	}
	return at
}

// pause waits. Meanwhile, it removes conversations whose sessions are deleted.
func (n *natives) pause(d time.Duration) {
	over, hides := time.After(d), n.hides
	for {
		select {
		case <-over:
			return
		case <-n.ctx.Done():
			return
		case <-hides:
			if n.forgetHidden() != nil {
				n.hides.Send() // the next pass tries again, and reports the error
				hides = nil
			}
		}
	}
}

// hid is called when the session of a conversation is deleted. The index may
// have the conversation from before it was a session, and from the moments in
// which the agent had stored a prompt and not yet named its conversation.
func (n *natives) hid(name string) {
	n.mu.Lock()
	n.hidden = append(n.hidden, name)
	n.mu.Unlock()
	n.hides.Send()
}

// forgetHidden removes the conversations that hid has named. Those that the
// index does not have cost little.
func (n *natives) forgetHidden() error {
	n.mu.Lock()
	names := n.hidden
	n.hidden = nil
	n.mu.Unlock()
	if len(names) == 0 {
		return nil
	}
	err := n.index.Forget(n.ctx, names...)
	if err != nil {
		n.mu.Lock()
		n.hidden = append(names, n.hidden...)
		n.mu.Unlock()
	}
	return err
}

// pass reads the conversations that have changed, or compares all.
func (n *natives) pass() error {
	if err := n.forgetHidden(); err != nil {
		return err
	}
	list, all, now := n.stored.Changes(n.version)
	if n.whole || all {
		return n.passAll()
	}
	for _, c := range list {
		n.changed[c.Key] = true
	}
	n.version = now
	n.expire()
	var ready []conversations.Key
	for key := range n.changed {
		if _, wait := n.later[key.CLIType+":"+key.AgentSessionID]; !wait {
			ready = append(ready, key)
			delete(n.changed, key)
		}
	}
	todo := slices.DeleteFunc(n.stored.StoredOf(ready), func(c conversations.Stored) bool {
		return !n.isReadable(c.CLIType) || n.importer.hidden.isHidden(keyOf(c.Conversation))
	})
	for chunk := range slices.Chunk(todo, nativeChunk) {
		if err := n.update(chunk); err != nil {
			n.whole = true // for those that were not read
			return err
		}
	}
	return nil
}

// expire forgets what n.later has of the past.
func (n *natives) expire() {
	now := time.Now()
	for key, until := range n.later {
		if now.After(until) {
			delete(n.later, key)
		}
	}
}

// passAll compares the index with the agents' files, adds what has changed and
// removes conversations without files. It looks for changed files again at least
// once a minute.
func (n *natives) passAll() error {
	for {
		todo, gone, err := n.compare()
		if err != nil {
			return err
		}
		began := time.Now()
		for len(todo) > 0 && time.Since(began) < nativesEvery {
			chunk := todo[:min(nativeChunk, len(todo))]
			todo = todo[len(chunk):]
			if err := n.update(chunk); err != nil {
				return err
			}
		}
		if len(todo) > 0 {
			continue
		}
		n.behind.Store(false)
		n.whole = false
		return n.forget(gone)
	}
}

// compare returns the conversations that natives must read, newest first, and
// the names of those in the index that no agent has any more.
func (n *natives) compare() (todo []conversations.Stored, gone []string, err error) {
	list, err := n.stored.Stored(n.ctx, n.isReadable)
	if err != nil {
		return nil, nil, err
	}
	n.version = list.Version
	clear(n.changed)
	at, err := n.index.Indexed(n.ctx)
	if err != nil {
		return nil, nil, err
	}
	n.expire()
	for _, c := range list.Conversations {
		key := keyOf(c.Conversation)
		if n.importer.hidden.isHidden(key) { // forget removes it
			continue
		}
		pos, known := at[key]
		delete(at, key)
		if known && pos.State == c.State {
			continue
		}
		if _, wait := n.later[key]; wait {
			n.changed[conversations.Key{CLIType: c.CLIType, AgentSessionID: c.AgentSessionID}] = true
			continue
		}
		todo = append(todo, c)
	}
	for id := range at {
		if cli, _, native := strings.Cut(id, ":"); native && !list.Incomplete[cli] {
			gone = append(gone, id)
		}
	}
	return todo, gone, nil
}

// isReadable reports whether natives reads the conversations of a kind of agent.
func (n *natives) isReadable(cliType string) bool { return n.reader(cliType) != nil }

// reader returns the provider that reads the conversations of a kind of agent
// without starting the agent, or nil if none does.
func (n *natives) reader(cliType string) runnel.Historian {
	p := n.importer.opener.providers.Named(cliType)
	if _, lists := p.(runnel.Summarizer); !lists {
		return nil
	}
	if r, ok := p.(runnel.StoredReader); ok {
		return storedReader{r}
	}
	if _, files := p.(runnel.FileHistorian); !files {
		return nil
	}
	h, _ := p.(runnel.Historian)
	return h
}

// A storedReader reads the stored text of conversations as their history.
type storedReader struct{ runnel.StoredReader }

// History implements [runnel.Historian].
func (r storedReader) History(ctx context.Context, ref runnel.Conversation) iter.Seq2[event.Event, error] {
	return r.ReadStored(ctx, ref)
}

// update reads those of the conversations that are no sessions.
func (n *natives) update(list []conversations.Stored) error {
	plain := make([]conversations.Conversation, len(list))
	for i, c := range list {
		plain[i] = c.Conversation
	}
	continued, err := n.continued(n.ctx, plain)
	if err != nil {
		return err
	}
	for _, c := range list {
		key := keyOf(c.Conversation)
		if _, is := continued[key]; is {
			n.later[key] = time.Now().Add(nativesRecheck)
			continue
		}
		if n.importer.hidden.isHidden(key) { // its session was deleted meanwhile
			continue
		}
		if n.dir != "" && diskFull(n.dir) {
			return errNearlyFull
		}
		began := time.Now()
		if err := n.read(c); err != nil {
			return err
		}
		took := time.Since(began)
		n.later[key] = time.Now().Add(nativesAgain * took)
		n.pause(n.restAfter(took))
	}
	return nil
}

// restAfter returns how long natives pauses after it has read for some time.
func (n *natives) restAfter(took time.Duration) time.Duration {
	switch {
	case n.working():
		return nativesTurnShare * took
	case n.behind.Load() && time.Since(time.Unix(0, n.searched.Load())) < nativesSearch:
		return took / 4
	}
	return nativesIdleShare * took
}

// search is called with each search.
func (n *natives) search() {
	n.searched.Store(time.Now().UnixNano())
	n.asked.Send()
}

// read adds the items of a conversation to the index. A conversation that
// cannot be read is tried again after its files have changed.
func (n *natives) read(c conversations.Stored) error {
	b := nativeBatch{n: n, s: store.SearchSession{ID: keyOf(c.Conversation), CLIType: c.CLIType, ProjectID: projectID(c.ProjectDir)}}
	if c.Size <= maxNative {
		ref := runnel.Conversation{AgentSessionID: c.AgentSessionID, Dir: c.ProjectDir, CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt}
		for ev, err := range n.importer.history(n.ctx, n.reader(c.CLIType), c.CLIType, b.s.ID, ref) {
			switch {
			case n.ctx.Err() != nil:
				return n.ctx.Err()
			case runnel.CodeOf(err) == runnel.AgentError: // it may be readable later
				n.logger.Debug("a conversation cannot be read now", "conversation", b.s.ID, "error", err)
				return nil
			case err != nil:
				n.logger.Debug("a conversation cannot be read completely", "conversation", b.s.ID, "error", err)
				return b.flush(c.State)
			}
			if err := b.take(ev); err != nil {
				return err
			}
		}
	}
	return b.flush(c.State)
}

// A nativeBatch has the items that the next transaction adds.
type nativeBatch struct {
	n     *natives
	s     store.SearchSession
	items []store.SearchItem
	bytes int
}

// take adds the items of an event, and writes a full batch. The items of a
// conversation that is no session have no position in a log: their Seq tells
// the output of a call, 1, from the call, 0.
func (b *nativeBatch) take(ev event.Event) error {
	ev.Seq = 0
	if done, ok := ev.Body.(event.ItemDone); ok {
		if _, output := done.FinalItem.(event.FunctionCallOutput); output {
			ev.Seq = 1
		}
	}
	for _, it := range searchItems(ev) {
		b.items, b.bytes = append(b.items, it), b.bytes+len(it.Text)
	}
	if len(b.items) >= indexItems || b.bytes >= indexBytes {
		return b.flush(partlyIndexed)
	}
	return nil
}

// flush writes the batch.
func (b *nativeBatch) flush(state string) error {
	b.s.State = state
	err := b.n.index.AddItems(b.n.ctx, b.s, 0, 0, b.items...)
	b.items, b.bytes = nil, 0
	return err
}

// forget removes conversations whose files are gone.
func (n *natives) forget(gone []string) error {
	if len(gone) == 0 || time.Since(n.forgot) < forgetEvery {
		return nil
	}
	if err := n.index.Forget(n.ctx, gone...); err != nil {
		return err
	}
	n.forgot = time.Now()
	return nil
}
