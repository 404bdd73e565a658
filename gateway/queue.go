package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/store"
)

// A QueuedPrompt is a prompt that waits until earlier turns have ended.
type QueuedPrompt struct {
	TurnID string `json:"turnId" doc:"Id of the prompt and of its future turn."`
	AboutPrompt
	QueuedAt time.Time `json:"queuedAt" doc:"When the prompt was queued."`
}

// AboutPrompt is what lists show of a queued prompt.
type AboutPrompt struct {
	Text      string   `json:"text" doc:"Text of the prompt. In lists and in the status of a session at most 240 bytes of it."`
	Truncated bool     `json:"truncated,omitempty" doc:"Whether text is only the beginning of the prompt's text."`
	Files     []string `json:"files,omitempty" doc:"Names of the files of the prompt: the first 20, each at most 100 bytes."`
}

const (
	queuedTextBytes = 240
	queuedFileNames = 20
	queuedNameBytes = 100
)

// aboutPrompt returns what lists show of a prompt.
func aboutPrompt(in runnel.Input) AboutPrompt {
	var a AboutPrompt
	a.Text, a.Truncated = text.Cut(in.Text, queuedTextBytes)
	for _, file := range in.Attachments[:min(len(in.Attachments), queuedFileNames)] {
		a.Files = append(a.Files, text.OneLine(file.Name, queuedNameBytes))
	}
	return a
}

func (a AboutPrompt) encode() json.RawMessage {
	data, _ := json.Marshal(a) // cannot fail: strings and a flag
	return data
}

// queueOf reads the queued prompts of a session from the catalogue.
func queueOf(ctx context.Context, cat store.Catalogue, session string) ([]QueuedPrompt, error) {
	list, err := cat.Queue(ctx, session)
	if err != nil {
		return nil, storeError(err)
	}
	out := make([]QueuedPrompt, len(list))
	for i, q := range list {
		out[i] = QueuedPrompt{TurnID: q.Turn, QueuedAt: q.At}
		if json.Unmarshal(q.About, &out[i].AboutPrompt) == nil {
			continue
		}
		p, err := readPrompt(ctx, cat, session, q.Turn) // an earlier version stored it
		if err != nil {
			return nil, err
		}
		out[i].AboutPrompt = aboutPrompt(p.Input)
	}
	return out, nil
}

// readPrompt reads a queued prompt. Its Input is empty if it cannot be decoded:
// its turn then ends with an error. If the prompt is not queued, readPrompt
// fails with PROMPT_GONE.
func readPrompt(ctx context.Context, cat store.Catalogue, session, turn string) (p queuedPrompt, err error) {
	input, err := cat.QueuedInput(ctx, session, turn)
	if errors.Is(err, store.ErrNotFound) {
		return p, promptGone(session, turn, false)
	}
	if err != nil {
		return p, storeError(err)
	}
	_ = json.Unmarshal(input, &p)
	p.Input.Turn = turn
	return p, nil
}

// promptGone returns the error for a prompt that is not queued.
func promptGone(session, turn string, begun bool) error {
	message := "this prompt no longer waits in the queue: it was removed, or it never was in this session; read the queue again"
	if begun {
		message = "this prompt no longer waits in the queue: its turn has started; send what you wanted to change as a new prompt"
	}
	return &runnel.Error{Code: runnel.PromptGone, Message: message, Details: map[string]any{"sessionId": session, "turnId": turn, "started": begun}}
}

// A Queue is the queue of a session.
type Queue struct {
	SessionID string         `json:"sessionId"`
	Held      bool           `json:"held" doc:"Whether the prompts wait until somebody continues the queue, also if no turn runs."`
	Prompts   []QueuedPrompt `json:"prompts" doc:"The queued prompts; the first one starts next."`
}

// Queues lists, changes, holds and continues the queues of the sessions of a
// Gateway. A held queue stays held when the server restarts.
type Queues struct{ g *Gateway }

// QueuesOf returns the queues of the sessions of g.
func QueuesOf(g *Gateway) Queues { return Queues{g} }

// Queue returns the queue of a session, without opening the session.
func (qs Queues) Queue(ctx context.Context, ref string) (Queue, error) {
	id, err := qs.g.importer.resolve(ctx, ref, "", false)
	if err != nil {
		return Queue{}, err
	}
	if e := qs.g.sessions.peek(id); e != nil {
		return e.queueNow(), nil
	}
	rec, err := qs.g.opener.record(ctx, id)
	if err != nil {
		return Queue{}, err
	}
	queued, err := queueOf(ctx, qs.g.cfg.Catalogue, id)
	return Queue{id, rec.QueueHeld && len(queued) > 0, queued}, err
}

