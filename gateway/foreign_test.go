package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/provider/claude"
	"github.com/runnel-dev/runnel/provider/script"
	"github.com/runnel-dev/runnel/store"
)

// locating is a keeper whose conversations can be found without its agent.
type locating struct{ *keeper }

func (f locating) Find(_ context.Context, id string) (runnel.Conversation, error) {
	for _, c := range f.kept {
		if c.AgentSessionID == id {
			return c, nil
		}
	}
	return runnel.Conversation{}, NotFound(id)
}

// reporting is the connection of an agent that reports an id before its first
// turn.
type reporting struct {
	runnel.Conn
	id string
}

func (r *reporting) Next(ctx context.Context) (event.Event, error) {
	if id := r.id; id != "" {
		r.id = ""
		return event.Event{Body: event.SessionUpdated{AgentSessionID: id}}, nil
	}
	return r.Conn.Next(ctx)
}

// An agent can report the id of another project's conversation as its own. The
// server must not copy that conversation into the agent's session, which a token
// for its project can read, and must not hide it.
func TestReportedConversationOfAnotherProjectIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(t)
		k := newKeeper(d)
		k.kept[0].Dir = t.TempDir()
		k.history = turnWith(derived("1"), "a secret prompt", "a secret answer")
		k.open = func(o runnel.Options) (runnel.Conn, error) {
			c, err := script.New().Open(context.Background(), o)
			return &reporting{Conn: c, id: "abc"}, err
		}
		g := d.open(t, func(c *Config) { c.Providers = []runnel.Provider{locating{k}} })
		defer closeIt(t, g)
		st, err := g.Create(t.Context(), "script", d.dir, runnel.Options{}, "")
		if err != nil {
			t.Fatal(err)
		}
		id := st.SessionID
		synctest.Wait()
		if st, err := g.Status(t.Context(), id); err != nil || st.AgentSessionID != "abc" {
			t.Fatalf("%+v, %v", st, err)
		}
		load(t, g, id)
		synctest.Wait()
		if shown := d.shown(t, id); slices.ContainsFunc(shown, func(s string) bool { return strings.Contains(s, "secret") }) {
			t.Errorf("the log has %q", shown)
		}
		if what, err := HousekeepingOf(g).Delete(t.Context(), id); err != nil || what.Transcript != nil && what.Transcript.Path != "" {
			t.Errorf("%+v, %v", what.Transcript, err)
		}
		if g.hidden.isHidden("script:abc") {
			t.Error("the other conversation is hidden")
		}
	})
}

