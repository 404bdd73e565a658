// Package once makes requests idempotent: a repeated request gets the answer of
// the first one instead of doing its work again, even after a restart.
//
// A client marks repeated requests with the same Idempotency-Key, or with the
// same client-chosen turn id. Before a request creates its session or turn, the
// id of that session or turn is recorded: the request binds it. If the server
// dies between the two steps, the repeated request checks whether the session
// or the turn exists.
package once

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/store"
)

// Kept is how long the answer to a request with an Idempotency-Key is stored.
// The answer to a request with a turn id is stored as long as the session.
const Kept = 24 * time.Hour

// repeatTimeout limits how long a repeated request waits for the first one.
const repeatTimeout = time.Minute

// ErrConflict means that an Idempotency-Key or a turn id was used for another
// request.
var ErrConflict = errors.New("once: the key belongs to another request")

// A Request identifies a request. Two requests are the same if their credential
// and key are equal, or if their turn is equal. A request with neither key nor
// turn is never a repetition.
type Request struct {
	Credential string   // id of the client's credential
	Key        string   // Idempotency-Key. Default: none
	Turn       string   // turn id that the client chose. Default: none
	Digest     [32]byte // hash of the content; the same requests must have the same content
}

// A Binding is what a request binds: the new session that it creates, or else
// the new turn and the session of that turn.
type Binding struct {
	Session string // session. When run starts: the one that an earlier run bound, or ""
	Turn    string

	requests *Requests
	rows     []store.Request
	written  bool        // this run has recorded its binding
	detach   func() bool // lets the run continue after its client has left; false: the client has already left, and the run ends
}

// An Answer is the answer to a request.
type Answer struct {
	Body     json.RawMessage
	Session  string // session that the request bound
	Turn     string
	Replayed bool // the answer is that of an earlier, identical request
}

// Requests answers requests that clients may repeat. Its methods may be called
// concurrently.
type Requests struct {
	store store.Requests
	log   *slog.Logger

	mu      sync.Mutex
	running map[id]*call
}

type id struct{ credential, key string }

// A call is a request that is being answered.
type call struct {
	digest [32]byte
	done   chan struct{} // closed once answer and err are set
	answer Answer
	err    error
}

// New returns a Requests that stores its answers in s.
func New(s store.Requests, log *slog.Logger) *Requests {
	return &Requests{store: s, log: log, running: make(map[id]*call)}
}

// Do returns the answer to a request. The first of several identical requests
// calls run. Concurrent identical requests wait for it, and later ones get its
// stored answer.
//
// run calls [Binding.Bind] after all checks, when only the work itself can
// still fail. Until then the context of run ends with ctx, so that an absent
// client holds no resources. From then on it does not end with ctx, so that a
// client that disconnects leaves no work half done.
//
// If run returns an error, the session or turn that it bound must not exist,
// except if the store failed; the next identical request then calls run again.
//
// Do fails with ErrConflict if the key or the turn was used for a request with
// another digest.
func (r *Requests) Do(ctx context.Context, req Request, run func(ctx context.Context, b *Binding) (body any, err error)) (Answer, error) {
	ids := req.ids()
	if len(ids) == 0 {
		return answer(ctx, new(Binding), run)
	}
	for {
		c, same := r.begin(ids, req.Digest)
		switch {
		case same != nil && c.digest != req.Digest:
			return Answer{}, conflict(*same)
		case same != nil:
			a, err := c.wait(ctx)
			if errors.Is(err, errLeft) {
				continue
			}
			return a, err
		}
		defer r.finish(ids, c)
		c.answer, c.err = r.first(ctx, req, ids, run)
		return c.answer, c.err
	}
}

// errLeft means that the client of the first request disconnected before the
// request had bound anything.
var errLeft = fmt.Errorf("once: the client disconnected: %w", context.Canceled)

// ids returns the keys under which the request is stored.
func (req Request) ids() (ids []id) {
	if req.Key != "" {
		ids = append(ids, id{req.Credential, req.Key})
	}
	if req.Turn != "" {
		ids = append(ids, id{"", req.Turn})
	}
	return ids
}

// begin returns the running call that has one of these ids, and that id. If
// there is none, it adds a new call and returns no id.
func (r *Requests) begin(ids []id, digest [32]byte) (c *call, same *id) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range ids {
		if c := r.running[i]; c != nil {
			return c, &i
		}
	}
	c = &call{digest: digest, done: make(chan struct{}), err: runnel.Fail(runnel.Internal, "the first request failed; send it again")}
	for _, i := range ids {
		r.running[i] = c
	}
	return c, nil
}

func (r *Requests) finish(ids []id, c *call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range ids {
		delete(r.running, i)
	}
	close(c.done)
}