// Prompt returns a queued prompt with its whole text, without opening the
// session. It fails with PROMPT_GONE if the prompt is not queued.
func (qs Queues) Prompt(ctx context.Context, ref, turn string) (QueuedPrompt, error) {
	id, err := qs.g.importer.resolve(ctx, ref, "", false)
	if err != nil {
		return QueuedPrompt{}, err
	}
	if _, err := qs.g.opener.record(ctx, id); err != nil {
		return QueuedPrompt{}, err
	}
	queued, err := queueOf(ctx, qs.g.cfg.Catalogue, id)
	if err != nil {
		return QueuedPrompt{}, err
	}
	at := slices.IndexFunc(queued, func(p QueuedPrompt) bool { return p.TurnID == turn })
	if at < 0 {
		return QueuedPrompt{}, qs.gone(ctx, id, turn)
	}
	p, err := readPrompt(ctx, qs.g.cfg.Catalogue, id, turn)
	if runnel.CodeOf(err) == runnel.PromptGone { // its turn has started since the queue was read
		err = qs.gone(ctx, id, turn)
	}
	if err != nil {
		return QueuedPrompt{}, err
	}
	found := queued[at]
	found.Text, found.Truncated = p.Input.Text, false
	return found, nil
}

// A PromptEdit is a change of a queued prompt. A nil field changes nothing.
type PromptEdit struct {
	Text   *string // its new text
	Before *string // the prompt before which it starts; "" moves it to the end of the queue

	Unattended bool // see Choice.Unattended
}

// Edit changes the text or the position of a queued prompt, and returns the
// queue. It fails with PROMPT_GONE, and changes nothing, if the prompt is not
// queued, for example because its turn has started. It fails with FORBIDDEN if
// an unattended client wants to change the text of a prompt whose own options
// let the agent act without asking.
func (qs Queues) Edit(ctx context.Context, ref, turn string, ed PromptEdit) (Queue, error) {
	e, err := qs.g.lock(ctx, ref)
	if err != nil {
		return Queue{}, err
	}
	defer qs.g.unlock(e)
	order, err := reordered(e.queuedNow(), turn, ed.Before)
	if err != nil {
		return Queue{}, err
	}
	if order == nil {
		return Queue{}, qs.gone(ctx, e.session.ID(), turn)
	}
	if ed.Text != nil {
		if err := qs.rewrite(ctx, e, turn, *ed.Text, ed.Unattended); err != nil {
			return Queue{}, err
		}
	}
	if ed.Before != nil {
		if err := qs.g.cfg.Catalogue.OrderQueue(ctx, e.session.ID(), order); err != nil {
			return Queue{}, storeError(err)
		}
		e.change(func() {
			e.queued = slices.Clone(e.queued)
			slices.SortFunc(e.queued, func(a, b QueuedPrompt) int {
				return cmp.Compare(slices.Index(order, a.TurnID), slices.Index(order, b.TurnID))
			})
		})
	}
	return e.queueNow(), nil
}

// reordered returns the order of a queue in which turn comes directly before
// another prompt, or the unchanged order if before is nil. It returns nil if
// turn is not queued.
func reordered(queue []QueuedPrompt, turn string, before *string) ([]string, error) {
	order := make([]string, len(queue))
	for i, p := range queue {
		order[i] = p.TurnID
	}
	from := slices.Index(order, turn)
	if from < 0 {
		return nil, nil
	}
	if before == nil || *before == turn {
		return order, nil
	}
	order = slices.Delete(order, from, from+1)
	to := len(order)
	if *before != "" {
		if to = slices.Index(order, *before); to < 0 {
			return nil, runnel.Fail(runnel.InvalidRequest, fmt.Sprintf("before: the prompt %q is not queued; read the queue again", *before))
		}
	}
	return slices.Insert(order, to, turn), nil
}

// rewrite replaces the text of a queued prompt; e.sending is held.
func (qs Queues) rewrite(ctx context.Context, e *entry, turn, text string, unattended bool) error {
	id := e.session.ID()
	p, err := readPrompt(ctx, qs.g.cfg.Catalogue, id, turn)
	if err != nil {
		return err
	}
	if err := runnel.CheckPrompt("content", text, len(p.Input.Attachments)+len(p.Input.Rejected)); err != nil {
		return err
	}
	if what := p.approves(); unattended && what != "" {
		return runnel.Fail(runnel.Forbidden, "content: this prompt was queued with "+what+", with which the agent may act without asking. To change its text needs the scope \"approve\", which this credential lacks; remove the prompt and send another one")
	}
	p.Input.Text = text
	data, err := json.Marshal(p)
	if err != nil {
		return runnel.Fail(runnel.InvalidRequest, "content: the prompt cannot be stored in the queue", err)
	}
	about := aboutPrompt(p.Input)
	if err := qs.g.cfg.Catalogue.Requeue(ctx, store.Queued{Session: id, Turn: turn, Input: data, About: about.encode()}); err != nil {
		return storeError(err)
	}
	e.change(func() {
		e.queued = slices.Clone(e.queued)
		for i := range e.queued {
			if e.queued[i].TurnID == turn {
				e.queued[i].AboutPrompt = about
			}
		}
	})
	return nil
}

