// Package once has a request that a client repeats do its work only once: the
// repeated request gets the answer of the first one, also after a restart.
//
// A client marks requests that are the same with an Idempotency-Key, or with an
// id that it chose for a turn. What a request binds, a session or a turn, is
// recorded before it exists. If the server dies between the two, the session or
// the log decides what the repeated request finds.
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

// Kept is how long the answer to a request with an Idempotency-Key is kept. The
// answer to one with a turn's id is kept as long as the session.
const Kept = 24 * time.Hour

// patience bounds how long a repeated request waits for the first one.
const patience = time.Minute

// ErrConflict means that a key or a turn's id belongs to another request.
var ErrConflict = errors.New("once: the key belongs to another request")

// A Request says which requests are the same: those with equal credential and
// key, and those with an equal turn. A request with neither is never repeated.
type Request struct {
	Credential string   // id of the sender's credential
	Key        string   // Idempotency-Key. Default: none
	Turn       string   // id that the client chose for the turn. Default: none
	Digest     [32]byte // of what is asked for: requests that are the same ask for the same
}

// A Binding is what a request binds: the session that it makes, or its turn and
// the session of that turn.
type Binding struct {
	Session string // at the beginning of run: what an earlier run bound; empty if there was none
	Turn    string

	requests *Requests
	rows     []store.Request
	written  bool        // this run has recorded what it binds
	detach   func() bool // has the run go on without its client; false: the client has gone, and the run ends
}

// An Answer is what a client gets.
type Answer struct {
	Body     json.RawMessage
	Session  string // what the request bound
	Turn     string
	Replayed bool // the first request got the same
}

// Requests answers requests. Its methods may be called concurrently.
type Requests struct {
	store store.Requests
	log   *slog.Logger

	mu      sync.Mutex
	running map[id]*flight
}

type id struct{ credential, key string }

// A flight is a request that has not been answered yet.
type flight struct {
	digest [32]byte
	done   chan struct{} // closed once answer and err are set
	answer Answer
	err    error
}

// New returns Requests that are kept in s.
func New(s store.Requests, log *slog.Logger) *Requests {
	return &Requests{store: s, log: log, running: make(map[id]*flight)}
}

// Do returns the answer to a request. The first such request calls run, which
// calls [Binding.Bind] when nothing but the work itself can fail any more.
// Until then its context ends with ctx, so that nothing is held for a client
// that has gone; from then on it does not, so that a client that disconnects
// leaves nothing half done. A request that comes meanwhile waits for it, and
// later ones get its answer. If run fails, what it bound must not exist, unless
// the store failed: then the next request runs again.
//
// Do fails with ErrConflict if the key or the turn belongs to a request with
// another digest.
func (r *Requests) Do(ctx context.Context, req Request, run func(ctx context.Context, b *Binding) (body any, err error)) (Answer, error) {
	ids := req.ids()
	if len(ids) == 0 {
		return answer(ctx, new(Binding), run)
	}
	for {
		f, same := r.enter(ids, req.Digest)
		switch {
		case same != nil && f.digest != req.Digest:
			return Answer{}, conflict(*same)
		case same != nil:
			a, err := f.wait(ctx)
			if errors.Is(err, errLeft) {
				continue
			}
			return a, err
		}
		defer r.leave(ids, f)
		f.answer, f.err = r.first(ctx, req, ids, run)
		return f.answer, f.err
	}
}

// errLeft means that the client of the first request disconnected before the
// request bound anything.
var errLeft = fmt.Errorf("once: the client disconnected: %w", context.Canceled)

// ids returns what the request is known by.
func (req Request) ids() (ids []id) {
	if req.Key != "" {
		ids = append(ids, id{req.Credential, req.Key})
	}
	if req.Turn != "" {
		ids = append(ids, id{"", req.Turn})
	}
	return ids
}

// enter returns the flight of a request that is known by one of these ids, and
// that id, or begins a flight.
func (r *Requests) enter(ids []id, digest [32]byte) (f *flight, same *id) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range ids {
		if f := r.running[i]; f != nil {
			return f, &i
		}
	}
	f = &flight{digest: digest, done: make(chan struct{}), err: runnel.Fail(runnel.Internal, "the first request failed; send it again")}
	for _, i := range ids {
		r.running[i] = f
	}
	return f, nil
}

func (r *Requests) leave(ids []id, f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range ids {
		delete(r.running, i)
	}
	close(f.done)
}

func (f *flight) wait(ctx context.Context) (Answer, error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-f.done:
		f := *f // others read it, too
		f.answer.Replayed = f.err == nil
		return f.answer, f.err
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	case <-late.C:
		return Answer{}, runnel.Fail(runnel.Timeout, fmt.Sprintf("the first request has not been answered within %v; send it again, unchanged", patience))
	}
}

// first answers a request that is not being answered already, of a client that
// is there until the end of client.
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
	if err := b.put(ctx, a.Body); err != nil { // a repeated request runs again, and finds what is bound
		r.log.LogAttrs(ctx, slog.LevelWarn, "the answer to a request was not kept", slog.String("error", err.Error()))
	}
	return a, nil
}

// answer returns the answer of run.
func answer(ctx context.Context, b *Binding, run func(context.Context, *Binding) (any, error)) (Answer, error) {
	body, err := run(ctx, b)
	if err != nil {
		return Answer{}, err
	}
	data, err := json.Marshal(body)
	return Answer{Body: data, Session: b.Session, Turn: b.Turn}, err
}

// Bind records what the request binds: it returns once that is durable. A nil
// Binding records nothing.
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

// forget removes what run recorded before it failed with cause, so that a
// corrected request may follow. If the store failed, the turn may be in the log
// all the same: then the record stays.
func (b *Binding) forget(ctx context.Context, cause error) {
	if code := runnel.CodeOf(cause); !b.written || code == runnel.StoreUnavailable || code == runnel.Internal {
		return
	}
	for _, row := range b.rows {
		if err := b.requests.store.DeleteRequest(ctx, row.Credential, row.Key); err != nil {
			b.requests.log.LogAttrs(ctx, slog.LevelWarn, "a request that failed was not forgotten", slog.String("error", err.Error()))
		}
	}
}

// Prune removes the answers that have been kept long enough at now.
func (r *Requests) Prune(ctx context.Context, now time.Time) error {
	return r.store.PruneRequests(ctx, now.Add(-Kept))
}

func conflict(i id) error {
	if i.credential == "" {
		return TurnConflict(i.key)
	}
	return runnel.Fail(runnel.InvalidRequest, "this Idempotency-Key was used for another request in the last 24 hours; use a new key for each request", ErrConflict)
}

// TurnConflict is the error for a turn's id that belongs to another turn.
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