// Another project can have the newest file of a conversation that is also stored
// for the session's own project. A client that names a file of the conversation
// must not receive that file instead of the own one.
func TestLoadedFileOfAnotherProjectIsNotRead(t *testing.T) {
	home, other, id := t.TempDir(), canonical(t.TempDir()), uuid.NewString()
	t.Setenv("CLAUDE_CONFIG_DIR", home)
	d := newDisk(t)
	write := func(dir, prompt string, at time.Time) string {
		file := filepath.Join(home, "projects", regexp.MustCompile("[^a-zA-Z0-9]").ReplaceAllString(dir, "-"), id+".jsonl")
		line := fmt.Sprintf(`{"type":"user","uuid":%q,"sessionId":%q,"cwd":%q,"promptSource":"sdk","timestamp":"2026-01-02T03:04:05Z","message":{"role":"user","content":%q}}`+"\n", uuid.NewString(), id, dir, prompt)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(line), 0o600), os.Chtimes(file, at, at)); err != nil {
			t.Fatal(err)
		}
		return file
	}
	now := time.Now().Add(-time.Hour)
	own := write(d.dir, "an own prompt", now.Add(-time.Hour))
	foreign := write(other, "a secret prompt", now)
	rec := store.Session{ID: uuid.NewString(), CLIType: "claude-code", ProjectID: ProjectID(d.dir), ProjectDir: d.dir, AgentSessionID: id, State: event.StateOpen, CreatedAt: now, LastActiveAt: now}
	if err := d.cat.PutSession(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	g := d.open(t, func(c *Config) { c.Providers = []runnel.Provider{claude.New()} })
	defer closeIt(t, g)
	for _, file := range []string{own, foreign} {
		if _, err := g.Load(t.Context(), rec.ID, file); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	var logged strings.Builder
	for ev, err := range d.log.Read(t.Context(), rec.ID, 0) {
		data, failed := json.Marshal(ev)
		if err = errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		logged.Write(data)
	}
	if log := logged.String(); strings.Contains(log, "secret") || !strings.Contains(log, "an own prompt") {
		t.Errorf("the log has %s", log)
	}
}

// unreadable is a locating keeper whose conversations cannot be found while
// fails is set, and that fails if ctx has ended.
type unreadable struct {
	locating
	fails    error
	searches atomic.Int64
}

func (u *unreadable) Find(ctx context.Context, id string) (runnel.Conversation, error) {
	u.searches.Add(1)
	if err := errors.Join(u.fails, ctx.Err()); err != nil {
		return runnel.Conversation{}, err
	}
	return u.locating.Find(ctx, id)
}

// reopened creates sessions that continue the conversation abc of u in their
// own project. It returns a gateway in which they are not open.
func (u *unreadable) reopened(t *testing.T, d *disk, n int) (g *Gateway, ids []string) {
	t.Helper()
	u.kept[0].Dir = d.dir
	u.open = func(o runnel.Options) (runnel.Conn, error) {
		c, err := script.New().Open(context.Background(), o)
		return &reporting{Conn: c, id: "abc"}, err
	}
	use := func(c *Config) { c.Providers = []runnel.Provider{u} }
	g = d.open(t, use)
	for range n {
		st, err := g.Create(t.Context(), "script", d.dir, runnel.Options{}, "")
		if err != nil {
			t.Fatal(err)
		}
		d.untilStatus(t, g, st.SessionID, func(st Status) bool { return st.AgentSessionID == "abc" })
		ids = append(ids, st.SessionID)
	}
	closeIt(t, g)
	return d.open(t, use), ids
}

// The client of a deletion can disconnect while the session is deleted. The
// conversation is hidden nevertheless.
func TestDeletionHidesConversationAfterClientDisconnects(t *testing.T) {
	d := newDisk(t)
	u := &unreadable{locating: locating{newKeeper(d)}}
	g, ids := u.reopened(t, d, 1)
	defer closeIt(t, g)
	ctx, disconnect := context.WithCancel(t.Context())
	_, err := HousekeepingOf(g).deleteIf(ctx, ids[0], func() error { disconnect(); return nil })
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	_, err = g.Status(t.Context(), ids[0])
	wantCode(t, err, runnel.SessionNotFound)
	if !g.hidden.isHidden("script:abc") {
		t.Error("the conversation of the deleted session is not hidden")
	}
}

// While the agent's conversations cannot be read, a deletion can neither hide
// the session's conversation, which may be one of another project, nor leave it
// visible. It fails and changes nothing.
func TestDeletionFailsIfTheConversationCannotBeHidden(t *testing.T) {
	d := newDisk(t)
	u := &unreadable{locating: locating{newKeeper(d)}}
	g, ids := u.reopened(t, d, 1)
	defer closeIt(t, g)
	id := ids[0]
	sent := send(t, g, id, "hang")
	d.until(t, id, is[event.ItemDelta])
	u.fails = errors.New("the database is malformed")
	_, err := HousekeepingOf(g).Delete(t.Context(), id)
	wantCode(t, err, runnel.AgentError)
	_, err = HousekeepingOf(g).Deletion(t.Context(), id)
	wantCode(t, err, runnel.AgentError)
	if st, err := g.Status(t.Context(), id); err != nil || st.TurnID != sent.TurnID {
		t.Errorf("after a deletion that failed: %+v, %v", st, err)
	}
	if g.hidden.isHidden("script:abc") {
		t.Error("the conversation is hidden, but the session stays")
	}
	u.fails = nil
	remove(t, g, id)
	if !g.hidden.isHidden("script:abc") {
		t.Error("the conversation of the deleted session is not hidden")
	}
}

// A search among an agent's conversations may take many seconds, in which nobody
// can open the session.
func TestDeletionOfAClosedSessionSearchesItsConversationOnce(t *testing.T) {
	d := newDisk(t)
	u := &unreadable{locating: locating{newKeeper(d)}}
	g, ids := u.reopened(t, d, 1)
	defer closeIt(t, g)
	u.searches.Store(0)
	if _, err := HousekeepingOf(g).DeleteIdle(t.Context(), ids[0]); err != nil {
		t.Fatal(err)
	}
	if n := u.searches.Load(); n != 1 {
		t.Errorf("searched %d times", n)
	}
}

// The retention policy skips a session whose conversation it cannot hide, and
// reports an error at its end.
func TestRetentionSkipsSessionWhoseConversationCannotBeHidden(t *testing.T) {
	d := newDisk(t)
	u := &unreadable{locating: locating{newKeeper(d)}}
	g, ids := u.reopened(t, d, 1)
	closeIt(t, g)
	var recorded []string
	use := func(c *Config) {
		c.Providers = []runnel.Provider{u, &fake{open: u.open}}
		c.AuditDeletion = func(e audit.Record) error { recorded = append(recorded, e.Session); return nil }
	}
	g = d.open(t, use)
	st, err := g.Create(t.Context(), "fake", d.dir, runnel.Options{}, "")
	if err != nil {
		t.Fatal(err)
	}
	closeIt(t, g)
	d.age(t, 72*time.Hour, ids[0])
	d.age(t, 48*time.Hour, st.SessionID)
	g = d.open(t, use)
	defer closeIt(t, g)
	u.fails = errors.New("the database is malformed")
	x, err := RetentionOf(g).Apply(t.Context(), RetentionPolicy{Age: 24 * time.Hour})
	wantCode(t, err, runnel.AgentError)
	if x.Count != 1 || x.Sessions[0].SessionID != st.SessionID {
		t.Errorf("deleted: %+v", x)
	}
	if _, err := g.Status(t.Context(), ids[0]); err != nil {
		t.Errorf("the skipped session: %v", err)
	}
	if !slices.Equal(recorded, []string{st.SessionID}) { // the audit log has nothing that did not happen
		t.Errorf("recorded deletions of %q, want one of %s", recorded, st.SessionID)
	}
}

// An agent can have a file of one conversation for each folder in which it was
// continued. It belongs to the projects of all these folders.
func TestDeletionHidesConversationThatWasContinuedElsewhere(t *testing.T) {
	for own, hidden := range map[bool]bool{true: true, false: false} {
		d := newDisk(t)
		u := &unreadable{locating: locating{newKeeper(d)}}
		g, ids := u.reopened(t, d, 1)
		u.kept[0].Dir = t.TempDir() // of the newest file
		u.kept[0].StoredFor = func(dir string) bool { return own && dir == d.dir }
		remove(t, g, ids[0])
		if g.hidden.isHidden("script:abc") != hidden {
			t.Errorf("a file in the session's own folder: %t; hidden: %t", own, !hidden)
		}
		closeIt(t, g)
	}
}

// unlisted is a locating keeper whose conversations nobody may list.
type unlisted struct {
	*unreadable
	listed atomic.Bool
}

func (u *unlisted) Discover(ctx context.Context, dir string) iter.Seq2[runnel.Conversation, error] {
	u.listed.Store(true)
	return u.unreadable.Discover(ctx, dir)
}

// To find the agent's copy of a conversation, a deletion lists no others. For
// many conversations that takes long, and some agents are started for it.
func TestDeletionListsNoConversations(t *testing.T) {
	d := newDisk(t)
	u := &unlisted{unreadable: &unreadable{locating: locating{newKeeper(d)}}}
	g, ids := u.reopened(t, d, 1)
	closeIt(t, g)
	g = d.open(t, func(c *Config) { c.Providers = []runnel.Provider{u} })
	defer closeIt(t, g)
	u.kept = nil // the agent deleted it
	u.listed.Store(false)
	if _, err := HousekeepingOf(g).Deletion(t.Context(), ids[0]); err != nil {
		t.Error(err)
	}
	remove(t, g, ids[0])
	if u.listed.Load() {
		t.Error("the deletion listed the agent's conversations")
	}
}
