package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	_ "modernc.org/sqlite" // marks the turns as compacted

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/store"
	"github.com/runnel-dev/runnel/store/sqlite"
)

// A filler writes sessions into the data directory of a server that does not
// run. It writes what the server would have written after their turns have
// ended and their deltas were removed.
type filler struct {
	store   *sqlite.Store
	dir     string // data directory
	project string // directory of the sessions
	start   time.Time
}

func newFiller(ctx context.Context, dir, project string) (*filler, error) {
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: dir, CompactAfter: -1})
	return &filler{s, dir, project, time.Now().Add(-24 * time.Hour).UTC()}, err
}

// close closes the store. It first marks every turn that has ended as
// compacted, so that the server does not look for deltas to remove.
func (f *filler) close() error {
	if err := f.store.Close(); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", filepath.Join(f.dir, "runnel.db"))
	if err != nil {
		return err
	}
	_, err = db.Exec("UPDATE turns SET compacted = 1 WHERE end_seq IS NOT NULL; PRAGMA optimize; PRAGMA wal_checkpoint(TRUNCATE)")
	return errors.Join(err, db.Close())
}

// sessions adds n sessions with a short conversation each.
func (f *filler) sessions(ctx context.Context, n int) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(64) // the store commits the records of concurrent callers together
	for i := range n {
		work.Go(func() error {
			id := fmt.Sprintf("01990000-0000-7000-8000-%012d", i)
			if err := f.record(ctx, id, i); err != nil {
				return err
			}
			c := conversing{f: f, id: id}
			c.turn(1)
			return c.flush(ctx)
		})
	}
	return work.Wait()
}

// record adds the record of a session.
func (f *filler) record(ctx context.Context, id string, i int) error {
	at := f.start.Add(time.Duration(i) * time.Second)
	err := f.store.PutSession(ctx, store.Session{
		ID: id, CLIType: "claude-code", ProjectID: fmt.Sprintf("%016x", i%20), ProjectDir: fmt.Sprintf("%s/%d", f.project, i%20),
		Title: fmt.Sprintf("Session %d: make the tests of the parser pass again", i), AgentSessionID: "agent-" + id, ModelID: "claude-sonnet-4-5",
		PermissionMode: "default", Options: json.RawMessage(`{"model":"claude-sonnet-4-5","delegation":"agent"}`), State: event.StateOpen,
		LastTurn: event.StatusCompleted, LastLine: "All tests of the parser pass now, and the two that were flaky wait for the event itself.",
		CreatedAt: at, LastActiveAt: at, BootedAt: at, BootFingerprint: strings.Repeat("0123456789abcdef", 4),
	})
	if err == nil {
		err = f.store.PutReport(ctx, id, store.Report{Config: json.RawMessage("null"), Files: json.RawMessage("null")})
	}
	return err
}

// long adds a session with at least this many events, in turns with about
// perTurn events each.
func (f *filler) long(ctx context.Context, id string, events, perTurn int) error {
	if err := f.record(ctx, id, 0); err != nil {
		return err
	}
	c := conversing{f: f, id: id}
	for int(c.seq) < events {
		c.turn(min(perTurn, events-int(c.seq)) / callEvents)
		if err := c.flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// A conversing writes the events of one session.
type conversing struct {
	f      *filler
	id     string
	seq    int64
	stored int64
	turns  int
	evs    []event.Event
	err    error
}

// callEvents is how many events of a turn belong to each call of a tool, with
// the message that precedes it.
const callEvents = 6

// turn adds a turn with this many calls.
func (c *conversing) turn(calls int) {
	c.turns++
	turn := fmt.Sprintf("01990000-0000-7000-9000-%012d", c.turns)
	say := func(body event.Body) {
		c.seq++
		c.evs = append(c.evs, event.Event{Session: c.id, Turn: turn, Seq: c.seq, At: c.f.start.Add(time.Duration(c.seq) * time.Millisecond), Body: body})
	}
	message := func(id, text string, origin event.Origin) {
		say(event.ItemStart{ItemID: id, ItemType: event.TypeMessage})
		say(event.ItemDone{ItemID: id, FinalItem: event.Message{Content: text, Origin: origin}})
	}
	message(turn+":0:0", "Please make the tests of the parser pass again.", event.OriginUser)
	say(event.ResponseStart{ModelID: "claude-sonnet-4-5", ProviderID: "claude-code"})
	for i := range calls {
		item, call := fmt.Sprintf("%s:%d", turn, i+1), fmt.Sprintf("%s:toolu_%d", turn, i)
		message(item+":0", fmt.Sprintf("I look at part %d of the parser and at what its test expects.", i), event.OriginAgent)
		say(event.ItemStart{ItemID: item + ":1", ItemType: event.TypeFunctionCall, CallID: call, Name: "Bash"})
		say(event.ItemDone{ItemID: item + ":1", FinalItem: event.FunctionCall{
			Name: "Bash", CallID: call, Arguments: json.RawMessage(fmt.Sprintf(`{"command":"go test ./parser -run Part%d"}`, i)), Kind: event.KindExecute,
		}})
		say(event.ItemStart{ItemID: item + ":1:output", ItemType: event.TypeFunctionCallOutput, CallID: call})
		say(event.ItemDone{ItemID: item + ":1:output", FinalItem: event.FunctionCallOutput{CallID: call, Output: "ok  \tparser\t0.012s\n"}})
		if len(c.evs) >= 1000 {
			c.err = errors.Join(c.err, c.write(context.Background()))
		}
	}
	say(event.ResponseDone{Status: event.StatusCompleted, Usage: &event.Usage{InputTokens: 1200, OutputTokens: 80}})
}

// flush writes the events that were added.
func (c *conversing) flush(ctx context.Context) error {
	return errors.Join(c.err, c.write(ctx))
}

func (c *conversing) write(ctx context.Context) error {
	err := c.f.store.Append(ctx, c.id, c.stored, c.evs...)
	c.stored, c.evs = c.seq, c.evs[:0]
	return err
}