func (c *call) wait(ctx context.Context) (Answer, error) {
	late := time.NewTimer(repeatTimeout)
	defer late.Stop()
	select {
	case <-c.done:
		c := *c // a copy, because other waiting requests read c, too
		c.answer.Replayed = c.err == nil
		return c.answer, c.err
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	case <-late.C:
		return Answer{}, runnel.Fail(runnel.Timeout, fmt.Sprintf("the first request has not been answered within %v; send it again, unchanged", repeatTimeout))
	}
}

// first answers a request for which no other call is running. It returns the
// stored answer if there is one, and otherwise calls run. client is the context
// of the request; it ends when the client disconnects.
func (r *Requests) first(client context.Context, req Request, ids []id, run func(context.Context, *Binding) (any, error)) (Answer, error) {
	ctx := context.WithoutCancel(client)
	running, end := context.WithCancelCause(ctx)
	defer end(nil)
	b := &Binding{requests: r, detach: context.AfterFunc(client, func() { end(errLeft) })}
	defer b.detach()
	now := time.Now().UTC()
	for _, i := range ids {
		b.rows = append(b.rows, store.Request{Credential: i.credential, Key: i.key, Digest: req.Digest, At: now})
		row, err := r.store.Request(ctx, i.credential, i.key)
		switch {
		case errors.Is(err, store.ErrNotFound), err == nil && i.credential != "" && now.Sub(row.At) > Kept:
		case err != nil:
			return Answer{}, unavailable(err)
		case row.Digest != req.Digest:
			return Answer{}, conflict(i)
		case row.Answer != nil:
			return Answer{row.Answer, row.Session, row.Turn, true}, nil
		default:
			b.Session, b.Turn = row.Session, row.Turn
		}
	}
	a, err := answer(running, b, run)
	if err != nil {
		if cause := context.Cause(running); cause != nil {
			err = cause
		}
		b.forget(ctx, err)
		return Answer{}, err
	}
	if err := b.put(ctx, a.Body); err != nil { // a repeated request calls run again, which finds the bound session or turn
		r.log.LogAttrs(ctx, slog.LevelWarn, "the response to a request was not stored", slog.String("error", err.Error()))
	}
	return a, nil
}

// answer calls run and returns its result as an Answer.
func answer(ctx context.Context, b *Binding, run func(context.Context, *Binding) (any, error)) (Answer, error) {
	body, err := run(ctx, b)
	if err != nil {
		return Answer{}, err
	}
	data, err := json.Marshal(body)
	return Answer{Body: data, Session: b.Session, Turn: b.Turn}, err
}

// Bind durably records the session and the turn that the request is about to
// create. The caller creates them after Bind has returned. A nil Binding
// records nothing.
func (b *Binding) Bind(ctx context.Context, session, turn string) error {
	if b == nil {
		return nil
	}
	b.Session, b.Turn = session, turn
	if len(b.rows) == 0 {
		return nil
	}
	if !b.written && !b.detach() {
		return errLeft
	}
	b.written = true
	return b.put(ctx, nil)
}

func (b *Binding) put(ctx context.Context, body json.RawMessage) error {
	for i := range b.rows {
		b.rows[i].Session, b.rows[i].Turn, b.rows[i].Answer = b.Session, b.Turn, body
	}
	if err := b.requests.store.PutRequests(ctx, b.rows...); err != nil {
		return unavailable(err)
	}
	return nil
}

// forget removes the record of a run that failed with cause, so that the client
// can send a corrected request with the same key. If the store failed, the turn
// may be in the log, so forget keeps the record.
func (b *Binding) forget(ctx context.Context, cause error) {
	if code := runnel.CodeOf(cause); !b.written || code == runnel.StoreUnavailable || code == runnel.Internal {
		return
	}
	for _, row := range b.rows {
		if err := b.requests.store.DeleteRequest(ctx, row.Credential, row.Key); err != nil {
			b.requests.log.LogAttrs(ctx, slog.LevelWarn, "the record of a failed request was not removed", slog.String("error", err.Error()))
		}
	}
}

// Prune removes the answers with an Idempotency-Key that are older than Kept at
// now.
func (r *Requests) Prune(ctx context.Context, now time.Time) error {
	return r.store.PruneRequests(ctx, now.Add(-Kept))
}

func conflict(i id) error {
	if i.credential == "" {
		return TurnConflict(i.key)
	}
	return runnel.Fail(runnel.InvalidRequest, "this Idempotency-Key was used for another request in the last 24 hours; use a new key for each request", ErrConflict)
}

// TurnConflict returns the error for a turn id that belongs to another turn.
func TurnConflict(turn string) error {
	return &runnel.Error{
		Code: runnel.InvalidRequest, Message: "turnId: this id belongs to a turn that another request began; use a new id for each turn",
		Details: map[string]string{"turnId": turn}, Err: ErrConflict,
	}
}

func unavailable(err error) error {
	if e, ok := errors.AsType[*runnel.Error](err); ok {
		return e
	}
	return runnel.Fail(runnel.StoreUnavailable, "the server cannot read or write its data now; see its log", err)
}