// Remove removes a prompt from the queue of a session, and returns the queue.
// The prompt's turn never starts. Remove fails with PROMPT_GONE if the prompt
// is not queued.
func (qs Queues) Remove(ctx context.Context, ref, turn string) (Queue, error) {
	e, err := qs.g.lock(ctx, ref)
	if err != nil {
		return Queue{}, err
	}
	defer qs.g.unlock(e)
	queued := e.queuedNow()
	left := without(queued, turn)
	if len(left) == len(queued) {
		return Queue{}, qs.gone(ctx, e.session.ID(), turn)
	}
	if err := qs.g.cfg.Catalogue.Dequeue(ctx, e.session.ID(), turn); err != nil {
		return Queue{}, storeError(err)
	}
	e.change(func() { e.queued, e.rec.QueueHeld = left, e.rec.QueueHeld && len(left) > 0 })
	return e.queueNow(), nil
}

// Hold holds or continues the queue of a session, and returns the queue. An
// empty queue cannot be held.
func (qs Queues) Hold(ctx context.Context, ref string, held bool) (Queue, error) {
	e, err := qs.g.lock(ctx, ref)
	if err != nil {
		return Queue{}, err
	}
	defer qs.g.unlock(e)
	if err := qs.g.queue.hold(ctx, e, held); err != nil {
		return Queue{}, err
	}
	qs.g.queue.startIfWaiting(e)
	return e.queueNow(), nil
}

// Skip cancels the running turn like [Gateway.Cancel], but continues the queue
// instead of holding it.
func (qs Queues) Skip(ctx context.Context, ref string) error {
	return qs.cancel(ctx, ref, func(e *entry) error {
		err := qs.g.queue.hold(ctx, e, false)
		qs.g.queue.startIfWaiting(e)
		return err
	})
}

// CancelTurn cancels a turn if it is the running one. It neither holds nor
// continues the queue.
func (qs Queues) CancelTurn(ctx context.Context, ref, turn string) error {
	st, err := qs.g.Status(ctx, ref)
	if err != nil || st.TurnID != turn {
		return err
	}
	return qs.cancel(ctx, ref, func(*entry) error { return nil })
}

// cancel asks the agent to end the running turn. It first calls prepare, whose
// error it returns in the end.
func (qs Queues) cancel(ctx context.Context, ref string, prepare func(*entry) error) error {
	e, err := qs.g.opened(ctx, ref)
	if e == nil || err != nil {
		return err
	}
	defer qs.g.sessions.release(e)
	if err := qs.g.follows.checkCancel(e); err != nil {
		return err
	}
	unprepared := prepare(e)
	if err := e.session.Cancel(ctx); err != nil {
		return err
	}
	return unprepared
}

// gone returns the error for a prompt that is not queued.
func (qs Queues) gone(ctx context.Context, session, turn string) error {
	places, err := qs.g.cfg.Catalogue.TurnLocations(ctx, turn)
	if err != nil {
		return storeError(err)
	}
	begun := slices.ContainsFunc(places, func(l store.TurnLocation) bool { return l.Session == session && !l.Waiting })
	return promptGone(session, turn, begun)
}

// hold sets whether the queue of a session is held. It returns once that
// survives a crash. An empty queue stays as it is.
func (q *promptQueue) hold(ctx context.Context, e *entry, held bool) error {
	e.mu.Lock()
	change := e.rec.QueueHeld != held && len(e.queued) > 0
	if change {
		e.rec.QueueHeld = held
	}
	e.mu.Unlock()
	if !change {
		return nil
	}
	e.feed.touch(e.rec.ID)
	err := e.records.write(context.WithoutCancel(ctx), e)
	if err != nil {
		q.log.LogAttrs(ctx, slog.LevelWarn, "change of a queue not stored", slog.String("session", e.rec.ID), slog.Bool("held", held), slog.String("error", err.Error()))
		e.records.mark(e, true) // it is stored later, unless the server ends before
	}
	return err
}

// stop holds the queue because a client stops the running turn. It does not
// wait for e.sending. A prompt whose turn is about to start is stopped when it
// has started.
func (q *promptQueue) stop(ctx context.Context, e *entry) error {
	e.mu.Lock()
	e.stops++
	e.mu.Unlock()
	return q.hold(ctx, e, true)
}

// held reports whether the queue is held, and how often a client has stopped
// the turn and held the queue.
func (e *entry) held() (held bool, stops int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rec.QueueHeld, e.stops
}

// queuedNow returns the queued prompts. The caller must not change the slice.
func (e *entry) queuedNow() []QueuedPrompt {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.queued
}

func (e *entry) queueNow() Queue {
	e.mu.Lock()
	defer e.mu.Unlock()
	return Queue{e.rec.ID, e.rec.QueueHeld, append([]QueuedPrompt{}, e.queued...)}
}

// without returns a queue without one of its prompts.
func without(queue []QueuedPrompt, turn string) []QueuedPrompt {
	return slices.DeleteFunc(slices.Clone(queue), func(p QueuedPrompt) bool { return p.TurnID == turn })
}
