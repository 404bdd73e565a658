package gateway

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/profile"
	"github.com/runnel-dev/runnel/store"
)

// An entry is an open session, whose agent may or may not run.
type entry struct {
	session    *runnel.Session
	credential string // id of the credential that opened the session; "" if none did
	limits     *limiter
	feed       *feed
	records    *recordWriter
	queue      *promptQueue
	tally      *tally
	gov        *governor

	checkpoints *checkpoints
	denials     *denialRecords

	// Guarded by sessions.mu:
	users    int  // callers that have acquired the session and not released it
	draining bool // a goroutine starts the turns of queued prompts
	again    bool // that goroutine must read the queue once more

	retired bool // this entry no longer writes the record; guarded by recordWriter.writing

	// sending is the turn lock. It is held from checking whether a turn runs
	// until the prompt is in the log. The options and attachments of a prompt
	// are checked while it is held.
	sending sync.Mutex

	sized bool // stored includes the events that the log had when the session was opened; guarded by sending

	mu       sync.Mutex // guards the rest
	rec      store.Session
	resolved profile.Resolved // options with their sources, of the running agent or else the next one; nil: unknown
	started  runnel.Options   // options with which the running agent was started, or the next one will be
	sources  profile.Sources  // of these options; nil: they are all the session's own
	queued   []QueuedPrompt   // prompts in the queue, in order; not changed in place
	stops    int              // how often a client has stopped the turn and held the queue
	folded   int64            // position of the newest checkpoint that the log has or soon will have
	turns    []span           // oldest first; see maxSpans
	stored   int64            // approximate size of the session's events, in bytes
	runs     *runnel.Options  // options of the running agent; nil: unknown, because an earlier server process started it

	calls  []deniedCall   // tool calls in a sandbox whose output has not come, oldest first
	writer *runnel.Writer // process outside of Runnel whose writing the session follows; nil: none

	archived bool // equals archived in the stored options of rec
	oneTurn  bool // the running turn has its own settings, which must not become the session's

	reported  reported
	recalled  bool // reported includes what was reported before the session was opened
	unwritten bool // the catalogue does not have all of reported
}

// A span is the range of the log that a turn occupies.
type span struct {
	turn       string
	after, end int64 // after is the position before its first event; end is that of its last event, 0 while it runs
	stored     int64 // approximate size of its events since the session was opened, in bytes
}

// recorded implements runnel.Config.Recorded: the session calls it with the
// events that it has appended to the log. It updates the record, notifies
// watchers and starts queued prompts after the end of a turn. It does not
// block.
func (e *entry) recorded(evs []event.Event) {
	e.mu.Lock()
	visible, urgent, ended := false, false, false
	for _, ev := range evs {
		e.index(ev)
		v, u := e.note(ev)
		visible, urgent, ended = visible || v, urgent || u, ended || event.Ends(ev.Body)
		if event.Ends(ev.Body) {
			e.gov.endTurn(ev.Turn)
			e.tally.turn(e.rec.CLIType, ev)
		}
	}
	drain := ended && len(e.queued) > 0 && !e.rec.QueueHeld
	e.mu.Unlock()
	if visible {
		e.feed.touch(e.rec.ID)
		e.records.mark(e, urgent)
	}
	if drain {
		e.queue.start(e)
	}
}

// reserve implements runnel.Config.Reserve: the session calls it before its
// agent starts. It fails if a limit allows no further agent, and counts the
// start otherwise. If running is true, the session takes over an agent that an
// earlier server process started.
func (e *entry) reserve(running bool) (release func(), err error) {
	if release, err = e.limits.agent(e.credential, running); err != nil {
		return nil, err
	}
	rec, _ := e.snapshot()
	switch {
	case running:
		e.tally.start(rec.CLIType, "taken_over")
	case rec.AgentSessionID != "":
		e.tally.start(rec.CLIType, "resumed")
	default:
		e.tally.start(rec.CLIType, "new")
	}
	return release, nil
}

// asked implements runnel.Config.Asked: the session calls it when people may
// answer an approval. It notifies watchers of the session list.
func (e *entry) asked() { e.feed.touch(e.rec.ID) }

// index records which part of the log each turn occupies; e.mu is held.
func (e *entry) index(ev event.Event) {
	size := int64(event.Weight(ev.Body))
	e.stored += size
	defer e.checkpoint(ev)
	if ev.Turn == "" {
		return
	}
	for i := len(e.turns) - 1; i >= 0; i-- {
		if e.turns[i].turn == ev.Turn {
			e.turns[i].stored += size
			if event.Ends(ev.Body) {
				e.turns[i].end = ev.Seq
			}
			return
		}
	}
	if len(e.turns) >= maxSpans {
		e.turns = slices.Delete(e.turns, 0, 1)
	}
	e.turns = append(e.turns, span{turn: ev.Turn, after: ev.Seq - 1, stored: size})
}

// checkpoint schedules a checkpoint if turns have been open for many events;
// e.mu is held.
func (e *entry) checkpoint(ev event.Event) {
	switch {
	case event.Ends(ev.Body) && !e.inTurn():
		e.folded = ev.Seq
	case ev.Seq-e.folded >= checkpointEvery:
		e.folded = ev.Seq
		e.checkpoints.need(ev.Session, ev.Seq)
	}
}

const maxSpans = 256 // maximum length of entry.turns; the oldest span is dropped first

