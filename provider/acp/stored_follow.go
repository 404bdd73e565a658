package acp

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/agentconn"
	"github.com/runnel-dev/runnel/internal/translate"
)

// A storedFollowing translates a conversation again each time it has changed,
// and returns the events that it did not return before. A change may replace an
// earlier part of the conversation, so the new parts alone do not suffice.
type storedFollowing struct {
	source followed
	given  map[string]int // returned events
	end    []event.Event  // of the last turn
	unread bool           // the last change could not be read
}

// A followed is where a storedFollowing reads a conversation.
type followed interface {
	// hasChanged reports whether the conversation has changed since the last
	// call. The first call reports true.
	hasChanged(ctx context.Context) (bool, error)

	// events returns the events of the conversation as far as the agent will not
	// change them. For end see [readable.read].
	events(ctx context.Context) (evs, end []event.Event, err error)

	// rest returns all events, after the agent has stopped.
	rest() (evs, end []event.Event, err error)
}

func follow(source followed) *storedFollowing {
	return &storedFollowing{source: source, given: map[string]int{}}
}

// Next implements [runnel.Following].
func (f *storedFollowing) Next(ctx context.Context) ([]event.Event, error) {
	changed, err := f.source.hasChanged(ctx)
	if err != nil || !changed && !f.unread {
		return nil, err
	}
	evs, end, err := f.source.events(ctx)
	f.unread = err != nil
	if runnel.CodeOf(err) == runnel.AgentError {
		return nil, nil // the agent's database may be readable later
	}
	if err != nil {
		return nil, err
	}
	f.end = end
	return f.fresh(evs), nil
}

// fresh returns the events that were not returned before.
func (f *storedFollowing) fresh(evs []event.Event) []event.Event {
	given := make(map[string]int)
	evs = translate.NewEvents(evs, f.given, given)
	f.given = given
	return evs
}

// Finish implements [runnel.Following].
func (f *storedFollowing) Finish() []event.Event {
	evs, end, err := f.source.rest()
	if err != nil {
		return f.end
	}
	return append(f.fresh(evs), end...)
}

// Close implements [runnel.Following].
func (f *storedFollowing) Close() {}

// Follow implements [runnel.Follower].
func (f readable) Follow(ctx context.Context, ref runnel.Conversation) (runnel.Following, error) {
	c, err := f.locate(ctx, ref)
	if err != nil {
		return nil, err
	}
	return follow(&followedFile{file: agentconn.FollowFile(ctx, c, f.Find), id: c.AgentSessionID, files: f, pictures: ref.Pictures}), nil
}

// Follow implements [runnel.Follower].
func (f searchable) Follow(ctx context.Context, ref runnel.Conversation) (runnel.Following, error) {
	return readable(f).Follow(ctx, ref)
}

// A followedFile is a conversation in a file.
type followedFile struct {
	files    readable
	id       string
	file     agentconn.FollowedFile
	pictures func(data []byte) // see runnel.Conversation
}

func (f *followedFile) hasChanged(context.Context) (bool, error) {
	changed, err := f.file.HasChanged()
	if err != nil {
		err = runnel.Fail(runnel.SessionNotFound, "the conversation's file is gone", err)
	}
	return changed, err
}

func (f *followedFile) events(ctx context.Context) (evs, end []event.Event, err error) {
	return f.files.read(ctx, f.id, f.file.Path, f.pictures)
}

func (f *followedFile) rest() (evs, end []event.Event, err error) {
	return f.events(context.Background())
}

// Follow implements [runnel.Follower].
func (k kept) Follow(ctx context.Context, ref runnel.Conversation) (runnel.Following, error) {
	if _, err := k.Find(ctx, ref.AgentSessionID); err != nil {
		return nil, err
	}
	return follow(&followedRow{database: k, ref: ref}), nil
}

// A followedRow is a conversation in a database.
type followedRow struct {
	database kept
	ref      runnel.Conversation
	files    [2]databaseFile // at the last call of hasChanged
	state    rowState        // of the conversation at that time
}

// A rowState identifies a state of a conversation.
type rowState struct{ updated, messages, parts, size int64 }

// A databaseFile identifies a state of a file of a database.
type databaseFile struct {
	size int64
	at   time.Time
}

// hasChanged first compares the states of the database's files, because a query
// costs more.
func (f *followedRow) hasChanged(ctx context.Context) (bool, error) {
	files := f.database.fileStates()
	if files == f.files && time.Since(files[0].at) > fileTick && time.Since(files[1].at) > fileTick {
		return false, nil
	}
	state, err := f.database.stateOf(ctx, f.ref.AgentSessionID)
	if runnel.CodeOf(err) == runnel.AgentError {
		return false, nil // it may be readable later
	}
	if err != nil {
		return false, err
	}
	changed := state != f.state
	f.files, f.state = files, state
	return changed, nil
}

// fileTick is longer than the steps in which file systems count time: a file
// with an older time of change has not changed since.
const fileTick = 3 * time.Second

func (k kept) fileStates() (states [2]databaseFile) {
	for i, end := range []string{"", "-wal"} {
		if st, err := os.Stat(k.path() + end); err == nil {
			states[i] = databaseFile{st.Size(), st.ModTime()}
		}
	}
	return states
}

// stateOf returns the state of a conversation.
func (k kept) stateOf(ctx context.Context, id string) (state rowState, err error) {
	found := false
	err = k.read(ctx, func(ctx context.Context, db *sql.DB) error {
		err := db.QueryRowContext(ctx, `SELECT time_updated FROM session WHERE id = ?`, id).Scan(&state.updated)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		found = true
		return errors.Join(err, db.QueryRowContext(ctx, `
			SELECT max(m.at), max(p.at), m.size + p.size FROM
				(SELECT coalesce(max(time_updated), 0) AS at, coalesce(sum(octet_length(data)), 0) AS size FROM message WHERE session_id = ?1) m,
				(SELECT coalesce(max(time_updated), 0) AS at, coalesce(sum(octet_length(data)), 0) AS size FROM part WHERE session_id = ?1) p`,
			id).Scan(&state.messages, &state.parts, &state.size))
	})
	if err == nil && !found {
		err = runnel.Fail(runnel.SessionNotFound, "the conversation is gone", fs.ErrNotExist)
	}
	return state, err
}

func (f *followedRow) events(ctx context.Context) (evs, end []event.Event, err error) {
	return f.read(ctx, true)
}

func (f *followedRow) rest() (evs, end []event.Event, err error) {
	return f.read(context.Background(), false)
}

// read translates the conversation, or as far as the agent has finished it.
func (f *followedRow) read(ctx context.Context, onlyFinal bool) (evs, end []event.Event, err error) {
	updates, err := f.database.updates(ctx, f.ref, onlyFinal)
	if err != nil {
		return nil, nil, err
	}
	return f.database.of.replayed(ctx, f.ref.AgentSessionID, updates, f.ref.Pictures)
}