// note folds an event into the record; e.mu is held. visible reports whether
// session lists show the change. urgent reports whether the record must be
// written at once, because a crash must not lose the change.
func (e *entry) note(ev event.Event) (visible, urgent bool) {
	switch b := ev.Body.(type) {
	case event.ItemDone:
		e.noteDenials(ev, b.FinalItem)
		return e.noteItem(ev, b), false
	case event.SessionUpdated:
		setIf(&e.rec.AgentSessionID, b.AgentSessionID)
		if e.oneTurn = e.oneTurn || b.Restores != nil; !e.oneTurn {
			setIf(&e.rec.ModelID, b.ModelID)
			setIf(&e.rec.PermissionMode, b.PermissionMode)
		} else {
			b.Config = nil
		}
		e.noteTitle(b)
		news := e.reported.take(b)
		e.unwritten = e.unwritten || news
		return true, news || b.AgentSessionID != ""
	case event.ResponseStart:
		e.unarchive()
		if !e.oneTurn && b.ModelID != runnel.UnknownModel {
			setIf(&e.rec.ModelID, b.ModelID)
		}
	case event.ResponseDone:
		e.rec.LastTurn, e.oneTurn = b.Status, false
	case event.ResponseError:
		e.rec.LastTurn, e.oneTurn = event.StatusError, false
		e.rec.LastLine = line(b.Error.Message, lineBytes)
	case event.ApprovalRequested:
		e.rec.LastLine = line(b.Approval.Title, lineBytes)
	case event.Notice:
		if b.Code != runnel.ConversationForgotten {
			return false, false
		}
		e.rec.AgentSessionID = ""
		return true, true
	case event.ApprovalResolved:
	default:
		return false, false
	}
	e.rec.LastActiveAt = ev.At
	return true, false
}

func (e *entry) noteItem(ev event.Event, b event.ItemDone) bool {
	switch f := b.FinalItem.(type) {
	case event.Message:
		if f.Origin == event.OriginUser {
			e.unarchive()
			if e.rec.Title == "" {
				e.rec.Title = line(f.Content, titleBytes)
			}
		}
		setIf(&e.rec.LastLine, line(lastLine(f.Content), lineBytes))
	case event.FunctionCall:
		what := f.Title
		if what == "" {
			what = f.Name
		}
		setIf(&e.rec.LastLine, line(what, lineBytes))
	default:
		return false
	}
	e.rec.LastActiveAt = ev.At
	return true
}

const (
	titleBytes = 120 + len("…")
	lineBytes  = 240 + len("…")
)

func setIf(to *string, s string) {
	if s != "" {
		*to = s
	}
}

// line returns the first non-blank line of s, shortened to at most n bytes.
func line(s string, n int) string {
	s = strings.TrimSpace(s)
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		s = strings.TrimSpace(s[:i])
	}
	return text.Shorten(s, n)
}

// lastLine returns the last non-blank line of s.
func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexAny(s, "\r\n")+1:]
}

// snapshot returns the current record and the number of queued prompts.
func (e *entry) snapshot() (rec store.Session, waiting int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rec, len(e.queued)
}

// running reports whether a turn in the log has not ended.
func (e *entry) running() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.inTurn()
}

// inTurn is running; e.mu is held.
func (e *entry) inTurn() bool {
	return slices.ContainsFunc(e.turns, func(t span) bool { return t.end == 0 })
}

// change calls f, which edits the fields that mu guards. It then notifies
// watchers and marks the record for writing at once.
func (e *entry) change(f func()) {
	e.mu.Lock()
	f()
	e.mu.Unlock()
	e.feed.touch(e.rec.ID)
	e.records.mark(e, true)
}

// end marks the session as dead in its record. It neither writes the record nor
// stops the agent.
func (e *entry) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rec.State = event.StateDead
}

// catchUp folds the events after a position of the log into the record. The
// record may lack them, because a crash can come between the append of events
// and the write of the record.
func (e *entry) catchUp(ctx context.Context, log runnel.Log, after int64) error {
	for ev, err := range log.Read(ctx, e.rec.ID, after) {
		if err != nil {
			return err
		}
		e.mu.Lock()
		e.note(ev)
		e.mu.Unlock()
	}
	return nil
}

// exceeded implements runnel.Config.Exceeded: it returns an error if the events
// of the running turn or of the session are larger than their limit. The turn
// then ends with that error.
func (e *entry) exceeded(turn string) *runnel.Error {
	e.mu.Lock()
	stored, size := e.stored, int64(0)
	for _, t := range e.turns {
		if t.turn == turn {
			size = t.stored
		}
	}
	e.mu.Unlock()
	return e.limits.stored(size, stored)
}

// room returns an error if the session's events are already larger than their
// limit, so that no other turn may start; e.sending is held.
func (e *entry) room(ctx context.Context, log runnel.Log) error {
	if sizer, ok := log.(store.Sizer); ok && !e.sized {
		size, err := sizer.Size(ctx, e.rec.ID)
		if err != nil {
			return storeError(err)
		}
		e.mu.Lock()
		e.stored, e.sized = max(e.stored, size), true
		e.mu.Unlock()
	}
	e.mu.Lock()
	stored := e.stored
	e.mu.Unlock()
	if err := e.limits.stored(0, stored); err != nil {
		return err
	}
	return nil
}

// send starts a turn with its own settings and rules; e.sending is held. A
// rejected prompt leaves the session's settings unchanged.
func (e *entry) send(ctx context.Context, in runnel.Input, set runnel.Settings, rules turnRules) error {
	e.govern(in.Turn, rules)
	_, err := e.session.SendWith(ctx, in, set)
	return err
}

// followed reports whether the session follows a process outside of Runnel that
// writes its conversation.
func (e *entry) followed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.writer != nil
}
